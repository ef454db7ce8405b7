{{/*
The sidecar container. It is a native sidecar: it starts before the application, stops after it,
and lets a Job complete.

It has no liveness probe: the program has its own watchdog, and a sidecar killed by kubelet restarts
the application only sometimes. It has no readiness probe: a follower is as ready as a leader.
*/}}
{{- define "baton-sidecar.container" -}}
{{- $settings := index . 1 -}}
{{- $port := $settings.port | default 4040 | int -}}
- name: {{ include "baton-sidecar.suffixed" (list "baton" $settings) }}
  image: {{ include "baton-sidecar.image" $settings.image | quote }}
  imagePullPolicy: {{ $settings.image.pullPolicy }}
  restartPolicy: Always
  {{- if include "baton-sidecar.restarts" . }}
  # After any other exit code the application may still believe that it leads. 0 is a clean stop,
  # 2 a configuration error, 70 a fault of a follower, and 77 a refusal by the store.
  restartPolicyRules:
    - action: RestartAllContainers
      exitCodes:
        operator: NotIn
        values: [0, 2, 70, 77]
  {{- end }}
  env:
    {{- include "baton-sidecar.environment" . | nindent 4 }}
  ports:
    # Listens on localhost only, for the containers of this Pod.
    - name: {{ include "baton-sidecar.suffixed" (list "baton" $settings) }}
      containerPort: {{ $port }}
    - name: {{ include "baton-sidecar.suffixed" (list (ternary "metrics" "baton-metrics" (not (empty $settings.suffix))) $settings) }}
      containerPort: {{ add1 $port }}
  lifecycle:
    preStop:
      # Ends all promises when the Pod starts to terminate. The release after the application's
      # exit then waits for no promise.
      exec:
        command: [/baton, stopping]
  terminationMessagePolicy: FallbackToLogsOnError
  resources:
    {{- toYaml $settings.resources | nindent 4 }}
  securityContext:
    {{- include "baton-sidecar.securityContext" . | nindent 4 }}
  volumeMounts:
    - name: {{ include "baton-sidecar.suffixed" (list "baton-state" $settings) }}
      mountPath: /var/lib/baton
    {{- if include "baton-sidecar.hasSecrets" . }}
    {{- include "baton-sidecar.secretsMount" . | nindent 4 }}
    {{- end }}
{{- end }}

{{/*
The user is not a common one, such as 65532 of distroless images: where the containers of a Pod share
their processes, those of one user can signal each other.
*/}}
{{- define "baton-sidecar.securityContext" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
readOnlyRootFilesystem: true
runAsGroup: 40404
runAsNonRoot: true
runAsUser: 40404
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/*
The environment variables that set the program's flags in a sidecar.
*/}}
{{- define "baton-sidecar.environment" -}}
{{- if not (include "baton-sidecar.restarts" .) }}
# No rule restarts the application here: it must stop when the sidecar's answer changes.
- name: BATON_ON_LOST
  value: stay
{{- end }}
{{ include "baton-sidecar.candidateEnvironment" . }}
{{- end }}

{{/*
The environment variables that a sidecar and `baton exec` have in common.
*/}}
{{- define "baton-sidecar.candidateEnvironment" -}}
{{- $settings := index . 1 -}}
{{- include "baton-sidecar.checkTiming" $settings -}}
- name: BATON_ELECTION
  value: {{ required "no election is named: set `election` in the sidecar's values" $settings.election | quote }}
- name: BATON_STATE_DIRECTORY
  value: /var/lib/baton
{{- if not (include "baton-sidecar.overLease" $settings) }}
{{ include "baton-sidecar.storeEnvironment" . }}
{{- end }}
{{- $port := $settings.port | default 4040 | int }}
{{- if ne $port 4040 }}
- name: BATON_LISTEN
  value: localhost:{{ $port }}
- name: BATON_PROBE_LISTEN
  value: ":{{ add1 $port }}"
{{- end }}
{{- $stoppingLimit := add ($settings.terminationGracePeriodSeconds | default 0 | int) 60 }}
{{- if and (gt $stoppingLimit 600) (not (hasKey ($settings.config | default dict) "stoppingLimit")) }}
# The Pod may take longer to end than a withdrawal by the preStop hook lasts by default.
- name: BATON_STOPPING_LIMIT
  value: {{ $stoppingLimit }}s
{{- end }}
{{- with include "baton-sidecar.routingEnvironment" $settings | trim }}
{{ . }}
{{- end }}
{{- range $flag, $value := $settings.config }}
- name: BATON_{{ snakecase $flag | upper }}
  value: {{ $value | quote }}
{{- end }}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: POD_IPS
  valueFrom:
    fieldRef:
      fieldPath: status.podIPs
{{- end }}

{{/*
Whether lost leadership restarts all containers of the Pod: "true" or empty.
*/}}
{{- define "baton-sidecar.restarts" -}}
{{- $root := index . 0 -}}
{{- $settings := index . 1 -}}
{{- $version := $settings.kubeVersionOverride | default $root.Capabilities.KubeVersion.Version -}}
{{- if eq $settings.restartApplication "always" -}}
true
{{- else if and (eq $settings.restartApplication "auto") (semverCompare ">=1.36.0-0" $version) -}}
true
{{- end -}}
{{- end }}
