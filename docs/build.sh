#!/usr/bin/env bash
# Builds the book into target/book and checks each link in it. The book opens from disk: target/book/index.html.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly version=0.5.4 tools=$PWD/.cache/tools

if [[ $("$tools/bin/mdbook" --version 2> /dev/null) != "mdbook v$version" ]]; then
  echo "building mdBook, which renders the book: five minutes, once" >&2
  cargo install --locked --quiet --root "$tools" --version "$version" --no-default-features --features search mdbook
fi

rm -rf target/book
"$tools/bin/mdbook" build docs
crates/baton-lab/build.sh
cp target/lab/lab.html target/book/lab.html
python3 docs/check_links.py target/book
echo "the book is target/book/index.html"
