/* sql_odbc.c - the same pair through ODBC, with three drivers.
 *
 * Against two hand-written upserts through the same ODBC driver: prepared once,
 * bound once, executed.  A driver manager and a driver between us and the
 * server cost what they cost; the ratio says what holdfast adds. */
#include "sql.h"

#include <sql.h>
#include <sqlext.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_ROUNDS 10

struct odbc_kind {
    const char *name;
    const struct sql_kind *server; /* NULL: a file */
    const char *driver;            /* as /etc/odbcinst.ini calls it */
    const char *upsert;            /* parameters: key, owner */
    const char *begin[3];          /* on every connection */
};

static const struct odbc_kind kinds[] = {
    {"PostgreSQL",
     &sql_kind_postgres,
     "PostgreSQL Unicode",
     "INSERT INTO odbc_lock VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET "
     "owner = excluded.owner",
     {NULL}},
    {"MariaDB",
     &sql_kind_mariadb,
     "MariaDB Unicode",
     "INSERT INTO odbc_lock VALUES (?, ?) ON DUPLICATE KEY UPDATE owner = "
     "VALUES(owner)",
     {NULL}},
    {"SQLite",
     NULL,
     "SQLite3",
     "INSERT INTO odbc_lock VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET "
     "owner = excluded.owner",
     {"PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", NULL}},
};

/* The kind that is measured now; one after the other. */
static const struct odbc_kind *now_kind;

struct odbc_thread {
    SQLHDBC conn;
    SQLHSTMT upsert;
    char key[64], owner[32];
    SQLLEN key_len, owner_len;
};

static void check(SQLRETURN rc, SQLSMALLINT type, SQLHANDLE of,
                  const char *what)
{
    SQLCHAR state[6] = "", text[300] = "";
    SQLINTEGER native;

    if (SQL_SUCCEEDED(rc) || rc == SQL_NO_DATA)
        return;
    SQLGetDiagRec(type, of, 1, state, &native, text, sizeof text, NULL);
    bench_die("floor: %s over ODBC: %s %s", what, (char *)state, (char *)text);
}

/* The connection string stands behind "odbc:", with its blanks written %20. */
static void *odbc_open_process(const char *where)
{
    char *text = calloc(1, strlen(where) + 1), *to = text;

    if (text == NULL)
        bench_die("out of memory");
    for (const char *at = where + 5; *at && *at != '?'; at++) {
        bool blank = strncmp(at, "%20", 3) == 0;

        *to++ = blank ? ' ' : *at;
        at += blank ? 2 : 0;
    }
    return text;
}

static void run_sql(struct odbc_thread *t, const char *sql)
{
    SQLHSTMT st;

    check(SQLAllocHandle(SQL_HANDLE_STMT, t->conn, &st), SQL_HANDLE_DBC,
          t->conn, sql);
    check(SQLExecDirect(st, (SQLCHAR *)(uintptr_t)sql, SQL_NTS),
          SQL_HANDLE_STMT, st, sql);
    SQLFreeHandle(SQL_HANDLE_STMT, st);
}

static void prepare_upsert(struct odbc_thread *t)
{
    check(SQLAllocHandle(SQL_HANDLE_STMT, t->conn, &t->upsert), SQL_HANDLE_DBC,
          t->conn, "a statement");
    check(
        SQLPrepare(t->upsert, (SQLCHAR *)(uintptr_t)now_kind->upsert, SQL_NTS),
        SQL_HANDLE_STMT, t->upsert, now_kind->upsert);
    SQLBindParameter(t->upsert, 1, SQL_PARAM_INPUT, SQL_C_CHAR, SQL_VARCHAR, 60,
                     0, t->key, sizeof t->key, &t->key_len);
    SQLBindParameter(t->upsert, 2, SQL_PARAM_INPUT, SQL_C_CHAR, SQL_VARCHAR, 30,
                     0, t->owner, sizeof t->owner, &t->owner_len);
}

static void *odbc_open_thread(void *process, int worker)
{
    struct odbc_thread *t = calloc(1, sizeof *t);
    SQLHENV env;

    (void)worker;
    if (t == NULL || SQLAllocHandle(SQL_HANDLE_ENV, SQL_NULL_HANDLE, &env) != 0)
        bench_die("floor: no ODBC");
    SQLSetEnvAttr(env, SQL_ATTR_ODBC_VERSION, (void *)SQL_OV_ODBC3, 0);
    check(SQLAllocHandle(SQL_HANDLE_DBC, env, &t->conn), SQL_HANDLE_ENV, env,
          "a connection");
    check(SQLDriverConnect(t->conn, NULL, process, SQL_NTS, NULL, 0, NULL,
                           SQL_DRIVER_NOPROMPT),
          SQL_HANDLE_DBC, t->conn, process);
    for (const char *const *sql = now_kind->begin; *sql; sql++)
        run_sql(t, *sql);
    run_sql(t, "CREATE TABLE IF NOT EXISTS odbc_lock (k VARCHAR(60) PRIMARY "
               "KEY, owner VARCHAR(30))");
    prepare_upsert(t);
    return t;
}

static void upsert(struct odbc_thread *t, const char *key, const char *owner)
{
    t->key_len = snprintf(t->key, sizeof t->key, "%s", key);
    t->owner_len = snprintf(t->owner, sizeof t->owner, "%s", owner);
    check(SQLExecute(t->upsert), SQL_HANDLE_STMT, t->upsert, now_kind->upsert);
    SQLFreeStmt(t->upsert, SQL_CLOSE);
}

static void odbc_lock(void *thread, const char *key)
{
    upsert(thread, key, "me");
}

static void odbc_unlock(void *thread, const char *key)
{
    upsert(thread, key, "");
}

static const struct side floor_odbc = {.name = "two upserts, ODBC",
                                       .open_process = odbc_open_process,
                                       .open_thread = odbc_open_thread,
                                       .lock = odbc_lock,
                                       .unlock = odbc_unlock};

static void measure_driver(const struct bench *b, const char *url)
{
    const struct side *const side[2] = {&side_holdfast, &floor_odbc};
    const int rounds = b->quick ? 3 : MAX_ROUNDS, pairs = b->quick ? 150 : 300;
    double p50[2][MAX_ROUNDS];
    void *thread[2];
    char text[64];

    for (int k = 0; k < 2; k++) {
        thread[k] = side[k]->open_thread(side[k]->open_process(url), 0);
        measure_pairs(side[k], thread[k], pairs);
    }
    for (int r = 0; r < rounds; r++)
        for (int k = 0; k < 2; k++)
            p50[k][r] = measure_pairs(side[k], thread[k], pairs).p50_us;
    snprintf(text, sizeof text, "lock + release, p50, %s", now_kind->name);
    row_print(b, &(struct row){"odbc-pair", text, "us",
                               median(p50[0], (size_t)rounds), floor_odbc.name,
                               median(p50[1], (size_t)rounds), RATIO_AT_MOST,
                               1.5});
}

static void url_of(char *ret, size_t cap, const struct bench *b,
                   const struct sql_server *s)
{
    char driver[80] = "";

    for (const char *at = now_kind->driver; *at; at++)
        snprintf(driver + strlen(driver), sizeof driver - strlen(driver),
                 *at == ' ' ? "%%20" : "%c", *at);
    if (s)
        snprintf(ret, cap,
                 "odbc:Driver=%s;Server=127.0.0.1;Port=%d;Database=holdfast;"
                 "Uid=%s",
                 driver, s->port, s->kind->user);
    else
        snprintf(ret, cap, "odbc:Driver=%s;Database=%s/odbc.db", driver,
                 b->dir);
}

void bench_odbc_pair(const struct bench *b)
{
    const int core = core_count() - 1;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct sql_server s;
        char url[700];

        now_kind = &kinds[i];
        if (now_kind->server)
            sql_start(&s, b, now_kind->server, core);
        url_of(url, sizeof url, b, now_kind->server ? &s : NULL);
        pin_to(core);
        holdfast_needed(url);
        measure_driver(b, url);
        if (now_kind->server)
            sql_stop(&s);
    }
}
