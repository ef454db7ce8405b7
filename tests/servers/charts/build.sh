#!/usr/bin/env bash
# Builds Helm 3 and 4, kubeconform, and kustomize for the chart tests, from the Go modules pinned
# beside this script. Fetches the OpenAPI schemas of the supported API servers. Writes to
# .cache/charts only, needs no root, and does nothing if the cache is current.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=$(cd "$here/../../.." && pwd)/.cache/charts
export CGO_ENABLED=0 GOWORK=off
# The charts must pass the schemas of these Kubernetes releases. v1.36 is the first that accepts
# restartPolicyRules on a sidecar.
releases=(v1.33.13 v1.34.4 v1.35.4 v1.36.3)

# Without comments, so that rewording them rebuilds nothing.
pins=$(sed '/^ *#/d' "$here/build.sh"; cat "$here"/go.*)
[[ $pins != "$(cat "$cache/pins" 2> /dev/null)" ]] || exit 0
rm -rf "$cache"
mkdir -p "$cache"

echo "building Helm, kubeconform, and kustomize: takes some minutes, once" >&2
cd "$here"
for program in helm3=helm.sh/helm/v3/cmd/helm helm4=helm.sh/helm/v4/cmd/helm \
  kubeconform=github.com/yannh/kubeconform/cmd/kubeconform kustomize=sigs.k8s.io/kustomize/kustomize/v5; do
  go build -mod=readonly -trimpath -ldflags "-s -w" -o "$cache/${program%%=*}" "${program#*=}"
done
for release in "${releases[@]}"; do
  module=$(go mod download -json "k8s.io/kubernetes@$release" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
  install -m 644 "$module/api/openapi-spec/swagger.json" "$cache/$release.json"
done
printf '%s\n' "$pins" > "$cache/pins"
