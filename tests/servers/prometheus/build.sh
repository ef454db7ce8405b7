#!/usr/bin/env bash
# Builds Prometheus and promtool from the Go modules pinned beside this script. promtool checks and
# tests the chart's alerts. Prometheus scrapes the sidecars of the cluster tests.
# Fetches the CustomResourceDefinitions of the Prometheus operator.
# Writes to .cache/prometheus only, needs no root, and does nothing if the cache is current.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=$(cd "$here/../../.." && pwd)/.cache/prometheus
export CGO_ENABLED=0 GOWORK=off
operator=v0.85.0

# Without comments, so that rewording them rebuilds nothing.
pins=$(sed '/^ *#/d' "$here/build.sh"; cat "$here"/go.*)
[[ $pins != "$(cat "$cache/pins" 2> /dev/null)" ]] || exit 0
rm -rf "$cache"
mkdir -p "$cache"

echo "building Prometheus: takes some minutes, once" >&2
cd "$here"
for program in prometheus promtool; do
  # Only the service discovery for Kubernetes.
  go build -mod=readonly -trimpath -tags remove_all_sd,enable_kubernetes_sd -ldflags "-s -w" -o "$cache/$program" \
    "github.com/prometheus/prometheus/cmd/$program"
done
module=$(go mod download -json "github.com/prometheus-operator/prometheus-operator@$operator" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
for kind in podmonitors prometheusrules; do
  install -m 644 "$module/example/prometheus-operator-crd/monitoring.coreos.com_$kind.yaml" "$cache/$kind.yaml"
done
printf '%s\n' "$pins" > "$cache/pins"
