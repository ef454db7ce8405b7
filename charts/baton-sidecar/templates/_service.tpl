{{/*
The Service that leads to the leader only, and its EndpointSlices, if `service.port` is set. Takes the
same list as baton-sidecar.pod.

The slices have neither `endpoints` nor `ports`: the leader's sidecar writes both. A field that is not
in the manifest survives each upgrade, by both of Helm's merges. An empty list would not.
*/}}
{{- define "baton-sidecar.service" -}}
{{- $root := index . 0 -}}
{{- $settings := index . 1 -}}
{{- $service := $settings.service | default dict -}}
{{- if $service.port -}}
{{- $name := include "baton-sidecar.endpointSlice" $settings -}}
{{- $namespace := $settings.namespace | default $root.Release.Namespace -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ $name | quote }}
  namespace: {{ $namespace | quote }}
  labels:
    {{- include "baton-sidecar.labels" $root | nindent 4 }}
spec:
  # Without a selector, Kubernetes leaves the endpoints to the sidecars.
  ipFamilyPolicy: PreferDualStack
  ports:
    - port: {{ $service.port }}
      targetPort: {{ $service.targetPort | default $service.port }}
      {{- with $service.portName }}
      name: {{ . | quote }}
      {{- end }}
{{- if not $service.sidecarsCreateSlices }}
{{- range $family := list "IPv4" "IPv6" }}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: {{ printf "%s-%s" $name (lower $family) | quote }}
  namespace: {{ $namespace | quote }}
  labels:
    {{- include "baton-sidecar.labels" $root | nindent 4 }}
    kubernetes.io/service-name: {{ $name | quote }}
    endpointslice.kubernetes.io/managed-by: baton
addressType: {{ $family }}
{{- end }}
{{- end }}
{{- end -}}
{{- end }}

{{/*
The Service whose EndpointSlices the leader writes, or empty: `config.endpointSlice`, or with
`service.port` the election. Takes the settings.
*/}}
{{- define "baton-sidecar.endpointSlice" -}}
{{- $config := .config | default dict -}}
{{- $service := .service | default dict -}}
{{- $name := $config.endpointSlice | default (ternary .election "" (not (empty $service.port))) -}}
{{- if and $name (or (not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name)) (gt (len $name) 63)) -}}
{{- fail (printf "no Service can have the name %s of the election: set config.endpointSlice to at most 63 lower-case letters, digits, and '-', with a letter first, or remove service.port" $name) -}}
{{- end -}}
{{- $name -}}
{{- end }}

{{/*
The environment variables that let the leader publish its addresses. Takes the settings.
*/}}
{{- define "baton-sidecar.routingEnvironment" -}}
{{- $config := .config | default dict -}}
{{- $service := .service | default dict -}}
{{- if and $service.port (not $config.endpointSlice) -}}
- name: BATON_ENDPOINT_SLICE
  value: {{ include "baton-sidecar.endpointSlice" . | quote }}
{{- end }}
{{- if and $service.port (not $config.endpointPort) }}
- name: BATON_ENDPOINT_PORT
  value: {{ printf "%s%v" (empty $service.portName | ternary "" (printf "%s=" $service.portName)) ($service.targetPort | default $service.port) | quote }}
{{- end -}}
{{- end }}
