#!/usr/bin/env bash
# Makes the image that the Dockerfile compiles in, where no registry can be reached: Debian with gcc, the Rust
# toolchain of this machine, and every crate that Cargo.lock names. Needs root, debootstrap and a container engine.
#
#   tests/e2e/builder.sh podman             prints the image's name
#   make image ENGINE=podman BUILDER="$(tests/e2e/builder.sh podman)"
#
# What is here already is not made again: the image is named after what went into it.
set -euo pipefail
cd "$(dirname "$0")/../.."
engine=${1:?name the container engine: docker or podman}

toolchain=$(rustc --print sysroot)
image=localhost/baton-builder:$(cat "$0" Cargo.lock <(rustc -vV) | sha256sum | cut -c1-12)
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
