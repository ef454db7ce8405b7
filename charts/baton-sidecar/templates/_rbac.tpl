{{/*
The rights of one election: a Role limited to its Lease, and the binding to the service account of its Pods. This is what
`baton rbac` prints. Creation is limited by the name too, for Baton creates by PUT. Over ZooKeeper there are none to be had.
*/}}
{{- define "baton-sidecar.rbac" -}}
{{- $root := index . 0 -}}
{{- $settings := index . 1 -}}
{{- if not (include "baton-sidecar.overZooKeeper" $settings) -}}
{{- $election := required "no election is named: set `election` beside the other values of the sidecar" $settings.election -}}
{{- $account := required "nobody is named who may take part: set `serviceAccountName` beside the other values of the sidecar" $settings.serviceAccountName -}}
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
