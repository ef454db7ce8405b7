"""Runs tests side by side, and reports them in the form of `cargo test`.

Touches threads and standard output. Start with `Tests`.
"""

import concurrent.futures
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass


class Failure(Exception):
    """A test failed. Its text says all that is needed."""


@dataclass
class Test:
    """One test: `body` raises if it fails."""

    name: str
    body: Callable[[], str | None]
    is_long: bool
    after: str | None
    ignored: str | None
    outcome: str = "ignored"
    seconds: float = 0.0
    said: str = ""

    def run(self):
        began = time.monotonic()
        try:
            self.said = self.body() or ""
            self.outcome = "ok"
        except Failure as failure:
            self.outcome, self.said = "FAILED", str(failure)
        except BaseException:
            self.outcome, self.said = "FAILED", traceback.format_exc()
        self.seconds = time.monotonic() - began
        return self


class Tests:
    """The tests of one run."""

    def __init__(self, jobs):
        self.jobs, self._first, self._others = jobs, [], []
        self._began = time.monotonic()

    def add(self, name, body, *, is_long=False, comes_first=False, after=None, ignored=None):
        """Adds a test. It does not run if the test `after` fails."""
        tests = self._first if comes_first else self._others
        tests.append(Test(name, body, is_long, after, ignored))

    def run(self):
        """Runs all, the long ones first. Returns whether all passed."""
        print(f"\nrunning {len(self._first + self._others)} tests", flush=True)
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            self._run(pool, self._first)
            broken = {test.name for test in self._first if test.outcome != "ok"}
            for test in self._others:
                if test.after in broken:
                    test.ignored = f"{test.after} failed"
                if test.ignored:
                    print(f"test clients::{test.name} ... ignored, {test.ignored}", flush=True)
            # Neighbors in the list are of one language, and would start its tools all at once.
            others = [test for test in self._others if not test.ignored]
            others.sort(key=lambda test: (not test.is_long, test.name.split("::")[-1]))
            self._run(pool, others)
        return self._report(self._first + self._others)

    @staticmethod
    def _run(pool, tests):
        try:
            for done in concurrent.futures.as_completed([pool.submit(t.run) for t in tests]):
                test = done.result()
                print(f"test clients::{test.name} ... {test.outcome}", flush=True)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise

    def _report(self, tests):
        failed = [test for test in tests if test.outcome == "FAILED"]
        if failed:
            print("\nfailures:")
            for test in failed:
                print(f"\n---- clients::{test.name}, after {test.seconds:.0f} s ----\n{test.said}")
            print("\nfailures:", *(f"    clients::{test.name}" for test in failed), sep="\n")
        self._table(tests)
        count = {o: sum(test.outcome == o for test in tests) for o in ("ok", "FAILED", "ignored")}
        print(
            f"\ntest result: {'FAILED' if failed else 'ok'}. {count['ok']} passed; "
            f"{count['FAILED']} failed; {count['ignored']} ignored; 0 measured; 0 filtered out; "
            f"finished in {time.monotonic() - self._began:.2f}s\n",
            flush=True,
        )
        return not failed

    @staticmethod
    def _table(tests):
        groups = {}
        for test in tests:
            groups.setdefault(test.name.rpartition("::")[0], []).append(test)
        width = max(map(len, groups), default=0)
        print(f"\n{'group':<{width}}{'passed':>8}{'failed':>8}{'ignored':>8}  slowest")
        for name, group in groups.items():
            outcomes = [test.outcome for test in group]
            counts = "".join(f"{outcomes.count(o):>8}" for o in ("ok", "FAILED", "ignored"))
            slowest = max(group, key=lambda test: test.seconds)
            case = f"{slowest.name.rpartition('::')[2]}, {slowest.seconds:.0f} s"
            said = [f"; {test.said}" for test in group if test.said and test.outcome == "ok"]
            print(f"{name:<{width}}{counts}  {case}{''.join(said)}")
