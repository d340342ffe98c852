/* etcd_waiter.h - sessions of the public API in a test, and threads that wait.
 * The tests include the harness's expect.h, runner.h and ensemble.h before it.
 */
#ifndef HF_DRIVERS_ETCD_WAITER_H
#define HF_DRIVERS_ETCD_WAITER_H

#include <pthread.h>
#include <stdatomic.h>

#include <holdfast/holdfast.h>

enum { PATIENCE_MS = 60000 };
#define AWAIT(condition) EXPECT(WAIT_FOR(condition, PATIENCE_MS))

/* url NULL: the first member, directly. */
static inline hf_session *open_at(ensemble *e, const char *url,
                                  int64_t lease_ms)
{
    hf_open_options opt = {HF_OPEN_OPTIONS, .lease_ms = lease_ms};
    hf_session *s = NULL;
    hf_error err;

    EXPECT_OK(hf_open(&s, url ? url : ensemble_direct_url(e, ""), &opt, &err),
              err);
    return s;
}

/* Of two places, if it is a permit; by nobody in particular. */
static inline hf_lock_options waits_for(hf_mode mode, int64_t wait_ms)
{
    return (hf_lock_options){HF_LOCK_OPTIONS, .wait_ms = wait_ms, .mode = mode,
                             .places = mode == HF_PERMIT ? 2 : 0,
                             .owner = HF_OWNER_HOLD};
}

static inline hf_hold *take(hf_session *s, const char *key, hf_mode mode)
{
    hf_lock_options opt = waits_for(mode, 2 * PATIENCE_MS);
    hf_hold *hold = NULL;
    hf_error err;

    EXPECT_OK(hf_lock(s, key, &opt, &hold, &err), err);
    return hold;
}

typedef struct waiter {
    hf_session *s;
    const char *key;
    hf_mode mode;
    hf_hold *hold;
    atomic_bool done;
    pthread_t thread;
} waiter;

static inline void *run_waiter(void *arg)
{
    waiter *w = arg;

    w->hold = take(w->s, w->key, w->mode);
    atomic_store(&w->done, true);
    return NULL;
}

static inline void waiter_start(waiter *w, hf_session *s, const char *key,
                                hf_mode mode)
{
    *w = (waiter){.s = s, .key = key, .mode = mode};
    EXPECT_EQ(pthread_create(&w->thread, NULL, run_waiter, w), 0);
}

static inline void waiter_end(waiter *w)
{
    AWAIT(atomic_load(&w->done));
    pthread_join(w->thread, NULL);
    EXPECT_EQ(hf_release(w->hold, NULL), 0);
}

static inline int count_row(const hf_entry_info *row, void *user)
{
    (void)row;
    ++*(size_t *)user;
    return 0;
}

static inline size_t count_rows(hf_session *s)
{
    size_t n = 0;

    EXPECT_EQ(hf_list(s, NULL, count_row, &n, NULL), 0);
    return n;
}

#endif
