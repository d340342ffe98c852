/* grpc_test.c - calls and streams to a real etcd, of one member.
 *
 * Calls by threads of their own and by none, refusals, large answers, streams,
 * logins whose token the server forgets, TLS with client certificates, a
 * server that stands still or is killed.  What is counted is counted in the
 * store. */
#include "harness/expect.h"
#include "harness/runner.h"

#include "harness/ensemble.h"

#include "grpc_world.h"

/* ---- Calls ---- */

static void one_after_the_other(void)
{
    world w;
    char key[32];

    open_world(&w, 1);
    for (int i = 0; i < 300; i++) {
        snprintf(key, sizeof key, "a%d", i);
        EXPECT_EQ(put(w.channel, key, 10000), HF_APPLIED);
    }
    EXPECT_EQ(count_keys(w.channel, "a", "b"), 300);
    EXPECT_EQ(atomic_load(&w.doubts), 0);
    EXPECT_EQ(grpc_member(w.channel, key, sizeof key), 1);
    EXPECT_HAS(key, "127.0.0.1:");
    close_world(&w);
}

enum { THREADS = 16, ROUNDS = 100 };

typedef struct caller {
    world *w;
    int number;
    int counted, unknown;
    pthread_t thread;
} caller;

static void *run_caller(void *arg)
{
    caller *c = arg;
    char key[32];

    for (int i = 0; i < ROUNDS; i++) {
        snprintf(key, sizeof key, "a%d.%d", c->number, i);
        EXPECT_EQ(put(c->w->channel, key, 20000), HF_APPLIED);
    }
    return NULL;
}

static void sixteen_threads(void)
{
    world w;
    caller callers[THREADS] = {0};

    open_world(&w, 1);
    for (int i = 0; i < THREADS; i++) {
        callers[i].w = &w;
        callers[i].number = i;
        EXPECT_EQ(
            pthread_create(&callers[i].thread, NULL, run_caller, &callers[i]),
            0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(callers[i].thread, NULL);
    EXPECT_EQ(count_keys(w.channel, "a", "b"), THREADS * ROUNDS);
    EXPECT_EQ(atomic_load(&w.doubts), 0);
    close_world(&w);
}

/* Calls that nobody drives, some of them in chains, beside a thread that
 * does. */
static void undriven(void)
{
    enum { FLIGHTS = 500 };
    world w;
    ask *asks = calloc(FLIGHTS, sizeof *asks);
    char key[32];

    EXPECT(asks != NULL);
    open_world(&w, 1);
    start_keeper(&w);
    for (int i = 0; i < FLIGHTS; i++) {
        snprintf(key, sizeof key, "a%d", i);
        set_put(&asks[i], w.channel, key, false, 20000);
        asks[i].again = (unsigned)i % 3;
        grpc_start(w.channel, &asks[i].call);
        if (i % 10 == 0)
            EXPECT_EQ(put(w.channel, "b", 20000), HF_APPLIED);
    }
    for (int i = 0; i < FLIGHTS; i++) {
        EXPECT(WAIT_FOR(atomic_load(&asks[i].landed) == 1, 20000));
        EXPECT(was_done(&asks[i]));
    }
    EXPECT_EQ(count_keys(w.channel, "a", "b"), FLIGHTS);
    stop_keeper(&w);
    close_world(&w);
    free(asks);
}

static void refusals_and_chains(void)
{
    world w;
    ask a;

    open_world(&w, 1);
    drive(set_put(&a, w.channel, "", true, 5000));
    EXPECT_EQ(a.outcome, HF_APPLIED);
    EXPECT_EQ(a.code, GRPC_INVALID_ARGUMENT);
    EXPECT_EQ(a.error.code, HF_EPROTO);
    EXPECT_HAS(a.error.text, "key is not provided");
    EXPECT_HAS(a.error.text, "127.0.0.1:");
    set_put(&a, w.channel, "a", true, 5000);
    a.again = 5;
    drive(&a);
    EXPECT(was_done(&a));
    memset(&a, 0, sizeof a);
    drive(set_ask(&a, w.channel, "/etcdserverpb.KV/Nothing", true, 5000));
    EXPECT_EQ(a.code, GRPC_UNIMPLEMENTED);
    EXPECT_EQ(a.error.code, HF_EPROTO);
    /* A lease that does not exist. */
    memset(&a, 0, sizeof a);
    pb_int(&a.request, 1, 4711);
    drive(
        set_ask(&a, w.channel, "/etcdserverpb.Lease/LeaseRevoke", true, 5000));
    EXPECT_EQ(a.outcome, HF_APPLIED);
    EXPECT_EQ(a.error.code, HF_EEXPIRED);
    EXPECT_EQ(atomic_load(&w.doubts), 0);
    close_world(&w);
}

/* Answers of many frames, on several streams at once, beyond any window. */
static void *run_large(void *arg)
{
    world *w = arg;

    for (int i = 0; i < 12; i++) {
        ask a;

        drive(set_range(&a, w->channel, "big", "bih", true, 30000));
        EXPECT(was_done(&a));
        EXPECT_EQ(a.count, 40);
        EXPECT(a.len > 40 * 60000);
    }
    return NULL;
}

static void large_answers(void)
{
    static char value[60000];
    world w;
    pthread_t threads[4];

    open_world(&w, 1);
    memset(value, 'x', sizeof value);
    for (int i = 0; i < 40; i++) {
        ask a = {0};
        char key[32];

        snprintf(key, sizeof key, "big%d", i);
        pb_bytes(&a.request, 1, key, strlen(key));
        pb_bytes(&a.request, 2, value, sizeof value);
        drive(set_ask(&a, w.channel, "/etcdserverpb.KV/Put", true, 20000));
        EXPECT(was_done(&a));
    }
    for (int i = 0; i < 4; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, run_large, &w), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    close_world(&w);
}

/* ---- Streams ---- */

typedef struct watch {
    grpc_stream stream; /* first */
    world *w;
    atomic_int created, events, ended;
    hf__waiter *wake; /* by an event */
    hf_error why;
} watch;

static void watch_message(grpc_stream *stream, const void *bytes, size_t len)
{
    watch *watching = (watch *)(void *)stream;
    pb_reader reader = pb_read(bytes, len);
    pb_field field;
    int events = 0;

    while (pb_next(&reader, &field)) {
        events += field.number == 11;
        if (field.number == 3 && field.value)
            atomic_fetch_add(&watching->created, 1);
    }
    EXPECT(!reader.bad);
    atomic_fetch_add(&watching->events, events);
    if (events && watching->wake)
        grpc_wake(watching->w->channel, watching->wake);
}

static void watch_ended(grpc_stream *stream, grpc_code code,
                        const hf_error *why)
{
    watch *watching = (watch *)(void *)stream;

    (void)code;
    watching->why = *why;
    atomic_fetch_add(&watching->ended, 1);
}

static void send_watch(watch *watching, const char *from, const char *end)
{
    hf__buf out = {0};
    hf_error err = {0};
    hf_nsec sent = 0;
    size_t mark = pb_begin(&out, 1);

    pb_bytes(&out, 1, from, strlen(from));
    pb_bytes(&out, 2, end, strlen(end));
    pb_end(&out, mark);
    EXPECT_OK(grpc_stream_send(watching->w->channel, &watching->stream,
                               out.data + out.start, hf__buf_len(&out), &sent,
                               &err),
              err);
    EXPECT(sent > 0 && sent <= hfd_now());
    hf__buf_done(&out);
}

static void open_watch(watch *watching, world *w)
{
    hf_error err = {0};

    memset(watching, 0, sizeof *watching);
    watching->w = w;
    watching->stream.method = "/etcdserverpb.Watch/Watch";
    watching->stream.message = watch_message;
    watching->stream.ended = watch_ended;
    EXPECT_OK(grpc_stream_open(w->channel, &watching->stream, &err), err);
    send_watch(watching, "a", "b");
}

static void watch_read_by_the_keeper(void)
{
    world w;
    watch watching;
    char key[32];

    open_world(&w, 1);
    start_keeper(&w);
    open_watch(&watching, &w);
    /* The answer to what was sent comes without anybody's attention. */
    EXPECT(WAIT_FOR(atomic_load(&watching.created) == 1, 10000));
    send_watch(&watching, "b", "c");
    EXPECT(WAIT_FOR(atomic_load(&watching.created) == 2, 10000));
    grpc_attend(w.channel, 1);
    for (int i = 0; i < 100; i++) {
        ask a;

        snprintf(key, sizeof key, "%c%d", i % 2 ? 'a' : 'b', i);
        set_put(&a, w.channel, key, i % 3 != 0, 10000);
        grpc_start(w.channel, &a.call);
        if (a.call.driven)
            grpc_drive(w.channel, &a.call);
        EXPECT(WAIT_FOR(atomic_load(&a.landed) == 1, 10000));
        if (a.call.driven)
            hf__buf_done(&a.request);
    }
    EXPECT(WAIT_FOR(atomic_load(&watching.events) == 100, 10000));
    grpc_attend(w.channel, -1);
    grpc_stream_end(w.channel, &watching.stream);
    EXPECT_EQ(put(w.channel, "a", 10000), HF_APPLIED);
    EXPECT_EQ(atomic_load(&watching.ended), 0);
    EXPECT_EQ(atomic_load(&watching.events), 100);
    stop_keeper(&w);
    close_world(&w);
}

static void *run_putter(void *arg)
{
    world *w = arg;

    test_sleep_ms(50);
    EXPECT_EQ(put(w->channel, "a", 10000), HF_APPLIED);
    return NULL;
}

/* A parked thread reads what wakes it; no keeper is there. */
static void watch_read_by_the_parked(void)
{
    world w;
    watch watching;
    hf__waiter waiter = {0}, nobody = {0};
    hf_nsec until = hfd_now() + HF_MS(20000);
    pthread_t putter;

    open_world(&w, 1);
    open_watch(&watching, &w);
    /* Nobody else reads: what came is told while this thread sleeps. */
    while (atomic_load(&watching.created) == 0 && hfd_now() < until)
        grpc_park(w.channel, &nobody, hfd_now() + HF_MS(50));
    EXPECT_EQ(atomic_load(&watching.created), 1);
    watching.wake = &waiter;
    EXPECT_EQ(pthread_create(&putter, NULL, run_putter, &w), 0);
    while (!hf__waiter_woken(&waiter))
        grpc_park(w.channel, &waiter, hfd_now() + HF_MS(1000));
    EXPECT_EQ(atomic_load(&watching.events), 1);
    pthread_join(putter, NULL);
    grpc_stream_end(w.channel, &watching.stream);
    close_world(&w);
}

/* Ended and opened again while events come, from several sides. */
static void *run_events(void *arg)
{
    world *w = arg;

    while (!atomic_load(&w->stop))
        EXPECT_EQ(put(w->channel, "a", 20000), HF_APPLIED);
    return NULL;
}

static void streams_come_and_go(void)
{
    world w;
    pthread_t threads[3];

    open_world(&w, 1);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, run_events, &w), 0);
    for (int i = 0; i < 100; i++) {
        watch *watching = malloc(sizeof *watching);

        EXPECT(watching != NULL);
        open_watch(watching, &w);
        if (i % 2)
            EXPECT(WAIT_FOR(atomic_load(&watching->events) > 0, 10000));
        grpc_stream_end(w.channel, &watching->stream);
        EXPECT_EQ(atomic_load(&watching->ended), 0);
        memset(watching, 0x5a, sizeof *watching);
        free(watching);
    }
    atomic_store(&w.stop, true);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    EXPECT_EQ(atomic_load(&w.doubts), 0);
    close_world(&w);
}

static const test_case cases[] = {
    TEST(one_after_the_other),
    TEST(sixteen_threads),
    TEST(undriven),
    TEST(refusals_and_chains),
    TEST(large_answers),
    TEST(watch_read_by_the_keeper),
    TEST(watch_read_by_the_parked),
    TEST(streams_come_and_go),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "grpc", cases, sizeof cases / sizeof *cases);
}
