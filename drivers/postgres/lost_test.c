/* lost_test.c - done, and nobody heard of it; not done, and somebody might
 * think so. */
#include "pg_test.h"
#include "harness/relay.h"

static sql_port *port_by(relay *r, ears *e)
{
    char url[200];

    snprintf(url, sizeof url, "postgres://postgres@127.0.0.1:%d/holdfast",
             r->port);
    return port_at(url, e);
}

/* ---- Lost replies ------------------------------------------------------- */

static void lose_the_reply(bool cut)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    relay r;
    sql_port *port;
    sql_conn *conn;
    hf_error err;

    relay_start(&r, s->port);
    port = port_by(&r, NULL);
    conn = conn_to(port);
    ask(conn, "CREATE TABLE t(n int)");
    atomic_store(&r.cut, cut);
    atomic_store(&r.mute, true);
    EXPECT_EQ(end_of(conn, "INSERT INTO t VALUES (1)", cut ? 5000 : 300, &err),
              SQL_LOST);
    EXPECT_EQ(err.code, HF_EUNAVAIL);
    EXPECT(atomic_load(&r.lost) > 0);
    EXPECT_EQ(sql_server_number(s, "SELECT count(*) FROM t"), 1);
    /* Never again on this one: the late answer would be the next one's. */
    atomic_store(&r.mute, false);
    EXPECT_EQ(end_of(conn, "SELECT 2", 1000, &err), SQL_BROKEN);
    port->class->disconnect(conn, true);
    conn = conn_to(port);
    EXPECT_STR(ask(conn, "SELECT n FROM t"), "1");
    port->class->disconnect(conn, false);
    port->class->close(port);
    relay_stop(&r);
    sql_server_stop(s);
}

static void the_reply_never_comes(void)
{
    lose_the_reply(false);
}

static void cut_instead_of_the_reply(void)
{
    lose_the_reply(true);
}

/* The listener's connection stands, and all it would say is lost: looks find
 * it.  When it is cut, the store hears of it. */
static void the_listener_is_cut(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    relay r;
    ears e = {0};
    char bell[SQL_BELL_MAX];
    sql_port *port;
    hf_error err;

    relay_start(&r, s->port);
    port = port_by(&r, &e);
    EXPECT_OK(port->class->listen(port, "s", in_ms(5000), bell, &err), err);
    port->class->dispatch(port);
    atomic_store(&r.cut, true);
    atomic_store(&r.mute, true);
    sql_server_ask(s, "SELECT pg_notify('hf_s', 'r 1 1')");
    AWAIT((port->class->dispatch(port), e.deaf == 1));
    EXPECT_EQ(e.told, 0);
    port->class->close(port);
    relay_stop(&r);
    sql_server_stop(s);
}

/* ---- Committed here, not there ------------------------------------------ */

static void *cancel_wait(void *arg)
{
    sql_server *s = arg;

    AWAIT(sql_server_number(s, "SELECT count(*) FROM pg_stat_activity WHERE"
                               " wait_event = 'SyncRep'") == 1);
    sql_server_ask(s, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
                      " WHERE wait_event = 'SyncRep'");
    return NULL;
}

static void not_waited_for_at_the_standby(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    ears e = {0};
    sql_port *port = port_at(sql_server_url(s, "", ""), &e);
    sql_conn *conn = conn_to(port);
    sql_end end = SQL_DONE;
    pthread_t thread;
    hf_error err;

    ask(conn, "CREATE TABLE t(n int)");
    EXPECT_EQ(e.doubts, 0);
    sql_server_ask(s, "ALTER SYSTEM SET synchronous_standby_names = 'ghost'");
    sql_server_ask(s, "SELECT pg_reload_conf()");
    AWAIT(strcmp(ask(conn, "SHOW synchronous_standby_names"), "ghost") == 0);
    EXPECT(pthread_create(&thread, NULL, cancel_wait, s) == 0);
    /* The first may not wait: commits do once the checkpointer has read the
     * setting, too, and no query tells when that was. */
    AWAIT((end = end_of(conn, "INSERT INTO t VALUES (1)", 8000, &err),
           end != SQL_DONE || e.doubts > 0));
    EXPECT_EQ(end, SQL_DONE);
    pthread_join(thread, NULL);
    EXPECT_EQ(e.doubts, 1);
    EXPECT_HAS(e.why.text, "failover");
    EXPECT_STR(ask(conn, "SELECT n FROM t"), "1");
    port->class->disconnect(conn, false);
    port->class->close(port);
    sql_server_stop(s);
}

/* ---- A full disk -------------------------------------------------------- */

static void full_disk(void)
{
    sql_server *s =
        sql_server_start(ON_POSTGRES, &(sql_server_options){.disk_mb = 150});
    sql_port *port = port_at(sql_server_url(s, "", ""), NULL);
    sql_conn *conn = conn_to(port);
    hf_error err;

    ask(conn, "CREATE TABLE t(x text)");
    ask(conn, "CREATE TABLE u(n int)");
    ask(conn, "CHECKPOINT");
    /* The server itself fills it, by a file of no use, and empties that. */
    EXPECT_EQ(end_of(conn,
                     "COPY (SELECT repeat('x', 8000) FROM generate_series(1,"
                     " 100000)) TO '/proc/self/cwd/ballast'",
                     8000, &err),
              SQL_REFUSED);
    EXPECT_HAS(err.text, "full");
    EXPECT_EQ(end_of(conn,
                     "INSERT INTO t SELECT repeat(md5(n::text), 50) FROM"
                     " generate_series(1, 2000) AS n",
                     8000, &err),
              SQL_REFUSED);
    EXPECT_EQ(err.code, HF_EUNAVAIL);
    EXPECT_HAS(err.text, "full");
    EXPECT_STR(ask(conn, "SELECT count(*) FROM t"), "0");
    ask(conn, "COPY (SELECT 1) TO '/proc/self/cwd/ballast'");
    EXPECT_EQ(end_of(conn, "INSERT INTO u VALUES (1)", 5000, &err), SQL_DONE);
    port->class->disconnect(conn, false);
    port->class->close(port);
    sql_server_stop(s);
}

static const test_case cases[] = {
    TEST(the_reply_never_comes), TEST(cut_instead_of_the_reply),
    TEST(the_listener_is_cut), TEST(not_waited_for_at_the_standby),
    TEST(full_disk)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "lost", cases, sizeof cases / sizeof *cases);
}
