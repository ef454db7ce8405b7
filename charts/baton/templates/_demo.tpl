{{/*
The name of the demo's objects and of its election. It leaves room for the suffixes of other names.
*/}}
{{- define "baton.demo.name" -}}
{{- $release := contains .Chart.Name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) -}}
{{ $release | trunc 45 | trimSuffix "-" }}-demo
{{- end }}

{{- define "baton.demo.ledger" -}}
{{ include "baton.demo.name" . }}-ledger
{{- end }}

{{/*
The labels that select the Pods of one component. Takes a list: the context and the component.
*/}}
{{- define "baton.demo.selector" -}}
app.kubernetes.io/name: {{ (index . 0).Chart.Name }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/*
All labels of one component. Takes the same list.
*/}}
{{- define "baton.demo.labels" -}}
{{ include "baton-sidecar.labels" (index . 0) }}
app.kubernetes.io/component: {{ index . 1 }}
app.kubernetes.io/part-of: {{ include "baton.demo.name" (index . 0) }}
{{- end }}

{{/*
A container of the demo's image, without name and arguments.
*/}}
{{- define "baton.demo.container" -}}
{{- $image := .Values.demo.image -}}
image: {{ include "baton-sidecar.image" (dict
  "registry" ($image.registry | default .Values.image.registry)
  "repository" $image.repository
  "tag" ($image.tag | default .Values.image.tag)
  "digest" $image.digest) | quote }}
imagePullPolicy: {{ $image.pullPolicy | default .Values.image.pullPolicy }}
resources:
  requests:
    cpu: 10m
    memory: 16Mi
  limits:
    memory: 32Mi
securityContext:
  allowPrivilegeEscalation: false
  capabilities:
    drop: [ALL]
  readOnlyRootFilesystem: true
  runAsGroup: 65532
  runAsNonRoot: true
  runAsUser: 65532
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{/*
The settings of the demo's sidecar: the values of this chart, the election, and the account.
*/}}
{{- define "baton.demo.settings" -}}
{{- $name := include "baton.demo.name" . -}}
{{- merge (dict "election" $name "serviceAccountName" $name) (omit .Values "demo" "elections") | toJson -}}
{{- end }}
