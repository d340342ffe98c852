/* wire_world.h - a server, a wire to it, and calls, for the tests of the wire.
 * They include the harness's expect.h, runner.h and server.h before it. */
#ifndef HF_DRIVERS_REDIS_WIRE_WORLD_H
#define HF_DRIVERS_REDIS_WIRE_WORLD_H

#include <poll.h>
#include <pthread.h>

#include "wire.h"

typedef struct world {
    server *server;
    redis_wire *wire;
    atomic_int messages, listening, doubts;
    char last[64];    /* message; written by one thread at a time */
    hf__waiter *wake; /* woken by a message "wake" */
    /* the thread that polls */
    pthread_t keeper;
    atomic_bool stop;
} world;

static inline void on_message(void *ctx, const char *channel,
                              size_t channel_len, const char *text, size_t len)
{
    world *w = ctx;

    EXPECT(channel_len > 0 && channel);
    snprintf(w->last, sizeof w->last, "%.*s", (int)len, text);
    if (w->wake && len == 4 && memcmp(text, "wake", 4) == 0)
        redis_wire_wake(w->wire, w->wake);
    atomic_fetch_add(&w->messages, 1);
}

static inline void on_listening(void *ctx)
{
    atomic_fetch_add(&((world *)ctx)->listening, 1);
}

static inline void on_doubt(void *ctx, int code, const char *text)
{
    EXPECT_EQ(code, HF_EUNAVAIL);
    EXPECT(text[0] != '\0');
    atomic_fetch_add(&((world *)ctx)->doubts, 1);
}

static inline int open_wire(world *w, int port, const char *password,
                            unsigned most, hf_error *err)
{
    hf__address address = {"127.0.0.1", (uint16_t)port, NULL};
    redis_settings settings = {.addresses = &address,
                               .address_count = 1,
                               .password = password,
                               .client_name = "wire_test",
                               .most = most,
                               .dial_time = HF_MS(1000)};
    redis_listener listener = {w, on_message, on_listening, on_doubt};

    return redis_wire_open(&w->wire, &settings, &listener, err);
}

static inline void open_world(world *w, unsigned most)
{
    hf_error err = {0};

    memset(w, 0, sizeof *w);
    w->server = server_start(NULL);
    EXPECT_OK(open_wire(w, w->server->port, NULL, most, &err), err);
}

static inline void *run_keeper(void *arg)
{
    world *w = arg;
    struct pollfd fd = {.fd = redis_wire_fd(w->wire), .events = POLLIN};

    while (!atomic_load(&w->stop)) {
        if (poll(&fd, 1, 20) > 0)
            redis_wire_dispatch(w->wire);
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
    redis_wire_close(w->wire);
    server_stop(w->server);
}

/* ---- A call ---- */

typedef enum verb { ECHO, COUNT, SCRIPT, WRONG } verb;

typedef struct ask {
    redis_call call; /* first */
    redis_wire *wire;
    verb verb;
    int64_t number, answer;
    unsigned again; /* start it so many times more */
    hf_outcome outcome;
    hf_error error;
    atomic_int landed;
} ask;

static redis_script world_script = {"echo", "return tonumber(ARGV[1])", ""};

static inline void encode_ask(redis_call *call, hf__buf *out,
                              const redis_server *there)
{
    ask *a = (ask *)(void *)call;

    EXPECT(there->version >= 50000);
    if (a->verb == SCRIPT) {
        resp_script(out, call, &world_script, 0, 1);
        resp_number(out, a->number);
        return;
    }
    resp_command(out, 2);
    if (a->verb == ECHO) {
        resp_text(out, "ECHO");
        resp_number(out, a->number);
    } else {
        resp_text(out, a->verb == COUNT ? "INCR" : "LPOP");
        resp_text(out, "counter");
    }
}

static inline void ask_landed(redis_call *call, hf_outcome outcome,
                              const resp *reply, const hf_error *why)
{
    ask *a = (ask *)(void *)call;

    a->outcome = outcome;
    EXPECT((outcome == HF_APPLIED) == (reply != NULL));
    EXPECT((outcome == HF_APPLIED) == (why == NULL));
    if (reply)
        a->answer = resp_int(reply, -1);
    else
        a->error = *why;
    if (reply && a->again > 0) {
        a->again--;
        a->number++;
        redis_wire_start(a->wire, call);
        return;
    }
    /* The last touch: a call that nobody drives may be gone then. */
    atomic_fetch_add(&a->landed, 1);
}

static inline ask make_ask(redis_wire *wire, verb v, int64_t number,
                           bool driven, int ms)
{
    ask a = {.wire = wire, .verb = v, .number = number};

    a.call.encode = encode_ask;
    a.call.landed = ask_landed;
    a.call.driven = driven;
    a.call.deadline = hfd_now() + HF_MS(ms);
    return a;
}

static inline hf_outcome drive(ask *a)
{
    redis_wire_start(a->wire, &a->call);
    redis_wire_drive(a->wire, &a->call);
    EXPECT_EQ(atomic_load(&a->landed), 1);
    return a->outcome;
}

static inline hf_outcome echo(redis_wire *wire, int64_t number, int ms)
{
    ask a = make_ask(wire, ECHO, number, true, ms);

    if (drive(&a) == HF_APPLIED) {
        EXPECT_EQ(a.answer, number);
        EXPECT(a.call.sent > 0 && a.call.sent <= hfd_now());
    }
    return a.outcome;
}

static inline void expect_echo(redis_wire *wire)
{
    EXPECT_EQ(echo(wire, 4711, 5000), HF_APPLIED);
}

#endif
