"""The stores of a campaign but Redis: how each is started, reached, and left.
"""

import os
import re
import socket
import sqlite3
import struct
import subprocess

import diary
import stores_redis
from servers import HARNESS, Server, ask, free_port
from store import ALONE, NO_NETWORK, NO_SERVER, UNKNOWN, Store

NO_LIMIT = "its server has no such limit to set while it runs"
NOT_EMPTY = "without its files it is another database"


# ---- One file ---------------------------------------------------------------

class Sqlite(Store):
    name = "sqlite"
    why_not = dict([(n, NO_SERVER) for n in (6, 7, 8, 9, 10, 12, 20, 23, 32,
                                             33)]
                   + [(n, NO_NETWORK) for n in (11, 13, 14, 15, 16, 17, 22, 24,
                                                26, 29)])

    def make(self):
        self.path = os.path.join(self.give_disk("disk", 16), "locks.db")
        self.url = self.direct = "sqlite:" + self.path

    def residue(self):
        """But for the counter, which is a row of its own."""
        db = sqlite3.connect(self.path)
        try:
            left = [db.execute("SELECT count(*) FROM " + what).fetchone()[0]
                    for what in ("hf_session", "hf_entry WHERE key <> x''",
                                 "hf_permit", "hf_news")]
        except sqlite3.Error as problem:
            return "%s: %s" % (UNKNOWN, problem)
        finally:
            db.close()
        return "%s sessions, entries, permits, news" % left if any(left) else ""

    def tidy(self):
        """By a program that knows nothing of us; False: it found it busy."""
        db = sqlite3.connect(self.path, timeout=0.5, isolation_level=None)
        try:
            for words in ("PRAGMA wal_checkpoint(TRUNCATE)", "VACUUM"):
                db.execute(words).fetchall()
        except sqlite3.Error:
            return False
        finally:
            db.close()
        return True


# ---- Databases --------------------------------------------------------------

def sql_server(store, kind, port, words, more=()):
    return Server(kind, [os.path.join(HARNESS, "sql-server"), kind,
                         store.give_disk(kind, 256), str(port), *more],
                  store.folder, lambda server: server.said(words))


def live_sessions(said):
    """The rows of the dead are for the next to tidy up, in a minute."""
    return ("" if said == "0" else "%s sessions that live" % said
            if said.isdigit() else UNKNOWN)


def client_of(words, **more):
    """What a database's own client program prints; "": it has no answer."""
    try:
        return subprocess.run(words, capture_output=True, text=True,
                              timeout=30, **more).stdout.strip()
    except subprocess.TimeoutExpired:
        return ""


class Postgres(Store):
    name = "postgres"
    why_not = {9: NOT_EMPTY, 10: ALONE, 12: ALONE, 32: NO_LIMIT, 33: ALONE}
    excuses = (20,)
    scheme = "postgres://postgres@127.0.0.1:%d/holdfast?prefix=camp_"
    most = 40

    def make(self):
        self.port = free_port()
        self.servers = [sql_server(self, "postgres", self.port,
                                   b"ready to accept connections",
                                   ("-c", "max_connections=%d" % self.most))]
        self.url = self.scheme % self.link([self.port])[0]
        self.direct = self.scheme % self.port

    def start(self):
        super().start()
        self.run("CREATE ROLE camp_ops SUPERUSER LOGIN", user="postgres")

    def run(self, text, database="postgres", user="camp_ops"):
        """By the local way in, which is open to everybody."""
        return client_of(
            ["psql", "-XAtq", "-h", os.path.join(self.folder, "postgres"),
             "-p", str(self.port), "-U", user, "-d", database, "-c", text],
            env=dict(os.environ, PGOPTIONS="-c lock_timeout=500"))

    def serves(self, server):
        return self.run("SELECT 7") == "7"

    def fills_up(self, server):
        """It has room in its log; who wants the next piece has none."""
        self.run("SELECT pg_switch_wal()")

    def revoke(self, on):
        self.run("ALTER ROLE postgres %s" % ("NOLOGIN" if on else "LOGIN"))
        if on:
            self.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                     "WHERE usename = 'postgres'")

    def tidy(self):
        self.run("VACUUM FULL", "holdfast")

    def limit(self, servers, on):
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
        return live_sessions(self.run(
            "SELECT count(*) FROM camp_session WHERE exp_us > "
            "extract(epoch FROM clock_timestamp()) * 1000000", "holdfast"))

    def stop(self):
        # Its shared memory outlives a kill.
        for server in self.servers:
            if server.runs():
                server.end()
        super().stop()


class Mariadb(Store):
    name = "mariadb"
    why_not = Postgres.why_not
    excuses = (20,)
    scheme = "mysql://camp@127.0.0.1:%d/holdfast?prefix=camp_"

    def make(self):
        self.port = free_port()
        self.servers = [sql_server(self, "mariadb", self.port,
                                   b"ready for connections")]
        self.url = self.scheme % self.link([self.port])[0]
        self.direct = self.scheme % self.port

    def start(self):
        super().start()
        self.run("CREATE USER camp@'%'; GRANT ALL ON *.* TO camp@'%'")

    def run(self, text):
        return client_of(
            ["mariadb", "--no-defaults", "-N", "-S",
             os.path.join(self.folder, "mariadb", "socket"), "-u", "root",
             "holdfast", "-e", text])

    def serves(self, server):
        return self.run("SELECT 7") == "7"

    def limit(self, servers, on):
        self.run("SET GLOBAL max_connections = %d" % (10 if on else 300))

    def revoke(self, on):
        self.run("ALTER USER camp@'%%' ACCOUNT %s"
                 % ("LOCK; KILL USER camp" if on else "UNLOCK"))

    def tidy(self):
        for table in self.run("SHOW TABLES LIKE 'camp\\_%'").split():
            self.run("SET lock_wait_timeout = 1; OPTIMIZE TABLE " + table)

    def residue(self):
        return live_sessions(self.run(
            "SELECT count(*) FROM camp_session WHERE exp_us > "
            "unix_timestamp(now(6)) * 1000000"))


class Odbc(Postgres):
    """PostgreSQL's tables through its ODBC driver; who waits polls."""

    name = "odbc"
    promises = diary.FIFO | diary.TOKENS
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

def knock(port):
    """Begin a session and end it: both are writes, so a majority serves."""
    begin = struct.pack("!iiqiqi16x?", 45, 0, 0, 4000, 0, 16, False)
    end = struct.pack("!iii", 8, 1, -11)
    return len(ask(port, begin + end)) >= 41


class Zookeeper(Store):
    name = "zookeeper"
    lease_ms = 4000
    why_not = {9: "a majority must keep what it synced",
               21: "a member may not be able to read its own log after that "
               "('Unreasonable length')", 23: "it has no accounts", 27: "it does so by "
               "itself", 32: NO_LIMIT, 33: "see F12"}
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
                 os.path.join(self.folder, "zookeeper-%d" % i),
                 str(self.ports[i])]
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

    def serves(self, server):
        return knock(self.ports[self.servers.index(server)])

    def stands(self):
        return self.leader() is not None and all(map(self.serves,
                                                     self.servers))

    def victims(self, rng):
        return [rng.choice(self.servers)]

    def swaps_with(self, link, rng):
        return rng.randrange(len(self.servers))

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
            said = ask(port, b"mntr")
            # Who lives is the leader's to know.
            for what in (b"ephemerals_count", b"global_sessions")[
                    :1 + (b"\tleader\n" in said)]:
                found = re.search(rb"zk_" + what + rb"\t(\d+)", said)
                if not found:
                    return UNKNOWN
                if found.group(1) != b"0":
                    return "%s: %s" % (what.decode(), found.group(1).decode())
        return ""


class Etcd(Store):
    name = "etcd"
    lease_ms = 4000
    why_not = {9: "a majority must keep what it synced", 20: "a shim does not "
               "reach its clock", 32: NO_LIMIT}
    needs = ("etcd", "etcdctl")
    shimmed = False

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
                 self.give_disk("etcd-%d" % i, 256), str(self.ports[i]),
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
        self.control("role", "add", "root")
        self.control("user", "add", "root:camp")
        self.control("user", "grant-role", "root", "root")

    def leader(self):
        for i, server in enumerate(self.servers):
            if (server.runs() and not server.paused and
                    b"\netcd_server_is_leader 1" in self.get(i, "/metrics")):
                return server
        return None

    def stands(self):
        return self.leader() is not None and all(
            server.ready(server) for server in self.servers)

    def victims(self, rng):
        return [rng.choice(self.servers)]

    def swaps_with(self, link, rng):
        return rng.randrange(len(self.servers))

    def isolate(self, server, on):
        i = self.servers.index(server)
        word = "on" if on else "off"
        self.relay.say("hold", len(self.servers) + i, "both", word)
        self.relay.say("name", self.ids[i], word)

    def may_isolate(self, server):
        return True

    def control(self, *words):
        """What it says; whoever does not answer soon is left alone."""
        try:
            return subprocess.run(
                ["etcdctl", "--command-timeout=2s", "--endpoints=" + ",".join(
                    "127.0.0.1:%d" % port for port in self.ports), *words],
                capture_output=True, text=True, timeout=30,
                env=dict(os.environ, ETCDCTL_API="3")).stdout
        except subprocess.TimeoutExpired:
            return ""

    def revoke(self, on):
        """Accounts are asked for, and ours have none; False: not yet."""
        if on:
            self.control("auth", "enable")
            return True
        return "Disabled" in self.control("--user", "root:camp", "auth",
                                          "disable")

    def tidy(self):
        found = re.search(r'"revision":(\d+)',
                          self.control("get", "none", "-w", "json"))
        if found:
            self.control("compact", found.group(1))
        self.control("defrag")

    def residue(self):
        keys = self.control("get", "", "--prefix", "--keys-only", "-w", "json")
        leases = re.search(r"found (\d+) leases", self.control("lease", "list"))
        if not keys or not leases:
            return UNKNOWN
        found = re.search(r'"count":(\d+)', keys)
        if found or leases.group(1) != "0":
            return "%s keys, %s leases" % (found.group(1) if found else 0,
                                           leases.group(1))
        return ""


STORES = {store.name: store for store in (
    Sqlite, stores_redis.Redis, stores_redis.Sentinel, stores_redis.Cluster,
    stores_redis.Redlock, Postgres, Mariadb, Odbc, Zookeeper, Etcd)}
UNSAFE = {"loose": stores_redis.Loose}  # not among all of them
