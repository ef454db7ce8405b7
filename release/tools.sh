#!/usr/bin/env bash
# Builds a tool of the release from the Go modules pinned in its folder below release/tools, and
# prints its path:
#
#   release/tools.sh nfpm
#
# Writes to .cache/tools only, needs no root, and does nothing if the cache is current.
set -euo pipefail
tool=$1
cd "$(dirname "$0")/.."
cache=$PWD/.cache/tools/release
export CGO_ENABLED=0 GOWORK=off

mkdir -p "$cache"
exec 9>> "$cache/$tool.lock"
flock 9
cd "release/tools/$tool"
pins=$(cat -- *)
if [[ $pins != "$(cat "$cache/$tool.pins" 2> /dev/null)" ]]; then
  echo "building $tool: takes up to some minutes, once" >&2
  package=$(sed -n 's/^tool //p' go.mod)
  go build -mod=readonly -trimpath -ldflags "-s -w" -o "$cache/$tool" "${package:-.}" >&2
  printf '%s\n' "$pins" > "$cache/$tool.pins"
fi
echo "$cache/$tool"
