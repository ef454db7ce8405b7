#!/usr/bin/env bash
# Packs a program for machines without Kubernetes: as a Debian package, and as a tarball for
# /usr/local. Both contain the program, its systemd units, manual pages, and shell completions.
# Equal programs give equal bytes.
#
#   release/package.sh PROGRAM ARCHITECTURE FOLDER
#
# ARCHITECTURE is amd64 or arm64. SOURCE_DATE_EPOCH is the time of every file. BATON writes the
# manual pages and the completions; the default is PROGRAM, which this machine then must be able to
# run.
set -euo pipefail
program=$(realpath "$1") architecture=$2 out=$(realpath "$3")
baton=$(realpath "${BATON:-$program}")
cd "$(dirname "$0")/.."
: "${SOURCE_DATE_EPOCH:?set it to the seconds since 1970 of the release}"
nfpm=$(release/tools.sh nfpm)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
usr=$scratch/usr

# put PATH: installs standard input as a file below usr.
put() { install -D -m 644 /dev/stdin "$usr/$1"; }

install -D -m 755 "$program" "$usr/bin/baton"
for unit in release/systemd/*.service; do
  put "lib/systemd/system/${unit##*/}" < "$unit"
done
"$baton" man | gzip -9n | put share/man/man1/baton.1.gz
subcommands=$("$baton" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z-]\+\) .*/\1/p')
for subcommand in $subcommands; do
  [[ $subcommand == help ]] || "$baton" man "$subcommand" | gzip -9n | put "share/man/man1/baton-$subcommand.1.gz"
done
"$baton" completions bash | put share/bash-completion/completions/baton
"$baton" completions zsh | put share/zsh/vendor-completions/_baton
"$baton" completions fish | put share/fish/vendor_completions.d/baton.fish
put share/doc/baton/copyright < release/copyright
put share/doc/baton/examples/orders.env < release/systemd/orders.env
put share/lintian/overrides/baton < release/lintian-overrides
cat > "$scratch/changelog.yaml" << END
- semver: $version
  date: $(date --utc --date "@$SOURCE_DATE_EPOCH" +%FT%TZ)
  packager: The maintainers of Baton <maintainers@baton.invalid>
  deb: {urgency: medium, distributions: [unstable]}
  changes:
    - note: "Version $version: its release notes list the changes."
END
find "$usr" -exec touch --date "@$SOURCE_DATE_EPOCH" {} +
here=$PWD
(cd "$scratch" && ARCHITECTURE=$architecture VERSION=$version \
  "$nfpm" "$here/release/nfpm.yaml" "$out")

# The tarball lives in /usr/local, whose zsh reads another folder, and leaves out Debian's own files.
sed -i 's#^ExecStart=/usr/bin/#ExecStart=/usr/local/bin/#' "$usr"/lib/systemd/system/*.service
mv "$usr/share/zsh/vendor-completions" "$usr/share/zsh/site-functions"
rm -r "$usr/share/lintian" "$usr/share/doc/baton/copyright"
put share/doc/baton/LICENSE < LICENSE
release/tarball.py "$usr" "baton-$version-linux-$architecture" "$out"
