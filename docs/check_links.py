"""Checks that each link of a built book leads to a file and an anchor in it, or out to the network.

    check_links.py FOLDER
"""

import pathlib
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id":
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


root = pathlib.Path(sys.argv[1]).resolve()
pages = {path: Page(path) for path in root.rglob("*.html")}
broken, checked = [], 0
for path, page in pages.items():
    # mdBook writes these two for any address on a server, so their links have no one base.
    if path.name in ("404.html", "toc.html"):
        continue
    for link in page.links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        checked += 1
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if not target.exists():
            broken.append(f"{path.relative_to(root)}: {link} leads nowhere")
        elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
            broken.append(f"{path.relative_to(root)}: {link} has no such heading")
print(f"{len(pages)} pages, {checked} links", file=sys.stderr)
for line in broken:
    print(line, file=sys.stderr)
sys.exit(1 if broken or not checked else 0)
