#!/usr/bin/env bash
# Makes the release of this commit twice, in clones in different folders, and compares the bytes: `make twice`. Takes ENGINE and
# BUILDER as `make image` does. Our own sources are compiled and linked both times; crates that are compiled already are not.
set -euo pipefail
cd "$(dirname "$0")/.."
# The images of both are called alike, and no other image is.
readonly registry=localhost/twice

cache=$(realpath .cache)
scratch=$(mktemp -d)
clear() {
  rm -rf "$scratch"
  # By name: other names of the same images stay.
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
echo "twice.sh: both are the same bytes"
