/* my_lost_test.c - done, and nobody heard of it.
 *
 * A relay stands between the port and a real server and loses what the server
 * answers. */
#include "my_test.h"
#include "harness/relay.h"

static sql_port *port_by(const relay *r, ears *e)
{
    char url[200];

    snprintf(url, sizeof url, "mysql://root@127.0.0.1:%d/holdfast", r->port);
    return port_at(url, e);
}

static void lose_the_reply(bool cut)
{
    sql_server *s = sql_server_start(ON_MARIADB, NULL);
    const char *params[] = {"1"};
    sql_text text;
    relay r;
    sql_port *port;
    sql_conn *conn;
    hf_error err;

    relay_start(&r, s->port);
    port = port_by(&r, NULL);
    conn = conn_to(port);
    ask(conn, "CREATE TABLE t(n INT) ENGINE=InnoDB");
    make_text(&text, "INSERT INTO t VALUES (?) RETURNING n", 1);
    EXPECT_EQ(run_end(conn, &text, params, 5000, &err), SQL_DONE);
    atomic_store(&r.cut, cut);
    atomic_store(&r.mute, true);
    EXPECT_EQ(run_end(conn, &text, params, cut ? 5000 : 300, &err), SQL_LOST);
    EXPECT_EQ(err.code, HF_EUNAVAIL);
    EXPECT(atomic_load(&r.lost) > 0);
    EXPECT_EQ(sql_server_number(s, "SELECT COUNT(*) FROM holdfast.t"), 2);
    /* Never again on this one: the late answer would be the next one's. */
    atomic_store(&r.mute, false);
    EXPECT_EQ(end_of(conn, "SELECT 2", 1000, &err), SQL_BROKEN);
    port->class->disconnect(conn, true);
    conn = conn_to(port);
    EXPECT_STR(ask(conn, "SELECT COUNT(*) FROM t"), "2");
    leave(port, conn);
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

/* A connection that is cut while it sleeps: the store hears of it. */
static void the_listener_is_cut(void)
{
    sql_server *s = sql_server_start(ON_MARIADB, NULL);
    char bell[SQL_BELL_MAX];
    ears e = {0};
    sql_port *port;
    hf_error err;
    relay r;

    relay_start(&r, s->port);
    port = port_by(&r, &e);
    EXPECT_OK(port->class->listen(port, "s", in_ms(5000), bell, &err), err);
    port->class->dispatch(port);
    EXPECT_EQ(e.told, 0);
    atomic_store(&r.cut, true);
    atomic_store(&r.mute, true);
    sql_server_ask(s, "KILL QUERY %d", atoi(bell));
    AWAIT((port->class->dispatch(port), e.deaf == 1));
    EXPECT_EQ(e.told, 1);
    EXPECT_EQ(e.why.code, HF_EUNAVAIL);
    port->class->close(port);
    relay_stop(&r);
    sql_server_stop(s);
}

/* One that does not answer at the beginning ends in time. */
static void listening_has_a_deadline(void)
{
    sql_server *s = sql_server_start(ON_MARIADB, NULL);
    char bell[SQL_BELL_MAX];
    ears e = {0};
    sql_port *port;
    hf_error err;
    relay r;

    relay_start(&r, s->port);
    port = port_by(&r, &e);
    atomic_store(&r.mute, true);
    EXPECT_CODE(port->class->listen(port, "s", in_ms(300), bell, &err),
                HF_EUNAVAIL);
    atomic_store(&r.mute, false);
    AWAIT(port->class->listen(port, "s", in_ms(3000), bell, &err) == 0);
    port->class->close(port);
    relay_stop(&r);
    sql_server_stop(s);
}

static const test_case cases[] = {
    TEST(the_reply_never_comes), TEST(cut_instead_of_the_reply),
    TEST(the_listener_is_cut), TEST(listening_has_a_deadline)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "my_lost", cases,
                     sizeof cases / sizeof *cases);
}
