#!/usr/bin/env bash
# `make e2e`: creates a kind cluster of three nodes, runs the cluster tests, and deletes the cluster.
#
#   ENGINE=docker|podman     The container engine.
#   KIND_IMAGE=IMAGE         The image of the nodes. Default: kind's own.
#   BATON_IMAGE, DEMO_IMAGE  The images of the sidecar and of the demo, as built by `make image`.
#   ZOOKEEPER_IMAGE=IMAGE    A local image with zkServer.sh. Default: built by ensemble.sh.
#   KEEP=1                   Reuse an existing cluster, and do not delete it.
#
# The arguments are parts of test names. Without arguments, all tests run except the figures.
set -euo pipefail
cd "$(dirname "$0")/../.."
export ENGINE CLUSTER=baton-e2e BATON_IMAGE DEMO_IMAGE ZOOKEEPER_IMAGE
export KIND_EXPERIMENTAL_PROVIDER=$ENGINE KUBECONFIG=$PWD/target/e2e/kubeconfig
# .cache/charts has Helm 3 as helm3.
PATH=$(tests/e2e/tools.sh):$PWD/.cache/charts:$PATH
tests/servers/prometheus/build.sh
tests/servers/kube-state-metrics/build.sh
ZOOKEEPER_IMAGE=${ZOOKEEPER_IMAGE:-$(tests/e2e/ensemble.sh "$ENGINE")}
# The time limit in seconds. All cases, or the figures, take less on two busy cores.
readonly time_limit=7200
# Four parallel cases on two busy processors caused a load of 42.
readonly cases_per_processor=1.5
running= failed=

create_cluster() {
  kind delete cluster --name "$CLUSTER"
  kind create cluster --name "$CLUSTER" --config tests/e2e/kind.yaml --wait 120s ${KIND_IMAGE:+--image "$KIND_IMAGE"}
  kubectl wait --for=condition=Ready node --all --timeout=120s
}

clean_up() {
  trap '' INT TERM
  [[ -z $running ]] || kill "$running" 2> /dev/null || true
  [[ -n ${KEEP:-} ]] || kind delete cluster --name "$CLUSTER"
}

# Copies programs and images to the nodes. The witness is static, since the nodes lack this
# machine's libraries. Prometheus and kube-state-metrics run on the control plane.
provision_nodes() {
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

# run_cases THREADS ARGUMENTS
# Runs the cases that libtest selects by the arguments. Sets `failed` if one fails, or if none is
# selected, since a name is then wrong. They run in the background, so that signals end this script.
run_cases() {
  local node
  if ! cargo test --locked --quiet --test e2e -- --list "${@:2}" | grep ': test$' > /dev/null; then
    echo "run.sh: no case matches: ${*:2}" >&2
    failed=1
    return
  fi
  # Stops the witnesses of earlier cases, which otherwise keep polling every Pod.
  for node in $(kind get nodes --quiet --name "$CLUSTER"); do
    "$ENGINE" exec "$node" pkill witness || true
  done
  timeout $((time_limit - SECONDS)) cargo test --locked --test e2e -- --show-output --test-threads "$1" "${@:2}" &
  running=$!
  wait "$running" || failed=1
  running=
}

main() {
  mkdir -p target/e2e
  cargo test --locked --no-run --test e2e
  trap clean_up EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  [[ -n ${KEEP:-} && -n $(kind get nodes --quiet --name "$CLUSTER") ]] || create_cluster
  provision_nodes
  SECONDS=0
  if [[ $# -gt 0 ]]; then
    run_cases 1 "$@"
  else
    # Cases that leave the nodes alone run in parallel, and then the others one after another, even
    # after a failure. `room` runs with the cluster, to include its load.
    local room
    room=$(cargo run --locked --quiet --package room -- "$cases_per_processor")
    run_cases "$room" --skip figures:: --skip nodes::
    run_cases 1 nodes::
  fi
  [[ -z $failed ]]
}

# A second run on this machine would delete this cluster, so it waits. Processes that outlive `main`
# must not hold the lock.
exec 9>> "/tmp/$CLUSTER.lock"
flock --nonblock 9 || { echo "run.sh: waiting for another run to release the cluster $CLUSTER" >&2; flock 9; }
main "$@" 9>&-
