#!/usr/bin/env -S python3 -B
"""A scripted sidecar: plays the answers of one case, and records what it is asked.

    clients/testing/sidecar.py CASE --record FILE

Touches one loopback port, which it prints as a URL, and the record. Start with `Script`. The record
has one JSON object per line, with times of CLOCK_BOOTTIME in nanoseconds. README.md lists the
kinds of answers and the fields of the record.
"""

import argparse
import json
import select
import socket
import struct
import threading
import time
import urllib.parse
from pathlib import Path

CASES = Path(__file__).with_name("cases.json")
CHUNK = b" " * 4096
ELSEWHERE = {"kind": "leading", "token": "99", "bad": True}


def boottime():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Record:
    """The file that tells what happened, in order."""

    def __init__(self, path):
        self._file = open(path, "a", encoding="ascii", buffering=1)
        self._lock = threading.Lock()

    def add(self, event, **fields):
        with self._lock:
            fields = {"event": event, "at": boottime(), **fields}
            self._file.write(json.dumps(fields) + "\n")


class Script:
    """The answers of one case. Each request to /leader takes the next; the last one repeats."""

    def __init__(self, case):
        self._answers = repeated(case["answers"])
        self._waits = repeated(case["waits"]) if "waits" in case else None
        self.done = case.get("done", {"kind": "empty", "status": 204})
        self._lock = threading.Lock()

    def next_answer(self, is_wait):
        if is_wait and self._waits is None:
            return {"kind": "raw", "status": 400, "body": '{"error":"unknown field `wait`"}'}
        with self._lock:
            answers = self._waits if is_wait else self._answers
            return answers[0] if len(answers) == 1 else answers.pop(0)


def repeated(answers):
    return [answer for answer in answers for _ in range(answer.get("times", 1))]


class Connection:
    """One connection: reads requests and plays an answer to each, until either side closes it."""

    def __init__(self, stream, number, script, record):
        self.stream, self.number = stream, number
        self.script, self.record = script, record
        self.unread = b""

    def serve(self):
        stale = None
        try:
            while head := self.read_head():
                request = self.note(head)
                answer = stale or self.answer_to(request)
                if not self.play(request, answer):
                    return
                # The next request on this connection gets an answer that is late and wrong.
                stale = answer.get("stale")
        except OSError:
            pass
        finally:
            self.record.add("closed", connection=self.number)
            self.stream.close()

    def read_head(self):
        """The next request's head; empty when the client has closed the connection."""
        while b"\r\n\r\n" not in self.unread:
            piece = self.stream.recv(4096)
            if not piece:
                return b""
            self.unread += piece
        head, self.unread = self.unread.split(b"\r\n\r\n", 1)
        return head

    def note(self, head):
        line, *headers = head.decode("latin-1").split("\r\n")
        method, target, _ = line.split(" ", 2)
        url = urllib.parse.urlsplit(target)
        query = dict(urllib.parse.parse_qsl(url.query))
        named = dict(header.lower().split(": ", 1) for header in headers if ": " in header)
        request = {
            "request": f"{self.number}.{boottime()}",
            "connection": self.number,
            "method": method,
            "path": url.path if target.startswith("/") else target,
            "query": query,
            "guard": named.get("baton-request"),
        }
        self.record.add("request", **request)
        return request

    def answer_to(self, request):
        if request["path"] == "/leader":
            return self.script.next_answer("wait" in request["query"])
        if request["path"] == "/done":
            return self.script.done
        if request["path"] == "/elsewhere" or not request["path"].startswith("/"):
            return ELSEWHERE
        return {"kind": "raw", "status": 404, "body": '{"error":"there is no such endpoint"}'}

    def play(self, request, answer):
        """Plays `answer`. Returns whether the connection stays open."""
        if not self.stays_open_for(answer.get("delay_ms", 0) / 1000):
            return False
        kind = answer["kind"]
        status = answer.get("status", 503 if kind == "following" else 200)
        body = answer.get("body", "") if kind in ("raw", "empty") else body_of(answer)
        self.record.add(
            "answer",
            request=request["request"],
            kind=kind,
            token=answer.get("token"),
            valid_for_ms=answer.get("valid_for_ms", 4000),
            # Whether a client may act on it.
            good=kind in ("leading", "trickle") and status == 200 and not answer.get("bad"),
        )
        if kind == "hang":
            return self.stays_open_for(None)
        if kind == "close":
            return False
        if kind == "reset":
            self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        if kind == "endless":
            self.stream.sendall(head_of(status, None) + body.encode())
            while True:
                self.stream.sendall(CHUNK)
        if kind == "redirect":
            self.stream.sendall(head_of(status, 0, "location: /elsewhere\r\n"))
            return True
        missing = answer.get("missing", 0)
        data = body.encode() + b" " * answer.get("padding", 0)
        data = head_of(status, len(data) + missing, answer.get("header", "")) + data
        if kind == "trickle":
            for byte in data:
                self.stream.sendall(bytes([byte]))
                time.sleep(answer["pause_ms"] / 1000)
        else:
            self.stream.sendall(data)
        return not missing

    def stays_open_for(self, seconds):
        """Waits, and returns whether the client has kept the connection open."""
        until = None if seconds is None else time.monotonic() + seconds
        while until is None or time.monotonic() < until:
            rest = None if until is None else max(0, until - time.monotonic())
            if select.select([self.stream], [], [], rest)[0]:
                piece = self.stream.recv(4096)
                if not piece:
                    return False
                self.unread += piece
        return True


def head_of(status, length, more=""):
    length = "" if length is None else f"content-length: {length}\r\n"
    return f"HTTP/1.1 {status} Scripted\r\n{length}{more}\r\n".encode()


def body_of(answer):
    """The body of Baton, with the fields that `answer` replaces or removes."""
    leads = answer["kind"] != "following"
    body = {
        "election": "scripted",
        "identity": "here_1",
        "standing": "leading" if leads else "following",
        "is_leader": leads,
        "leader": "here_1" if leads else "there_2",
        "leader_name": "here" if leads else "there",
        "token": answer.get("token") if leads else None,
        "valid_for_ms": answer.get("valid_for_ms", 4000) if leads else 0,
        "revision": answer.get("revision", 1),
        "backend": "file",
    }
    body.update(answer.get("fields", {}))
    for name in answer.get("without", []):
        del body[name]
    return json.dumps(body) + answer.get("after", "") + "\n"


def load(name):
    for case in json.loads(CASES.read_text(encoding="utf-8"))["cases"]:
        if case["name"] == name:
            return case
    raise SystemExit(f"there is no case {name} in {CASES}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("case")
    parser.add_argument("--record", required=True)
    arguments = parser.parse_args()
    script, record = Script(load(arguments.case)), Record(arguments.record)
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    number = 0
    while True:
        stream, _ = listener.accept()
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        number += 1
        connection = Connection(stream, number, script, record)
        threading.Thread(target=connection.serve, daemon=True).start()


if __name__ == "__main__":
    main()
