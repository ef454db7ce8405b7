{{/*
The sidecar and its volumes, for a Pod without init containers and volumes of its own. Other Pods
include baton-sidecar.container as the first init container, and baton-sidecar.volume.

Each template here takes a list: the chart's context, and the sidecar's settings as in values.yaml.
*/}}
{{- define "baton-sidecar.pod" -}}
initContainers:
  {{- include "baton-sidecar.container" . | nindent 2 }}
volumes:
  {{- include "baton-sidecar.volume" . | nindent 2 }}
{{- end }}

{{/*
The state directory, which keeps the end of the last run across container restarts but not beyond
the Pod, and the Secrets for ZooKeeper or etcd, if any are set.
*/}}
{{- define "baton-sidecar.volume" -}}
- name: {{ include "baton-sidecar.suffixed" (list "baton-state" (index . 1)) }}
  emptyDir:
    sizeLimit: 1Mi
{{- if include "baton-sidecar.hasSecrets" . }}
{{ include "baton-sidecar.secretsVolume" . }}
{{- end }}
{{- end }}
