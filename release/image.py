#!/usr/bin/env python3
"""Repacks an image that a container engine has saved, so that equal content gives equal bytes. Also
extracts the program that the image starts.

    release/image.py SAVED.tar FOLDER

`docker load`, `podman load`, and `kind load image-archive` accept the result. It keeps the
Dockerfile's user and labels, and drops the metadata that engines add.
"""

import hashlib
import json
import sys
import time
from pathlib import Path

import steady


saved, folder = map(Path, sys.argv[1:])
manifest, saved_config, files = steady.saved_image(saved)
layer = steady.tar(files)
labels = saved_config["config"].get("Labels") or {}
config = {
    "architecture": saved_config["architecture"],
    "os": saved_config["os"],
    "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(steady.EPOCH)),
    "config": {
        "User": saved_config["config"]["User"],
        "Entrypoint": saved_config["config"]["Entrypoint"],
        "Labels": {name: value for name, value in labels.items() if name.startswith("org.opencontainers.image.")},
    },
    "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
}
config = json.dumps(config, sort_keys=True).encode()
config_name = hashlib.sha256(config).hexdigest() + ".json"
[tag] = manifest["RepoTags"]
index = json.dumps([{"Config": config_name, "RepoTags": [tag], "Layers": ["layer.tar"]}]).encode()
image = steady.tar({config_name: (0o644, config), "layer.tar": (0o644, layer), "manifest.json": (0o644, index)})

# localhost/baton:0.1.0 becomes baton-0.1.0-linux-amd64
name = f"{tag.rsplit('/', 1)[-1].replace(':', '-')}-{saved_config['os']}-{saved_config['architecture']}"
(folder / f"{name}.image.tar").write_bytes(image)
[entrypoint] = saved_config["config"]["Entrypoint"]
program = folder / name
program.write_bytes(files[entrypoint.removeprefix("/")][1])
program.chmod(0o755)
