/* format_dlock.c - dlock's table "DLCK", on PostgreSQL.
 *
 * A row is a lock: a key, a handle, its beginning by the database's clock in
 * the time zone of the Java side (zone=), and whole seconds.  Who finds it
 * expired deletes it by the handle that he has read, and inserts his own.
 *
 * The format has no renewal.  Ours changes the beginning and the handle
 * together: a peer that has read the old row and is about to delete it by its
 * handle finds nothing.  So a handle is the id of the hold, by which we know
 * it, and a tail that is new each time.  A lease that is no whole number of
 * seconds begins a little earlier instead. */
#include "format.h"

#include <stdio.h>

enum { HANDLE_HEAD = SQL_ID_LEN + 1 }; /* the id and a '.', or a ':' */

static const char *const dlock_options[] = {"table", "zone", NULL};

static void dlock_owner(const sql_peer *peer, const hf_id *rid, bool kept,
                        char ret[SQL_PEER_OWNER])
{
    (void)peer;
    sql_id_text(rid, ret);
    ret[SQL_ID_LEN] = kept ? ':' : '.';
    ret[HANDLE_HEAD] = '\0';
}

static bool dlock_rid(const sql_peer *peer, const char *owner, hf_id *ret,
                      bool *ret_kept)
{
    (void)peer;
    if (strlen(owner) < HANDLE_HEAD)
        return false;
    *ret_kept = owner[SQL_ID_LEN] == ':';
    return (*ret_kept || owner[SQL_ID_LEN] == '.') &&
           sql_id_from(owner, SQL_ID_LEN, ret);
}

static const sql_peer_kind dlock_kind = {.steal_deletes = true,
                                         .whole_seconds = true,
                                         .key_most = 1000,
                                         .owner_len = HANDLE_HEAD,
                                         .owner = dlock_owner,
                                         .rid_of = dlock_rid};

#define HEAD "left(\"LCK_HNDL_ID\", 23)"
#define MINE                                                                   \
    "\"LCK_KEY\" IN (@keys) AND " HEAD " IN (@owners) AND @ends >= @now"
#define BEGIN_AND_SPAN                                                         \
    "\"CREATED_TIME\" = @created, \"EXPIRE_SEC\" = CAST(?4 AS integer)"

static const char *const dlock_texts[STEP_COUNT] = {
    [STEP_TAKE] =
        "INSERT INTO @table (\"LCK_KEY\", \"LCK_HNDL_ID\", \"CREATED_TIME\","
        " \"EXPIRE_SEC\") VALUES (@key, CAST(@owner AS text) || CAST(?1 AS"
        " text), @created, CAST(?4 AS integer)) ON CONFLICT DO NOTHING",
    [STEP_STEAL] = "DELETE FROM @table WHERE \"LCK_HNDL_ID\" = ?5",
    [STEP_LOOK] = "SELECT \"LCK_KEY\", \"LCK_HNDL_ID\", @left, @clock"
                  " FROM @table WHERE \"LCK_KEY\" IN (@keys)",
    [STEP_EXTEND] =
        "UPDATE @table SET " BEGIN_AND_SPAN ", \"LCK_HNDL_ID\" = " HEAD
        " || CAST(?1 AS text) WHERE " MINE,
    [STEP_DROP] = "DELETE FROM @table WHERE " MINE,
    [STEP_KEEP] = "UPDATE @table SET " BEGIN_AND_SPAN ", \"LCK_HNDL_ID\" ="
                  " CAST(?1 AS text) || right(\"LCK_HNDL_ID\", 16) WHERE " MINE,
    [STEP_TIDY] = "DELETE FROM @table WHERE \"LCK_KEY\" = @key AND " HEAD
                  " = @owner AND @ends < @now",
    [STEP_ALL] = "SELECT \"LCK_KEY\", \"LCK_HNDL_ID\", @left, @clock"
                 " FROM @table WHERE @ends >= @now",
    [STEP_BREAK] = "DELETE FROM @table WHERE \"LCK_KEY\" = @key"
                   " AND @ends >= @now",
    [STEP_CLOCK] = "SELECT @clock",
};

static void put_words(sql_peer *peer, const char *zone)
{
    sql_peer_word(peer, "table", "%s", peer->name);
    sql_peer_word(peer, "now", "(clock_timestamp() AT TIME ZONE %s)", zone);
    sql_peer_word(peer, "created",
                  "(@now + CAST(?2 AS bigint) * interval '1 microsecond' -"
                  " CAST(?4 AS integer) * interval '1 second')");
    sql_peer_word(peer, "ends",
                  "(\"CREATED_TIME\" + \"EXPIRE_SEC\" * interval '1 second')");
    sql_peer_word(peer, "left",
                  "CAST(extract(epoch FROM @ends - @now) * 1000000 AS bigint)");
    sql_peer_word(peer, "clock",
                  "CAST(extract(epoch FROM clock_timestamp()) * 1000000"
                  " AS bigint)");
}

static void dlock_make(char *ret, size_t cap, const char *table,
                       const char *name)
{
    snprintf(ret, cap,
             "CREATE TABLE %s (\"LCK_KEY\" varchar(1000) PRIMARY KEY,"
             " \"LCK_HNDL_ID\" varchar(100) NOT NULL CONSTRAINT"
             " \"%s_HNDL_UX\" UNIQUE, \"CREATED_TIME\" TIMESTAMP NOT NULL,"
             " \"EXPIRE_SEC\" integer NOT NULL)",
             table, name);
}

static void dlock_ddl(const sql_dialect *dialect, const char *schema,
                      const char *prefix,
                      void (*emit)(void *to, const char *text), void *to)
{
    char table[160], make[600], text[602];

    (void)dialect;
    (void)prefix;
    sql_table_name(schema, "DLCK", true, table);
    dlock_make(make, sizeof make, table, "DLCK");
    snprintf(text, sizeof text, "%s;", make);
    emit(to, "-- dlock; its names are quoted, in upper case.");
    emit(to, text);
}

static int dlock_open(hf_store *store, const hf_url *url, sql_conn *conn,
                      hf_error *err)
{
    char table[64], zone[64], at_zone[SQL_ZONE_LEN], make[600];
    sql_rows rows = {0};
    sql_peer *peer;
    int code;

    if (!sql_is_postgres(store->port->dialect))
        return sql_wrong_database(store, err);
    peer = sql_peer_new(store, &dlock_kind, err);
    if (!peer)
        return HF_ENOMEM;
    code = sql_zone_option(url, zone, err);
    if (code == 0)
        code = sql_name_option(url, "table", "DLCK", 50, table, err);
    if (code == 0) {
        sql_table_name(store->schema, table, true, peer->name);
        dlock_make(make, sizeof make, peer->name, table);
        code = sql_peer_make(store, conn, make, peer->name, "\"LCK_HNDL_ID\"",
                             err);
    }
    sql_postgres_zone(code == 0 && zone[0] ? zone : "UTC", at_zone);
    if (code == 0 && zone[0]) {
        snprintf(make, sizeof make, "SELECT clock_timestamp() AT TIME ZONE %s",
                 at_zone);
        if (conn->port->class->say(conn, make, hfd_now() + HF_MS(5000), &rows,
                                   err) != SQL_DONE)
            code = hfd_error(err, HF_EURL, store->port->class->driver, 0,
                             "the database does not know the zone '%s'", zone);
        sql_rows_done(&rows);
    }
    if (code == 0) {
        put_words(peer, at_zone);
        code = sql_peer_texts(store, dlock_texts, err);
    }
    if (code)
        sql_peer_close(store);
    return code;
}

const sql_format sql_dlock = {.name = "dlock",
                              .caps = SQL_PEER_CAPS,
                              .options = dlock_options,
                              .open = dlock_open,
                              .close = sql_peer_close,
                              .start = sql_peer_start,
                              .ddl = dlock_ddl};
