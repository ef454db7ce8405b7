{{/*
Templates for elections in a ZooKeeper ensemble.
*/}}

{{/*
Whether ZooKeeper is the store: "true" or empty. Refuses settings that contradict each other. Takes
the settings.
*/}}
{{- define "baton-sidecar.overZooKeeper" -}}
{{- $zookeeper := .zookeeper | default dict -}}
{{- if eq (.backend | default "lease") "zookeeper" -}}
{{- if not $zookeeper.servers -}}
{{- fail "backend is zookeeper, but no server is named: set zookeeper.servers, for example to zk-0.zk:2181,zk-1.zk:2181,zk-2.zk:2181" -}}
{{- end -}}
{{- if and $zookeeper.certificateSecret (not $zookeeper.caSecret) -}}
{{- fail "zookeeper.certificateSecret needs zookeeper.caSecret, which verifies the servers' certificates and turns TLS on" -}}
{{- end -}}
true
{{- else -}}
{{- range $key, $value := $zookeeper -}}
{{- if $value -}}
{{- fail (printf "zookeeper.%s is set, but backend is %s: set backend to zookeeper, or remove zookeeper.%s" $key ($.backend | default "lease") $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/*
The environment variables for the ensemble. Takes the same list as baton-sidecar.pod.
*/}}
{{- define "baton-sidecar.zookeeperEnvironment" -}}
{{- $zookeeper := (index . 1).zookeeper -}}
- name: BATON_BACKEND
  value: zookeeper
- name: BATON_ZOOKEEPER_SERVERS
  value: {{ $zookeeper.servers | quote }}
{{- with $zookeeper.path }}
- name: BATON_ZOOKEEPER_PATH
  value: {{ . | quote }}
{{- end }}
{{- with $zookeeper.tickTime }}
- name: BATON_ZOOKEEPER_TICK_TIME
  value: {{ . | quote }}
{{- end }}
{{- with $zookeeper.authSecret }}
- name: BATON_ZOOKEEPER_AUTH_FILE
  value: /etc/baton/zookeeper/auth
{{- end }}
{{- with $zookeeper.caSecret }}
- name: BATON_ZOOKEEPER_CA_FILE
  value: /etc/baton/zookeeper/ca.crt
{{- end }}
{{- with $zookeeper.certificateSecret }}
- name: BATON_ZOOKEEPER_CERT_FILE
  value: /etc/baton/zookeeper/tls.crt
- name: BATON_ZOOKEEPER_KEY_FILE
  value: /etc/baton/zookeeper/tls.key
{{- end }}
{{- end }}
