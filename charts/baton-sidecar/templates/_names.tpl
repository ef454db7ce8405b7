{{/*
The version of the program that this chart belongs to.
*/}}
{{- define "baton-sidecar.version" -}}
0.1.0
{{- end }}

{{/*
A name with the sidecar's suffix, if it has one. Takes a list: the name and the settings.
*/}}
{{- define "baton-sidecar.suffixed" -}}
{{ index . 0 }}{{ with (index . 1).suffix }}-{{ . }}{{ end }}
{{- end }}

{{/*
The full name of an image, from its `registry`, `repository`, `tag`, and `digest`.
*/}}
{{- define "baton-sidecar.image" -}}
{{- with .registry }}{{ . }}/{{ end -}}
{{- .repository -}}
{{- if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default (include "baton-sidecar.version" .) }}{{ end -}}
{{- end }}

{{/*
The labels that Kubernetes and Helm recommend for the objects of a chart.
*/}}
{{- define "baton-sidecar.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/name: {{ .Chart.Name | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/instance: {{ .Release.Name | trunc 63 | trimSuffix "-" | quote }}
{{- with .Chart.AppVersion }}
app.kubernetes.io/version: {{ . | quote }}
{{- end }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
