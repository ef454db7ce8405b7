#!/usr/bin/env bash
# Checks prose by the rules in styles/Baton: Markdown, and comments in code, charts, and scripts. Help
# texts are comments of src/cli.rs. Prints each finding as FILE:LINE and fails if there is one.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=tests/prose out=target/prose
"$here/build.sh"
vale() { .cache/tools/bin/vale --config "$here/vale.ini" --no-exit --output=line "$@"; }

# A check that misses deliberate mistakes proves nothing.
planted=$(vale "$here/planted.md" | wc -l)
[[ $planted -ge 10 ]] || { echo "prose: vale finds only $planted of the ten planted sentences" >&2; exit 1; }

rm -rf "$out"
git ls-files '*.rs' '*.sh' '*.toml' '*.yaml' 'crates/*/tests/*transcripts/*.txt' \
  | grep -v -e '^fuzz/corpus' | while read -r file; do [[ -L $file || ! -f $file ]] || echo "$file"; done \
  | python3 "$here/extract.py" "$out"
mapfile -t pages < <(git ls-files '*.md' | grep -v -e "^$here/planted.md")
{
  vale "$out" "${pages[@]}" | sed -E "s#^(.*/)?$out/##; s#^$PWD/##; s#\.md:#:#"
  python3 "$here/columns.py" $(find "$out" -name '*.rs.md') "${pages[@]}" | sed -E "s#^$out/##; s#\.md:#:#"
} | sort > target/prose.txt

if [[ -s target/prose.txt ]]; then
  cat target/prose.txt
  echo "prose: $(wc -l < target/prose.txt) findings" >&2
  exit 1
fi
