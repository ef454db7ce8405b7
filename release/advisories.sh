#!/usr/bin/env bash
# Checks the dependencies in every lock file against the RustSec database of known vulnerabilities:
# `make advisories`. Prints the date of the database.
#
#   CARGO_DENY=program   cargo-deny
#   DATABASE=folder      a clone of the database, where its own host cannot be reached
set -euo pipefail
cd "$(dirname "$0")/.."
readonly url=https://github.com/RustSec/advisory-db

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [[ -n ${DATABASE:-} ]]; then
  export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="url.file://$(realpath "$DATABASE").insteadOf" GIT_CONFIG_VALUE_0=$url
fi
{ cat deny.toml; printf '[advisories]\ndb-path = "%s"\ndb-urls = ["%s"]\n' "$scratch/databases" "$url"; } > "$scratch/deny.toml"
for manifest in Cargo.toml fuzz/Cargo.toml; do
  echo "$manifest:"
  "$CARGO_DENY" --locked --log-level error --config "$scratch/deny.toml" --manifest-path "$manifest" check advisories
done
git -C "$scratch"/databases/*/ log -1 --format='advisories.sh: the database is of %cs'
