"""Runs the programs of the documentation, word for word, beside a real sidecar.

Touches the folder that it is given, one loopback port, and the processes that it starts. Start with
`add`. Each program prints `work TOKEN` for each step. It has to do so while its sidecar leads, may
not while the sidecar is gone, and has to again when the sidecar leads in a later term. If `stops` is
true, the program is also stopped beside a scripted sidecar.
"""

import json
import os
import re
import subprocess
import time
from pathlib import Path

import processes
from language import CACHE, CLIENTS
from real import Application
from report import Failure
from scripted import Failed, read_record, requests, start_sidecar, wait_for

ROOT = CLIENTS.parent
PROGRAMS = Path(__file__).resolve().parent / "documents.json"
TIMING = {
    "lease-duration": "6s",
    "renew-deadline": "4500ms",
    "retry-period": "1s",
    "answer-validity": "2s",
}
STARTING_MS = 60_000
# The rest of a promise, one step, and a busy machine.
LAST_STEP_S = 4.5
STOPPING_S = 20


def add(tests, folder, program, wanted):
    """Adds one test for each program of `documents.json`."""
    for document in json.loads(PROGRAMS.read_text(encoding="utf-8")):
        name = document["name"]
        if wanted is None or name in wanted:
            own = folder / name
            body = lambda d=document, f=own: Document(d, f).judge(program)
            tests.add(f"documents::{name}", body, is_long=True)


class Document:
    """A program of a page."""

    def __init__(self, document, folder):
        self.document, self.folder = document, folder
        self.output = folder / "output"
        self.places = {"{clients}": CLIENTS, "{cache}": CACHE, "{here}": folder}

    def judge(self, program):
        self.folder.mkdir(parents=True)
        for name, place in self.document["files"].items():
            (self.folder / name).write_text(block(*place), encoding="utf-8")
        for name, text in self.document.get("more_files", {}).items():
            (self.folder / name).write_text(self.expand("\n".join(text)), encoding="utf-8")
        for command in self.document.get("build", []):
            command = [self.expand(word) for word in command]
            code, output = processes.run(command, cwd=self.folder)
            if code != 0:
                raise Failure(f"{' '.join(command)} ended with {code}:\n{output}")
        try:
            self.play(Sidecar(program, self.folder))
            if self.document.get("stops"):
                self.stop("stop", lambda record: requests(record, "/leader") > 2, dones=1)
                self.stop("stop_while_waiting", lambda record: requests(record, "/leader") > 1, dones=0)
        except Failed as failure:
            raise Failure(f"{failure}\n{self.output.read_text()[-3000:]}") from None

    def play(self, sidecar):
        sidecar.start_sidecar()
        process = self.start(f"http://{sidecar.address}")
        try:
            first = self.next_step(process, after=0)
            sidecar.kill()
            time.sleep(LAST_STEP_S)
            steps = len(self.steps())
            time.sleep(LAST_STEP_S)
            if len(self.steps()) > steps:
                raise Failed("it worked without a sidecar")
            sidecar.start_sidecar()
            later = self.next_step(process, after=first)
            if set(self.steps()) != {first, later}:
                raise Failed(f"it worked with the tokens {set(self.steps())}")
        finally:
            sidecar.kill()
            processes.kill(process)

    def start(self, url):
        command = [self.expand(word) for word in self.document["run"]]
        own = {name: self.expand(text) for name, text in self.document.get("env", {}).items()}
        path = f"{self.folder}:{os.environ['PATH']}"
        environment = os.environ | {"PATH": path, "BATON_URL": url} | own
        with open(self.output, "ab") as output:
            return processes.start(
                command, cwd=self.folder, env=environment, stdout=output, stderr=output
            )

    def stop(self, case, is_ready, dones):
        """Stops the program in a case of the scripted sidecar. It has to exit with 0."""
        record = self.folder / case
        sidecar, url = start_sidecar(case, record)
        process = self.start(url)
        try:
            wait_for(case, lambda: is_ready(read_record(record)), STARTING_MS, process)
            process.terminate()
            code = process.wait(STOPPING_S)
            said = requests(read_record(record), "/done")
            if code != 0 or said != dones:
                raise Failed(f"{case}: it ended with {code}, and said done {said} times")
        except subprocess.TimeoutExpired:
            raise Failed(f"{case}: it did not end after SIGTERM") from None
        finally:
            processes.kill(process)
            processes.kill(sidecar)
            sidecar.stdout.close()

    def next_step(self, process, after):
        """Waits for two steps of a later term, and returns its token."""
        found = lambda: [token for token in self.steps() if token > after]
        wait_for(f"two steps after token {after}", lambda: found()[1:], STARTING_MS, process)
        return found()[-1]

    def steps(self):
        text = self.output.read_text(encoding="utf-8", errors="replace")
        return [int(token) for token in re.findall(r"^.*\bwork (\d+)$", text, re.MULTILINE)]

    def expand(self, text):
        return re.sub("{(clients|cache|here)}", lambda match: str(self.places[match[0]]), text)


class Sidecar(Application):
    """A sidecar whose election starts anew in each run, so that no lease has to expire."""

    def __init__(self, program, folder):
        super().__init__("document", program, None, folder, folder / "store", TIMING)
        self.store.mkdir()


def block(page, section, tag, number=0):
    """A fenced block with this tag in a section of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    parts = re.split(r"^##+ ", text, flags=re.MULTILINE)
    part = next((part for part in parts if part.split("\n")[0] == section), "")
    found = re.findall(rf"^```{tag}\n(.*?)^```", part, re.MULTILINE | re.DOTALL)
    if len(found) <= number:
        raise Failure(f"{page} lacks a block tagged {tag} in the section {section}")
    return found[number]
