#!/usr/bin/env bash
# Makes sure that Rust can build for arm64, and prints the environment for it:
#
#   eval "$(tests/arm64/target.sh)" && cargo build --target aarch64-unknown-linux-gnu ...
#
# A toolchain that has the target is used as it is: `rustup target add aarch64-unknown-linux-gnu`.
# Else, on Debian, the compiler of crates/baton-lab/wasm/target.sh gets Debian's std for arm64: 34 MB
# to download, once. Nothing is installed, and apt's own settings stay as they are.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly target=aarch64-unknown-linux-gnu linker=aarch64-linux-gnu-gcc

die() {
  echo "arm64/target.sh: $*" >&2
  exit 1
}

has_target() {
  local libraries
  libraries=$("$1" --print target-libdir --target $target 2> /dev/null) || return 1
  compgen -G "$libraries/libstd-*.rlib" > /dev/null
}

finish() {
  [[ $# == 0 ]] || printf 'export RUSTC=%q\n' "$1"
  printf 'export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=%q\n' $linker
  exit 0
}

# Downloads Debian's std of this release of the compiler with lists of its own, since apt knows no
# packages for arm64 unless this machine is told to.
unpack_std() {
  local rustc=$1 release version
  release=$("$rustc" -vV | sed -n 's/^release: //p')
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  mkdir -p "$scratch"/{state,cache,debs,root}
  : > "$scratch/status"
  cat > "$scratch/apt.conf" << END
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Sandbox::User "$(id -un)";
Dir::State "$scratch/state";
Dir::State::status "$scratch/status";
Dir::Cache "$scratch/cache";
END
  export APT_CONFIG=$scratch/apt.conf
  echo "unpacking Debian's std for arm64: some seconds, once" >&2
  apt-get -qq update >&2
  version=$(apt-cache madison libstd-rust-web-dev | awk '{ print $3 }' | grep "^$release+" | head -n 1) ||
    die "apt has no std for arm64 of Rust $release: remove .cache/wasm, and start again"
  (cd "$scratch/debs" && apt-get -qq download "libstd-rust-web-dev=$version" >&2)
  dpkg-deb --extract "$scratch"/debs/*.deb "$scratch/root"
  # Beside the final place first, and then the whole at once.
  local libraries
  libraries=$("$rustc" --print sysroot)/lib/rustlib
  rm -rf "$libraries/$target" "$libraries/$target.new"
  cp -R "$scratch/root/usr/lib/rustlib/$target" "$libraries/$target.new"
  mv "$libraries/$target.new" "$libraries/$target"
}

command -v $linker > /dev/null ||
  die "$linker is missing: install it (Debian: gcc-aarch64-linux-gnu libc6-dev-arm64-cross)"
if has_target "${RUSTC:-rustc}"; then finish; fi
for tool in apt-get apt-cache dpkg-deb; do
  command -v $tool > /dev/null || die "$tool is missing: run rustup target add $target"
done
environment=$(crates/baton-lab/wasm/target.sh)
eval "$environment"
[[ -n ${RUSTC:-} ]] || die "run rustup target add $target"
has_target "$RUSTC" || unpack_std "$RUSTC"
has_target "$RUSTC" || die "std was unpacked, but the compiler does not find it"
finish "$RUSTC"
