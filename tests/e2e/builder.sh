#!/usr/bin/env bash
# Creates the builder image of the Dockerfile on a machine without a registry: Debian with gcc, this
# machine's Rust toolchain, and every crate in Cargo.lock. Needs root, debootstrap, and a container
# engine.
#
#   tests/e2e/builder.sh podman             prints the image's name
#   make image ENGINE=podman BUILDER="$(tests/e2e/builder.sh podman)"
#
# The image's name has a hash of its inputs, so an existing image is reused.
set -euo pipefail
cd "$(dirname "$0")/../.."
engine=${1:?name the container engine: docker or podman}

toolchain=$(rustc --print sysroot)
image=localhost/baton-builder:$(cat <(sed '/^ *#/d' "$0") Cargo.lock <(rustc -vV) | sha256sum | cut -c1-12)
if "$engine" image inspect "$image" > /dev/null 2>&1; then
  echo "$image"
  exit
fi

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
{
  debootstrap --variant=minbase --include=gcc,libc6-dev,ca-certificates "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$root"
  rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
  mkdir "$root/rust" "$root/cargo"
  tar --directory "$toolchain" --create bin lib | tar --directory "$root/rust" --extract
  CARGO_HOME=$root/cargo cargo fetch --locked --target "$(rustc -vV | sed -n 's/^host: //p')"
  tar --directory "$root" --create . | "$engine" import --change ENV=PATH=/rust/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    --change ENV=CARGO_HOME=/cargo --change ENV=CARGO_NET_OFFLINE=true - "$image"
} >&2
echo "$image"
