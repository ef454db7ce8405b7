#!/usr/bin/env bash
# Builds more programs of etcd for the tests, from pinned Go modules: etcd-3.5, etcd-3.7, etcdutl,
# and the candidate of tests/servers/peers/etcd-election. The etcd of most tests, 3.6, comes from
# tests/servers/kubernetes. Writes to .cache/etcd only, needs no root, and does nothing if the cache
# is current.
set -euo pipefail
servers=$(cd "$(dirname "$0")/.." && pwd)
cache=$(cd "$servers/../.." && pwd)/.cache/etcd
export CGO_ENABLED=0 GOWORK=off

# Builds a package in its module's folder, unless it was built from the same files.
build() { # program folder package
  local stamp=$cache/$1.stamp now
  now=$(cd "$2" && cat go.mod go.sum ./*.go 2> /dev/null || true)
  [[ ! -x $cache/$1 || $now != "$(cat "$stamp" 2> /dev/null)" ]] || return 0
  echo "building $1: takes a minute, once" >&2
  rm -f "$stamp"
  (cd "$2" && go build -mod=readonly -trimpath -ldflags '-s -w' -o "$cache/$1" "$3")
  printf '%s\n' "$now" > "$stamp"
}

mkdir -p "$cache"
build etcd-3.5 "$servers/etcd/3.5" go.etcd.io/etcd/server/v3
build etcd-3.7 "$servers/etcd/3.7" go.etcd.io/etcd/server/v3
build etcdutl "$servers/etcd/3.6" go.etcd.io/etcd/etcdutl/v3
build etcd-election-candidate "$servers/peers/etcd-election" .
