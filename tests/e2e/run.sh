#!/usr/bin/env bash
# Makes a kind cluster of three nodes, runs the cluster tests on it, and deletes it whatever happens: `make e2e`.
#
#   ENGINE=docker|podman   the container engine
#   KIND_IMAGE=IMAGE       the image of the nodes; kind's own, if left out
#   BATON_IMAGE, DEMO_IMAGE   the images of the sidecar, and of its application and ledger: `make image` builds them
#   ZOOKEEPER_IMAGE=IMAGE   one with ZooKeeper's zkServer.sh, and here already; if left out, it is made of this machine's Java
#   KEEP=1                 leave the cluster where it is, and take the one that was left
#
# Arguments are names of tests, or parts of them; without any all run but the figures.
set -euo pipefail
cd "$(dirname "$0")/../.."
export ENGINE CLUSTER=baton-e2e BATON_IMAGE DEMO_IMAGE ZOOKEEPER_IMAGE
export KIND_EXPERIMENTAL_PROVIDER=$ENGINE KUBECONFIG=$PWD/target/e2e/kubeconfig
# The latter for Helm 3, which is not called helm.
PATH=$(tests/e2e/tools.sh):$PWD/.cache/charts:$PATH
tests/servers/prometheus/build.sh
tests/servers/kube-state-metrics/build.sh
ZOOKEEPER_IMAGE=${ZOOKEEPER_IMAGE:-$(tests/e2e/ensemble.sh "$ENGINE")}
# In seconds: longer than all cases together take on two busy cores, and the figures too.
readonly longest=7200
# Four on two busy processors made a load of 42.
readonly per_processor=1.5
running= failed=

up() {
  kind delete cluster --name "$CLUSTER"
  kind create cluster --name "$CLUSTER" --config tests/e2e/kind.yaml --wait 120s ${KIND_IMAGE:+--image "$KIND_IMAGE"}
  kubectl wait --for=condition=Ready node --all --timeout=120s
}

down() {
  trap '' INT TERM
  [[ -z $running ]] || kill "$running" 2> /dev/null || true
  [[ -n ${KEEP:-} ]] || kind delete cluster --name "$CLUSTER"
}

# What is needed on the nodes: the images, the witness, which must run there without the libraries of this machine, and
# Prometheus and kube-state-metrics on the control plane.
furnish() {
  for program in prometheus/prometheus kube-state-metrics/kube-state-metrics; do
    "$ENGINE" cp ".cache/$program" "$CLUSTER-control-plane:/usr/local/bin/"
  done
  local target node
  target=$(rustc -vV | sed -n 's/^host: //p')
  RUSTFLAGS="-C target-feature=+crt-static" \
    cargo build --locked --quiet --target "$target" --package witness
  for node in $(kind get nodes --name "$CLUSTER"); do
    "$ENGINE" cp "target/$target/debug/witness" "$node:/usr/local/bin/witness"
  done
  for image in "$BATON_IMAGE" "$DEMO_IMAGE" "$ZOOKEEPER_IMAGE"; do
    "$ENGINE" save --output target/e2e/image.tar "$image"
    kind load image-archive --name "$CLUSTER" target/e2e/image.tar
    rm target/e2e/image.tar
  done
}

# Runs the cases that these arguments leave, so many beside each other, and remembers whether one has failed, or none was
# left: then a name is wrong. They are waited for in the background: a signal to this script is heeded at once.
cases() {
  local node
  if ! cargo test --locked --quiet --test e2e -- --list "${@:2}" | grep ': test$' > /dev/null; then
    echo "run.sh: no case is left by: ${*:2}" >&2
    failed=1
    return
  fi
  # Those of the cases before go on asking every Pod, though nobody hears them any more.
  for node in $(kind get nodes --quiet --name "$CLUSTER"); do
    "$ENGINE" exec "$node" pkill witness || true
  done
  timeout $((longest - SECONDS)) cargo test --locked --test e2e -- --show-output --test-threads "$1" "${@:2}" &
  running=$!
  wait "$running" || failed=1
  running=
}

main() {
  mkdir -p target/e2e
  cargo test --locked --no-run --test e2e
  trap down EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  [[ -n ${KEEP:-} && -n $(kind get nodes --quiet --name "$CLUSTER") ]] || up
  furnish
  SECONDS=0
  if [[ $# -gt 0 ]]; then
    cases 1 "$@"
  else
    # Cases that leave the nodes alone run beside each other, the others one after another, also where some have failed.
    # The cluster is up by now, so its own load is measured too.
    local room
    room=$(cargo run --locked --quiet --package room -- "$per_processor")
    cases "$room" --skip figures:: --skip nodes::
    cases 1 nodes::
  fi
  [[ -z $failed ]]
}

# A second run on this machine would take this one's cluster away. What main starts, and may outlive it, holds no lock.
exec 9>> "/tmp/$CLUSTER.lock"
flock --nonblock 9 || { echo "run.sh: waiting for another run to leave the cluster $CLUSTER" >&2; flock 9; }
main "$@" 9>&-
