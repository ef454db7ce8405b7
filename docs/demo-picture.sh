#!/usr/bin/env bash
# Draws docs/demo.svg: what `make run` shows some seconds after its leader was killed. Needs python3 with venv.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.cache/tools/demo-picture
[[ -x $venv/bin/python ]] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check pyte==0.8.2
cargo build --locked --quiet --bin baton --example ledger --example demo
"$venv/bin/python" docs/demo_picture.py docs/demo.svg target/debug/examples/demo --backend=file
