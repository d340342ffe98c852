/* wire_refused_test.c - what the server refuses in between.
 *
 * Channels that the account may not listen to: the server does not say which.
 * What is allowed must stand and be told beside them, and nothing of a refused
 * one may stay behind.  And the SELECT in front of a call: what counts is what
 * is said to the call, unless that was done, for nobody knows where. */
#include "harness/expect.h"
#include "harness/proxy.h"
#include "harness/runner.h"
#include "harness/server.h"

#include "wire_inside.h"
#include "wire_world.h"

/* ---- Channels ---- */

static void open_refused(world *w)
{
    open_world(w, 1);
    start_keeper(w);
    server_ask(w->server, "ACL SETUSER default resetchannels &yes*");
}

static void close_refused(world *w)
{
    stop_keeper(w);
    close_world(w);
}

static void listen_to(world *w, const char *channel)
{
    EXPECT_EQ(redis_wire_listen(w->wire, channel, strlen(channel), false), 0);
}

static void unlisten(world *w, const char *channel)
{
    redis_wire_unlisten(w->wire, channel, strlen(channel), false);
}

/* Nothing is owed on the connection, and so many channels are known. */
static bool has_settled(world *w, unsigned channels)
{
    unsigned count = 0;
    bool owed;

    redis_lock(w->wire);
    for (const redis_channel *at = w->wire->channels; at; at = at->next)
        count++;
    /* Channels alone are the old connection's, or the next one's. */
    owed = w->wire->push ? hf__buf_len(&w->wire->push->asked) > 0 : count > 0;
    redis_unlock(w->wire);
    return !owed && count == channels;
}

static void nothing_stays_behind(void)
{
    world w;

    open_refused(&w);
    for (int i = 0; i < 20; i++) {
        char name[16];

        snprintf(name, sizeof name, "no%d", i);
        listen_to(&w, name);
        if (i % 2)
            EXPECT(WAIT_FOR(has_settled(&w, 1), 5000));
        unlisten(&w, name);
        EXPECT(WAIT_FOR(has_settled(&w, 0), 5000));
    }
    EXPECT_EQ(atomic_load(&w.listening), 0);
    EXPECT_EQ(atomic_load(&w.doubts), 0);
    close_refused(&w);
}

/* The refusal comes before the other's answer, behind it, and on both sides. */
static void others_are_told(void)
{
    static const char *const orders[][3] = {
        {"no", "yes", NULL}, {"yes", "no", NULL}, {"no1", "yes", "no2"}};

    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        world w;

        open_refused(&w);
        for (int k = 0; k < 3 && orders[i][k]; k++)
            listen_to(&w, orders[i][k]);
        EXPECT(WAIT_FOR(atomic_load(&w.listening) == 1, 5000));
        server_ask(w.server, "PUBLISH yes hello");
        EXPECT(WAIT_FOR(atomic_load(&w.messages) == 1, 5000));
        /* The next one, too, and all of them on the next connection. */
        listen_to(&w, "yes2");
        EXPECT(WAIT_FOR(atomic_load(&w.listening) == 2, 5000));
        EXPECT(server_number(w.server, "CLIENT KILL TYPE pubsub") == 1);
        EXPECT(WAIT_FOR(atomic_load(&w.listening) == 3, 10000));
        server_ask(w.server, "PUBLISH yes2 again");
        EXPECT(WAIT_FOR(atomic_load(&w.messages) == 2, 5000));
        EXPECT_EQ(atomic_load(&w.doubts), 1);
        close_refused(&w);
    }
}

/* The pause before the next attempt begins anew when all was answered. */
static void a_refusal_is_no_failure(void)
{
    world w;
    unsigned failures;

    open_refused(&w);
    redis_lock(w.wire);
    w.wire->push_backoff.failures = 5;
    redis_unlock(w.wire);
    listen_to(&w, "no");
    EXPECT(WAIT_FOR(has_settled(&w, 1), 5000));
    redis_lock(w.wire);
    failures = w.wire->push_backoff.failures;
    redis_unlock(w.wire);
    EXPECT_EQ(failures, 0);
    close_refused(&w);
}

/* ---- The database ---- */

static const char busy[] = "-BUSY Redis is busy running a script\r\n";

static proxy *open_database(world *w)
{
    hf__address address = {"127.0.0.1", 0, NULL};
    redis_settings settings = {.addresses = &address,
                               .address_count = 1,
                               .database = 1,
                               .client_name = "wire_test",
                               .most = 1,
                               .dial_time = HF_MS(1000)};
    redis_listener listener = {w, on_message, on_listening, on_doubt};
    hf_error err = {0};
    proxy *p;

    memset(w, 0, sizeof *w);
    w->server = server_start(NULL);
    p = proxy_start(w->server->port);
    address.port = (uint16_t)proxy_port(p);
    EXPECT_OK(redis_wire_open(&w->wire, &settings, &listener, &err), err);
    return p;
}

static void close_database(world *w, proxy *p)
{
    redis_wire_close(w->wire);
    proxy_stop(p);
    server_stop(w->server);
}

/* The call was done, and who knows in which database. */
static void done_behind_a_refused_select(void)
{
    world w;
    proxy *p = open_database(&w);
    ask a = make_ask(w.wire, COUNT, 0, true, 5000);

    proxy_set(p, &(proxy_rule){.command = "SELECT",
                               .nth = 1,
                               .act = PROXY_REPLACE,
                               .text = busy});
    EXPECT_EQ(drive(&a), HF_UNKNOWN);
    EXPECT_EQ(a.error.code, HF_EUNAVAIL);
    EXPECT_HAS(a.error.text, "busy");
    EXPECT(WAIT_FOR(atomic_load(&w.doubts) == 1, 5000));
    proxy_set(p, NULL);
    expect_echo(w.wire);
    close_database(&w, p);
}

/* Both were refused: nothing was done, and the connection is as good as ever,
 * also for the next call. */
static void refused_behind_a_refused_select(void)
{
    world w;
    proxy *p = open_database(&w);
    ask a = make_ask(w.wire, COUNT, 0, true, 5000);

    proxy_set(p, &(proxy_rule){.act = PROXY_REPLACE, .text = busy});
    EXPECT_EQ(drive(&a), HF_NOT_APPLIED);
    EXPECT_HAS(a.error.text, "busy");
    EXPECT_EQ(proxy_struck(p), 2);
    proxy_set(p, NULL);
    expect_echo(w.wire);
    EXPECT_EQ(proxy_count(p, "ROLE"), 1); /* of one handshake */
    EXPECT_EQ(atomic_load(&w.doubts), 0);
    close_database(&w, p);
}

static const test_case cases[] = {
    TEST(done_behind_a_refused_select), TEST(refused_behind_a_refused_select),
    TEST(nothing_stays_behind),         TEST(others_are_told),
    TEST(a_refusal_is_no_failure),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "wire_refused", cases,
                     sizeof cases / sizeof *cases);
}
