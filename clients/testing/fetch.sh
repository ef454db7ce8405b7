#!/usr/bin/env bash
# Fetches the packages that the tests of the client libraries need: the TypeScript compiler
# from npm, Celery from PyPI, Spring and ShedLock from Maven Central. The files in recipes and
# clients/node/package.json pin them. Writes to .cache/clients and the tools' own caches only, needs
# no root, and does nothing if the cache is current.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=$(cd "$here/../.." && pwd)/.cache/clients

typescript() {
  # A copy, because npm would write into the folder of the package.
  mkdir -p "$1"
  cp "$here/../node/package.json" "$1"
  npm install --silent --no-package-lock --ignore-scripts --prefix "$1"
}

python() {
  python3 -m venv "$1"
  "$1/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$here/recipes/python/requirements.txt"
}

java() {
  mvn --quiet --batch-mode --file "$here/recipes/java/pom.xml" \
    org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory="$1"
}

# fetch NAME PINS
fetch() {
  cmp -s "$2" "$cache/$1.pins" && return
  echo "fetching $1 packages for the clients: takes some seconds, once" >&2
  rm -rf "${cache:?}/$1"
  "$1" "$cache/$1"
  cp "$2" "$cache/$1.pins"
}

mkdir -p "$cache"
fetch typescript "$here/../node/package.json"
fetch python "$here/recipes/python/requirements.txt"
fetch java "$here/recipes/java/pom.xml"
