#!/usr/bin/env python3
"""redis-py's Lock in a mixed run; worker.c says what a worker does.

    worker.py KIND PORT[,PORT...] KEY TARGET LEAST LOG

KIND `votes` is the published algorithm, written down plainly: SET NX PX on all
servers, a majority, a deletion that compares everywhere, a random delay.
KIND `nobody` takes no lock at all and claims to have it: the planted fault
that the judge must find.
"""

import os
import random
import sys
import time

import redis

MAX_SECONDS = int(os.environ.get("PEERS_SECONDS", "45"))
LEASE_MS = 5000
GIVE = "if redis.call('get', KEYS[1]) == ARGV[1] then " \
       "return redis.call('del', KEYS[1]) else return 0 end"


class Nobody:
    def acquire(self):
        return True

    def release(self):
        pass


class Votes:
    def __init__(self, clients, key):
        self.clients, self.key, self.token = clients, key, None

    def ask(self, what):
        """How many servers said yes; one that is down says nothing."""
        yes = 0
        for client in self.clients:
            try:
                yes += bool(what(client))
            except redis.RedisError:
                pass
        return yes

    def acquire(self):
        while True:
            self.token = os.urandom(16).hex()
            begun = time.monotonic()
            yes = self.ask(lambda c: c.set(self.key, self.token, nx=True,
                                           px=LEASE_MS))
            left = LEASE_MS / 1000 * 0.99 - 0.002 - (time.monotonic() - begun)
            if yes > len(self.clients) // 2 and left > 1:
                return True
            self.release()
            time.sleep(0.02 + random.random() * 0.1)

    def release(self):
        self.ask(lambda c: c.eval(GIVE, 1, self.key, self.token))


def make_lock(kind, clients, key):
    client = clients[-1]
    if kind == "votes":
        return Votes(clients, key)
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
    clients = [redis.Redis("127.0.0.1", int(one), socket_timeout=0.5)
               for one in port.split(",")]
    client = clients[-1]  # the witness, too
    lock = make_lock(kind, clients, key)
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
