#!/usr/bin/env python3
"""Prints how a release was made, as SLSA 1.0 defines it (https://slsa.dev/provenance/v1).

    release/provenance.py TARGET SOURCE COMMIT            the predicate
    release/provenance.py TARGET SOURCE COMMIT FILE...    the in-toto statement about these files

TARGET is the make target, and SOURCE the URL of the sources. The commit pins every input:
Cargo.lock pins the crates, rust-toolchain.toml the compiler, and the Dockerfile its image and
packages.
"""

import hashlib
import json
import sys
from pathlib import Path

target, source, commit, *files = sys.argv[1:]
predicate = {
    "buildDefinition": {
        "buildType": "urn:baton:make:v1",
        "externalParameters": {"target": target},
        "resolvedDependencies": [
            {"uri": f"git+{source}@{commit}", "digest": {"gitCommit": commit}},
        ],
    },
    "runDetails": {"builder": {"id": "urn:baton:make:v1"}},
}
subjects = [
    {"name": path.name, "digest": {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}}
    for path in map(Path, files)
]
statement = {
    "_type": "https://in-toto.io/Statement/v1",
    "subject": subjects,
    "predicateType": "https://slsa.dev/provenance/v1",
    "predicate": predicate,
}
json.dump(statement if files else predicate, sys.stdout, sort_keys=True)
print()
