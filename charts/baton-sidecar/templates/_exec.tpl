{{/*
A Pod template whose application runs by `baton exec`, only while it leads. Takes a list: the chart's
context, the settings as in values.yaml, and your Pod template (`metadata` and `spec`) as a dict.

The Pod has no sidecar. Its followers run no application, so Baton's own probes replace those of the
application's container, which would block every rollout.
*/}}
{{- define "baton-sidecar.exec" -}}
{{- $settings := index . 1 -}}
{{- $template := deepCopy (index . 2) -}}
{{- include "baton-sidecar.checkExec" . -}}
{{- $spec := $template.spec -}}
{{- $name := $settings.exec.container | default (first $spec.containers).name -}}
{{- $containers := list -}}
{{- range $spec.containers -}}
{{- if eq .name $name -}}
{{- $containers = append $containers (include "baton-sidecar.execContainer" (append $ .) | fromYaml) -}}
{{- else -}}
{{- $containers = append $containers . -}}
{{- end -}}
{{- end -}}
{{- $_ := set $spec "containers" $containers -}}
{{- $volumes := include "baton-sidecar.volume" . | fromYamlArray -}}
{{- if not $settings.exec.path -}}
{{- $install := include "baton-sidecar.installContainer" . | fromYamlArray -}}
{{- $_ := set $spec "initContainers" (concat $install ($spec.initContainers | default list)) -}}
{{- $binary := dict "name" (include "baton-sidecar.suffixed" (list "baton-bin" $settings)) "emptyDir" (dict "sizeLimit" "64Mi") -}}
{{- $volumes = append $volumes $binary -}}
{{- end -}}
{{- $_ := set $spec "volumes" (concat $volumes ($spec.volumes | default list)) -}}
{{- if not $spec.serviceAccountName -}}
{{- with $settings.serviceAccountName -}}
{{- $_ := set $spec "serviceAccountName" . -}}
{{- end -}}
{{- end -}}
{{- toYaml $template -}}
{{- end }}

{{/*
The application's container, run by `baton exec`. Takes the same list with the container at its end.
*/}}
{{- define "baton-sidecar.execContainer" -}}
{{- $settings := index . 1 -}}
{{- $container := index . 3 -}}
{{- if not $container.command -}}
{{- fail (printf "container %s has no command: set its whole command line, since `baton exec` replaces the image's ENTRYPOINT" $container.name) -}}
{{- end -}}
{{- $path := $settings.exec.path | default "/opt/baton/baton" -}}
{{- $_ := set $container "command" (concat (list $path "exec" "--") $container.command) -}}
{{- $ours := include "baton-sidecar.execEnvironment" . | fromYamlArray -}}
{{- $names := list -}}
{{- range $container.env -}}
{{- if hasPrefix "BATON_" .name -}}
{{- fail (printf "container %s sets %s: set it in the sidecar's values instead" $container.name .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- $environment := list -}}
{{- range $ours -}}
{{- if not (has .name $names) -}}
{{- $environment = append $environment . -}}
{{- end -}}
{{- end -}}
{{- $_ := set $container "env" (concat $environment ($container.env | default list)) -}}
{{- range $key, $items := include "baton-sidecar.execItems" . | fromYaml -}}
{{- $_ := set $container $key (concat $items (index $container $key | default list)) -}}
{{- end -}}
{{- $probes := add1 ($settings.port | default 4040 | int) -}}
{{- $_ := unset $container "startupProbe" -}}
{{- $_ := set $container "livenessProbe" (dict "httpGet" (dict "path" "/healthz" "port" $probes)) -}}
{{- $_ := set $container "readinessProbe" (dict "httpGet" (dict "path" "/readyz" "port" $probes)) -}}
{{- toYaml $container -}}
{{- end }}

{{- define "baton-sidecar.execEnvironment" -}}
{{- $exec := (index . 1).exec -}}
- name: BATON_ON_LOST
  value: {{ $exec.onLost | default "stay" }}
- name: BATON_KILL_AFTER
  value: {{ $exec.killAfter | default "2s" }}
- name: BATON_STOP_TIMEOUT
  value: {{ $exec.stopTimeout | default "20s" }}
- name: BATON_NICE
  value: {{ hasKey $exec "nice" | ternary $exec.nice 5 | int | quote }}
{{ include "baton-sidecar.candidateEnvironment" . }}
{{- end }}

{{/*
What the application's container gets in its lists of ports and mounts.
*/}}
{{- define "baton-sidecar.execItems" -}}
{{- $settings := index . 1 -}}
{{- $port := $settings.port | default 4040 | int -}}
ports:
  - name: {{ include "baton-sidecar.suffixed" (list (ternary "metrics" "baton-metrics" (not (empty $settings.suffix))) $settings) }}
    containerPort: {{ add1 $port }}
volumeMounts:
  - name: {{ include "baton-sidecar.suffixed" (list "baton-state" $settings) }}
    mountPath: /var/lib/baton
  {{- if not $settings.exec.path }}
  - name: {{ include "baton-sidecar.suffixed" (list "baton-bin" $settings) }}
    mountPath: /opt/baton
    readOnly: true
  {{- end }}
  {{- if include "baton-sidecar.hasSecrets" . }}
  {{- include "baton-sidecar.secretsMount" . | nindent 2 }}
  {{- end }}
{{- end }}

{{/*
The init container that copies the program into a volume, for an image without it.
*/}}
{{- define "baton-sidecar.installContainer" -}}
{{- $settings := index . 1 -}}
- name: {{ include "baton-sidecar.suffixed" (list "baton-install" $settings) }}
  image: {{ include "baton-sidecar.image" $settings.image | quote }}
  imagePullPolicy: {{ $settings.image.pullPolicy }}
  args: [install, /opt/baton]
  terminationMessagePolicy: FallbackToLogsOnError
  resources:
    {{- toYaml $settings.resources | nindent 4 }}
  securityContext:
    {{- include "baton-sidecar.securityContext" . | nindent 4 }}
  volumeMounts:
    - name: {{ include "baton-sidecar.suffixed" (list "baton-bin" $settings) }}
      mountPath: /opt/baton
{{- end }}

{{/*
Refuses a Pod template and settings that do not go together.
*/}}
{{- define "baton-sidecar.checkExec" -}}
{{- $settings := index . 1 -}}
{{- $template := index . 2 -}}
{{- $exec := $settings.exec -}}
{{- with $template.Error -}}
{{- fail (printf "the Pod template is not YAML: %s" .) -}}
{{- end -}}
{{- $metadata := $template.metadata | default dict -}}
{{- if hasKey ($metadata.labels | default dict) "baton/inject" -}}
{{- fail "the Pod template has the label baton/inject, which would add a second candidate to a Pod that runs `baton exec`: remove the label" -}}
{{- end -}}
{{- $names := list -}}
{{- range $template.spec.containers -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- with $exec.container -}}
{{- if not (has . $names) -}}
{{- fail (printf "exec.container is %s, but the Pod has only: %s" . (join ", " $names)) -}}
{{- end -}}
{{- end -}}
{{- if ($settings.config | default dict).requirePolling -}}
{{- fail "config.requirePolling does nothing for `baton exec`, which stops the application itself: remove it" -}}
{{- end -}}
{{- if ($settings.config | default dict).fitUrl -}}
{{- fail "config.fitUrl does not work with `baton exec`, because the application does not run before its candidate leads: remove it" -}}
{{- end -}}
{{- include "baton-sidecar.checkTiming" (merge (dict "killAfter" ($exec.killAfter | default "2s")) $settings) -}}
{{- $grace := 30 -}}
{{- if hasKey $template.spec "terminationGracePeriodSeconds" -}}
{{- $grace = $template.spec.terminationGracePeriodSeconds | int64 -}}
{{- end -}}
{{- $stop := $exec.stopTimeout | default "20s" -}}
{{- if le (mul 1000 $grace) (include "baton-sidecar.milliseconds" $stop | int64) -}}
{{- fail (printf "exec.stopTimeout is %s, but kubelet kills the Pod after %ds: set a longer terminationGracePeriodSeconds, or a shorter exec.stopTimeout" $stop $grace) -}}
{{- end -}}
{{- end }}
