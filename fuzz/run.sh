#!/usr/bin/env bash
# Invents bytes for each target of fuzz/targets, or for those that TARGET names, TIME seconds each.
#
# Coverage guides it: LLVM counts the edges that were taken, by options of the compiler that are stable, and libFuzzer keeps
# what takes a new one. What it keeps stays in target/fuzz/corpus, and serves the next run; fuzz/corpus has what it begins with.
# Bytes that make something fail are written to target/fuzz/failures, with the command that reads them again.
set -euo pipefail
cd "$(dirname "$0")/.."
targets=${TARGET:-$(ls fuzz/corpus)}
seconds=${TIME:-60}
host=$(rustc --version --verbose | sed -n 's/^host: //p')
command -v c++ > /dev/null || { echo "fuzz: libFuzzer needs a C++ compiler: install it (Debian: g++)" >&2; exit 1; }

flags="--cfg fuzzing -C passes=sancov-module -C llvm-args=-sanitizer-coverage-level=4"
flags+=" -C llvm-args=-sanitizer-coverage-inline-8bit-counters -C llvm-args=-sanitizer-coverage-pc-table"
flags+=" -C llvm-args=-sanitizer-coverage-trace-compares"
RUSTFLAGS=$flags cargo build --locked --quiet --release --manifest-path fuzz/Cargo.toml --target "$host" --target-dir target/fuzz
fuzz=target/fuzz/$host/release/fuzz

# The system's trust is one certificate here: a client reads all of it, and to read a hundred takes longer than the rest.
unset SSL_CERT_DIR
export SSL_CERT_FILE=$PWD/target/fuzz/authority.pem
tail -c +2 fuzz/corpus/credentials/authority > "$SSL_CERT_FILE"

failed=()
for target in $targets; do
  mkdir -p "target/fuzz/corpus/$target" target/fuzz/failures
  log=target/fuzz/$target.log
  begun=$(date +%s)
  if TARGET=$target "$fuzz" -max_total_time="$seconds" -max_len=4096 -timeout=0 -print_final_stats=1 \
    -artifact_prefix="target/fuzz/failures/$target-" "target/fuzz/corpus/$target" "fuzz/corpus/$target" > "$log" 2>&1; then
    runs=$(sed -n 's/^stat::number_of_executed_units: //p' "$log")
    edges=$(sed -nE 's/.* cov: ([0-9]+) .*/\1/p' "$log" | tail -1)
    printf 'fuzz: %-11s %9d readings, %6d edges, %d s\n' "$target" "$runs" "$edges" "$(($(date +%s) - begun))"
  else
    failed+=("$target")
    grep -E -A3 'panicked at|ERROR: libFuzzer' "$log" >&2 || tail -20 "$log" >&2
    file=$(sed -n 's/.*Test unit written to //p' "$log" | tail -1)
    echo "fuzz: $target failed: TARGET=$target $fuzz $file" >&2
  fi
done
[ "${#failed[@]}" -eq 0 ]
