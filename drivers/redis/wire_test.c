/* wire_test.c - calls and pushes over real connections to a real server, which
 * is paused, killed, started again, or cuts us off.
 *
 * Every call must land exactly once, with its own reply or with an outcome that
 * is true: a counter in the server is compared with what was answered. */
#include "harness/expect.h"
#include "harness/runner.h"
#include "harness/server.h"

#include "wire_world.h"

/* ---- Many at once ---- */

enum { THREADS = 16, ROUNDS = 200 };

typedef struct caller {
    pthread_t thread;
    world *w;
    int number;
    int64_t counted, unknown;
} caller;

static void *run_caller(void *arg)
{
    caller *c = arg;

    for (int i = 0; i < ROUNDS; i++) {
        ask a = make_ask(c->w->wire, COUNT, 0, true, 20000);

        EXPECT_EQ(echo(c->w->wire, c->number * 100000 + i, 20000), HF_APPLIED);
        EXPECT_EQ(drive(&a), HF_APPLIED);
        EXPECT(a.answer > c->counted);
        c->counted = a.answer;
    }
    return NULL;
}

static void threads_on(unsigned most)
{
    world w;
    caller callers[THREADS] = {0};

    open_world(&w, most);
    for (int i = 0; i < THREADS; i++) {
        callers[i].w = &w;
        callers[i].number = i;
        EXPECT_EQ(
            pthread_create(&callers[i].thread, NULL, run_caller, &callers[i]),
            0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(callers[i].thread, NULL);
    EXPECT_EQ(server_number(w.server, "GET counter"), THREADS * ROUNDS);
    EXPECT_EQ(atomic_load(&w.doubts), 0);
    close_world(&w);
}

static void sixteen_threads_on_one(void)
{
    threads_on(1);
}

static void sixteen_threads_on_two(void)
{
    threads_on(2);
}

static void sixteen_threads_on_four(void)
{
    threads_on(4);
}

/* Calls that nobody drives, beside threads that do. */
static void undriven(void)
{
    enum { FLIGHTS = 500 };
    world w;
    ask *asks = calloc(FLIGHTS, sizeof *asks);

    EXPECT(asks != NULL);
    open_world(&w, 2);
    start_keeper(&w);
    for (int i = 0; i < FLIGHTS; i++) {
        asks[i] = make_ask(w.wire, ECHO, i, false, 20000);
        asks[i].again = i % 3; /* a chain of calls */
        redis_wire_start(w.wire, &asks[i].call);
        if (i % 10 == 0)
            expect_echo(w.wire);
    }
    for (int i = 0; i < FLIGHTS; i++) {
        EXPECT(WAIT_FOR(atomic_load(&asks[i].landed) == 1, 10000));
        EXPECT_EQ(asks[i].outcome, HF_APPLIED);
        EXPECT_EQ(asks[i].answer, i + i % 3);
    }
    stop_keeper(&w);
    close_world(&w);
    free(asks);
}

/* A driven call that is started again from `landed`, and replies that are
 * errors. */
static void chains_and_refusals(void)
{
    world w;
    ask a, wrong;
    redis_server found;

    open_world(&w, 1);
    EXPECT(redis_wire_server(w.wire, &found));
    EXPECT_STR(found.run_id, server_info(w.server, "run_id"));
    a = make_ask(w.wire, ECHO, 10, true, 5000);
    a.again = 5;
    EXPECT_EQ(drive(&a), HF_APPLIED);
    EXPECT_EQ(a.answer, 15);
    server_ask(w.server, "SET counter 1");
    wrong = make_ask(w.wire, WRONG, 0, true, 5000);
    EXPECT_EQ(drive(&wrong), HF_UNKNOWN);
    EXPECT_EQ(wrong.error.code, HF_EPROTO);
    EXPECT_HAS(wrong.error.text, "WRONGTYPE");
    EXPECT_HAS(wrong.error.text, "127.0.0.1:");
    expect_echo(w.wire);
    EXPECT_EQ(atomic_load(&w.doubts), 0);
    close_world(&w);
}

static void forgotten_script(void)
{
    world w;

    redis_script_ready(&world_script);
    open_world(&w, 1);
    start_keeper(&w);
    for (int i = 0; i < 3; i++) {
        for (int driven = 0; driven < 2; driven++) {
            ask a = make_ask(w.wire, SCRIPT, 100 + i, driven, 5000);

            EXPECT_STR(server_ask(w.server, "SCRIPT FLUSH"), "OK");
            redis_wire_start(w.wire, &a.call);
            if (driven)
                redis_wire_drive(w.wire, &a.call);
            EXPECT(WAIT_FOR(atomic_load(&a.landed) == 1, 5000));
            EXPECT_EQ(a.outcome, HF_APPLIED);
            EXPECT_EQ(a.answer, 100 + i);
            EXPECT(a.call.by_text);
        }
    }
    stop_keeper(&w);
    close_world(&w);
}

/* ---- A server that does not answer ---- */

static void paused(void)
{
    world w;
    ask a, b;

    open_world(&w, 1);
    start_keeper(&w);
    server_pause(w.server);
    a = make_ask(w.wire, COUNT, 0, true, 200);
    b = make_ask(w.wire, COUNT, 0, false, 10000);
    redis_wire_start(w.wire, &b.call);
    EXPECT_EQ(drive(&a), HF_UNKNOWN);
    EXPECT_EQ(a.error.code, HF_EUNAVAIL);
    EXPECT_HAS(a.error.text, "127.0.0.1:");
    EXPECT_HAS(a.error.text, " ms");
    /* Its reply would have come on the same connection. */
    EXPECT(WAIT_FOR(atomic_load(&b.landed) == 1, 5000));
    EXPECT_EQ(b.outcome, HF_UNKNOWN);
    EXPECT(WAIT_FOR(atomic_load(&w.doubts) == 1, 5000));
    /* Now there is no connection, and nobody shakes hands: not applied. */
    EXPECT_EQ(echo(w.wire, 1, 200), HF_NOT_APPLIED);
    server_continue(w.server);
    EXPECT(WAIT_FOR(echo(w.wire, 2, 2000) == HF_APPLIED, 5000));
    stop_keeper(&w);
    close_world(&w);
}

/* The timer in the epoll watches a call that nobody drives. */
static void paused_undriven(void)
{
    world w;
    ask a, b;

    open_world(&w, 1);
    start_keeper(&w);
    server_pause(w.server);
    a = make_ask(w.wire, COUNT, 0, false, 200);
    redis_wire_start(w.wire, &a.call);
    EXPECT(WAIT_FOR(atomic_load(&a.landed) == 1, 5000));
    EXPECT_EQ(a.outcome, HF_UNKNOWN);
    /* This one waits for the dialer thread, in vain. */
    b = make_ask(w.wire, COUNT, 0, false, 200);
    redis_wire_start(w.wire, &b.call);
    EXPECT(WAIT_FOR(atomic_load(&b.landed) == 1, 5000));
    EXPECT_EQ(b.outcome, HF_NOT_APPLIED);
    EXPECT_EQ(b.error.code, HF_EUNAVAIL);
    server_continue(w.server);
    EXPECT(WAIT_FOR(echo(w.wire, 2, 2000) == HF_APPLIED, 5000));
    stop_keeper(&w);
    close_world(&w);
}

static void killed_and_back(void)
{
    world w;
    ask a, b;
    char first[41];
    redis_server found;

    open_world(&w, 2);
    start_keeper(&w);
    expect_echo(w.wire);
    snprintf(first, sizeof first, "%s", server_info(w.server, "run_id"));
    server_kill(w.server);
    /* The connection was idle, so whether this one is sent is a race. */
    a = make_ask(w.wire, COUNT, 0, true, 500);
    EXPECT(drive(&a) != HF_APPLIED);
    EXPECT_EQ(a.error.code, HF_EUNAVAIL);
    a = make_ask(w.wire, COUNT, 0, true, 500);
    EXPECT_EQ(drive(&a), HF_NOT_APPLIED);
    EXPECT_EQ(a.error.code, HF_EUNAVAIL);
    b = make_ask(w.wire, COUNT, 0, false, 500);
    redis_wire_start(w.wire, &b.call);
    EXPECT(WAIT_FOR(atomic_load(&b.landed) == 1, 5000));
    EXPECT_EQ(b.outcome, HF_NOT_APPLIED);
    server_restart(w.server, true);
    EXPECT(WAIT_FOR(echo(w.wire, 2, 2000) == HF_APPLIED, 5000));
    b = make_ask(w.wire, COUNT, 0, false, 5000);
    redis_wire_start(w.wire, &b.call);
    EXPECT(WAIT_FOR(atomic_load(&b.landed) == 1, 5000));
    EXPECT_EQ(b.outcome, HF_APPLIED);
    EXPECT_EQ(b.answer, 1);
    EXPECT(redis_wire_server(w.wire, &found));
    EXPECT(strcmp(found.run_id, first) != 0);
    stop_keeper(&w);
    close_world(&w);
}

/* After a while of silence a dead connection is noticed before it is used: the
 * call is not lost with it.  But the server is another, and may know less. */
static void restarted_while_idle(void)
{
    world w;

    open_world(&w, 1);
    expect_echo(w.wire);
    server_kill(w.server);
    server_restart(w.server, true);
    test_sleep_ms(600);
    expect_echo(w.wire);
    EXPECT_EQ(atomic_load(&w.doubts), 1);
    close_world(&w);
}

/* Counted in the server and here: what was APPLIED is there, what is there was
 * APPLIED or UNKNOWN. */
static void *run_through_kills(void *arg)
{
    caller *c = arg;

    while (!atomic_load(&c->w->stop)) {
        ask a = make_ask(c->w->wire, COUNT, 0, true, 2000);

        drive(&a);
        c->counted += a.outcome == HF_APPLIED;
        c->unknown += a.outcome == HF_UNKNOWN;
    }
    return NULL;
}

static void connections_killed(void)
{
    world w;
    caller callers[8] = {0};
    int64_t counted = 0, unknown = 0, there;

    open_world(&w, 2);
    for (int i = 0; i < 8; i++) {
        callers[i].w = &w;
        EXPECT_EQ(pthread_create(&callers[i].thread, NULL, run_through_kills,
                                 &callers[i]),
                  0);
    }
    for (int i = 0; i < 30; i++) {
        test_sleep_ms(10);
        server_ask(w.server, "CLIENT KILL TYPE normal SKIPME yes");
    }
    atomic_store(&w.stop, true);
    for (int i = 0; i < 8; i++) {
        pthread_join(callers[i].thread, NULL);
        counted += callers[i].counted;
        unknown += callers[i].unknown;
    }
    there = server_number(w.server, "GET counter");
    if (there < counted || there > counted + unknown)
        FAIL_TEST("%lld there, %lld applied, %lld unknown", (long long)there,
                  (long long)counted, (long long)unknown);
    EXPECT(counted > 0 && unknown > 0);
    /* A connection killed after the last caller left may take one call with
     * it before its end is noticed. */
    EXPECT(WAIT_FOR(echo(w.wire, 1, 5000) == HF_APPLIED, 5000));
    close_world(&w);
}

/* The same with calls that nobody drives: they land on the keeper's thread, on
 * the dialer's, or inside the start. */
static void connections_killed_undriven(void)
{
    enum { BATCH = 20, BATCHES = 60 };
    world w;
    ask asks[BATCH];
    int64_t counted = 0, unknown = 0, there;

    open_world(&w, 2);
    start_keeper(&w);
    for (int i = 0; i < BATCHES; i++) {
        for (int k = 0; k < BATCH; k++) {
            asks[k] = make_ask(w.wire, COUNT, 0, false, 5000);
            redis_wire_start(w.wire, &asks[k].call);
        }
        server_ask(w.server, "CLIENT KILL TYPE normal SKIPME yes");
        for (int k = 0; k < BATCH; k++) {
            EXPECT(WAIT_FOR(atomic_load(&asks[k].landed) == 1, 10000));
            counted += asks[k].outcome == HF_APPLIED;
            unknown += asks[k].outcome == HF_UNKNOWN;
        }
    }
    there = server_number(w.server, "GET counter");
    if (there < counted || there > counted + unknown)
        FAIL_TEST("%lld there, %lld applied, %lld unknown", (long long)there,
                  (long long)counted, (long long)unknown);
    EXPECT(counted > 0);
    stop_keeper(&w);
    close_world(&w);
}

/* ---- Not waiting any longer ---- */

typedef struct handed {
    ask a;
    world *w;
    hf_nsec until; /* its thread waits so long */
    atomic_bool reading, returned;
    bool landed;
} handed;

/* The reader has the reply that the script is unknown, and is slow: meanwhile
 * the call's thread stops waiting.  The second reply does not come. */
static void encode_slowly(redis_call *call, hf__buf *out,
                          const redis_server *there)
{
    handed *h = (handed *)(void *)call;

    if (call->by_text) {
        server_pause(h->w->server);
        h->until = hfd_now() + HF_MS(300);
        atomic_store(&h->reading, true);
        while (hfd_now() < h->until + HF_MS(300))
            poll(NULL, 0, 10);
    }
    encode_ask(call, out, there);
}

static void *drive_handed(void *arg)
{
    handed *h = arg;

    h->landed = redis_wire_drive_for(h->w->wire, &h->a.call, h->until);
    atomic_store(&h->returned, true);
    return NULL;
}

/* A call that is sent again by its text while its thread stops waiting has its
 * deadline all the same. */
static void let_go_between_replies(void)
{
    world w;
    handed h = {.w = &w};
    ask other;
    pthread_t thread;

    open_world(&w, 1);
    start_keeper(&w);
    server_ask(w.server, "SCRIPT FLUSH");
    other = make_ask(w.wire, ECHO, 1, false, 20000);
    h.a = make_ask(w.wire, SCRIPT, 2, true, 2500);
    h.a.call.encode = encode_slowly;
    redis_wire_start(w.wire, &h.a.call);
    /* For the reply behind it the keeper reads its own, too. */
    redis_wire_start(w.wire, &other.call);
    EXPECT(WAIT_FOR(atomic_load(&h.reading), 10000));
    EXPECT_EQ(pthread_create(&thread, NULL, drive_handed, &h), 0);
    EXPECT(WAIT_FOR(atomic_load(&h.returned), 10000));
    pthread_join(thread, NULL);
    EXPECT(WAIT_FOR(atomic_load(&h.a.landed) == 1, 10000));
    EXPECT_EQ(h.a.outcome, HF_UNKNOWN);
    server_continue(w.server);
    EXPECT(WAIT_FOR(echo(w.wire, 3, 5000) == HF_APPLIED, 10000));
    EXPECT_EQ(atomic_load(&other.landed), 1);
    stop_keeper(&w);
    close_world(&w);
}

static const test_case cases[] = {
    TEST(sixteen_threads_on_one),
    TEST(sixteen_threads_on_two),
    TEST(sixteen_threads_on_four),
    TEST(undriven),
    TEST(chains_and_refusals),
    TEST(forgotten_script),
    TEST(paused),
    TEST(paused_undriven),
    TEST(killed_and_back),
    TEST(restarted_while_idle),
    TEST(connections_killed),
    TEST(connections_killed_undriven),
    TEST(let_go_between_replies),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "wire", cases, sizeof cases / sizeof *cases);
}
