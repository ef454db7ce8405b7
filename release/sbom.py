#!/usr/bin/env python3
"""Says in CycloneDX what the program is made of: every crate that is compiled into it, or that runs to compile it.

    cargo metadata --locked --format-version 1 --filter-platform TARGET | release/sbom.py

Checksums are those of Cargo.lock, by which Cargo verifies what it fetches.
"""

import json
import os
import time
import tomllib
import uuid
import sys

metadata = json.load(sys.stdin)
packages = {package["id"]: package for package in metadata["packages"]}
nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
root = metadata["resolve"]["root"]
with open("Cargo.lock", "rb") as file:
    locked = tomllib.load(file)["package"]
checksums = {(crate["name"], crate["version"]): crate.get("checksum") for crate in locked}


def reference(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def needed(node):
    """What a crate's own code and its build script need; tests of ours are in no release."""
    kinds = lambda dependency: {kind["kind"] for kind in dependency["dep_kinds"]}
    return sorted(dependency["pkg"] for dependency in node["deps"] if kinds(dependency) & {None, "build"})


def component(package):
    told = {
        "type": "application" if package["id"] == root else "library",
        "bom-ref": reference(package),
        "name": package["name"],
        "version": package["version"],
        "purl": reference(package),
    }
    if package["license"]:
        # Before expressions were asked for, a slash stood for "or".
        told["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if checksum := checksums[package["name"], package["version"]]:
        told["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return told


reached, waiting = set(), [root]
while waiting:
    this = waiting.pop()
    if this not in reached:
        reached.add(this)
        waiting.extend(needed(nodes[this]))

by_name = sorted(reached, key=lambda this: reference(packages[this]))
bom = {
    "bomFormat": "CycloneDX",
    "specVersion": "1.5",
    "version": 1,
    "metadata": {
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))),
        "component": component(packages[root]),
    },
    "components": [component(packages[this]) for this in by_name if this != root],
    "dependencies": [
        {"ref": reference(packages[this]), "dependsOn": [reference(packages[that]) for that in needed(nodes[this])]}
        for this in by_name
    ],
}
bom["serialNumber"] = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(bom, sort_keys=True)).urn
json.dump(bom, sys.stdout, indent=1, sort_keys=True)
print()
