/* stock_postgres.c - the shop's database on PostgreSQL, locks and stock in one.
 *
 * The same shop as stock.c, with a guard instead of a column of its own: the
 * transaction that sells begins with hf_guard(), which `holdfast ddl postgres
 * --guard` prints and which ends it if a later holder has been there.  All of
 * it, locks too, is in a schema of its own that is dropped at the end.  Knows
 * nothing of locks but the guard. */
#include "stock.h"

#include <holdfast/holdfast.h>
#include <libpq-fe.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCHEMA "holdfast_demo"

const char stock_fence[] = "hf_guard with";

struct stock {
    PGconn *db;
    char name[40]; /* of this shelf: "shop", "plain", "fenced" */
};

/* As given on the command line, without options. */
static char server[300];

void die(const char *format, ...)
{
    va_list args;

    fputs("oversell: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    fflush(NULL);
    _exit(2);
}

/* A connection that talks to our schema. */
static PGconn *connect_server(void)
{
    PGconn *db = PQconnectdb(server);
    PGresult *r;

    if (PQstatus(db) != CONNECTION_OK)
        die("cannot reach the database: %s", PQerrorMessage(db));
    r = PQexec(db, "SET search_path = " SCHEMA
                   "; SET client_min_messages = warning");
    if (PQresultStatus(r) != PGRES_COMMAND_OK)
        die("%s", PQerrorMessage(db));
    PQclear(r);
    return db;
}

static void run_sql(PGconn *db, const char *sql)
{
    PGresult *r = PQexec(db, sql);
    ExecStatusType status = PQresultStatus(r);

    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        die("'%.80s': %s", sql, PQerrorMessage(db));
    PQclear(r);
}

/* printf for statements; names here are our own words. */
static const char *say(char ret[200], const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static const char *say(char ret[200], const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(ret, 200, format, args);
    va_end(args);
    return ret;
}

static int read_number(stock *s, const char *sql)
{
    PGresult *r = PQexec(s->db, sql);
    int n;

    if (PQresultStatus(r) != PGRES_TUPLES_OK || PQntuples(r) != 1)
        die("'%s': %s", sql, PQerrorMessage(s->db));
    n = (int)strtol(PQgetvalue(r, 0, 0), NULL, 10);
    PQclear(r);
    return n;
}

static void keep_line(const char *line, void *user)
{
    char *text = user;
    size_t used = strlen(text);

    snprintf(text + used, 8000 - used, "%s\n", line);
}

bool stock_choose(const char *where)
{
    static char guard[8000];
    hf_error err;
    PGconn *db;

    if (where == NULL || strncmp(where, "postgres", 8) != 0)
        return false;
    snprintf(server, sizeof server, "%.*s", (int)strcspn(where, "?"), where);
    if (hf_ddl("postgres:?schema=" SCHEMA, true, keep_line, guard, &err) != 0)
        die("%s", err.text);
    stock_leave_nothing();
    db = connect_server();
    run_sql(db, "CREATE SCHEMA " SCHEMA);
    run_sql(db, guard);
    PQfinish(db);
    return true;
}

void stock_leave_nothing(void)
{
    PGconn *db = connect_server();

    run_sql(db, "DROP SCHEMA IF EXISTS " SCHEMA " CASCADE");
    PQfinish(db);
}

void stock_locks(char *ret, size_t cap, const char *path)
{
    (void)path;
    snprintf(ret, cap, "%s?schema=" SCHEMA, server);
}

stock *stock_open(const char *path)
{
    stock *s = calloc(1, sizeof *s);
    const char *name = strrchr(path, '/');

    if (s == NULL || name == NULL)
        die("no name in '%s'", path);
    snprintf(s->name, sizeof s->name, "%.*s", (int)strcspn(name + 1, "."),
             name + 1);
    s->db = connect_server();
    return s;
}

void stock_close(stock *s)
{
    PQfinish(s->db);
    free(s);
}

void stock_fill(stock *s, int items)
{
    char sql[200];

    run_sql(s->db,
            say(sql, "DROP TABLE IF EXISTS %s, %s_orders", s->name, s->name));
    run_sql(s->db, say(sql, "CREATE TABLE %s AS SELECT %d AS left_over",
                       s->name, items));
    run_sql(s->db, say(sql, "CREATE TABLE %s_orders (id serial PRIMARY KEY)",
                       s->name));
}

int stock_left(stock *s)
{
    char sql[200];

    return read_number(s, say(sql, "SELECT left_over FROM %s", s->name));
}

int stock_orders(stock *s)
{
    char sql[200];

    return read_number(s, say(sql, "SELECT count(*) FROM %s_orders", s->name));
}

static void write_sale(stock *s, int left)
{
    char sql[200];

    run_sql(s->db, say(sql, "UPDATE %s SET left_over = %d", s->name, left));
    run_sql(s->db, say(sql, "INSERT INTO %s_orders DEFAULT VALUES", s->name));
    run_sql(s->db, "COMMIT");
}

void stock_sell(stock *s, int left)
{
    run_sql(s->db, "BEGIN");
    write_sale(s, left);
}

bool stock_sell_fenced(stock *s, int left, uint64_t token)
{
    char sql[200];
    PGresult *r;
    bool old;

    run_sql(s->db, "BEGIN");
    r = PQexec(s->db, say(sql, "SELECT hf_guard('%s', %llu)", s->name,
                          (unsigned long long)token));
    old = PQresultStatus(r) != PGRES_TUPLES_OK;
    if (old && strcmp(PQresultErrorField(r, PG_DIAG_SQLSTATE), "HF001") != 0)
        die("'%s': %s", sql, PQerrorMessage(s->db));
    PQclear(r);
    if (old)
        run_sql(s->db, "ROLLBACK");
    else
        write_sale(s, left);
    return !old;
}
