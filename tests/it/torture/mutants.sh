#!/usr/bin/env bash
# Builds the program with mutants of crates/baton-sim/mutants, one at a time, and tortures it until
# a check fails, for at most MINUTES=10 each. Prints a row for docs/internals/torture.md: the check
# that found the mutant, and after how many seconds.
#
# Each argument is STORE/MUTANT; without arguments, the pairs of that page are run again. SEED=1
# names the first seed. The servers must have been built, as by `make setup`.
set -euo pipefail
cd "$(dirname "$0")/../../.."
minutes=${MINUTES:-10} seed=${SEED:-1}
copy=target/mutants/torture/tree build=$PWD/target/mutants/torture/build
log=target/mutants/torture/log
pairs=("$@")
[ $# -gt 0 ] || mapfile -t pairs < <(sed -nE 's/^\| `([a-z]+)` \| `([a-z-]+)`.*/\1\/\2/p' docs/internals/torture.md)

tests=$(cargo test --locked --quiet --test it --no-run --message-format=json \
  | sed -nE 's/.*"executable":"([^"]*\/it-[^"]*)".*/\1/p')
rm -rf "$copy" && mkdir -p "$copy"
cp -r Cargo.toml Cargo.lock build.rs clippy.toml rust-toolchain.toml crates examples src tests "$copy/"

for pair in "${pairs[@]}"; do
  store=${pair%/*} name=${pair#*/}
  patch=$PWD/crates/baton-sim/mutants/$name.patch
  patch --quiet --fuzz=0 --strip=1 --directory="$copy" < "$patch"
  (cd "$copy" && BATON_REVISION=$name cargo build --locked --quiet --bin baton --target-dir "$build")
  patch --quiet --strip=1 --reverse --directory="$copy" < "$patch"
  begun=$SECONDS found='not found'
  BATON_PROGRAM=$build/debug/baton BATON_TORTURE_MINUTES=$minutes BATON_TORTURE_SEED=$seed \
    "$tests" --exact "torture::cases::$store" --nocapture > "$log" 2>&1 &
  # The search for the shortest schedule is not needed.
  while kill -0 $! 2> /dev/null && ! grep -q "^torture of $store failed" "$log"; do sleep 1; done
  took=$((SECONDS - begun))
  kill $! 2> /dev/null || true
  wait $! || true
  check=$(grep -ohE 'two lead|not larger than before|no progress|no calm|answered leading|ended with [0-9]+, which no fault explains|two commands ran' "$log" | head -1 || true)
  ! grep -q "^torture of $store failed" "$log" || found="${check:-another failure}, $took s"
  echo "| \`$store\` | \`$name\` | $(head -1 "$patch") | $found |"
done
