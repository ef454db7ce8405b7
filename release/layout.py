#!/usr/bin/env python3
"""Writes an OCI image layout that holds one artifact, and prints the artifact's digest:

    release/layout.py image FOLDER REVISION IMAGE.tar...   an index of images of this revision
    release/layout.py chart FOLDER CHART.tgz               a chart, as Helm stores it in a registry

release/image.py packed the images. With an index, one line `DIGEST ARCHITECTURE` follows for each
image. Equal content gives equal digests.
"""

import hashlib
import json
import re
import sys
import tarfile
from pathlib import Path

import steady

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
CHART_CONFIG = "application/vnd.cncf.helm.config.v1+json"
CHART_LAYER = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"


def encoded(value):
    return json.dumps(value, sort_keys=True).encode()


class Layout:
    """https://github.com/opencontainers/image-spec/blob/main/image-layout.md"""

    def __init__(self, folder):
        self.folder = folder
        self.blobs = folder / "blobs" / "sha256"
        self.blobs.mkdir(parents=True)

    def add(self, media_type, content):
        """Stores a blob, and returns its descriptor."""
        digest = hashlib.sha256(content).hexdigest()
        (self.blobs / digest).write_bytes(content)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    def add_manifest(self, config, layers, annotations):
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers}
        return self.add(MANIFEST, encoded(manifest | {"annotations": annotations}))

    def finish(self, artifact):
        (self.folder / "oci-layout").write_bytes(encoded({"imageLayoutVersion": "1.0.0"}))
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [artifact]}
        (self.folder / "index.json").write_bytes(encoded(index))


def add_image(layout, path, revision):
    """Adds an image of this revision, and returns its descriptor with its platform, and its labels."""
    with tarfile.open(path) as archive:
        read = lambda name: archive.extractfile(name).read()
        [saved] = json.loads(read("manifest.json"))
        [layer] = saved["Layers"]
        config, content = read(saved["Config"]), read(layer)
    settings = json.loads(config)
    labels = settings["config"]["Labels"]
    if labels["org.opencontainers.image.revision"] != revision:
        sys.exit(f"{path} is not of the commit {revision}: build it again")
    layers = [layout.add(LAYER, steady.zipped(content))]
    manifest = layout.add_manifest(layout.add(CONFIG, config), layers, labels)
    platform = {"architecture": settings["architecture"], "os": settings["os"]}
    return manifest | {"platform": platform}, labels


def image(layout, arguments):
    revision, *paths = arguments
    added = [add_image(layout, path, revision) for path in sorted(paths)]
    manifests, labels = [manifest for manifest, _ in added], added[0][1]
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests, "annotations": labels}
    artifact = layout.add(INDEX, encoded(index))
    layout.finish(artifact)
    print(artifact["digest"])
    for manifest in manifests:
        print(manifest["digest"], manifest["platform"]["architecture"])


def chart(layout, arguments):
    [path] = map(Path, arguments)
    with tarfile.open(path) as archive:
        names = archive.getnames()
        [name] = [it for it in names if it.count("/") == 1 and it.endswith("/Chart.yaml")]
        text = archive.extractfile(name).read().decode()
    # The scalars of the first level, because registries show them. One may span several lines.
    scalars = re.findall(r"^(\w+): (.+(?:\n  .+)*)", text, re.MULTILINE)
    config = {key: " ".join(value.split()).strip('"') for key, value in scalars}
    layers = [layout.add(CHART_LAYER, path.read_bytes())]
    annotations = {
        "org.opencontainers.image.title": config["name"],
        "org.opencontainers.image.version": config["version"],
        "org.opencontainers.image.description": config["description"],
    }
    artifact = layout.add_manifest(layout.add(CHART_CONFIG, encoded(config)), layers, annotations)
    layout.finish(artifact)
    print(artifact["digest"])


kind, folder, *arguments = sys.argv[1:]
{"image": image, "chart": chart}[kind](Layout(Path(folder)), arguments)
