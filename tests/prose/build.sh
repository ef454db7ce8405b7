#!/usr/bin/env bash
# Builds vale, which checks prose, from the Go modules that are pinned beside this script.
# Writes to .cache/tools only, needs no root, and does nothing where it is there already.
set -euo pipefail
cd "$(dirname "$0")"
tools=$(cd ../.. && pwd)/.cache/tools
stamp=$tools/vale.stamp
[[ -x $tools/bin/vale && $(cat "$stamp" 2> /dev/null) == "$(cat go.mod)" ]] && exit
echo "building vale, which checks prose: two minutes, once" >&2
mkdir -p "$tools/bin"
# One of its parsers is written in C, and warns.
GOWORK=off go build -mod=readonly -trimpath -ldflags "-s -w" -o "$tools/bin/vale" github.com/vale-cli/vale/v3/cmd/vale \
  2> "$tools/vale.log" || { cat "$tools/vale.log" >&2; exit 1; }
cat go.mod > "$stamp"
