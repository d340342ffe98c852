"""The tests that every pair runs: each is a cell of the matrix.

A test gets a Scene and returns nothing, a word for the matrix, or ALONE where
the library has no such thing.  It waits for events; what it cannot wait for
(that somebody goes on waiting) it watches for a moment.  One who has the lock
while another's long lease runs makes two holders: Guilty, and nothing is tried
again.
"""

import os
import random
import tempfile
import time

import judge
import pairs
from fetch import Failed

LONG = 60000  # a lease, and so the timer of a waiter that nobody wakes
WOKEN = 30  # seconds in which one who is woken has it
PATIENCE = 60  # seconds for a queue to be as it must
STORM = 340  # seconds
SLACK = 5  # seconds by which a busy machine may be late
ALONE = "not in this library"
LEASES = [4000, 12000, 40000]


class Guilty(Failed):
    """Two holders: no second run makes that good, here or of the job, which
    ./check knows by the first word."""

    def __init__(self, why, verdict=None):
        super().__init__("unsafe: two holders: " + why)
        self.verdict = verdict


class Late(Failed):
    """Beyond a bound that grows with the lease: a longer one shows nothing."""


def expect(condition, why):
    if not condition:
        raise Failed(why)


def busy(lane, key):
    """Another holds it, by a lease that is long."""
    if lane.expect("try " + key, "busy|held").word == "held":
        raise Guilty("%s was given %s, which another has" % (lane, key))


def still_waits(lane, seconds):
    """As above, for one who has asked."""
    if not lane.stays_silent(seconds):
        said = lane.hear("held")
        raise Guilty("%s: '%s' was answered too early: %s"
                     % (lane, lane.line, said))


class Scene:
    """A pair at work in one test, or in a second run of it."""

    def __init__(self, pair, ours, theirs, guests, mark=""):
        self.pair, self.our_side, self.their_side = pair, ours, theirs
        self.guests, self.mark, self.keys = guests, mark, []

    def key(self, name):
        self.keys.append("peers-" + name + self.mark)
        return self.keys[-1]

    def ours(self, lease_ms=LONG, kind=None, program=None):
        return (program or self.our_side.program()).lane(
            None, kind or self.pair.ours, self.pair.url(lease_ms), lease_ms)

    def theirs(self, lease_ms=LONG, kind=None, program=None):
        return (program or self.their_side.program()).lane(
            None, kind or self.pair.kind, self.pair.at(lease_ms), lease_ms)

    def once_more(self):
        """Other keys, and nothing left of those that there were."""
        self.pair.revive()
        for key in self.keys:
            self.pair.remove(key)
        return Scene(self.pair, self.our_side, self.their_side, self.guests,
                     "-again")

    def await_queue(self, key, length):
        """So many stand there, asked of the server itself."""
        end = time.monotonic() + PATIENCE * self.pair.patience
        while (there := self.pair.queue(key)) != length:
            expect(time.monotonic() < end, "%d in the queue, not %d"
                   % (there, length))
            time.sleep(0.02)


# ---- One holds, the other waits ---------------------------------------------

def finds_free(lane, key):
    """It has it at once, and gives it back."""
    lane.expect("try " + key, "held")
    lane.expect("unlock " + key, "given")


def hand_over(scene, holder, waiter, key):
    """One holds, the other waits and has it after the release."""
    holder.expect("lock " + key, "held")
    waiter.ask("lock " + key)
    still_waits(waiter, 0.7)
    given = holder.expect("unlock " + key, "given")
    held = waiter.hear("held", WOKEN * scene.pair.patience)
    if held.done <= given.asked:
        raise Guilty("%s had %s before the release" % (waiter, key))
    waiter.expect("unlock " + key, "given")


def we_hold(scene):
    """With a lease that is longer than anybody waits here: one who has it in
    time was woken, or looks on its own account."""
    hand_over(scene, scene.ours(), scene.theirs(), scene.key("we-hold"))
    return "woken" if scene.pair.woken else None


def hand_over_soon(scene, number):
    """How many of several releases ours heard of, out of how many: it had the
    lock in a fifth of the time after which it looks again by itself.  If it
    only looked, and its looks were a second apart, that would be one in five;
    if they were five seconds apart, none, since it has just begun to wait."""
    look = scene.pair.our_look
    keys = [scene.key("heard-%d-%d" % (number, i))
            for i in range(10 if look < 2 else 4)]
    holder, soon = scene.theirs(), 0
    end = time.monotonic() + LONG / 2000  # the leases run
    for key in keys:
        holder.expect("lock " + key, "held")
    waiters = [(key, scene.ours()) for key in keys]
    for key, waiter in waiters:
        waiter.ask("lock " + key)
    time.sleep(0.5 if look >= 2 else 2.5)  # its first looks are quick ones
    for key, waiter in waiters:
        expect(time.monotonic() < end, "too slow to tell who is woken")
        still_waits(waiter, random.random() * min(look, 1) / 5)
        given = holder.expect("unlock " + key, "given")
        held = waiter.hear("held", WOKEN * scene.pair.patience)
        soon += held.done - given.asked < look * 1e9 / 5
        waiter.expect("unlock " + key, "given")
    return soon, len(keys)


def they_hold(scene):
    hand_over(scene, scene.theirs(), scene.ours(), scene.key("they-hold"))
    if not scene.pair.our_look:
        return None
    seen = []
    for number in range(3 if scene.pair.patience == 1 else 1):
        soon, of = hand_over_soon(scene, number)
        if soon >= 0.75 * of:
            return "woken"
        seen.append("%d of %d" % (soon, of))
    raise Failed("ours was not woken: soon were " + ", ".join(seen))


def try_it(scene):
    if not scene.pair.tries:
        return ALONE
    ours, theirs = scene.ours(), scene.theirs()
    key = scene.key("try")
    for holder, other in ((ours, theirs), (theirs, ours)):
        holder.expect("try " + key, "held")
        busy(other, key)
        holder.expect("unlock " + key, "given")
        finds_free(other, key)


def again(scene):
    """Their owner takes it twice: it is free after the second release."""
    if not scene.pair.again:
        return ALONE
    ours, theirs = scene.ours(), scene.theirs()
    key = scene.key("again")
    for owner, other in ((theirs, ours), (ours, theirs)):
        owner.expect("lock " + key, "held")
        owner.expect("lock " + key, "held")
        owner.expect("unlock " + key, "given")
        busy(other, key)
        owner.expect("unlock " + key, "given")
        finds_free(other, key)


def order(scene):
    """They come one by one, and are served in that order."""
    if not scene.pair.queue:
        return ALONE
    key = scene.key("order")
    lanes = [scene.ours(), scene.theirs(), scene.ours(), scene.theirs()]
    lanes[0].expect("lock " + key, "held")
    before = scene.pair.queue(key)
    for number, lane in enumerate(lanes[1:]):
        lane.ask("lock " + key)
        scene.await_queue(key, before + number + 1)
    for number, lane in enumerate(lanes):
        if number > 0:
            lane.hear("held", WOKEN * scene.pair.patience)
        for other in lanes[number + 1:]:
            still_waits(other, 0.02)
        lane.expect("unlock " + key, "given")


def shared(scene):
    """Readers of both kinds together, or permits of both."""
    pair = scene.pair
    if pair.permits:
        verdict = run_storm(scene, "permits", min(pair.sections, 500), 2,
                            "permit:2", pair.permits)
        expect(verdict.most == 2, "they were never inside together")
        return "permits"
    if not pair.reads:
        return ALONE
    key = scene.key("readers")
    reader, late = scene.ours(kind="shared"), scene.ours(kind="shared")
    their_reader = scene.theirs(kind=pair.reads)
    writer, their_writer = scene.ours(), scene.theirs()
    reader.expect("lock " + key, "held")
    their_reader.expect("lock " + key, "held")
    for number, lane in enumerate((their_writer, writer, late)):
        lane.ask("lock " + key)
        scene.await_queue(key, 3 + number)
    reader.expect("unlock " + key, "given")
    still_waits(their_writer, 0.2)
    their_reader.expect("unlock " + key, "given")
    their_writer.hear("held", WOKEN * pair.patience)
    still_waits(writer, 0.2)
    still_waits(late, 0.02)
    their_writer.expect("unlock " + key, "given")
    writer.hear("held", WOKEN * pair.patience)
    still_waits(late, 0.2)
    their_reader.ask("lock " + key)
    scene.await_queue(key, 3)
    writer.expect("unlock " + key, "given")
    for lane in (late, their_reader):
        lane.hear("held", WOKEN * pair.patience)
    for lane in (late, their_reader):
        lane.expect("unlock " + key, "given")
    return "readers"


# ---- Leases, crashes, strangers ---------------------------------------------

def keep(holder, other, key, lease_ms, calls):
    """Held for longer than its lease, and nobody else has it meanwhile."""
    holder.expect("lock " + key, "held")
    end = time.monotonic() + 1.7 * lease_ms / 1000
    while time.monotonic() < end:
        if calls:
            holder.expect("renew " + key, "renewed")
        other.expect("try " + key, "busy")
        time.sleep(lease_ms / 8000)
    holder.expect("unlock " + key, "given")
    finds_free(other, key)


def patiently(scene, attempt):
    """A lease that is short saves time; on a machine where renewals come too
    late for it a longer one says the same."""
    leases = scene.pair.leases or LEASES
    for lease_ms in leases:
        try:
            return attempt(lease_ms)
        except (Guilty, Late):
            raise
        except Failed as why:
            if lease_ms == leases[-1]:
                raise
            print("    again with a longer lease: %s" % why)
            scene.pair.remove(scene.keys[-1])


def we_renew(scene):
    patiently(scene, lambda lease: keep(
        scene.ours(lease), scene.theirs(lease),
        scene.key("we-renew-%d" % lease), lease, False))


def they_renew(scene):
    if not scene.pair.renews:
        return ALONE
    patiently(scene, lambda lease: keep(
        scene.theirs(lease), scene.ours(lease),
        scene.key("they-renew-%d" % lease), lease,
        scene.pair.renews == "call"))


def they_do_not_free(scene):
    """Their unlock by another owner, and by one whose lock has become ours."""
    pair, key = scene.pair, scene.key("foreign")
    ours, theirs, other = scene.ours(), scene.theirs(), scene.theirs()
    theirs.expect("lock " + key, "held")
    other.expect("unlock " + key, pair.foreign)
    busy(ours, key)
    pair.remove(key)
    ours.expect("lock " + key, "held")
    if pair.robbed == "frees":
        theirs.expect("unlock " + key, "given|refused")
        ours.expect("renew " + key, "refused")
        ours.expect("unlock " + key, "refused")
        return "it frees ours"
    theirs.expect("unlock " + key,
                  "given" if pair.robbed == "silent" else "refused")
    ours.expect("renew " + key, "renewed")
    busy(other, key)
    ours.expect("unlock " + key, "given")
    return "silently" if pair.robbed == "silent" else None


def we_do_not_free(scene):
    """Ours is told that it lost the lock, and leaves theirs alone."""
    key = scene.key("robbed")
    ours, theirs = scene.ours(), scene.theirs()
    ours.expect("lock " + key, "held")
    scene.pair.remove(key)
    theirs.expect("lock " + key, "held")
    ours.expect("unlock " + key, "refused")
    busy(scene.theirs(), key)
    theirs.expect("unlock " + key, "given")


def pass_on(scene, side, dead, heir, name, lease_ms, look):
    """One holds and dies, the other has it once the lease is over and it has
    looked again; where there is a queue, past one who only waited and died,
    too."""
    pair, program = scene.pair, side.start()
    key = scene.key("%s-%d" % (name, lease_ms))
    bound = (pair.keeps * lease_ms / 1000 + look(lease_ms)
             + SLACK * pair.patience)
    try:
        holder, waiter = dead(lease_ms, program=program), heir(lease_ms)
        holder.expect("lock " + key, "held")
        if pair.queue:
            before, between = pair.queue(key), dead(lease_ms, program=program)
            between.ask("lock " + key)
            scene.await_queue(key, before + 1)
            waiter.ask("lock " + key)
            scene.await_queue(key, before + 2)
        else:
            waiter.ask("lock " + key)
        waiter.is_silent(0.3)
        program.crash()
        if waiter.stays_silent(bound):
            raise Late("%s had nothing %.1f s after the crash" % (waiter,
                                                                  bound))
        waiter.hear("held")
        waiter.expect("unlock " + key, "given")
    finally:
        program.kill()


def we_crash(scene):
    patiently(scene, lambda lease: pass_on(
        scene, scene.our_side, scene.ours, scene.theirs, "we-crash", lease,
        scene.pair.their_poll))


def they_crash(scene):
    patiently(scene, lambda lease: pass_on(
        scene, scene.their_side, scene.theirs, scene.ours, "they-crash",
        lease, lambda lease: scene.pair.our_poll))


def tokens(scene):
    """Where both sides have them they rise from holder to holder."""
    if not scene.pair.tokens:
        return ALONE
    last, key = 0, scene.key("tokens")
    for lane in [scene.ours(), scene.theirs()] * 3:
        token = int(lane.expect("lock " + key, "held").text)
        expect(token > last, "%s: token %d after %d" % (lane, token, last))
        last = token
        lane.expect("unlock " + key, "given")


# ---- All of them at once ----------------------------------------------------

def count(folder):
    try:
        return os.stat(os.path.join(folder, "sections")).st_size
    except FileNotFoundError:
        return 0


def run_storm(scene, name, target, places=1, our_kind=None, their_kind=None):
    """Two of theirs and two of ours, and guests, as fast as they can."""
    sections, key, pair = [], scene.key(name), scene.pair
    lanes = [open_lane(pair.storm_ms, kind)
             for open_lane, kind in ((scene.theirs, their_kind),
                                     (scene.ours, our_kind)) * 2]
    lanes += [side.program().lane(None, kind, pair.at(pair.storm_ms),
                                  pair.storm_ms)
              for side, kind in scene.guests]
    with tempfile.TemporaryDirectory() as folder:
        for number, lane in enumerate(lanes):
            lane.ask("storm %s %d %d %s %s/log%d %d" % (
                key, target, pair.least, folder, folder, number, places))
        pair.meanwhile(lambda: count(folder) / target)
        trouble = []
        for lane in lanes:
            try:
                lane.hear("done", STORM)
            except Failed as why:
                trouble.append(why)
        for number, lane in enumerate(lanes):
            sections += judge.read_log("%s/log%d" % (folder, number),
                                       "%s%d" % (lane.program.name, number))
    verdict = judge.Verdict(sections, places)
    if verdict.guilty() and not verdict.stopped(pair.storm_ms):
        raise Guilty(str(verdict), verdict)  # whatever else there is to say
    expect(not verdict.guilty(), "a holder stood still for half of its lease "
           "or longer, which proves nothing: %d sections"
           % verdict.sections)
    print("    " + str(verdict))
    for why in trouble:
        raise why
    expect(verdict.sections >= target, "too few sections: %s" % verdict)
    expect(len(verdict.by_worker) == len(lanes),
           "not everybody took part: %s" % verdict)
    return verdict


def storm(scene):
    verdict = run_storm(scene, "storm", scene.pair.sections)
    # Without waiting nothing would have been shown.
    expect(verdict.handovers >= verdict.sections // 100,
           "they hardly met: %s" % verdict)


def nothing_left(scene):
    """After all of these: what a peer leaves, and no more.  A lease that a
    crash left behind may still have to end."""
    end = time.monotonic() + PATIENCE * scene.pair.patience
    while left := pairs.expect_left(scene.pair, scene.pair.listed()):
        expect(time.monotonic() < end, "left in the store: %s" % left)
        time.sleep(0.5)


# ---- Libraries that do not share our locks ----------------------------------

def apart(holder, other, key):
    """Both have what has one name: it is not one lock."""
    holder.expect("lock " + key, "held")
    finds_free(other, key)
    holder.expect("unlock " + key, "given")
    return "apart"


def we_hold_apart(scene):
    return apart(scene.ours(), scene.theirs(), scene.key("we-hold"))


def they_hold_apart(scene):
    return apart(scene.theirs(), scene.ours(), scene.key("they-hold"))


# In one row side by side, row after row.
ROWS = [[we_hold, they_hold, try_it, again, order, we_renew, they_renew,
         they_do_not_free, we_do_not_free, tokens],
        [we_crash, they_crash], [storm], [shared], [nothing_left]]
APART = {"both": [[we_hold_apart, they_hold_apart]],
         "ours": [[we_hold, they_hold_apart]]}
