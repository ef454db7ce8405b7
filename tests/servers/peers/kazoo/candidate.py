"""A candidate that uses kazoo's Election, for tests of mixed ZooKeeper elections.

Its arguments are the servers, the path, its identifier, and the session timeout in seconds. LatchLock
names its znode as Curator's LeaderLatch does: candidates with other names would not see each other.

It writes one JSON object per line to standard output, each with the time on CLOCK_BOOTTIME:
started_leading, and work_cancelled when the connection is suspended or lost. kazoo leaves that to
its users: https://kazoo.readthedocs.io/en/latest/basic_usage.html#kazoo-states. Then it campaigns
again. After SIGTERM it stops the work, withdraws from the election, and exits.
"""

import json
import logging
import signal
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState
from kazoo.recipe.election import Election
from kazoo.recipe.lock import Lock

CONNECT_TIMEOUT = 15  # seconds, kazoo's default


class LatchLock(Lock):
    _NODE_NAME = "latch-"
    _EXCLUDE_NAMES = ["latch-"]


def report(event):
    line = {"boottime_ns": time.clock_gettime_ns(time.CLOCK_BOOTTIME), "event": event}
    print(json.dumps(line), flush=True)


def main():
    servers, path, identifier, session_timeout = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # in every thread, because sigwait takes it
    client = KazooClient(hosts=servers, timeout=float(session_timeout))
    election = Election(client, path, identifier)
    election.lock = LatchLock(client, path, identifier)
    interrupted = threading.Event()
    ending = threading.Event()

    def lead():
        interrupted.clear()
        if ending.is_set() or client.state != KazooState.CONNECTED:
            return
        report("started_leading")
        interrupted.wait()
        report("work_cancelled")

    def campaign():
        while not ending.is_set():
            try:
                election.run(lead)
            # The connection was lost during the release.
            except (KazooException, KazooTimeoutError) as error:
                logging.warning("campaigning again after %r", error)

    def on_state(state):
        if state != KazooState.CONNECTED:
            interrupted.set()

    client.start(timeout=CONNECT_TIMEOUT)
    client.add_listener(on_state)
    candidacy = threading.Thread(target=campaign)
    candidacy.start()
    signal.sigwait({signal.SIGTERM})
    ending.set()
    interrupted.set()
    election.cancel()
    candidacy.join()
    client.stop()
    client.close()


main()
