"""The worker that `clients/testing/run.py` judges.

    worker.py threads|asyncio MODE LOG [KEY=VALUE]...

Touches the log. `clients/testing/README.md` describes it.
"""

import asyncio
import contextlib
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import baton


def boottime():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Worker:
    def __init__(self, log, options):
        self.log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        numbers = {key: int(value) for key, value in (pair.split("=") for pair in options)}
        seconds = {key[:-3]: numbers[key] / 1000 for key in numbers if key.endswith("_ms")}
        self.client = baton.Client(
            **{key: seconds[key] for key in ("step", "timeout", "poll") if key in seconds}
        )
        self.poll = seconds.get("poll", 0.5)
        self.work_for = seconds.get("work", float("inf"))
        self.busy, self.linger = seconds.get("busy", 0), seconds.get("linger", 0)
        self.terms, self.asks = numbers.get("terms", -1), numbers.get("asks", 1)
        self.signal, self.check = numbers.get("signal", 1), numbers.get("check", 0)

    def write(self, token, event, at=None, *more):
        words = [token, event, at or boottime(), *more]
        os.write(self.log, (" ".join(map(str, words)) + "\n").encode("ascii"))

    def act(self, term, event, at):
        """A start or a beat, and until when the library allows it."""
        now, left = boottime(), term.remaining()
        self.write(term.token, event, at, now + int(left * 1e9) if left > 0 else 0)

    def spin(self):
        until = time.monotonic() + self.busy
        while time.monotonic() < until:
            pass
        self.busy = 0

    def may_go_on(self, term, canceled):
        if canceled or (self.check and not term.is_leading()):
            self.write(term.token, "cancel")
            return False
        return True

    def work(self, term):
        self.act(term, "start", boottime())
        until = time.monotonic() + self.work_for
        canceled = False
        try:
            while time.monotonic() < until:
                at = boottime()
                if not self.may_go_on(term, canceled and self.signal):
                    break
                self.act(term, "beat", at)
                self.spin()
                if self.signal:
                    canceled = term.wait(0.01)
                else:
                    time.sleep(0.01)
        except SystemExit:
            self.write(term.token, "cancel")
            raise
        finally:
            time.sleep(self.linger)
            self.write(term.token, "stop")

    async def work_async(self, term):
        self.act(term, "start", boottime())
        until = time.monotonic() + self.work_for
        try:
            while time.monotonic() < until:
                at = boottime()
                if not self.may_go_on(term, False):
                    break
                self.act(term, "beat", at)
                self.spin()
                if self.signal:
                    await asyncio.sleep(0.01)
                else:
                    time.sleep(0.01)  # The loop, and with it the cancellation, is blocked.
        except asyncio.CancelledError:
            self.write(term.token, "cancel")
            raise
        finally:
            time.sleep(self.linger)
            self.write(term.token, "stop")

    def run(self):
        while self.terms:
            with self.client.leading() as term:
                self.work(term)
            self.terms -= 1

    async def run_async(self):
        task = asyncio.current_task()
        if self.signal:  # else a blocked loop would not see it
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        while self.terms:
            async with self.client.leading() as term:
                await self.work_async(term)
            self.terms -= 1

    def ask(self, number):
        if number:
            time.sleep(self.poll)
        self.write_answer(self.client.ask())

    def write_answer(self, answer):
        at, remaining = boottime(), answer.remaining()
        if remaining > 0:
            self.write(answer.token, "ask", at, at + int(remaining * 1e9))
        else:
            self.write("-", "ask", at, 0)

    def changes(self):
        for change in self.client.changes():
            self.write(change.term.token, "granted" if change.is_granted else "revoked")


def main():
    form, mode, log, *options = sys.argv[1:]
    worker = Worker(log, options)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if form == "asyncio" and mode == "run":
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(worker.run_async())
        return
    if mode == "run":
        worker.run()
    elif mode == "ask":
        for number in range(worker.asks):
            worker.ask(number)
    else:
        worker.changes()


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    main()
