#!/usr/bin/env bash
# Fuzzes each target of fuzz/targets, or those in TARGET, for TIME seconds each.
#
# Stable compiler options make LLVM count the edges that an input takes. libFuzzer keeps inputs that
# take a new edge in target/fuzz/corpus, where the next run finds them; fuzz/corpus holds the seeds.
# Failing inputs are written to target/fuzz/failures, and the command that replays them is printed.
set -euo pipefail
cd "$(dirname "$0")/.."
targets=${TARGET:-$(ls fuzz/corpus)}
seconds=${TIME:-60}
host=$(rustc --version --verbose | sed -n 's/^host: //p')
command -v c++ > /dev/null || {
  echo "fuzz: c++ not found, which libFuzzer needs: install it (Debian: g++)" >&2
  exit 1
}

flags="--cfg fuzzing -C passes=sancov-module -C llvm-args=-sanitizer-coverage-level=4"
flags+=" -C llvm-args=-sanitizer-coverage-inline-8bit-counters"
flags+=" -C llvm-args=-sanitizer-coverage-pc-table"
flags+=" -C llvm-args=-sanitizer-coverage-trace-compares"
RUSTFLAGS=$flags cargo build --locked --quiet --release --manifest-path fuzz/Cargo.toml \
  --target "$host" --target-dir target/fuzz
fuzz=target/fuzz/$host/release/fuzz

# Trust one certificate instead of the system's. Parsing a hundred takes longer than the rest.
unset SSL_CERT_DIR
export SSL_CERT_FILE=$PWD/target/fuzz/authority.pem
tail -c +2 fuzz/corpus/credentials/authority > "$SSL_CERT_FILE"

failed=()
for target in $targets; do
  mkdir -p "target/fuzz/corpus/$target" target/fuzz/failures
  log=target/fuzz/$target.log
  began=$(date +%s)
  if TARGET=$target "$fuzz" -max_total_time="$seconds" -max_len=4096 -timeout=0 \
    -print_final_stats=1 -artifact_prefix="target/fuzz/failures/$target-" \
    "target/fuzz/corpus/$target" "fuzz/corpus/$target" > "$log" 2>&1; then
    runs=$(sed -n 's/^stat::number_of_executed_units: //p' "$log")
    edges=$(sed -nE 's/.* cov: ([0-9]+) .*/\1/p' "$log" | tail -1)
    printf 'fuzz: %-11s %9d inputs, %6d edges, %d s\n' \
      "$target" "$runs" "$edges" "$(($(date +%s) - began))"
  else
    failed+=("$target")
    grep -E -A3 'panicked at|ERROR: libFuzzer' "$log" >&2 || tail -20 "$log" >&2
    file=$(sed -n 's/.*Test unit written to //p' "$log" | tail -1)
    echo "fuzz: $target failed: TARGET=$target $fuzz $file" >&2
  fi
done
[ "${#failed[@]}" -eq 0 ]
