/* my_bell_test.c - rings: heard by the one that is meant, once; and what
 * becomes of them when connections, servers and accounts change. */
#include "my_test.h"

#include <poll.h>

/* A store's statements and tables, as much as ringing needs. */
static void make_store(ears *e, sql_conn *conn)
{
    hf_error err;

    memset(e, 0, sizeof *e);
    e->store.texts = calloc(SQL_COUNT, sizeof *e->store.texts);
    EXPECT(e->store.texts != NULL);
    EXPECT_OK(sql_render(e->store.texts, conn->port->dialect, "", "hf_", &err),
              err);
    for (const char *const *at = conn->port->dialect->tables; *at; at++) {
        static char text[SQL_TEXT_MAX];

        EXPECT_OK(
            sql_render_one(text, conn->port->dialect, "", "hf_", *at, &err),
            err);
        ask(conn, text);
    }
}

static const char sid[] = "abcdefghijklmnopqrstuv";

static void put_session(sql_conn *conn, const char *bell)
{
    char text[400];

    snprintf(text, sizeof text,
             "REPLACE INTO hf_session(sid, ttl_us, exp_us, renewals, pid, host,"
             " name, bell, news) VALUES ('%s', 1, 1, 0, 1, '', '', '%s', '')",
             sid, bell);
    ask(conn, text);
}

static void listen_at(sql_port *port, char bell[SQL_BELL_MAX])
{
    hf_error err;

    EXPECT_OK(port->class->listen(port, sid, in_ms(PATIENCE_MS), bell, &err),
              err);
}

static bool readable(sql_port *port)
{
    struct pollfd fd = {.fd = port->class->fd(port), .events = POLLIN};

    return poll(&fd, 1, 0) == 1;
}

static void ring_it(sql_conn *conn)
{
    sql_wake wake = {.num = 1};

    memcpy(wake.sid, sid, sizeof wake.sid);
    conn->port->class->wake(conn, &wake, 1, in_ms(PATIENCE_MS));
}

typedef struct world {
    sql_server *s;
    ears e;
    sql_port *port;
    sql_conn *conn;
    char bell[SQL_BELL_MAX];
} world;

static void begin(world *w)
{
    w->s = sql_server_start(ON_MARIADB, NULL);
    w->port = port_at(sql_server_url(w->s, "", ""), &w->e);
    w->conn = conn_to(w->port);
    make_store(&w->e, w->conn);
    listen_at(w->port, w->bell);
    put_session(w->conn, w->bell);
}

static void end(world *w)
{
    leave(w->port, w->conn);
    free(w->e.store.texts);
    sql_server_stop(w->s);
}

static long long sleepers(world *w)
{
    return sql_server_number(w->s, "SELECT COUNT(*) FROM information_schema."
                                   "PROCESSLIST WHERE STATE = 'User lock'");
}

/* A ring is told twice: at the end of a sleep, and when the next one has
 * begun. */
static void hear(world *w, int times)
{
    AWAIT((readable(w->port) ? w->port->class->dispatch(w->port) : (void)0,
           w->e.told >= times));
    EXPECT_EQ(w->e.told, times);
}

static long long questions(sql_conn *conn)
{
    return atoll(ask(conn, "SELECT VARIABLE_VALUE FROM information_schema."
                           "SESSION_STATUS WHERE VARIABLE_NAME = 'QUESTIONS'"));
}

static void a_ring_is_heard(void)
{
    world w;
    char again[SQL_BELL_MAX];
    long long before;

    begin(&w);
    listen_at(w.port, again); /* one for all */
    EXPECT_STR(again, w.bell);
    for (int i = 1; i <= 20; i++) {
        ring_it(w.conn);
        hear(&w, 2 * i);
    }
    EXPECT(!readable(w.port));
    /* Its address is known by now: a ring is one statement. */
    before = questions(w.conn);
    ring_it(w.conn);
    EXPECT_EQ(questions(w.conn) - before, 2); /* and the question itself */
    hear(&w, 42);
    EXPECT_EQ(w.e.deaf, 0);
    end(&w);
}

/* A session of which nobody knows, one that does not listen, one that listened
 * to another life of the server, one whose connection is somebody else's. */
static void nobody_is_hurt(void)
{
    world w;
    char bell[200];
    sql_conn *other;
    hf_error err;

    begin(&w);
    AWAIT(sleepers(&w) == 1);
    ask(w.conn, "DELETE FROM hf_session");
    ring_it(w.conn);
    put_session(w.conn, "");
    ring_it(w.conn);
    put_session(w.conn, "garbage");
    ring_it(w.conn);
    put_session(w.conn, "99999999@1");
    ring_it(w.conn);
    /* The right number of an old life. */
    snprintf(bell, sizeof bell, "%lu@%lld",
             mysql_thread_id(((my_port *)w.port)->bell.conn->my),
             (long long)((my_conn *)w.conn)->start - 5);
    put_session(w.conn, bell);
    ring_it(w.conn);
    test_sleep_ms(100);
    EXPECT(!readable(w.port));
    /* A number that nobody has any more: looked up again, and found. */
    snprintf(bell, sizeof bell, "99999999@%lld",
             (long long)((my_conn *)w.conn)->start);
    put_session(w.conn, bell);
    ring_it(w.conn);
    put_session(w.conn, w.bell);
    ring_it(w.conn);
    hear(&w, 2);
    other = conn_to(w.port);
    EXPECT_EQ(end_of(other, "SELECT 1", 1000, &err), SQL_DONE);
    w.port->class->disconnect(other, false);
    end(&w);
}

static void the_listener_is_killed(void)
{
    world w;
    char bell[SQL_BELL_MAX];

    begin(&w);
    AWAIT(sleepers(&w) == 1);
    sql_server_ask(w.s, "KILL %lu",
                   mysql_thread_id(((my_port *)w.port)->bell.conn->my));
    AWAIT(readable(w.port));
    AWAIT((w.port->class->dispatch(w.port), w.e.deaf == 1));
    EXPECT_EQ(w.e.told, 1); /* something may have been missed */
    EXPECT(!readable(w.port));
    listen_at(w.port, bell);
    EXPECT(strcmp(bell, w.bell) != 0);
    /* Who remembers the old address finds the new one. */
    put_session(w.conn, bell);
    ring_it(w.conn);
    hear(&w, 3);
    end(&w);
}

static void the_server_restarts(void)
{
    world w;
    char bell[SQL_BELL_MAX];
    hf_error err;

    begin(&w);
    ring_it(w.conn);
    hear(&w, 2);
    sql_server_kill(w.s);
    AWAIT((w.port->class->dispatch(w.port), w.e.deaf == 1));
    EXPECT(w.port->class->listen(w.port, sid, in_ms(500), bell, &err) != 0);
    EXPECT_CODE(err.code, HF_EUNAVAIL);
    test_sleep_ms(1100); /* a start is told by its second */
    sql_server_restart(w.s);
    w.port->class->disconnect(w.conn, true);
    w.conn = conn_to(w.port);
    AWAIT(w.port->class->listen(w.port, sid, in_ms(3000), bell, &err) == 0);
    EXPECT(strcmp(bell, w.bell) != 0);
    /* The old address is in the row, and in our memory: not rung. */
    ring_it(w.conn);
    test_sleep_ms(100);
    EXPECT(!readable(w.port));
    put_session(w.conn, bell);
    ring_it(w.conn);
    hear(&w, 5);
    end(&w);
}

/* Told once in the log; those who wait look by themselves. */
static int warned;

static void on_log(hf_log_level level, const char *text, void *user)
{
    (void)level;
    (void)user;
    if (strstr(text, "account"))
        warned++;
}

/* Without the post the bell would get the lock, and no ring could end that. */
static void the_post_is_killed(void)
{
    world w;

    begin(&w);
    AWAIT(sleepers(&w) == 1);
    sql_server_ask(w.s, "KILL %lu",
                   mysql_thread_id(((my_port *)w.port)->bell.post->my));
    AWAIT(readable(w.port));
    AWAIT((w.port->class->dispatch(w.port), w.e.deaf == 1));
    listen_at(w.port, w.bell);
    AWAIT(sleepers(&w) == 1);
    end(&w);
}

static void another_account(void)
{
    world w;
    sql_port *port;
    sql_conn *conn;

    begin(&w);
    AWAIT(sleepers(&w) == 1);
    sql_server_ask(w.s, "GRANT ALL ON holdfast.* TO poor@'%%' IDENTIFIED BY"
                        " 'x'");
    port = port_at(sql_server_url(w.s, "poor:x", ""), &w.e);
    conn = conn_to(port);
    hf_set_log(on_log, NULL, HF_LOG_WARN);
    ring_it(conn);
    ring_it(conn);
    EXPECT_EQ(warned, 1);
    EXPECT(!readable(w.port));
    EXPECT(port->class->stands(conn));
    leave(port, conn);
    end(&w);
}

static const test_case cases[] = {
    TEST(a_ring_is_heard),        TEST(nobody_is_hurt),
    TEST(the_listener_is_killed), TEST(the_server_restarts),
    TEST(the_post_is_killed),     TEST(another_account)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "my_bell", cases,
                     sizeof cases / sizeof *cases);
}
