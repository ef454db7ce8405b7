"""Reproducible archives: files sorted by name, without an owner, dated SOURCE_DATE_EPOCH."""

import gzip
import io
import json
import os
import tarfile

EPOCH = int(os.environ["SOURCE_DATE_EPOCH"])


def tar(files):
    """A tar archive of a map from names to (mode, content)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, (mode, content) in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.mode, entry.size, entry.mtime = mode, len(content), EPOCH
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def files(archive):
    """The files of an open tar archive, as `tar` takes them. Fails on links."""
    found = {}
    for entry in archive:
        if not entry.isdir():
            assert entry.isfile(), f"{entry.name} is neither a file nor a folder"
            found[entry.name.removeprefix("./")] = (entry.mode & 0o777, archive.extractfile(entry).read())
    return found


def saved_image(path):
    """The manifest, config, and files of an image that a container engine has saved."""
    with tarfile.open(path) as archive:
        read = lambda name: archive.extractfile(name).read()
        [manifest] = json.loads(read("manifest.json"))
        content = {}
        for layer in manifest["Layers"]:
            with tarfile.open(fileobj=io.BytesIO(read(layer))) as inner:
                content |= files(inner)
        return manifest, json.loads(read(manifest["Config"])), content


def zipped(content):
    """The content, compressed by gzip."""
    return gzip.compress(content, mtime=0)
