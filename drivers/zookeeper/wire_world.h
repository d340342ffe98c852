/* wire_world.h - a wire, a thread that keeps it, and calls, for the tests of
 * the wire.  They include the harness's expect.h and runner.h before it. */
#ifndef HF_DRIVERS_ZOOKEEPER_WIRE_WORLD_H
#define HF_DRIVERS_ZOOKEEPER_WIRE_WORLD_H

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "wire.h"

enum { LONG_MS = 30000 }; /* for what must come, on any machine */

typedef struct world {
    zk_wire *wire;
    atomic_int events, agains, doubts, overs;
    atomic_llong last_again, last_over;
    atomic_int last_type;
    char last_path[200]; /* written by one thread at a time, before events */
    char last_text[200];
    hf__waiter *wake; /* woken by any event */
    /* the thread that polls */
    pthread_t keeper;
    bool kept;
    atomic_bool stop;
} world;

static inline void on_event(void *ctx, int32_t type, const char *path,
                            size_t len)
{
    world *w = ctx;

    snprintf(w->last_path, sizeof w->last_path, "%.*s", (int)len, path);
    atomic_store(&w->last_type, type);
    atomic_fetch_add(&w->events, 1);
    if (w->wake)
        zk_wire_wake(w->wire, w->wake);
}

static inline void on_again(void *ctx, int64_t session)
{
    world *w = ctx;

    atomic_store(&w->last_again, session);
    atomic_fetch_add(&w->agains, 1);
}

static inline void on_doubt(void *ctx, int code, const char *text)
{
    EXPECT_EQ(code, HF_EUNAVAIL);
    EXPECT(text[0] != '\0');
    atomic_fetch_add(&((world *)ctx)->doubts, 1);
}

static inline void on_over(void *ctx, int64_t session, const char *text)
{
    world *w = ctx;

    snprintf(w->last_text, sizeof w->last_text, "%s", text);
    atomic_store(&w->last_over, session);
    atomic_fetch_add(&w->overs, 1);
}

static inline int open_wire(world *w, const zk_settings *settings,
                            hf_error *err)
{
    zk_listener listener = {w, on_event, on_again, on_doubt, on_over};

    return zk_wire_open(&w->wire, settings, &listener, err);
}

static inline void *run_keeper(void *arg)
{
    world *w = arg;
    struct pollfd fd = {.fd = zk_wire_fd(w->wire), .events = POLLIN};

    while (!atomic_load(&w->stop)) {
        if (poll(&fd, 1, 20) > 0)
            zk_wire_dispatch(w->wire);
    }
    return NULL;
}

static inline void start_keeper(world *w)
{
    w->kept = true;
    EXPECT_EQ(pthread_create(&w->keeper, NULL, run_keeper, w), 0);
}

static inline void stop_keeper(world *w)
{
    atomic_store(&w->stop, true);
    if (w->kept)
        pthread_join(w->keeper, NULL);
    w->kept = false;
}

/* To members on these loopback ports. */
static inline void open_ports(world *w, const int *ports, size_t n)
{
    hf__address addresses[8] = {0};
    zk_settings settings = {
        .addresses = addresses, .address_count = n, .dial_time = HF_MS(2000)};
    hf_error err = {0};

    for (size_t i = 0; i < n; i++)
        addresses[i] = (hf__address){"127.0.0.1", (uint16_t)ports[i], NULL};
    memset(w, 0, sizeof *w);
    EXPECT_OK(open_wire(w, &settings, &err), err);
}

/* To the server of harness/with-zookeeper tls, with a keeper. */
static inline int port_of(const char *variable)
{
    const char *url = getenv(variable), *colon = url ? strrchr(url, ':') : NULL;

    if (!colon)
        FAIL_TEST("%s is not set: run it by harness/with-zookeeper tls",
                  variable);
    return (int)strtol(colon + 1, NULL, 10);
}

static inline void open_world(world *w)
{
    int port = port_of("HOLDFAST_TEST_ZOOKEEPER");

    open_ports(w, &port, 1);
    start_keeper(w);
}

static inline void close_world(world *w)
{
    stop_keeper(w);
    zk_wire_close(w->wire);
}

/* ---- A call ---- */

typedef struct ask {
    zk_call call; /* first */
    world *w;
    hf_outcome outcome;
    hf_error error;
    unsigned answers;
    zk_reply replies[ZK_MOST_REQUESTS]; /* without what they point at */
    char path[200];                     /* of the last that has one */
    char data[200];
    char names[400]; /* with a blank behind each */
    unsigned again;  /* start it so many times more */
    atomic_int landed;
} ask;

static inline void ask_answered(zk_call *call, unsigned i,
                                const zk_reply *reply)
{
    ask *a = (ask *)(void *)call;
    const char *name;
    size_t at = 0, len;

    EXPECT_EQ(i, a->answers);
    a->answers++;
    a->replies[i] = *reply;
    if (reply->path)
        snprintf(a->path, sizeof a->path, "%.*s", (int)reply->path_len,
                 reply->path);
    if (reply->data)
        snprintf(a->data, sizeof a->data, "%.*s", (int)reply->data_len,
                 reply->data);
    a->names[0] = '\0';
    while (zk_next_name(reply, &at, &name, &len)) {
        size_t used = strlen(a->names);

        snprintf(a->names + used, sizeof a->names - used, "%.*s ", (int)len,
                 name);
    }
}

static inline void ask_landed(zk_call *call, hf_outcome outcome,
                              const hf_error *why)
{
    ask *a = (ask *)(void *)call;

    a->outcome = outcome;
    EXPECT((outcome == HF_APPLIED) == (why == NULL));
    EXPECT(outcome != HF_APPLIED || a->answers == a->call.count);
    if (why)
        a->error = *why;
    if (!why && a->again > 0) {
        a->again--;
        a->answers = 0;
        zk_wire_start(a->w->wire, call);
        return;
    }
    /* The last touch: a call that nobody drives may be gone then. */
    atomic_fetch_add(&a->landed, 1);
}

static inline ask make_ask(world *w, int64_t session, bool driven, int ms)
{
    ask a = {.w = w};

    a.call.answered = ask_answered;
    a.call.landed = ask_landed;
    a.call.driven = driven;
    a.call.session = session;
    a.call.deadline = hfd_now() + HF_MS(ms);
    return a;
}

static inline zk_request *add(ask *a, zk_op op, const char *path)
{
    zk_request *request = &a->call.requests[a->call.count++];

    *request = (zk_request){
        .op = op, .path = path, .path_len = strlen(path), .version = -1};
    return request;
}

static inline hf_outcome drive(ask *a)
{
    zk_wire_start(a->w->wire, &a->call);
    if (a->call.driven)
        zk_wire_drive(a->w->wire, &a->call);
    else
        EXPECT(WAIT_FOR(atomic_load(&a->landed) == 1, 2 * LONG_MS));
    EXPECT_EQ(atomic_load(&a->landed), 1);
    return a->outcome;
}

/* One request that must be answered; its error. */
static inline int32_t ask_one(world *w, int64_t session, zk_op op,
                              const char *path)
{
    ask a = make_ask(w, session, true, LONG_MS);

    add(&a, op, path);
    if (drive(&a) != HF_APPLIED)
        FAIL_TEST("%d of %s: %s", op, path, a.error.text);
    EXPECT(a.call.sent > 0 && a.call.sent <= hfd_now());
    return a.replies[0].error;
}

static inline hf_outcome try_begin(ask *a, world *w, int timeout_ms,
                                   bool driven, int ms)
{
    *a = make_ask(w, 0, driven, ms);
    add(a, ZK_BEGIN, "")->version = timeout_ms;
    return drive(a);
}

static inline int64_t begin(world *w, int timeout_ms)
{
    hf_nsec before = hfd_now();
    zk_standing now;
    ask a;

    if (try_begin(&a, w, timeout_ms, true, LONG_MS) != HF_APPLIED)
        FAIL_TEST("no session: %s", a.error.text);
    EXPECT(a.call.sent >= before && a.call.sent <= hfd_now());
    EXPECT(a.replies[0].session != 0);
    EXPECT(a.replies[0].timeout_ms > 0);
    zk_wire_standing(w->wire, &now);
    EXPECT_EQ(now.session, a.replies[0].session);
    EXPECT_EQ(now.timeout_ms, a.replies[0].timeout_ms);
    return a.replies[0].session;
}

static inline void end(world *w, int64_t session)
{
    zk_standing now;

    EXPECT_EQ(ask_one(w, session, ZK_CLOSE, ""), 0);
    zk_wire_standing(w->wire, &now);
    EXPECT_EQ(now.session, 0);
}

/* A name of this test's own under the root. */
static inline const char *own_path(char *room, size_t size, const char *more)
{
    snprintf(room, size, "/%s-%d%s", test_name(), (int)getpid(), more);
    return room;
}

#endif
