{{/*
A YAML value as a CEL expression. Kubernetes requires one type for all values of a map or list, so
each is a `dyn`.
*/}}
{{- define "baton.cel" -}}
{{- $value := . -}}
{{- if kindIs "map" $value -}}
{
{{- range $n, $key := keys $value | sortAlpha -}}
{{- if $n }}, {{ end }}{{ toJson $key }}: dyn({{ include "baton.cel" (get $value $key) }})
{{- end -}}
}
{{- else if kindIs "slice" $value -}}
[
{{- range $n, $item := $value -}}
{{- if $n }}, {{ end }}dyn({{ include "baton.cel" $item }})
{{- end -}}
]
{{- else -}}
{{- toJson $value -}}
{{- end -}}
{{- end }}
