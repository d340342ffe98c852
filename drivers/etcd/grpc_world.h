/* grpc_world.h - a cluster, a channel to it, and calls, for the tests of gRPC.
 * They include the harness's expect.h, runner.h and ensemble.h before it. */
#ifndef HF_DRIVERS_ETCD_GRPC_WORLD_H
#define HF_DRIVERS_ETCD_GRPC_WORLD_H

#include <poll.h>
#include <pthread.h>

#include "grpc.h"
#include "pb.h"

typedef struct world {
    ensemble *cluster; /* NULL: something else is at the ports */
    grpc_channel *channel;
    hf__tls *tls;
    atomic_int standing, doubts;
    /* the thread that polls */
    pthread_t keeper;
    atomic_bool stop;
} world;

static inline void on_standing(void *ctx)
{
    atomic_fetch_add(&((world *)ctx)->standing, 1);
}

static inline void on_doubt(void *ctx, int code, const char *text)
{
    EXPECT_EQ(code, HF_EUNAVAIL);
    EXPECT(text[0] != '\0');
    atomic_fetch_add(&((world *)ctx)->doubts, 1);
}

typedef struct way_in {
    const char *host;
    const char *user, *password;
    int dial_ms;
} way_in;

static inline int open_ports(world *w, const int *ports, int n, way_in way,
                             hf_error *err)
{
    hf__address addresses[ENSEMBLE_MOST] = {{0}};
    grpc_settings settings = {.addresses = addresses,
                              .address_count = (size_t)n,
                              .tls = w->tls,
                              .user = way.user,
                              .password = way.password,
                              .dial_time =
                                  HF_MS(way.dial_ms ? way.dial_ms : 10000)};
    grpc_listener listener = {w, on_standing, on_doubt};

    for (int i = 0; i < n; i++) {
        addresses[i].host = way.host ? way.host : "127.0.0.1";
        addresses[i].port = (uint16_t)ports[i];
    }
    return grpc_open(&w->channel, &settings, &listener, err);
}

static inline int open_cluster(world *w, way_in way, hf_error *err)
{
    int ports[ENSEMBLE_MOST];

    for (int i = 0; i < w->cluster->count; i++)
        ports[i] = w->cluster->members[i].port;
    return open_ports(w, ports, w->cluster->count, way, err);
}

static inline void open_world(world *w, int members)
{
    ensemble_options options = {.members = members};
    hf_error err = {0};

    memset(w, 0, sizeof *w);
    w->cluster = ensemble_start(ON_ETCD, &options);
    EXPECT_OK(open_cluster(w, (way_in){0}, &err), err);
}

static inline void *run_keeper(void *arg)
{
    world *w = arg;
    struct pollfd fd = {.fd = grpc_fd(w->channel), .events = POLLIN};

    while (!atomic_load(&w->stop)) {
        if (poll(&fd, 1, 20) > 0)
            grpc_dispatch(w->channel);
    }
    return NULL;
}

static inline void start_keeper(world *w)
{
    EXPECT_EQ(pthread_create(&w->keeper, NULL, run_keeper, w), 0);
}

static inline void stop_keeper(world *w)
{
    atomic_store(&w->stop, true);
    pthread_join(w->keeper, NULL);
}

static inline void close_world(world *w)
{
    grpc_close(w->channel);
    hf__tls_free(w->tls);
    ensemble_stop(w->cluster);
}

/* ---- A call ---- */

typedef struct ask {
    grpc_call call; /* first */
    grpc_channel *channel;
    hf__buf request;
    unsigned again; /* start it so many times more */
    hf_outcome outcome;
    grpc_code code;
    hf_error error;
    int64_t count; /* of keys: field 4 of a RangeResponse */
    size_t len;    /* of the reply */
    atomic_int landed;
} ask;

static inline void ask_landed(grpc_call *call, hf_outcome outcome,
                              grpc_code code, const void *reply, size_t len,
                              const hf_error *why)
{
    ask *a = (ask *)(void *)call;
    bool well = outcome == HF_APPLIED && code == GRPC_OK;
    pb_reader reader = pb_read(reply, len);
    pb_field field;

    EXPECT_EQ(well, reply != NULL);
    EXPECT_EQ(well, why == NULL);
    a->outcome = outcome;
    a->code = code;
    a->len = len;
    if (why) {
        a->error = *why;
        EXPECT(why->code < 0 && why->text[0] != '\0');
    }
    while (pb_next(&reader, &field)) {
        if (field.number == 4)
            a->count = (int64_t)field.value;
    }
    EXPECT(!reader.bad);
    if (well && a->again > 0) {
        a->again--;
        grpc_start(a->channel, call);
        return;
    }
    if (!call->driven)
        hf__buf_done(&a->request);
    /* The last touch: a call that nobody drives may be gone then. */
    atomic_fetch_add(&a->landed, 1);
}

static inline ask *set_ask(ask *a, grpc_channel *channel, const char *method,
                           bool driven, int ms)
{
    a->channel = channel;
    a->call.method = method;
    a->call.request = a->request.data;
    a->call.request_len = hf__buf_len(&a->request);
    a->call.landed = ask_landed;
    a->call.driven = driven;
    a->call.deadline = hfd_now() + HF_MS(ms);
    return a;
}

static inline ask *set_put(ask *a, grpc_channel *channel, const char *key,
                           bool driven, int ms)
{
    memset(a, 0, sizeof *a);
    pb_bytes(&a->request, 1, key, strlen(key));
    pb_bytes(&a->request, 2, "value", 5);
    return set_ask(a, channel, "/etcdserverpb.KV/Put", driven, ms);
}

/* All keys from `from` to `end` ("": that key alone). */
static inline ask *set_range(ask *a, grpc_channel *channel, const char *from,
                             const char *end, bool driven, int ms)
{
    memset(a, 0, sizeof *a);
    pb_bytes(&a->request, 1, from, strlen(from));
    pb_bytes(&a->request, 2, end, strlen(end));
    return set_ask(a, channel, "/etcdserverpb.KV/Range", driven, ms);
}

static inline hf_outcome drive(ask *a)
{
    grpc_start(a->channel, &a->call);
    grpc_drive(a->channel, &a->call);
    EXPECT_EQ(atomic_load(&a->landed), 1);
    hf__buf_done(&a->request);
    return a->outcome;
}

static inline bool was_done(const ask *a)
{
    return a->outcome == HF_APPLIED && a->code == GRPC_OK;
}

static inline hf_outcome put(grpc_channel *channel, const char *key, int ms)
{
    ask a;

    drive(set_put(&a, channel, key, true, ms));
    EXPECT(!was_done(&a) ||
           (a.call.sent > 0 && a.call.sent <= hfd_now() && a.len > 0));
    return was_done(&a)              ? HF_APPLIED
           : a.outcome == HF_APPLIED ? HF_NOT_APPLIED
                                     : a.outcome;
}

static inline int64_t count_keys(grpc_channel *channel, const char *from,
                                 const char *end)
{
    ask a;

    drive(set_range(&a, channel, from, end, true, 20000));
    if (!was_done(&a))
        FAIL_TEST("range: %s", a.error.text);
    return a.count;
}

#endif
