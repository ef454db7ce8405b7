#!/usr/bin/env bash
# Plants every fault of tests/prove/mutants in a copy of the sources, one at a time, and lets `prove` look for it.
#
# A fault that is not found within SEEDS worlds is a hole in the judge, and ends this with 1. Prints the table of
# docs/safety.md: what was planted, the first seed that shows it, the property that did not hold, and the time to find it.
# MUTANTS names some of them; all where it says 1 or nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."
seeds=${SEEDS:-300000}
copy=target/mutants/tree
names=${MUTANTS:-1}
[ "$names" != 1 ] || names=$(cd tests/prove/mutants && echo *.patch)

# Plain copies are newer than anything that was built of them before.
rm -rf "$copy" && mkdir -p "$copy"
cp -r Cargo.toml Cargo.lock build.rs clippy.toml rust-toolchain.toml src tests "$copy/"
survivors=()
echo "| fault | first seed | what did not hold | seconds |"
echo "|---|---|---|---|"
for name in $names; do
  name=${name%.patch}
  patch=$PWD/tests/prove/mutants/$name.patch
  patch --quiet --strip=1 --directory="$copy" < "$patch" || { echo "mutants: $name does not apply any more" >&2; exit 2; }
  (cd "$copy" && cargo build --locked --quiet --no-default-features --features sim --profile prove --bin prove \
    --target-dir ../build 2> ../build.log) || { cat target/mutants/build.log >&2; echo "mutants: $name does not build" >&2; exit 2; }
  begun=$(date +%s%N)
  code=0
  timeout 100 target/mutants/build/prove/prove --seeds "$seeds" > target/mutants/found.log 2>&1 || code=$?
  if [ "$code" = 0 ] || [ "$code" = 124 ]; then
    survivors+=("$name")
    found="| none of $seeds | nothing "
  else
    found=$(sed -nE 's/^seed ([0-9]+), .*: at [0-9.a-zµ]+: (.*) does not hold:.*/| \1 | \2 /p' target/mutants/found.log)
    [ -n "$found" ] || found="| | $(grep -m1 panicked -A1 target/mutants/found.log | tail -1) "
  fi
  patch --quiet --strip=1 --reverse --directory="$copy" < "$patch"
  printf '| %s: %s %s| %.1f |\n' "$name" "$(head -1 "$patch")" "$found" "$(( ($(date +%s%N) - begun) / 100000000 ))e-1"
done
[ "${#survivors[@]}" -eq 0 ] || { echo "mutants: nobody found ${survivors[*]}" >&2; exit 1; }
