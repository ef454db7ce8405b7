#!/usr/bin/env python3
"""Joins the page's files and the WebAssembly into one HTML file.

    page.py WASM OUT [TRACE]

The style, the script, and the WebAssembly are compressed. The Content Security Policy names the
style, the script, and its loader by their hashes, and allows no origin.
"""

import base64
import gzip
import hashlib
import json
import sys
from pathlib import Path

PAGE = Path(__file__).parent / "page"
# In the order in which they use one another.
SCRIPTS = [
    "machine", "experiment", "intervals", "timeline", "network", "stage", "recipes", "scenarios",
    "classics", "link", "actions", "cards", "main",
]
MOST_BYTES = 500_000


def main(wasm, out, trace=None):
    style = stripped((PAGE / "style.css").read_text())
    scripts = [stripped((PAGE / f"{name}.js").read_text()) for name in SCRIPTS]
    script = '"use strict";\n(() => {\n' + "\n".join(scripts) + "})();\n"
    loader = (PAGE / "loader.js").read_text()
    recorded = json.loads(Path(trace).read_text()) if trace else None
    parts = {
        "policy": "; ".join([
            "default-src 'none'", f"script-src 'wasm-unsafe-eval' '{sha256(script)}' '{sha256(loader)}'",
            f"style-src '{sha256(style)}'", "img-src data:", "base-uri 'none'", "form-action 'none'",
        ]),
        "loader": loader,
        "code": packed(json.dumps({"style": style, "script": script}).encode()),
        "wasm": packed(Path(wasm).read_bytes()),
        "trace": json.dumps(recorded, separators=(",", ":")).replace("<", "\\u003c"),
    }
    html = (PAGE / "index.html").read_text()
    for name, text in parts.items():
        html = html.replace("{{" + name + "}}", text)
    size = len(html.encode()) - len(parts["trace"])
    if size > MOST_BYTES:
        sys.exit(f"page.py: the page has {size} bytes, and {MOST_BYTES} are allowed")
    Path(out).write_text(html)
    print(f"{out}: {size // 1000} kB", file=sys.stderr)


def stripped(text):
    """The text without indentation, empty lines, and lines that are only a comment."""
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


def packed(data):
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()


def sha256(text):
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


if __name__ == "__main__":
    main(*sys.argv[1:])
