#!/usr/bin/env bash
# Fetches the TypeScript compiler for the tests from npm. clients/node/package.json pins it. Writes
# to .cache/typescript and npm's own cache only, needs no root, and does nothing if the cache is
# current.
set -euo pipefail
pins=$(cd "$(dirname "$0")/../node" && pwd)/package.json
cache=$(cd "$(dirname "$0")/../.." && pwd)/.cache/typescript
cmp -s "$pins" "$cache/package.json" && exit
echo "fetching the TypeScript compiler: takes some seconds, once" >&2
rm -rf "$cache"
mkdir -p "$cache"
cp "$pins" "$cache/new.json"
cd "$cache"
npm install --silent --no-save --no-package-lock --ignore-scripts --prefix "$cache" \
  $(node -p 'Object.entries(require("./new.json").devDependencies).map((p) => p.join("@")).join(" ")')
mv new.json package.json
