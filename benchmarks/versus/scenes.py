"""The scenarios of `./bench --peers`, for any contestant alike.

A contestant is two processes that speak the lines of tests/peers/peer.c; every
process has one client, and its lanes are threads on it.  Loops run inside the
processes.  Where a lane is told to lock and unlock by a line of its own
(handover), the instants are taken by the lane, so the pipe is in no measured
time, and this process sits on the other core.

Placement decides more than most libraries: `one core` has server and clients
on the same core, where the client's own cost shows; `split` has the server on
a core of its own.
"""

import os
import random
import statistics
import time

import fetch
import servers
import turns as judge
from fetch import Failed
from lanes import Lane, Program

LEASE_MS = 30000
WAITERS = 200
THREADS = 16
HOLD_S = 0.005  # of a hand-over: whoever is next has asked by then
PATIENCE = 60  # seconds for lanes that should have ended


class Side:
    """One process of a contestant."""

    def __init__(self, entry):
        self.program = Program(entry.label, entry.argv)
        self.lanes = [self.program.lane("l0", entry.kind, entry.at, LEASE_MS)]

    def take(self, count):
        """So many lanes, all on one client."""
        fresh = []
        while len(self.lanes) < count:
            lane = Lane(self.program, "l%d" % len(self.lanes))
            with self.program.guard:
                self.program.lanes[lane.name] = lane
            lane.ask("join l0")
            fresh.append(lane)
            self.lanes.append(lane)
        for lane in fresh:
            lane.hear("joined")
        return self.lanes[:count]

    def pids(self):
        return servers.tree(self.program.child.pid)

    def end(self):
        self.program.kill()


class Contestant:
    def __init__(self, entry):
        self.entry, self.sides = entry, []

    def side(self, which):
        while len(self.sides) <= which:
            self.sides.append(Side(self.entry))
        return self.sides[which]

    def pids(self):
        return [pid for side in self.sides for pid in side.pids()]

    def end(self):
        for side in self.sides:
            side.end()
        self.sides = []


class Stage:
    """A server, a folder for logs, and the cores."""

    def __init__(self, server, folder, scale=1.0):
        self.server, self.folder, self.scale = server, folder, scale
        cores = sorted(os.sched_getaffinity(0))
        self.all, self.first = set(cores), {cores[0]}
        self.last, self.rounds = {cores[-1]}, 0

    def place(self, contestant, placement):
        """`one core`, `split`, or anywhere."""
        clients = {"one core": self.first, "split": self.last}
        servers.pin(self.server.pids(),
                    self.all if placement is None else self.first)
        servers.pin(contestant.pids(), clients.get(placement, self.all))
        os.sched_setaffinity(0, self.last if placement == "one core"
                             else self.all)

    def key(self, name):
        """New in every round, so that nothing is left of the last one."""
        self.rounds += 1
        return "%s%d" % (name, self.rounds)

    def loop(self, lanes, key_of, keys, ms, turns=0, hold_us=0):
        """What all lanes did, and the window in which all were at it."""
        paths, answers, found = [], [], []
        for number, lane in enumerate(lanes):
            paths.append(os.path.join(self.folder, "log%d" % number))
            lane.ask("bench %s %d %d %d %d %s" % (
                key_of(number), keys, ms, turns, hold_us, paths[-1]))
        for lane in lanes:
            answers.append(lane.hear("done", PATIENCE + ms / 1000))
        for number, path in enumerate(paths):
            found += judge.read_turns(path, number)
            os.unlink(path)
        if not found:
            raise Failed("nobody had a turn in %d ms" % ms)
        return (found, max(one.asked for one in answers),
                min(one.asked for one in answers) + int(ms * 1e6))

    def ms(self, ms):
        return int(ms * self.scale)


class Cost:
    """What the server does meanwhile."""

    def __init__(self, server):
        self.server, self.requests = server, server.requests()
        self.ran = servers.run_ns(server.pids())
        self.begun = time.monotonic()

    def until_now(self):
        """Requests, seconds, microseconds of processor time; what a thread
        did that has ended meanwhile is not known."""
        seconds = time.monotonic() - self.begun
        ran = sum(ns - self.ran.get(tid, 0) for tid, ns in servers.run_ns(
            self.server.pids()).items())
        # The question itself is one of them.
        return (max(0, self.server.requests() - self.requests - 1), seconds,
                ran / 1e3)


# ---- The scenarios ----------------------------------------------------------

def pair(stage, who):
    """An uncontended lock and unlock, sixteen keys in turn."""
    lane, key = who.side(0).lanes[0], stage.key("pair")
    stage.place(who, "one core")
    cost = Cost(stage.server)
    turns, begin, end = stage.loop([lane], lambda _: key, 16, stage.ms(700))
    requests, _, ran_us = cost.until_now()
    p50, p99 = judge.pairs_us(turns)
    return {"p50_us": p50, "p99_us": p99,
            "pairs": judge.rate(turns, begin, end),
            "requests": requests / len(turns),
            "server_us": ran_us / len(turns)}


def threads(stage, who):
    """Sixteen threads of one process, each on keys of its own."""
    lanes, key = who.side(0).take(THREADS), stage.key("threads")
    stage.place(who, "split")
    cost = Cost(stage.server)
    turns, begin, end = stage.loop(
        lanes, lambda number: "%s-t%d" % (key, number), 4, stage.ms(700))
    _, _, ran_us = cost.until_now()
    return {"pairs": judge.rate(turns, begin, end),
            "server_us": ran_us / len(turns)}


def handover(stage, who):
    """From the call of unlock in one process to the return of lock in the
    other.  A release falls anywhere in a poller's interval."""
    lanes = [who.side(0).lanes[0], who.side(1).lanes[0]]
    key, took, turn = stage.key("handover"), [], 0
    jitter = max(who.entry.poll_ms, 2) / 1000
    stage.place(who, "one core")
    lanes[0].expect("lock " + key, "held")
    end = time.monotonic() + stage.ms(1200) / 1000
    while time.monotonic() < end or len(took) < 5:
        holder, other = lanes[turn % 2], lanes[1 - turn % 2]
        other.ask("lock " + key)
        time.sleep(HOLD_S + random.random() * jitter)
        given = holder.expect("unlock " + key, "given")
        held = other.hear("held")
        if held.asked < given.asked:
            took.append((held.done - given.asked) / 1e3)
        if held.done < given.asked:
            raise Failed("%s: two holders at once" % who.entry.label)
        turn += 1
    lanes[turn % 2].expect("unlock " + key, "given")
    return {"p50_us": statistics.median(took)}


def contended(stage, who):
    """Two processes of four threads each on one key, nothing in between."""
    lanes = who.side(0).take(4) + who.side(1).take(4)
    key = stage.key("contended")
    stage.place(who, "split")
    turns, begin, end = stage.loop(lanes, lambda _: key, 1, stage.ms(1000))
    return judge.contest(turns, range(len(lanes)), begin, end)


def waiters(stage, who):
    """Two hundred threads of one process wait for what another one holds;
    then each has it for a millisecond."""
    lanes, holder = who.side(0).take(WAITERS), who.side(1).lanes[0]
    key, paths, found = stage.key("waiters"), [], []
    stage.place(who, "split")
    for number, lane in enumerate(lanes):  # threads and connections are there
        lane.ask("bench %s-%d 1 0 1 0 -" % (key, number))
    for lane in lanes:
        lane.hear("done")
    holder.expect("lock " + key, "held")
    for number, lane in enumerate(lanes):
        paths.append(os.path.join(stage.folder, "log%d" % number))
        lane.ask("bench %s 1 0 1 1000 %s" % (key, paths[-1]))
    time.sleep(1.0)  # until all of them wait
    cost = Cost(stage.server)
    time.sleep(1.0)
    idle, seconds, _ = cost.until_now()
    cost = Cost(stage.server)
    given = holder.expect("unlock " + key, "given")
    for lane in lanes:
        lane.hear("done")
    requests, _, ran_us = cost.until_now()
    for number, path in enumerate(paths):
        found += judge.read_turns(path, number)
        os.unlink(path)
    verdict = judge.contest(found, range(WAITERS), 0, 1)
    if any(turn.got < given.asked for turn in found):
        raise Failed("%s: two holders at once" % who.entry.label)
    return {"idle_requests": idle / seconds, "requests": requests / WAITERS,
            "server_us": ran_us / WAITERS,
            "drain_ms": (max(t.done for t in found) - given.asked) / 1e6,
            "overlaps": verdict["overlaps"]}


def warm_up(stage, who):
    """Compilers that compile while they run, caches, connections."""
    stage.place(who, None)
    lanes, key = who.side(0).take(THREADS), stage.key("warm")
    stage.loop(lanes, lambda number: "%s-t%d" % (key, number), 4,
               stage.ms(3000 if who.entry.program in fetch.JAVA else 1000))
    if "contended" in who.entry.scenarios:
        lanes = who.side(0).take(4) + who.side(1).take(4)
        stage.loop(lanes, lambda _: key, 1, stage.ms(800))


SCENARIOS = {"pair": (pair, "one core"), "threads": (threads, "split"),
             "handover": (handover, "one core"),
             "contended": (contended, "split"), "waiters": (waiters, "split")}


def medians(rounds):
    """Of every number; two holders are never averaged away."""
    return {name: (max if name == "overlaps" else statistics.median)(
        [one[name] for one in rounds]) for name in rounds[0]}
