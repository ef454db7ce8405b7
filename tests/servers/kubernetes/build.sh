#!/usr/bin/env bash
# Builds what the tests of the Lease backend run against, from the Go modules that are pinned beside this
# script: a real kube-apiserver with its etcd, and a candidate that elects with client-go.
# Writes to .cache/kubernetes only, needs no root, and does nothing where all is there already.
#
# With KUBEBUILDER_ASSETS set (a folder with kube-apiserver and etcd, as envtest wants it) the tests take
# those two from there, and only the candidate is built.
set -euo pipefail
servers=$(cd "$(dirname "$0")/.." && pwd)
cache=$(cd "$servers/../.." && pwd)/.cache/kubernetes
export CGO_ENABLED=0 GOWORK=off

# kube-apiserver says its version at /version, and it is the linker who tells it.
api_server_and_etcd() {
  local kubernetes minor stamp=k8s.io/component-base/version
  kubernetes=$(go list -mod=readonly -m -f '{{.Version}}' k8s.io/kubernetes)
  minor=${kubernetes#v1.}
  echo "building kube-apiserver $kubernetes and etcd: some minutes, once" >&2
  compile kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver \
    "-X $stamp.gitVersion=$kubernetes -X $stamp.gitMajor=1 -X $stamp.gitMinor=${minor%%.*}"
  compile etcd go.etcd.io/etcd/server/v3
}

candidate() {
  echo "building the client-go candidate" >&2
  compile client-go-candidate .
}

compile() { # program package [linker flags]
  go build -mod=readonly -trimpath -ldflags "-s -w ${3:-}" -o "$cache/$1" "$2"
}

# Runs a recipe in its module's folder, unless it has run there with the same files and this script.
# The files are compared, not their times: a fresh clone beside an old cache builds nothing.
once() { # recipe folder program...
  local recipe=$1 folder=$2 stamp=$cache/$1.stamp now
  shift 2
  now=$(cat "$servers/kubernetes/build.sh" "$folder"/go.* "$folder"/*.go 2> /dev/null || true)
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
once candidate "$servers/peers/client-go" client-go-candidate
