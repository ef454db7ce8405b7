#!/usr/bin/env bash
# Creates an image of ZooKeeper on a machine without a registry: the servers of the other tests, the
# parts of this machine's Java that they need, and bash. Needs a JDK, Maven, and a container engine,
# but not root.
#
#   tests/e2e/ensemble.sh podman             prints the image's name
#
# Its zkServer.sh works as in the public image `zookeeper`. The image's name has a hash of its
# inputs, so an existing image is reused.
set -euo pipefail
cd "$(dirname "$0")/../.."
engine=${1:?name the container engine: docker or podman}

image=localhost/baton-zookeeper:$(cat <(sed '/^ *#/d' "$0") tests/servers/zookeeper/pom.xml <(java -version 2>&1) | sha256sum | cut -c1-12)
if "$engine" image inspect "$image" > /dev/null 2>&1; then
  echo "$image"
  exit
fi

readonly modules=java.base,java.logging,java.management,java.naming,java.security.jgss,java.security.sasl,jdk.crypto.ec,jdk.unsupported
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
{
  tests/servers/zookeeper/fetch.sh
  mkdir -p "$root"/{bin,data,tmp,zookeeper}
  jlink --add-modules "$modules" --strip-debug --no-header-files --no-man-pages --output "$root/java"
  cp .cache/zookeeper/*.jar "$root/zookeeper"
  cp "$(command -v bash)" "$root/bin"
  # Copies the shared libraries of these programs, except those of Java itself.
  find "$root/java" "$root/bin" -type f \( -name '*.so' -o -perm /111 \) -exec ldd {} \; 2> /dev/null \
    | sed --quiet 's/^\(.* => \|\t\)\(\/[^ ]*\) (.*/\2/p' | sort --unique | { grep --invert-match "^$root" || true; } \
    | xargs -I{} cp --dereference --parents {} "$root"
  cat > "$root/bin/zkServer.sh" << 'END'
#!/bin/bash
# zkServer.sh start-foreground FILE
exec java $SERVER_JVMFLAGS -cp '/zookeeper/*' org.apache.zookeeper.server.quorum.QuorumPeerMain "$2"
END
  chmod +x "$root/bin/zkServer.sh"
  tar --directory "$root" --create . | "$engine" import --change ENV=PATH=/java/bin:/bin - "$image"
} >&2
echo "$image"
