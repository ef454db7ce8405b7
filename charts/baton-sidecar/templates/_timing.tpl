{{/*
Refuses durations that would let two candidates lead at once, or that leave no room for three tries, as the program itself
would in every Pod. It takes the settings; what is left out there is as the program has it.

Over ZooKeeper the lease duration is that of a session, which may count from an earlier heartbeat than the last: servers pass on
what they heard once each half tick, so a part of the renew deadline may be lost.
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
{{- /* In parts per million, rounded up. */ -}}
{{- $rate := mulf (trimSuffix "%" $drift | float64) 10000 | ceil | int64 -}}
{{- $faster := add 1000000 $rate -}}
{{- $slower := sub 1000000 $rate -}}

{{- /* What is left of the renew deadline, and how that came about. */ -}}
{{- $lagMs := 0 -}}
{{- $leftMs := $renewMs -}}
{{- $left := printf "%s" $renew -}}
{{- if include "baton-sidecar.overZooKeeper" . -}}
{{- $tick := .zookeeper.tickTime | default "2s" -}}
{{- /* ¾ tick on the servers' clock, as our clock may count it. */ -}}
{{- $tickMs := include "baton-sidecar.milliseconds" $tick | int64 -}}
{{- $lagMs = div (mul 3 $tickMs $faster) (mul 4 $slower) -}}
{{- $gapMs := mul $retryMs (add 1 (div $lagMs (max 1 $retryMs))) -}}
{{- $leftMs = min $renewMs (sub (div (mul $leaseMs $slower) $faster) $gapMs) -}}
{{- if lt $leftMs $renewMs -}}
{{- $left = printf "the %dms that a session of %s on servers that tick every %s leaves of %s" $leftMs $lease $tick $renew -}}
{{- end -}}
{{- end -}}
{{- $callMs := div (sub $leftMs $retryMs) 3 -}}

{{- $wrong := list -}}
{{- if ge (mul $renewMs $faster) (mul $leaseMs $slower) -}}
{{- $wrong = append $wrong (printf "renewDeadline × (1 + maxClockDrift) must be less than leaseDuration × (1 − maxClockDrift), but %s × (1 + %s) is not less than %s × (1 − %s): another candidate could lead before this one stops" $renew $drift $lease $drift) -}}
{{- end -}}
{{- if lt (sub $leftMs $retryMs) 150 -}}
{{- $wrong = append $wrong (printf "(renewDeadline − retryPeriod) / 3 must be at least 50ms, the least time for one of three tries, but (%s − %s) / 3 is less" $left $retry) -}}
{{- else if gt (add $answerMs $retryMs $callMs) $leftMs -}}
{{- $wrong = append $wrong (printf "answerValidity + retryPeriod + one call must fit into renewDeadline, but %s + %s + %dms is more than %s: a leader would deny that it leads whenever one renewal is slow" $answer $retry $callMs $left) -}}
{{- end -}}
{{- if lt $retryMs 10 -}}
{{- $wrong = append $wrong (printf "a retryPeriod of %s is too short: it must be at least 10ms" $retry) -}}
{{- end -}}
{{- if lt $answerMs 1 -}}
{{- $wrong = append $wrong (printf "an answerValidity of %s is too short: an application could not act on any answer" $answer) -}}
{{- end -}}
{{- if $wrong -}}
{{- /* The lease duration that was asked for, if three tries of 50ms fit into it and all that a session may lose, in the
       proportions of the defaults where they can be. */ -}}
{{- $passLease := max $leaseMs (mul 1000 (add 1 (div (mul (add 225 (div (mul $lagMs 12) 5)) $faster) (mul 1000 $slower)))) -}}
{{- $passLives := div (mul $passLease $slower) $faster -}}
{{- $passRetry := min (div (mul $passLease 2) 15) (div $passLives 6) -}}
{{- $passGap := ternary (mul $passRetry (add 1 (div $lagMs $passRetry))) (div $passLives 20) (gt $lagMs 0) -}}
{{- $passRenew := min (div (mul $passLease 2) 3) (sub $passLives $passGap) -}}
{{- fail (printf "unsafe timing: %s; these would pass: leaseDuration: %s, renewDeadline: %s, retryPeriod: %s, answerValidity: %s" (join "; " $wrong) (include "baton-sidecar.duration" $passLease) (include "baton-sidecar.duration" $passRenew) (include "baton-sidecar.duration" $passRetry) (include "baton-sidecar.duration" $passRetry)) -}}
{{- end -}}

{{- with $config.requirePolling -}}
{{- if lt (include "baton-sidecar.milliseconds" . | int64) (add $answerMs $retryMs) -}}
{{- fail (printf "requirePolling of %s is too short: it must be at least answerValidity and retryPeriod together, %s, or a leader gives up between two questions" . (include "baton-sidecar.duration" (add $answerMs $retryMs))) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/*
A duration like 1m30s or 500ms in milliseconds.
*/}}
{{- define "baton-sidecar.milliseconds" -}}
{{- $milliseconds := 0 -}}
{{- $units := dict "h" 3600000 "m" 60000 "s" 1000 "ms" 1 -}}
{{- range regexFindAll "[0-9]+[a-z]+" . -1 -}}
{{- $number := regexFind "[0-9]+" . -}}
{{- $milliseconds = add $milliseconds (mul (int64 $number) (get $units (trimPrefix $number .))) -}}
{{- end -}}
{{- $milliseconds -}}
{{- end }}

{{/*
Milliseconds as a duration: 2s, 1500ms.
*/}}
{{- define "baton-sidecar.duration" -}}
{{- if mod . 1000 }}{{ . }}ms{{ else }}{{ div . 1000 }}s{{ end -}}
{{- end }}
