{{/*
The parts that both policies share: their name, and the Pods that they match.
*/}}
{{- define "baton.injection.name" -}}
{{ .Release.Name }}-inject
{{- end }}

{{- define "baton.injection.matchConstraints" -}}
matchPolicy: Equivalent
# The API server evaluates the policy for labeled Pods only.
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
A CEL expression: whether the Pod has a sidecar.
*/}}
{{- define "baton.injection.hasSidecar" -}}
(object.spec.?initContainers.orValue([]) + object.spec.containers).exists(container, container.name == "baton")
{{- end }}

{{/*
CEL expressions: whether the Pod suits a sidecar, for each reason that can prevent it.
*/}}
{{- define "baton.injection.hasPodNetwork" -}}
!object.spec.?hostNetwork.orValue(false)
{{- end }}

{{- define "baton.injection.hasStateVolume" -}}
object.spec.?volumes.orValue([]).all(volume, volume.name != "baton-state" || has(volume.emptyDir))
{{- end }}

{{- define "baton.injection.isForLinux" -}}
object.spec.?os.?name.orValue("") != "windows"
&& object.spec.?nodeSelector[?"kubernetes.io/os"].orValue("") != "windows"
{{- end }}

{{/*
How many annotations a labeled Pod may have. CEL's loops over a map take time that grows with the
square of its size, and 52,000 annotations fit into a Pod.
*/}}
{{- define "baton.injection.maxAnnotations" -}}
1000
{{- end }}

{{/*
The flags that annotations can set: those of `config` in the schema, in kebab case.
*/}}
{{- define "baton.injection.flags" -}}
- answer-validity
- endpoint-port
- endpoint-slice
- fit-failures
- fit-period
- fit-timeout
- fit-url
- lease-duration
- lease-events
- log-format
- log-level
- max-clock-drift
- renew-deadline
- require-polling
- retry-period
- stand-after
- stopping-limit
{{- end }}

{{/*
The version of MutatingAdmissionPolicy: v1 since Kubernetes 1.36, v1beta1 where a 1.34 or 1.35 server
has it on, or empty.
*/}}
{{- define "baton.injection.apiVersion" -}}
{{- $beta := "admissionregistration.k8s.io/v1beta1" -}}
{{- if semverCompare ">=1.36.0-0" (.Values.kubeVersionOverride | default .Capabilities.KubeVersion.Version) -}}
admissionregistration.k8s.io/v1
{{- else if .Capabilities.APIVersions.Has (printf "%s/MutatingAdmissionPolicy" $beta) -}}
{{ $beta }}
{{- end -}}
{{- end }}

{{/*
Refuses servers without MutatingAdmissionPolicy, and stores other than Leases.
*/}}
{{- define "baton.injection.check" -}}
{{- if ne .Values.backend "lease" -}}
{{- fail (printf "injection.enabled works with Leases only, but backend is %s: use the chart baton-sidecar, or set backend to lease" .Values.backend) -}}
{{- end -}}
{{- $version := .Values.kubeVersionOverride | default .Capabilities.KubeVersion.Version -}}
{{- if not (include "baton.injection.apiVersion" .) -}}
{{- fail (printf "injection.enabled needs MutatingAdmissionPolicy v1 of Kubernetes 1.36, or v1beta1, but the server is %s and has neither: apply the output of `baton inject --kyverno`, pipe manifests through `baton inject --restart-application never`, or use the chart baton-sidecar" $version) -}}
{{- end -}}
{{- end }}
