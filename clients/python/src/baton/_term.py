"""A term of leadership, the two threads that renew and cancel it, and the block that it covers.

Touches threads and the clock. Start with `Leading`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from baton._answer import Answer, now
from baton._http import Call

if TYPE_CHECKING:
    from baton._client import Client

# The longest time between two looks at the clock: timers stop while the machine is suspended.
PERIOD = 0.1

log = logging.getLogger("baton")


class NotLeading(Exception):
    """The term has ended, or a step may begin no more. Leaves the block of this term."""

    def __init__(self, term: Term) -> None:
        super().__init__(f"the term of token {term.token} has ended")
        self.term = term


class Closed(Exception):
    """The client was closed."""


class Term:
    """The right to act under one token, for one piece of work."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._asker = secrets.token_hex(16)
        self._call = Call(client._origin)
        self._lock = threading.Lock()
        self._token: int | None = None
        self._cancel_at = 0.0
        self._ended = threading.Event()
        self._on_end: Callable[[], object] | None = None
        self._granted: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._granted.set_running_or_notify_cancel()
        self._thread = threading.Thread(target=self._ask, name="baton-ask", daemon=True)

    @property
    def token(self) -> int:
        """The fencing token. Pass it to every resource that you write to."""
        assert self._token is not None, "the term has begun"
        return self._token

    def remaining(self) -> float:
        """Seconds until the work must stop, by the last promise; 0 or less if it must stop now."""
        with self._lock:
            return 0.0 if self._ended.is_set() else self._cancel_at - now()

    def is_leading(self) -> bool:
        """Whether a step may begin. Reads the clock, and asks nothing."""
        return self.remaining() > 0

    def check(self) -> None:
        """Raises `NotLeading`, which leaves the block, unless a step may begin."""
        if not self.is_leading():
            raise NotLeading(self)

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until the work must stop, or so long. Returns whether the work must stop."""
        return self._ended.wait(seconds) or not self.is_leading()

    def _ask(self) -> None:
        """Waits to lead, and then asks until the term ends."""
        try:
            answer = self._wait_to_lead()
            if answer is None:
                raise Closed
            threading.Thread(target=self._cancel, name="baton-cancel", daemon=True).start()
            self._granted.set_result(None)
            self._renew(answer)
        except BaseException as error:
            if self._granted.done():
                raise
            self._granted.set_exception(error)
        finally:
            self._end()

    def _wait_to_lead(self) -> Answer | None:
        revision = None
        while not self._ended.is_set():
            began = now()
            answer = self._client._ask(self._call, self._asker, revision)
            if answer.token is not None and self._extend(answer):
                return answer
            # The answer to a long poll has usually expired. It is news: ask again, without wait.
            is_news = revision is not None and answer.token is not None
            revision = None if is_news else answer.revision
            if not is_news:
                self._ended.wait(self._client._poll - (now() - began))
        return None

    def _renew(self, answer: Answer) -> None:
        """Asks four times per promise, and sooner after a failure."""
        usual = pause = answer.valid_for / 4
        while not self._ended.wait(pause):
            answer = self._client._ask(self._call, self._asker)
            if answer.refuses or answer.token not in (None, self._token):
                return
            if answer.token is not None and self._extend(answer):
                usual = pause = answer.valid_for / 4
            else:
                pause = min(usual / 2, self._client._poll)

    def _extend(self, answer: Answer) -> bool:
        """Takes a promise. Returns whether a step may begin."""
        step = self._client._step or answer.valid_for / 4
        if step >= answer.valid_for:
            log.warning("a step of %s s does not fit a promise of %s s", step, answer.valid_for)
        with self._lock:
            # A term that has lapsed stays lapsed, also before its thread has noticed.
            if self._ended.is_set() or (self._token is not None and self._cancel_at <= now()):
                return False
            self._cancel_at = max(self._cancel_at, answer.until - step)
            if self._cancel_at <= now():
                return False
            self._token = answer.token
            return True

    def _cancel(self) -> None:
        """Ends the term on time. Never waits for a request."""
        while not self._ended.wait(max(0.0, min(PERIOD, self.remaining()))):
            if self.remaining() <= 0:
                self._end()

    def _end(self) -> None:
        """From now on no step may begin."""
        with self._lock:
            if self._ended.is_set():
                return
            self._ended.set()
            on_end = self._on_end
        if on_end:
            on_end()

    def _call_at_end(self, on_end: Callable[[], object]) -> None:
        with self._lock:
            self._on_end = on_end
            has_ended = self._ended.is_set()
        if has_ended:
            on_end()

    def _stop(self) -> None:
        """Ends the term, and its asking."""
        self._end()
        self._call.cancel()

    def _finish(self, says_done: bool = True) -> None:
        """Ends the asking, and then voids its promises: a late request must not book another."""
        self._stop()
        self._client._forget(self)
        # Resolving a name cannot be canceled. Then the promises expire by themselves.
        self._thread.join(self._client._timeout)
        if says_done and self._token is not None and not self._thread.is_alive():
            self._client._say_done(self._asker, self._token)


@dataclass(frozen=True)
class Change:
    """Leadership was granted or revoked."""

    is_granted: bool
    term: Term


class Leading:
    """A block that runs while this process leads, for `with` and `async with`.

    Entering waits until this process leads. With `with`, the body calls `term.check()` before each
    step. With `async with`, the task is canceled at its next `await`, too. Either end of the term
    leaves the block without an exception, and the program goes on after it.
    """

    def __init__(self, new_term: Callable[[], Term]) -> None:
        self._new_term = new_term

    def __enter__(self) -> Term:
        self._term = self._new_term()
        try:
            self._term._granted.result()
        except BaseException:
            self._term._finish()
            raise
        return self._term

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> bool:
        self._term._finish()
        return self._is_own(error)

    async def __aenter__(self) -> Term:
        task, self._loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None, "async with runs in a task"
        self._task, self._cancels_before = task, task.cancelling()
        self._is_canceled = self._has_left = False
        self._term = self._new_term()
        try:
            await asyncio.wrap_future(self._term._granted)
        except BaseException:
            await self._finish()
            raise
        self._term._call_at_end(self._cancel_from_thread)
        return self._term

    async def __aexit__(self, _type: object, error: BaseException | None, _trace: object) -> bool:
        self._has_left = True
        was_canceled = await self._finish()
        # As in asyncio.timeout: a cancellation of this block ends here, and no other one does.
        ends_here = self._is_canceled and self._task.uncancel() <= self._cancels_before
        if was_canceled and not ends_here:
            raise asyncio.CancelledError
        return self._is_own(error) or (ends_here and isinstance(error, asyncio.CancelledError))

    def _cancel_from_thread(self) -> None:
        # Without a loop there is no task.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._cancel_task)

    def _cancel_task(self) -> None:
        if not self._has_left:
            self._is_canceled = True
            self._task.cancel()

    async def _finish(self) -> bool:
        """Finishes, without blocking the loop. Returns whether the task was canceled meanwhile."""
        finished: concurrent.futures.Future[None] = concurrent.futures.Future()

        def finish() -> None:
            try:
                self._term._finish()
            except BaseException as error:
                finished.set_exception(error)
            else:
                finished.set_result(None)

        threading.Thread(target=finish, name="baton-done", daemon=True).start()
        waiting, was_canceled = asyncio.wrap_future(finished), False
        while not waiting.done():
            try:
                await asyncio.shield(waiting)
            except asyncio.CancelledError:
                was_canceled = True
        return was_canceled

    def _is_own(self, error: BaseException | None) -> bool:
        return isinstance(error, NotLeading) and error.term is self._term
