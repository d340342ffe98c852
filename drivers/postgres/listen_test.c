/* listen_test.c - the listener: heard, lost, found again, refused. */
#include "pg_test.h"

#include <poll.h>
#include <unistd.h>

#define SID_A "AAAAAAAAAAAAAAAAAAAAAA"
#define SID_B "bbbbbbbbbb-bbbbbbbbb_b"
#define RID "rrrrrrrrrr-rrrrrrrrr_r"

static bool readable(sql_port *port, int ms)
{
    struct pollfd fd = {.fd = port->class->fd(port), .events = POLLIN};

    return poll(&fd, 1, ms) == 1;
}

static void hear(sql_port *port)
{
    while (readable(port, 0))
        port->class->dispatch(port);
}

/* Dispatch until this many pushes were told. */
static void await_told(sql_port *port, ears *e, int told)
{
    AWAIT((hear(port), e->told >= told));
    EXPECT_EQ(e->told, told);
}

static void listen_as(sql_port *port, const char *sid)
{
    char bell[SQL_BELL_MAX] = "x";
    hf_error err;

    EXPECT_OK(port->class->listen(port, sid, in_ms(PATIENCE_MS), bell, &err),
              err);
    EXPECT_STR(bell, "");
}

static void call(sql_conn *conn, const char *sid, uint64_t num)
{
    sql_wake wake = {.num = num, .run = 3};

    snprintf(wake.sid, sizeof wake.sid, "%s", sid);
    snprintf(wake.rid, sizeof wake.rid, "%s", RID);
    conn->port->class->wake(conn, &wake, 1, in_ms(PATIENCE_MS));
}

static void calls_are_heard(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    ears a = {0}, b = {0};
    sql_port *one = port_at(sql_server_url(s, "", ""), &a);
    sql_port *two = port_at(sql_server_url(s, "", ""), &b);
    sql_conn *conn = conn_to(one);

    listen_as(one, SID_A);
    listen_as(two, SID_B);
    hear(one);
    hear(two);
    EXPECT(!readable(one, 20)); /* nothing is said, nobody wakes */
    call(conn, SID_A, 18000000000000000001ULL);
    await_told(one, &a, 1);
    EXPECT_STR(a.rid, RID);
    EXPECT(a.num == 18000000000000000001ULL);
    EXPECT_EQ(a.run, 3);
    call(conn, SID_B, 0);
    await_told(two, &b, 1);
    EXPECT_EQ(b.num, 0);
    EXPECT_EQ(a.told, 1);
    /* What no holdfast has written is: look. */
    ask(conn, "SELECT pg_notify('hf_" SID_B "', 'hello')");
    await_told(two, &b, 2);
    EXPECT_STR(b.rid, "");
    EXPECT_EQ(sql_server_number(s, "SELECT count(*) FROM pg_stat_activity WHERE"
                                   " application_name = 'holdfast'"),
              3);
    one->class->disconnect(conn, false);
    one->class->close(one);
    two->class->close(two);
    sql_server_stop(s);
}

/* More sessions than one statement calls. */
static void many_are_called(void)
{
    enum { MANY = 40 };
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    ears e = {0};
    sql_port *port = port_at(sql_server_url(s, "", ""), &e);
    sql_conn *conn = conn_to(port);
    sql_wake wakes[MANY] = {0};

    listen_as(port, SID_A);
    for (size_t i = 0; i < MANY; i++) {
        snprintf(wakes[i].sid, sizeof wakes[i].sid, "%s", SID_A);
        snprintf(wakes[i].rid, sizeof wakes[i].rid, "r%zu", i);
        wakes[i].num = i + 1;
    }
    snprintf(wakes[5].sid, sizeof wakes[5].sid, "x'; DROP");
    port->class->wake(conn, wakes, MANY, in_ms(PATIENCE_MS));
    await_told(port, &e, MANY - 1);
    port->class->disconnect(conn, false);
    port->class->close(port);
    sql_server_stop(s);
}

static void another_session(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    ears e = {0};
    sql_port *port = port_at(sql_server_url(s, "", ""), &e);
    sql_conn *conn = conn_to(port);

    listen_as(port, SID_A);
    call(conn, SID_A, 1); /* read by the next listen, told all the same */
    listen_as(port, SID_B);
    await_told(port, &e, 1);
    call(conn, SID_A, 2);
    call(conn, SID_B, 3);
    await_told(port, &e, 2);
    EXPECT_EQ(e.num, 3);
    port->class->unlisten(port);
    call(conn, SID_B, 4);
    EXPECT_STR(ask(conn, "SELECT 1"), "1");
    hear(port);
    EXPECT_EQ(e.told, 2);
    EXPECT_EQ(e.deaf, 0);
    port->class->disconnect(conn, false);
    port->class->close(port);
    sql_server_stop(s);
}

static void thrown_out_and_back(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    ears e = {0};
    sql_port *port = port_at(sql_server_url(s, "", ""), &e);
    char bell[SQL_BELL_MAX];
    hf_error err;

    for (int i = 1; i <= 2; i++) {
        listen_as(port, SID_A);
        hear(port);
        if (i == 1)
            sql_server_ask(s, "SELECT pg_terminate_backend(pid) FROM"
                              " pg_stat_activity WHERE application_name ="
                              " 'holdfast'");
        else
            sql_server_kill(s);
        AWAIT((hear(port), e.deaf == i));
        EXPECT_HAS(e.why.text, "listener");
        EXPECT(!readable(port, 10));
    }
    /* Nobody is there: said at once, and at once again. */
    for (int i = 0; i < 3; i++) {
        EXPECT_CODE(port->class->listen(port, SID_A, in_ms(500), bell, &err),
                    HF_EUNAVAIL);
        EXPECT_HAS(err.text, "refused");
    }
    sql_server_restart(s);
    AWAIT(port->class->listen(port, SID_A, in_ms(2000), bell, &err) == 0);
    sql_conn *conn = conn_to(port);
    call(conn, SID_A, 5);
    await_told(port, &e, 1);
    port->class->disconnect(conn, false);
    port->class->close(port);
    sql_server_stop(s);
}

static void behind_a_pooler(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    sql_server *pooler =
        sql_server_start(ON_PGBOUNCER, &(sql_server_options){.behind = s});
    ears e = {0};
    sql_port *port = port_at(sql_server_url(pooler, "", ""), &e);
    sql_conn *conn = conn_to(port), *second = conn_to(port);
    const char *params[] = {"4"};
    char bell[SQL_BELL_MAX];
    sql_rows rows = {0};
    sql_text text;
    hf_error err;

    EXPECT(atomic_load(&((pg_port *)port)->pooled));
    EXPECT_CODE(port->class->listen(port, SID_A, in_ms(500), bell, &err),
                HF_ENOTSUP);
    EXPECT_HAS(err.text, "pooler");
    make_text(&text, "SELECT $1::int + 1", 1);
    for (int i = 0; i < 20; i++) {
        EXPECT_EQ(port->class->run(i % 2 ? conn : second, &text, params,
                                   in_ms(5000), &rows, NULL, &err),
                  SQL_DONE);
        EXPECT_EQ(sql_number(&rows, 0, 0, 0), 5);
    }
    EXPECT_STR(ask(conn, "SELECT count(*) FROM pg_prepared_statements"), "0");
    /* Our settings reach nobody else's session. */
    EXPECT_STR(ask(conn, "SHOW lock_timeout"), "0");
    sql_rows_done(&rows);
    port->class->disconnect(conn, false);
    port->class->disconnect(second, false);
    port->class->close(port);
    /* Who says that it is none finds out by the names. */
    port = port_at(sql_server_url(pooler, "", "pooler=no"), &e);
    conn = conn_to(port);
    EXPECT(!atomic_load(&((pg_port *)port)->pooled));
    port->class->disconnect(conn, false);
    port->class->close(port);
    sql_server_stop(pooler);
    sql_server_stop(s);
}

static const test_case cases[] = {
    TEST(calls_are_heard), TEST(many_are_called), TEST(another_session),
    TEST(thrown_out_and_back), TEST(behind_a_pooler)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "listen", cases, sizeof cases / sizeof *cases);
}
