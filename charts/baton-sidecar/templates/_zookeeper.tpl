{{/*
What a sidecar has whose election an ensemble of ZooKeeper holds, in place of a Lease and of rights over it.
*/}}

{{/*
Whether it does: "true", or nothing. It refuses what does not go together. It takes the settings.
*/}}
{{- define "baton-sidecar.overZooKeeper" -}}
{{- $zookeeper := .zookeeper | default dict -}}
{{- if eq (.backend | default "lease") "zookeeper" -}}
{{- if not $zookeeper.servers -}}
{{- fail "backend is zookeeper, but no server is named: set zookeeper.servers, for example to zk-0.zk:2181,zk-1.zk:2181,zk-2.zk:2181" -}}
{{- end -}}
{{- if and $zookeeper.certificateSecret (not $zookeeper.caSecret) -}}
{{- fail "zookeeper.certificateSecret goes with zookeeper.caSecret, which the servers' certificates are judged by, and which turns TLS on" -}}
{{- end -}}
true
{{- else -}}
{{- range $key, $value := $zookeeper -}}
{{- if $value -}}
{{- fail (printf "zookeeper.%s is set, but a Lease holds the election: set backend to zookeeper, or leave it out" $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/*
How the ensemble is reached, as the program reads it from its environment. These take a list, as all of a Pod's do.
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

{{/*
Whether there is something secret to be mounted: "true", or nothing.
*/}}
{{- define "baton-sidecar.hasSecrets" -}}
{{- $settings := index . 1 -}}
{{- if include "baton-sidecar.overZooKeeper" $settings -}}
{{- with $settings.zookeeper -}}
{{- if or .authSecret .caSecret .certificateSecret }}true{{ end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "baton-sidecar.secretsMount" -}}
- name: {{ include "baton-sidecar.suffixed" (list "baton-zookeeper" (index . 1)) }}
  mountPath: /etc/baton/zookeeper
  readOnly: true
{{- end }}

{{/*
One volume of all Secrets, since one Secret may hold more than one of these. kubelet brings newer ones by itself, and the program
reads the files anew whenever it connects.
*/}}
{{- define "baton-sidecar.secretsVolume" -}}
{{- $zookeeper := (index . 1).zookeeper -}}
- name: {{ include "baton-sidecar.suffixed" (list "baton-zookeeper" (index . 1)) }}
  projected:
    sources:
      {{- with $zookeeper.authSecret }}
      - secret:
          name: {{ . | quote }}
          items: [{key: auth, path: auth}]
      {{- end }}
      {{- with $zookeeper.caSecret }}
      - secret:
          name: {{ . | quote }}
          items: [{key: ca.crt, path: ca.crt}]
      {{- end }}
      {{- with $zookeeper.certificateSecret }}
      - secret:
          name: {{ . | quote }}
          items: [{key: tls.crt, path: tls.crt}, {key: tls.key, path: tls.key}]
      {{- end }}
{{- end }}
