#!/usr/bin/env python3
"""redis-py's Lock in a mixed run; worker.c says what a worker does.

    worker.py KIND PORT KEY TARGET LEAST LOG

KIND `nobody` takes no lock at all and claims to have it: the planted fault
that the judge must find.
"""

import random
import sys
import time

import redis

MAX_SECONDS = 45


class Nobody:
    def acquire(self):
        return True

    def release(self):
        pass


def make_lock(kind, client, key):
    if kind == "redis-py":
        return redis.lock.Lock(client, key, timeout=30, sleep=0.003)
    if kind == "nobody":
        return Nobody()
    sys.exit("no kind '%s'" % kind)


def run_section(lock, client, log):
    asked = time.monotonic_ns()
    if not lock.acquire():
        sys.exit("the lock was not acquired")
    got = time.monotonic_ns()
    inside = client.incr("inside")
    total = client.incr("sections")
    time.sleep(0.0002)
    client.decr("inside")
    gave = time.monotonic_ns()
    lock.release()
    log.write("%d %d %d %d\n" % (asked, got, gave, inside))
    return total


def main():
    kind, port, key, target, least, path = sys.argv[1:]
    client = redis.Redis("127.0.0.1", int(port))
    lock = make_lock(kind, client, key)
    client.ping()
    total, own, end = 0, 0, time.monotonic() + MAX_SECONDS
    print("ready", flush=True)
    sys.stdin.readline()
    with open(path, "w") as log:
        while ((total < int(target) or own < int(least))
               and time.monotonic() < end):
            total = run_section(lock, client, log)
            own += 1
            time.sleep(random.random() * 0.004)


main()
