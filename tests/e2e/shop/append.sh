# An application that knows nothing of Baton: a shell loop that appends lines to the ledger, with
# the fencing token of its environment.
#
# It runs with `bash -c` in any image with bash 5, and needs no other program. It stops when it is
# killed. A second process prints the token and the time since boot, also while an append hangs.
#
#   --ignore-sigterm    ignore the request to stop
[[ ${1:-} != --ignore-sigterm ]] || trap '' TERM

# Sleeps for 100 ms: a read from a pipe that never delivers.
exec {silent}<> <(:)
pause() { read -rt 0.1 <&"$silent"; }

show_life() {
  while :; do
    read -r now _ < /proc/uptime
    echo "alive with token $BATON_TOKEN at $now"
    pause
  done
}

append() {
  {
    printf '%s\r\n' 'POST /append HTTP/1.0' 'Host: ledger' "Fencing-Token: $BATON_TOKEN" \
      "Writer: $HOSTNAME" "Number: ${EPOCHREALTIME/[.,]/}" 'Content-Length: 10' ''
    printf 'still here'
  } >&3
  local status
  read -r _ status _ <&3
  [[ $status == "$last_status" ]] || echo "the ledger answered $status"
  last_status=$status
}

show_life &
last_status=
while :; do
  append 3<> /dev/tcp/ledger/8080
  pause
done
