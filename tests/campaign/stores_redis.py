"""Redis in a campaign: alone, five for Redlock, with sentinels, as a cluster.

Every server keeps a log of what it was told (F8), which can be thrown away
(F9).  Members have addresses of their own towards each other (127.0.0.x), so
that the relay can tell them from clients and cut them off alone (F12).
"""

import os
import re
import shutil
import socket

import diary
from servers import Server, ask, free_port
from store import ALONE, UNKNOWN, Store

CALM_FIFO = diary.FIFO_CALM | diary.TOKENS | diary.PUSH
USER = ["--user", "camp", "on", ">camp", "~*", "&*", "+@all"]


def tell(port, *lines):
    """What a server says to these commands, one after the other."""
    text = "".join(line + "\r\n" for line in lines + ("QUIT",))
    return ask(port, text.encode()).decode("latin-1")


def pongs(port):
    return lambda server: ask(port, b"PING\r\n").startswith(b"+PONG")


def make_redis(store, name, port, fsync="always", more=(), ready=None):
    """It forgets nothing: every write is in its file before the answer, or in
    the kernel's memory, which outlives a kill."""
    home = store.give_disk(name, 16)
    words = {"port": port, "bind": "127.0.0.1", "dir": home, "save": "",
             "appendonly": "yes", "appendfsync": fsync, "daemonize": "no",
             "auto-aof-rewrite-min-size": "2mb"}
    argv = ["redis-server"]
    for word, value in words.items():
        argv += ["--" + word, str(value)]
    server = Server(name, argv + list(more) + USER, store.folder,
                    ready or pongs(port))
    server.port, server.home = port, home
    return server


def left_on(server, rest):
    """Its keys, as it prints them, but for those that match."""
    said = tell(server.port, "KEYS *")
    if not said.startswith("*"):
        return UNKNOWN
    keys = [key for key in re.findall(r"\$\d+\r\n(.*?)\r\n", said)
            if not re.match(rest, key)]
    return "keys %s" % keys if keys else ""


class RedisFamily(Store):
    promises = CALM_FIFO  # who does not listen at that moment is passed over
    needs = ("redis-server",)
    excuses = (20,)

    def limit(self, servers, on):
        """By a connection that was there before: it lets no other in."""
        if on:
            self.inside = [socket.create_connection(("127.0.0.1", s.port), 5)
                           for s in self.servers]
        for one in self.inside:
            one.sendall(b"CONFIG SET maxclients %d\r\n" % (1 if on else 10000))
            one.recv(1000)
            if not on:
                one.close()

    def starve(self, on):
        for server in self.servers:
            tell(server.port, "CONFIG SET maxmemory %d" % (1 if on else 0))

    def revoke(self, on):
        for server in self.servers:
            tell(server.port, "ACL SETUSER camp " + ("off" if on else "on"),
                 "CLIENT KILL USER camp" if on else "PING")

    def wipe(self, server):
        shutil.rmtree(os.path.join(server.home, "appendonlydir"),
                      ignore_errors=True)

    def tidy(self):
        for server in self.servers:
            tell(server.port, "BGREWRITEAOF", "MEMORY PURGE")

    def left(self, server):
        """The counter, and of a strict namespace what it remembers, stay."""
        return left_on(server, r"hf:\{camp\}:[nc]$")


class Redis(RedisFamily):
    name = "redis"
    why_not = {10: ALONE, 12: ALONE, 33: ALONE}
    # Not strict: what it forgot is granted again at once (F9), as the page
    # says of one server with other persistence or none.
    excuses = (9, 20)
    worst = (9,)
    url_of = "redis://camp:camp@127.0.0.1:%d?ns=camp"

    def make(self):
        port = free_port()
        self.servers = [make_redis(self, "redis", port)]
        self.url = self.url_of % self.link([port])[0]
        self.direct = self.url_of % port

    def residue(self):
        return self.left(self.servers[0])


class Redlock(RedisFamily):
    """Strict: a holder may have no more votes than it needs, so that one server
    that forgets is one too many, unless it does not vote at first (F9).  Of
    a clock that is set nobody can know (F20)."""

    name = "redlock"
    promises = diary.TOKENS | diary.VOTES
    why_not = {10: "its servers know no leader", 12: "its servers do not speak "
               "to each other", 33: "its servers know no leader"}

    def make(self):
        ports = [free_port() for _ in range(5)]
        self.servers = [make_redis(self, "redis-%d" % i, port)
                        for i, port in enumerate(ports)]
        self.url = self.url_of(self.link(ports))
        self.direct = self.url_of(ports)

    def url_of(self, ports):
        return ("redlock://camp:camp@%s?prefix=camp-&strict=yes&max_lease_ms="
                "%d" % (",".join("127.0.0.1:%d" % port for port in ports),
                        self.lease_ms))

    def victims(self, rng):
        return rng.sample(self.servers, rng.choice((1, 2)))

    def forgetful(self, rng):
        """Always the same two: never half of them within a lease."""
        return rng.sample(self.servers[:2], rng.choice((1, 2)))

    def residue(self):
        """The numbers of its keys stay for an hour."""
        for server in self.servers:
            left = left_on(server, r"holdfast:token:")
            if left:
                return left
        return ""


class Members(RedisFamily):
    """Servers that know each other, of which one leads and may be replaced."""

    # Whoever does not flush each write may have torn its log.
    why_not = {21: "a member may not be able to read its own log after that "
               "('Bad file format')",
               22: "see redis; a replica may wait a minute for its primary "
               "after that"}
    count = 3

    def announced(self, i):
        return ["--bind-source-addr", "127.0.0.%d" % (10 + i),
                "--repl-diskless-sync-delay", "0", "--min-replicas-to-write",
                "1", "--min-replicas-max-lag", "2"]

    def follows(self, server):
        """It answers, and is in step with whom it follows."""
        said = tell(server.port, "INFO replication")
        return "role:master" in said or "master_link_status:up" in said

    def stands(self):
        return self.leader() is not None and all(map(self.follows,
                                                     self.servers))

    def victims(self, rng):
        return [rng.choice(self.everybody())]

    def forgetful(self, rng):
        return [rng.choice(self.servers)]

    def may_isolate(self, server):
        return True

    def index_of(self, port):
        fronts = self.relay.ports[:self.count]
        return self.servers[fronts.index(port)] if port in fronts else None

    def isolate(self, server, on):
        """It and its peers do not hear each other; clients hear all."""
        i, word = self.servers.index(server), "on" if on else "off"
        for link in self.links_of(i):
            self.relay.say("apart", link, word)
        self.relay.say("name", "127.0.0.%d" % (10 + i), word)

    def residue(self):
        leader = self.leader()
        return self.left(leader) if leader else "nobody leads"


class Sentinel(Members):
    name = "sentinel"
    lease_ms = 3000
    sentinels = 3
    strictly = "&max_lease_ms=3000&lag_ms=3000"

    def make(self):
        ports = [free_port() for _ in range(self.count)]
        asks = [free_port() for _ in range(self.sentinels)]
        fronts = self.link(ports + asks)
        for i, port in enumerate(ports):
            self.servers.append(self.make_member(i, port, fronts))
        for i, port in enumerate(asks):
            self.helpers.append(self.make_sentinel(i, port, asks, fronts))
        self.asks = asks
        query = "?ns=camp" + self.strictly
        self.url, self.direct = (
            "redis+sentinel://camp:camp@%s/primary%s" % (
                ",".join("127.0.0.1:%d" % port for port in some), query)
            for some in (fronts[self.count:], asks))

    def make_member(self, i, port, fronts):
        """From a file: the sentinels change it when they appoint somebody."""
        server = make_redis(self, "redis-%d" % i, port, "no",
                            ready=self.follows)
        path = os.path.join(server.home, "conf")
        words = server.argv[1:] + self.announced(i) + [
            "--replica-announce-ip", "127.0.0.1", "--replica-announce-port",
            str(fronts[i])]
        if i:
            words += ["--replicaof", "127.0.0.1", str(fronts[0])]
        with open(path, "w") as f:
            for word in words:
                f.write("\n" + word[2:] if word.startswith("--")
                        else " " + (word or '""'))
            f.write("\n")
        server.argv = ["redis-server", path]
        return server

    def make_sentinel(self, i, port, asks, fronts):
        home = os.path.join(self.folder, "sentinel-%d" % i)
        os.mkdir(home)
        lines = ["port %d" % port, "bind 127.0.0.1", "dir " + home,
                 "bind-source-addr 127.0.0.%d" % (20 + i),
                 # Else the others look for it where it only calls from.
                 "sentinel announce-ip 127.0.0.1",
                 "sentinel announce-port %d" % port,
                 "sentinel myid %040x" % (0x5e17 + i),
                 "sentinel monitor primary 127.0.0.1 %d 2" % fronts[0],
                 "sentinel down-after-milliseconds primary 1000",
                 "sentinel failover-timeout primary 3000",
                 "sentinel parallel-syncs primary 2"]
        for front in fronts[1:self.count]:
            lines.append("sentinel known-replica primary 127.0.0.1 %d" % front)
        for other, its in enumerate(asks):
            if other != i:
                lines.append("sentinel known-sentinel primary 127.0.0.1 %d "
                             "%040x" % (its, 0x5e17 + other))
        path = os.path.join(home, "conf")
        with open(path, "w") as f:
            f.write("\n".join(lines) + "\n")
        return Server("sentinel-%d" % i, ["redis-server", path, "--sentinel"],
                      self.folder, pongs(port))

    def links_of(self, i):
        return [i]

    def stands(self):
        """One leads, and all others have been told so: a primary that was
        replaced believes in itself for ten seconds after it was healed."""
        leader = self.leader()
        return leader is not None and all(
            "master_link_status:up" in tell(server.port, "INFO replication")
            for server in self.servers if server is not leader)

    def leader(self):
        for port, sentinel in zip(self.asks, self.helpers):
            if not sentinel.runs() or sentinel.paused:
                continue
            said = tell(port, "SENTINEL get-master-addr-by-name primary")
            found = re.search(r"127\.0\.0\.1\r\n\$\d+\r\n(\d+)", said)
            server = found and self.index_of(int(found.group(1)))
            if server and server.runs() and not server.paused:
                return server
        return None


class Loose(Sentinel):
    """As unsafe as the page says: not strict, and a primary that is cut off
    goes on.  Only by its name: it is there to be convicted (--claim)."""

    name = "loose"
    lease_ms = 8000  # longer than the sentinels need
    strictly = "&strict=no"
    excuses = (6, 7, 8, 9, 10, 12, 19, 20, 33)
    worst = (33,)

    def announced(self, i):
        words = super().announced(i)
        words[words.index("--min-replicas-to-write") + 1] = "0"
        return words


class Cluster(Members):
    """Three primaries; the first has nearly all slots, and two replicas."""

    name = "cluster"
    lease_ms = 4000
    count = 5
    primaries = 3
    # A primary that stood still serves what reaches it before it hears that
    # it was replaced.
    excuses = (6, 19, 20)
    timeout_ms = 1500

    def make(self):
        ports = [free_port() for _ in range(self.count)]
        buses = [free_port() for _ in range(self.count)]
        fronts = self.link(ports + buses)
        for i, port in enumerate(ports):
            server = make_redis(
                self, "redis-%d" % i, port, "no", self.announced(i) + [
                    "--cluster-enabled", "yes", "--cluster-port",
                    str(buses[i]), "--cluster-announce-ip", "127.0.0.1",
                    "--cluster-announce-port", str(fronts[i]),
                    "--cluster-announce-bus-port",
                    str(fronts[self.count + i]), "--cluster-node-timeout",
                    str(self.timeout_ms), "--cluster-config-file",
                    "nodes.conf"], self.serves)
            with open(os.path.join(server.home, "nodes.conf"), "w") as f:
                for j in range(self.count):
                    f.write(self.plan(j, fronts, j == i) + "\n")
                f.write("vars currentEpoch 3 lastVoteEpoch 0\n")
            self.servers.append(server)
        query = "?ns=camp&max_lease_ms=4000&lag_ms=3000"
        # A cluster tells clients its fronts, so nobody passes the relay by.
        self.url = self.direct = "redis+cluster://camp:camp@%s%s" % (
            ",".join("127.0.0.1:%d" % port for port in fronts[:self.count]),
            query)

    def plan(self, j, fronts, me):
        """The line of a node in the file in which a node keeps what it
        knows."""
        leads = j < self.primaries
        first, last = ((0, 16381), (16382, 16382), (16383, 16383))[
            j if leads else 0]
        return "%040x 127.0.0.1:%d@%d %s%s %s 0 0 %d connected%s" % (
            j + 1, fronts[j], fronts[self.count + j],
            "myself," if me else "", "master" if leads else "slave",
            "-" if leads else "%040x" % 1, j + 1 if leads else 1,
            " %d-%d" % (first, last) if leads else "")

    def serves(self, server):
        return ("cluster_state:ok" in tell(server.port, "CLUSTER INFO")
                and self.follows(server))

    def announced(self, i):
        words = super().announced(i)
        if i in (1, 2):  # they have no replicas, and nothing of ours
            words[words.index("--min-replicas-to-write") + 1] = "0"
        return words

    def links_of(self, i):
        return [i, self.count + i]

    def leader(self):
        for server in self.servers:
            if not server.runs() or server.paused:
                continue
            for line in tell(server.port, "CLUSTER NODES").splitlines():
                words = line.split()
                if len(words) > 8 and "master" in words[2] and (
                        words[8].startswith("0-") and "fail" not in words[2]):
                    port = int(words[1].split("@")[0].rsplit(":")[-1])
                    found = self.index_of(port)
                    if found and found.runs() and not found.paused:
                        return found
        return None
