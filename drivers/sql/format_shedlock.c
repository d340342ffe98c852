/* format_shedlock.c - ShedLock's table `shedlock`.
 *
 * A row per name with the end of its lock, by the database's clock as UTC; the
 * lock is free when that has passed.  The row is never deleted: each ShedLock
 * process remembers that it exists and only updates from then on, so that one
 * that is missing could not be taken again.  Giving back is setting the end to
 * now, or to what at-least asks for.
 *
 * locked_by is the host's name with ShedLock, the same for all on one host;
 * ours ends with the id of the hold, so that no other's unlock is about it, and
 * an unlock of ours is about nobody else's. */
#include "format.h"

#include <stdio.h>
#include <unistd.h>

static const char *const shedlock_options[] = {"table", "locked_by", NULL};

/* NAME/22 letters; kept: NAME+22 letters. */
static void shedlock_owner(const sql_peer *peer, const hf_id *rid, bool kept,
                           char ret[SQL_PEER_OWNER])
{
    char id[SQL_ID_LEN + 1];

    sql_id_text(rid, id);
    snprintf(ret, SQL_PEER_OWNER, "%s%c%s", peer->who, kept ? '+' : '/', id);
}

/* Another process of ours may have another name before it. */
static bool shedlock_rid(const sql_peer *peer, const char *owner, hf_id *ret,
                         bool *ret_kept)
{
    size_t len = strlen(owner);
    char mark;

    (void)peer;
    if (len <= SQL_ID_LEN)
        return false;
    mark = owner[len - SQL_ID_LEN - 1];
    *ret_kept = mark == '+';
    return (mark == '/' || mark == '+') &&
           sql_id_from(owner + len - SQL_ID_LEN, SQL_ID_LEN, ret);
}

static const sql_peer_kind shedlock_kind = {.live_us = 1,
                                            .key_most = 64,
                                            .owner = shedlock_owner,
                                            .rid_of = shedlock_rid};

#define MINE "name IN (@keys) AND locked_by IN (@owners) AND lock_until > @now"

static const char *const shedlock_texts[STEP_COUNT] = {
    [STEP_TAKE] = "INSERT @ignore INTO @table (name, lock_until, locked_at,"
                  " locked_by) VALUES (@key, @until, @now, @owner)@nothing",
    [STEP_STEAL] = "UPDATE @table SET lock_until = @until, locked_at = @now,"
                   " locked_by = @owner WHERE name = @key"
                   " AND lock_until <= @now",
    [STEP_LOOK] = "SELECT name, locked_by, @left, @clock FROM @table"
                  " WHERE name IN (@keys)",
    [STEP_EXTEND] = "UPDATE @table SET lock_until = @until WHERE " MINE,
    [STEP_DROP] = "UPDATE @table SET lock_until = @now WHERE " MINE,
    [STEP_KEEP] = "UPDATE @table SET lock_until = @until, locked_by = ?1"
                  " WHERE " MINE,
    [STEP_ALL] = "SELECT name, locked_by, @left, @clock FROM @table"
                 " WHERE lock_until > @now",
    [STEP_BREAK] = "UPDATE @table SET lock_until = @now WHERE name = @key"
                   " AND lock_until > @now",
    [STEP_CLOCK] = "SELECT @clock",
};

static void put_words(sql_peer *peer, const sql_dialect *dialect)
{
    sql_peer_word(peer, "table", "%s", peer->name);
    if (sql_is_postgres(dialect)) {
        sql_peer_word(peer, "ignore", " ");
        sql_peer_word(peer, "nothing", " ON CONFLICT DO NOTHING");
        sql_peer_word(peer, "now", "timezone('utc', clock_timestamp())");
        sql_peer_word(peer, "until",
                      "(@now + CAST(?2 AS bigint) * interval '1 microsecond')");
        sql_peer_word(peer, "left",
                      "CAST(extract(epoch FROM lock_until - @now) * 1000000"
                      " AS bigint)");
        sql_peer_word(peer, "clock",
                      "CAST(extract(epoch FROM clock_timestamp()) * 1000000"
                      " AS bigint)");
    } else {
        sql_peer_word(peer, "ignore", "IGNORE");
        sql_peer_word(peer, "nothing", " ");
        sql_peer_word(peer, "now", "UTC_TIMESTAMP(3)");
        sql_peer_word(peer, "until", "(@now + INTERVAL ?2 MICROSECOND)");
        sql_peer_word(peer, "left",
                      "TIMESTAMPDIFF(MICROSECOND, @now, lock_until)");
        sql_peer_word(peer, "clock",
                      "TIMESTAMPDIFF(MICROSECOND, '1970-01-01',"
                      " UTC_TIMESTAMP(6))");
    }
}

static void shedlock_make(char *ret, size_t cap, const char *table, bool mysql)
{
    snprintf(ret, cap,
             mysql ? "CREATE TABLE %s (name VARCHAR(64) NOT NULL,"
                     " lock_until TIMESTAMP(3) NOT NULL,"
                     " locked_at TIMESTAMP(3) NOT NULL DEFAULT"
                     " CURRENT_TIMESTAMP(3), locked_by VARCHAR(255) NOT NULL,"
                     " PRIMARY KEY (name)) ENGINE=InnoDB"
                   : "CREATE TABLE %s (name VARCHAR(64) NOT NULL,"
                     " lock_until TIMESTAMP NOT NULL,"
                     " locked_at TIMESTAMP NOT NULL,"
                     " locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))",
             table);
}

static void shedlock_ddl(const sql_dialect *dialect, const char *schema,
                         const char *prefix,
                         void (*emit)(void *to, const char *text), void *to)
{
    char table[160], make[600], text[602];

    (void)prefix;
    sql_table_name(schema, "shedlock", false, table);
    shedlock_make(make, sizeof make, table, sql_is_mysql(dialect));
    snprintf(text, sizeof text, "%s;", make);
    emit(to, "-- ShedLock; rows are never deleted.");
    emit(to, text);
}

static int shedlock_open(hf_store *store, const hf_url *url, sql_conn *conn,
                         hf_error *err)
{
    char table[64], make[600], host[65] = "holdfast";
    sql_peer *peer;
    int code;

    if (!sql_is_postgres(store->port->dialect) &&
        !sql_is_mysql(store->port->dialect))
        return sql_wrong_database(store, err);
    peer = sql_peer_new(store, &shedlock_kind, err);
    if (!peer)
        return HF_ENOMEM;
    if (gethostname(host, sizeof host - 1) != 0 || strpbrk(host, "'\\"))
        memcpy(host, "holdfast", 9);
    code = sql_text_option(url, "locked_by", host, 100, peer->who, err);
    if (code == 0)
        code = sql_name_option(url, "table", "shedlock", 60, table, err);
    if (code == 0) {
        sql_table_name(store->schema, table, false, peer->name);
        shedlock_make(make, sizeof make, peer->name,
                      sql_is_mysql(store->port->dialect));
        code = sql_peer_make(store, conn, make, peer->name, "lock_until", err);
    }
    if (code == 0) {
        put_words(peer, store->port->dialect);
        code = sql_peer_texts(store, shedlock_texts, err);
    }
    if (code)
        sql_peer_close(store);
    return code;
}

const sql_format sql_shedlock = {.name = "shedlock",
                                 .caps = SQL_PEER_CAPS,
                                 .options = shedlock_options,
                                 .open = shedlock_open,
                                 .close = sql_peer_close,
                                 .start = sql_peer_start,
                                 .ddl = shedlock_ddl};
