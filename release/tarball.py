#!/usr/bin/env python3
"""Packs the files of a folder into FOLDER/NAME.tar.gz, below NAME, so that equal files give equal
bytes.

    release/tarball.py FILES NAME FOLDER
"""

import sys
from pathlib import Path

import steady

root, name, folder = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
paths = [path for path in root.rglob("*") if not path.is_dir()]
files = {f"{name}/{path.relative_to(root)}": (path.stat().st_mode & 0o777, path.read_bytes()) for path in paths}
(folder / f"{name}.tar.gz").write_bytes(steady.zipped(steady.tar(files)))
