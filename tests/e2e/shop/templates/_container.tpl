{{/*
A container of the demo's image, without name and arguments. The image has application and ledger.
*/}}
{{- define "shop.container" -}}
image: {{ .Values.image }}
securityContext:
  allowPrivilegeEscalation: false
  capabilities:
    drop: [ALL]
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  seccompProfile:
    type: RuntimeDefault
{{- end }}
