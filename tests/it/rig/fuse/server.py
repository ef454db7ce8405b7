"""A FUSE server that keeps the files of one directory in memory.

Its argument is the mount point. It speaks the protocol of `linux/fuse.h`, and prints a line when
the mount is ready. At SIGUSR1 it stops answering, prints another line, and waits to be killed. It
does so only between two requests and without an open file: the kernel cannot kill a process whose
request the server has read, or that closes a file.
"""

import os
import select
import signal
import struct
import subprocess
import sys

LOOKUP, FORGET, GETATTR, SETATTR, UNLINK, RENAME, OPEN, READ, WRITE = 1, 2, 3, 4, 10, 12, 14, 15, 16
STATFS, RELEASE, FLUSH, INIT, OPENDIR, RELEASEDIR = 17, 18, 25, 26, 27, 29
CREATE, INTERRUPT, BATCH_FORGET = 35, 36, 42
NO_ENTRY, NOT_IMPLEMENTED = -2, -38
ROOT = 1

names = {}  # numbers of files, by name
contents = {}  # bytes, by number


def attributes(number):
    mode, size = (0o40755, 0) if number == ROOT else (0o100644, len(contents[number]))
    return struct.pack("<6Q10I", number, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def entry(number):
    return struct.pack("<4Q2I", number, 0, 0, 0, 0, 0) + attributes(number)


def handle(number):
    return struct.pack("<QII", number, 0, 0)


def split_names(body):
    return body.split(b"\0")


def answer(operation, number, body):
    """The answer to a request about the file `number`, or a negative error."""
    if operation == INIT:
        return struct.pack("<4I2HI40x", 7, 31, 0, 0, 1, 1, 4096)
    if operation == STATFS:
        return struct.pack("<5Q4I24x", 1, 1, 1, 1, 1, 4096, 255, 4096, 0)
    if operation in (OPEN, OPENDIR):
        return handle(number)
    if operation in (FLUSH, RELEASE, RELEASEDIR):
        return b""
    if operation == LOOKUP:
        found = names.get(split_names(body)[0])
        return entry(found) if found else NO_ENTRY
    if operation == CREATE:
        created = names[split_names(body[16:])[0]] = ROOT + 1 + len(contents)
        contents[created] = b""
        return entry(created) + handle(created)
    if operation == WRITE:
        _, offset, size = struct.unpack_from("<QQI", body)
        before = contents[number]
        contents[number] = before[:offset] + body[40 : 40 + size] + before[offset + size :]
        return struct.pack("<II", size, 0)
    if operation == READ:
        _, offset, size = struct.unpack_from("<QQI", body)
        return contents[number][offset : offset + size]
    if operation == UNLINK:
        return b"" if names.pop(split_names(body)[0], None) else NO_ENTRY
    if operation == RENAME:
        old, new = split_names(body[8:])[:2]
        names[new] = names.pop(old)
        return b""
    if operation in (GETATTR, SETATTR):
        return struct.pack("<QII", 0, 0, 0) + attributes(number)
    return NOT_IMPLEMENTED


fuse = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={fuse},rootmode=40755,user_id=0,group_id=0"
mount = ["mount", "-i", "-t", "fuse", "-o", options, "memory", sys.argv[1]]
subprocess.run(mount, check=True, pass_fds=[fuse])
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
os.write(1, b"mounted\n")
open_files = 0
while True:
    is_idle = not select.select([fuse], [], [], 0.02)[0]
    if is_idle and open_files == 0 and signal.SIGUSR1 in signal.sigpending():
        os.write(1, b"hung\n")
        signal.pause()
    if is_idle:
        continue
    request = os.read(fuse, 1 << 16)
    operation, unique, number = struct.unpack_from("<IQQ", request, 4)
    if operation in (FORGET, INTERRUPT, BATCH_FORGET):
        continue
    open_files += (operation in (OPEN, CREATE)) - (operation == RELEASE)
    answered = answer(operation, number, request[40:])
    error, body = (answered, b"") if isinstance(answered, int) else (0, answered)
    os.write(fuse, struct.pack("<IiQ", 16 + len(body), error, unique) + body)
