"""The stores that peers share, seen past all libraries.

Each says where it is in the words of every side, takes a lock's record away
behind its holder's back, and lists what is left when all is given back.
"""

import importlib.machinery
import importlib.util
import os
import socket
import subprocess
import tempfile
import threading
import time
import urllib.parse

from fetch import HERE, Failed

# Looks past all libraries, by Debian's kazoo, which asks what it is told to.
KAZOO = """
import os, sys
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
client = KazooClient(sys.argv[1], timeout=30)
client.start(timeout=60)
def children(path):
    try:
        return client.retry(client.get_children, path)
    except NoNodeError:
        return []  # a container that was empty
def clear(path):
    for child in children(path):
        clear(path + "/" + child)
        try:
            if client.exists(path + "/" + child).ephemeralOwner:
                client.delete(path + "/" + child)
        except (AttributeError, NoNodeError):
            pass
def ephemeral(path):
    for child in children(path):
        one = path.rstrip("/") + "/" + child
        there = client.exists(one)
        if there and there.ephemeralOwner:
            yield one
        if one != "/zookeeper":
            yield from ephemeral(one)
for line in sys.stdin:
    verb, path = line.split()
    if verb == "clear":
        clear(path)
    print(*children(path) if verb == "children" else
          ephemeral(path) if verb == "list" else [], flush=True)
os._exit(0)
"""


def run(argv, **more):
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, **more)
    if done.returncode != 0:
        raise Failed("%s: %s" % (argv[0], done.stderr.strip()))
    return done.stdout


class Redis:
    def __init__(self, at=None):
        self.at = at or os.environ["HOLDFAST_TEST_REDIS"].split("//")[1]
        host, port = self.at.split(":")
        self.address = (host, int(port))

    def ask(self, *words):
        """The answer as a list of lines, lengths left out."""
        text = b"".join(b"$%d\r\n%s\r\n" % (len(w.encode()), w.encode())
                        for w in words)
        with socket.create_connection(self.address, 10) as server:
            server.sendall(b"*%d\r\n%sQUIT\r\n"
                           % (len(words), text))
            said = server.makefile("rb").read().decode().split("\r\n")
        if said[0].startswith("-"):
            raise Failed("%s: %s" % (" ".join(words), said[0]))
        return [line for line in said[:-2] if line[:1] not in ("*", "$")]

    def empty(self):
        self.ask("FLUSHALL")

    def remove(self, *keys):
        self.ask("DEL", *keys)

    def left(self):
        """Every key, with its type."""
        return sorted("%s %s" % (self.ask("TYPE", key)[0][1:], key)
                      for key in self.ask("KEYS", "*"))


def with_redlock():
    loader = importlib.machinery.SourceFileLoader(
        "with_redlock", os.path.join(HERE, "..", "harness", "with-redlock"))
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


class Redlock:
    """Five servers, each by itself.  They are started here, since two of them
    are killed in every storm."""

    def __init__(self):
        self.harness, self.servers = with_redlock(), []
        self.folder = tempfile.TemporaryDirectory()
        ports = [self.harness.free_port() for _ in range(5)]
        self.all = [Redis("127.0.0.1:%d" % port) for port in ports]
        self.at = ",".join(one.at for one in self.all)

    def start(self):
        """All of them, those that live anew, too."""
        self.stop()
        for number, one in enumerate(self.all):
            folder = os.path.join(self.folder.name, str(number))
            os.makedirs(folder, exist_ok=True)
            server = self.harness.start_once(folder, one.address[1])
            if not server:
                raise Failed("redis-server does not come up")
            self.servers.append(server)

    def stop(self):
        for server in self.servers:
            self.harness.stop(server)
        self.servers = []

    def kill_two(self, share):
        """When a third, and two thirds, of the way is done."""
        end = time.monotonic() + 200
        for number in (0, 1):
            while share() < (number + 1) / 3 and time.monotonic() < end:
                time.sleep(0.02)
            self.servers[number].kill()
            self.servers[number].wait()

    def alive(self):
        return [one for one, server in zip(self.all, self.servers)
                if server.poll() is None]

    def remove(self, key):
        for one in self.alive():
            one.remove(key)

    def left(self):
        return [line for one in self.alive() for line in one.left()]


class Sql:
    """PostgreSQL or MariaDB, each by its own client."""

    def __init__(self, kind):
        self.kind = kind
        self.label = {"postgres": "PostgreSQL", "mariadb": "MariaDB"}[kind]
        self.url = os.environ["HOLDFAST_TEST_" + {
            "postgres": "POSTGRES", "mariadb": "MYSQL"}[kind]]
        parts = urllib.parse.urlsplit(self.url)
        self.port = str(parts.port)
        name = {"postgres": "postgresql"}.get(kind, kind)
        # A database per format of the same table name, made when asked for.
        self.jdbc = ("jdbc:%s://127.0.0.1:%s/%%s?user=%s"
                     % (name, self.port, parts.username))
        self.database = "holdfast"

    def use(self, database):
        self.ask("CREATE DATABASE " + database)
        self.database = database

    def ask(self, text):
        if self.kind == "postgres":
            return run(["psql", "-X", "-q", "-A", "-t", "-h", "127.0.0.1",
                        "-p", self.port, "-U", "postgres", "-d",
                        self.database, "-c", text]).strip()
        return run(["mariadb", "--no-defaults", "-h", "127.0.0.1", "-P",
                    self.port, "-u", "root", "-N", "-B", self.database, "-e",
                    text]).strip()

    def end_transactions(self):
        """Of everybody, with their connections."""
        if self.kind == "postgres":
            self.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                     "WHERE state LIKE 'idle in transaction%' "
                     "AND datname = current_database()")
            return
        for number in self.transactions():
            self.ask("KILL " + number)

    def transactions(self):
        return self.ask(
            "SELECT pid FROM pg_stat_activity WHERE state LIKE "
            "'idle in transaction%' AND datname = current_database()"
            if self.kind == "postgres" else
            "SELECT trx_mysql_thread_id FROM information_schema.innodb_trx"
        ).split()

    def at(self):
        return self.jdbc % self.database

    def our_url(self):
        return self.url.replace("/holdfast", "/" + self.database)


class ZooKeeper:
    def __init__(self):
        url = (os.environ.get("HOLDFAST_TEST_ZOOKEEPER3")
               or os.environ["HOLDFAST_TEST_ZOOKEEPER"])
        self.at = url.split("//")[1]
        self.helper, self.guard = None, threading.Lock()

    def ask(self, verb, path):
        with self.guard:
            if not self.helper:
                self.helper = subprocess.Popen(
                    ["/usr/bin/python3", "-c", KAZOO, self.at], text=True,
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.helper.stdin.write("%s %s\n" % (verb, path))
            self.helper.stdin.flush()
            said = self.helper.stdout.readline()
        if not said:
            raise Failed("no answer from ZooKeeper")
        return said.split()

    def remove(self, path):
        self.ask("clear", path)

    def queue(self, path):
        return len(self.ask("children", path))

    def left(self):
        """Nodes of sessions; parents are containers, which the server
        removes in its own time."""
        return self.ask("list", "/")


class Etcd:
    def __init__(self):
        url = (os.environ.get("HOLDFAST_TEST_ETCD3")
               or os.environ["HOLDFAST_TEST_ETCD"])
        self.at = url.split("//")[1]

    def ask(self, *words):
        return run(["etcdctl", "--endpoints=" + self.at] + list(words),
                   env=dict(os.environ, ETCDCTL_API="3"))

    def remove(self, key):
        self.ask("del", "--prefix", key + "/")

    def queue(self, key):
        return len(self.ask("get", key + "/", "--prefix",
                            "--keys-only").split())

    def left(self):
        return self.ask("get", "", "--prefix", "--keys-only").split()
