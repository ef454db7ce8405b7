#!/usr/bin/env bash
# Makes an image of ZooKeeper where no registry can be reached: the servers that the other tests run against, what they need of
# this machine's Java, and a shell. Needs a JDK, Maven and a container engine, and no root.
#
#   tests/e2e/ensemble.sh podman             prints the image's name
#
# It is used as the public image `zookeeper` is: by its zkServer.sh. What is here already is not made again: the image is named
# after what went into it.
set -euo pipefail
cd "$(dirname "$0")/../.."
engine=${1:?name the container engine: docker or podman}

image=localhost/baton-zookeeper:$(cat "$0" tests/servers/zookeeper/pom.xml <(java -version 2>&1) | sha256sum | cut -c1-12)
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
  # Whatever any of it is linked to that is not part of Java itself, where it is here.
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
