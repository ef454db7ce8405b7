#!/usr/bin/env -S python3 -B
"""Judges a client library by the shared cases.

    clients/testing/run.py LANGUAGE [--case NAME]... [--variant NAME] [--terms N] [--mutants]

Touches a temporary folder and the processes that it starts. Start with `main`. README.md describes
the worker that each language ships, and the options.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import judge
import real
import scripted
from sidecar import CASES

CLIENTS = Path(__file__).resolve().parent.parent
MUTANTS = CLIENTS / "testing" / "mutants"


class Language:
    """A library's folder, and how to build and start its worker."""

    def __init__(self, name, folder, out):
        self.name, self.folder, self.out = name, folder, out
        self.spec = json.loads((folder / "worker.json").read_text(encoding="utf-8"))
        self.lacks = set(self.spec.get("lacks", []))

    def build(self):
        for command in self.spec.get("build", []):
            subprocess.run(self.expand(command), cwd=self.folder, check=True)

    def variants(self, wanted):
        commands = self.spec["commands"]
        return [(n, self.expand(c)) for n, c in commands.items() if wanted in (None, n)]

    def expand(self, command):
        places = {"{out}": str(self.out), "{here}": str(self.folder)}
        return [re.sub("{out}|{here}", lambda match: places[match[0]], word) for word in command]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("language")
    parser.add_argument("--case", action="append", help="only this case")
    parser.add_argument("--variant", help="only this command of worker.json")
    parser.add_argument("--terms", type=int, default=20, help="terms of the case exclusion")
    parser.add_argument("--mutants", action="store_true", help="require that mutants fail")
    parser.add_argument("--mutant", action="append", help="only this mutant")
    parser.add_argument("--keep", action="store_true", help="keep the folders of failed cases")
    arguments = parser.parse_args()
    cases = json.loads(CASES.read_text(encoding="utf-8"))["cases"]
    cases.append({"name": real.NAME})
    if real.sidecar_program() is None:
        parser.error("there is no sidecar: run cargo build, or set BATON_PROGRAM")
    names = {case["name"] for case in cases}
    unknown = set(arguments.case or []) - names
    if unknown:
        parser.error(f"there is no case {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory(prefix="baton-clients-") as folder:
        folder = Path(folder)
        if arguments.mutants or arguments.mutant:
            failed = run_mutants(arguments, cases, folder)
        else:
            failed = run_cases(arguments, cases, folder)
    return 1 if failed else 0


def run_cases(arguments, cases, folder):
    out = folder / "out"
    out.mkdir()
    language = Language(arguments.language, CLIENTS / arguments.language, out)
    language.build()
    failed = 0
    for variant, command in language.variants(arguments.variant):
        for case in cases:
            if arguments.case and case["name"] not in arguments.case:
                continue
            if language.lacks & set(case.get("needs", [])):
                print(f"skip {variant} {case['name']}: lacks {', '.join(case['needs'])}")
                continue
            began = time.monotonic()
            seen, reason = run_case(command, case, folder / "case", arguments)
            took = time.monotonic() - began
            verdict = "ok  " if reason is None else "FAIL"
            detail = reason or seen or f"{took:.1f} s"
            print(f"{verdict} {variant} {case['name']}: {detail}", flush=True)
            failed += reason is not None
    return failed


def run_case(command, case, folder, arguments):
    """What was seen, and why the case failed; None if it passed."""
    folder.mkdir()
    try:
        if case["name"] == real.NAME:
            return real.exclusion(command, folder, arguments.terms), None
        judge.judge(scripted.play(command, case, folder))
        return None, None
    except scripted.Failed as failure:
        if arguments.keep:
            kept = tempfile.mkdtemp(prefix="baton-clients-kept-")
            shutil.copytree(folder, kept, dirs_exist_ok=True)
            return None, f"{failure} (see {kept})"
        return None, str(failure)
    finally:
        shutil.rmtree(folder)


def run_mutants(arguments, cases, folder):
    """Applies each mutant to a copy of the library, and requires that its cases fail."""
    patches = sorted((MUTANTS / arguments.language).glob("*.patch"))
    by_name = {case["name"]: case for case in cases}
    failed, covered = 0, set()
    for patch in patches:
        head = patch.read_text(encoding="utf-8").split("\n--- ")[0]
        fails = re.search(r"^Fails: (.+)$", head, re.MULTILINE)[1].split()
        covered |= set(fails)
        if arguments.mutant and patch.stem not in arguments.mutant:
            continue
        chosen = re.search(r"^Variant: (.+)$", head, re.MULTILINE)
        copy = folder / patch.stem / arguments.language
        shutil.copytree(CLIENTS / arguments.language, copy, ignore=ignored)
        apply = ["patch", "--quiet", "-p1", "--input", str(patch), "--directory", str(copy)]
        subprocess.run(apply, check=True)
        out = folder / patch.stem / "out"
        out.mkdir()
        language = Language(arguments.language, copy, out)
        language.build()
        for variant, command in language.variants(chosen and chosen[1]):
            for name in fails:
                _, reason = run_case(command, by_name[name], out.with_name(name), arguments)
                verdict = "found" if reason else "MISSED"
                print(f"{verdict} {variant} {patch.stem} by {name}: {reason}", flush=True)
                failed += reason is None
        shutil.rmtree(folder / patch.stem)
    if not arguments.mutant:
        missing = set(by_name) - covered
        for name in sorted(missing):
            print(f"MISSED no mutant fails {name}")
        failed += len(missing)
    return failed


def ignored(folder, names):
    """What is no source: built files and downloaded packages."""
    return {n for n in names if n in ("target", "node_modules", "__pycache__", "build", "dist")}


if __name__ == "__main__":
    os.environ["PYTHONUNBUFFERED"] = "1"
    sys.dont_write_bytecode = True
    sys.exit(main())
