#!/usr/bin/env bash
# Builds the programs for the Lease tests from the Go modules pinned beside this script:
# kube-apiserver, etcd, etcdctl, and a candidate that uses client-go's leader election. Writes to
# .cache/kubernetes only, needs no root, and does nothing if the cache is current.
#
# If KUBEBUILDER_ASSETS names a folder with kube-apiserver and etcd, as for envtest, the tests use
# those, and this script builds only etcdctl and the candidate.
set -euo pipefail
servers=$(cd "$(dirname "$0")/.." && pwd)
cache=$(cd "$servers/../.." && pwd)/.cache/kubernetes
export CGO_ENABLED=0 GOWORK=off

# The linker sets the version that kube-apiserver reports at /version.
api_server_and_etcd() {
  local kubernetes minor stamp=k8s.io/component-base/version
  kubernetes=$(go list -mod=readonly -m -f '{{.Version}}' k8s.io/kubernetes)
  minor=${kubernetes#v1.}
  echo "building kube-apiserver $kubernetes and etcd: takes some minutes, once" >&2
  compile kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver \
    "-X $stamp.gitVersion=$kubernetes -X $stamp.gitMajor=1 -X $stamp.gitMinor=${minor%%.*}"
  compile etcd go.etcd.io/etcd/server/v3
}

# `etcdctl lock` is compared with `baton exec`.
etcdctl() {
  echo "building etcdctl" >&2
  compile etcdctl go.etcd.io/etcd/etcdctl/v3
}

candidate() {
  echo "building the client-go candidate" >&2
  compile client-go-candidate .
}

compile() { # program package [linker flags]
  go build -mod=readonly -trimpath -ldflags "-s -w ${3:-}" -o "$cache/$1" "$2"
}

# Runs a recipe in its module's folder, unless it already ran with the same files and script.
# Compares contents, not times, so a fresh clone with an old cache builds nothing. Ignores the
# script's comments.
once() { # recipe folder program...
  local recipe=$1 folder=$2 stamp=$cache/$1.stamp now
  shift 2
  now=$(sed '/^ *#/d' "$servers/kubernetes/build.sh"; cat "$folder"/go.* "$folder"/*.go 2> /dev/null || true)
  if [[ $now == "$(cat "$stamp" 2> /dev/null)" ]] && (cd "$cache" && ls "$@") > /dev/null 2>&1; then
    return
  fi
  rm -f "$stamp"
  (cd "$folder" && "$recipe")
  printf '%s\n' "$now" > "$stamp"
}

mkdir -p "$cache"
if [[ -z ${KUBEBUILDER_ASSETS:-} ]]; then
  once api_server_and_etcd "$servers/kubernetes" kube-apiserver etcd
fi
once etcdctl "$servers/kubernetes" etcdctl
once candidate "$servers/peers/client-go" client-go-candidate
