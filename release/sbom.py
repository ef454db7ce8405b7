#!/usr/bin/env python3
"""Writes the software bill of materials in CycloneDX: every crate in the program or in its build, and
what else the image contains.

    release/sbom.py TARGET INVENTORY.tar

TARGET is a Rust target triple. The checksums are those of Cargo.lock, which Cargo verifies.
INVENTORY.tar is the saved image of the Dockerfile's stage `inventory`, which lists Rust's std, the
packages of the libraries that are linked statically, and the certificate authorities.
"""

import json
import os
import subprocess
import time
import tomllib
import uuid
from urllib.parse import quote
import sys

import steady

target, saved_inventory = sys.argv[1:]


def cargo(*arguments):
    command = ["cargo", *arguments, "--locked"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


# The metadata includes features that only tests turn on, so the crates come from the tree.
edges = ["--package=baton", "--edges=normal,build", f"--target={target}"]
tree = cargo("tree", *edges, "--prefix=none", "--format={p}")
built = {tuple(line.split()[:2]) for line in tree.splitlines()}
metadata = json.loads(cargo("metadata", "--format-version=1", f"--filter-platform={target}"))
packages = {package["id"]: package for package in metadata["packages"]}
nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
root = metadata["resolve"]["root"]
with open("Cargo.lock", "rb") as file:
    locked = tomllib.load(file)["package"]
checksums = {(crate["name"], crate["version"]): crate.get("checksum") for crate in locked}


def reference(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def needed(node):
    """Dependencies of a crate's code and build script, without dev-dependencies."""
    kinds = lambda dependency: {kind["kind"] for kind in dependency["dep_kinds"]}
    is_built = lambda package: (package["name"], "v" + package["version"]) in built
    others = [dependency["pkg"] for dependency in node["deps"] if kinds(dependency) & {None, "build"}]
    return sorted(other for other in others if is_built(packages[other]))


def component(package):
    entry = {
        "type": "application" if package["id"] == root else "library",
        "bom-ref": reference(package),
        "name": package["name"],
        "version": package["version"],
        "purl": reference(package),
    }
    if package["license"]:
        # Old crates write "/" for "OR".
        entry["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if checksum := checksums[package["name"], package["version"]]:
        entry["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return entry


def inventory(text):
    """The components of the inventory: Rust's std, Debian packages, and the file of the authorities."""
    found = []
    for line in text.splitlines():
        match line.split():
            case ["std", version]:
                purl = f"pkg:generic/rust-std@{version}"
                found.append({"type": "library", "name": "std", "version": version, "purl": purl})
            case ["package", name, version]:
                purl = f"pkg:deb/debian/{name}@{quote(version, safe='')}"
                found.append({"type": "library", "name": name, "version": version, "purl": purl})
            case ["file", digest, path]:
                hashes = [{"alg": "SHA-256", "content": digest}]
                found.append({"type": "file", "name": path, "hashes": hashes, "bom-ref": f"file:{path}"})
            case _:
                sys.exit(f"sbom.py: the inventory has the line {line!r}")
    return [{"bom-ref": entry.get("purl")} | entry for entry in found]


reached, waiting = set(), [root]
while waiting:
    this = waiting.pop()
    if this not in reached:
        reached.add(this)
        waiting.extend(needed(nodes[this]))

_, _, files = steady.saved_image(saved_inventory)
others = inventory(files["inventory"][1].decode())
by_name = sorted(reached, key=lambda this: reference(packages[this]))
bom = {
    "bomFormat": "CycloneDX",
    "specVersion": "1.5",
    "version": 1,
    "metadata": {
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))),
        "component": component(packages[root]),
    },
    "components": [component(packages[this]) for this in by_name if this != root] + others,
    "dependencies": [
        {
            "ref": reference(packages[this]),
            "dependsOn": [reference(packages[that]) for that in needed(nodes[this])]
            + [other["bom-ref"] for other in others if this == root],
        }
        for this in by_name
    ],
}
bom["serialNumber"] = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(bom, sort_keys=True)).urn
json.dump(bom, sys.stdout, indent=1, sort_keys=True)
print()
