"""Which library is put beside which format of ours, and what is known of it.

A Pair has a name for the matrix, the program that its peer runs in, how a lane
of each side is opened for a lease, how the record of a key is taken away, and
what the library can do:

    again    the same owner may take it twice
    renews   "self", "call", or None
    woken    its waiters hear of a release; their own timer is the lease
    robbed   what its unlock says and does when the lock has become ours:
             "refused"; "silent": says nothing, does nothing; "frees": it
             frees ours, a known flaw of that version
    foreign  what its unlock says of a lock that another owner has
    ours     what ours takes: "lock" or "permit"
    left     what of the store's list may be there in the end
"""

import hashlib
import os
import re
import uuid
import zipfile

import fetch
import stores


class Pair:
    def __init__(self, name, program, kind, **more):
        self.name, self.program, self.kind = name, program, kind
        self.again, self.renews, self.woken = True, None, False
        self.robbed, self.foreign = "refused", "refused"
        self.left, self.least, self.tokens = "", 30, False
        self.prepare, self.ours = lambda: None, "lock"
        self.__dict__.update(more)


def expect_left(pair, lines):
    """What should not be there."""
    return [line for line in lines
            if not (pair.left and re.fullmatch(pair.left, line))]


# ---- Redis ------------------------------------------------------------------

def redis_pair(store, name, program, kind, url, at=None, full="%s", **more):
    return Pair(name, program, kind, at=lambda lease: at or store.at,
                url=lambda lease: "redis://%s?%s" % (store.at, url),
                remove=lambda key: store.remove(full % key, full % key + "-too"),
                listed=store.left, prepare=store.empty, **more)


def spring_redis():
    store = stores.Redis()

    def pair(name, program, variant, **more):
        return redis_pair(store, "Spring Redis " + name, program,
                          "SpringRedis:" + variant,
                          "format=spring&registry_key=jobs",
                          store.at + "/jobs", "jobs:%s",
                          woken=variant == "pubsub", **more)
    return [
        pair("5.5, PUB_SUB", "spring5", "pubsub"),
        pair("5.5, SPIN", "spring5", "spin"),
        pair("6.5, PUB_SUB", "spring6", "pubsub", renews="call"),
        pair("6.5, SPIN", "spring6", "spin", renews="call"),
        pair("7.0, PUB_SUB", "spring7", "pubsub", renews="call"),
        pair("7.0, SPIN", "spring7", "spin", renews="call"),
    ]


def redisson():
    store = stores.Redis()

    def pair(name, program, variant, options="", **more):
        return redis_pair(store, "Redisson " + name, program,
                          "RedissonPeer:" + variant,
                          "format=redisson" + options, woken=True,
                          renews="self", **more)
    token = "string redisson_lock_token:.*"
    # Before 4.3 Redisson forgets the latches of its unlocks until they expire.
    latch = "string redisson_unlock_latch:.*"
    return [
        pair("3.52, RLock", "redisson3", "lock", left=latch),
        pair("4.7, RLock", "redisson4", "lock", left=latch),
        pair("4.7, RFencedLock", "redisson4", "fenced", "&fenced=yes",
             tokens=True, left=token + "|" + latch),
        pair("4.7, MultiLock", "redisson4", "multi", left=latch),
    ]


# ---- Databases --------------------------------------------------------------

def spring_lock_key(name):
    return str(uuid.UUID(bytes=hashlib.md5(name.encode()).digest(), version=3))


def spring_table(store, program):
    """Spring's own words for its table, out of its jar."""
    folder = os.path.dirname(fetch.jars(program))
    jar, = [one for one in os.listdir(folder)
            if one.startswith("spring-integration-jdbc-")]
    name = {"postgres": "postgresql", "mariadb": "mysql"}[store.kind]
    with zipfile.ZipFile(os.path.join(folder, jar)) as f:
        text = f.read("org/springframework/integration/jdbc/schema-%s.sql"
                      % name).decode()
    return re.search(r"CREATE TABLE INT_LOCK .*?;", text, re.S).group(0)


def spring_jdbc(kind):
    store = stores.Sql(kind)

    def pair(name, program, options="", **more):
        def prepare():
            store.use(program)
            store.ask(spring_table(store, program))

        return Pair(
            "Spring JDBC %s, %s" % (name, store.label), program,
            "SpringJdbc:" + ("yielding" if kind == "postgres" else "stock"),
            at=lambda lease: store.at(),
            url=lambda lease: "%s?format=spring&ttl_ms=%d%s"
            % (store.our_url(), lease, options),
            remove=lambda key: store.ask(
                "DELETE FROM INT_LOCK WHERE LOCK_KEY = '%s'"
                % spring_lock_key(key)),
            listed=lambda: store.ask("SELECT LOCK_KEY FROM INT_LOCK").split(),
            prepare=prepare, renews="call", least=20, **more)
    return [pair("5.5", "spring5", "&generation=a&zone=%2B05:30",
                 robbed="silent"),
            pair("6.5", "spring6"), pair("7.0", "spring7")]


SHEDLOCK_TABLE = """CREATE TABLE shedlock (name VARCHAR(64) NOT NULL,
    lock_until %(time)s NOT NULL, locked_at %(time)s NOT NULL,
    locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))"""


def shedlock_sql(kind):
    store = stores.Sql(kind)
    time = {"postgres": "TIMESTAMP", "mariadb": "TIMESTAMP(3)"}[kind]
    now = {"postgres": "timezone('UTC', now())",
           "mariadb": "UTC_TIMESTAMP(3)"}[kind]

    def pair(name, program, variant, **more):
        def prepare():
            store.use("shedlock_%s_%s" % (program, variant))
            store.ask(SHEDLOCK_TABLE % {"time": time})

        return Pair(
            "ShedLock %s, %s" % (name, store.label), program,
            "ShedLockPeer:" + variant, at=lambda lease: store.at(),
            url=lambda lease: store.our_url() + "?format=shedlock",
            remove=lambda key: store.ask(
                "UPDATE shedlock SET lock_until = '2001-01-01' "
                "WHERE name = '%s'" % key),
            # Rows stay for ever, and none of them locks.
            listed=lambda: store.ask("SELECT name FROM shedlock WHERE "
                                     "lock_until > " + now).split(),
            prepare=prepare, again=False, renews="call", least=20, **more)
    return [pair("7.10, usingDbTime", "spring7", "dbtime", robbed="silent"),
            pair("7.10, its own clock as UTC", "spring7", "apptime",
                 robbed="silent"),
            pair("6.10, usingDbTime", "spring6", "dbtime", robbed="silent"),
            pair("6.10, its own clock as UTC", "spring6", "apptime",
                 robbed="frees")]


def shedlock_redis():
    store = stores.Redis()

    def pair(name, program, variant, **more):
        return redis_pair(store, "ShedLock %s, Redis" % name, program,
                          "ShedLockPeer:" + variant,
                          "format=simple&prefix=job-lock:default:", store.at,
                          "job-lock:default:%s", again=False, renews="call",
                          **more)
    return [pair("7.10, safeUpdate", "spring7", "redissafe", robbed="silent"),
            pair("7.10", "spring7", "redis", robbed="frees")]


# ---- ZooKeeper --------------------------------------------------------------

def curator():
    store = stores.ZooKeeper()

    def pair(name, variant, options="", **more):
        return Pair(name, "spring6", "CuratorPeer:" + variant,
                    at=lambda lease: store.at + "/" + variant,
                    url=lambda lease: "zookeeper://%s/%s?tick_ms=100%s"
                    % (store.at, variant, options),
                    remove=lambda key: store.remove("/%s/%s" % (variant, key)),
                    listed=store.left, renews="self", woken=True,
                    robbed="silent", **more)
    return [pair("Curator 5.9, InterProcessMutex", "mutex"),
            pair("Curator 5.9, InterProcessSemaphoreV2 with one lease",
                 "semaphore", ours="permit", again=False),
            pair("Curator 5.9, write half of InterProcessReadWriteLock",
                 "write", "&layout=rw"),
            pair("Spring ZooKeeper 6.5", "spring")]


def kazoo():
    store = stores.ZooKeeper()

    def pair(name, kind):
        return Pair(name, "python", kind,
                    at=lambda lease: store.at + "/" + kind,
                    url=lambda lease: "zookeeper://%s/%s?tick_ms=100"
                    "&format=kazoo" % (store.at, kind),
                    remove=lambda key: store.remove("/%s/%s" % (kind, key)),
                    listed=store.left, renews="self", woken=True, again=False,
                    robbed="silent")
    return [pair("kazoo 2.10, Lock", "kazoo"),
            pair("kazoo 2.10, WriteLock", "kazoo-write")]


# ---- etcd, and plain strings in Redis ---------------------------------------

def go_etcd():
    store = stores.Etcd()
    return [Pair("etcd clientv3 3.5, concurrency.Mutex", "go", "etcd",
                 at=lambda lease: store.at,
                 url=lambda lease: "etcd://" + store.at,
                 remove=store.remove, listed=store.left, renews="self",
                 woken=True, again=False, robbed="silent", tokens=True)]


def strings():
    """Libraries that agree on SET NX PX and on comparing before deleting."""
    store = stores.Redis()

    def pair(name, program, kind):
        return redis_pair(store, name, program, kind, "format=simple",
                          again=False, renews="call")
    return [pair("redis-py 5.2, Lock", "python", "redis-py"),
            pair("redlock 5.0 (Node)", "node", "redlock"),
            pair("@sesamecare-oss/redlock 1.4", "node", "sesame"),
            pair("redsync 4.13", "go", "redsync"),
            pair("bsm/redislock 0.9", "go", "bsm")]


def planted():
    store = stores.Redis()
    return [redis_pair(store, "planted", None, "-", "format=simple",
                       "redis://%s?format=simple&prefix=x" % store.at)]


SYSTEMS = {
    "planted": planted,
    "spring-redis": spring_redis, "redisson": redisson,
    "spring-jdbc-postgres": lambda: spring_jdbc("postgres"),
    "spring-jdbc-mariadb": lambda: spring_jdbc("mariadb"),
    "shedlock-postgres": lambda: shedlock_sql("postgres"),
    "shedlock-mariadb": lambda: shedlock_sql("mariadb"),
    "shedlock-redis": shedlock_redis, "curator": curator, "kazoo": kazoo,
    "go-etcd": go_etcd, "strings": strings,
}
