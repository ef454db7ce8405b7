#!/usr/bin/env bash
# Builds the lab and tests it in a real Chromium, and in Firefox where it is installed:
# `make test ONLY=lab`.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools=$PWD/.cache/lab

crates/baton-lab/build.sh
if ! cmp --quiet tests/lab/package.json "$tools/package.json"; then
  mkdir -p "$tools"
  npm install --silent --no-package-lock --ignore-scripts --prefix "$tools" \
    "playwright-core@$(sed -n 's/.*"playwright-core": "\(.*\)".*/\1/p' tests/lab/package.json)"
  cp tests/lab/package.json "$tools/package.json"
fi
cargo run --locked --quiet --package baton-sim --profile prove --bin prove -- --traces 1000 \
  > target/lab/traces
cargo run --locked --quiet --package baton-classics --profile prove --bin lab-table -- \
  --exhibits 1 > target/lab/exhibits
tests/lab/mutants.sh
crates/baton-lab/page.py target/lab/cargo/wasm32-unknown-unknown/lab/baton_lab_wasm.wasm \
  target/lab/traced.html target/lab/mutants/half-the-drift.json
# Node.js looks for packages beside the importing file.
rm -rf target/lab/tests
cp -r tests/lab target/lab/tests
ln -s "$tools/node_modules" target/lab/tests/node_modules
export CHROMIUM=${CHROMIUM:-$(command -v chromium)} LAB=$PWD/target/lab/lab.html
export TRACES=$PWD/target/lab/traces MUTANT_TRACES=$PWD/target/lab/mutants
export EXHIBITS=$PWD/target/lab/exhibits TRACED_LAB=$PWD/target/lab/traced.html
node --test --test-concurrency=2 target/lab/tests/*.test.mjs
export FIREFOX=${FIREFOX:-$(command -v firefox-esr || command -v firefox || true)}
[[ -z $FIREFOX ]] || node --experimental-websocket target/lab/tests/firefox.mjs
