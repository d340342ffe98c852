"""kazoo's Lock as a peer of the benchmark; peer.h says how.

    kazoo_peer.py HOSTS PATH

Plain kazoo: one client, a Lock a thread, no options.
"""

import sys
import threading
import time

from kazoo.client import KazooClient

THREADS = 4


def say(word, at):
    print(word, at, flush=True)


def compete(lock, worker, end, lines):
    while time.monotonic_ns() < end:
        asked = time.monotonic_ns()
        lock.acquire()
        got = time.monotonic_ns()
        gave = time.monotonic_ns()
        lock.release()
        lines.append("%d %d %d %d\n" % (worker, asked, got, gave))


def run(client, path, end, file):
    lines = [[] for _ in range(THREADS)]
    threads = [threading.Thread(target=compete,
                                args=(client.Lock(path), i, end, lines[i]))
               for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with open(file, "w") as f:
        for of_one in lines:
            f.writelines(of_one)


def main():
    client = KazooClient(sys.argv[1], timeout=30)
    client.start(timeout=30)
    lock = client.Lock(sys.argv[2])
    say("ready", 0)
    for line in sys.stdin:
        words = line.split(maxsplit=2)
        if words[0] == "take":
            lock.acquire()
            say("held", time.monotonic_ns())
        elif words[0] == "give":
            at = time.monotonic_ns()
            lock.release()
            say("given", at)
        else:
            run(client, sys.argv[2], int(words[1]), words[2].strip())
            say("done", 0)


if __name__ == "__main__":
    main()
