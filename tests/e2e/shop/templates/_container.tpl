{{/*
A container of the demo's image, which has the application and the ledger, but for its name and arguments.
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
