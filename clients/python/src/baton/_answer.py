"""What an answer of the sidecar means, and the clock that its promise counts on.

Touches the clock only. Start with `read`.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from typing import Any

MAX_TOKEN = 2**128 - 1
MAX_VALID_FOR_MS = 2**31  # A larger number is a mistake.

# macOS counts suspend in CLOCK_MONOTONIC.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", None) or getattr(time, "CLOCK_MONOTONIC", None)


def now() -> float:
    """Seconds of a clock that counts suspend where the system has one."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


@dataclass(frozen=True)
class Answer:
    """An answer of the sidecar. Anything but a promise that still holds means not leading."""

    token: int | None = None
    """The fencing token of the promise; None without one."""
    reason: str = ""
    """Why there is no promise."""
    valid_for: float = 0.0
    until: float = 0.0
    refuses: bool = False
    revision: int | None = None

    def remaining(self) -> float:
        """Seconds until the promise ends; 0 or less if it has ended, or if there is none."""
        return 0.0 if self.token is None else self.until - now()

    def is_leading(self) -> bool:
        """Whether the promise holds. Reads the clock, and asks nothing."""
        return self.remaining() > 0


def read(status: int, body: bytes, asked: float) -> Answer:
    """The meaning of an answer to a request before which the clock was `asked`."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        return Answer(reason=f"no answer of Baton (status {status})", refuses=status == 503)
    revision = fields.get("revision")
    if type(revision) is not int:
        revision = None
    if status != 200:
        reason = f"not leading (status {status})"
        return Answer(reason=reason, refuses=status == 503, revision=revision)
    token, valid_for_ms = _token(fields.get("token")), fields.get("valid_for_ms")
    if (
        fields.get("is_leader") is not True
        or fields.get("standing") != "leading"
        or token is None
        or type(valid_for_ms) is not int  # A bool is an int, too.
        or not 0 < valid_for_ms <= MAX_VALID_FOR_MS
    ):
        return Answer(reason="no promise (status 200)", revision=revision)
    valid_for = valid_for_ms / 1000
    return Answer(token, "", valid_for, asked + valid_for, revision=revision)


def _token(text: Any) -> int | None:
    # int() accepts signs, spaces, underscores, and the digits of all scripts.
    if not isinstance(text, str) or not re.fullmatch("[0-9]{1,39}", text):
        return None
    return int(text) if int(text) <= MAX_TOKEN else None
