#!/usr/bin/env bash
# Fetches the ZooKeeper servers for the tests from Maven Central. The files beside this script pin
# them. Writes to .cache/zookeeper, .cache/zookeeper-old, and Maven's own repository only, needs no
# root, and does nothing if the cache is current.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=$(cd "$here/../../.." && pwd)/.cache

# fetch POM FOLDER
fetch() {
  local jars=$cache/$2
  if cmp -s "$here/$1" "$jars/pom.xml"; then
    return
  fi
  echo "fetching ZooKeeper into $2: takes some seconds, once" >&2
  rm -rf "$jars"
  mvn --quiet --batch-mode --file "$here/$1" \
    org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory="$jars"
  cp "$here/$1" "$jars/pom.xml"
}

fetch pom.xml zookeeper
fetch old.xml zookeeper-old
