/* format_spring.c - Spring Integration's JdbcLockRegistry: INT_LOCK.
 *
 * One table, three generations.  Up to 6.5 a row has its beginning, and whoever
 * wants it decides by a time to live of his own; before 6.0 that beginning is
 * local time of the JVM (a: generation=a&zone=), since then UTC (b).  Since 7.0
 * a row has its end (c), which is told by the column EXPIRED_AFTER.
 *
 * An end is an end in all of them: in a and b the beginning is written so that
 * it lies ttl_ms, the peers' time to live, before it, perhaps in the future.
 * In c the beginning is refreshed too, which peers of that generation do not
 * look at and those of the one before do.
 *
 * The clock is the client's, on both sides: peers compare with theirs, and so
 * do we.  Clocks that are apart by more than a lease's margin are two holders;
 * the format has no way around that, and neither have we. */
#include "format.h"

#include <stdio.h>

static const char *const spring_options[] = {
    "region", "client_id", "ttl_ms", "generation", "zone", NULL};

/* ---- Owners ------------------------------------------------------------- */

/* The rid as a UUID; after a client's name as 22 letters: 36 characters at
 * most.  What keeps a lock after a leave has a '.' in that place. */
static void spring_owner(const sql_peer *peer, const hf_id *rid, bool kept,
                         char ret[SQL_PEER_OWNER])
{
    static const uint8_t groups[] = {4, 2, 2, 2, 6};
    const uint8_t *from = rid->bytes;
    char id[SQL_ID_LEN + 1], *at = ret;

    if (peer->who[0]) {
        sql_id_text(rid, id);
        snprintf(ret, SQL_PEER_OWNER, "%s%c%s", peer->who, kept ? '.' : ':',
                 id);
        return;
    }
    for (size_t i = 0; i < sizeof groups; i++) {
        if (i > 0)
            *at++ = kept ? '.' : '-';
        at = sql_put_hex(at, from, groups[i]);
        from += groups[i];
    }
}

static bool read_uuid(const char *text, hf_id *ret)
{
    size_t digits = 0;

    for (; *text && digits < 32; text++) {
        const char *found = strchr("0123456789abcdef", *text);
        unsigned digit;

        if (!found)
            continue;
        digit = (unsigned)(found - strchr("0123456789abcdef", '0'));
        if (digits % 2 == 0)
            ret->bytes[digits / 2] = (uint8_t)(digit << 4);
        else
            ret->bytes[digits / 2] |= (uint8_t)digit;
        digits++;
    }
    return digits == 32;
}

/* Written anew from what was read it must be the same text. */
static bool spring_rid(const sql_peer *peer, const char *owner, hf_id *ret,
                       bool *ret_kept)
{
    char again[SQL_PEER_OWNER];
    size_t who = strlen(peer->who), len = strlen(owner);

    while (len > 0 && owner[len - 1] == ' ')
        len--;
    if (peer->who[0] ? !(len == who + 1 + SQL_ID_LEN &&
                         sql_id_from(owner + who + 1, SQL_ID_LEN, ret))
                     : !read_uuid(owner, ret))
        return false;
    for (int kept = 0; kept < 2; kept++) {
        spring_owner(peer, ret, kept == 1, again);
        *ret_kept = kept == 1;
        if (strlen(again) == len && memcmp(again, owner, len) == 0)
            return true;
    }
    return false;
}

static const sql_peer_kind spring_kind = {.client_clock = true,
                                          .hidden = true,
                                          .owner = spring_owner,
                                          .rid_of = spring_rid};

/* ---- Statements --------------------------------------------------------- */

#define ROW "REGION = @region AND LOCK_KEY "
#define LIVE " AND @ends >= @now"
#define MINE "CLIENT_ID IN (@owners)"

static const char *const spring_texts[STEP_COUNT] = {
    [STEP_TAKE] =
        "INSERT @ignore INTO @table (REGION, LOCK_KEY, CLIENT_ID, CREATED_DATE"
        "@column) VALUES (@region, @key, @owner, @created@value)@nothing",
    [STEP_STEAL] = "UPDATE @table SET CLIENT_ID = @owner, CREATED_DATE ="
                   " @created@set WHERE " ROW "= @key AND @ends < @now",
    [STEP_LOOK] =
        "SELECT LOCK_KEY, CLIENT_ID, @left FROM @table WHERE " ROW "IN (@keys)",
    [STEP_EXTEND] = "UPDATE @table SET CREATED_DATE = @created@set WHERE " ROW
                    "IN (@keys) AND " MINE LIVE,
    [STEP_DROP] = "DELETE FROM @table WHERE " ROW "IN (@keys) AND " MINE LIVE,
    [STEP_KEEP] = "UPDATE @table SET CLIENT_ID = ?1, CREATED_DATE ="
                  " @created@set WHERE " ROW "= @key AND CLIENT_ID = "
                  "@owner" LIVE,
    [STEP_TIDY] = "DELETE FROM @table WHERE " ROW "= @key AND CLIENT_ID = "
                  "@owner AND @ends < @now",
    [STEP_ALL] = "SELECT LOCK_KEY, CLIENT_ID, @left FROM @table"
                 " WHERE REGION = @region" LIVE,
    [STEP_BREAK] = "DELETE FROM @table WHERE " ROW "= @key" LIVE,
    [STEP_CLOCK] = "SELECT 1",
};

typedef struct spring_way {
    char generation; /* 'a', 'b', 'c' */
    char zone[64], region[101];
    int64_t ttl_ms;
} spring_way;

static void put_postgres_words(sql_peer *peer, const spring_way *way)
{
    char zone[SQL_ZONE_LEN];

    sql_postgres_zone(way->zone, zone);
    sql_peer_word(peer, "ignore", " ");
    sql_peer_word(peer, "nothing", " ON CONFLICT DO NOTHING");
    if (way->generation == 'a') {
        sql_peer_word(peer, "until",
                      "(CAST(?2 AS timestamp) AT TIME ZONE 'UTC' AT TIME ZONE"
                      " %s)",
                      zone);
        sql_peer_word(peer, "now",
                      "(CAST(?3 AS timestamp) AT TIME ZONE 'UTC' AT TIME ZONE"
                      " %s)",
                      zone);
    } else {
        sql_peer_word(peer, "until", "CAST(?2 AS timestamp)");
        sql_peer_word(peer, "now", "CAST(?3 AS timestamp)");
    }
    if (way->generation != 'c') {
        sql_peer_word(peer, "ends",
                      "(CREATED_DATE + interval '%lld milliseconds')",
                      (long long)way->ttl_ms);
        sql_peer_word(peer, "created",
                      "(@until - interval '%lld milliseconds')",
                      (long long)way->ttl_ms);
    }
    sql_peer_word(peer, "left",
                  "CAST(extract(epoch FROM @ends - @now) * 1000000 AS bigint)");
}

static void put_mysql_words(sql_peer *peer, const spring_way *way)
{
    sql_peer_word(peer, "ignore", "IGNORE");
    sql_peer_word(peer, "nothing", " ");
    if (way->generation == 'a') {
        sql_peer_word(peer, "until",
                      "CONVERT_TZ(CAST(?2 AS DATETIME(6)), '+00:00', '%s')",
                      way->zone);
        sql_peer_word(peer, "now",
                      "CONVERT_TZ(CAST(?3 AS DATETIME(6)), '+00:00', '%s')",
                      way->zone);
    } else {
        sql_peer_word(peer, "until", "CAST(?2 AS DATETIME(6))");
        sql_peer_word(peer, "now", "CAST(?3 AS DATETIME(6))");
    }
    if (way->generation != 'c') {
        sql_peer_word(peer, "ends",
                      "(CREATED_DATE + INTERVAL %lld MICROSECOND)",
                      (long long)way->ttl_ms * 1000);
        sql_peer_word(peer, "created", "(@until - INTERVAL %lld MICROSECOND)",
                      (long long)way->ttl_ms * 1000);
    }
    sql_peer_word(peer, "left", "TIMESTAMPDIFF(MICROSECOND, @now, @ends)");
}

static void put_words(sql_peer *peer, const sql_dialect *dialect,
                      const spring_way *way)
{
    bool ends = way->generation == 'c';

    sql_peer_word(peer, "table", "%s", peer->name);
    sql_peer_word(peer, "region", "'%s'", way->region);
    sql_peer_word(peer, "column", "%s", ends ? ", EXPIRED_AFTER" : " ");
    sql_peer_word(peer, "value", "%s", ends ? ", @until" : " ");
    sql_peer_word(peer, "set", "%s", ends ? ", EXPIRED_AFTER = @until" : " ");
    if (ends) {
        sql_peer_word(peer, "ends", "EXPIRED_AFTER");
        sql_peer_word(peer, "created", "@now");
    }
    if (sql_is_postgres(dialect))
        put_postgres_words(peer, way);
    else
        put_mysql_words(peer, way);
}

/* ---- The table ---------------------------------------------------------- */

static void spring_make(char *ret, size_t cap, const char *table, bool mysql,
                        char generation)
{
    const char *time = mysql ? "DATETIME(6)" : "TIMESTAMP";

    snprintf(ret, cap,
             "CREATE TABLE %s (LOCK_KEY CHAR(36) NOT NULL,"
             " REGION VARCHAR(100) NOT NULL, CLIENT_ID CHAR(36),"
             " CREATED_DATE %s NOT NULL%s%s%s,"
             " PRIMARY KEY (LOCK_KEY, REGION))%s",
             table, time, generation == 'c' ? ", EXPIRED_AFTER " : "",
             generation == 'c' ? time : "",
             generation == 'c' ? " NOT NULL" : "",
             mysql ? " ENGINE=InnoDB" : "");
}

static void spring_ddl(const sql_dialect *dialect, const char *schema,
                       const char *prefix,
                       void (*emit)(void *to, const char *text), void *to)
{
    char name[80], table[160], make[600], text[602];

    snprintf(name, sizeof name, "%.60sLOCK",
             strcmp(prefix, SQL_PREFIX) == 0 ? "INT_" : prefix);
    sql_table_name(schema, name, false, table);
    spring_make(make, sizeof make, table, sql_is_mysql(dialect), 'c');
    snprintf(text, sizeof text, "%s;", make);
    emit(to, "-- Spring Integration 7 and later; 6.5 and earlier have no "
             "EXPIRED_AFTER.");
    emit(to, text);
}

static int read_way(spring_way *way, const hf_url *url, hf_error *err)
{
    const char *generation = hfd_url_option(url, "generation");
    int code = sql_zone_option(url, way->zone, err);

    way->ttl_ms = 10000;
    if (code == 0)
        code = sql_text_option(url, "region", "DEFAULT", 100, way->region, err);
    if (code == 0)
        code = hfd_url_number(url, "ttl_ms", 100, INT64_C(86400000),
                              &way->ttl_ms, err);
    if (code)
        return code;
    if (generation &&
        (strlen(generation) != 1 || *generation < 'a' || *generation > 'c'))
        return hfd_error(err, HF_EURL, "sql", 0,
                         "'generation' is a (before 6.0), b (6.0 to 6.5) or c "
                         "(7.0 and later), not '%.20s'",
                         generation);
    way->generation = generation ? *generation : '\0';
    if ((way->generation == 'a') != (way->zone[0] != '\0'))
        return hfd_error(err, HF_EURL, "sql", 0,
                         "generation=a and zone= go together: the zone of the "
                         "JVMs that wrote local time");
    return 0;
}

/* Which generation the table is of, and whether that is the one wanted. */
static int find_generation(hf_store *store, spring_way *way, sql_conn *conn,
                           hf_error *err)
{
    const sql_peer *peer = sql_peer_of(store);
    bool mysql = sql_is_mysql(store->port->dialect), ends;
    char make[600];
    int code;

    spring_make(make, sizeof make, peer->name, mysql,
                way->generation ? way->generation : 'c');
    code = sql_peer_make(store, conn, make, peer->name, "CREATED_DATE", err);
    if (code == 0)
        code = sql_peer_probe(conn, peer->name, "EXPIRED_AFTER", &ends, err);
    if (code)
        return code;
    if (way->generation && (way->generation == 'c') != ends)
        return hfd_error(err, HF_EPROTO, store->port->class->driver, 0,
                         "the table '%s' has %s column EXPIRED_AFTER: it is "
                         "not of generation=%c",
                         peer->name, ends ? "a" : "no", way->generation);
    if (!way->generation)
        way->generation = ends ? 'c' : 'b';
    return 0;
}

/* A zone that the database does not know would make every time NULL. */
static int check_zone(hf_store *store, const spring_way *way, sql_conn *conn,
                      hf_error *err)
{
    bool mysql = sql_is_mysql(store->port->dialect), known;
    char text[200], zone[SQL_ZONE_LEN];
    sql_rows rows = {0};
    sql_end end;

    if (way->generation != 'a')
        return 0;
    sql_postgres_zone(way->zone, zone);
    snprintf(text, sizeof text,
             mysql ? "SELECT CONVERT_TZ('2026-01-01 00:00:00', '+00:00', '%s')"
                   : "SELECT timestamptz '2026-01-01 00:00:00Z' AT TIME ZONE "
                     "%s",
             mysql ? way->zone : zone);
    end =
        conn->port->class->say(conn, text, hfd_now() + HF_MS(5000), &rows, err);
    known = end == SQL_DONE && sql_cell(&rows, 0, 0) != NULL;
    sql_rows_done(&rows);
    if (known)
        return 0;
    return hfd_error(err, HF_EURL, store->port->class->driver, 0,
                     "the database does not know the zone '%s': load its time "
                     "zone tables, or give an offset such as +01:00",
                     way->zone);
}

static int spring_open(hf_store *store, const hf_url *url, sql_conn *conn,
                       hf_error *err)
{
    sql_peer *peer;
    spring_way way = {.generation = '\0'};
    char prefix[64], table[80];
    int code;

    if (!sql_is_postgres(store->port->dialect) &&
        !sql_is_mysql(store->port->dialect))
        return sql_wrong_database(store, err);
    peer = sql_peer_new(store, &spring_kind, err);
    if (!peer)
        return HF_ENOMEM;
    code = read_way(&way, url, err);
    if (code == 0)
        code = sql_name_option(url, "prefix", "INT_", 50, prefix, err);
    if (code == 0)
        code = sql_text_option(url, "client_id", "", 13, peer->who, err);
    if (code == 0) {
        snprintf(table, sizeof table, "%sLOCK", prefix);
        sql_table_name(store->schema, table, false, peer->name);
        code = find_generation(store, &way, conn, err);
    }
    if (code == 0)
        code = check_zone(store, &way, conn, err);
    if (code == 0) {
        put_words(peer, store->port->dialect, &way);
        code = sql_peer_texts(store, spring_texts, err);
    }
    if (code)
        sql_peer_close(store);
    return code;
}

const sql_format sql_spring = {.name = "spring",
                               .caps = SQL_PEER_CAPS,
                               .options = spring_options,
                               .open = spring_open,
                               .close = sql_peer_close,
                               .start = sql_peer_start,
                               .ddl = spring_ddl};
