#!/usr/bin/env bash
# Builds kube-state-metrics, from the Go modules that are pinned beside this script: in the cluster tests it tells Prometheus of
# Leases.
# Writes to .cache/kube-state-metrics only, needs no root, and does nothing where it is there already.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=$(cd "$here/../../.." && pwd)/.cache/kube-state-metrics
export CGO_ENABLED=0 GOWORK=off

pins=$(cat "$here"/build.sh "$here"/go.*)
[[ $pins != "$(cat "$cache/pins" 2> /dev/null)" ]] || exit 0
rm -rf "$cache"
mkdir -p "$cache"

echo "building kube-state-metrics: some minutes, once" >&2
cd "$here"
go build -mod=readonly -trimpath -ldflags "-s -w" -o "$cache/kube-state-metrics" k8s.io/kube-state-metrics/v2
printf '%s\n' "$pins" > "$cache/pins"
