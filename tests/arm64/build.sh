#!/usr/bin/env bash
# Builds the program for arm64 with the flags of the Dockerfile, and prints its path.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=aarch64-unknown-linux-gnu
environment=$(tests/arm64/target.sh)
eval "$environment"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs"
# A folder of its own, since another compiler builds here.
cargo build --locked --quiet --release --target $target --target-dir target/arm64 --bin baton >&2
echo "$PWD/target/arm64/$target/release/baton"
