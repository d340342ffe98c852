"""Who takes part in `./bench --peers`, on which store, and how each is set up.

Peers are the programs of tests/peers, with the settings that their guides
give.  An Entry says where its locks are, how long it sleeps between two looks
(0: it is woken), and in which scenarios it takes part: a library that never
waits has no hand-over, no contest and no waiters.

A lock that promises less than ours is beside one of ours that promises as
little (`like`), where that one takes part: the same lock in the same place,
through format=.  Ours sleep and look in such formats, as libraries do, so they
take part only where nobody waits.
"""

import fetch
import pairs
import stores

OURS = "Holdfast"
ALL = ("pair", "threads", "handover", "contended", "waiters")
NEVER_WAITS = ("pair", "threads")

DLOCK_TABLE = """CREATE TABLE "DLCK" ("LCK_KEY" varchar(1000) PRIMARY KEY,
    "LCK_HNDL_ID" varchar(100) NOT NULL CONSTRAINT "DLCK_HNDL_UX" UNIQUE,
    "CREATED_TIME" TIMESTAMP NOT NULL, "EXPIRE_SEC" integer NOT NULL)"""
RAW_TABLE = "CREATE TABLE RAW_LOCK (NAME VARCHAR(200) PRIMARY KEY)"


class Entry:
    def __init__(self, label, program, kind, at, poll_ms=0, scenarios=ALL,
                 note="", like=OURS):
        self.label, self.program, self.kind = label, program, kind
        self.at, self.poll_ms, self.scenarios = at, poll_ms, scenarios
        self.note, self.like, self.argv = note, like, None

    def find(self, ours):
        """Its command; fetch.Skip says what is missing."""
        self.argv = ([ours] if self.program is None
                     else fetch.command(self.program, True))


def ours(server, options=""):
    return Entry(OURS, None, "lock", server.url + options)


def ours_as(server, name, options, note):
    """The same lock as others make it, through format=."""
    return Entry("%s, format=%s" % (OURS, name), None, "lock",
                 "%s?format=%s%s" % (server.url, name, options),
                 scenarios=NEVER_WAITS, note=note)


def redis(server):
    at = server.at

    def polls(label, program, kind, poll_ms, **more):
        return Entry(label, program, kind, at, poll_ms, **more)
    return [
        ours(server),
        polls("SET NX by hand (go-redis 9.7)", "go", "setnx", 100),
        Entry("Spring Integration 7.0, PUB_SUB", "spring7",
              "SpringRedis:pubsub", at + "/jobs"),
        Entry("Spring Integration 7.0, SPIN", "spring7", "SpringRedis:spin",
              at + "/spin", 100),
        Entry("Redisson 4.7, RLock", "redisson4", "RedissonPeer:lock", at),
        polls("redsync 4.13 (Go)", "go", "redsync", 150),
        polls("bsm/redislock 0.9 (Go)", "go", "bsm", 100),
        polls("redis-py 5.2, Lock", "python", "redis-py", 100),
        polls("redlock 5.0 (Node)", "node", "redlock", 200),
        polls("@sesamecare-oss/redlock 1.4 (Node)", "node", "sesame", 200),
        polls("ShedLock 7.10", "spring7", "ShedLockPeer:redis", 0,
              scenarios=NEVER_WAITS, note="never waits"),
    ]


def redlock(server):
    def votes(label, program, kind, poll_ms):
        return Entry(label, program, kind, server.at, poll_ms)
    return [
        ours(server),
        votes("redsync 4.13 (Go)", "go", "redsync", 150),
        votes("redlock 5.0 (Node)", "node", "redlock", 200),
        votes("@sesamecare-oss/redlock 1.4 (Node)", "node", "sesame", 200),
    ]


def zookeeper(server):
    at = server.at
    return [
        ours(server),
        Entry("one ephemeral node by hand (Java)", "spring6", "RawZooKeeper",
              at + "/raw"),
        Entry("Curator 5.9, InterProcessMutex", "spring6", "CuratorPeer:mutex",
              at + "/curator"),
        Entry("Spring Integration 6.5", "spring6", "SpringZookeeper:",
              at + "/spring"),
        Entry("kazoo 2.10, Lock", "python", "kazoo", at + "/kazoo"),
    ]


def etcd(server):
    return [ours(server)] + [
        Entry("Go clientv3 %s, concurrency.Mutex" % version, program, "etcd",
              server.at)
        for version, program in (("3.5", "go"), ("3.7", "go-etcd37"))]


def sql(server, kind):
    """Each has a database of its own, with the table that it asks for."""
    def database(name, ddl):
        store = stores.Sql(kind)
        store.use(name)
        store.ask(ddl)
        return store.at()

    time = {"postgres": "TIMESTAMP", "mariadb": "TIMESTAMP(3)"}[kind]
    # As many connections as the pools of the others.
    found = [ours(server, "?connections=16"),
             ours_as(server, "rowlock", "&connections=16", "SELECT FOR UPDATE "
                     "with a lease, no queue and no token; a waiter looks, so "
                     "it is for where nobody waits"),
             Entry("SELECT FOR UPDATE by hand (JDBC)", "spring6",
                   "RawJdbc:forupdate", database("raw", RAW_TABLE),
                   note="no lease: a transaction and a connection a holder "
                   "and a waiter", like="Holdfast, format=rowlock")]
    if kind == "postgres":
        found.append(Entry("dlock, its SQL by hand (JDBC)", "spring6",
                           "RawJdbc:dlock", database("dlock", DLOCK_TABLE),
                           scenarios=NEVER_WAITS, note="never waits"))
    try:
        table = pairs.spring_table(stores.Sql(kind), "spring7")
    except fetch.Skip:
        table = RAW_TABLE  # whoever needs it is left out for the same reason
    return found + [
        Entry("Spring Integration 7.0, JDBC", "spring7",
              "SpringJdbc:" + ("yielding" if kind == "postgres" else "stock"),
              database("spring", table), 100),
        Entry("ShedLock 7.10, usingDbTime", "spring7", "ShedLockPeer:dbtime",
              database("shedlock", pairs.SHEDLOCK_TABLE % {"time": time}),
              scenarios=NEVER_WAITS, note="never waits"),
    ]


FIELDS = {"redis": redis, "redlock": redlock, "zookeeper": zookeeper,
          "etcd": etcd,
          "postgres": lambda server: sql(server, "postgres"),
          "mariadb": lambda server: sql(server, "mariadb")}
