"""kazoo's part in mixed runs; quorum_worker.c says how.

    kazoo_worker.py run HOSTS PATH TARGET LEAST FOLDER LOG
    kazoo_worker.py hold HOSTS PATH [lock|read|write]

Plain kazoo: one client, its Lock, no options.
"""

import os
import random
import sys
import time

from kazoo.client import KazooClient

MAX_SECONDS = 200


def say(word):
    print(word, flush=True)


def count(folder):
    try:
        return os.stat(os.path.join(folder, "sections")).st_size
    except FileNotFoundError:
        return 0


def section(folder, asked):
    got = time.monotonic_ns()
    inside = os.path.join(folder, "inside")
    try:
        os.mkdir(inside)
        alone = True
    except FileExistsError:
        alone = False
    with open(os.path.join(folder, "sections"), "ab", buffering=0) as f:
        f.write(b"x")
    time.sleep(0.0002)
    if alone:
        os.rmdir(inside)
    return "%d %d %d %d\n" % (asked, got, time.monotonic_ns(),
                              1 if alone else 2)


def run(client, path, target, least, folder, log):
    lock, lines = client.Lock(path, "kazoo"), []
    say("ready")
    if not sys.stdin.readline():
        sys.exit("nobody said go")
    end = time.monotonic() + MAX_SECONDS
    while ((count(folder) < int(target) or len(lines) < int(least))
           and time.monotonic() < end):
        asked = time.monotonic_ns()
        lock.acquire()
        lines.append(section(folder, asked))
        lock.release()
        time.sleep(random.random() * 0.004)
    with open(log, "w") as f:
        f.writelines(lines)


def hold(client, path, kind="lock"):
    make = {"lock": client.Lock, "read": client.ReadLock,
            "write": client.WriteLock}[kind]
    lock = make(path, "kazoo")
    say("ready")
    for line in sys.stdin:
        if line == "take\n":
            lock.acquire()
            say("held")
        else:
            lock.release()
            say("given")


def main():
    client = KazooClient(sys.argv[2], timeout=5)
    client.start(timeout=30)
    (run if sys.argv[1] == "run" else hold)(client, *sys.argv[3:])
    client.stop()
    client.close()


if __name__ == "__main__":
    main()
