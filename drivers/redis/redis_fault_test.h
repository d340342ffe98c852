/* redis_fault_test.h - a server, a proxy before it, and sessions through both.
 *
 * For tests of what goes wrong between the library and a real server.  Every
 * wait has an end; every test ends with expect_clean: after the sessions have
 * gone nothing is left in the server but the counter (and the marker of a
 * strict namespace). */
#ifndef HF_DRIVERS_REDIS_FAULT_TEST_H
#define HF_DRIVERS_REDIS_FAULT_TEST_H

#include <holdfast/holdfast.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "harness/expect.h"
#include "harness/proxy.h"
#include "harness/runner.h"
#include "harness/server.h"

enum { PATIENCE_MS = 15000 };

#define AWAIT(condition)                                                       \
    do {                                                                       \
        if (!WAIT_FOR(condition, PATIENCE_MS))                                 \
            FAIL_TEST("waited in vain for: %s", #condition);                   \
    } while (0)

typedef struct world {
    server *s;
    proxy *p;
    char direct[300], through[300]; /* URLs: to the server, by the proxy */
} world;

static inline world world_begin(const server_options *opt, const char *query)
{
    world w = {.s = server_start(opt)};

    w.p = proxy_start(w.s->port);
    snprintf(w.direct, sizeof w.direct, "redis://127.0.0.1:%d/?%s", w.s->port,
             query);
    snprintf(w.through, sizeof w.through, "redis://127.0.0.1:%d/?%s",
             proxy_port(w.p), query);
    return w;
}

static inline void world_end(world *w)
{
    proxy_stop(w->p);
    server_stop(w->s);
}

static inline int try_open(hf_session **ret, const char *url, int64_t lease_ms,
                           hf_error *err)
{
    hf_open_options opt = {HF_OPEN_OPTIONS, .lease_ms = lease_ms};

    return hf_open(ret, url, &opt, err);
}

static inline hf_session *open_at(const char *url, int64_t lease_ms)
{
    hf_session *s = NULL;
    hf_error err;

    EXPECT_OK(try_open(&s, url, lease_ms, &err), err);
    return s;
}

static inline hf_hold *take(hf_session *s, const char *key)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = PATIENCE_MS};
    hf_hold *hold = NULL;
    hf_error err;

    EXPECT_OK(hf_lock(s, key, &opt, &hold, &err), err);
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    return hold;
}

static inline void give(hf_hold *hold)
{
    hf_error err;

    EXPECT_OK(hf_release(hold, &err), err);
}

/* The code of a try; what it got is given back. */
static inline int probe(hf_session *s, const char *key, hf_error *err)
{
    hf_hold *hold = NULL;
    int code = hf_try_lock(s, key, NULL, &hold, err);

    if (code == 0)
        give(hold);
    else
        EXPECT(hold == NULL);
    return code;
}

static inline int count_row(const hf_entry_info *entry, void *user)
{
    (void)entry;
    ++*(int *)user;
    return 0;
}

static inline int count_entries(hf_session *s)
{
    int count = 0;
    hf_error err;

    EXPECT_OK(hf_list(s, NULL, count_row, &count, &err), err);
    return count;
}

/* A thread that wants a lock, and keeps it until it is told. */
typedef struct waiter {
    hf_session *s;
    pthread_t thread;
    atomic_bool done, let_go;
    int code;
    uint64_t token;
    int release_code;
    hf_error err; /* of the release */
} waiter;

static inline void *run_waiter(void *arg)
{
    waiter *w = arg;
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = 2 * PATIENCE_MS};
    hf_hold *hold = NULL;

    w->code = hf_lock(w->s, "k", &opt, &hold, NULL);
    if (w->code == 0)
        w->token = hf_hold_token(hold);
    atomic_store(&w->done, true);
    while (!atomic_load(&w->let_go))
        test_sleep_ms(1);
    if (w->code == 0)
        w->release_code = hf_release(hold, &w->err);
    return NULL;
}

static inline void waiter_start(waiter *w, hf_session *s)
{
    hf_stats stats;

    *w = (waiter){.s = s};
    EXPECT(pthread_create(&w->thread, NULL, run_waiter, w) == 0);
    AWAIT(hf_session_stats(s, &stats) == 0 && stats.waiters == 1);
}

static inline void waiter_end(waiter *w)
{
    AWAIT(atomic_load(&w->done));
    EXPECT_CODE(w->code, 0);
    atomic_store(&w->let_go, true);
    pthread_join(w->thread, NULL);
    EXPECT_OK(w->release_code, w->err);
}

/* After the last session has been closed.  The formats keep the tombs of
 * abandoned requests for a lease; they end by themselves. */
static inline void expect_clean(world *w, long long keys)
{
    AWAIT(server_number(w->s,
                        "EVAL return(#redis.call('keys','*')"
                        "-#redis.call('keys','holdfast:tomb:*')) 0") == keys);
    world_end(w);
}

#endif
