"""The client: asks the sidecar, and remembers the largest token.

Touches the network through `Call`. Start with `Client`.
"""

from __future__ import annotations

import http.client
import logging
import math
import os
import threading
from collections.abc import Iterator

from baton import _answer
from baton._answer import Answer
from baton._http import Call, Origin
from baton._term import Change, Closed, Leading, Term

DEFAULT_URL = "http://localhost:4040"
WAIT = 30  # Seconds of a long poll.
# Seconds without an answer of a sidecar before a warning, and before another one.
WARN_AFTER, WARN_AGAIN = 5.0, 60.0

log = logging.getLogger("baton")


class Client:
    """Asks one sidecar about one election. Threads may share it.

    `url` is where the sidecar listens: `BATON_URL`, else `http://localhost:4040`. `step` is how
    many seconds one step of the work takes at most: work is canceled so long before a promise ends,
    by default a quarter of the promise. `timeout` bounds one request, and `poll` is the pause
    between two requests while another process leads.

    A token smaller than one that this object has seen means not leading. After the store was
    restored from a backup, make a new client.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        step: float | None = None,
        timeout: float = 0.5,
        poll: float = 0.5,
    ) -> None:
        if (step is not None and step <= 0) or timeout <= 0 or poll <= 0:
            raise ValueError("step, timeout, and poll are numbers of seconds above 0")
        self._origin = Origin(url or os.environ.get("BATON_URL") or DEFAULT_URL)
        self._step, self._timeout, self._poll = step, timeout, poll
        self._lock = threading.Lock()
        self._largest_token = 0
        self._silent_since = math.inf
        self._warn_next = 0.0
        self._knows_wait = True
        self._is_closed = False
        self._terms: set[Term] = set()

    def ask(self) -> Answer:
        """Asks once. Never raises: no answer means not leading."""
        return self._ask(Call(self._origin))

    def leading(self) -> Leading:
        """Waits until this process leads, for `with` or `async with`."""
        return Leading(self._new_term)

    def changes(self) -> Iterator[Change]:
        """Tells when leadership is granted and revoked, until `close`.

        A change is news, not a license to act: `change.term` says whether a step may begin. The
        promise is not voided at the end, because the client cannot know when the work has stopped.
        """
        while True:
            try:
                term = self._new_term()
                term._granted.result()
            except Closed:
                return
            try:
                yield Change(True, term)
                term.wait()
                yield Change(False, term)
            finally:
                term._finish(says_done=False)

    def close(self) -> None:
        """Cancels all work, and makes everything that waits to lead raise `Closed`.

        Do not call this from a signal handler: raise an exception there.
        """
        with self._lock:
            self._is_closed = True
            terms = list(self._terms)
        for term in terms:
            term._stop()

    def _new_term(self) -> Term:
        with self._lock:
            if self._is_closed:
                raise Closed
            term = Term(self)
            self._terms.add(term)
        term._thread.start()
        return term

    def _forget(self, term: Term) -> None:
        with self._lock:
            self._terms.discard(term)

    def _ask(self, call: Call, asker: str = "", revision: int | None = None) -> Answer:
        """Asks once; with a revision, a sidecar that knows long polls may wait until it changes."""
        target, timeout = f"/leader?asker={asker}" if asker else "/leader", self._timeout
        waits = revision is not None and self._knows_wait
        if waits:
            target, timeout = f"{target}&wait={WAIT}s&after={revision}", timeout + WAIT
        asked = _answer.now()
        try:
            status, body = call.send("GET", target, timeout)
        except (OSError, http.client.HTTPException) as error:
            answer = Answer(reason=getattr(error, "strerror", None) or str(error))
        else:
            if waits and status == 400:
                self._knows_wait = False
            answer = _answer.read(status, body, asked)
        if self._is_overdue(answer):
            message = "no sidecar answers at http://%s (%s): start baton, or set BATON_URL"
            log.warning(message, self._origin.host, answer.reason)
        answer = self._checked(answer)
        if answer.reason:
            log.debug("%s", answer.reason)
        return answer

    def _is_overdue(self, answer: Answer) -> bool:
        """Whether no sidecar has answered for so long that the user has to know."""
        is_silent, now = answer.revision is None, _answer.now()
        with self._lock:
            self._silent_since = min(self._silent_since, now) if is_silent else math.inf
            is_due = now >= max(self._silent_since + WARN_AFTER, self._warn_next)
            if is_due:
                self._warn_next = now + WARN_AGAIN
        return is_due

    def _checked(self, answer: Answer) -> Answer:
        if answer.token is None:
            return answer
        with self._lock:
            if answer.token < self._largest_token:
                reason = f"token {answer.token} is smaller than {self._largest_token}, seen before"
                return Answer(reason=reason, refuses=True)
            self._largest_token = answer.token
        return answer

    def _say_done(self, asker: str, token: int) -> None:
        """Voids the promises to one asker. Without that, they expire a little later."""
        target = f"/done?token={token}&asker={asker}"
        try:
            Call(self._origin).send("POST", target, self._timeout, "Baton-Request: 1\r\n")
        except (OSError, http.client.HTTPException) as error:
            log.debug("cannot say done: %s", error)


_default: Client | None = None
_default_lock = threading.Lock()


def _default_client() -> Client:
    global _default
    with _default_lock:
        _default = _default or Client()
        return _default


def ask() -> Answer:
    """Asks the sidecar at `BATON_URL` once, as `Client.ask` does."""
    return _default_client().ask()


def leading() -> Leading:
    """Waits until this process leads, by the sidecar at `BATON_URL`, as `Client.leading` does."""
    return _default_client().leading()


def changes() -> Iterator[Change]:
    """Tells of granted and revoked leadership, as `Client.changes` does."""
    return _default_client().changes()
