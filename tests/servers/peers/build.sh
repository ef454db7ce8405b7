#!/usr/bin/env bash
# Builds the Curator and kazoo candidates, which take part in ZooKeeper elections beside the
# sidecar. Their dependencies are pinned in their folders and come from Maven Central and PyPI.
# Writes to .cache/peers and Maven's own repository only, needs no root, and does nothing if the
# cache is current.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=$(cd "$here/../../.." && pwd)/.cache/peers

curator() {
  mvn --quiet --batch-mode --file "$here/curator/pom.xml" \
    org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory="$cache/curator"
  javac -cp "$cache/curator/*" -d "$cache/curator" "$here"/curator/*.java
}

kazoo() {
  python3 -m venv "$cache/kazoo"
  "$cache/kazoo/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$here/kazoo/requirements.txt"
}

for peer in curator kazoo; do
  # Without comments, so that rewording them rebuilds nothing.
  pins=$(sed '/^ *#/d' "$here/build.sh"; cat "$here/$peer"/*)
  [[ $pins != "$(cat "$cache/$peer/pins" 2> /dev/null)" ]] || continue
  echo "building the $peer candidate: takes some seconds, once" >&2
  rm -rf "${cache:?}/$peer"
  mkdir -p "$cache"
  "$peer"
  printf '%s\n' "$pins" > "$cache/$peer/pins"
done
