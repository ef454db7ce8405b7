#!/usr/bin/env python3
"""Makes of a chart that Helm has packaged one that is the same bytes whenever it is made.

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
