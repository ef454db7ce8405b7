#!/usr/bin/env -S python3 -B
"""Judges the client libraries by the shared cases, and runs their own checks.

    clients/testing/run.py [LANGUAGE]... [--case NAME]... [--terms N] [--jobs N] [--mutants]

Touches a temporary folder and the processes that it starts. Start with `main`. README.md describes
the worker that each language ships, and the options. The output has the form of `cargo test`.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import documents
import judge
import mutants
import processes
import real
import report
import scripted
from language import LANGUAGES, Language
from sidecar import CASES

# Most cases wait for clocks, so that many fit.
JOBS = 4 * len(os.sched_getaffinity(0))


def main():
    arguments = parse()
    cases = json.loads(CASES.read_text(encoding="utf-8"))["cases"]
    cases.append({"name": real.NAME})
    with tempfile.TemporaryDirectory(prefix="baton-clients-") as folder:
        folder = Path(folder)
        end_cleanly_on_signals()
        # A build may replace the program meanwhile.
        program = shutil.copy2(arguments.program, folder / "baton")
        player = Player(folder, program, arguments.terms, arguments.keep)
        tests = report.Tests(arguments.jobs)
        if arguments.documents:
            documents.add(tests, folder / "documents", program, arguments.case)
        for name in arguments.languages:
            if arguments.mutants or arguments.mutant:
                mutants.add(tests, name, folder / name, cases, player, arguments.mutant)
            else:
                add(tests, name, folder / name, cases, player, arguments)
        return 0 if tests.run() else 1


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help="or documents")
    parser.add_argument("--case", action="append", help="only this case or check")
    parser.add_argument("--variant", help="only this command of worker.json")
    parser.add_argument("--terms", type=int, default=20, help="terms of the case exclusion")
    parser.add_argument("--jobs", type=int, default=JOBS, help="how many run at once")
    parser.add_argument("--mutants", action="store_true", help="require that mutants fail")
    parser.add_argument("--mutant", action="append", help="only this mutant")
    parser.add_argument("--keep", action="store_true", help="keep the folders of failed cases")
    arguments = parser.parse_args()
    all_of_them = (*LANGUAGES, "documents")
    wanted = arguments.languages or all_of_them
    unknown = set(wanted) - set(all_of_them)
    if unknown:
        parser.error(f"unknown language: {', '.join(sorted(unknown))}")
    arguments.languages = [language for language in LANGUAGES if language in wanted]
    arguments.documents = "documents" in wanted and not arguments.mutants
    arguments.program = real.sidecar_program()
    if arguments.program is None:
        parser.error("there is no sidecar: run cargo build, or set BATON_PROGRAM")
    return arguments


def end_cleanly_on_signals():
    """Says why it ends, and ends all processes, so that each test soon removes its folder."""

    def stop(number, _frame):
        print(f"\nstopped by {signal.Signals(number).name}", flush=True)
        processes.kill_all()
        sys.exit(1)

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, stop)


def add(tests, name, folder, cases, player, arguments):
    """Adds one language's build, checks, and cases."""
    language = Language(name, folder)
    wanted = arguments.case
    tests.add(f"{name}::build", language.build, comes_first=True)
    for check in language.checks:
        if wanted is None or check in wanted:
            tests.add(f"{name}::{check}", lambda c=check: language.check(c), is_long=True)
    for variant, command in language.variants(arguments.variant).items():
        label = name if variant == name else f"{name}::{variant}"
        for case in cases:
            if wanted is not None and case["name"] not in wanted:
                continue
            lacking = language.lacking(case)
            tests.add(
                f"{label}::{case['name']}",
                lambda c=case, v=variant, w=command: player.play(w, c, folder / v),
                is_long=case["name"] == real.NAME,
                after=f"{name}::build",
                ignored=f"lacks {', '.join(lacking)}" if lacking else None,
            )


class Player:
    """Plays cases, each in a folder of its own."""

    def __init__(self, folder, program, terms, keeps):
        self.folder, self.program, self.terms, self.keeps = folder, program, terms, keeps

    def play(self, command, case, parent):
        """Returns what was seen, if there is more to say than that the case passed."""
        folder = parent / case["name"]
        folder.mkdir(parents=True)
        try:
            if case["name"] == real.NAME:
                return real.exclusion(self.program, command, folder, self.terms)
            return judge.judge(scripted.play(command, case, folder))
        except scripted.Failed as failure:
            says = case.get("says", "work beside real sidecars never overlaps")
            raise report.Failure(f"{says}:\n{failure}\n{self.evidence(folder)}") from None
        finally:
            shutil.rmtree(folder)

    def evidence(self, folder):
        """The ends of all files of a case."""
        texts = []
        for path in sorted(path for path in folder.iterdir() if path.is_file()):
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            texts += [f"  {path.name}:", *(f"    {line}" for line in lines[-12:])]
        if self.keeps:
            kept = tempfile.mkdtemp(prefix="baton-clients-kept-")
            shutil.copytree(folder, kept, dirs_exist_ok=True)
            texts.append(f"  all files: {kept}")
        return "\n".join(texts)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main())
