{{/*
What a Pod with a sidecar has, for a Pod that has neither init containers nor volumes of its own. One that has takes
baton-sidecar.container and baton-sidecar.volume instead, as items of its lists; the sidecar goes first.

Each template here takes a list: the context of the chart, and the sidecar's settings as in this chart's values.yaml.
*/}}
{{- define "baton-sidecar.pod" -}}
initContainers:
  {{- include "baton-sidecar.container" . | nindent 2 }}
volumes:
  {{- include "baton-sidecar.volume" . | nindent 2 }}
{{- end }}

{{/*
Where the sidecar keeps how its last run ended, which outlives a restart of the container, and not its Pod; and the Secrets of
an ensemble, where it is told of some.
*/}}
{{- define "baton-sidecar.volume" -}}
- name: {{ include "baton-sidecar.suffixed" (list "baton-state" (index . 1)) }}
  emptyDir:
    sizeLimit: 1Mi
{{- if include "baton-sidecar.hasSecrets" . }}
{{ include "baton-sidecar.secretsVolume" . }}
{{- end }}
{{- end }}
