{{/*
The sidecar: a native one, so that it starts before the application, ends after it, and lets a Job complete.

No liveness and no readiness probe, on purpose. kubelet's kill of a sidecar moves the application only sometimes, and the
program has a watchdog of its own; and a follower is as ready as a leader.
*/}}
{{- define "baton-sidecar.container" -}}
{{- $settings := index . 1 -}}
{{- $port := $settings.port | default 4040 | int -}}
- name: {{ include "baton-sidecar.suffixed" (list "baton" $settings) }}
  image: {{ include "baton-sidecar.image" $settings.image | quote }}
  imagePullPolicy: {{ $settings.image.pullPolicy }}
  restartPolicy: Always
  {{- if include "baton-sidecar.restarts" . }}
  # Anything but a clean stop (0), a mistake of configuration (2), a fault while following (70) and a refusal of the
  # store (77) may have left an application that believes that it leads.
  restartPolicyRules:
    - action: RestartAllContainers
      exitCodes:
        operator: NotIn
        values: [0, 2, 70, 77]
  {{- end }}
  env:
    {{- include "baton-sidecar.environment" . | nindent 4 }}
  ports:
    # On localhost only: for the containers of this Pod.
    - name: {{ include "baton-sidecar.suffixed" (list "baton" $settings) }}
      containerPort: {{ $port }}
    - name: {{ include "baton-sidecar.suffixed" (list (ternary "metrics" "baton-metrics" (not (empty $settings.suffix))) $settings) }}
      containerPort: {{ add1 $port }}
  lifecycle:
    preStop:
      # Promises nothing more from the moment when the Pod begins to end, so that the release, which follows the
      # application's end, waits for nobody.
      exec:
        command: [/baton, stopping]
  terminationMessagePolicy: FallbackToLogsOnError
  resources:
    {{- toYaml $settings.resources | nindent 4 }}
  securityContext:
    allowPrivilegeEscalation: false
    capabilities:
      drop: [ALL]
    readOnlyRootFilesystem: true
    runAsGroup: 65532
    runAsNonRoot: true
    runAsUser: 65532
    seccompProfile:
      type: RuntimeDefault
  volumeMounts:
    - name: {{ include "baton-sidecar.suffixed" (list "baton-state" $settings) }}
      mountPath: /var/lib/baton
    {{- if include "baton-sidecar.hasSecrets" . }}
    {{- include "baton-sidecar.secretsMount" . | nindent 4 }}
    {{- end }}
{{- end }}

{{/*
The program's flags, as it reads them from its environment.
*/}}
{{- define "baton-sidecar.environment" -}}
{{- $settings := index . 1 -}}
{{- include "baton-sidecar.checkTiming" $settings -}}
- name: BATON_ELECTION
  value: {{ required "no election is named: set `election` beside the other values of the sidecar" $settings.election | quote }}
{{- if not (include "baton-sidecar.restarts" .) }}
# Nothing restarts the application here, so it stops because it asks.
- name: BATON_ON_LOST
  value: stay
{{- end }}
- name: BATON_STATE_DIRECTORY
  value: /var/lib/baton
{{- if include "baton-sidecar.overZooKeeper" $settings }}
{{ include "baton-sidecar.zookeeperEnvironment" . }}
{{- end }}
{{- $port := $settings.port | default 4040 | int }}
{{- if ne $port 4040 }}
- name: BATON_LISTEN
  value: localhost:{{ $port }}
- name: BATON_PROBE_LISTEN
  value: ":{{ add1 $port }}"
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
{{- end }}

{{/*
Whether a lost leadership restarts all containers of the Pod: "true", or nothing.
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
