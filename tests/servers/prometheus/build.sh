#!/usr/bin/env bash
# Builds Prometheus and promtool, from the Go modules that are pinned beside this script: promtool checks the chart's alerts and
# runs their tests, Prometheus scrapes the sidecars of the cluster tests.
# Fetches how the Prometheus operator describes its objects to an API server.
# Writes to .cache/prometheus only, needs no root, and does nothing where all is there already.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=$(cd "$here/../../.." && pwd)/.cache/prometheus
export CGO_ENABLED=0 GOWORK=off
operator=v0.85.0

pins=$(cat "$here"/build.sh "$here"/go.*)
[[ $pins != "$(cat "$cache/pins" 2> /dev/null)" ]] || exit 0
rm -rf "$cache"
mkdir -p "$cache"

echo "building Prometheus: some minutes, once" >&2
cd "$here"
for program in prometheus promtool; do
  # Without what finds targets in two dozen clouds: ours are in Kubernetes.
  go build -mod=readonly -trimpath -tags remove_all_sd,enable_kubernetes_sd -ldflags "-s -w" -o "$cache/$program" \
    "github.com/prometheus/prometheus/cmd/$program"
done
module=$(go mod download -json "github.com/prometheus-operator/prometheus-operator@$operator" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
for kind in podmonitors prometheusrules; do
  install -m 644 "$module/example/prometheus-operator-crd/monitoring.coreos.com_$kind.yaml" "$cache/$kind.yaml"
done
printf '%s\n' "$pins" > "$cache/pins"
