"""The processes that a run has started, so that a run that is stopped leaves none behind.

Touches these processes only. Start with `start`.
"""

import os
import signal
import subprocess
import threading

_started = set()
_lock = threading.Lock()
_is_stopping = False


def start(command, **options):
    """Starts a process in a group of its own, unless the run is being stopped."""
    with _lock:
        if _is_stopping:
            raise OSError("the run is being stopped")
        _started.difference_update([p for p in _started if p.poll() is not None])
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, start_new_session=True, **options
        )
        _started.add(process)
    return process


def run(command, **options):
    """Runs a command to its end. Returns its exit code and its output."""
    process = start(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
    with process:
        output, _ = process.communicate()
    return process.returncode, output


def kill(process):
    """Kills a process and its children, and waits for it."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def kill_all():
    """Kills all of them. From now on none can be started."""
    global _is_stopping
    with _lock:
        _is_stopping = True
        for process in _started:
            kill(process)
