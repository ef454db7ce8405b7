{{/*
The rights of one election, as `baton rbac` prints them: a Role limited to the election's Lease, and
a RoleBinding to the service account of its Pods. `resourceNames` limits `create` too, because Baton
creates by PUT. Renders nothing for other stores.
*/}}
{{- define "baton-sidecar.rbac" -}}
{{- $root := index . 0 -}}
{{- $settings := index . 1 -}}
{{- if include "baton-sidecar.overLease" $settings -}}
{{- $election := required "no election is named: set `election` in the sidecar's values" $settings.election -}}
{{- $account := required "no service account is named: set `serviceAccountName` in the sidecar's values" $settings.serviceAccountName -}}
{{- $namespace := $settings.namespace | default $root.Release.Namespace -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $election | quote }}
  namespace: {{ $namespace | quote }}
  labels:
    {{- include "baton-sidecar.labels" $root | nindent 4 }}
rules:
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    resourceNames: [{{ $election | quote }}]
    verbs: [get, watch, create, update]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $election | quote }}
  namespace: {{ $namespace | quote }}
  labels:
    {{- include "baton-sidecar.labels" $root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $election | quote }}
subjects:
  - kind: ServiceAccount
    name: {{ $account | quote }}
    namespace: {{ $namespace | quote }}
{{- end -}}
{{- end }}
