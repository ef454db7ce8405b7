{{/*
The Pod template of an application that knows nothing of Baton: no sidecar, no question. The include
baton-sidecar.exec takes it, and adds `baton exec`.

Every node gets one replica, workers first.
*/}}
{{- define "shop.unmodified" -}}
metadata:
  labels:
    app: shop
spec:
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  containers:
    - name: application
      image: {{ .Values.unmodified.image }}
      command:
        - bash
        - -c
        - {{ .Files.Get "append.sh" | toJson }}
        - append.sh
        {{- if .Values.unmodified.ignoresSigterm }}
        - --ignore-sigterm
        {{- end }}
      securityContext:
        {{- include "shop.securityContext" . | nindent 8 }}
        # The image may name no user.
        runAsUser: 1000
  affinity:
    nodeAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          preference:
            matchExpressions:
              - key: node-role.kubernetes.io/control-plane
                operator: DoesNotExist
  tolerations:
    - key: node-role.kubernetes.io/control-plane
      operator: Exists
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: DoNotSchedule
      labelSelector:
        matchLabels:
          app: shop
{{- end }}
