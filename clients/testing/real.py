"""Runs two workers beside two real sidecars, and requires that their work never overlaps.

Touches a folder of its own, two loopback ports, and the processes that it starts. Start with
`exclusion`. The sidecars hold one election in a directory. They are killed, stopped, paused, and
told to resign, their store is blocked, and the workers are paused and killed, too.
"""

import fcntl
import itertools
import os
import signal
import socket
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import processes
from judge import MS, Piece
from scripted import Failed, Worker

NAME = "exclusion"
OPTIONS = {"step_ms": 150, "timeout_ms": 200, "poll_ms": 50, "check": 1}
TIMING = {
    "lease-duration": "2s",
    "renew-deadline": "1500ms",
    "retry-period": "200ms",
    "answer-validity": "600ms",
}
# Longer than the lease, so that the other candidate takes over meanwhile.
OUTAGE = 2.8
# Much longer than any take-over, on a busy machine, too: it may stop everything for 20 s.
PATIENCE = 120
# A disk that is slow to sync stops all candidates of a directory.
MEMORY = Path("/dev/shm")


def sidecar_program():
    """The sidecar to test, or None if it has not been built."""
    built = Path(__file__).resolve().parents[2] / "target/debug/baton"
    program = Path(os.environ.get("BATON_PROGRAM", built))
    return program if program.is_file() else None


class Application:
    """A worker and its sidecar."""

    def __init__(self, name, program, command, folder, store, timing=TIMING):
        self.name, self.program, self.command = name, program, command
        self.folder, self.store, self.timing = folder, store, timing
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.log = folder / f"{name}.sidecar"
        self.sidecar = self.worker = None
        self.ended = []
        self.workers = itertools.count()

    def start_sidecar(self):
        with open(self.log, "a", encoding="utf-8") as log:
            self.sidecar = processes.start(
                [
                    *(self.program, "run", "--election", "shared", "--backend", "file"),
                    *("--directory", self.store, "--identity-prefix", self.name),
                    *("--listen", self.address, "--probe-listen", "none", "--on-lost", "stay"),
                    *[f"--{name}={value}" for name, value in self.timing.items()],
                ],
                stderr=log,
                env={k: v for k, v in os.environ.items() if not k.startswith("BATON_")},
            )

    def start_worker(self):
        name = f"{self.name}-{next(self.workers)}"
        url = f"http://{self.address}"
        self.worker = Worker(self.command, "run", url, self.folder, name, OPTIONS)

    def kill_worker(self):
        self.worker.kill()
        self.ended.append(self.worker.lines())

    def kill(self):
        if self.sidecar:
            processes.kill(self.sidecar)
        if self.worker:
            self.worker.kill()

    def post(self, target):
        request = urllib.request.Request(f"http://{self.address}{target}", method="POST")
        request.add_header("Baton-Request", "1")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            opener.open(request, timeout=5).close()
        except (OSError, urllib.error.HTTPError):
            pass  # It may have lost the election meanwhile.


# What happens to the application that leads. Each leads to a new term.


def resign(application):
    application.post("/resign?hold_off=300ms")


def stop_sidecar(application):
    application.sidecar.terminate()
    application.sidecar.wait(PATIENCE)
    application.start_sidecar()


def kill_sidecar(application):
    processes.kill(application.sidecar)
    time.sleep(OUTAGE)
    application.start_sidecar()


def pause_sidecar(application):
    application.sidecar.send_signal(signal.SIGSTOP)
    time.sleep(OUTAGE)
    application.sidecar.send_signal(signal.SIGCONT)


def block_store(application):
    with open(application.store / "shared/lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        time.sleep(OUTAGE)


def pause_worker(application):
    application.worker.process.send_signal(signal.SIGSTOP)
    resign(application)
    time.sleep(OUTAGE)
    application.worker.process.send_signal(signal.SIGCONT)


def kill_worker(application):
    application.kill_worker()
    resign(application)
    application.start_worker()


FAULTS = [
    *(resign, kill_sidecar, resign, pause_worker, resign, resign, stop_sidecar, resign),
    *(block_store, resign, kill_worker, resign, resign, pause_sidecar, resign, stop_sidecar),
    *(resign, resign),
]


def exclusion(program, command, folder, terms):
    """Runs at least `terms` terms, and returns what was seen."""
    with tempfile.TemporaryDirectory(
        prefix="baton-clients-", dir=MEMORY if MEMORY.is_dir() else folder
    ) as store:
        return run(program, command, folder, Path(store), terms)


def run(program, command, folder, store, terms):
    names = ("one", "two")
    applications = [Application(name, program, command, folder, store) for name in names]
    began, faults, token = time.monotonic(), itertools.cycle(FAULTS), -1
    try:
        for application in applications:
            application.start_sidecar()
            application.start_worker()
        for number in range(terms):
            leader, token = next_leader(applications, token)
            worked(applications)
            # The terms end at different moments of the asking.
            time.sleep(0.05 + 0.03 * (number % 7))
            next(faults)(leader)
            for application in applications:
                # A sidecar that was paused while it led ends.
                if application.sidecar.poll() is not None:
                    application.start_sidecar()
        for application in applications:
            application.worker.stop()
        pieces, seconds = worked(applications), time.monotonic() - began
    finally:
        for application in applications:
            application.kill()
    seen, beats = len({piece.token for piece in pieces}), sum(len(p.acts) - 1 for p in pieces)
    if seen < terms:
        raise Failed(f"only {seen} terms were seen, not {terms}")
    return f"{seen} terms, {len(pieces)} pieces of work, {beats} beats, {seconds:.0f} s"


def next_leader(applications, token):
    """Waits for work in a later term than `token`: its application, and its token."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        for application in applications:
            if application.worker.process.poll() is not None:
                raise Failed(f"a worker ended with {application.worker.process.returncode}")
            if application.sidecar.poll() == 2:
                raise Failed("a sidecar ended with 2")
            lines = application.worker.lines()
            if lines and lines[-1].event in ("start", "beat") and int(lines[-1].token) > token:
                return application, int(lines[-1].token)
        time.sleep(0.01)
    raise Failed(f"no work began in a later term within {PATIENCE} s")


def worked(applications):
    """The pieces of work so far. No two intervals of work may overlap, and tokens only grow."""
    logs = [log for a in applications for log in [*a.ended, a.worker.lines()]]
    pieces = [piece for log in logs for piece in Piece.of(log)]
    # The beats are the work: each was noted before the check that allowed it.
    intervals = sorted((p.start, p.acts[-1].at, int(p.token)) for p in pieces)
    for (_, end, token), (start, _, later) in itertools.pairwise(intervals):
        if start <= end:
            raise Failed(
                f"work under token {later} began {(end - start) / MS:.0f} ms before work under "
                f"token {token} ended"
            )
        if later < token:
            raise Failed(f"work under token {later} came after work under token {token}")
    return pieces
