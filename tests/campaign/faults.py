"""What may befall a campaign.

A fault is a function of the sitting and its dice that does the harm and
returns how long it lasts (seconds) and what heals it; None: nobody was there
to be struck.  What heals may answer False: it is not done yet, and wants to be
called again.  Two that strike the same thing (a client, the servers, the
network) do not overlap; others may.  Numbers above 28 are second kinds of one
that has a number.
"""

import resource
import signal
import time

import diary

CLIENT, SERVER, NETWORK, CLOCK, LOAD = range(5)
ALL = (CLIENT, SERVER, NETWORK)
TABLE = {}  # number: (name, what it strikes, function)
SECOND = {29: "F11b", 30: "F22b", 31: "F22c", 32: "F22d", 33: "F10b"}


def label(number):
    return SECOND.get(number, "F%d" % number)


def fault(number, name, *strikes):
    def note(function):
        TABLE[number] = (name, strikes, function)
        return function
    return note


def order():
    """The numbers, seconds behind their firsts."""
    def place(number):
        return int(label(number)[1:].rstrip("bcd")), number
    return sorted(TABLE, key=place)


# ---- Clients ----------------------------------------------------------------

@fault(1, "kill -9 a holder", CLIENT)
def kill_holder(s, rng):
    return kill(s, s.pick(rng, inside=True))


@fault(2, "kill -9 a waiter", CLIENT)
def kill_waiter(s, rng):
    """Now and then two at once."""
    first = kill(s, s.pick(rng, inside=False))
    if first is None or rng.random() < 0.7:
        return first
    if kill(s, s.pick(rng, inside=False, seconds=0)) is None:
        return first
    return 0.5, lambda: [s.spawn() for _ in range(2)]


def kill(s, life):
    if life is None:
        return None
    s.kill_life(life)
    return 0.5, s.spawn


@fault(3, "stop a holder past its lease", CLIENT)
def stop_holder(s, rng):
    return stop(s, s.pick(rng, inside=True), rng.uniform(1.1, 2.0))


@fault(4, "stop a waiter", CLIENT)
def stop_waiter(s, rng):
    return stop(s, s.pick(rng, inside=False), rng.uniform(0.5, 1.6))


def stop(s, life, leases):
    if life is None:
        return None
    s.signal_life(life, signal.SIGSTOP)
    return leases * s.lease, lambda: s.signal_life(life, signal.SIGCONT)


@fault(5, "stop the keeper alone", CLIENT)
def stop_keeper(s, rng):
    life = s.pick(rng, inside=rng.random() < 0.8)
    if life is None or not s.stop_keeper(life):
        return None
    return rng.uniform(0.5, 1.8) * s.lease, lambda: s.resume_keeper(life)


@fault(19, "everything stands still (suspend)", *ALL)
def suspend(s, rng):
    s.suspend(True)
    return rng.uniform(0.4, 1.6) * s.lease, lambda: s.suspend(False)


@fault(25, "fork in a client", CLIENT)
def fork(s, rng):
    life = s.pick(rng, inside=rng.random() < 0.7)
    if life is None:
        return None
    s.signal_life(life, signal.SIGUSR1)
    return 0.1, lambda: None


@fault(18, "a client's wall clock jumps", CLOCK)
def jump(s, rng):
    """One half of the clients goes by one clock, one by another."""
    seconds = rng.choice((-3600, -2, 2, 3600))
    other = rng.choice((0, 0, seconds, -seconds))
    s.set_clocks(*rng.sample((seconds, other), 2))
    return rng.uniform(0.5, 2) * s.lease, lambda: s.set_clocks(0, 0)


@fault(28, "keys that look alike, of 1 and 1000 bytes", LOAD)
def odd_keys(s, rng):
    s.arena.set_odd(1)
    return rng.uniform(0.5, 2) * s.lease, lambda: s.arena.set_odd(0)


def lower(s, rng, what, value):
    """A limit of one client, which then has to connect again."""
    life = s.pick(rng, inside=rng.random() < 0.5)
    if life is None:
        return None
    s.limit_life(life, what, value(s.lives[life].process.pid))
    if s.store.relay and rng.random() < 0.7:
        s.store.relay.say("cut", "all")
    return (rng.uniform(0.3, 1.2) * s.lease,
            lambda: s.limit_life(life, what, None))


@fault(30, "no more descriptors for a client", CLIENT)
def few_descriptors(s, rng):
    return lower(s, rng, resource.RLIMIT_NOFILE, s.first_free_descriptor)


@fault(31, "no more memory for a client", CLIENT)
def little_memory(s, rng):
    return lower(s, rng, resource.RLIMIT_AS, s.memory_of)


# ---- Servers ----------------------------------------------------------------

@fault(6, "stop the server", SERVER)
def stop_server(s, rng):
    victims = s.store.victims(rng)
    leader = s.store.leader()
    if leader and rng.random() < 0.5:
        victims = [leader]
    for server in victims:
        server.pause()
    return (rng.choice((0.2, 0.3, 0.5, 0.5, 1.0, 1.5, 3.0)) * s.lease,
            lambda: [server.resume() for server in victims])


def revive(servers):
    """Each that is back needs no more."""
    left = list(servers)

    def step():
        left[:] = [server for server in left if not server.revive()]
        return not left
    return step


def recover(s, server):
    """As its operator would: who has ended is started, who runs and serves
    nobody is ended."""
    if server.asked is None and server.runs():
        if s.store.serves(server):
            server.deaf = None
            return True
        server.deaf = server.deaf or time.monotonic()
        if time.monotonic() < server.deaf + 5:
            return False
        server.kill()
    server.deaf = None
    return server.revive()


@fault(7, "restart the server", SERVER)
def restart_server(s, rng):
    victims = s.store.victims(rng)
    for server in victims:
        server.ask_to_end()
    return rng.uniform(0, 0.5) * s.lease, revive(victims)


@fault(8, "kill -9 the server, start it again", SERVER)
def kill_server(s, rng):
    victims = s.store.victims(rng)
    for server in victims:
        server.kill()
    return rng.uniform(0, 0.8) * s.lease, revive(victims)


def revive_beside(s, sleeper, until, servers):
    """The servers at once, and who sleeps when its time has come."""
    step = revive(servers)

    def heal():
        if not step() or time.monotonic() < until:
            return False
        s.signal_life(sleeper, signal.SIGCONT)
        return True
    return heal


@fault(9, "the same, and it has forgotten all", CLIENT, SERVER)
def empty_server(s, rng):
    # A number that it gave while its clock was ahead would come again.
    if time.monotonic() < s.store.when.get(20, 0) + 5 * s.lease:
        return None
    victims = s.store.forgetful(rng)
    # Who hears of it at once gives up at once; who sleeps does not.
    sleeper = s.lull(rng) if rng.random() < 0.5 else None
    for server in victims:
        server.kill()
        s.store.wipe(server)
    if sleeper is None:
        return rng.uniform(0, 0.4) * s.lease, revive(victims)
    until = time.monotonic() + rng.uniform(0.3, 1.2) * s.lease
    return 0, revive_beside(s, sleeper, until, victims)


@fault(10, "kill -9 the leader", SERVER)
def kill_leader(s, rng):
    leader = s.store.leader()
    if not leader:
        return None
    leader.kill()
    return rng.uniform(0.3, 1.5) * s.lease, revive([leader])


@fault(33, "the leader dies, the others lag, a holder sleeps", CLIENT, SERVER)
def promote_who_lags(s, rng):
    leader = s.store.leader()
    if not leader or not s.store.may_isolate(leader):
        return None
    # Who asked after it was cut off is unknown to the others; they want the
    # same, unless somebody stays inside for long.
    s.arena.set_hurry(1)
    s.store.isolate(leader, True)
    sleeper = s.lull(rng, since=diary.now_ns(), seconds=2)
    step = revive_beside(s, sleeper, 0, [leader])

    def let_go():
        s.store.isolate(leader, False)
        s.arena.set_hurry(0)
    if sleeper is None:
        let_go()
        return None
    leader.kill()

    def heal():  # not before: what the leader had sent would still arrive
        let_go()
        return step()
    return 1.2 * s.lease, heal


@fault(12, "cut a member off from the others", SERVER)
def isolate(s, rng):
    able = [one for one in s.store.servers if s.store.may_isolate(one)]
    if not able:
        return None
    leader = s.store.leader()
    member = (leader if leader in able and rng.random() < 0.5
              else rng.choice(able))
    s.store.isolate(member, True)
    return (rng.uniform(0.5, 2.5) * s.lease,
            lambda: s.store.isolate(member, False))


@fault(20, "a server's wall clock jumps", SERVER)
def jump_server(s, rng):
    victims = s.store.forgetful(rng)
    seconds = rng.choice((-1, -0.5, 0.5, 1, 1.5)) * s.lease
    for server in victims:
        server.set_clock(seconds)

    def heal():
        for server in victims:
            server.set_clock(0)
        s.store.when[20] = time.monotonic()
    return rng.uniform(0.3, 1.5) * s.lease, heal


@fault(21, "the disk is full", SERVER)
def fill_disk(s, rng):
    """Some servers refuse what they cannot write, some end."""
    victims = [server for server in s.store.victims(rng)
               if server.name in s.store.disks]
    disks = ([s.store.disks[server.name] for server in victims]
             or list(s.store.disks.values())[:not s.store.servers])
    if not disks:
        return None
    for disk in disks:
        disk.fill()
    for server in victims:
        s.store.fills_up(server)
    left = list(victims)

    def heal():
        for disk in disks:
            disk.free()
        left[:] = [server for server in left if not recover(s, server)]
        return not left
    return rng.uniform(0.2, 1.5) * s.lease, heal


@fault(22, "no new connections", SERVER)
def limit(s, rng):
    """Who cannot open a file any more may also end."""
    victims = s.store.victims(rng)
    s.store.limit(victims, True)
    if s.store.relay and rng.random() < 0.5:
        s.store.relay.say("cut", "all")
    left, limited = list(victims), list(victims)

    def heal():
        if limited:
            s.store.limit(victims, False)
            limited.clear()
        left[:] = [server for server in left if not recover(s, server)]
        return not left
    return rng.uniform(0.3, 1.2) * s.lease, heal


@fault(32, "no more memory for the server", SERVER)
def starve(s, rng):
    s.store.starve(True)
    return rng.uniform(0.2, 1.2) * s.lease, lambda: s.store.starve(False)


@fault(23, "the clients' account is closed", SERVER)
def revoke(s, rng):
    s.store.revoke(True)
    return rng.uniform(0.2, 1.2) * s.lease, lambda: s.store.revoke(False)


@fault(27, "the store is tidied up", SERVER)
def tidy(s, rng):
    if s.store.tidy() is False:
        return None
    return 0.1, lambda: None


# ---- The network ------------------------------------------------------------

def fronts(s, rng):
    """All links of clients, or one of them."""
    count = len(s.store.servers)
    return [rng.randrange(count)] if rng.random() < 0.3 else range(count)


def hold(s, links, way, leases):
    for link in links:
        s.store.relay.say("front", link, way, "on")

    def heal():
        for link in links:
            s.store.relay.say("front", link, way, "off")
    return leases * s.lease, heal


@fault(11, "clients are cut off", NETWORK)
def cut_off(s, rng):
    return hold(s, fronts(s, rng), "both", rng.uniform(0.2, 1.5))


@fault(29, "nothing reaches the servers, one way", NETWORK)
def cut_one_way(s, rng):
    return hold(s, fronts(s, rng), "up", rng.uniform(0.2, 1.5))


@fault(17, "answers are late", NETWORK)
def late(s, rng):
    return hold(s, fronts(s, rng), "down", rng.uniform(0.35, 1.2))


@fault(13, "connections are reset", NETWORK)
def reset(s, rng):
    links = fronts(s, rng)
    refuse = rng.random() < 0.3
    for link in links:
        if refuse:
            s.store.relay.say("refuse", link, "on")
        s.store.relay.say("cut", link)

    def heal():
        for link in links:
            s.store.relay.say("refuse", link, "off")
    return rng.uniform(0.05, 0.3) * s.lease, heal


@fault(14, "delay", NETWORK)
def delay(s, rng):
    links = fronts(s, rng)
    ms = rng.choice((10, 30, 100, int(200 * s.lease), int(700 * s.lease)))
    for link in links:
        s.store.relay.say("delay", link, ms, ms)

    def heal():
        for link in links:
            s.store.relay.say("delay", link, 0, 0)
    return rng.uniform(0.5, 1.5) * s.lease, heal


def strike(s, rng, word):
    """The next bytes of a link; if none come for a while it is taken back, and
    was nothing."""
    links, relay = fronts(s, rng), s.store.relay
    before, end = relay.say("count"), time.monotonic() + 0.5
    for link in links:
        relay.say(word, link)

    def heal():
        for link in links:
            relay.say("calm", link)
    while relay.say("count") == before:
        if time.monotonic() > end:
            heal()
            return None
        time.sleep(0.002)
    return 0.3, heal


@fault(15, "a request is cut off", NETWORK)
def cut_request(s, rng):
    return strike(s, rng, "before")


@fault(16, "an answer is cut off", NETWORK)
def cut_answer(s, rng):
    return strike(s, rng, "after")


@fault(24, "an answer is half, or garbage", NETWORK)
def spoil(s, rng):
    return strike(s, rng, rng.choice(("half", "noise")))


@fault(26, "connections go on at another's, between commands", NETWORK)
def swap(s, rng):
    for link in fronts(s, rng):
        s.store.relay.say("swap", link, s.store.swaps_with(link, rng))
    return 1.1, lambda: None  # the relay waits for a quiet moment
