{{/*
The labels of an election's Pods. It takes a list: the election's name, its values, and the value that asks for them.
*/}}
{{- define "baton.podLabels" -}}
{{- $labels := (index . 1).podLabels -}}
{{- if not $labels -}}
{{- fail (printf "%s needs to know the Pods of each election: set elections.%s.podLabels to the labels that select them" (index . 2) (index . 0)) -}}
{{- end -}}
{{- toYaml $labels -}}
{{- end }}
