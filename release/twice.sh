#!/usr/bin/env bash
# Builds the release of this commit twice, in clones in different folders, and compares the bytes:
# `make twice`. Takes ENGINE and BUILDER as `make image` does. Compiles this repository's sources
# each time, and reuses compiled dependencies.
set -euo pipefail
cd "$(dirname "$0")/.."
# Both builds use the same image names, which no other image has.
readonly registry=localhost/twice

cache=$(realpath .cache)
scratch=$(mktemp -d)
clear() {
  rm -rf "$scratch"
  # Removes images by name, so that other names of the same images stay.
  "$ENGINE" images --format '{{.Repository}}:{{.Tag}}' | { grep "^$registry/" || true; } \
    | xargs --no-run-if-empty "$ENGINE" rmi > /dev/null
}
trap clear EXIT

for folder in "$scratch/one" "$scratch/another/place"; do
  git clone --quiet . "$folder"
  ln -s "$cache" "$folder/.cache"
  make --no-print-directory -C "$folder" release ENGINE="$ENGINE" BUILDER="$BUILDER" REGISTRY="$registry" FRESH=1
done
diff --recursive --brief "$scratch/one/target/release-files" "$scratch/another/place/target/release-files"
echo "twice.sh: both releases have the same bytes"
