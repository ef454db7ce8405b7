"""Writes the comments of sources as Markdown files of the same length, so that vale reads them as paragraphs.

    extract.py FOLDER < list of files

Each line of FOLDER/FILE.md is the comment that stands on that line of FILE, or empty.
"""

import pathlib
import re
import sys

COMMENT = {
    ".rs": re.compile(r"^\s*//[/!]? ?(.*)$"),
    ".yaml": re.compile(r"^\s*#+ ?(.*)$"),
    ".sh": re.compile(r"^\s*#(?!!) ?(.*)$"),
    ".toml": re.compile(r"^\s*# ?(.*)$"),
    ".txt": re.compile(r"^# ?(.*)$"),
}


def prose(path):
    comment = COMMENT[path.suffix]
    for line in path.read_text().splitlines():
        found = comment.match(line)
        yield found[1] if found else ""


for name in sys.stdin.read().split():
    source = pathlib.Path(name)
    target = pathlib.Path(sys.argv[1]) / f"{name}.md"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join(prose(source)) + "\n")
