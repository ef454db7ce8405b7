#!/usr/bin/env python3
"""A proxy in front of a registry that fails one write of a manifest or a tag.

    fault.py UPSTREAM refuse|lose|hang|leave NUMBER

UPSTREAM is host:port. The write with this NUMBER, from 1, is refused; or it is applied, and the
client gets the same error, or no answer. With `leave`, every request is refused from this write on.
Everything else is passed on. Prints the proxy's port, and then the path of each write.
"""

import http.client
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

upstream, fault, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
REFUSAL = b'{"errors": [{"code": "DENIED", "message": "refused by the test"}]}'
lock = threading.Lock()
writes = []


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle(self):
        try:
            super().handle()
        except ConnectionError:
            pass  # the client has ended

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fails = self.command == "PUT" and "/manifests/" in self.path and self.count() == number
        if fails and fault == "refuse" or fault == "leave" and len(writes) >= number > 0:
            return self.answer(403, [], REFUSAL)
        connection = http.client.HTTPConnection(upstream)
        # With the headers of the client, its Host among them, so that redirects lead here.
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                connection.putheader(name, value)
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        content = answer.read()
        if fails and fault == "hang":
            threading.Event().wait()
        if fails:
            return self.answer(403, [], REFUSAL)
        self.answer(answer.status, answer.getheaders(), content)

    def count(self):
        """The number of this write."""
        with lock:
            writes.append(self.path)
            print(self.path, flush=True)
            return len(writes)

    def answer(self, status, headers, body):
        self.send_response_only(status)
        length = str(len(body))
        for name, value in headers:
            if name.lower() == "content-length":
                length = value  # the answer to HEAD has the length of another body
            elif name.lower() not in ("transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = do_DELETE = handle_any

    def log_message(self, *arguments):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
