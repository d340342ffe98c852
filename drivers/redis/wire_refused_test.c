/* wire_refused_test.c - channels that the account may not listen to.
 *
 * The server refuses without naming the channel.  What is allowed must stand
 * and be told beside it, nothing of a refused one may stay behind, and a server
 * that only cannot now is not taken for one that refuses. */
#include "harness/expect.h"
#include "harness/runner.h"
#include "harness/server.h"

#include "wire_inside.h"
#include "wire_world.h"

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

static const test_case cases[] = {
    TEST(nothing_stays_behind),
    TEST(others_are_told),
    TEST(a_refusal_is_no_failure),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "wire_refused", cases,
                     sizeof cases / sizeof *cases);
}
