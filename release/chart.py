#!/usr/bin/env python3
"""Repacks a chart that Helm has packaged, so that equal content gives equal bytes.

    release/chart.py PACKAGE.tgz FOLDER
"""

import sys
import tarfile
from pathlib import Path

import steady

package, folder = map(Path, sys.argv[1:])
with tarfile.open(package) as archive:
    files = steady.files(archive)
(folder / package.name).write_bytes(steady.zipped(steady.tar(files)))
