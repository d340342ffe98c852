"""The stores that peers share, seen past all libraries.

Each says where it is in the words of every side, takes a lock's record away
behind its holder's back, and lists what is left when all is given back.
"""

import os
import socket
import subprocess
import urllib.parse

from fetch import Failed

KAZOO = """
import sys
from kazoo.client import KazooClient
client = KazooClient(sys.argv[1], timeout=10)
client.start(timeout=30)
def walk(path):
    for child in client.get_children(path):
        one = path.rstrip("/") + "/" + child
        if one != "/zookeeper":
            print(one, client.get(one)[1].ephemeralOwner)
            walk(one)
if sys.argv[2] == "list":
    walk("/")
else:
    there = client.exists(sys.argv[3])
    for child in client.get_children(sys.argv[3]) if there else []:
        client.delete(sys.argv[3] + "/" + child, recursive=True)
client.stop()
client.close()
"""


def run(argv, **more):
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, **more)
    if done.returncode != 0:
        raise Failed("%s: %s" % (argv[0], done.stderr.strip()))
    return done.stdout


class Redis:
    def __init__(self):
        url = urllib.parse.urlsplit(os.environ["HOLDFAST_TEST_REDIS"])
        self.at = "%s:%d" % (url.hostname, url.port)
        self.address = (url.hostname, url.port)

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

    def at(self):
        return self.jdbc % self.database

    def our_url(self):
        return self.url.replace("/holdfast", "/" + self.database)


class ZooKeeper:
    def __init__(self):
        self.at = os.environ["HOLDFAST_TEST_ZOOKEEPER"].split("//")[1]

    def kazoo(self, *words):
        # Debian's python3, for which it packages kazoo.
        return run(["/usr/bin/python3", "-c", KAZOO, self.at] + list(words))

    def remove(self, path):
        self.kazoo("clear", path)

    def left(self):
        """Nodes of sessions; parents are containers, which the server
        removes in its own time."""
        return [line.split()[0] for line in self.kazoo("list").splitlines()
                if line.split()[1] != "0"]


class Etcd:
    def __init__(self):
        self.at = os.environ["HOLDFAST_TEST_ETCD"].split("//")[1]

    def ask(self, *words):
        return run(["etcdctl", "--endpoints=" + self.at] + list(words),
                   env=dict(os.environ, ETCDCTL_API="3"))

    def remove(self, key):
        self.ask("del", "--prefix", key + "/")

    def left(self):
        return self.ask("get", "", "--prefix", "--keys-only").split()
