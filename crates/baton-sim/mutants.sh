#!/usr/bin/env bash
# Plants every fault of crates/baton-sim/mutants in a copy of the sources, one at a time, and lets the simulator and the model look for it.
#
# The simulator has SEEDS worlds and PATIENCE seconds, the model its short worlds and as long; these are seconds of processors, so how
# busy the machine is does not matter. What both miss is looked for in the stories of crates/baton-election/tests/transcripts, and what those miss
# too is a hole, and ends this with 1. MUTANTS names some faults; where it says 1, all are planted and docs/mutants.md is
# written anew. What was found stays in target/mutants/found until a source changes, so a run that was stopped goes on where it was.
set -euo pipefail
cd "$(dirname "$0")/../.."
seeds=${SEEDS:-300000}
patience=${PATIENCE:-60}
copy=target/mutants/tree
build=$PWD/target/mutants/build
found=target/mutants/found
names=${MUTANTS:-1}
[ "$names" != 1 ] || names=$(cd crates/baton-sim/mutants && echo *.patch)
# Some hundred builds: each soon rather than fast.
export CARGO_PROFILE_PROVE_INCREMENTAL=true CARGO_PROFILE_PROVE_LTO=false CARGO_PROFILE_PROVE_CODEGEN_UNITS=4
TIMEFORMAT=%1U

# Plain copies are newer than anything that was built of them before.
rm -rf "$copy" && mkdir -p "$copy" "$found"
cp -r Cargo.toml Cargo.lock build.rs clippy.toml rust-toolchain.toml crates src examples tests "$copy/"
sources=$(find Cargo.toml Cargo.lock crates/baton-election crates/baton-sim -type f ! -name '*.patch' ! -name '*.sh' -exec sha256sum {} + | sort -k 2 | sha256sum)

# look COMMAND...: what the command found, and after how long; nothing where it found nothing.
look() {
  local code=0 what took
  took=$({ time { (ulimit -t "$patience" && exec "$@") > target/mutants/found.log 2>&1; }; } 2>&1) || code=$?
  [ "$code" != 0 ] && [ "$code" -lt 128 ] || return 0
  what=$(sed -nE 's/^seed ([0-9]+), .*: at [0-9.a-zµ]+: (.*) does not hold:.*/seed \1: \2/p
    s/^prove: this run is void: (too few .*), so .*/\1/p
    s/^prove: (an assumption ends elsewhere than theory says)/\1/p
    s/^model: after [0-9]+ states, ([0-9]+) steps: (.*) does not hold/\1 steps: \2/p' target/mutants/found.log | head -1)
  [ -n "$what" ] || what=$(grep -m1 panicked -A1 target/mutants/found.log | tail -1)
  echo "$what, $took s"
}

# retell: a story that what is planted changes; nothing where none does.
retell() {
  (cd "$copy" && cargo test --locked --quiet --package baton-election --test transcripts --profile mutants \
    --target-dir "$build" > "$build.log" 2>&1) && return
  sed -nE 's#.*/(lease|zookeeper)/([a-z_]+)\.txt.*#`\2`#p' "$build.log" | head -1
}

# plant NAME: looks for one fault, and notes its line of the table.
plant() {
  local patch=$PWD/crates/baton-sim/mutants/$1.patch bins=(--bin prove) drawn gone_through= told=
  # What is planted in the simulated world is not in the model's; what both machines share is in both of its worlds.
  local machine=
  case $(grep '^--- ' "$patch") in
    *a/crates/baton-sim*) gone_through='not in its worlds' ;;
    *a/crates/baton-election/src/queue*) machine=zookeeper ;;
    *a/crates/baton-election/src/record*) machine=lease ;;
  esac
  [ -n "$gone_through" ] || bins+=(--features model --bin model)
  patch --quiet --fuzz=0 --strip=1 --directory="$copy" < "$patch" || { echo "mutants: $1 does not apply any more" >&2; exit 2; }
  (cd "$copy" && cargo build --locked --quiet --package baton-sim --profile prove "${bins[@]}" \
    --target-dir "$build" 2> "$build.log") || { cat "$build.log" >&2; echo "mutants: $1 does not build" >&2; exit 2; }
  drawn=$(look "$build/prove/prove" --seeds "$seeds")
  # shellcheck disable=SC2086 # No machine means both.
  [ -n "$gone_through" ] || gone_through=$(look "$build/prove/model" short $machine)
  [ -n "$drawn${gone_through#not*}" ] || told=$(retell)
  patch --quiet --strip=1 --reverse --directory="$copy" < "$patch"
  { echo "$sources $(sha256sum < "$patch")"; echo "| \`$1\` | $(head -1 "$patch") | ${drawn:-—} | ${gone_through:-—} | ${told:-—} |"; } > "$found/$1"
}

{
  echo "# Faults that are planted"
  echo
  echo "Written by \`make prove MUTANTS=1\`, which plants each of them in the sources, one at a time, and lets both look for it: the"
  echo "simulator, in at most $seeds worlds and $patience s of processors, and the model of the machine that it is planted in, in its short worlds"
  echo "and as long; what is planted in the simulated world is not in the model's. What both miss is looked for in the stories of"
  echo "\`crates/baton-election/tests/transcripts\`, and is a hole where no story changes."
  echo
  echo "| fault | what is planted | the simulator finds | the model finds | the story that changes |"
  echo "|---|---|---|---|---|"
} > target/mutants/table.md
for name in $names; do
  name=${name%.patch}
  [ "$(head -1 "$found/$name" 2> /dev/null)" = "$sources $(sha256sum < "crates/baton-sim/mutants/$name.patch")" ] || plant "$name"
  tail -1 "$found/$name" | tee -a target/mutants/table.md
done
[ "${MUTANTS:-1}" != 1 ] || cp target/mutants/table.md docs/mutants.md
! grep -E '\| — \| (—|not in its worlds) \| — \|' target/mutants/table.md >&2
