#!/usr/bin/env bash
# Makes kind, kubectl and helm, whatever is on PATH: the first two from the Go modules that are pinned in tools/go.mod,
# Helm by the script of the charts' tests. Prints the folder where they are: .cache/tools/cluster.
# Needs no root, and does nothing where all is there already. Who is called meanwhile waits.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$(dirname "$here")")
cache=$root/.cache/tools/cluster
export CGO_ENABLED=0 GOWORK=off

mkdir -p "${cache%/*}"
exec 9>> "$cache.lock"
flock 9
"$root/tests/servers/charts/build.sh" >&2
pins=$(cat "$0" "$here"/tools/go.*)
if [[ $pins != "$(cat "$cache/pins" 2> /dev/null)" ]]; then
  rm -rf "$cache"
  mkdir -p "$cache"
  echo "building kind and kubectl: some minutes, once" >&2
  cd "$here/tools"
  for program in kind=sigs.k8s.io/kind kubectl=./kubectl; do
    go build -mod=readonly -trimpath -ldflags "-s -w" -o "$cache/${program%%=*}" "${program#*=}"
  done
  ln -s ../../charts/helm4 "$cache/helm"
  printf '%s\n' "$pins" > "$cache/pins"
fi
echo "$cache"
