{{/*
Refuses durations that the program would refuse in every Pod. Takes the sidecar's settings, and for
`baton exec` also `killAfter`; the defaults are the program's. `baton check-config` explains the rules and suggests durations.

A ZooKeeper session may expire up to ¾ tick early, since servers pass heartbeats on once per half
tick. The claim may then end before renewDeadline.
*/}}
{{- define "baton-sidecar.checkTiming" -}}
{{- $config := .config | default dict -}}
{{- $lease := $config.leaseDuration | default "15s" -}}
{{- $renew := $config.renewDeadline | default "10s" -}}
{{- $retry := $config.retryPeriod | default "2s" -}}
{{- $answer := $config.answerValidity | default $retry -}}
{{- $drift := $config.maxClockDrift | default "10%" -}}

{{- $leaseMs := include "baton-sidecar.milliseconds" $lease | int64 -}}
{{- $renewMs := include "baton-sidecar.milliseconds" $renew | int64 -}}
{{- $retryMs := include "baton-sidecar.milliseconds" $retry | int64 -}}
{{- $answerMs := include "baton-sidecar.milliseconds" $answer | int64 -}}
{{- /* Clock rates in parts per million. The drift is rounded up. */ -}}
{{- $driftPpm := mulf (trimSuffix "%" $drift | float64) 10000 | ceil | int64 -}}
{{- $fast := add 1000000 $driftPpm -}}
{{- $slow := sub 1000000 $driftPpm -}}

{{- $deadline := $renew -}}
{{- $deadlineMs := $renewMs -}}
{{- $overZooKeeper := include "baton-sidecar.overZooKeeper" . -}}
{{- $overEtcd := include "baton-sidecar.overEtcd" . -}}
{{- $tick := (.zookeeper | default dict).tickTime | default "2s" -}}
{{- if $overZooKeeper -}}
{{- /* ¾ tick of a fast server clock, measured by a slow local one. */ -}}
{{- $tickMs := include "baton-sidecar.milliseconds" $tick | int64 -}}
{{- $lagMs := div (mul 3 $tickMs $fast) (mul 4 $slow) -}}
{{- $gapMs := mul $retryMs (add 1 (div $lagMs (max 1 $retryMs))) -}}
{{- $deadlineMs = min $renewMs (sub (div (mul $leaseMs $slow) $fast) $gapMs) -}}
{{- if lt $deadlineMs $renewMs -}}
{{- $deadline = printf "%dms (what a session of %s with a tickTime of %s leaves of %s)" $deadlineMs $lease $tick $renew -}}
{{- end -}}
{{- end -}}
{{- $tryMs := div (sub $deadlineMs $retryMs) 3 -}}

{{- $errors := list -}}
{{- if ge (mul $renewMs $fast) (mul $leaseMs $slow) -}}
{{- $errors = append $errors (printf "renewDeadline × (1 + maxClockDrift) must be less than leaseDuration × (1 − maxClockDrift), but %s × (1 + %s) is not less than %s × (1 − %s)" $renew $drift $lease $drift) -}}
{{- end -}}
{{- if lt (sub $deadlineMs $retryMs) 150 -}}
{{- $errors = append $errors (printf "(renewDeadline − retryPeriod) / 3 must be at least 50ms, but (%s − %s) / 3 is less" $deadline $retry) -}}
{{- else if gt (add $answerMs $retryMs $tryMs) $deadlineMs -}}
{{- $errors = append $errors (printf "answerValidity + retryPeriod + (renewDeadline − retryPeriod) / 3 must be at most renewDeadline, but %s + %s + %dms is more than %s" $answer $retry $tryMs $deadline) -}}
{{- end -}}
{{- if lt $retryMs 10 -}}
{{- $errors = append $errors (printf "retryPeriod must be at least 10ms, but is %s" $retry) -}}
{{- end -}}
{{- if lt $answerMs 1 -}}
{{- $errors = append $errors (printf "answerValidity must be at least 1ms, but is %s" $answer) -}}
{{- end -}}
{{- with $config.requirePolling -}}
{{- if lt (include "baton-sidecar.milliseconds" . | int64) (add $answerMs $retryMs) -}}
{{- $errors = append $errors (printf "requirePolling must be at least answerValidity + retryPeriod, but %s is less than %s + %s" . $answer $retry) -}}
{{- end -}}
{{- end -}}

{{- with $config.standAfter -}}
{{- $standMs := include "baton-sidecar.milliseconds" . | int64 -}}
{{- if and $overZooKeeper $standMs -}}
{{- fail "config.standAfter does not work with backend zookeeper, where the first candidate in the queue would keep all others from leading while it waits: remove config.standAfter" -}}
{{- else if gt $standMs $leaseMs -}}
{{- fail (printf "config.standAfter must be at most leaseDuration, but %s is more than %s" . $lease) -}}
{{- end -}}
{{- end -}}

{{- $fitPeriod := $config.fitPeriod | default "2s" -}}
{{- $fitPeriodMs := include "baton-sidecar.milliseconds" $fitPeriod | int64 -}}
{{- if lt $fitPeriodMs 100 -}}
{{- fail (printf "config.fitPeriod must be at least 100ms, but is %s" $fitPeriod) -}}
{{- end -}}
{{- with $config.fitTimeout -}}
{{- if gt (include "baton-sidecar.milliseconds" . | int64) $fitPeriodMs -}}
{{- fail (printf "config.fitTimeout must be at most fitPeriod, but %s is more than %s" . $fitPeriod) -}}
{{- end -}}
{{- end -}}

{{- with .killAfter -}}
{{- $killMs := include "baton-sidecar.milliseconds" . | int64 -}}
{{- if lt $killMs 500 -}}
{{- fail (printf "exec.killAfter must be at least 500ms, but is %s" .) -}}
{{- else if gt (add $killMs (mul 2 $retryMs)) $deadlineMs -}}
{{- fail (printf "exec.killAfter + 2 × retryPeriod must be at most renewDeadline, but %s + 2 × %s is more than %s" . $retry $deadline) -}}
{{- end -}}
{{- end -}}

{{- if $errors -}}
{{- $command := printf "baton check-config --election=%s --lease-duration=%s --renew-deadline=%s --retry-period=%s --answer-validity=%s --max-clock-drift=%s" (.election | default "orders") $lease $renew $retry $answer $drift -}}
{{- with $config.requirePolling -}}
{{- $command = printf "%s --require-polling=%s" $command . -}}
{{- end -}}
{{- if $overZooKeeper -}}
{{- $command = printf "%s --backend=zookeeper --zookeeper-servers=%s --zookeeper-tick-time=%s" $command .zookeeper.servers $tick -}}
{{- else if $overEtcd -}}
{{- /* The durations do not depend on the members. */ -}}
{{- $command = printf "%s --backend=etcd --etcd-endpoints=http://localhost:2379" $command -}}
{{- else -}}
{{- $command = printf "%s --backend=lease" $command -}}
{{- end -}}
{{- fail (printf "unsafe timing: %s; for durations that pass, run: %s" (join "; " $errors) $command) -}}
{{- end -}}
{{- end }}

{{/*
A duration such as 1m30s, 1.5s, or 500ms, in milliseconds.
*/}}
{{- define "baton-sidecar.milliseconds" -}}
{{- $milliseconds := 0 -}}
{{- $units := dict "h" 3600000 "m" 60000 "s" 1000 "ms" 1 -}}
{{- range regexFindAll "[0-9.]+[a-z]+" . -1 -}}
{{- $number := regexFind "[0-9.]+" . -}}
{{- $unit := get $units (trimPrefix $number .) -}}
{{- $milliseconds = add $milliseconds (mulf (float64 $number) $unit | int64) -}}
{{- end -}}
{{- $milliseconds -}}
{{- end }}
