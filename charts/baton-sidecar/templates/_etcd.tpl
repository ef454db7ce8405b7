{{/*
Templates for elections in an etcd cluster.
*/}}

{{/*
Whether etcd is the store: "true" or empty. Refuses settings that contradict each other. Takes the
settings.
*/}}
{{- define "baton-sidecar.overEtcd" -}}
{{- $etcd := .etcd | default dict -}}
{{- if eq (.backend | default "lease") "etcd" -}}
{{- if not $etcd.endpoints -}}
{{- fail "backend is etcd, but no member is named: set etcd.endpoints, for example to https://etcd-0.etcd:2379,https://etcd-1.etcd:2379,https://etcd-2.etcd:2379" -}}
{{- end -}}
{{- if and (hasPrefix "https://" $etcd.endpoints) (not $etcd.caSecret) -}}
{{- fail "etcd.endpoints has https:// URLs, which need etcd.caSecret to verify the members' certificates" -}}
{{- end -}}
{{- if and (hasPrefix "http://" $etcd.endpoints) (or $etcd.caSecret $etcd.certificateSecret) -}}
{{- fail "etcd.caSecret and etcd.certificateSecret do nothing with http:// URLs: write https:// in etcd.endpoints, or remove them" -}}
{{- end -}}
true
{{- else -}}
{{- range $key, $value := $etcd -}}
{{- if $value -}}
{{- fail (printf "etcd.%s is set, but backend is %s: set backend to etcd, or remove etcd.%s" $key ($.backend | default "lease") $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/*
The environment variables for the cluster. Takes the same list as baton-sidecar.pod.
*/}}
{{- define "baton-sidecar.etcdEnvironment" -}}
{{- $etcd := (index . 1).etcd -}}
- name: BATON_BACKEND
  value: etcd
- name: BATON_ETCD_ENDPOINTS
  value: {{ $etcd.endpoints | quote }}
{{- with $etcd.prefix }}
- name: BATON_ETCD_PREFIX
  value: {{ . | quote }}
{{- end }}
{{- with $etcd.userSecret }}
- name: BATON_ETCD_USER_FILE
  value: /etc/baton/etcd/user
{{- end }}
{{- with $etcd.caSecret }}
- name: BATON_ETCD_CA_FILE
  value: /etc/baton/etcd/ca.crt
{{- end }}
{{- with $etcd.certificateSecret }}
- name: BATON_ETCD_CERT_FILE
  value: /etc/baton/etcd/tls.crt
- name: BATON_ETCD_KEY_FILE
  value: /etc/baton/etcd/tls.key
{{- end }}
{{- end }}
