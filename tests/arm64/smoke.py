#!/usr/bin/env python3
"""Runs the program for arm64 under qemu: an election over files, the endpoints, and a handover.

    tests/arm64/smoke.py PROGRAM

Exits with 0 if all of it works. Touches loopback and a temporary folder.
"""

import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

AARCH64 = b"\xb7\x00"
PATIENCE = 30  # seconds, since each instruction is translated
HANDOVER = 5  # the answer validity is 2 s

program = sys.argv[1]
assert Path(program).read_bytes()[18:20] == AARCH64, f"{program} is not for arm64"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Candidate:
    """A sidecar with ports of its own, which ends with this process at the latest."""

    def __init__(self, directory):
        self.port, self.probe_port = free_port(), free_port()
        flags = [f"--listen=127.0.0.1:{self.port}", f"--probe-listen=127.0.0.1:{self.probe_port}"]
        store = ["--election=orders", "--backend=file", f"--directory={directory}"]
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig=KILL", "qemu-aarch64", program, *store, *flags],
            env={"PATH": "/usr/bin:/bin"},
        )

    def get(self, port, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.read().decode()  # a follower answers with another status
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return ""

    def standing(self):
        return json.loads(self.get(self.port, "/leader") or "{}")

    def wait(self, standing, seconds):
        """Waits for this standing, and returns it."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = self.standing()
            if found.get("standing") == standing:
                return found
            assert self.process.poll() is None, f"the program ended with {self.process.returncode}"
            time.sleep(0.05)
        sys.exit(f"smoke.py: not {standing} after {seconds} s: {found}")

    def check_endpoints(self, leads):
        for path in "/healthz", "/readyz":
            with urllib.request.urlopen(f"http://127.0.0.1:{self.probe_port}{path}", timeout=5) as answer:
                assert answer.status == 200, path
        assert json.loads(self.get(self.port, "/version"))["version"], "no version"
        metrics = self.get(self.probe_port, "/metrics").splitlines()
        assert f'baton_is_leader{{election="orders"}} {leads}' in metrics, metrics


with tempfile.TemporaryDirectory() as directory:
    first = Candidate(directory)
    old = first.wait("leading", PATIENCE)
    second = Candidate(directory)
    second.wait("following", PATIENCE)
    first.check_endpoints(1)
    second.check_endpoints(0)

    first.process.terminate()
    new = second.wait("leading", HANDOVER)
    assert int(new["token"]) > int(old["token"]), "tokens grow"
    assert first.process.wait(PATIENCE) == 0, "the first one stopped cleanly"
    second.process.terminate()
    assert second.process.wait(PATIENCE) == 0, "the second one stopped cleanly"
print("smoke.py: the program for arm64 led, answered, and handed over")
