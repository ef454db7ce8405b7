#!/usr/bin/env bash
# Packs the files of a release from the images that `make image` has built: `make release`. Equal
# programs give equal bytes, on any machine and at any time.
#
#   ENGINE=docker|podman      the container engine
#   BATON_IMAGE, DEMO_IMAGE   the images
#   INVENTORY_IMAGE           the image that lists what the first one contains
#
# The argument is the output folder, which is deleted first. With a private key in KEY, the script
# also signs the release. No two signatures have the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?name the output folder}

[[ -z $(git status --porcelain) ]] || {
  echo "make: a release needs a clean work tree, and this one has changes: commit them" >&2
  exit 1
}
# The time of the commit, for every file.
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
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
architecture=$("$ENGINE" image inspect --format '{{.Architecture}}' "$BATON_IMAGE")
program=$out/baton-$version-linux-$architecture
# The manual pages are the same for every processor.
if ! "$program" --version > /dev/null 2>&1; then
  cargo build --locked --quiet --bin baton
  export BATON=target/debug/baton
fi
release/package.sh "$program" "$architecture" "$out"
if command -v lintian > /dev/null; then
  lintian --allow-root --fail-on error,warning "$out"/*.deb
else
  echo "make: lintian is missing, so Debian's rules for the package are not checked" >&2
fi
for chart in baton baton-sidecar; do
  "$helm" package --destination "$scratch" "charts/$chart" > "$scratch/helm.log" 2>&1 || { cat "$scratch/helm.log" >&2; exit 1; }
done
for package in "$scratch"/*.tgz; do
  release/chart.py "$package" "$out"
done
crates/baton-lab/build.sh
cp target/lab/lab.html "$out/baton-$version-lab.html"
# The crates depend on the processor, so use that of the image.
case $architecture in
  amd64) cpu=x86_64 ;;
  arm64) cpu=aarch64 ;;
  *) echo "make: no list of crates for the architecture '$architecture': set PLATFORM to linux/amd64 or linux/arm64" >&2; exit 1 ;;
esac
"$ENGINE" save --output "$scratch/inventory.tar" "$INVENTORY_IMAGE"
release/sbom.py "$cpu-unknown-linux-gnu" "$scratch/inventory.tar" > "$scratch/sbom"
mv "$scratch/sbom" "$out/baton-$version.cdx.json"
(cd "$out" && sha256sum -- * > "$scratch/SHA256SUMS")
mv "$scratch/SHA256SUMS" "$out"
[[ -z ${KEY:-} ]] || release/sign.sh "$out"
echo "$out:"
cat "$out/SHA256SUMS"
