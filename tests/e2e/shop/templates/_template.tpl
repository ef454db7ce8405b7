{{/*
The application's Pod template. The sidecar comes from this chart or from the platform's policy, or
there is none.
*/}}
{{- define "shop.template" -}}
metadata:
  labels:
    app: shop
    {{- with .Values.injectedBy }}
    {{ . }}/inject: enabled
    {{- end }}
  {{- with .Values.injectedBy }}
  annotations:
    {{ . }}/election: {{ $.Values.baton.election | quote }}
  {{- end }}
spec:
  serviceAccountName: shop
  automountServiceAccountToken: {{ .Values.automountServiceAccountToken }}
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  {{- if has .Values.kind (list "Job" "CronJob") }}
  restartPolicy: Never
  {{- end }}
  {{- if .Values.reports.election }}
  initContainers:
    {{- include "baton-sidecar.container" (list . .Values.baton) | nindent 4 }}
    {{- include "baton-sidecar.container" (list . .Values.reports) | nindent 4 }}
  volumes:
    {{- include "baton-sidecar.volume" (list . .Values.baton) | nindent 4 }}
    {{- include "baton-sidecar.volume" (list . .Values.reports) | nindent 4 }}
  {{- else if .Values.sidecar }}
  {{- include "baton-sidecar.pod" (list . .Values.baton) | nindent 2 }}
  {{- else if .Values.migrates }}
  initContainers:
    - name: migrate
      {{- include "shop.container" . | nindent 6 }}
      args: [--help]
  volumes:
    - name: data
      emptyDir: {}
  {{- end }}
  containers:
    - name: application
      {{- include "shop.container" . | nindent 6 }}
      args:
        {{- concat (list "work" "--ledger" "http://ledger:8080" "--name" "$(POD_NAME)") .Values.args | toYaml | nindent 8 }}
      env:
        - name: POD_NAME
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          app: shop
{{- end }}
