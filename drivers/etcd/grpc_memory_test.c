/* grpc_memory_test.c - a channel that runs out of memory, at every place.
 *
 * The n-th allocation fails, for every n that there is in opening a channel, a
 * call and a stream, and once more with everything from the n-th on.  What was
 * not done is never a success, nothing is lost or freed twice (the sanitizers
 * look), and with memory again the next call is answered. */
#include "harness/expect.h"
#include "harness/runner.h"

#include "harness/ensemble.h"

#include "grpc_player.h"

static atomic_long allocations, failing; /* failing 0: none */
static atomic_bool for_good;
static atomic_long alive;

static void *failing_realloc(void *p, size_t size, void *user)
{
    long n, at = atomic_load(&failing);

    (void)user;
    if (size == 0) {
        atomic_fetch_sub(&alive, p != NULL);
        free(p);
        return NULL;
    }
    n = atomic_fetch_add(&allocations, 1) + 1;
    if (at > 0 && (n == at || (n > at && atomic_load(&for_good))))
        return NULL;
    atomic_fetch_add(&alive, p == NULL);
    return realloc(p, size);
}

static bool answer_well(player *p, uint32_t stream)
{
    say_well(p, stream);
    return true;
}

static void ignore_message(grpc_stream *stream, const void *bytes, size_t len)
{
    (void)stream;
    (void)bytes;
    (void)len;
}

static void ignore_end(grpc_stream *stream, grpc_code code, const hf_error *why)
{
    (void)code;
    EXPECT(why->code < 0);
    atomic_fetch_add((atomic_int *)stream->ctx, 1);
}

/* A call whose request is there already, so that only the channel allocates. */
static void put_without_memory(grpc_channel *channel)
{
    ask a = {.request = {.data = (char[]){'\n', 1, 'a'}, .end = 3}};

    set_ask(&a, channel, "/etcdserverpb.KV/Put", true, 10000);
    grpc_start(channel, &a.call);
    grpc_drive(channel, &a.call);
    EXPECT_EQ(atomic_load(&a.landed), 1);
    EXPECT(was_done(&a) || a.error.code == HF_ENOMEM ||
           a.error.code == HF_EUNAVAIL);
}

/* One life of a channel; false: all of it happened before the n-th. */
static bool live_through(player *p, long n)
{
    world w = {0};
    atomic_int ended = 0;
    grpc_stream stream = {.method = "/etcdserverpb.Watch/Watch",
                          .ctx = &ended,
                          .message = ignore_message,
                          .ended = ignore_end};
    hf_error err = {0};
    bool reached;
    int code;

    atomic_store(&allocations, 0);
    atomic_store(&failing, n);
    code = open_ports(&w, &p->port, 1, (way_in){0}, &err);
    if (code == 0) {
        put_without_memory(w.channel);
        if (grpc_stream_open(w.channel, &stream, NULL) == 0)
            grpc_stream_send(w.channel, &stream, "message", 7, NULL, NULL);
        put_without_memory(w.channel);
    } else {
        EXPECT(code == HF_ENOMEM || code == HF_EUNAVAIL);
        EXPECT(err.text[0] != '\0');
    }
    reached = atomic_load(&allocations) >= n;
    atomic_store(&failing, 0);
    if (code == 0) {
        EXPECT(WAIT_FOR(put(w.channel, "a", 10000) == HF_APPLIED, 20000));
        grpc_stream_end(w.channel, &stream);
        EXPECT(atomic_load(&ended) <= 1);
        grpc_close(w.channel);
    }
    return reached;
}

static void sweep(void)
{
    player p;
    long n = 1;

    start_player(&p, answer_well, NULL);
    hf_set_alloc(failing_realloc, NULL);
    while (live_through(&p, n)) {
        EXPECT_EQ(atomic_load(&alive), 0);
        n++;
    }
    EXPECT(n > 20);
    stop_player(&p);
}

static void one_fails(void)
{
    sweep();
}

static void all_fail_from_there(void)
{
    atomic_store(&for_good, true);
    sweep();
}

static const test_case cases[] = {
    TEST_LIMIT(one_fails, 200),
    TEST_LIMIT(all_fail_from_there, 200),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "grpc_memory", cases,
                     sizeof cases / sizeof *cases);
}
