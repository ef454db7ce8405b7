#!/usr/bin/env bash
# Builds Kyverno's command line for the chart tests, from the Go modules pinned beside this script.
# Writes to .cache/kyverno only, needs no root, and does nothing if the cache is current.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=$(cd "$here/../../.." && pwd)/.cache/kyverno
export CGO_ENABLED=0 GOWORK=off

# Without comments, so that rewording them rebuilds nothing.
pins=$(sed '/^ *#/d' "$here/build.sh"; cat "$here"/go.*)
[[ $pins != "$(cat "$cache/pins" 2> /dev/null)" ]] || exit 0
rm -rf "$cache"
mkdir -p "$cache"

echo "building Kyverno's command line: takes some minutes, once" >&2
cd "$here"
go build -mod=readonly -trimpath -ldflags "-s -w" -o "$cache/kyverno" github.com/kyverno/kyverno/cmd/cli/kubectl-kyverno
printf '%s\n' "$pins" > "$cache/pins"
