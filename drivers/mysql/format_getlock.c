/* format_getlock.c - GET_LOCK of MariaDB and MySQL, as others take it.
 *
 * A key becomes a name by a rule: as it is where it is plain and short, else
 * hashed; or by that of madelson's DistributedLock.  The names are the
 * server's, not a database's, and are compared without case: both rules yield
 * lower case. All locks of a store are on one connection, which the server ends
 * after a lease of silence, in whole seconds.
 *
 * Knows nothing of waiting: it takes now or not at all. */
#include "sql/format_held.h"

#include <stdio.h>

enum { BY_HOLDFAST, BY_MADELSON };

static const char *const getlock_options[] = {"key_rule", NULL};

static bool getlock_name(const sql_held *held, const char *key, size_t len,
                         char ret[SQL_LOCK_MAX])
{
    return held->rule == BY_MADELSON ? sql_getlock_madelson(key, len, ret)
                                     : sql_getlock_holdfast(key, len, ret);
}

/* SELECT function(name more); the first cell. */
static bool ask(sql_conn *conn, const char *function, const char *lock,
                const char *more, hf_nsec deadline, int64_t *ret, hf_error *err)
{
    char hex[2 * SQL_GETLOCK_MAX + 1], text[300];
    sql_rows rows = {0};
    bool good;

    sql_put_hex(hex, (const uint8_t *)lock, strnlen(lock, SQL_GETLOCK_MAX));
    snprintf(text, sizeof text, "SELECT %s(CONVERT(X'%s' USING utf8mb4)%s)",
             function, hex, more);
    good = sql_held_say(conn, text, deadline, &rows, err);
    *ret = good ? sql_number(&rows, 0, 0, -1) : -1;
    sql_rows_done(&rows);
    return good;
}

static bool getlock_take(sql_held *held, sql_conn *conn, const char *lock,
                         bool shared, hf_nsec deadline, bool *ret_got,
                         hf_error *err)
{
    int64_t got;
    bool good = ask(conn, "GET_LOCK", lock, ", 0", deadline, &got, err);

    (void)held;
    (void)shared;
    *ret_got = good && got == 1;
    return good;
}

static bool getlock_give(sql_held *held, sql_conn *conn, const char *lock,
                         bool shared, hf_nsec deadline, bool *ret_was)
{
    int64_t was;
    bool good = ask(conn, "RELEASE_LOCK", lock, "", deadline, &was, NULL);

    (void)held;
    (void)shared;
    *ret_was = good && was == 1;
    return good;
}

static bool getlock_limit(sql_held *held, sql_conn *conn, int64_t ms,
                          hf_nsec deadline)
{
    int64_t seconds = (ms + 999) / 1000;
    char text[80];

    (void)held;
    snprintf(text, sizeof text, "SET SESSION wait_timeout = %lld",
             (long long)(seconds < 31536000 ? seconds : 31536000));
    return sql_held_say(conn, text, deadline, NULL, NULL);
}

static const sql_held_kind getlock_kind = {.name = getlock_name,
                                           .take = getlock_take,
                                           .give = getlock_give,
                                           .limit = getlock_limit};

static int getlock_open(hf_store *store, const hf_url *url, sql_conn *conn,
                        hf_error *err)
{
    const char *rule = hfd_url_option(url, "key_rule");
    sql_held *held;
    int code;

    (void)conn;
    if (rule && strcmp(rule, "holdfast") != 0 && strcmp(rule, "madelson") != 0)
        return hfd_error(err, HF_EURL, "mysql", 0,
                         "'key_rule' is holdfast or madelson, not '%.40s'",
                         rule);
    held = sql_held_new(store, &getlock_kind, err);
    if (!held)
        return HF_ENOMEM;
    held->rule = rule && rule[0] == 'm' ? BY_MADELSON : BY_HOLDFAST;
    code = sql_watch_start(held, err);
    if (code)
        sql_held_close(store);
    return code;
}

const sql_format my_getlock = {.name = "getlock",
                               .caps = SQL_HELD_CAPS,
                               .options = getlock_options,
                               .open = getlock_open,
                               .close = sql_held_close,
                               .start = sql_held_start,
                               .abandon = sql_held_abandon};
