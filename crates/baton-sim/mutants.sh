#!/usr/bin/env bash
# Applies each mutant of crates/baton-sim/mutants to a copy of the sources, one at a time, and runs
# the simulator and the model checker on it.
#
# The simulator may run SEEDS scenarios, and the model checker its short models, each for at most
# PATIENCE seconds. These are seconds of processor time, so the load of the machine does not matter.
# A mutant that both miss must change a story: a transcript of crates/baton-election/tests/transcripts
# or a test of crates/baton-election/tests/withdrawals. Otherwise it is undetected, and the script
# exits with 1.
#
# Neither tool runs the stores in src. A mutant of those names the test that must find it in its
# second line, as arguments of `cargo test`: `Test: --lib store::etcd::messages`.
#
# MUTANTS names some mutants; with MUTANTS=1 all are applied. Their rows in
# docs/internals/mutants.md are rewritten. Results stay in target/mutants/found until a source
# changes, so an interrupted run continues where it stopped.
set -euo pipefail
cd "$(dirname "$0")/../.."
seeds=${SEEDS:-300000}
patience=${PATIENCE:-60}
copy=target/mutants/tree
build=$PWD/target/mutants/build
# The tests share their dependencies with other builds of tests.
tests=$PWD/target
found=target/mutants/found
names=${MUTANTS:-1}
[ "$names" != 1 ] || names=$(cd crates/baton-sim/mutants && echo *.patch)
# About a hundred builds: compile time matters more than speed.
export CARGO_PROFILE_PROVE_INCREMENTAL=true CARGO_PROFILE_PROVE_LTO=false
export CARGO_PROFILE_PROVE_CODEGEN_UNITS=4
TIMEFORMAT=%1U

# Copies get new modification times, so cargo rebuilds what earlier copies built.
rm -rf "$copy" && mkdir -p "$copy" "$found"
cp -r Cargo.toml Cargo.lock build.rs clippy.toml rust-toolchain.toml crates docs fuzz src examples \
  tests "$copy/"
ln -s "$PWD/.cache" "$copy/.cache"

# key PATCH: prints hashes of the mutant and of the sources that its result depends on.
key() {
  local sources=(crates/baton-election crates/baton-sim)
  [ -z "$(named_test "$1")" ] || sources=(crates/baton-election src tests)
  find Cargo.toml Cargo.lock "${sources[@]}" -type f ! -name '*.patch' ! -name '*.sh' \
    -exec sha256sum {} + | sort -k 2 | cat - "$1" | sha256sum
}

# named_test PATCH: prints the test that must find this mutant, if it names one.
named_test() { sed -n '2s/^Test: //p' "$1"; }

# detect COMMAND...: prints the violation that the command found and the processor time, or nothing.
detect() {
  local code=0 violation took
  took=$({ time { (ulimit -t "$patience" && exec "$@") > target/mutants/found.log 2>&1; }; } 2>&1) || code=$?
  [ "$code" != 0 ] && [ "$code" -lt 128 ] || return 0
  violation=$(sed -nE 's/^seed ([0-9]+), .*: at [0-9.a-zµ]+: violated "([^"]*)":.*/seed \1: \2/p
    s/^prove: insufficient coverage: (too few .*)/\1/p
    s/^prove: (the limit of an assumption is not where theory puts it)/\1/p
    s/^model: violated "([^"]*)" after ([0-9]+) steps.*/\2 steps: \1/p' target/mutants/found.log | head -1)
  [ -n "$violation" ] || violation=$(grep -m1 panicked -A1 target/mutants/found.log | tail -1)
  echo "$violation, $took s"
}

# changed_story: prints a transcript, or a story of the withdrawals, that the mutant changes.
changed_story() {
  (cd "$copy" && cargo test --locked --package baton-election --test transcripts \
    --test withdrawals --no-fail-fast --profile mutants --target-dir "$build" > "$build.log" 2>&1) \
    && return
  sed -nE 's#.*/(lease|zookeeper)/([a-z_]+)\.txt.*#`\2`#p
    s/^test ([a-z_]+::)?([a-z_]+) \.\.\. FAILED/`\2`/p' "$build.log" \
    | grep -v '`lease_\|`zookeeper_' | head -1 || true
}

# failed_test ARGUMENT...: prints a test among `cargo test ARGUMENT...` that fails.
failed_test() {
  (cd "$copy" && cargo test --locked --no-fail-fast --target-dir "$tests" "$@" \
    > "$build.out" 2> "$build.log") && return
  grep -q '^running' "$build.out" \
    || { cat "$build.log" >&2; echo "mutants: the test does not build" >&2; exit 2; }
  sed -nE 's/^test (.*::)?([a-z_0-9]+) \.\.\. FAILED/`\2`/p' "$build.out" | head -1
}

# check NAME: tests one mutant, and writes its row of the table.
check() {
  local patch=$PWD/crates/baton-sim/mutants/$1.patch bins=(--bin prove) simulated modeled= story= test
  test=$(named_test "$patch")
  # A mutant of the simulator does not affect the models; a mutant of shared code affects both.
  local machine=
  case $(grep '^--- ' "$patch") in
    *a/crates/baton-sim*) modeled='not modeled' ;;
    *a/crates/baton-election/src/queue*) machine=zookeeper ;;
    *a/crates/baton-election/src/record*) machine=lease ;;
  esac
  [ -n "$modeled" ] || bins+=(--features model --bin model)
  patch --quiet --fuzz=0 --strip=1 --directory="$copy" < "$patch" \
    || { echo "mutants: $1 no longer applies" >&2; exit 2; }
  if [ -n "$test" ]; then
    simulated='not simulated' modeled='not modeled'
    # shellcheck disable=SC2086 # Several arguments.
    story=$(failed_test $test)
  else
    (cd "$copy" && cargo build --locked --quiet --package baton-sim --profile prove "${bins[@]}" \
      --target-dir "$build" 2> "$build.log") \
      || { cat "$build.log" >&2; echo "mutants: $1 does not build" >&2; exit 2; }
    simulated=$(detect "$build/prove/prove" --seeds "$seeds")
    # shellcheck disable=SC2086 # No machine means both.
    [ -n "$modeled" ] || modeled=$(detect "$build/prove/model" short $machine)
    [ -n "$simulated${modeled#not*}" ] || story=$(changed_story)
  fi
  patch --quiet --strip=1 --reverse --directory="$copy" < "$patch"
  {
    key "$patch"
    echo "| \`$1\` | $(head -1 "$patch") | ${simulated:-—} | ${modeled:-—} | ${story:-—} |"
  } > "$found/$1"
}

page=docs/internals/mutants.md
{
  echo "# Mutants"
  echo
  echo "Written by \`make prove MUTANTS=1\`, which applies each mutant to the sources, one at a"
  echo "time, and runs two tools on it. The simulator runs at most $seeds scenarios, and the model"
  echo "checker the short models of the changed machine, each for at most $patience s of processor"
  echo "time. Mutants of the simulator itself are not modeled. A mutant that both miss must change a"
  echo "story of \`crates/baton-election/tests\`, a transcript or a withdrawal; otherwise it is"
  echo "undetected. Neither tool runs the code of a store, so a mutant of that names a test, which must"
  echo "fail."
  echo
  echo "| mutant | change | found by simulation | found by the model | changed story or failed test |"
  echo "|---|---|---|---|---|"
} > target/mutants/page.md
for name in $names; do
  name=${name%.patch}
  [ "$(head -1 "$found/$name" 2> /dev/null)" = "$(key "crates/baton-sim/mutants/$name.patch")" ] \
    || check "$name"
  tail -1 "$found/$name"
done | tee target/mutants/rows.md
# Of the other mutants, the page keeps the rows of earlier runs.
others=$(grep '^| `' "$page" | grep -vF "$(cut -d '|' -f 2 target/mutants/rows.md)" || true)
{ cat target/mutants/rows.md; echo "$others"; } | grep . | LC_ALL=C sort >> target/mutants/page.md
cp target/mutants/page.md "$page"
! grep -E '\| (—|not simulated) \| (—|not modeled) \| — \|' target/mutants/rows.md >&2
