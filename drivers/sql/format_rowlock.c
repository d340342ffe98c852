/* format_rowlock.c - a row of `distribute_lock`, locked by a transaction.
 *
 * The pattern of tutorials: whoever has selected the row of a business_code FOR
 * UPDATE holds it until his transaction ends.  Each hold of ours is a
 * transaction on a connection of its own, which the server ends after a lease
 * of silence.
 *
 * The usual table has no index on business_code, and a database that locks
 * every row it reads would lock them all.  So the rows of a code are found
 * first, by a plain read, and locked by their ids.  A code may have several
 * rows, since two may have inserted the first one at once: all of them are
 * locked.  That is enough: rows are never deleted, so of any two who lock, the
 * one who read later has read every row that the other has locked.
 *
 * Where a code can be locked directly a lock is one round trip, of a statement
 * that is prepared once.  PostgreSQL locks no row that does not match, and
 * takes BEGIN and SELECT together.  MariaDB does so if the code is unique by
 * itself; its connection has no autocommit, and the SELECT itself answers
 * whether that is so, since with it nothing would be held. */
#include "format_held.h"

#include <stdio.h>
#include <strings.h>

enum { ROWS_MAX = 16, ROUNDS = 4 };
/* held->rule: how a code is locked. */
enum { BY_STEPS = 0, BEHIND_A_BEGIN, BY_A_UNIQUE_CODE };

static const char *const rowlock_options[] = {"table", "business_name", NULL};

/* The code as a literal, without a way out of it. */
static bool rowlock_name(const sql_held *held, const char *key, size_t len,
                         char ret[SQL_LOCK_MAX])
{
    (void)held;
    if (!sql_is_name(key, len, 255))
        return false;
    memcpy(ret, key, len);
    ret[len] = '\0';
    return true;
}

/* On MariaDB a literal with an introducer yields to the column's letters and
 * order; what CONVERT returns would have the column converted instead, row by
 * row, and then no index finds a row: all codes would be one lock. */
static void put_code(const sql_held *held, const char *code,
                     char ret[2 * SQL_LOCK_MAX + 60])
{
    char hex[2 * SQL_LOCK_MAX];

    sql_put_hex(hex, (const uint8_t *)code, strnlen(code, SQL_LOCK_MAX - 1));
    if (sql_is_postgres(held->store->port->dialect))
        snprintf(ret, 2 * SQL_LOCK_MAX + 60,
                 "convert_from('\\x%s'::bytea, 'UTF8')", hex);
    else
        snprintf(ret, 2 * SQL_LOCK_MAX + 60, "_utf8mb4 X'%s'", hex);
}

/* The ids of its rows, "1, 2"; "": there are none. */
static bool find_rows(sql_held *held, sql_conn *conn, const char *code,
                      hf_nsec deadline, char ret[24 * ROWS_MAX], hf_error *err)
{
    char literal[2 * SQL_LOCK_MAX + 60], text[3 * SQL_LOCK_MAX];
    sql_rows rows = {0};
    size_t len = 0;
    bool good;

    put_code(held, code, literal);
    snprintf(text, sizeof text,
             "SELECT id FROM %s WHERE business_code = %s ORDER BY id",
             held->name, literal);
    good = sql_held_say(conn, text, deadline, &rows, err);
    ret[0] = '\0';
    if (good && rows.rows > ROWS_MAX) {
        hfd_error(err, HF_EPROTO, held->store->port->class->driver, 0,
                  "'%s' has %zu rows of one business_code: leave one of them",
                  held->name, rows.rows);
        good = false;
    }
    for (size_t i = 0; good && i < rows.rows; i++)
        len += (size_t)snprintf(ret + len, 24, "%s%lld", i > 0 ? ", " : "",
                                (long long)sql_number(&rows, i, 0, 0));
    sql_rows_done(&rows);
    return good;
}

static bool insert_row(sql_held *held, sql_conn *conn, const char *code,
                       hf_nsec deadline, hf_error *err)
{
    char literal[2 * SQL_LOCK_MAX + 60], text[3 * SQL_LOCK_MAX];
    sql_rows rows = {0};
    sql_end end;

    put_code(held, code, literal);
    snprintf(text, sizeof text,
             "INSERT INTO %s (business_code, business_name) VALUES (%s, '%s')",
             held->name, literal, held->who);
    end = conn->port->class->say(conn, text, deadline, &rows, err);
    sql_rows_done(&rows);
    /* Where the code is unique, another may have been quicker. */
    return end == SQL_DONE || end == SQL_CLASH;
}

/* ---- Taking ------------------------------------------------------------- */

/* Locked, or in others' hands (then nothing is): whatever the way. */
static bool end_take(sql_conn *conn, sql_end end, bool got, hf_nsec deadline,
                     hf_error *err)
{
    if (got)
        return true;
    return (end == SQL_CLASH || end == SQL_DONE) &&
           sql_held_say(conn, "ROLLBACK", deadline, NULL, err);
}

/* By a port that says one statement at a time. */
static bool take_by_steps(sql_held *held, sql_conn *conn, const char *lock,
                          hf_nsec deadline, bool *ret_got, hf_error *err)
{
    bool postgres = sql_is_postgres(held->store->port->dialect);
    char ids[24 * ROWS_MAX], text[24 * ROWS_MAX + 300];
    sql_rows rows = {0};
    sql_end end;

    if (!find_rows(held, conn, lock, deadline, ids, err) ||
        (ids[0] == '\0' && (!insert_row(held, conn, lock, deadline, err) ||
                            !find_rows(held, conn, lock, deadline, ids, err))))
        return false;
    if (ids[0] == '\0')
        return true; /* deleted again: a later look inserts it */
    if (!sql_held_say(conn, postgres ? "BEGIN" : "START TRANSACTION", deadline,
                      NULL, err))
        return false;
    snprintf(text, sizeof text,
             "SELECT id FROM %s WHERE id IN (%s) FOR UPDATE NOWAIT", held->name,
             ids);
    end = conn->port->class->say(conn, text, deadline, &rows, err);
    *ret_got = end == SQL_DONE && rows.rows > 0;
    sql_rows_done(&rows);
    return end_take(conn, end, *ret_got, deadline, err);
}

/* The statement for that.  A parameter yields to the letters and the order of
 * the column as a literal does. */
static void make_text(sql_held *held)
{
    bool postgres = held->rule == BEHIND_A_BEGIN;

    held->text.count = 1;
    snprintf(held->text.text, sizeof held->text.text,
             "SELECT id, %s FROM %s WHERE business_code = %s ORDER BY id FOR "
             "UPDATE NOWAIT",
             postgres ? "0" : "@@autocommit", held->name,
             postgres ? "$1::text" : "?");
}

static sql_end lock_code(sql_held *held, sql_conn *conn, const char *lock,
                         hf_nsec deadline, sql_rows *rows, hf_error *err)
{
    const sql_port_class *class = conn->port->class;

    return held->rule == BEHIND_A_BEGIN
               ? class->begin(conn, &held->text, &lock, deadline, rows, err)
               : class->run(conn, &held->text, &lock, deadline, rows, NULL,
                            err);
}

/* Where that locks no other row. */
static bool take_by_code(sql_held *held, sql_conn *conn, const char *lock,
                         hf_nsec deadline, bool *ret_got, hf_error *err)
{
    bool postgres = held->rule == BEHIND_A_BEGIN;

    for (int round = 0; round < ROUNDS; round++) {
        sql_rows rows = {0};
        sql_end end = lock_code(held, conn, lock, deadline, &rows, err);
        bool there = end == SQL_DONE && rows.rows > 0;

        *ret_got = there && sql_number(&rows, 0, 1, 1) == 0;
        sql_rows_done(&rows);
        if (!end_take(conn, end, *ret_got, deadline, err))
            return false;
        if (*ret_got || end != SQL_DONE)
            return true;
        if (there && !sql_held_say(conn, "SET SESSION autocommit = 0", deadline,
                                   NULL, err))
            return false;
        if (!there &&
            (!insert_row(held, conn, lock, deadline, err) ||
             (!postgres && !sql_held_say(conn, "COMMIT", deadline, NULL, err))))
            return false;
    }
    return true; /* deleted again and again: a later look inserts it */
}

static bool rowlock_take(sql_held *held, sql_conn *conn, const char *lock,
                         bool shared, hf_nsec deadline, bool *ret_got,
                         hf_error *err)
{
    (void)shared;
    *ret_got = false;
    return held->rule == BY_STEPS
               ? take_by_steps(held, conn, lock, deadline, ret_got, err)
               : take_by_code(held, conn, lock, deadline, ret_got, err);
}

static bool rowlock_give(sql_held *held, sql_conn *conn, const char *lock,
                         bool shared, hf_nsec deadline, bool *ret_was)
{
    (void)held;
    (void)lock;
    (void)shared;
    *ret_was = sql_held_say(conn, "COMMIT", deadline, NULL, NULL);
    return *ret_was;
}

static bool rowlock_limit(sql_held *held, sql_conn *conn, int64_t ms,
                          hf_nsec deadline)
{
    char text[120];

    if (sql_is_postgres(held->store->port->dialect)) {
        snprintf(text, sizeof text,
                 "SET idle_in_transaction_session_timeout = %lld",
                 (long long)(ms < INT32_MAX ? ms : INT32_MAX));
    } else {
        /* MariaDB also ends transactions that are silent, and ours begin with
         * a short patience; MySQL does not know the word. */
        bool maria = strcmp(held->store->port->dialect->name, "mariadb") == 0;
        long long seconds = (ms + 999) / 1000;

        if (seconds > 31536000)
            seconds = 31536000;
        snprintf(text, sizeof text, "SET SESSION wait_timeout = %lld%s%.0lld",
                 seconds, maria ? ", idle_transaction_timeout = " : "",
                 maria ? seconds : 0);
    }
    return sql_held_say(conn, text, deadline, NULL, NULL);
}

static const sql_held_kind rowlock_kind = {.alone = true,
                                           .name = rowlock_name,
                                           .take = rowlock_take,
                                           .give = rowlock_give,
                                           .limit = rowlock_limit};

static void rowlock_make(char *ret, size_t cap, const char *table, bool mysql)
{
    snprintf(ret, cap,
             mysql ? "CREATE TABLE %s (id INT NOT NULL AUTO_INCREMENT PRIMARY"
                     " KEY, business_code VARCHAR(255) CHARACTER SET utf8mb4"
                     " COLLATE utf8mb4_bin NOT NULL UNIQUE,"
                     " business_name VARCHAR(255) NOT NULL) ENGINE=InnoDB"
                   : "CREATE TABLE %s (id SERIAL PRIMARY KEY,"
                     " business_code VARCHAR(255) NOT NULL UNIQUE,"
                     " business_name VARCHAR(255) NOT NULL)",
             table);
}

static void rowlock_ddl(const sql_dialect *dialect, const char *schema,
                        const char *prefix,
                        void (*emit)(void *to, const char *text), void *to)
{
    char table[160], make[600], text[602];

    (void)prefix;
    sql_table_name(schema, "distribute_lock", false, table);
    rowlock_make(make, sizeof make, table, sql_is_mysql(dialect));
    snprintf(text, sizeof text, "%s;", make);
    emit(to, "-- A row per lock; UNIQUE spares everybody a scan of the table.");
    emit(to, text);
}

/* Of the rows of SHOW INDEX: a unique index of the whole code and of nothing
 * else, which finds one row or none. */
static bool has_unique_code(const sql_rows *rows)
{
    enum { UNIQUE_IS_0 = 1, NAME, PLACE, COLUMN, PART = 7 };

    for (size_t i = 0; i < rows->rows; i++) {
        const char *column = sql_cell(rows, i, COLUMN);

        if (sql_number(rows, i, UNIQUE_IS_0, 1) == 0 &&
            sql_number(rows, i, PLACE, 0) == 1 && !sql_cell(rows, i, PART) &&
            column && strcasecmp(column, "business_code") == 0 &&
            (i + 1 == rows->rows || sql_number(rows, i + 1, PLACE, 0) == 1))
            return true;
    }
    return false;
}

/* How may a code be locked?  A port that does not count rows puts its own
 * words around ours. */
static int find_rule(const sql_held *held, sql_conn *conn, hf_nsec deadline)
{
    char text[300];
    sql_rows rows = {0};
    hf_error err;
    bool unique;

    if (!held->store->port->class->counts)
        return BY_STEPS;
    if (sql_is_postgres(held->store->port->dialect))
        return BEHIND_A_BEGIN;
    snprintf(text, sizeof text, "SHOW INDEX FROM %s", held->name);
    unique = sql_held_say(conn, text, deadline, &rows, &err) &&
             has_unique_code(&rows);
    sql_rows_done(&rows);
    return unique ? BY_A_UNIQUE_CODE : BY_STEPS;
}

static int rowlock_open(hf_store *store, const hf_url *url, sql_conn *conn,
                        hf_error *err)
{
    char table[64], make[600];
    sql_held *held;
    int code;

    if (!sql_is_postgres(store->port->dialect) &&
        !sql_is_mysql(store->port->dialect))
        return sql_wrong_database(store, err);
    held = sql_held_new(store, &rowlock_kind, err);
    if (!held)
        return HF_ENOMEM;
    code = sql_name_option(url, "table", "distribute_lock", 60, table, err);
    if (code == 0)
        code = sql_text_option(url, "business_name", "holdfast", 100, held->who,
                               err);
    if (code == 0) {
        sql_table_name(store->schema, table, false, held->name);
        rowlock_make(make, sizeof make, held->name,
                     sql_is_mysql(store->port->dialect));
        code =
            sql_peer_make(store, conn, make, held->name, "business_code", err);
    }
    if (code == 0) {
        held->rule = find_rule(held, conn, hfd_now() + HF_MS(5000));
        if (held->rule != BY_STEPS)
            make_text(held);
        code = sql_watch_start(held, err);
    }
    if (code)
        sql_held_close(store);
    return code;
}

const sql_format sql_rowlock = {.name = "rowlock",
                                .caps = SQL_HELD_CAPS,
                                .options = rowlock_options,
                                .open = rowlock_open,
                                .close = sql_held_close,
                                .start = sql_held_start,
                                .ddl = rowlock_ddl,
                                .abandon = sql_held_abandon};
