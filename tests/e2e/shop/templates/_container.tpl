{{/*
A container of the demo's image, without name and arguments. The image has application and ledger.
*/}}
{{- define "shop.container" -}}
image: {{ .Values.image }}
securityContext:
  {{- include "shop.securityContext" . | nindent 2 }}
{{- end }}

{{- define "shop.securityContext" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
readOnlyRootFilesystem: true
runAsNonRoot: true
seccompProfile:
  type: RuntimeDefault
{{- end }}
