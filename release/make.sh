#!/usr/bin/env bash
# Makes the files of a release out of the images that `make image` has left: `make release`. Of the same programs it makes the
# same bytes, whoever packs them, and when.
#
#   ENGINE=docker|podman      the container engine
#   BATON_IMAGE, DEMO_IMAGE   the images
#
# The argument is the folder for the files; what is in it goes.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?name the folder for the files}

[[ -z $(git status --porcelain) ]] || {
  echo "make: a release is made of a commit, and here are changes that are in none: commit them" >&2
  exit 1
}
# The one time in all files: the commit's.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
helm=$(tests/e2e/tools.sh)/helm
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
rm -rf "$out"
mkdir -p "$out"

for image in "$BATON_IMAGE" "$DEMO_IMAGE"; do
  "$ENGINE" save --output "$scratch/image.tar" "$image"
  release/image.py "$scratch/image.tar" "$out"
  rm "$scratch/image.tar"
done
for chart in baton baton-sidecar; do
  "$helm" package --destination "$scratch" "charts/$chart" > "$scratch/helm.log" 2>&1 || { cat "$scratch/helm.log" >&2; exit 1; }
done
for package in "$scratch"/*.tgz; do
  release/chart.py "$package" "$out"
done
# Of the program that is in the image: another processor takes other crates.
architecture=$("$ENGINE" image inspect --format '{{.Architecture}}' "$BATON_IMAGE")
case $architecture in
  amd64) cpu=x86_64 ;;
  arm64) cpu=aarch64 ;;
  *) echo "make: nobody knows the crates of an image for '$architecture': name linux/amd64 or linux/arm64 by PLATFORM" >&2; exit 1 ;;
esac
cargo metadata --locked --format-version 1 --filter-platform "$cpu-unknown-linux-gnu" | release/sbom.py > "$scratch/sbom"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
mv "$scratch/sbom" "$out/baton-$version.cdx.json"
(cd "$out" && sha256sum -- * > "$scratch/SHA256SUMS")
mv "$scratch/SHA256SUMS" "$out"
echo "$out:"
cat "$out/SHA256SUMS"
