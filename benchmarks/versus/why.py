"""What is known of why ours is behind, in words for docs/performance.md.

A reason is looked for by store, scenario, number and the beginning of the
contestant's label; the first that fits is taken.  NATIVE has those of peers
that are compared with another line of ours (field.py), beside the native lock.
Counts are the servers' own (`strace -c` of the server, `INFO commandstats`),
per pair, on one lane.  What was not measured says so.
"""

OPEN = """The lock by hand is an open transaction: it has no lease, no token and
no record of its holder, it ends with the connection, and every holder and every
waiter is a connection of its own."""
POSTGRES_ROW = """one flush of the disk a pair, the native lock has two (`strace
-c`). """ + OPEN
MARIADB_ROW = """no flush of the disk a pair, the native lock has two (`strace
-c`): who holds is on the disk before it is told. """ + OPEN
MARIADB_PASSED = """a row's lock is passed on inside the server, without a flush
and without a message. A hand-over of the native lock is a commit that is flushed,
a `KILL QUERY` that wakes the waiter's connection, and its look at the queue. """ \
    + OPEN
ROW_FORMAT = """both are one `SELECT ... FOR UPDATE`, prepared, and one
`COMMIT`, and cost the server as much (*server time a pair*); of six rounds in
turn beside each other with 16 threads ours made 8350 to 10 600 pairs on
PostgreSQL and theirs 7480 to 12 500, on MariaDB 15 400 to 17 400 and 13 900 to
15 900, so this is within what two runs differ. What is left of a *pair* on
MariaDB is the client's: ours has a lease, so it looks after its connections, and
who waits for an answer does so by a deadline."""
VOTES = """a take is one `SET` there, and a script here: on five servers
EXISTS (was it given up before it arrived?), SET, and INCRBY for the number that
rises; a release is a script on both sides, and ours tells who waits (PUBLISH).
`INFO commandstats` has 7 µs a pair and server for ours, 5 for redlock's two
scripts and 2.5 for redsync (three rounds of 60 000, the server's caches warm); here
five servers and their client share one core."""
SCRIPTS = """the server runs ten commands a pair for ours and three to six
for a string: 16 µs of commands and scripts to 4 to 6 µs of SET NX, redsync and
redis-py (`INFO commandstats`, on a busy machine).
The difference is the number that rises (GETSET), the session's index of what
it holds (HSETNX, HDEL), and the record with the queue (EXISTS, HSET, HLEN):
what a crash is noticed by, and what makes a hand-over directed. With the server
on a core of its own its time a pair is the limit of *16 threads*. The same
string through `format=simple` is no cheaper (36 to 38 µs of the server a pair
to 30 to 32 of the native lock, three rounds): its scripts look for a late
request and tell a waiter."""
NEAR = """two statements and two flushes a pair on both sides (counted). By hand,
with 16 connections, ours took 162 µs of the server a pair and dlock's 163 (means
of five and six runs of `pgbench`, which lay between 135 and 215), so this is
within what two runs differ."""
LOOKS = """both flush twice a pair, and that differs most between two runs. Ours
are two plain `UPDATE`s that also look at the session's row; by hand such a pair
took 250 to 260 µs of the server, 210 to 225 without that look, and an `INSERT`
and a `DELETE` of a row without any condition 140 to 155."""

REASONS = [
    ("redis", "", "", "", SCRIPTS),
    ("redlock", "", "", "", VOTES),
    ("zookeeper", "", "", "one ephemeral", """it sends two requests, ours
three: create, list (sent together), delete. Without the list nobody knows who
is ahead, which makes the queue; the node by hand has none, and wakes everybody
at every release."""),
    ("etcd", "", "", "", """both send two requests a pair and flush as often (0.45
times a pair). In twelve rounds in turn ours made 3255 pairs a second with 280 µs
of the server each, Go's 2898 with 296, so this is within what two runs
differ."""),
    ("postgres", "handover", "", "SELECT", POSTGRES_ROW),
    ("postgres", "waiters", "", "SELECT", POSTGRES_ROW),
    ("postgres", "", "", "SELECT", ROW_FORMAT),
    ("postgres", "", "", "", NEAR),
    ("mariadb", "handover", "", "SELECT", MARIADB_PASSED),
    ("mariadb", "waiters", "", "SELECT", MARIADB_PASSED),
    ("mariadb", "", "", "SELECT", ROW_FORMAT),
    ("mariadb", "", "", "", LOOKS),
]
NATIVE = [
    ("postgres", "", "", "", POSTGRES_ROW),
    ("mariadb", "", "", "", MARIADB_ROW),
]


def reason(store, scenario, name, label, native):
    """`native`: beside the native lock, though another line is like it."""
    for where, what, number, who, text in NATIVE if native else REASONS:
        if (where == store and what in ("", scenario)
                and number in ("", name) and label.startswith(who)):
            return " ".join(text.split())
    return "not taken apart."
