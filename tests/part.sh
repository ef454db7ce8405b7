#!/usr/bin/env bash
# Runs one part of `make test`, and prints what it covers and how long it took.
#
#   part.sh MAKE TARGET
set -euo pipefail
cd "$(dirname "$0")/.."
make=$1 target=$2

case $target in
  quick) what="format, unit tests, transcripts, 5,000 simulated scenarios: needs only Rust (usually 1 minute, 3 without caches)" ;;
  test-file) what="processes with the file store, endpoints, command line: needs no server (usually 3 minutes, 6 without caches)" ;;
  check) what="lints, docs, dependencies, prose: builds cargo-deny and vale once (usually 1 minute, 6 without caches)" ;;
  prove) what="100,000 simulated scenarios and the model's short scenarios (usually 2 minutes)" ;;
  test-zookeeper) what="real ZooKeeper servers, Curator, kazoo: downloads them once (usually 4 minutes)" ;;
  test-lease) what="a real API server and client-go: builds kube-apiserver and etcd once (usually 4 minutes, 12 without caches)" ;;
  test-charts) what="Helm, kustomize, Prometheus on a real API server: builds them once (usually 2 minutes, 10 without caches)" ;;
  *) echo "part.sh: unknown part '$target'" >&2; exit 2 ;;
esac

echo "== $target: $what"
start=$SECONDS
"$make" --no-print-directory "$target"
took=$((SECONDS - start))
printf '== %s passed in %d min %02d s\n' "$target" $((took / 60)) $((took % 60))
