#!/usr/bin/env bash
# Builds the lab into target/lab/lab.html, one file that opens from disk: `make lab`.
#
#   TRACE=FILE   a trace file of `make prove` that the page opens at once
set -euo pipefail
cd "$(dirname "$0")/../.."
environment=$(crates/baton-lab/wasm/target.sh)
eval "$environment"
CARGO_TARGET_DIR=target/lab/cargo cargo build --locked --quiet --release \
  --target wasm32-unknown-unknown --manifest-path crates/baton-lab/wasm/Cargo.toml
crates/baton-lab/page.py \
  target/lab/cargo/wasm32-unknown-unknown/release/baton_lab_wasm.wasm target/lab/lab.html \
  ${TRACE:+"$TRACE"}
