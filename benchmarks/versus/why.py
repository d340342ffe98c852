"""What is known of why ours is behind, in words for docs/performance.md.

A reason is looked for by store, scenario, number and the beginning of the
contestant's label; the first that fits is taken.  Counts are the servers' own
(`strace -c` of the server, `INFO commandstats`), per pair, on one lane.  What
was not measured says so.
"""

FLUSHES = """{few} of the disk a pair, ours has two. The lock is an open
transaction: it has no lease, no token and no record of its holder, it ends with
the connection, and every holder and every waiter is a connection of its own.
Flushes were counted (`strace -c`); how much of the difference they are was
not."""
POSTGRES_ROW = FLUSHES.format(few="one flush")
MARIADB_ROW = FLUSHES.format(few="no flush")
SCRIPTS = """the server runs ten commands a pair for ours and three to six
for a string: 16 µs of commands and scripts to 4 to 6 µs of SET NX, redsync and
redis-py (`INFO commandstats`, on a busy machine).
The difference is the number that rises (GETSET), the session's index of what
it holds (HSETNX, HDEL), and the record with the queue (EXISTS, HSET, HLEN):
what a crash is noticed by, and what makes a hand-over directed."""
QUEUE = """two statements and two flushes a pair on both sides (counted). Ours
keep a queue, look at the session and count a token; they are executed in 32 to
38 µs, dlock's in 25 to 31 (the least of 1000, `pg_stat_statements`), and write
less log (267 bytes to 414). That is too little to explain it; a profile (`perf`,
on a busy machine) is flat. Why it is so with 16 threads was not found out."""

REASONS = [
    ("redis", "pair", "", "", SCRIPTS),
    ("redis", "threads", "", "", "with the server on a core of its own its "
     "time a pair is the limit: " + SCRIPTS),
    ("zookeeper", "", "", "one ephemeral", """it sends two requests, ours
three: create, list (sent together), delete. Without the list nobody knows who
is ahead, which makes the queue; the node by hand has none, and wakes everybody
at every release."""),
    ("etcd", "", "", "", """both send two requests a pair. Our release is a
transaction with a condition, because its answer says whether the lock was ours
to the end, where Go's is a bare delete. By hand that made 65 µs a pair on a busy
machine (benchmarks/README.md); that it is the reason here is likely, and was not
measured."""),
    ("postgres", "", "", "SELECT", POSTGRES_ROW),
    ("mariadb", "", "", "SELECT", MARIADB_ROW),
    ("postgres", "", "", "dlock", QUEUE),
    ("mariadb", "pair", "", "", """both flush twice a pair. Ours sends two
statements, Spring eleven and ShedLock eight, but each of ours is an `INSERT ...
SELECT ... ON DUPLICATE KEY UPDATE` that looks at the session's row, since
MariaDB answers what an INSERT has done but not an UPDATE. benchmarks/README.md
has what each part of it costs beside two plain upserts; beside these libraries
that was not measured."""),
]


def reason(store, scenario, name, label):
    for where, what, number, who, text in REASONS:
        if (where == store and what in ("", scenario)
                and number in ("", name) and label.startswith(who)):
            return " ".join(text.split())
    return "not taken apart."
