#!/usr/bin/env python3
"""Writes a release of small images, as `make release` does for each architecture:

    images.py VERSION FOLDER

They contain no program, since nothing starts them.
"""

import hashlib
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "release"))
import steady

version, folder = sys.argv[1], Path(sys.argv[2])
for architecture in "amd64", "arm64":
    release = folder / architecture
    release.mkdir(parents=True)
    for name in "baton", "baton-demo":
        layer = steady.tar({"baton": (0o755, f"{name} for {architecture}".encode())})
        config = {
            "architecture": architecture,
            "os": "linux",
            "config": {"User": "1:1", "Entrypoint": ["/baton"], "Labels": {"org.opencontainers.image.title": name}},
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
        }
        manifest = [{"Config": "config.json", "RepoTags": [f"localhost/{name}:{version}"], "Layers": ["layer.tar"]}]
        image = {"config.json": config, "manifest.json": manifest}
        files = {path: (0o644, json.dumps(content).encode()) for path, content in image.items()}
        archive = steady.tar(files | {"layer.tar": (0o644, layer)})
        (release / f"{name}-{version}-linux-{architecture}.image.tar").write_bytes(archive)
    bom = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": {"component": {"name": architecture, "type": "application"}}}
    (release / f"baton-{version}.cdx.json").write_text(json.dumps(bom))
