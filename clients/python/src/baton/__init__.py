"""Runs work only while the Baton sidecar says that this process leads.

    import baton

    while True:
        with baton.leading() as term:  # waits until this process leads
            while True:
                term.check()  # raises when the term ends, which leaves the block
                ledger.append(term.token, next_line())  # one step

`leading` is the entry, as `with` for threads and as `async with` for asyncio. `ask` asks once, and
`changes` tells when leadership is granted and revoked. `Client` has the same with options.

A promise counts from before its request, on a clock that counts suspend, and nothing but an answer
of the sidecar extends it. One thread asks again, and another cancels the work one step before the
promise ends.
"""

from baton._answer import Answer
from baton._client import Client, ask, changes, leading
from baton._term import Change, Closed, Leading, NotLeading, Term

__all__ = [
    "Answer",
    "Change",
    "Client",
    "Closed",
    "Leading",
    "NotLeading",
    "Term",
    "ask",
    "changes",
    "leading",
]
