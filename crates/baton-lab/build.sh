#!/usr/bin/env bash
# Builds the lab into target/lab/lab.html, one file that opens from disk: `make lab`.
#
#   TRACE=FILE   a trace file of `make prove` that the page opens at once
set -euo pipefail
cd "$(dirname "$0")/../.."
environment=$(crates/baton-lab/wasm/target.sh)
eval "$environment"
CARGO_TARGET_DIR=target/lab/cargo cargo build --locked --quiet --profile lab \
  --target wasm32-unknown-unknown --package baton-lab-wasm
crates/baton-lab/page.py \
  target/lab/cargo/wasm32-unknown-unknown/lab/baton_lab_wasm.wasm target/lab/lab.html \
  ${TRACE:+"$TRACE"}
