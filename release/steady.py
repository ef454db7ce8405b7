"""Archives without a trace of who made them, and when: files sorted by name, of nobody, at SOURCE_DATE_EPOCH."""

import gzip
import io
import os
import tarfile

EPOCH = int(os.environ["SOURCE_DATE_EPOCH"])


def tar(files):
    """A tar archive of these files: a map from names to (mode, content)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, (mode, content) in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.mode, entry.size, entry.mtime = mode, len(content), EPOCH
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def files(archive):
    """What is in an open tar archive, as `tar` takes it. Folders come with their files; links there are none."""
    found = {}
    for entry in archive:
        if not entry.isdir():
            assert entry.isfile(), f"{entry.name} is neither a file nor a folder"
            found[entry.name.removeprefix("./")] = (entry.mode & 0o777, archive.extractfile(entry).read())
    return found


def zipped(content):
    """The same, compressed."""
    return gzip.compress(content, mtime=0)
