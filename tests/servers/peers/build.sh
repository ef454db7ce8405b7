#!/usr/bin/env bash
# Builds the candidates of other programs that the tests put beside ours in ZooKeeper, each from what is pinned in its folder:
# Curator's from Maven Central, kazoo's from PyPI.
# Writes to .cache/peers only (and Maven's own repository), needs no root, and does nothing where all is there already.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=$(cd "$here/../../.." && pwd)/.cache/peers

curator() {
  mvn --quiet --batch-mode --file "$here/curator/pom.xml" \
    org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory="$cache/curator"
  javac -cp "$cache/curator/*" -d "$cache/curator" "$here/curator/Candidate.java"
}

kazoo() {
  python3 -m venv "$cache/kazoo"
  "$cache/kazoo/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$here/kazoo/requirements.txt"
}

for peer in curator kazoo; do
  pins=$(cat "$here/build.sh" "$here/$peer"/*)
  [[ $pins != "$(cat "$cache/$peer/pins" 2> /dev/null)" ]] || continue
  echo "building the $peer candidate: some seconds, once" >&2
  rm -rf "${cache:?}/$peer"
  mkdir -p "$cache"
  "$peer"
  printf '%s\n' "$pins" > "$cache/$peer/pins"
done
