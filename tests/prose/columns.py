"""Finds lines of more than 100 columns, except tables, links, and code.

    columns.py FILE...
"""

import sys

LIMIT = 100

for name in sys.argv[1:]:
    is_code = False
    for number, line in enumerate(open(name, encoding="utf-8"), 1):
        line = line.rstrip("\n")
        if line.lstrip().startswith("```"):
            is_code = not is_code
        is_exempt = is_code or line.lstrip().startswith("|") or "://" in line
        if len(line) > LIMIT and not is_exempt:
            print(f"{name}:{number}:1:Baton.Columns:a line of {len(line)} columns")
