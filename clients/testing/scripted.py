"""Runs a worker beside a scripted sidecar.

Touches a folder of its own, the sidecar's process, and the worker's. Start with `play`, which
returns what `judge.py` needs.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import processes
from sidecar import boottime

HERE = Path(__file__).parent
STARTING_MS = 30_000
STOPPING_MS = 20_000
# No request times out on a busy machine, except where a case wants that.
DEFAULTS = {"step_ms": 300, "timeout_ms": 3000, "poll_ms": 50}
# The longest time that three readings of clocks may take together.
CLOCK_GAP_NS = 20_000


class Failed(Exception):
    """The client broke a rule."""


@dataclass
class Played:
    """What the worker and the sidecar wrote."""

    case: dict
    options: dict
    lines: list = field(default_factory=list)
    record: list = field(default_factory=list)
    stopped_at: int = 0
    exit_code: int | None = None
    url: str = ""
    errors: str = ""
    # How long the case took to reach its end.
    took_ms: float = 0


@dataclass
class Line:
    """One line of a worker's log."""

    token: str
    event: str
    at: int
    until: int = 0


def read_record(path):
    return [json.loads(line) for line in path.read_text(encoding="ascii").split("\n")[:-1]]


def clock_offset():
    """CLOCK_BOOTTIME less CLOCK_MONOTONIC. A pause between the two readings would falsify it."""
    while True:
        began = time.monotonic_ns()
        offset = boottime() - time.monotonic_ns()
        if time.monotonic_ns() - began < CLOCK_GAP_NS:
            return offset


class Worker:
    """A worker's process and its log."""

    def __init__(self, command, mode, url, folder, name, options, environment=None):
        self.log = folder / f"{name}.log"
        self._read, self._lines = 0, []
        self.errors = folder / f"{name}.err"
        self._errors = open(self.errors, "ab")
        options = [f"{key}={value}" for key, value in options.items()]
        offset = clock_offset()
        surroundings = {**os.environ, **(environment or {})}
        surroundings |= {"BATON_URL": url, "BATON_WORKER_CLOCK_OFFSET_NS": str(offset)}
        self.process = processes.start(
            [*command, mode, str(self.log), *options],
            env=surroundings,
            stdout=self._errors,
            stderr=self._errors,
        )

    def lines(self):
        """The complete lines of the log so far."""
        if self.log.exists():
            with open(self.log, "rb") as log:
                log.seek(self._read)
                new = log.read()
            new = new[: new.rfind(b"\n") + 1]
            self._read += len(new)
            for line in new.decode("ascii").splitlines():
                token, event, *times = line.split()
                self._lines.append(Line(token, event, *map(int, times)))
        return self._lines

    def stop(self):
        """Asks it to end. Returns its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(STOPPING_MS / 1000)
        except subprocess.TimeoutExpired:
            raise Failed("the worker did not end after SIGTERM") from None

    def kill(self):
        processes.kill(self.process)
        self._errors.close()


def wait_for(what, is_true, within_ms, process):
    until = time.monotonic() + within_ms / 1000
    while not is_true():
        if time.monotonic() > until:
            raise Failed(f"timed out waiting for {what}")
        if process.poll() is not None and not is_true():
            raise Failed(f"the worker ended with {process.returncode} before {what}")
        time.sleep(0.01)


def play(command, case, folder):
    """Plays one case to its end."""
    record = folder / "record"
    sidecar, url = start_sidecar(case["name"], record)
    options = DEFAULTS | case.get("options", {})
    played = Played(case, options)
    # Bound without listening: it refuses connections.
    refusing = socket.socket()
    refusing.bind(("127.0.0.1", 0))
    try:
        ports = {"port": url.rpartition(":")[2], "refusing": refusing.getsockname()[1]}
        played.url = url = case.get("url", url).format(**ports)
        proxies = through_proxy(url) if case.get("proxy") else None
        worker = Worker(command, case.get("mode", "run"), url, folder, "worker", options, proxies)
        try:
            follow(played, worker, record)
        finally:
            worker.kill()
    finally:
        processes.kill(sidecar)
        sidecar.stdout.close()
        refusing.close()
    played.lines, played.record = worker.lines(), read_record(record)
    played.errors = worker.errors.read_text(encoding="utf-8", errors="replace")
    return played


def start_sidecar(case, record):
    """Starts the scripted sidecar. Returns its process and its URL."""
    sidecar = processes.start(
        [sys.executable, "-B", str(HERE / "sidecar.py"), case, "--record", str(record)],
        stdout=subprocess.PIPE,
        text=True,
    )
    return sidecar, sidecar.stdout.readline().strip()


def follow(played, worker, record):
    case, began = played.case, time.monotonic()
    if case.get("exits") == "refusing":
        played.exit_code = exit_of(worker)
        return
    if "url" not in case:
        wait_for("the first request", lambda: record.stat().st_size, STARTING_MS, worker.process)
    if "pause_ms" in case:
        wait_for(
            "5 beats",
            lambda: count(worker.lines(), "beat") >= 5,
            STARTING_MS,
            worker.process,
        )
        worker.process.send_signal(signal.SIGSTOP)
        time.sleep(case["pause_ms"] / 1000)
        worker.process.send_signal(signal.SIGCONT)
    until = case["until"]

    def reached():
        if "text" in until:
            return worker.errors.read_text(encoding="utf-8").count(until["text"]) >= until["count"]
        if "line" in until:
            return count(worker.lines(), until["line"]) >= until["count"]
        return requests(read_record(record), until["request"]) >= until["count"]

    what = f"{until['count']} of {next(iter(until.values()))}"
    wait_for(what, reached, case.get("within_ms", 15_000) + STARTING_MS, worker.process)
    played.took_ms = (time.monotonic() - began) * 1000
    if until.get("line") == "stop":
        # A signal in this moment may keep a worker from saying it.
        said = lambda: requests(read_record(record), "/done") >= until["count"]
        wait_for("done", said, STARTING_MS, worker.process)
    time.sleep(case.get("settle_ms", 0) / 1000)
    if case.get("exits"):
        played.exit_code = exit_of(worker)
        played.stopped_at = boottime()
    else:
        if worker.process.poll() is not None:
            raise Failed(f"the worker ended by itself, with {worker.process.returncode}")
        played.stopped_at = boottime()
        played.exit_code = worker.stop()


def exit_of(worker):
    try:
        return worker.process.wait(STOPPING_MS / 1000)
    except subprocess.TimeoutExpired:
        raise Failed("the worker did not end by itself") from None


def count(lines, event):
    return sum(line.event == event for line in lines)


def requests(record, path):
    return sum(entry["event"] == "request" and entry["path"] == path for entry in record)


def through_proxy(url):
    """Variables that make common HTTP libraries use the sidecar as a proxy."""
    host, port = url.removeprefix("http://").split(":")
    names = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
    java = f"-Dhttp.proxyHost={host} -Dhttp.proxyPort={port} -Dhttp.nonProxyHosts="
    return {
        **{name: url for name in names},
        "no_proxy": "",
        "NO_PROXY": "",
        "JAVA_TOOL_OPTIONS": java,
        "NODE_USE_ENV_PROXY": "1",
    }
