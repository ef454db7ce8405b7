{{/*
The rights of one election, as `baton rbac` prints them: a Role limited to the election's Lease, and
a RoleBinding to the service account of its Pods. `resourceNames` limits `create` too, because Baton
creates by PUT. With a Service, the Role covers its EndpointSlices too; with leaseEvents, Events. Renders nothing for other stores
without a Service.
*/}}
{{- define "baton-sidecar.rbac" -}}
{{- $root := index . 0 -}}
{{- $settings := index . 1 -}}
{{- $overLease := include "baton-sidecar.overLease" $settings -}}
{{- $slices := include "baton-sidecar.endpointSlice" $settings -}}
{{- if or $overLease $slices -}}
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
  {{- if $overLease }}
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    resourceNames: [{{ $election | quote }}]
    verbs: [get, watch, create, update]
  {{- end }}
  {{- with $slices }}
  - apiGroups: [discovery.k8s.io]
    resources: [endpointslices]
    resourceNames: [{{ printf "%s-ipv4" . | quote }}, {{ printf "%s-ipv6" . | quote }}]
    verbs: [get, update]
  {{- end }}
  {{- if ($settings.service | default dict).sidecarsCreateSlices }}
  # Kubernetes cannot limit this right by name: it covers each Service of the namespace.
  - apiGroups: [discovery.k8s.io]
    resources: [endpointslices]
    verbs: [create]
  {{- end }}
  {{- if and $overLease (or $settings.leaseEvents ($settings.config | default dict).leaseEvents) }}
  # Kubernetes cannot limit this right by name.
  - apiGroups: [""]
    resources: [events]
    verbs: [create]
  {{- end }}
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
