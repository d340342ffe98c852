"""The conductor's own diary, in the format of record.h.

Instants are CLOCK_BOOTTIME, which the clients use, too.
"""

import struct
import time

# In the order of CAMP_MAP.
KINDS = ["NOTHING", "CONFIG", "BEGIN", "OPENED", "ASK", "GRANT", "REFUSED",
         "CHECK", "CHANGE", "ACT", "RENEW", "RELEASE", "RELEASED", "SEEN",
         "FORKED", "STALL", "END", "KILL", "STOP", "CONTINUE", "FAULT",
         "HEALED", "CALM", "FINISH"]
FIFO, FIFO_CALM, TOKENS, PUSH, VOTES = 1, 2, 4, 8, 16
EXCLUSIVE, AGAIN = 0, 2
LIVES = 4096
KEYS = 16
ODD_AT = KEYS * 8 + LIVES * 4 * 2
HURRY_AT = ODD_AT + 4
CROWD_AT = HURRY_AT + 4
ARENA_SIZE = ODD_AT + 16


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def fnv(data):
    total = 2166136261
    for byte in data:
        total = ((total ^ byte) * 16777619) & 0xffffffff
    return total


class Diary:
    def __init__(self, path):
        self.file = open(path, "ab", buffering=0)

    def write(self, kind, task=0, code=0, until=0, number=0, token=0, life=0,
              called=0):
        at = now_ns()
        body = struct.pack("<qqqQQIIiBBBBI", at, called or at, until, token,
                           number, life, task, code, KINDS.index(kind), 0, 0,
                           0, 0)
        self.file.write(body + struct.pack("<I", fnv(body)))
        return at


def holds_alone(path, since):
    """Whether a client is inside, alone, by a request that it made after this
    instant, and was told by a check that it holds."""
    asked, inside = set(), set()
    with open(path, "rb") as f:
        data = f.read()
    for _, called, _, _, _, _, task, code, kind, _, mode, flags, _, _ in (
            struct.iter_unpack("<qqqQQIIiBBBBII", data[:len(data) & ~63])):
        kind = KINDS[kind]
        if kind == "ASK" and called > since and not flags & AGAIN:
            asked.add(task)
        elif kind == "CHECK" and code == 0 and mode == EXCLUSIVE:
            inside |= {task} & asked
        elif kind == "RELEASE":
            inside.discard(task)
    return bool(inside)


class Arena:
    """What the clients show of themselves: who is inside, who waits."""

    def __init__(self, path):
        with open(path, "wb") as f:
            f.truncate(ARENA_SIZE)
        self.path = path

    def read(self):
        with open(self.path, "rb") as f:
            f.seek(KEYS * 8)
            words = struct.unpack("<%dI" % (2 * LIVES), f.read(8 * LIVES))
        return words[:LIVES], words[LIVES:]

    def put(self, at, number):
        with open(self.path, "r+b", buffering=0) as f:
            f.seek(at)
            f.write(struct.pack("<I", number))

    def set_odd(self, on):
        self.put(ODD_AT, on)

    def set_hurry(self, on):
        self.put(HURRY_AT, on)

    def set_crowd(self, on):
        self.put(CROWD_AT, on)
