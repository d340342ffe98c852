/* format_advisory.c - advisory locks of PostgreSQL, as others take them.
 *
 * A key becomes a number by a rule: our own, which anybody can compute in SQL
 *
 *     SELECT pg_advisory_lock(('x' || left(md5('key'), 16))::bit(64)::bigint)
 *
 * or that of madelson's DistributedLock, which has two spaces of numbers.  Ours
 * are session locks, all of a store on one connection, which the server ends
 * after a lease of silence; behind a pooler of transactions there is no such
 * connection, and a lock there would be anybody's.
 *
 * Knows nothing of waiting: it takes now or not at all. */
#include "sql/format_held.h"

#include <stdio.h>

enum { BY_HOLDFAST, BY_MADELSON };

static const char *const advisory_options[] = {"key_rule", NULL};

/* The numbers, as they stand between parentheses. */
static bool advisory_name(const sql_held *held, const char *key, size_t len,
                          char ret[SQL_LOCK_MAX])
{
    sql_advisory_key number;

    if (held->rule == BY_MADELSON)
        sql_advisory_madelson(key, len, &number);
    else
        sql_advisory_holdfast(key, len, &number);
    if (number.pair)
        snprintf(ret, SQL_LOCK_MAX, "%ld, %ld", (long)number.high,
                 (long)number.low);
    else
        snprintf(ret, SQL_LOCK_MAX, "%lld::bigint", (long long)number.number);
    return true;
}

static bool ask(sql_conn *conn, const char *function, const char *lock,
                bool shared, hf_nsec deadline, bool *ret_yes, hf_error *err)
{
    sql_rows rows = {0};
    char text[200];
    const char *cell;
    bool good;

    snprintf(text, sizeof text, "SELECT %s%s(%.60s)", function,
             shared ? "_shared" : "", lock);
    good = sql_held_say(conn, text, deadline, &rows, err);
    cell = good ? sql_cell(&rows, 0, 0) : NULL;
    *ret_yes = cell && (cell[0] == 't' || cell[0] == '1');
    sql_rows_done(&rows);
    return good;
}

static bool advisory_take(sql_held *held, sql_conn *conn, const char *lock,
                          bool shared, hf_nsec deadline, bool *ret_got,
                          hf_error *err)
{
    (void)held;
    return ask(conn, "pg_try_advisory_lock", lock, shared, deadline, ret_got,
               err);
}

static bool advisory_give(sql_held *held, sql_conn *conn, const char *lock,
                          bool shared, hf_nsec deadline, bool *ret_was)
{
    (void)held;
    return ask(conn, "pg_advisory_unlock", lock, shared, deadline, ret_was,
               NULL);
}

static bool advisory_limit(sql_held *held, sql_conn *conn, int64_t ms,
                           hf_nsec deadline)
{
    char text[80];

    (void)held;
    snprintf(text, sizeof text, "SET idle_session_timeout = %lld",
             (long long)(ms < INT32_MAX ? ms : INT32_MAX));
    return sql_held_say(conn, text, deadline, NULL, NULL);
}

/* Others' locks, under their numbers.  pg_locks has the halves of a number, or
 * the pair; of one lock our own connection's row is passed over. */
static bool advisory_others(sql_held *held, sql_use *use, sql_listing *list)
{
    char lock[80], last[80] = "";

    if (!sql_say(use, "SELECT classid::bigint, objid::bigint, objsubid, mode,"
                      " 'pid ' || pid FROM pg_locks WHERE locktype ="
                      " 'advisory' AND granted AND database = (SELECT oid FROM"
                      " pg_database WHERE datname = current_database())"
                      " ORDER BY 1, 2, 3"))
        return false;
    for (size_t i = 0; i < use->rows.rows; i++) {
        uint32_t high = (uint32_t)sql_number(&use->rows, i, 0, 0);
        uint32_t low = (uint32_t)sql_number(&use->rows, i, 1, 0);
        const char *mode = sql_cell(&use->rows, i, 3);
        const char *who = sql_cell(&use->rows, i, 4);
        bool ours;
        sql_listed *row;

        if (sql_number(&use->rows, i, 2, 0) == 2)
            snprintf(lock, sizeof lock, "%ld, %ld", (long)(int32_t)high,
                     (long)(int32_t)low);
        else
            snprintf(lock, sizeof lock, "%lld::bigint",
                     (long long)((uint64_t)high << 32 | low));
        ours = strcmp(lock, last) != 0 && sql_held_has(held, lock);
        memcpy(last, lock, sizeof last);
        if (ours)
            continue;
        row = sql_list_add(list, lock, strcspn(lock, ":"), who ? who : "");
        if (row && mode && strcmp(mode, "ShareLock") == 0)
            row->mode = HF_SHARED;
    }
    return true;
}

static const sql_held_kind advisory_kind = {.shared = true,
                                            .name = advisory_name,
                                            .take = advisory_take,
                                            .give = advisory_give,
                                            .limit = advisory_limit,
                                            .others = advisory_others};

static int advisory_open(hf_store *store, const hf_url *url, sql_conn *conn,
                         hf_error *err)
{
    const char *rule = hfd_url_option(url, "key_rule");
    sql_held *held;
    bool known;
    int code;

    if (rule && strcmp(rule, "holdfast") != 0 && strcmp(rule, "madelson") != 0)
        return hfd_error(err, HF_EURL, "postgres", 0,
                         "'key_rule' is holdfast or madelson, not '%.40s'",
                         rule);
    known = sql_held_say(conn, "SELECT current_setting('idle_session_timeout')",
                         hfd_now() + HF_MS(5000), NULL, err);
    if (!known)
        return hfd_error(err, HF_ENOTSUP, "postgres", 0,
                         "format=advisory needs PostgreSQL 14 or later: the "
                         "server must end a connection that is silent");
    held = sql_held_new(store, &advisory_kind, err);
    if (!held)
        return HF_ENOMEM;
    held->rule = rule && rule[0] == 'm' ? BY_MADELSON : BY_HOLDFAST;
    code = sql_watch_start(held, err);
    if (code)
        sql_held_close(store);
    return code;
}

const sql_format pg_advisory = {.name = "advisory",
                                .caps = SQL_HELD_CAPS | HF_CAP_SHARED,
                                .options = advisory_options,
                                .open = advisory_open,
                                .close = sql_held_close,
                                .start = sql_held_start,
                                .abandon = sql_held_abandon};
