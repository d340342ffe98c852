"""The lines that peer.c describes, for libraries in Python; kinds.py has them.

Each lane is a thread with a client of its own.
"""

import copy
import os
import queue
import random
import signal
import sys
import threading
import time

sys.dont_write_bytecode = True
from kinds import KINDS  # noqa: E402

LANES = {}
SAYING = threading.Lock()
STORM_NS = 300 * 10 ** 9


class Lane:
    def __init__(self, name):
        self.name, self.lines, self.client = name, queue.Queue(), None
        threading.Thread(target=self.run, daemon=True).start()

    def answer(self, word, asked, text=""):
        with SAYING:
            print("%s %s %d %d %s" % (
                self.name, word, asked, time.monotonic_ns(),
                str(text).replace("\n", " ")), flush=True)

    def run(self):
        while True:
            words = self.lines.get()
            asked = time.monotonic_ns()
            try:
                getattr(self, "do_" + words[1])(asked, *words[2:])
            except Exception as why:  # whatever it was, the other side is told
                self.answer("failed", asked, "%s: %s"
                            % (type(why).__name__, why))

    def do_open(self, asked, kind, at, lease_ms):
        self.client = KINDS[kind](at, int(lease_ms))
        self.answer("opened", asked, kind)

    def do_lock(self, asked, key):
        self.answer("held" if self.client.lock(key, True) else "failed", asked)

    def do_try(self, asked, key):
        self.answer("held" if self.client.lock(key, False) else "busy", asked)

    def do_unlock(self, asked, key):
        try:
            self.client.unlock(key)
        except Exception as why:
            self.answer("refused", asked, "%s: %s" % (type(why).__name__, why))
        else:
            self.answer("given", asked)

    def do_renew(self, asked, key):
        try:
            done = self.client.renew(key)
        except Exception as why:
            self.answer("refused", asked, "%s: %s" % (type(why).__name__, why))
        else:
            self.answer("none" if done is None else "renewed", asked)

    def do_close(self, asked):
        getattr(self.client, "close", lambda: None)()
        self.client = None
        self.answer("closed", asked)

    def do_storm(self, begun, key, target, least, folder, log, _places):
        lines = []
        while ((count(folder) < int(target) or len(lines) < int(least))
               and time.monotonic_ns() < begun + STORM_NS):
            asked = time.monotonic_ns()
            self.client.lock(key, True)
            lines.append(section(folder, asked))
            try:
                self.client.unlock(key)
            except Exception:
                # Of several servers one that died leaves too few to agree.
                if not getattr(self.client, "several", False):
                    raise
            time.sleep(random.random() * 0.004)
        with open(log, "w") as f:
            f.writelines(lines)
        self.answer("done", begun, len(lines))

    def do_join(self, asked, other):
        # The same connections, but locks of its own.
        self.client = copy.copy(LANES[other].client)
        self.client.held = {}
        self.answer("joined", asked, other)

    def do_bench(self, begun, key, keys, ms, most, hold_us, log):
        now, turns = time.monotonic_ns, []
        keys, most, hold = int(keys), int(most), int(hold_us) / 1e6
        names = ([key] if keys == 1 else
                 ["%s-%d" % (key, i) for i in range(keys)])
        end = begun + int(ms) * 1000000 if ms != "0" else float("inf")
        while now() < end and (not most or len(turns) < most):
            name, asked = names[len(turns) % keys], now()
            self.client.lock(name, True)
            got = now()
            if hold:
                time.sleep(hold)
            gave = now()
            self.client.unlock(name)
            turns.append((asked, got, gave, now()))
        if log != "-":
            with open(log, "w") as f:
                f.writelines("%d %d %d %d\n" % turn for turn in turns)
        self.answer("done", begun, len(turns))


def count(folder):
    try:
        return os.stat(os.path.join(folder, "sections")).st_size
    except FileNotFoundError:
        return 0


def section(folder, asked):
    got, alone = time.monotonic_ns(), True
    try:
        os.mkdir(os.path.join(folder, "inside0"))
    except FileExistsError:
        alone = False
    with open(os.path.join(folder, "sections"), "ab", buffering=0) as f:
        f.write(b"x")
    time.sleep(0.0002)
    if alone:
        os.rmdir(os.path.join(folder, "inside0"))
    return "%d %d %d %d\n" % (asked, got, time.monotonic_ns(),
                              1 if alone else 2)


def main():
    print("ready", flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[1] == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        if words[0] not in LANES:
            LANES[words[0]] = Lane(words[0])
        LANES[words[0]].lines.put(words)
    os._exit(0)


if __name__ == "__main__":
    main()
