"""Which library is put beside which format of ours, and what is known of it.

A Pair has a name for the matrix, the program that its peer runs in, how a lane
of each side is opened for a lease, how the record of a key is taken away, and
what the library can do:

    again    the same owner may take it twice
    tries    it can be asked not to wait
    renews   "self", "call", or None
    woken    its waiters hear of a release; their own timer is the lease
    our_look   ours hears of its releases, and would else look after so many
             seconds; None: there is nothing to hear, it looks
    keeps    for how many leases the store keeps the lock of one who died
    their_poll, our_poll   seconds until one who waits looks again, of a lease
             that nobody renews any more (theirs: a function of the lease)
    robbed   what its unlock says and does when the lock has become ours:
             "refused"; "silent": says nothing, does nothing; "frees": it
             frees ours, a known flaw of that version
    foreign  what its unlock says of a lock that another owner has
    ours     what ours takes: "lock", or "permit:1"
    queue    how many stand at a key; None: it keeps no order
    reads    the kind of its readers; permits: that of two leases
    left     what of the store's list may be there in the end
    apart    it has another layout: "both" hold at once, or "ours" alone does
             not see theirs
    alone    its tests run one by one
    guests   others (program, kind) that join the storm
    sections, least, storm_ms   of the storm: all, of each, and its lease
    short    its sections where time is short (./check without --peers)
    meanwhile   what happens in the storm, told how much of it is over
    revive, end   before a second run, and after all
    patience, leases   less of both for what is planted
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
        self.tries, self.robbed, self.foreign = True, "refused", "refused"
        self.left, self.least, self.tokens = "", 30, False
        self.ours, self.queue, self.reads = "lock", None, None
        self.permits, self.apart, self.alone = None, None, False
        self.guests, self.sections, self.storm_ms = [], 2000, 60000
        self.our_look, self.our_poll, self.keeps = None, 1.2, 1
        self.their_poll = lambda lease: 0.3
        self.short, self.patience, self.leases = 2000, 1, None
        self.prepare = self.revive = self.end = lambda: None
        self.meanwhile = lambda share: None
        self.__dict__.update(more)


def expect_left(pair, lines):
    """What should not be there."""
    return [line for line in lines
            if not (pair.left and re.fullmatch(pair.left, line))]


# ---- Redis ------------------------------------------------------------------

def redis_pair(store, name, program, kind, url, at=None, full="%s", **more):
    return Pair(name, program, kind, at=lambda lease: at or store.at,
                url=lambda lease: "redis://%s?%s" % (store.at, url),
                remove=lambda key: store.remove(full % key,
                                                full % key + "-too"),
                listed=store.left, prepare=store.empty, **more)


# Theirs hears of releases alone: when a holder dies it looks again after its
# own time to live.
PUBSUB = {"woken": True, "our_look": 1.0,
          "their_poll": lambda lease: lease / 1000}


def spring_redis():
    store = stores.Redis()

    def pair(name, program, variant, **more):
        return redis_pair(store, "Spring Redis " + name, program,
                          "SpringRedis:" + variant,
                          "format=spring&registry_key=jobs",
                          store.at + "/jobs", "jobs:%s", **dict(
                              PUBSUB if variant == "pubsub" else {}, **more))
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
                          our_look=5.0, our_poll=0.5, renews="self", **more)
    token = "string redisson_lock_token:.*"
    # 3.52 forgets the latches of its unlocks until they expire; 4.7 does not.
    latch = "string redisson_unlock_latch:.*"
    return [
        pair("3.52, RLock", "redisson3", "lock", left=latch),
        pair("4.7, RLock", "redisson4", "lock"),
        pair("4.7, RFencedLock", "redisson4", "fenced", "&fenced=yes",
             tokens=True, left=token),
        pair("4.7, MultiLock", "redisson4", "multi"),
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


def by_hand_sql(kind):
    """SELECT ... FOR UPDATE, and dlock's statements."""
    store = stores.Sql(kind)
    number = {"postgres": "serial", "mariadb": "INT AUTO_INCREMENT"}[kind]

    def rows():
        store.use("rowlock")
        store.ask("CREATE TABLE distribute_lock (id %s PRIMARY KEY, "
                  "business_code VARCHAR(255) NOT NULL UNIQUE, "
                  "business_name VARCHAR(255) NOT NULL)" % number)

    def dlock():
        store.use("dlock")
        store.ask('CREATE TABLE "DLCK" ("LCK_KEY" varchar(1000) PRIMARY KEY, '
                  '"LCK_HNDL_ID" varchar(100) NOT NULL UNIQUE, "CREATED_TIME" '
                  'TIMESTAMP NOT NULL, "EXPIRE_SEC" integer NOT NULL)')
    # Without a record the lock is taken away with the connection: anybody's.
    found = [Pair("SELECT ... FOR UPDATE, " + store.label, "debian-python",
                  "rowlock", at=lambda lease: store.our_url(),
                  url=lambda lease: store.our_url() + "?format=rowlock",
                  remove=lambda key: store.end_transactions(), prepare=rows,
                  listed=store.transactions, again=False, renews="self",
                  woken=True, alone=True, keeps=0, foreign="given",
                  short=1000),
             Pair("dlock 3.0 by its statements, " + store.label,
                  "debian-python", "dlock", at=lambda lease: store.our_url(),
                  url=lambda lease: store.our_url() + "?format=dlock",
                  remove=lambda key: store.ask(
                      'DELETE FROM "DLCK" WHERE "LCK_KEY" = \'%s\'' % key),
                  listed=lambda: store.ask(
                      'SELECT "LCK_KEY" FROM "DLCK"').split(),
                  prepare=dlock, again=False, robbed="silent",
                  foreign="given", short=1000)]
    return found if kind == "postgres" else found[:1]


# ---- ZooKeeper --------------------------------------------------------------

def zookeeper_pair(store, name, program, kind, options="", folder="", **more):
    root = re.sub("\\W", "-", kind)
    words = dict(renews="self", woken=True, robbed="silent", our_look=5.0,
                 our_poll=0.3)  # two ticks of the server
    words.update(more)
    return Pair(name, program, kind,
                at=lambda lease: "%s/%s" % (store.at, root),
                url=lambda lease: "zookeeper://%s/%s?tick_ms=100%s"
                % (store.at, root, options),
                remove=lambda key: store.remove("/%s/%s" % (root, key)),
                queue=lambda key: store.queue("/%s/%s%s" % (root, key,
                                                            folder)),
                listed=store.left, **words)


def curator_pairs(store, name, program):
    def pair(what, variant, *words, **more):
        return zookeeper_pair(store, "%s, %s" % (name, what), program,
                              "CuratorPeer:" + variant, *words, **more)
    return [pair("InterProcessMutex", "mutex"),
            pair("InterProcessReadWriteLock", "write", "&layout=rw",
                 reads="CuratorPeer:read"),
            pair("InterProcessSemaphoreV2", "semaphore1", "", "/locks",
                 ours="permit:1", again=False,
                 permits="CuratorPeer:semaphore2")]


def curator():
    store = stores.ZooKeeper()
    return curator_pairs(store, "Curator 5.9", "spring6") + [
        zookeeper_pair(store, "Spring ZooKeeper 6.5", "spring6",
                       "SpringZookeeper:")]


def kazoo_pair(store, name, program, kind, **more):
    return zookeeper_pair(store, name, program, kind, "&format=kazoo",
                          again=False, **more)


def kazoo():
    store = stores.ZooKeeper()
    return [kazoo_pair(store, "kazoo 2.10, Lock", "python", "kazoo"),
            kazoo_pair(store, "kazoo 2.10, WriteLock", "python",
                       "kazoo-write", reads="kazoo-read")]


def go_zookeeper():
    return [zookeeper_pair(stores.ZooKeeper(), "go-zookeeper/zk 1.0, Lock",
                           "go", "go-zk", again=False, tries=False,
                           robbed="refused")]


def debian_zookeeper():
    """Without a registry; the recipe is ZooKeeper by hand."""
    store = stores.ZooKeeper()
    found = curator_pairs(store, "Curator 5.4", "debian-java") + [
        kazoo_pair(store, "kazoo 2.8, Lock", "debian-python", "kazoo"),
        zookeeper_pair(store, "ZooKeeper's guide, by hand", "debian-python",
                       "recipe", again=False, robbed="refused"),
        zookeeper_pair(store, "ZooKeeper's recipes 3.8, WriteLock",
                       "debian-java", "RecipePeer:", apart="ours")]
    for pair in found:
        pair.short = 500
    return found


# ---- etcd, and plain strings in Redis ---------------------------------------

def etcd_pair(store, name, program, kind, **more):
    return Pair(name, program, kind, at=lambda lease: store.at,
                url=lambda lease: "etcd://" + store.at, remove=store.remove,
                queue=store.queue, listed=store.left, renews="self",
                woken=True, again=False, robbed="silent", our_look=5.0,
                # A lease is whole seconds, and the server looks twice in one.
                our_poll=1.5, their_poll=lambda lease: 1.5, **more)


def go_etcd():
    store = stores.Etcd()
    return [etcd_pair(store, "etcd clientv3 %s, concurrency.Mutex" % version,
                      program, "etcd", tokens=True)
            for version, program in (("3.5", "go"), ("3.7", "go-etcd37"))]


def debian_etcd():
    return [etcd_pair(stores.Etcd(), "etcdctl 3.4, lock", "debian-python",
                      "etcdctl", short=500, least=25)]


def python_etcd3():
    return [etcd_pair(stores.Etcd(), "python-etcd3 0.12", "python-etcd3",
                      "etcd3", apart="both")]


def string_pair(store, name, program, kind, **more):
    return redis_pair(store, name, program, kind, "format=simple",
                      again=False, renews="call", **more)


def strings():
    """Libraries that agree on SET NX PX and on comparing before deleting."""
    store = stores.Redis()
    return [string_pair(store, "redis-py 5.2, Lock", "python", "redis-py"),
            string_pair(store, "redlock 5.0 (Node)", "node", "redlock",
                        guests=[("python", "redis-py"), ("node", "sesame")]),
            string_pair(store, "@sesamecare-oss/redlock 1.4", "node",
                        "sesame"),
            string_pair(store, "redsync 4.13", "go", "redsync"),
            string_pair(store, "bsm/redislock 0.9", "go", "bsm")]


def debian_redis():
    store = stores.Redis()
    return [string_pair(store, "redis-py 4.3, Lock", "debian-python",
                        "redis-py", short=1000),
            string_pair(store, "SET NX PX, by hand", "debian-python",
                        "votes", short=1000)]


def five_servers(*members):
    """Votes on five servers, two of which are killed in the storm."""
    store = stores.Redlock()
    return [Pair(name + ", five servers", program, kind,
                 at=lambda lease: store.at,
                 url=lambda lease: "redlock://" + store.at,
                 remove=store.remove, listed=store.left, prepare=store.start,
                 revive=store.start, end=store.stop, meanwhile=store.kill_two,
                 again=False, renews="call", storm_ms=5000, least=10,
                 guests=guests, short=500, our_poll=0.5,
                 # Ours leave a counter, and for a lease what was given up.
                 left="string holdfast:(token|tomb):.*")
            for name, program, kind, guests in members]


def redlock():
    return five_servers(
        ("redlock 5.0 (Node)", "node", "redlock",
         [("node", "sesame"), ("go", "redsync")]),
        ("@sesamecare-oss/redlock 1.4", "node", "sesame", []),
        ("redsync 4.13", "go", "redsync", []))


def debian_redlock():
    return five_servers(("Redlock, by hand", "debian-python", "votes", []))


def planted():
    store = stores.Redis()
    return [redis_pair(store, "planted", None, "lock", "format=simple",
                       "redis://%s?format=simple&prefix=x" % store.at)]


SYSTEMS = {
    "planted": planted,
    "spring-redis": spring_redis, "redisson": redisson, "strings": strings,
    "redlock": redlock, "shedlock-redis": shedlock_redis,
    "debian-redis": debian_redis, "debian-redlock": debian_redlock,
    "spring-jdbc-postgres": lambda: spring_jdbc("postgres"),
    "spring-jdbc-mariadb": lambda: spring_jdbc("mariadb"),
    "shedlock-postgres": lambda: shedlock_sql("postgres"),
    "shedlock-mariadb": lambda: shedlock_sql("mariadb"),
    "debian-postgres": lambda: by_hand_sql("postgres"),
    "debian-mariadb": lambda: by_hand_sql("mariadb"),
    "curator": curator, "kazoo": kazoo, "go-zookeeper": go_zookeeper,
    "debian-zookeeper": debian_zookeeper, "go-etcd": go_etcd,
    "python-etcd3": python_etcd3, "debian-etcd": debian_etcd,
}
