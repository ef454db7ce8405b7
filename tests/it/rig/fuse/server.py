"""A FUSE server that keeps the files of one directory in memory.

Its argument is the mount point. It speaks the protocol of `linux/fuse.h`, and prints a line when the
mount is ready.
"""

import os
import struct
import subprocess
import sys

LOOKUP, FORGET, GETATTR, SETATTR, UNLINK, RENAME, OPEN, READ, WRITE = 1, 2, 3, 4, 10, 12, 14, 15, 16
STATFS, RELEASE, FLUSH, INIT, OPENDIR, RELEASEDIR, CREATE, BATCH_FORGET = 17, 18, 25, 26, 27, 29, 35, 42
NO_ENTRY, NOT_IMPLEMENTED = -2, -38
ROOT = 1

names = {}  # numbers of files, by name
contents = {}  # bytes, by number


def attributes(number):
    mode, size = (0o40755, 0) if number == ROOT else (0o100644, len(contents[number]))
    owner = (0, 0)
    return struct.pack("<6Q10I", number, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, *owner, 0, 4096, 0)


def entry(number):
    return struct.pack("<4Q2I", number, 0, 0, 0, 0, 0) + attributes(number)


def handle(number):
    return struct.pack("<QII", number, 0, 0)


def words(body):
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
        found = names.get(words(body)[0])
        return entry(found) if found else NO_ENTRY
    if operation == CREATE:
        created = names[words(body[16:])[0]] = ROOT + 1 + len(contents)
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
        return b"" if names.pop(words(body)[0], None) else NO_ENTRY
    if operation == RENAME:
        old, new = words(body[8:])[:2]
        names[new] = names.pop(old)
        return b""
    if operation in (GETATTR, SETATTR):
        return struct.pack("<QII", 0, 0, 0) + attributes(number)
    return NOT_IMPLEMENTED


fuse = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={fuse},rootmode=40755,user_id=0,group_id=0"
mount = ["mount", "-i", "-t", "fuse", "-o", options, "memory", sys.argv[1]]
subprocess.run(mount, check=True, pass_fds=[fuse])
os.write(1, b"mounted\n")
while request := os.read(fuse, 1 << 16):
    operation, unique, number = struct.unpack_from("<IQQ", request, 4)
    if operation in (FORGET, BATCH_FORGET):
        continue
    answered = answer(operation, number, request[40:])
    error, body = (answered, b"") if isinstance(answered, int) else (0, answered)
    os.write(fuse, struct.pack("<IiQ", 16 + len(body), error, unique) + body)
