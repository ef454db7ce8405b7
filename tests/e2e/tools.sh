#!/usr/bin/env bash
# Makes kind, kubectl and helm, those of them that are not on PATH: the first two from the Go modules that are pinned in
# tools/go.mod, Helm by the script of the charts' tests. Prints the folder where they are: .cache/tools/cluster.
# Needs no root, and does nothing where all is there already.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$(dirname "$here")")
cache=$root/.cache/tools/cluster
export CGO_ENABLED=0 GOWORK=off

mkdir -p "$cache"
# What was built from other pins is not what the tests ask for.
pins=$(cat "$here"/tools/go.*)
[[ $pins == "$(cat "$cache/pins" 2> /dev/null)" ]] || rm -f "$cache"/*
for program in kind=sigs.k8s.io/kind kubectl=./kubectl; do
  name=${program%%=*}
  if ! PATH=$cache:$PATH command -v "$name" > /dev/null; then
    echo "building $name: a minute, once" >&2
    (cd "$here/tools" && go build -mod=readonly -trimpath -ldflags "-s -w" -o "$cache/$name" "${program#*=}")
  fi
done
if ! PATH=$cache:$PATH command -v helm > /dev/null; then
  "$root/tests/charts/build.sh" >&2
  ln -s ../../charts/helm4 "$cache/helm"
fi
printf '%s\n' "$pins" > "$cache/pins"
echo "$cache"
