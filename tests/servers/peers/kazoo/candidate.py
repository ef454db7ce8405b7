"""A candidate that uses kazoo's Election, for tests of mixed ZooKeeper elections.

Its arguments are the servers, the path, its identifier, and the session timeout in seconds. LatchLock
names its znode as Curator's LeaderLatch does: candidates with other names would not see each other.

It writes one JSON object per line to standard output, each with the time on CLOCK_BOOTTIME:
started_leading, and work_cancelled when the connection is not established, which kazoo leaves to its
users. After SIGTERM it stops the work, withdraws from the election, and exits.
"""

import json
import logging
import signal
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState
from kazoo.recipe.election import Election
from kazoo.recipe.lock import Lock


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
    stopped = threading.Event()

    def lead():
        report("started_leading")
        stopped.wait()
        report("work_cancelled")

    def on_state(state):
        if state != KazooState.CONNECTED:
            stopped.set()

    client.start()
    client.add_listener(on_state)
    candidacy = threading.Thread(target=election.run, args=(lead,))
    candidacy.start()
    signal.sigwait({signal.SIGTERM})
    stopped.set()
    election.cancel()
    candidacy.join()
    client.stop()
    client.close()


main()
