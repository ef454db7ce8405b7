"""A library's folder: how to build it, to start its worker, and to run its own checks.

Touches the folder that it is given, and processes. Start with `Language`.
"""

import json
import re
import shutil
from pathlib import Path

import processes
from report import Failure

CLIENTS = Path(__file__).resolve().parent.parent
CACHE = CLIENTS.parent / ".cache"
LANGUAGES = ("go", "python", "java", "node")
# Files that are not sources: built files and downloaded packages.
BUILT = shutil.ignore_patterns("target", "node_modules", "types", "__pycache__", "build", "dist")


class Language:
    """A copy of a library in `folder`, so that nothing is built in the sources."""

    def __init__(self, name, folder):
        self.name = name
        self.source, self.out = folder / name, folder / "out"
        self.out.mkdir(parents=True)
        shutil.copytree(CLIENTS / name, self.source, ignore=BUILT)
        self.spec = json.loads((self.source / "worker.json").read_text(encoding="utf-8"))
        self.lacks = set(self.spec.get("lacks", []))
        self.checks = list(self.spec["checks"])

    def build(self):
        for command in self.spec.get("build", []):
            self._run(command)

    def check(self, name):
        """Runs one of the library's own checks, such as its unit tests."""
        self._run(self.spec["checks"][name])

    def variants(self, wanted=None):
        """The commands that start a worker, by the names of its variants."""
        commands = self.spec["commands"]
        return {n: self._expand(c) for n, c in commands.items() if wanted in (None, n)}

    def lacking(self, case):
        """What the case needs and this language lacks."""
        return sorted(self.lacks & set(case.get("needs", [])))

    def _run(self, command):
        code, output = processes.run(self._expand(command), cwd=self.source)
        if code != 0:
            raise Failure(f"{' '.join(command)} ended with {code}:\n{output}")

    def _expand(self, command):
        places = {"{out}": str(self.out), "{here}": str(self.source), "{cache}": str(CACHE)}
        return [re.sub("{(out|here|cache)}", lambda match: places[match[0]], w) for w in command]
