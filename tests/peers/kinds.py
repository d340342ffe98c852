"""What peer.py knows of libraries in Python, and of locks by hand.

A client is made of AT and the lease; lock() is false if it may not wait and
another has it, unlock() raises if it is refused, renew() is None where there is
nothing to call.  Locks by hand are the statements that a guide or a library's
documentation gives, and no more: `votes` (SET NX PX, on one server or on
several; AT HOST:PORT,...), `recipe` (ZooKeeper's guide), `rowlock` (SELECT ...
FOR UPDATE) and `dlock` (both: AT is a URL), and `etcdctl`, which is a command.
"""

import os
import random
import select
import signal
import subprocess
import threading
import time
import urllib.parse
import uuid


# ---- Redis ------------------------------------------------------------------

class RedisPy:
    def __init__(self, at, lease_ms):
        import redis
        host, port = at.split(":")
        self.client = redis.Redis(host, int(port))
        self.lease, self.held = lease_ms / 1000, {}

    def of(self, key):
        if key not in self.held:
            self.held[key] = self.client.lock(key, timeout=self.lease)
        return self.held[key]

    def lock(self, key, wait):
        return self.of(key).acquire(blocking=wait)

    def unlock(self, key):
        self.of(key).release()

    def renew(self, key):
        return self.of(key).reacquire()


class Votes:
    """The published algorithm: a majority, and all given back if it fails."""

    GIVE = "if redis.call('get', KEYS[1]) == ARGV[1] then " \
           "return redis.call('del', KEYS[1]) else return 0 end"
    KEEP = "if redis.call('get', KEYS[1]) == ARGV[1] then " \
           "return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end"

    def __init__(self, at, lease_ms):
        import redis
        self.error = redis.RedisError
        self.clients = [redis.Redis(one.split(":")[0], int(one.split(":")[1]),
                                    socket_timeout=0.5)
                        for one in at.split(",")]
        self.lease_ms, self.held = lease_ms, {}
        self.several = len(self.clients) > 1

    def ask(self, what):
        """Did most say yes?  One that is down says nothing."""
        yes = 0
        for client in self.clients:
            try:
                yes += bool(what(client))
            except self.error:
                pass
        return yes > len(self.clients) // 2

    def lock(self, key, wait):
        while True:
            token, begun = os.urandom(16).hex(), time.monotonic()
            won = self.ask(lambda c: c.set(key, token, nx=True,
                                           px=self.lease_ms))
            spent = time.monotonic() - begun
            if won and spent < self.lease_ms / 1000 * 0.99 - 0.002:
                self.held[key] = token
                return True
            self.ask(lambda c: c.eval(self.GIVE, 1, key, token))
            if not wait:
                return False
            time.sleep(0.02 + random.random() * 0.03 * len(self.clients))

    def unlock(self, key):
        token = self.held.pop(key, "")
        if not self.ask(lambda c: c.eval(self.GIVE, 1, key, token)):
            raise RuntimeError("not held here")

    def renew(self, key):
        if not self.ask(lambda c: c.eval(self.KEEP, 1, key, self.held[key],
                                         self.lease_ms)):
            raise RuntimeError("not held here")
        return True


# ---- ZooKeeper --------------------------------------------------------------

class Kazoo:
    def __init__(self, at, lease_ms, recipe="Lock"):
        from kazoo.client import KazooClient
        hosts, _, root = at.partition("/")
        self.client = KazooClient(hosts, timeout=lease_ms / 1000)
        self.client.start(timeout=60)
        self.root, self.held = "/" + root, {}
        self.recipe = getattr(self.client, recipe, None)

    def of(self, key):
        if key not in self.held:
            self.held[key] = self.recipe(self.root + "/" + key, "kazoo")
        return self.held[key]

    def lock(self, key, wait):
        return self.of(key).acquire(blocking=wait)

    def unlock(self, key):
        if not self.of(key).release():
            raise RuntimeError("not held here")

    def renew(self, key):
        return None  # its session does

    def close(self):
        self.client.stop()
        self.client.close()


class Recipe(Kazoo):
    """The lock of ZooKeeper's guide, by plain requests."""

    def create(self, folder):
        from kazoo.exceptions import NoNodeError
        while True:
            self.client.ensure_path(folder)
            try:
                return self.client.create(
                    "%s/%s-lock-" % (folder, uuid.uuid4()), ephemeral=True,
                    sequence=True)
            except NoNodeError:
                continue  # it was empty, and the server took it away

    def lock(self, key, wait):
        folder = self.root + "/" + key
        mine = self.create(folder)
        while True:
            line = sorted(self.client.get_children(folder),
                          key=lambda name: name[-10:])
            place = line.index(mine.rpartition("/")[2])
            if place == 0:
                self.held[key] = mine
                return True
            if not wait:
                self.client.delete(mine)
                return False
            gone = threading.Event()
            if self.client.exists(folder + "/" + line[place - 1],
                                  watch=lambda event: gone.set()):
                gone.wait()

    def unlock(self, key):
        # Who holds nothing names a node that is not there: the server refuses.
        self.client.delete(self.held.pop(key, "%s/%s/%s-lock-%010d" % (
            self.root, key, uuid.uuid4(), 0)))


# ---- etcd -------------------------------------------------------------------

class Etcdctl:
    """`etcdctl lock NAME` holds until it is interrupted."""

    TRY = 2  # seconds; it has no other way

    def __init__(self, at, lease_ms):
        self.argv = ["setpriv", "--pdeathsig", "KILL", "etcdctl",
                     "--endpoints=" + at, "lock",
                     "--ttl=%d" % max(1, lease_ms // 1000)]
        self.held = {}

    def lock(self, key, wait):
        child = subprocess.Popen(
            self.argv + [key], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=dict(os.environ, ETCDCTL_API="3"))
        if not select.select([child.stdout], [], [],
                             None if wait else self.TRY)[0]:
            self.interrupt(child)
            return False
        if not child.stdout.readline():
            raise RuntimeError("etcdctl: %s" % child.communicate()[1])
        self.held[key] = child
        return True

    def interrupt(self, child):
        child.send_signal(signal.SIGINT)
        child.communicate()
        return child.returncode

    def unlock(self, key):
        status = self.interrupt(self.held.pop(key))
        if status != 0:
            raise RuntimeError("etcdctl ended with %d" % status)

    def renew(self, key):
        return None  # it does


class Etcd3:
    def __init__(self, at, lease_ms):
        import etcd3
        host, port = at.split(",")[0].split(":")
        self.client = etcd3.client(host, int(port))
        self.ttl, self.held = lease_ms // 1000, {}

    def lock(self, key, wait):
        lock = self.client.lock(key, ttl=self.ttl)
        if not lock.acquire(timeout=None if wait else 0):
            return False
        self.held[key] = lock
        return True

    def unlock(self, key):
        if not self.held.pop(key).release():
            raise RuntimeError("not held here")

    def renew(self, key):
        return bool(self.held[key].refresh())


# ---- Databases --------------------------------------------------------------

def connect(at):
    """PostgreSQL or MariaDB, and what each says of a row that is locked."""
    url = urllib.parse.urlsplit(at)
    words = {"host": url.hostname, "port": url.port, "user": url.username}
    if url.scheme.startswith("postgres"):
        import psycopg2
        from psycopg2 import errors
        return (psycopg2.connect(dbname=url.path[1:], **words),
                lambda why: isinstance(why, errors.LockNotAvailable))
    import pymysql
    return (pymysql.connect(database=url.path[1:], **words),
            lambda why: why.args and why.args[0] == 1205)


class RowLock:
    """SELECT ... FOR UPDATE on a row of a table; a lane holds one at a time."""

    def __init__(self, at, _lease_ms):
        self.at = at
        self.open()

    def open(self):
        self.conn, self.is_busy = connect(self.at)

    def ask(self, text, key):
        with self.conn.cursor() as cursor:
            cursor.execute(text, (key,))
            return cursor.fetchone() if cursor.description else None

    def lock(self, key, wait):
        if not self.ask("SELECT id FROM distribute_lock "
                        "WHERE business_code = %s", key):
            try:
                self.ask("INSERT INTO distribute_lock (business_code, "
                         "business_name) VALUES (%s, 'peer')", key)
            except Exception:  # another was quicker: there it is
                self.conn.rollback()
        self.conn.commit()
        while True:
            try:
                self.ask("SELECT id FROM distribute_lock WHERE business_code "
                         "= %s FOR UPDATE" + ("" if wait else " NOWAIT"), key)
                return True
            except Exception as why:
                if not self.is_busy(why):
                    raise
                self.conn.rollback()
                if not wait:
                    return False

    def unlock(self, _key):
        """The end of the transaction, whatever it has."""
        try:
            self.conn.commit()
        except Exception:
            self.open()
            raise

    def renew(self, key):
        return None  # its connection does

    def close(self):
        self.conn.close()


class Dlock:
    """dlock's statements: an insert that yields, then one look at its row."""

    TAKE = 'INSERT INTO "DLCK" ("LCK_KEY", "LCK_HNDL_ID", "CREATED_TIME", ' \
           '"EXPIRE_SEC") VALUES (%s, %s, CURRENT_TIMESTAMP, %s) ' \
           'ON CONFLICT DO NOTHING'
    OVER = 'SELECT "LCK_HNDL_ID" FROM "DLCK" WHERE "LCK_KEY" = %s AND ' \
           '"CREATED_TIME" + "EXPIRE_SEC" * interval \'1 second\' ' \
           '< CURRENT_TIMESTAMP::timestamp'
    GIVE = 'DELETE FROM "DLCK" WHERE "LCK_HNDL_ID" = %s'

    def __init__(self, at, lease_ms):
        self.conn, _ = connect(at)
        self.conn.autocommit = True
        self.seconds, self.held = lease_ms // 1000, {}
        self.ask("SET TIME ZONE 'UTC'")

    def ask(self, text, *words):
        """How many rows, and the first of them if it is a question."""
        with self.conn.cursor() as cursor:
            cursor.execute(text, words)
            return cursor.rowcount, (cursor.fetchone() if cursor.description
                                     else None)

    def take(self, key):
        handle = str(uuid.uuid4())
        if self.ask(self.TAKE, key, handle, self.seconds)[0]:
            self.held[key] = handle
            return True
        return False

    def lock(self, key, wait):
        while True:
            if self.take(key):
                return True
            _, over = self.ask(self.OVER, key)
            if over:
                self.ask(self.GIVE, over[0])
                if self.take(key):
                    return True
            if not wait:
                return False
            time.sleep(0.02)  # it never waits; an application would

    def unlock(self, key):
        # Who holds nothing has a handle that no row has; no row: no error.
        self.ask(self.GIVE, self.held.pop(key, str(uuid.uuid4())))

    def renew(self, key):
        return None  # it cannot

    def close(self):
        self.conn.close()


KINDS = {"redis-py": RedisPy, "votes": Votes, "kazoo": Kazoo,
         "kazoo-write": lambda at, ms: Kazoo(at, ms, "WriteLock"),
         "kazoo-read": lambda at, ms: Kazoo(at, ms, "ReadLock"),
         "recipe": Recipe, "etcdctl": Etcdctl, "etcd3": Etcd3,
         "rowlock": RowLock, "dlock": Dlock}
