#!/usr/bin/env bash
# Fetches the ZooKeeper servers that the tests run against, pinned in the files beside this script, from Maven
# Central. Writes to .cache/zookeeper and .cache/zookeeper-old (and Maven's own repository), needs no root, and does
# nothing where all is there already.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=$(cd "$here/../../.." && pwd)/.cache

# fetch POM FOLDER
fetch() {
  local jars=$cache/$2
  if cmp -s "$here/$1" "$jars/pom.xml"; then
    return
  fi
  echo "fetching ZooKeeper into $2: some seconds, once" >&2
  rm -rf "$jars"
  mvn --quiet --batch-mode --file "$here/$1" \
    org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory="$jars"
  cp "$here/$1" "$jars/pom.xml"
}

fetch pom.xml zookeeper
fetch old.xml zookeeper-old
