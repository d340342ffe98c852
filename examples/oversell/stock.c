/* stock.c - the shop's database, as plain as a shop would write it.
 *
 * Knows nothing of locks.  A sale is a read, some thought, and a write: three
 * steps, between which others may come.  The fenced write is an ordinary
 * UPDATE with one more condition; this is all that a database must do to be
 * protected from a holder that comes back too late. */
#include "stock.h"

#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char stock_fence[] = "WHERE token <";

/* Of the locks; NULL: in a file beside the shop's. */
static const char *locks;

struct stock {
    sqlite3 *db;
};

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

static void run_sql(stock *s, const char *sql)
{
    int rc = SQLITE_BUSY;

    /* Changing to WAL answers busy at once when two do it together. */
    for (int i = 0; i < 2000 && rc == SQLITE_BUSY; i++) {
        if (i > 0)
            usleep(1000);
        rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
    }
    if (rc != SQLITE_OK)
        die("'%s': %s", sql, sqlite3_errmsg(s->db));
}

static int read_number(stock *s, const char *sql)
{
    sqlite3_stmt *st;
    int n;

    if (sqlite3_prepare_v2(s->db, sql, -1, &st, NULL) != SQLITE_OK ||
        sqlite3_step(st) != SQLITE_ROW)
        die("'%s': %s", sql, sqlite3_errmsg(s->db));
    n = sqlite3_column_int(st, 0);
    sqlite3_finalize(st);
    return n;
}

bool stock_choose(const char *where)
{
    locks = where;
    return where == NULL || strchr(where, ':') != NULL;
}

void stock_leave_nothing(void)
{
    /* Its files are in the folder that the program removes; of a store of
     * locks that was given nothing but its own tables or keys is left. */
}

void stock_locks(char *ret, size_t cap, const char *path)
{
    int n = locks ? snprintf(ret, cap, "%s", locks)
                  : snprintf(ret, cap, "sqlite:%s", path);

    if (n < 0 || (size_t)n >= cap)
        die("the URL '%s' is too long", locks ? locks : path);
}

stock *stock_open(const char *path)
{
    stock *s = calloc(1, sizeof *s);

    if (s == NULL || sqlite3_open(path, &s->db) != SQLITE_OK)
        die("cannot open the shop's database '%s'", path);
    sqlite3_busy_timeout(s->db, 10000);
    run_sql(s, "PRAGMA journal_mode = WAL");
    run_sql(s, "PRAGMA synchronous = NORMAL");
    run_sql(s, "CREATE TABLE IF NOT EXISTS stock"
               " (left INTEGER NOT NULL, token INTEGER NOT NULL)");
    run_sql(s, "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY)");
    return s;
}

void stock_close(stock *s)
{
    sqlite3_close(s->db);
    free(s);
}

void stock_fill(stock *s, int items)
{
    char sql[80];

    snprintf(sql, sizeof sql, "INSERT INTO stock VALUES (%d, 0)", items);
    run_sql(s, "DELETE FROM stock");
    run_sql(s, "DELETE FROM orders");
    run_sql(s, sql);
}

int stock_left(stock *s)
{
    return read_number(s, "SELECT left FROM stock");
}

int stock_orders(stock *s)
{
    return read_number(s, "SELECT count(*) FROM orders");
}

/* One UPDATE with two parameters; says whether it changed the row. */
static bool update_stock(stock *s, const char *sql, int left, uint64_t token)
{
    sqlite3_stmt *st;
    bool changed;

    run_sql(s, "BEGIN IMMEDIATE");
    if (sqlite3_prepare_v2(s->db, sql, -1, &st, NULL) != SQLITE_OK ||
        sqlite3_bind_int(st, 1, left) != SQLITE_OK ||
        sqlite3_bind_int64(st, 2, (sqlite3_int64)token) != SQLITE_OK ||
        sqlite3_step(st) != SQLITE_DONE)
        die("'%s': %s", sql, sqlite3_errmsg(s->db));
    changed = sqlite3_changes(s->db) == 1;
    sqlite3_finalize(st);
    if (changed)
        run_sql(s, "INSERT INTO orders DEFAULT VALUES");
    run_sql(s, "COMMIT");
    return changed;
}

void stock_sell(stock *s, int left)
{
    /* The token is not looked at: last writer wins. */
    update_stock(s, "UPDATE stock SET left = ?1, token = max(token, ?2)", left,
                 0);
}

bool stock_sell_fenced(stock *s, int left, uint64_t token)
{
    return update_stock(
        s, "UPDATE stock SET left = ?1, token = ?2 WHERE token < ?2", left,
        token);
}
