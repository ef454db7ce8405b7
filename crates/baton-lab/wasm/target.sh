#!/usr/bin/env bash
# Makes sure that Rust can build for wasm32-unknown-unknown, and prints the environment for it:
#
#   eval "$(crates/baton-lab/wasm/target.sh)" && cargo build --target wasm32-unknown-unknown ...
#
# A toolchain that has the target is used as it is: `rustup target add wasm32-unknown-unknown`.
# Else, on Debian, its compiler for browsers (rustc-web) and sources are unpacked into .cache/wasm,
# and std is built from them once: 138 MB to download, 460 MB to keep. Nothing is installed.
set -euo pipefail
cd "$(dirname "$0")/../../.."
readonly target=wasm32-unknown-unknown least=1.95 dir=$PWD/.cache/wasm

die() {
  echo "wasm/target.sh: $*" >&2
  exit 1
}

# Without remapping, panics in the page would name paths of this machine.
finish() {
  [[ $# == 0 ]] || printf 'export RUSTC=%q\n' "$1"
  printf 'export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS=%q\n' \
    "--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo --remap-path-prefix=$PWD=."
  exit 0
}

has_target() {
  local libraries
  libraries=$("$1" --print target-libdir --target $target 2> /dev/null) || return 1
  compgen -G "$libraries/libstd-*.rlib" > /dev/null
}

has_target "${RUSTC:-rustc}" && finish
[[ -x $dir/rustc ]] && has_target "$dir/rustc" && finish "$dir/rustc"

for tool in apt-get apt-cache dpkg-deb cc; do
  command -v $tool > /dev/null || die "$tool is missing: run rustup target add $target"
done
candidate() { apt-cache policy "$1" | sed -n 's/^  Candidate: //p' | grep -v '(none)' || true; }
is_new_enough() { [[ $(printf '%s\n' $least "$1" | sort -V | head -n 1) == "$least" ]]; }
version=$(candidate rustc-web)
if ! is_new_enough "${version:-0}" && [[ $(id -u) == 0 ]]; then
  apt-get -qq update >&2
  version=$(candidate rustc-web)
fi
is_new_enough "${version:-0}" ||
  die "rustc-web $least is needed, and apt has ${version:-none}: run apt-get update"

# Build beside the final place, and move the whole at the end.
new=$dir.new
rm -rf "$new"
mkdir -p "$new/debs" "$new/root" "$new/std"
trap 'rm -rf "$new"' EXIT

dependencies() {
  apt-cache depends --important "$@" | sed -n 's/^  *\(Pre\)\{0,1\}Depends: \([^<>]*\)$/\2/p'
}
# Downloads packages and unpacks them; of the sources, only the library.
unpack() {
  local user=()
  [[ $(id -u) != 0 ]] || user=(-o APT::Sandbox::User=root)
  (cd "$new/debs" && apt-get -qq "${user[@]}" download "$@" >&2) ||
    die "apt could not download $*: run apt-get update"
  for deb in "$new"/debs/*.deb; do
    case $deb in
      */rust-web-src_*)
        dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$new/root" \
          --wildcards --no-wildcards-match-slash './usr/lib/rustlib' './usr/src/rustc-*/library'
        ;;
      *) dpkg-deb --extract "$deb" "$new/root" ;;
    esac
    rm "$deb"
  done
}
std=$(dependencies libstd-rust-web-dev | grep '^libstd-rust-web-')
llvm=$(dependencies "$std" | grep '^libllvm')
echo "unpacking Debian's rustc-web $version and building its std: two minutes, once" >&2
unpack "rustc-web=$version" "libstd-rust-web-dev=$version" "rust-web-src=$version" \
  "$std=$version" "$llvm" "lld-${llvm#libllvm}"

driver=$(find "$new/root/usr/lib" -name 'librustc_driver-*.so' | head -n 1)
libraries=$(dirname "${driver#"$new"/}")
missing() {
  LD_LIBRARY_PATH=$new/$libraries ldd "$driver" | sed -n 's/^\t*\(.*\) => not found/\1/p'
}
if [[ -n $(missing) ]]; then
  # The libraries that LLVM needs and this machine lacks. The C library is always there.
  mapfile -t more < <(apt-cache depends --recurse --important "$llvm" |
    grep '^[a-z]' | grep -v '^libc6$\|-base$' | while read -r package; do
    dpkg-query -W "$package" > /dev/null 2>&1 || echo "$package"
  done)
  [[ ${#more[@]} == 0 ]] || unpack "${more[@]}"
  [[ -z $(missing) ]] || die "these libraries are missing: $(missing | tr '\n' ' ')"
fi

cat > "$new/rustc" << END
#!/bin/sh
here=\$(dirname "\$(readlink -f "\$0")")
export LD_LIBRARY_PATH=\$here/$libraries\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}
exec "\$here/root/usr/bin/rustc" "\$@"
END
chmod +x "$new/rustc"
sysroot=$("$new/rustc" --print sysroot)
host=$("$new/rustc" -vV | sed -n 's/^host: //p')
mkdir -p "$sysroot/lib/rustlib/$host/bin"
ln -s "../../../llvm-${llvm#libllvm}/bin/lld" "$sysroot/lib/rustlib/$host/bin/rust-lld"

# With both kinds of library and fat LTO, std keeps its code and its bitcode, as rustup's does.
cat > "$new/std/Cargo.toml" << 'END'
[package]
name = "only-std"
version = "0.0.0"
edition = "2024"

[lib]
path = "lib.rs"
crate-type = ["cdylib", "rlib"]

[profile.release]
lto = "fat"
codegen-units = 1
panic = "abort"

[workspace]
END
: > "$new/std/lib.rs"
(
  cd "$new/std"
  unset CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_RUSTFLAGS
  rust=$sysroot/lib/rustlib/src/rust
  remap="--remap-path-prefix=$rust=/rustc --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
  RUSTC_BOOTSTRAP=1 RUSTC=$new/rustc RUSTFLAGS=$remap \
    cargo build --quiet --release --target $target --target-dir "$new/std/target" \
    -Z build-std=std,panic_abort -Z build-std-features= >&2
)
mkdir -p "$sysroot/lib/rustlib/$target/lib"
for library in "$new/std/target/$target/release/deps"/lib*.rlib; do
  [[ $library == */libonly_std* ]] || cp "$library" "$sysroot/lib/rustlib/$target/lib/"
done
has_target "$new/rustc" || die "std was built, but the compiler does not find it"
rm -rf "$new/std" "$new/debs" "$sysroot/src" "$sysroot/lib/rustlib/src" "$sysroot/share"
rm -rf "$dir"
mv "$new" "$dir"
finish "$dir/rustc"
