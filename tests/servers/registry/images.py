#!/usr/bin/env python3
"""Writes a release of small images, as `make release` does for each architecture:

    images.py VERSION REVISION FOLDER

They contain no program, since nothing starts them.
"""

import hashlib
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "release"))
import steady

version, revision, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
for architecture in "amd64", "arm64":
    release = folder / architecture
    release.mkdir(parents=True)
    for name in "baton", "baton-demo":
        layer = steady.tar({"baton": (0o755, f"{name} for {architecture}".encode())})
        labels = {"title": name, "revision": revision}
        config = {
            "architecture": architecture,
            "os": "linux",
            "config": {"User": "1:1", "Entrypoint": ["/baton"], "Labels": {f"org.opencontainers.image.{label}": value for label, value in labels.items()}},
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
        }
        tags = [f"localhost/{name}:{version}"]
        manifest = [{"Config": "config.json", "RepoTags": tags, "Layers": ["layer.tar"]}]
        image = {"config.json": config, "manifest.json": manifest}
        files = {path: (0o644, json.dumps(content).encode()) for path, content in image.items()}
        archive = steady.tar(files | {"layer.tar": (0o644, layer)})
        (release / f"{name}-{version}-linux-{architecture}.image.tar").write_bytes(archive)
    component = {"name": architecture, "type": "application"}
    bom = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1}
    bom["metadata"] = {"component": component}
    (release / f"baton-{version}.cdx.json").write_text(json.dumps(bom))
