#!/usr/bin/env bash
# Builds kind and kubectl from the Go modules pinned in tools/go.mod, and Helm by the script of the
# chart tests. Prints their folder: .cache/tools/cluster.
#
# Needs no root, and does nothing if the cache is current. Parallel calls wait for each other.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$(dirname "$here")")
cache=$root/.cache/tools/cluster
export CGO_ENABLED=0 GOWORK=off

mkdir -p "${cache%/*}"
exec 9>> "$cache.lock"
flock 9
"$root/tests/servers/charts/build.sh" >&2
# Without comments, so that rewording them rebuilds nothing.
pins=$(sed '/^ *#/d' "$0"; cat "$here"/tools/go.*)
if [[ $pins != "$(cat "$cache/pins" 2> /dev/null)" ]]; then
  rm -rf "$cache"
  mkdir -p "$cache"
  echo "building kind and kubectl: takes some minutes, once" >&2
  cd "$here/tools"
  for program in kind=sigs.k8s.io/kind kubectl=./kubectl; do
    go build -mod=readonly -trimpath -ldflags "-s -w" -o "$cache/${program%%=*}" "${program#*=}"
  done
  ln -s ../../charts/helm4 "$cache/helm"
  printf '%s\n' "$pins" > "$cache/pins"
fi
echo "$cache"
