#!/usr/bin/env bash
# Writes the trace files of five mutants into target/lab/mutants: deliberate bugs that let two
# candidates lead at once. Applies each to a copy of the sources.
set -euo pipefail
cd "$(dirname "$0")/../.."
copy=target/lab/mutant build=$PWD/target/lab/mutant-build out=$PWD/target/lab/mutants
# Five builds: compile time matters more than speed.
export CARGO_PROFILE_PROVE_INCREMENTAL=true CARGO_PROFILE_PROVE_LTO=false
export CARGO_PROFILE_PROVE_CODEGEN_UNITS=4

sources=$(find Cargo.lock crates/baton-election crates/baton-sim tests/lab/mutants.sh -type f \
  -exec sha256sum {} + | sort -k 2 | sha256sum)
[[ $(cat "$out.sources" 2> /dev/null) != "$sources" ]] || exit 0
rm -rf "$copy" "$out"
mkdir -p "$copy" "$out"
cp -r Cargo.toml Cargo.lock build.rs clippy.toml rust-toolchain.toml crates src examples tests \
  "$copy/"
for name in another-holder-ignored clock-is-set-back clocks-beyond-the-drift half-the-drift \
  own-lease; do
  patch --quiet --fuzz=0 --strip=1 --directory="$copy" < "crates/baton-sim/mutants/$name.patch"
  (cd "$copy" && cargo build --locked --quiet --package baton-sim --profile prove --bin prove \
    --target-dir "$build")
  patch --quiet --strip=1 --reverse --directory="$copy" < "crates/baton-sim/mutants/$name.patch"
  # The first seed that breaks exclusion. Others may violate another property first.
  for seed in {0..400}; do
    "$build/prove/prove" --replay "$seed" --trace "$out/$name.json" > /dev/null && continue
    grep -qE '"property":"(at most one|the record names)' "$out/$name.json" && continue 2
  done
  echo "tests/lab/mutants.sh: no seed up to $seed breaks exclusion with $name" >&2
  exit 1
done
echo "$sources" > "$out.sources"
