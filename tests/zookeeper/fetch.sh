#!/usr/bin/env bash
# Fetches the ZooKeeper server that the tests run against, pinned in the pom.xml beside this script, from Maven
# Central. Writes to .cache/zookeeper (and Maven's own repository), needs no root, and does nothing where all is
# there already.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
jars=$(dirname "$(dirname "$here")")/.cache/zookeeper
stamp=$jars/pom.xml

if cmp -s "$here/pom.xml" "$stamp"; then
  exit
fi
echo "fetching ZooKeeper: some seconds, once" >&2
rm -rf "$jars"
mvn --quiet --batch-mode --file "$here/pom.xml" \
  org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory="$jars"
cp "$here/pom.xml" "$stamp"
