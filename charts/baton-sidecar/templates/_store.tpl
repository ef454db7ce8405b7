{{/*
What depends on the store of the election: a Lease, ZooKeeper, or etcd.
*/}}

{{/*
Whether a Lease is the store: "true" or empty. Refuses settings of another store. Takes the settings.
*/}}
{{- define "baton-sidecar.overLease" -}}
{{- $overZooKeeper := include "baton-sidecar.overZooKeeper" . -}}
{{- $overEtcd := include "baton-sidecar.overEtcd" . -}}
{{- if not (or $overZooKeeper $overEtcd) }}true{{ end -}}
{{- end }}

{{/*
The environment variables for a store other than a Lease. This and the following templates take the
same list as baton-sidecar.pod.
*/}}
{{- define "baton-sidecar.storeEnvironment" -}}
{{- if include "baton-sidecar.overEtcd" (index . 1) -}}
{{ include "baton-sidecar.etcdEnvironment" . }}
{{- else -}}
{{ include "baton-sidecar.zookeeperEnvironment" . }}
{{- end -}}
{{- end }}

{{/*
Whether any Secret is to be mounted: "true" or empty.
*/}}
{{- define "baton-sidecar.hasSecrets" -}}
{{- $settings := index . 1 -}}
{{- if not (include "baton-sidecar.overLease" $settings) -}}
{{- with index $settings $settings.backend -}}
{{- if or .authSecret .userSecret .caSecret .certificateSecret }}true{{ end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "baton-sidecar.secretsMount" -}}
{{- $backend := (index . 1).backend -}}
- name: {{ include "baton-sidecar.suffixed" (list (printf "baton-%s" $backend) (index . 1)) }}
  mountPath: /etc/baton/{{ $backend }}
  readOnly: true
{{- end }}

{{/*
One volume for all Secrets, since one Secret may serve several purposes. kubelet updates the files,
and the program reads them each time it connects.
*/}}
{{- define "baton-sidecar.secretsVolume" -}}
{{- $backend := (index . 1).backend -}}
{{- $store := index . 1 $backend -}}
- name: {{ include "baton-sidecar.suffixed" (list (printf "baton-%s" $backend) (index . 1)) }}
  projected:
    sources:
      {{- with $store.authSecret }}
      - secret:
          name: {{ . | quote }}
          items: [{key: auth, path: auth}]
      {{- end }}
      {{- with $store.userSecret }}
      - secret:
          name: {{ . | quote }}
          items: [{key: user, path: user}]
      {{- end }}
      {{- with $store.caSecret }}
      - secret:
          name: {{ . | quote }}
          items: [{key: ca.crt, path: ca.crt}]
      {{- end }}
      {{- with $store.certificateSecret }}
      - secret:
          name: {{ . | quote }}
          items: [{key: tls.crt, path: tls.crt}, {key: tls.key, path: tls.key}]
      {{- end }}
{{- end }}
