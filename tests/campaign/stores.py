"""The stores of a campaign: how each is started, reached, and left.

A store names its servers, the URL of its clients (through the relay) and of
whoever looks afterwards (past it), what it promises, the faults that make no
sense for it and why, and what may be left in it at the end.
"""

import ctypes
import os
import re
import shutil
import socket
import struct
import subprocess

import diary
from servers import HARNESS, NoServer, Relay, Server, ask, free_port

ALONE = "it has no members"
NO_SERVER = "it has no server"
NO_NETWORK = "there is no network between"


class Store:
    name = "?"
    lease_ms = 2000
    promises = diary.FIFO | diary.TOKENS
    why_not = {}  # fault: why it makes no sense here
    needs = ()  # programs

    def __init__(self, sitting):
        self.folder, self.build = sitting.folder, sitting.build
        self.sitting = sitting
        self.servers, self.relay, self.env = [], None, {}

    def start(self):
        for program in self.needs:
            if not shutil.which(program):
                raise NoServer("%s is not installed; run "
                               "scripts/install-deps.sh check" % program)
        self.make()
        for server in self.servers:
            server.start()
        for server in self.servers:
            server.wait_ready()

    def make(self):
        pass

    def link(self, ports, mark=None):
        self.relay = Relay(os.path.join(self.build, "tests", "campaign",
                                        "campaign_relay"), ports, mark)
        return self.relay.ports

    def stop(self):
        for server in self.servers:
            if server.process:
                server.kill()
        if self.relay:
            self.relay.stop()

    def leader(self):
        return None

    def victims(self, rng):
        """Servers that may be struck at once: all, unless it has several."""
        return self.servers

    def residue(self):
        """What is in the store that should not be; "" is nothing."""
        return ""

    def limit(self, on):
        """No new connections, or as many as before (F22)."""
        raise NotImplementedError


# ---- One file ---------------------------------------------------------------

def mount_small(folder):
    """A disk of its own, so that it can be full; only root may have one.  It
    is in a namespace of this process, and goes with it whatever happens."""
    libc = ctypes.CDLL(None, use_errno=True)
    new_namespace = 0x20000
    return (libc.unshare(new_namespace) == 0 and all(
        subprocess.run(words, capture_output=True).returncode == 0
        for words in (["mount", "--make-rprivate", "/"],
                      ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs",
                       folder])))


class Sqlite(Store):
    name = "sqlite"
    why_not = {6: NO_SERVER, 7: NO_SERVER, 8: NO_SERVER, 10: NO_SERVER,
               11: NO_NETWORK, 12: NO_SERVER, 13: NO_NETWORK, 14: NO_NETWORK,
               15: NO_NETWORK, 16: NO_NETWORK, 17: NO_NETWORK, 22: NO_NETWORK}

    def make(self):
        self.disk = os.path.join(self.folder, "disk")
        os.mkdir(self.disk)
        self.mounted = mount_small(self.disk)
        if not self.mounted:
            self.why_not = dict(self.why_not, **{21: "needs root"})
        self.url = self.direct = "sqlite:" + os.path.join(self.disk, "locks.db")

    def fill(self, on):
        path = os.path.join(self.disk, "filler")
        if not on:
            os.unlink(path)
            return
        with open(path, "wb", buffering=0) as f:
            try:
                while True:
                    f.write(bytes(65536))
            except OSError:
                pass

    def stop(self):
        if getattr(self, "mounted", False):
            subprocess.run(["umount", "-l", self.disk], capture_output=True)


# ---- Redis ------------------------------------------------------------------

def pongs(port):
    return lambda server: ask(port, b"PING\r\n").startswith(b"+PONG")


def make_redis(name, folder, port):
    """It forgets nothing: every write is in its file before the answer."""
    home = os.path.join(folder, name)
    os.mkdir(home)
    words = {"port": port, "bind": "127.0.0.1", "dir": home, "save": "",
             "appendonly": "yes", "appendfsync": "always", "daemonize": "no"}
    argv = ["redis-server"]
    for word, value in words.items():
        argv += ["--" + word, str(value)]
    return Server(name, argv, folder, pongs(port))


def redis_keys(port):
    """All keys of a server, as it prints them."""
    said = ask(port, b"KEYS *\r\nQUIT\r\n").decode("latin-1")
    return re.findall(r"\$\d+\r\n(.*?)\r\n", said)


class Redis(Store):
    name = "redis"
    # Whoever does not listen at that moment is passed over (G3).
    promises = diary.FIFO_CALM | diary.TOKENS
    why_not = {10: ALONE, 12: ALONE, 21: "its disk is that of the machine"}
    needs = ("redis-server",)

    def make(self):
        self.port = free_port()
        self.servers = [make_redis("redis", self.folder, self.port)]
        self.url = "redis://127.0.0.1:%d?ns=camp" % self.link([self.port])[0]
        self.direct = "redis://127.0.0.1:%d?ns=camp" % self.port

    def limit(self, on):
        ask(self.port, b"CONFIG SET maxclients %d\r\nQUIT\r\n"
            % (1 if on else 10000))

    def residue(self):
        left = [key for key in redis_keys(self.port)
                if not re.search(r":[ncg]$|:meta$", key)]
        return "keys %s" % left if len(left) > 2 else ""


class Redlock(Store):
    name = "redlock"
    promises = diary.TOKENS
    why_not = {10: "its servers know no leader", 12: "its servers do not speak "
               "to each other", 21: "its disk is that of the machine",
               22: "see redis"}
    needs = ("redis-server",)

    def make(self):
        ports = [free_port() for _ in range(5)]
        self.servers = [make_redis("redis-%d" % i, self.folder, port)
                        for i, port in enumerate(ports)]
        self.url = "redlock://%s?prefix=camp-" % ",".join(
            "127.0.0.1:%d" % port for port in self.link(ports))
        self.direct = "redlock://%s?prefix=camp-" % ",".join(
            "127.0.0.1:%d" % port for port in ports)

    def victims(self, rng):
        return rng.sample(self.servers, rng.choice((1, 2)))


# ---- Databases --------------------------------------------------------------

def sql_server(kind, folder, port, words, more=()):
    return Server(kind, [os.path.join(HARNESS, "sql-server"), kind,
                         os.path.join(folder, kind), str(port), *more], folder,
                  lambda server: server.said(words))


def too_many(said, most):
    return said + " sessions" if said and int(said) > most else ""


class Postgres(Store):
    name = "postgres"
    why_not = {10: ALONE, 12: ALONE, 21: "its disk is that of the machine"}
    scheme = "postgres://postgres@127.0.0.1:%d/holdfast?prefix=camp_"
    most = 40

    def make(self):
        self.port = free_port()
        self.servers = [sql_server("postgres", self.folder, self.port,
                                   b"ready to accept connections",
                                   ("-c", "max_connections=%d" % self.most))]
        self.url = self.scheme % self.link([self.port])[0]
        self.direct = self.scheme % self.port

    def run(self, text, database="postgres"):
        return subprocess.run(
            ["psql", "-XAtq", "-h", "127.0.0.1", "-p", str(self.port), "-U",
             "postgres", "-d", database, "-c", text], capture_output=True,
            text=True, timeout=30).stdout.strip()

    def limit(self, on):
        """Its number of connections is fixed: we take all of them."""
        if not on:
            for one in self.taken:
                one.close()
        words = b"user\0postgres\0database\0holdfast\0\0"
        self.taken = []
        for _ in range(self.most if on else 0):
            try:
                one = socket.create_connection(("127.0.0.1", self.port), 2)
                one.sendall(struct.pack("!II", 8 + len(words), 196608) + words)
                self.taken.append(one)
            except OSError:
                break

    def residue(self):
        """The rows of the killed are for the next to tidy up, in a minute."""
        return too_many(self.run("SELECT count(*) FROM camp_session",
                                 "holdfast"), self.sitting.kills)

    def stop(self):
        # Its shared memory outlives a kill.
        for server in self.servers:
            if server.runs():
                server.end()
        super().stop()


class Mariadb(Store):
    name = "mariadb"
    why_not = Postgres.why_not
    scheme = "mysql://root@127.0.0.1:%d/holdfast?prefix=camp_"

    def make(self):
        self.port = free_port()
        self.servers = [sql_server("mariadb", self.folder, self.port,
                                   b"ready for connections")]
        self.url = self.scheme % self.link([self.port])[0]
        self.direct = self.scheme % self.port

    def run(self, text):
        return subprocess.run(
            ["mariadb", "--no-defaults", "-N", "-h", "127.0.0.1", "-P",
             str(self.port), "-u", "root", "holdfast", "-e", text],
            capture_output=True, text=True, timeout=30).stdout.strip()

    def limit(self, on):
        self.run("SET GLOBAL max_connections = %d" % (10 if on else 300))

    def residue(self):
        return too_many(self.run("SELECT count(*) FROM camp_session"),
                        self.sitting.kills)


class Odbc(Postgres):
    """PostgreSQL's tables through its ODBC driver; who waits polls."""

    name = "odbc"
    scheme = ("odbc:Driver=PostgreSQL%%20Unicode;Server=127.0.0.1;Port=%d;"
              "Database=holdfast;Uid=postgres?prefix=camp_")

    def make(self):
        super().make()
        home = os.path.join(self.folder, "odbc")
        os.mkdir(home)
        with open(os.path.join(home, "odbcinst.ini"), "w") as f:
            f.write("[PostgreSQL Unicode]\nDriver=psqlodbcw.so\n")
        self.env = {"ODBCSYSINI": home}


# ---- Consensus --------------------------------------------------------------

class Zookeeper(Store):
    name = "zookeeper"
    lease_ms = 4000
    why_not = {21: "its disk is that of the machine", 22: "see redis"}
    needs = ("java",)

    def make(self):
        count = 3
        self.ports = [free_port() for _ in range(count)]
        peers = [free_port() for _ in range(count)]
        votes = [free_port() for _ in range(count)]
        pairs = [(i, j) for i in range(count) for j in range(count) if i != j]
        fronts = self.link(self.ports + [peers[j] for _, j in pairs])
        self.between = {pair: count + n for n, pair in enumerate(pairs)}
        for i in range(count):
            lines = ["server.%d=127.0.0.1:%d:%d" % (
                j + 1, peers[j] if i == j else fronts[self.between[i, j]],
                votes[j]) for j in range(count)]
            self.servers.append(Server(
                "zookeeper-%d" % i,
                [os.path.join(HARNESS, "zookeeper-server"),
                 os.path.join(self.folder, "zk%d" % i), str(self.ports[i])]
                + lines, self.folder,
                lambda _, port=self.ports[i]: b"\nMode: " in ask(port, b"srvr"),
                {"HF_ZK_ID": str(i + 1)}))
        self.url = "zookeeper://%s/camp?tick_ms=100" % ",".join(
            "127.0.0.1:%d" % port for port in fronts[:count])
        self.direct = "zookeeper://%s/camp?tick_ms=100" % ",".join(
            "127.0.0.1:%d" % port for port in self.ports)

    def leader(self):
        for server, port in zip(self.servers, self.ports):
            if (server.runs() and not server.paused
                    and b"Mode: leader" in ask(port, b"srvr")):
                return server
        return None

    def victims(self, rng):
        return [rng.choice(self.servers)]

    def isolate(self, server, on):
        """A leader that is cut off would be elected again and again, since
        the votes pass: only a follower."""
        i = self.servers.index(server)
        for pair, link in self.between.items():
            if i in pair:
                self.relay.say("hold", link, "both", "on" if on else "off")

    def may_isolate(self, server):
        return server is not self.leader()

    def residue(self):
        for port in self.ports:
            found = re.search(rb"zk_ephemerals_count\t(\d+)",
                              ask(port, b"mntr"))
            if found and found.group(1) != b"0":
                return found.group(1).decode() + " ephemeral nodes"
        return ""


class Etcd(Store):
    name = "etcd"
    lease_ms = 4000
    why_not = {21: "its disk is that of the machine", 22: "see redis"}
    needs = ("etcd", "etcdctl")

    def make(self):
        count = 3
        self.ports = [free_port() for _ in range(count)]
        self.asks = [free_port() for _ in range(count)]
        peers = [free_port() for _ in range(count)]
        fronts = self.link(self.ports + peers, "X-Server-From: ")
        members = ",".join("m%d=http://127.0.0.1:%d" % (i + 1, fronts[count + i])
                           for i in range(count))
        for i in range(count):
            self.servers.append(Server(
                "etcd-%d" % i,
                [os.path.join(HARNESS, "etcd-server"),
                 os.path.join(self.folder, "etcd%d" % i), str(self.ports[i]),
                 str(self.asks[i]), str(peers[i])], self.folder,
                lambda _, i=i: b'"health":"true"' in self.get(i, "/health"),
                {"HF_ETCD_NAME": "m%d" % (i + 1), "HF_ETCD_MEMBERS": members}))
        self.url = "etcd://%s/camp/" % ",".join(
            "127.0.0.1:%d" % port for port in fronts[:count])
        self.direct = "etcd://%s/camp/" % ",".join(
            "127.0.0.1:%d" % port for port in self.ports)

    def get(self, i, path):
        return ask(self.asks[i], b"GET %s HTTP/1.0\r\n\r\n" % path.encode())

    def start(self):
        super().start()
        self.ids = [re.search(rb'etcd_server_id\{server_id="(\w+)"',
                              self.get(i, "/metrics")).group(1).decode()
                    for i in range(len(self.servers))]

    def leader(self):
        for i, server in enumerate(self.servers):
            if (server.runs() and not server.paused and
                    b"\netcd_server_is_leader 1" in self.get(i, "/metrics")):
                return server
        return None

    def victims(self, rng):
        return [rng.choice(self.servers)]

    def isolate(self, server, on):
        i = self.servers.index(server)
        word = "on" if on else "off"
        self.relay.say("hold", len(self.servers) + i, "both", word)
        self.relay.say("name", self.ids[i], word)

    def may_isolate(self, server):
        return True

    def residue(self):
        said = subprocess.run(
            ["etcdctl", "--endpoints=127.0.0.1:%d" % self.ports[0], "get", "",
             "--prefix", "--keys-only"], capture_output=True, text=True,
            timeout=30, env=dict(os.environ, ETCDCTL_API="3")).stdout.split()
        return "keys %s" % said if said else ""


STORES = {store.name: store for store in (
    Sqlite, Redis, Redlock, Postgres, Mariadb, Odbc, Zookeeper, Etcd)}
