#!/usr/bin/env bash
# Builds kube-state-metrics, which exports Leases to Prometheus in the cluster tests, from the Go
# modules pinned beside this script. Writes to .cache/kube-state-metrics only, needs no root, and
# does nothing if the cache is current.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=$(cd "$here/../../.." && pwd)/.cache/kube-state-metrics
export CGO_ENABLED=0 GOWORK=off

# Without comments, so that rewording them rebuilds nothing.
pins=$(sed '/^ *#/d' "$here/build.sh"; cat "$here"/go.*)
[[ $pins != "$(cat "$cache/pins" 2> /dev/null)" ]] || exit 0
rm -rf "$cache"
mkdir -p "$cache"

echo "building kube-state-metrics: takes some minutes, once" >&2
cd "$here"
go build -mod=readonly -trimpath -ldflags "-s -w" -o "$cache/kube-state-metrics" k8s.io/kube-state-metrics/v2
printf '%s\n' "$pins" > "$cache/pins"
