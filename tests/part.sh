#!/usr/bin/env bash
# Runs one part of `make test`, and prints what it covers and how long it took.
#
#   part.sh MAKE TARGET
set -euo pipefail
cd "$(dirname "$0")/.."
make=$1 target=$2

case $target in
  quick) what="format, unit tests, transcripts, 5,000 simulated scenarios: needs only Rust"
         usual="half a minute, 2 without caches" ;;
  test-file) what="processes with the file store, endpoints, command line: needs no server"
             usual="3 minutes, 6 without caches" ;;
  check) what="lints, docs, dependencies, prose: builds cargo-deny and vale once"
         usual="1 minute, 7 without caches" ;;
  prove) what="100,000 simulated scenarios and the model's short scenarios"
         usual="2 minutes" ;;
  test-zookeeper) what="real ZooKeeper servers, Curator, kazoo: downloads their jars once"
                  usual="5 minutes, 8 without caches" ;;
  test-lease) what="a real API server and client-go: builds kube-apiserver and etcd once"
              usual="5 minutes, 13 without caches" ;;
  test-etcd) what="real etcd, one member and three: builds it once"
             usual="4 minutes, 11 without caches" ;;
  test-charts) what="Helm, kustomize, Kyverno, Prometheus with a real API server: builds them once"
               usual="2 minutes, 19 without caches" ;;
  test-clients) what="client libraries and recipes in Go, Python, Java, Node.js: downloads packages once"
                usual="2 minutes, 5 without caches" ;;
  test-lab) what="the lab in a real Chromium, five mutants: builds Rust's std for WebAssembly once"
            usual="4 minutes, 6 without caches" ;;
  test-release) what="packages, the arm64 program, a push to a real registry: builds cosign once"
                usual="5 minutes, 15 without caches" ;;
  test-torture) what="random faults for three minutes on each store: builds kube-apiserver and etcd once"
                usual="3 minutes, 12 without caches" ;;
  *) echo "part.sh: unknown part '$target'" >&2; exit 2 ;;
esac

echo "== $target: $what (usually $usual)"
start=$SECONDS
"$make" --no-print-directory "$target"
took=$((SECONDS - start))
printf '== %s passed in %d min %02d s\n' "$target" $((took / 60)) $((took % 60))
