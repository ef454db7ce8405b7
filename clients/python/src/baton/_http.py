"""One HTTP request on a connection of its own, within one time limit.

Touches sockets. Start with `Call.send`. It follows no redirect, uses no proxy, and never uses a
connection again: after a timeout, the late answer would be read as the answer to the next request.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import socket
import threading
import time
import urllib.parse

MAX_BODY_BYTES = 64 << 10


class Origin:
    """Where the sidecar listens: `http://HOST:PORT`."""

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        is_bare = url.removesuffix("/") == f"http://{parts.netloc}" and "@" not in url
        if not is_bare or not parts.hostname:
            message = "not the URL of a sidecar: {!r}: write http://HOST:PORT (BATON_URL)"
            raise ValueError(message.format(url))
        self.address = (parts.hostname, parts.port or 80)
        self.host = parts.netloc


class Call:
    """A request that another thread can cancel."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._is_canceled = False

    def send(self, method: str, target: str, timeout: float, header: str = "") -> tuple[int, bytes]:
        """The status and the whole body. Raises OSError or http.client.HTTPException."""
        until = time.monotonic() + timeout
        # Resolving a name has no time limit, so no decision may wait for this call.
        with socket.create_connection(self._origin.address, timeout) as connection:
            with self._lock:
                if self._is_canceled:
                    raise ConnectionAbortedError("the request was canceled")
                self._socket = connection
            try:
                request = (
                    f"{method} {target} HTTP/1.1\r\n"
                    f"Host: {self._origin.host}\r\nConnection: close\r\n{header}\r\n"
                )
                connection.sendall(request.encode("ascii"))
                return _read(_Limited(connection, until), method)
            finally:
                with self._lock:
                    self._socket = None

    def cancel(self) -> None:
        """Makes `send` fail at once, also if it has not begun."""
        with self._lock:
            self._is_canceled = True
            # The other side may have closed it.
            with contextlib.suppress(OSError):
                if self._socket:
                    self._socket.shutdown(socket.SHUT_RDWR)


class _Limited(io.RawIOBase):
    """The bytes of a socket until one instant, however slowly they come."""

    def __init__(self, connection: socket.socket, until: float) -> None:
        self._socket, self._until = connection, until

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._socket.settimeout(left)
        return self._socket.recv_into(buffer)


def _read(stream: _Limited, method: str) -> tuple[int, bytes]:
    response = http.client.HTTPResponse(stream, method=method)  # type: ignore[arg-type]
    response.begin()
    body = response.read(MAX_BODY_BYTES + 1)
    if len(body) > MAX_BODY_BYTES:
        raise http.client.HTTPException("the body is larger than 64 KiB")
    if response.length:
        raise http.client.IncompleteRead(body, response.length)
    return response.status, body
