/* floor_wal.c - the least a correct lock on SQLite can do.
 *
 * Written by hand: a row a key, WAL, synchronous=NORMAL, one prepared write
 * transaction to take it (with a fencing token) and one to give it back.  No
 * session, no lease, no queue, nobody notices a crash: what holdfast costs
 * more than this is what those cost.  A connection a thread, as SQLite likes
 * it, and its own busy handler between connections. */
#include "bench.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

struct wal_thread {
    sqlite3 *db;
    sqlite3_stmt *begin, *commit, *take, *give;
    int owner;
};

/* The change to WAL answers busy at once, whatever the busy handler says, when
 * another connection makes it too: hence the patience here. */
static void run_sql(sqlite3 *db, const char *sql)
{
    int rc = SQLITE_BUSY;

    for (int i = 0; i < 5000 && rc == SQLITE_BUSY; i++) {
        if (i > 0)
            sleep_us(1000);
        rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    }
    if (rc != SQLITE_OK)
        bench_die("floor: '%s': %s", sql, sqlite3_errmsg(db));
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *st;

    if (sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &st, NULL) !=
        SQLITE_OK)
        bench_die("floor: '%s': %s", sql, sqlite3_errmsg(db));
    return st;
}

static void step_once(struct wal_thread *t, sqlite3_stmt *st)
{
    int rc = sqlite3_step(st);

    sqlite3_reset(st);
    if (rc != SQLITE_DONE)
        bench_die("floor: '%s': %s", sqlite3_sql(st), sqlite3_errmsg(t->db));
}

static void *wal_open_process(const char *dir)
{
    char *copy = strdup(dir);

    if (copy == NULL)
        bench_die("out of memory");
    return copy;
}

static void *wal_open_thread(void *process, int worker)
{
    struct wal_thread *t = calloc(1, sizeof *t);
    char path[512];

    path_in(path, sizeof path, process, "floor.db");
    if (t == NULL || sqlite3_open(path, &t->db) != SQLITE_OK)
        bench_die("floor: cannot open '%s'", path);
    sqlite3_busy_timeout(t->db, 60000);
    run_sql(t->db, "PRAGMA journal_mode=WAL");
    run_sql(t->db, "PRAGMA synchronous=NORMAL");
    run_sql(t->db, "CREATE TABLE IF NOT EXISTS lock (key TEXT PRIMARY KEY,"
                   " owner INTEGER, token INTEGER NOT NULL) WITHOUT ROWID");
    t->begin = prepare(t->db, "BEGIN IMMEDIATE");
    t->commit = prepare(t->db, "COMMIT");
    t->take = prepare(
        t->db, "INSERT INTO lock VALUES (?1, ?2, 1) ON CONFLICT DO UPDATE"
               " SET owner = ?2, token = token + 1 WHERE owner IS NULL");
    t->give = prepare(t->db, "UPDATE lock SET owner = NULL"
                             " WHERE key = ?1 AND owner = ?2");
    t->owner = worker + 1;
    return t;
}

/* One write transaction; says whether it changed the row. */
static bool write_row(struct wal_thread *t, sqlite3_stmt *st, const char *key)
{
    bool changed;

    step_once(t, t->begin);
    sqlite3_bind_text(st, 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_int(st, 2, t->owner);
    step_once(t, st);
    changed = sqlite3_changes(t->db) == 1;
    step_once(t, t->commit);
    return changed;
}

bool floor_wal_try(void *thread, const char *key)
{
    struct wal_thread *t = thread;

    return write_row(t, t->take, key);
}

static void wal_lock(void *thread, const char *key)
{
    if (!floor_wal_try(thread, key))
        bench_die("floor: '%s' is taken, and this floor cannot wait", key);
}

static void wal_unlock(void *thread, const char *key)
{
    struct wal_thread *t = thread;

    if (!write_row(t, t->give, key))
        bench_die("floor: '%s' was not held", key);
}

const struct side floor_wal = {
    .name = "two WAL transactions",
    .open_process = wal_open_process,
    .open_thread = wal_open_thread,
    .lock = wal_lock,
    .unlock = wal_unlock,
};

/* ---- The 100 ms poller ----------------------------------------------- */

/* What most table locks do when the row is taken. */
static void poll_lock(void *thread, const char *key)
{
    while (!floor_wal_try(thread, key))
        sleep_us(100 * 1000);
}

const struct side floor_poll = {
    .name = "100 ms poller on SQLite",
    .open_process = wal_open_process,
    .open_thread = wal_open_thread,
    .lock = poll_lock,
    .unlock = wal_unlock,
};
