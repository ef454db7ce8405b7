"""Blocks and tasks, beside a sidecar in this process that says leading or not."""

import asyncio
import http.server
import json
import threading
import unittest

import baton


class Sidecar(http.server.ThreadingHTTPServer):
    """Says leading under `token`, or not if it is None."""

    daemon_threads = True
    token: int | None = 7

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.done = []
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        token = self.server.token
        leads = token is not None
        fields = {
            "standing": "leading" if leads else "following",
            "is_leader": leads,
            "token": str(token) if leads else None,
            "valid_for_ms": 8000 if leads else 0,
        }
        self.send_response(200 if leads else 503)
        self.end_headers()
        self.wfile.write(json.dumps(fields).encode())

    def do_POST(self):
        self.server.done.append(self.path)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


class LeadingTest(unittest.TestCase):
    def setUp(self):
        self.sidecar = Sidecar()
        self.addCleanup(self.sidecar.server_close)
        self.addCleanup(self.sidecar.shutdown)
        url = f"http://127.0.0.1:{self.sidecar.server_port}"
        self.client = baton.Client(url, timeout=5, poll=0.05)

    def test_end_of_a_term_leaves_the_block(self):
        with self.client.leading() as term:
            self.assertEqual(term.token, 7)
            self.sidecar.token = None
            while True:
                term.check()
                term.wait(0.01)
        self.assertFalse(term.is_leading())
        self.assertIn("token=7&", self.sidecar.done[0])

    def test_other_errors_leave_the_block_as_they_are(self):
        with self.assertRaises(KeyError), self.client.leading():
            raise KeyError

    def test_end_of_a_term_cancels_the_task(self):
        async def run():
            async with self.client.leading():
                self.sidecar.token = None
                await asyncio.sleep(60)
            self.assertEqual(asyncio.current_task().cancelling(), 0)
            return "went on"

        self.assertEqual(asyncio.run(run()), "went on")

    def test_cancellation_from_outside_stays_one(self):
        async def work():
            async with self.client.leading():
                entered.set()
                await asyncio.sleep(60)

        async def run():
            task = asyncio.create_task(work())
            await entered.wait()
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        entered = asyncio.Event()
        asyncio.run(run())
        self.assertEqual(len(self.sidecar.done), 1)

    def test_close_ends_the_waiting(self):
        self.sidecar.token = None
        threading.Timer(0.1, self.client.close).start()
        with self.assertRaises(baton.Closed), self.client.leading():
            self.fail("it does not lead")

    def test_urls_are_checked(self):
        for url in ["https://localhost", "localhost:4040", "http://", "http://localhost:x"]:
            with self.assertRaises(ValueError, msg=url):
                baton.Client(url)


if __name__ == "__main__":
    unittest.main()
