/* floor_mariadb.c - what locks on MariaDB cost without holdfast.
 *
 * Written by hand on libmariadb, a connection a thread, prepared statements:
 * a row that is taken and given back by an upsert (pair, poll), a commit and
 * then RELEASE_LOCK, for which the next one waits in GET_LOCK (wake: the server
 * has no other way to tell anybody), and GET_LOCK alone (own), which has no
 * lease, no token, and costs a connection for each who waits. */
#include "sql.h"

#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TAKE, GIVE, COME, GO, LOCK, UNLOCK, STATEMENTS };

/* Assignments run from left to right: the verdict comes first, and it changes
 * the row only if it was free. */
static const char take_text[] =
    "INSERT INTO bench_lock (k, owner, until) VALUES (?, ?, UTC_TIMESTAMP(6) + "
    "INTERVAL 30 SECOND) ON DUPLICATE KEY UPDATE until = IF(owner = '' OR "
    "until "
    "< UTC_TIMESTAMP(6), VALUES(until), until), owner = IF(owner = '', "
    "VALUES(owner), owner)";
static const char give_text[] =
    "INSERT INTO bench_lock (k, owner, until) VALUES (?, '', UTC_TIMESTAMP(6)) "
    "ON DUPLICATE KEY UPDATE owner = IF(owner = ?, '', owner)";

static const char *const texts[STATEMENTS] = {
    take_text,
    give_text,
    "UPDATE bench_turn SET n = n + 1",
    "UPDATE bench_turn SET n = n - 1",
    "DO GET_LOCK('bench', 60)",
    "DO RELEASE_LOCK('bench')",
};

struct my_thread {
    MYSQL *conn;
    MYSQL_STMT *st[STATEMENTS];
    char owner[32];
};

static void *my_open_process(const char *where)
{
    char *copy = strdup(where);

    if (copy == NULL)
        bench_die("out of memory");
    return copy;
}

static MYSQL *connect_to(const char *url)
{
    MYSQL *conn = mysql_init(NULL);

    if (conn == NULL ||
        mysql_real_connect(conn, "127.0.0.1", "root", "", "holdfast",
                           (unsigned)sql_port_of(url), NULL, 0) == NULL)
        bench_die("floor: %s", conn ? mysql_error(conn) : "out of memory");
    return conn;
}

static void run_sql(MYSQL *conn, const char *sql)
{
    if (mysql_query(conn, sql) != 0)
        bench_die("floor: %s: %s", sql, mysql_error(conn));
}

static void *my_open_thread(void *process, int worker)
{
    struct my_thread *t = calloc(1, sizeof *t);

    if (t == NULL)
        bench_die("out of memory");
    t->conn = connect_to(process);
    snprintf(t->owner, sizeof t->owner, "%d-%d", (int)getpid(), worker);
    for (int i = 0; i < STATEMENTS; i++) {
        t->st[i] = mysql_stmt_init(t->conn);
        if (t->st[i] == NULL ||
            mysql_stmt_prepare(t->st[i], texts[i], strlen(texts[i])) != 0)
            bench_die("floor: %s: %s", texts[i], mysql_error(t->conn));
    }
    return t;
}

/* Affected rows: 1 inserted, 2 changed, 0 left as it was. */
static bool run(struct my_thread *t, int which, const char *key)
{
    unsigned long len[2] = {strlen(key), strlen(t->owner)};
    MYSQL_BIND bind[2] = {{.buffer_type = MYSQL_TYPE_STRING,
                           .buffer = (void *)(uintptr_t)key,
                           .buffer_length = len[0],
                           .length = &len[0]},
                          {.buffer_type = MYSQL_TYPE_STRING,
                           .buffer = t->owner,
                           .buffer_length = len[1],
                           .length = &len[1]}};
    MYSQL_STMT *st = t->st[which];

    if ((mysql_stmt_param_count(st) && mysql_stmt_bind_param(st, bind)) ||
        mysql_stmt_execute(st) != 0)
        bench_die("floor: %s: %s", texts[which], mysql_stmt_error(st));
    return mysql_stmt_affected_rows(st) != 0;
}

static void pair_lock(void *thread, const char *key)
{
    if (!run(thread, TAKE, key))
        bench_die("floor: '%s' is taken, and this floor cannot wait", key);
}

static void pair_unlock(void *thread, const char *key)
{
    if (!run(thread, GIVE, key))
        bench_die("floor: '%s' was not held", key);
}

static void poll_lock(void *thread, const char *key)
{
    while (!run(thread, TAKE, key))
        sleep_us(100 * 1000);
}

static void wake_lock(void *thread, const char *key)
{
    run(thread, COME, key);
    run(thread, LOCK, key);
}

static void wake_unlock(void *thread, const char *key)
{
    run(thread, GO, key);
    run(thread, UNLOCK, key);
}

static void own_lock(void *thread, const char *key)
{
    run(thread, LOCK, key);
}

static void own_unlock(void *thread, const char *key)
{
    run(thread, UNLOCK, key);
}

#define MY_SIDE(variable, text, take, give)                                    \
    static const struct side variable = {.name = (text),                       \
                                         .open_process = my_open_process,      \
                                         .open_thread = my_open_thread,        \
                                         .lock = (take),                       \
                                         .unlock = (give)}
MY_SIDE(pair_side, "two upserts, libmariadb", pair_lock, pair_unlock);
MY_SIDE(poll_side, "100 ms poller, libmariadb", poll_lock, pair_unlock);
MY_SIDE(wake_side, "a commit and RELEASE_LOCK", wake_lock, wake_unlock);
MY_SIDE(own_side, "GET_LOCK", own_lock, own_unlock);

/* ---- The server ------------------------------------------------------ */

static void prepare(const struct sql_server *s)
{
    MYSQL *conn = connect_to(s->url);

    run_sql(conn, "CREATE TABLE bench_lock (k VARBINARY(200) PRIMARY KEY, "
                  "owner VARCHAR(40) NOT NULL, until DATETIME(6) NOT NULL)");
    run_sql(conn, "CREATE TABLE bench_turn (n INT NOT NULL)");
    run_sql(conn, "INSERT INTO bench_turn VALUES (0)");
    mysql_close(conn);
}

static void begin_counting(const struct sql_server *s)
{
    (void)s; /* it always counts */
}

/* Its own question is counted with it; none of those before is. */
static double count(const struct sql_server *s)
{
    static double own;
    MYSQL *conn = connect_to(s->url);
    MYSQL_RES *res;
    MYSQL_ROW row;
    double n;

    run_sql(conn, "SHOW GLOBAL STATUS LIKE 'Questions'");
    res = mysql_store_result(conn);
    row = res ? mysql_fetch_row(res) : NULL;
    if (row == NULL)
        bench_die("floor: the server does not say how many questions it had");
    n = strtod(row[1], NULL);
    mysql_free_result(res);
    mysql_close(conn);
    return n - own++;
}

static const char *const durable[] = {"--innodb-flush-method=fsync",
                                      "--innodb-flush-log-at-trx-commit=1",
                                      "--max-connections=700", NULL};

const struct sql_kind sql_kind_mariadb = {
    .name = "mariadb",
    .server = "mariadb",
    .ready = "ready for connections",
    .user = "root",
    .durable = durable,
    .prepare = prepare,
    .begin_counting = begin_counting,
    .count = count,
    .pair = &pair_side,
    .poll = &poll_side,
    .wake = &wake_side,
    .own = &own_side,
};
