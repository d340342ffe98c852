/* floor_postgres.c - what locks on PostgreSQL cost without holdfast.
 *
 * Written by hand on libpq, a connection a thread, every statement prepared,
 * every statement a commit: a row that is taken and given back by an upsert
 * (pair, poll), a commit that notifies the one who waits (wake), and the lock
 * that the server has itself (own: pg_advisory_lock, which has no lease, no
 * token, and costs a connection for each who waits). */
#include "sql.h"

#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct pg_thread {
    PGconn *conn;
    char owner[32];
};

static void *pg_open_process(const char *where)
{
    char *copy = strdup(where);

    if (copy == NULL)
        bench_die("out of memory");
    return copy;
}

static PGconn *connect_to(const char *url)
{
    PGconn *conn = PQconnectdb(url);

    if (PQstatus(conn) != CONNECTION_OK)
        bench_die("floor: %s", PQerrorMessage(conn));
    return conn;
}

static PGresult *checked(PGconn *conn, PGresult *r, const char *what)
{
    ExecStatusType got = PQresultStatus(r);

    if (got != PGRES_COMMAND_OK && got != PGRES_TUPLES_OK)
        bench_die("floor: %s: %s", what, PQerrorMessage(conn));
    return r;
}

static void run_sql(PGconn *conn, const char *sql)
{
    PQclear(checked(conn, PQexec(conn, sql), sql));
}

static void prepare_one(PGconn *conn, const char *name, const char *sql)
{
    PQclear(checked(conn, PQprepare(conn, name, sql, 0, NULL), sql));
}

static void *pg_open_thread(void *process, int worker)
{
    struct pg_thread *t = calloc(1, sizeof *t);

    if (t == NULL)
        bench_die("out of memory");
    t->conn = connect_to(process);
    snprintf(t->owner, sizeof t->owner, "%d-%d", (int)getpid(), worker);
    prepare_one(t->conn, "take",
                "INSERT INTO bench_lock AS l (k, owner, until) VALUES ($1, $2, "
                "clock_timestamp() + interval '30 s') ON CONFLICT (k) DO "
                "UPDATE SET owner = excluded.owner, until = excluded.until "
                "WHERE l.owner = '' OR l.until < clock_timestamp() "
                "RETURNING k");
    prepare_one(t->conn, "give",
                "INSERT INTO bench_lock AS l (k, owner, until) VALUES ($1, '', "
                "clock_timestamp()) ON CONFLICT (k) DO UPDATE SET owner = '' "
                "WHERE l.owner = $2 RETURNING k");
    prepare_one(t->conn, "come", "UPDATE bench_turn SET n = n + 1 RETURNING n");
    prepare_one(t->conn, "go",
                "WITH u AS (UPDATE bench_turn SET n = n - 1 RETURNING n) "
                "SELECT CASE WHEN n > 0 THEN pg_notify('bench', '') END "
                "FROM u");
    prepare_one(t->conn, "lock", "SELECT pg_advisory_lock(4711)");
    prepare_one(t->conn, "unlock", "SELECT pg_advisory_unlock(4711)");
    run_sql(t->conn, "LISTEN bench");
    return t;
}

static PGresult *run(struct pg_thread *t, const char *name, int n,
                     const char *const *word)
{
    return checked(t->conn,
                   PQexecPrepared(t->conn, name, n, word, NULL, NULL, 0), name);
}

static bool row_step(struct pg_thread *t, const char *name, const char *key)
{
    const char *word[] = {key, t->owner};
    PGresult *r = run(t, name, 2, word);
    bool done = PQntuples(r) == 1;

    PQclear(r);
    return done;
}

static void pair_lock(void *thread, const char *key)
{
    if (!row_step(thread, "take", key))
        bench_die("floor: '%s' is taken, and this floor cannot wait", key);
}

static void pair_unlock(void *thread, const char *key)
{
    if (!row_step(thread, "give", key))
        bench_die("floor: '%s' was not held", key);
}

static void poll_lock(void *thread, const char *key)
{
    while (!row_step(thread, "take", key))
        sleep_us(100 * 1000);
}

/* A notification of the other process; our own come back, too. */
static bool was_notified(PGconn *conn)
{
    PGnotify *n;
    bool found = false;

    while ((n = PQnotifies(conn)) != NULL) {
        found = found || n->be_pid != PQbackendPID(conn);
        PQfreemem(n);
    }
    return found;
}

static void wake_lock(void *thread, const char *key)
{
    struct pg_thread *t = thread;
    struct pollfd p = {.fd = PQsocket(t->conn), .events = POLLIN};
    PGresult *r = run(t, "come", 0, NULL);
    bool first = strcmp(PQgetvalue(r, 0, 0), "1") == 0;

    (void)key;
    PQclear(r);
    while (!first && !was_notified(t->conn)) {
        if (poll(&p, 1, 30000) != 1 || PQconsumeInput(t->conn) != 1)
            bench_die("floor: no notification after half a minute");
    }
}

static void wake_unlock(void *thread, const char *key)
{
    (void)key;
    PQclear(run(thread, "go", 0, NULL));
}

static void own_lock(void *thread, const char *key)
{
    (void)key;
    PQclear(run(thread, "lock", 0, NULL));
}

static void own_unlock(void *thread, const char *key)
{
    (void)key;
    PQclear(run(thread, "unlock", 0, NULL));
}

#define PG_SIDE(variable, text, take, give)                                    \
    static const struct side variable = {.name = (text),                       \
                                         .open_process = pg_open_process,      \
                                         .open_thread = pg_open_thread,        \
                                         .lock = (take),                       \
                                         .unlock = (give)}
PG_SIDE(pair_side, "two upserts, libpq", pair_lock, pair_unlock);
PG_SIDE(poll_side, "100 ms poller, libpq", poll_lock, pair_unlock);
PG_SIDE(wake_side, "a commit and a NOTIFY", wake_lock, wake_unlock);
PG_SIDE(own_side, "pg_advisory_lock", own_lock, own_unlock);

/* ---- The server ------------------------------------------------------ */

static void prepare(const struct sql_server *s)
{
    PGconn *conn = connect_to(s->url);

    run_sql(conn, "CREATE TABLE bench_lock (k text COLLATE \"C\" PRIMARY KEY, "
                  "owner text NOT NULL, until timestamptz NOT NULL) "
                  "WITH (fillfactor = 50)");
    run_sql(conn, "CREATE TABLE bench_turn WITH (fillfactor = 10) AS "
                  "SELECT 0 AS n");
    PQfinish(conn);
}

/* By its log: counters of the statistics are told late. */
static void begin_counting(const struct sql_server *s)
{
    PGconn *conn = connect_to(s->url);

    run_sql(conn, "ALTER SYSTEM SET log_statement = 'all'");
    run_sql(conn, "SELECT pg_reload_conf()");
    PQfinish(conn);
    sleep_us(300 * 1000);
}

static double count(const struct sql_server *s)
{
    FILE *f = fopen(s->log, "re");
    static char line[1 << 16];
    double n = 0;

    if (f == NULL)
        bench_die("cannot read '%s'", s->log);
    while (fgets(line, sizeof line, f) != NULL)
        n += strstr(line, "LOG:  execute ") != NULL ||
             strstr(line, "LOG:  statement: ") != NULL;
    fclose(f);
    return n;
}

static const char *const durable[] = {
    "-c", "fsync=on", "-c", "full_page_writes=on", "-c", "max_connections=500",
    NULL};

const struct sql_kind sql_kind_postgres = {
    .name = "postgres",
    .server = "postgres",
    .ready = "ready to accept connections",
    .user = "postgres",
    .durable = durable,
    .prepare = prepare,
    .begin_counting = begin_counting,
    .count = count,
    .pair = &pair_side,
    .poll = &poll_side,
    .wake = &wake_side,
    .own = &own_side,
};
