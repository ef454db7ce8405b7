{{/*
The labels of an election's Pods. Takes a list: the election, its values, and the key of the value
that needs the labels.
*/}}
{{- define "baton.podLabels" -}}
{{- $labels := (index . 1).podLabels -}}
{{- if not $labels -}}
{{- fail (printf "%s needs the labels of each election's Pods: set elections.%s.podLabels" (index . 2) (index . 0)) -}}
{{- end -}}
{{- toYaml $labels -}}
{{- end }}
