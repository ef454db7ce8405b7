#!/usr/bin/env bash
# Builds the OCI registry `distribution` for the tests of `make push`, from the Go modules pinned
# beside this script. Writes only to .cache/registry, needs no root, and does nothing if the cache
# is current.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=$(cd "$here/../../.." && pwd)/.cache/registry
export CGO_ENABLED=0 GOWORK=off

# Without comments, so that rewording them rebuilds nothing.
pins=$(sed '/^ *#/d' "$here/build.sh"; cat "$here"/go.*)
[[ $pins != "$(cat "$cache/pins" 2> /dev/null)" ]] || exit 0
rm -rf "$cache"
mkdir -p "$cache"

echo "building distribution, an OCI registry: takes some minutes, once" >&2
cd "$here"
go build -mod=readonly -trimpath -ldflags "-s -w" -o "$cache/registry" \
  github.com/distribution/distribution/v3/cmd/registry
printf '%s\n' "$pins" > "$cache/pins"
