#!/usr/bin/env bash
# Checks prose by the rules in styles/Baton: Markdown, comments in code, charts, and scripts, and help texts (which are
# comments of src/cli.rs). Prints each finding as FILE:LINE, and fails where there is one more than allowed.
#
# `allowed` holds how many findings of each rule are left from before the rules: it may only shrink.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=tests/prose out=target/prose
"$here/build.sh"
vale() { .cache/tools/bin/vale --config "$here/vale.ini" --no-exit --output=line "$@"; }

# A check that finds nothing in sentences that are wrong on purpose shows nothing.
planted=$(vale "$here/planted.md" | wc -l)
[[ $planted -ge 10 ]] || { echo "prose: vale finds only $planted of the ten planted sentences" >&2; exit 1; }

rm -rf "$out"
git ls-files '*.rs' '*.sh' '*.toml' '*.yaml' 'crates/baton-election/tests/transcripts/*.txt' \
  | grep -v -e '^fuzz/corpus' | while read -r file; do [[ -L $file || ! -f $file ]] || echo "$file"; done \
  | python3 "$here/extract.py" "$out"
mapfile -t pages < <(git ls-files '*.md' | grep -v -e "^$here/planted.md" )
{
  vale "$out" "${pages[@]}" | sed -E "s#^(.*/)?$out/##; s#^$PWD/##; s#\.md:#:#"
  python3 "$here/columns.py" $(find "$out" -name '*.rs.md') "${pages[@]}" | sed -E "s#^$out/##; s#\.md:#:#"
} | sort > target/prose.txt

code=0
while read -r rule allowed; do
  found=$(grep -c ":$rule:" target/prose.txt || true)
  if [[ $found -gt $allowed ]]; then
    grep ":$rule:" target/prose.txt
    echo "prose: $found findings of $rule, and $allowed are allowed" >&2
    code=1
  fi
done < "$here/allowed"
exit "$code"
