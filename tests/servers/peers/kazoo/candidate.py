"""One real candidate of kazoo's Election, for the tests to put before, behind and beside the sidecar.

Its arguments are the servers, the path, its identifier and the session time-out in seconds. Its znode is named as Curator's
LeaderLatch names them, by the two lines of LatchLock: with kazoo's own name for it, it would not see the others.

It writes one JSON object a line to standard output, each with the time on CLOCK_BOOTTIME: started_leading, and work_cancelled
when the connection is in doubt, which kazoo leaves to its users. After SIGTERM it stops the work, gives up, and ends.
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


def tell(event):
    line = {"boottime_ns": time.clock_gettime_ns(time.CLOCK_BOOTTIME), "event": event}
    print(json.dumps(line), flush=True)


def main():
    servers, path, identifier, session_timeout = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # in every thread: it is waited for
    client = KazooClient(hosts=servers, timeout=float(session_timeout))
    election = Election(client, path, identifier)
    election.lock = LatchLock(client, path, identifier)
    over = threading.Event()

    def lead():
        tell("started_leading")
        over.wait()
        tell("work_cancelled")

    def on_state(state):
        if state != KazooState.CONNECTED:
            over.set()

    client.start()
    client.add_listener(on_state)
    candidacy = threading.Thread(target=election.run, args=(lead,))
    candidacy.start()
    signal.sigwait({signal.SIGTERM})
    over.set()
    election.cancel()
    candidacy.join()
    client.stop()
    client.close()


main()
