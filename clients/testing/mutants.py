"""Applies each mutant to a copy of a library, and requires that its cases fail.

Touches the folder that it is given. Start with `add`. README.md describes the patches.
"""

import re
from pathlib import Path

import processes
from language import Language
from report import Failure

MUTANTS = Path(__file__).resolve().parent / "mutants"


def add(tests, name, folder, cases, player, wanted):
    """Adds one test for each case that must find a mutant of the language `name`."""
    by_name = {case["name"]: case for case in cases}
    covered = set()
    for patch in sorted((MUTANTS / name).glob("*.patch")):
        head = patch.read_text(encoding="utf-8").split("\n--- ")[0]
        fails = re.search(r"^Fails: (.+)$", head, re.MULTILINE)[1].split()
        covered |= set(fails)
        if wanted and patch.stem not in wanted:
            continue
        chosen = re.search(r"^Variant: (.+)$", head, re.MULTILINE)
        label = f"{name}::{patch.stem}"
        language = Language(name, folder / patch.stem)
        tests.add(f"{label}::build", lambda l=language, p=patch: build(l, p), comes_first=True)
        for variant, command in language.variants(chosen and chosen[1]).items():
            own = label if variant == name else f"{label}::{variant}"
            for case in fails:
                tests.add(
                    f"{own}::found_by_{case}",
                    lambda w=command, c=by_name[case], f=folder / patch.stem / variant: must_fail(
                        player, w, c, f
                    ),
                    after=f"{label}::build",
                )
    if not wanted:
        unchanged = Language(name, folder / "unchanged")
        needed = [case["name"] for case in cases if not unchanged.lacking(case)]
        missing = [case for case in needed if case not in covered]
        tests.add(f"{name}::mutants_for_every_case", lambda: expect_none(missing))


def expect_none(missing):
    if missing:
        raise Failure(f"no mutant fails {', '.join(missing)}")


def build(language, patch):
    command = ["patch", "--quiet", "-p1", "--input", str(patch)]
    code, output = processes.run(command, cwd=language.source)
    if code != 0:
        raise Failure(f"the patch {patch} does not apply:\n{output}")
    language.build()


def must_fail(player, command, case, folder):
    try:
        player.play(command, case, folder)
    except Failure:
        return
    raise Failure("the case passed, though the library has a bug")
