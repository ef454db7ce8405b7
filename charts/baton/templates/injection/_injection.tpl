{{/*
What the two policies have in common: their name, and which Pods they are for.
*/}}
{{- define "baton.injection.name" -}}
{{ .Release.Name }}-inject
{{- end }}

{{- define "baton.injection.matchConstraints" -}}
matchPolicy: Equivalent
# Only what is labelled ever meets the policy.
objectSelector:
  matchLabels:
    {{ .Values.injection.prefix }}/inject: enabled
resourceRules:
  - apiGroups: [""]
    apiVersions: [v1]
    operations: [CREATE]
    resources: [pods]
{{- end }}

{{/*
Whether a Pod has a sidecar, as an expression of CEL.
*/}}
{{- define "baton.injection.hasSidecar" -}}
(object.spec.?initContainers.orValue([]) + object.spec.containers).exists(container, container.name == "baton")
{{- end }}

{{/*
How many annotations a labeled Pod may have. CEL's loops over a map take time that grows with the
square of its size, and 52,000 annotations fit into a Pod.
*/}}
{{- define "baton.injection.maxAnnotations" -}}
1000
{{- end }}

{{/*
The flags that an annotation can set, as the annotation spells them: those of `config`, which the schema lists.
*/}}
{{- define "baton.injection.flags" -}}
- answer-validity
- lease-duration
- log-format
- log-level
- max-clock-drift
- renew-deadline
- require-polling
- retry-period
{{- end }}

{{/*
Refuses servers that would not inject, and elections that nobody can be injected for, and says what does.
*/}}
{{- define "baton.injection.check" -}}
{{- if eq .Values.backend "zookeeper" -}}
{{- fail "injection.enabled gives Pods a sidecar whose election a Lease holds, and backend is zookeeper: take the chart baton-sidecar for those, or set backend to lease" -}}
{{- end -}}
{{- $version := .Values.kubeVersionOverride | default .Capabilities.KubeVersion.Version -}}
{{- if not (semverCompare ">=1.36.0-0" $version) -}}
{{- fail (printf "injection.enabled needs Kubernetes 1.36, whose API server is the first with MutatingAdmissionPolicy v1, and this one is %s: pipe manifests through `baton inject --restart-application never`, or take the chart baton-sidecar" $version) -}}
{{- end -}}
{{- end }}
