"""What may befall a campaign.

A fault is a function of the sitting and its dice that does the harm and
returns how long it lasts (seconds) and what heals it; None: nobody was there
to be struck.  Two that strike the same thing (a client, the servers, the
network) do not overlap; others may.
"""

import signal

CLIENT, SERVER, NETWORK, CLOCK = "client", "server", "network", "clock"
TABLE = {}  # number: (name, what it strikes, function)


def fault(number, name, strikes):
    def note(function):
        TABLE[number] = (name, strikes, function)
        return function
    return note


# ---- Clients ----------------------------------------------------------------

@fault(1, "kill -9 a holder", CLIENT)
def kill_holder(s, rng):
    return kill(s, s.pick(rng, inside=True))


@fault(2, "kill -9 a waiter", CLIENT)
def kill_waiter(s, rng):
    return kill(s, s.pick(rng, inside=False))


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


@fault(25, "fork in a client", CLIENT)
def fork(s, rng):
    life = s.pick(rng, inside=rng.random() < 0.7)
    if life is None:
        return None
    s.signal_life(life, signal.SIGUSR1)
    return 0.1, lambda: None


@fault(18, "a client's wall clock jumps", CLOCK)
def jump(s, rng):
    s.set_clock(rng.choice((-3600, -2, 2, 3600)))
    return rng.uniform(0.5, 2) * s.lease, lambda: s.set_clock(0)


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


def restart(s, servers):
    for server in servers:
        server.start()
    for server in servers:
        server.wait_ready()


@fault(7, "restart the server", SERVER)
def restart_server(s, rng):
    victims = s.store.victims(rng)
    for server in victims:
        server.end()
    return rng.uniform(0, 0.5) * s.lease, lambda: restart(s, victims)


@fault(8, "kill -9 the server, start it again", SERVER)
def kill_server(s, rng):
    victims = s.store.victims(rng)
    for server in victims:
        server.kill()
    return rng.uniform(0, 0.8) * s.lease, lambda: restart(s, victims)


@fault(10, "kill -9 the leader", SERVER)
def kill_leader(s, rng):
    leader = s.store.leader()
    if not leader:
        return None
    leader.kill()
    return rng.uniform(0.3, 1.5) * s.lease, lambda: restart(s, [leader])


@fault(12, "cut a member off from the others", SERVER)
def isolate(s, rng):
    member = rng.choice(s.store.servers)
    if rng.random() < 0.5:
        member = s.store.leader() or member
    if not s.store.may_isolate(member):
        return None
    s.store.isolate(member, True)
    return (rng.uniform(0.5, 2.5) * s.lease,
            lambda: s.store.isolate(member, False))


@fault(21, "the disk is full", SERVER)
def fill_disk(s, rng):
    s.store.fill(True)
    return rng.uniform(0.2, 1.5) * s.lease, lambda: s.store.fill(False)


@fault(22, "no new connections", SERVER)
def limit(s, rng):
    s.store.limit(True)
    if s.store.relay and rng.random() < 0.5:
        s.store.relay.say("cut", "all")
    return rng.uniform(0.3, 1.2) * s.lease, lambda: s.store.limit(False)


# ---- The network ------------------------------------------------------------

def fronts(s, rng):
    """All links of clients, or one of them."""
    count = len(s.store.servers)
    return [rng.randrange(count)] if rng.random() < 0.3 else range(count)


@fault(11, "clients are cut off", NETWORK)
def cut_off(s, rng):
    links = fronts(s, rng)
    way = rng.choice(("both", "both", "up", "down"))
    for link in links:
        s.store.relay.say("hold", link, way, "on")
    return (rng.uniform(0.2, 1.5) * s.lease,
            lambda: [s.store.relay.say("hold", link, way, "off")
                     for link in links])


@fault(13, "connections are reset", NETWORK)
def reset(s, rng):
    links = fronts(s, rng)
    refuse = rng.random() < 0.3
    for link in links:
        if refuse:
            s.store.relay.say("refuse", link, "on")
        s.store.relay.say("cut", link)
    return rng.uniform(0.05, 0.3) * s.lease, lambda: [
        s.store.relay.say("refuse", link, "off") for link in links]


@fault(14, "delay", NETWORK)
def delay(s, rng):
    links = fronts(s, rng)
    ms = rng.choice((10, 30, 100, int(200 * s.lease)))
    for link in links:
        s.store.relay.say("delay", link, ms, ms)
    return rng.uniform(0.5, 1.5) * s.lease, lambda: [
        s.store.relay.say("delay", link, 0, 0) for link in links]


def strike(s, rng, word):
    links = fronts(s, rng)
    before = s.store.relay.say(word, links[0])
    for link in links[1:]:
        s.store.relay.say(word, link)
    s.struck = before
    return 0.1, lambda: None


@fault(15, "a request is cut off", NETWORK)
def cut_request(s, rng):
    return strike(s, rng, "before")


@fault(16, "an answer is cut off", NETWORK)
def cut_answer(s, rng):
    return strike(s, rng, "after")


@fault(17, "answers are late", NETWORK)
def late(s, rng):
    links = fronts(s, rng)
    for link in links:
        s.store.relay.say("hold", link, "down", "on")
    return (rng.uniform(0.35, 1.2) * s.lease,
            lambda: [s.store.relay.say("hold", link, "down", "off")
                     for link in links])
