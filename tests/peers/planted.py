"""The tests of the tests: peers that lie, and each must be seen.

A World is a lock service in this process, for both sides, that keeps every
rule or breaks one; a Liar is a program that speaks peer.c's lines with it.  An
honest world passes every test, and for each lie there is a test that sees it:
as two holders where it makes two.  Beside that, on a real server, ours with
another name for the key is a peer that shares nothing, all of the judge's
witnesses must speak, and what the tools say of a registry is told apart.
"""

import threading
import time

import cells
import fetch
import judge
import pairs
from fetch import Failed
from lanes import Answer, Program, Side, end

LEASE = 600  # ms, where one has to end

# What each says, which test sees it, and whether as two holders.
LIES = [("early", cells.we_hold, True), ("early", cells.they_hold, True),
        ("early", cells.try_it, True), ("early", cells.order, True),
        ("once is enough", cells.again, True),
        ("writers see no readers", cells.shared, True),
        ("anybody frees", cells.they_do_not_free, True),
        ("late ones free", cells.they_do_not_free, False),
        ("late ones free", cells.we_do_not_free, True),
        ("late ones are told nothing", cells.they_do_not_free, False),
        ("late ones are told nothing", cells.we_do_not_free, False),
        ("deaf", cells.we_hold, False), ("slow", cells.they_hold, False),
        ("last come, first served", cells.order, False),
        ("leases end", cells.we_renew, False),
        ("leases end", cells.they_renew, False),
        ("the dead hold", cells.we_crash, False),
        ("the dead hold", cells.they_crash, False),
        ("one token", cells.tokens, False),
        ("a ghost", cells.nothing_left, False)]

# What a tool says, and whether that is for want of a way to its registry.
SAID = [
    ("Could not transfer artifact a:b:pom:1 from/to c (http://127.0.0.1:9): "
     "Connect to 127.0.0.1:9 failed: Connection refused", True),
    ("Unknown host nowhere.invalid: Name or service not known", True),
    ("npm error code ECONNREFUSED\nnpm error syscall connect", True),
    ("npm error code ENOTFOUND\nnpm error syscall getaddrinfo", True),
    ("WARNING: Retrying (Retry(total=0)) after connection broken by "
     "'NewConnectionError('Failed to establish a new connection: [Errno 111] "
     "Connection refused')'\nERROR: Could not find a version that satisfies "
     "the requirement redis==5.2.1 (from versions: none)", True),
    ("dial tcp: lookup nowhere.invalid: no such host", True),
    ("reading a.mod: 503 Service Unavailable", True),
    ("ERROR: Could not find a version that satisfies the requirement "
     "redis==99 (from versions: none)", False),
    ("WARNING: Retrying after connection broken by 'ReadTimeoutError'\nERROR: "
     "Could not find a version (from versions: 0.6.0, 0.6.1)", False),
    ("Could not find artifact org.redisson:redisson:jar:99 in central", False),
    ("Could not transfer artifact a:b:jar:1: Checksum validation failed",
     False),
    ("npm error code ETARGET\nnpm error notarget No matching version", False),
    ("npm error code E404\nnpm error 404 Not Found", False),
    ("npm error code EINTEGRITY", False),
    ("npm error code ENOSPC\nnpm error network timed out", False),
    ("verifying m@v1: checksum mismatch\nSECURITY ERROR", False),
    ("go: m@v9.9.9: invalid version: unknown revision v9.9.9", False),
    ("./peer.go:502: undefined: concurrency.Mutex", False),
    ("write /x/y: no space left on device", False),
    ("java.lang.OutOfMemoryError: Java heap space", False), ("", False)]


class Entry:
    def __init__(self, lane, key, shared, asked):
        self.lane, self.key, self.shared, self.asked = lane, key, shared, asked
        self.count, self.token, self.ends = 0, 0, float("inf")


class World:
    """Who stands at which key, in the order in which they came."""

    def __init__(self, lie=""):
        self.lie, self.guard = lie, threading.RLock()
        self.entries, self.robbed, self.token = [], [], 0

    def at(self, key):
        return [one for one in self.entries if one.key == key]

    def may_enter(self, entry):
        for other in self.at(entry.key):
            if other is entry:
                break  # who came later is not in its way
            readers = entry.shared and other.shared
            blind = self.lie == "writers see no readers" and other.shared
            if not (readers or blind or self.lie == "early"):
                return False
        return not (self.lie == "last come, first served"
                    and any(one.count for one in self.at(entry.key)))

    def admit(self):
        """Everybody who may enter does; who is dead is forgotten."""
        with self.guard:
            now = time.monotonic()
            self.entries = [one for one in self.entries if one.ends > now]
            turned = self.lie == "last come, first served"
            if turned:
                self.entries.sort(key=lambda one: (not one.count, -one.asked))
            for entry in self.entries:
                if not entry.count and self.may_enter(entry):
                    self.grant(entry)

    def grant(self, entry):
        entry.count += 1
        if entry.count == 1 and self.lie != "one token":
            self.token += 1
        entry.token = self.token
        theirs = entry.lane.program.name == "theirs"
        waited = time.monotonic_ns() - entry.asked > 100000000
        if self.lie == "leases end":
            entry.ends = time.monotonic() + entry.lane.lease / 1000
        if self.lie == "deaf" and theirs and waited:
            return
        say = lambda: entry.lane.answer("held", entry.asked, entry.token)
        if self.lie == "slow" and not theirs and waited:
            threading.Timer(0.4, say).start()
        else:
            say()

    def take(self, lane, key, asked, wait):
        with self.guard:
            for one in self.at(key):
                if one.lane is lane and one.count:
                    return self.grant(one)
            entry = Entry(lane, key, lane.shared, asked)
            self.entries.append(entry)
            self.admit()
            if not wait and not entry.count:
                self.entries.remove(entry)
                lane.answer("busy", asked)

    def give(self, lane, key, asked):
        with self.guard:
            own = [one for one in self.at(key) if one.lane is lane]
            late = (lane, key) in self.robbed
            lie = self.lie
            if own:
                own[0].count -= 1
                if not own[0].count or lie == "once is enough":
                    self.entries.remove(own[0])
            elif (lie == "late ones free" and late
                    or lie == "anybody frees" and not late):
                self.remove(key)
            given = own or late and lie == "late ones are told nothing"
            lane.answer("given" if given else "refused", asked)
            self.admit()

    def remove(self, key):
        """Behind the backs of its holders."""
        with self.guard:
            self.robbed += [(one.lane, key) for one in self.at(key)]
            self.entries = [one for one in self.entries if one.key != key]

    def bury(self, program):
        with self.guard:
            for one in self.entries:
                if one.lane.program is program and self.lie != "the dead hold":
                    one.ends = time.monotonic() + one.lane.lease / 1000
        threading.Timer(LEASE / 1000 + 0.01, self.admit).start()

    def listed(self):
        return [one.key for one in self.entries] + (
            ["ghost"] if self.lie == "a ghost" else [])


class Tongue:
    """A lane as its program sees it."""

    def __init__(self, program, name, kind, lease):
        self.program, self.name = program, name
        self.shared, self.lease = kind == "shared", lease

    def answer(self, word, asked, text=""):
        self.program.lanes[self.name].said.put(
            Answer([word, asked, time.monotonic_ns(), str(text)]))


class Liar(Program):
    """No process, but its lines."""

    def __init__(self, name, world):
        self.name, self.world, self.child = name, world, self
        self.lanes, self.guard, self.serial = {}, threading.Lock(), 0
        self.tongues = {}

    def poll(self):
        return None

    def tell(self, line):
        name, verb, *words = line.split()
        asked = time.monotonic_ns()
        if verb == "open":
            self.tongues[name] = Tongue(self, name, words[0], int(words[2]))
            self.tongues[name].answer("opened", asked)
            return
        lane, world, key = self.tongues[name], self.world, words[0]
        if verb in ("lock", "try"):
            world.take(lane, key, asked, verb == "lock")
        elif verb == "unlock":
            world.give(lane, key, asked)
        else:
            world.admit()
            mine = any(one.lane is lane for one in world.at(key))
            lane.answer("renewed" if mine else "refused", asked)

    def crash(self):
        self.world.bury(self)

    def kill(self):
        pass


class LiarSide(Side):
    def __init__(self, name, world):
        super().__init__(name, None, {})
        self.world = world

    def start(self):
        return Liar(self.name, self.world)


def scene_of(world, **more):
    pair = pairs.Pair(
        "planted", None, "lock", at=lambda lease: "-", url=lambda lease: "-",
        remove=world.remove, queue=lambda key: len(world.at(key)),
        listed=world.listed, reads="shared", tokens=True, woken=True,
        renews="call", our_look=1.0, our_poll=0.1, leases=[LEASE],
        their_poll=lambda lease: 0.1, **more)
    return cells.Scene(pair, LiarSide("ours", world),
                       LiarSide("theirs", world), [])


def what_falls(scene, test):
    """None, or why the test failed."""
    try:
        test(scene)
    except Failed as why:
        return why
    return None


def try_lie(lie, test, two, seen):
    why = what_falls(scene_of(World(lie), patience=0.1), test)
    seen["%s: %s" % (lie, test.__name__)] = (
        why is not None and isinstance(why, cells.Guilty) == two)


def try_honest(test, seen):
    why = what_falls(scene_of(World()), test)
    seen["honest: %s%s" % (test.__name__, ": %s" % why if why else "")] = (
        why is None)


def all_lies(seen):
    """Side by side, each in its own world."""
    todo = [threading.Thread(target=try_lie, args=one + (seen,))
            for one in LIES]
    todo += [threading.Thread(target=try_honest, args=(test, seen))
             for row in cells.ROWS for test in row if test != cells.storm]
    for one in todo:
        one.start()
    for one in todo:
        one.join()


def apart_on_a_server(pair, peer, seen):
    """Ours beside ours, on keys of different names."""
    running = {}
    scene = cells.Scene(pair, Side("holdfast", [peer], running),
                        Side("stranger", [peer], running), [])
    try:
        for test in (cells.we_hold, cells.they_hold, cells.try_it,
                     cells.again):
            seen["apart: " + test.__name__] = isinstance(
                what_falls(scene, test), cells.Guilty)
        why = what_falls(scene, lambda s: cells.run_storm(s, "storm", 300))
        verdict = getattr(why, "verdict", None)
        seen["apart: clock"] = verdict is not None and verdict.overlaps > 0
        seen["apart: witness"] = verdict is not None and verdict.crowded > 0
    finally:
        end(running)


def main(pair, peer):
    seen = {"judge": judge.convicts_what_is_planted()}
    for said, unreachable in SAID:
        seen["fetch: " + said[:40].replace("\n", " ")] = (
            fetch.is_unreachable(said) == unreachable)
    all_lies(seen)
    apart_on_a_server(pair, peer, seen)
    missed = [name for name, saw in seen.items() if not saw]
    for name in missed:
        print("FAIL %s: not as planted" % name)
    print("%d passed, %d failed, 0 skipped"
          % (len(seen) - len(missed), len(missed)))
    return 1 if missed else 0
