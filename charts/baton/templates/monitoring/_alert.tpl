{{/*
One rule of files/alerts.yaml with its placeholders replaced, and with its runbook. Takes a list: the
context, the rule, and further labels, which also replace placeholders in upper case.
*/}}
{{- define "baton.alert" -}}
{{- $root := index . 0 -}}
{{- $name := (index . 1).alert -}}
{{- $values := $root.Values.prometheusRule -}}
{{- $window := get $values.window $name -}}
{{- $unit := get (dict "s" 1 "m" 60 "h" 3600 "d" 86400) (regexFind "[smhd]" $window) -}}
{{- $text := toYaml (index . 1)
    | replace "FOR" (get $values.for $name)
    | replace "WINDOW" $window
    | replace "SECONDS" (mul (regexFind "[0-9]+" $window) $unit | toString) -}}
{{- range $label, $value := index . 2 -}}
{{- $text = replace (upper $label) $value $text -}}
{{- end -}}
{{- $rule := fromYaml $text -}}
{{- /* Not by the text, where `null` would not stay a name. */ -}}
{{- $_ := set $rule "labels" (merge (index . 2) $rule.labels) -}}
{{- with $values.runbookUrl -}}
{{- $_ := set $rule.annotations "runbook_url" (printf "%s/%s.md" (trimSuffix "/" .) $name) -}}
{{- else -}}
{{- /* Links do not work in an alert: keep their text, and the paths of other pages. */ -}}
{{- $page := $root.Files.Get (printf "files/runbooks/%s.md" $name) -}}
{{- $page = regexReplaceAll "\\[([^\\]]*)\\]\\(\\.\\./\\.\\./([^)]*)\\)" $page "${1} (docs/${2})" -}}
{{- $page = regexReplaceAll "\\[([^\\]]*)\\]\\(\\.\\./([^)]*)\\)" $page "${1} (docs/operating/${2})" -}}
{{- $page = regexReplaceAll "\\[([^\\]]*)\\]\\([^)]*\\)" $page "${1}" -}}
{{- $_ := set $rule.annotations "runbook" $page -}}
{{- end -}}
{{- toYaml (list $rule) -}}
{{- end }}
