#!/usr/bin/env bash
# Signs the files of a release. Writes SHA256SUMS.sigstore.json, the signature of the checksums, and
# provenance.sigstore.json, the in-toto statement with the provenance of each file.
#
#   release/sign.sh FOLDER
#
# release/signing.sh names the variables.
set -euo pipefail
folder=$(realpath "$1")
[[ ! -f ${KEY:-} ]] || KEY=$(realpath "$KEY")
cd "$(dirname "$0")/.."
keys=$(mktemp -d)
trap 'rm -rf "$keys"' EXIT
source release/signing.sh

rm -f "$folder"/*.sigstore.json
release/provenance.py release "$SOURCE" "$(git rev-parse HEAD)" "$folder"/* > "$keys/statement"
"$cosign" sign-blob "${signing[@]}" --bundle "$keys/SHA256SUMS.sigstore.json" \
  "$folder/SHA256SUMS" > /dev/null
"$cosign" attest-blob "${signing[@]}" --bundle "$keys/provenance.sigstore.json" \
  --statement "$keys/statement" > /dev/null

"$cosign" verify-blob "${verifying[@]}" --bundle "$keys/SHA256SUMS.sigstore.json" \
  "$folder/SHA256SUMS"
for file in "$folder"/*; do
  "$cosign" verify-blob-attestation "${verifying[@]}" --type slsaprovenance1 \
    --bundle "$keys/provenance.sigstore.json" "$file"
done
mv "$keys"/*.sigstore.json "$folder/" # both, or none after a failure
