/* lost_sweep.h - every request of a lock's life is lost once, twice, thrice.
 *
 * A scene is a piece of that life between two sessions, one of them through a
 * proxy (strike.h).  It is played with its first request lost, then its second,
 * and so on until a play meets no loss; lost on the way there or on the way
 * back, alone or with those that follow.  Whatever happens: one entry and no
 * second one, a token above all before, never two holders, a release that is
 * not called a loss, nobody who waits for ever, and nothing left behind.
 *
 * Written once for the stores that run on consensus. */
#ifndef HF_TEST_LOST_SWEEP_H
#define HF_TEST_LOST_SWEEP_H

#include "harness/contest.h"
#include "harness/ensemble.h"
#include "harness/strike.h"

enum { PATIENCE_MS = 60000, LEASE_MS = 40000, MOST_REQUESTS = 20 };

#define AWAIT(condition)                                                       \
    do {                                                                       \
        if (!WAIT_FOR(condition, PATIENCE_MS))                                 \
            FAIL_TEST("waited in vain for: %s", #condition);                   \
    } while (0)

typedef struct lost_world {
    ensemble *e;
    striker x;
    hf_session *s, *rival; /* through the proxy; past it */
    uint64_t top;          /* the largest token so far */
    int mode;              /* hf_mode of the scene's locks */
} lost_world;

typedef void lost_scene(lost_world *w);

/* ---- What every scene uses ---------------------------------------------- */

static inline int count_row(const hf_entry_info *entry, void *user)
{
    (void)entry;
    ++*(int *)user;
    return 0;
}

static inline int count_entries(lost_world *w)
{
    int count = 0;
    hf_error err;

    EXPECT_OK(hf_list(w->rival, NULL, count_row, &count, &err), err);
    return count;
}

static inline void note_token(lost_world *w, hf_hold *hold)
{
    EXPECT(hf_hold_token(hold) > w->top);
    w->top = hf_hold_token(hold);
}

static inline hf_hold *take(lost_world *w, hf_session *s)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = PATIENCE_MS,
                           .mode = (hf_mode)w->mode};
    hf_hold *hold = NULL;
    hf_error err;

    EXPECT_OK(hf_lock(s, "k", &opt, &hold, &err), err);
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    note_token(w, hold);
    return hold;
}

/* Its answer may be missing, but nobody has taken it away. */
static inline void give(hf_hold *hold)
{
    hf_error err = {0};
    int code = hf_release(hold, &err);

    if (code != 0 && code != HF_EUNKNOWN)
        FAIL_TEST("hf_release: %s (%s)", hf_error_name(code), err.text);
}

static inline void expect_held(lost_world *w, hf_hold *hold, int entries)
{
    hf_hold *other = NULL;

    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    EXPECT_EQ(count_entries(w), entries);
    EXPECT_CODE(hf_try_lock(w->rival, "k", NULL, &other, NULL), HF_EBUSY);
}

/* The next result of this kind. */
static inline hf_result collect(hf_session *s, hf_result_kind kind)
{
    hf_result result = {.kind = 0};

    do {
        AWAIT(hf_collect(s, &result) == 1);
    } while (result.kind != kind);
    return result;
}

/* ---- Scenes ------------------------------------------------------------- */

static inline void scene_lock(lost_world *w)
{
    hf_hold *hold = take(w, w->s);

    expect_held(w, hold, 1);
    give(hold);
}

static inline void scene_try(lost_world *w)
{
    hf_hold *hold = NULL;
    hf_error err = {0};
    int code = hf_try_lock(w->s, "k", NULL, &hold, &err);

    if (code == 0) {
        note_token(w, hold);
        expect_held(w, hold, 1);
        give(hold);
    } else if (hf_error_class(code) != HF_CLASS_RETRY &&
               hf_error_class(code) != HF_CLASS_UNKNOWN) {
        FAIL_TEST("a try of what is free: %s (%s)", hf_error_name(code),
                  err.text);
    }
}

static inline void scene_try_busy(lost_world *w)
{
    hf_hold *held = take(w, w->rival), *hold = NULL;
    hf_error err = {0};
    int code = hf_try_lock(w->s, "k", NULL, &hold, &err);

    if (code != HF_EBUSY && hf_error_class(code) != HF_CLASS_RETRY &&
        hf_error_class(code) != HF_CLASS_UNKNOWN)
        FAIL_TEST("a try of what is held: %s (%s)", hf_error_name(code),
                  err.text);
    AWAIT(count_entries(w) == 1);
    EXPECT_CODE(hf_hold_check(held, NULL), 0);
    give(held);
}

typedef struct trier {
    lost_world *w;
    const hf_lock_options *opt;
    pthread_t thread;
    int code;
    hf_error err;
} trier;

static inline void *run_trier(void *arg)
{
    trier *t = arg;
    hf_hold *hold = NULL;

    t->code = hf_try_lock(t->w->s, "k", t->opt, &hold, &t->err);
    return NULL;
}

/* A try that finds the key free, and somebody comes before its own entry: the
 * striker holds back the `creation`-th request until he is there.  From then on
 * the nth is struck; how many were. */
static inline int try_overtaken(lost_world *w, const hf_lock_options *opt,
                                int creation, int nth, strike_when when,
                                int times)
{
    trier t = {.w = w, .opt = opt};
    hf_hold *held = NULL;
    hf_error err;
    int struck;

    strike_set(&w->x, creation, STRIKE_HOLD, 1);
    EXPECT(pthread_create(&t.thread, NULL, run_trier, &t) == 0);
    AWAIT(strike_holds(&w->x));
    EXPECT_OK(hf_lock(w->rival, "k", opt, &held, &err), err);
    note_token(w, held);
    fprintf(stderr, "request %d behind a creation, %s, %d times\n", nth,
            when == STRIKE_BEFORE ? "lost" : "its answer is lost", times);
    strike_set(&w->x, nth, when, times);
    strike_let_go(&w->x);
    pthread_join(t.thread, NULL);
    struck = strike_set(&w->x, 0, when, 0);
    if (t.code != HF_EBUSY && hf_error_class(t.code) != HF_CLASS_RETRY &&
        hf_error_class(t.code) != HF_CLASS_UNKNOWN)
        FAIL_TEST("a try that was overtaken: %s (%s)", hf_error_name(t.code),
                  t.err.text);
    AWAIT(count_entries(w) == 1);
    EXPECT_CODE(hf_hold_check(held, NULL), 0);
    give(held);
    return struck;
}

/* Waits, is told, and has it: without a thread of its own. */
static inline void scene_wait(lost_world *w)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = PATIENCE_MS};
    hf_hold *held = take(w, w->rival);
    hf_request *request = NULL;
    hf_result result;
    hf_error err;

    EXPECT_OK(hf_lock_start(w->s, "k", &opt, NULL, &request, &err), err);
    AWAIT(count_entries(w) == 2);
    EXPECT_CODE(hf_hold_check(held, NULL), 0);
    give(held);
    result = collect(w->s, HF_RESULT_LOCK);
    EXPECT_OK(result.error.code, result.error);
    note_token(w, result.hold);
    expect_held(w, result.hold, 1);
    give(result.hold);
}

typedef struct sleeper {
    lost_world *w;
    pthread_t thread;
} sleeper;

static inline void *run_sleeper(void *arg)
{
    scene_lock(((sleeper *)arg)->w);
    return NULL;
}

/* The same with a thread that sleeps. */
static inline void scene_sleep(lost_world *w)
{
    hf_hold *held = take(w, w->rival);
    sleeper sleeps = {.w = w};

    EXPECT(pthread_create(&sleeps.thread, NULL, run_sleeper, &sleeps) == 0);
    AWAIT(count_entries(w) == 2);
    EXPECT_CODE(hf_hold_check(held, NULL), 0);
    give(held);
    pthread_join(sleeps.thread, NULL);
}

/* The connection breaks while it sleeps, and stands again before the lock is
 * given back: it hears of that without waiting for the clock. */
static inline void sleep_over_a_cut(lost_world *w)
{
    hf_hold *held = take(w, w->rival);
    sleeper sleeps = {.w = w};
    hf_stats before, after;
    long long given;

    EXPECT(pthread_create(&sleeps.thread, NULL, run_sleeper, &sleeps) == 0);
    AWAIT(count_entries(w) == 2);
    AWAIT(hf_session_stats(w->s, &before) == 0 && before.waiters == 1);
    strike_cut_all(&w->x);
    /* It has a connection again, and has looked. */
    AWAIT(hf_session_stats(w->s, &after) == 0 &&
          after.rechecks > before.rechecks && strike_answers(&w->x) >= 2);
    given = test_now_ms();
    give(held);
    pthread_join(sleeps.thread, NULL);
    EXPECT(test_now_ms() < given + 30000);
}

static inline void scene_cancel(lost_world *w)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = PATIENCE_MS};
    hf_hold *held = take(w, w->rival);
    hf_request *request = NULL;
    hf_result result;
    hf_error err;

    EXPECT_OK(hf_lock_start(w->s, "k", &opt, NULL, &request, &err), err);
    test_sleep_ms(20); /* at whatever point it has reached by now */
    hf_cancel(request, NULL);
    result = collect(w->s, HF_RESULT_LOCK);
    EXPECT_CODE(result.error.code, HF_ECANCELED);
    AWAIT(count_entries(w) == 1);
    give(held);
}

static inline void scene_renew(lost_world *w)
{
    hf_hold *hold = take(w, w->s);
    int code = hf_renew(hold, NULL);

    EXPECT(code == 0 || code == HF_EUNKNOWN || code == HF_EUNAVAIL);
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    AWAIT(hf_hold_state(hold) == HF_HELD);
    expect_held(w, hold, 1);
    give(hold);
}

static inline void scene_publish(lost_world *w)
{
    hf_hold *hold = take(w, w->s);
    int code = hf_publish(hold, "v", 1, NULL);

    EXPECT(code == 0 || code == HF_EUNKNOWN || code == HF_EUNAVAIL);
    expect_held(w, hold, 1);
    give(hold);
}

/* An operator's wish, asked through the proxy: the owner hears of it, and
 * nobody else is hit. */
static inline void scene_break(lost_world *w)
{
    hf_hold *held = take(w, w->rival);
    uint32_t count = 0;
    hf_error err;
    int code = hf_break(w->s, "k", NULL, &count, &err);

    if (code != 0) {
        EXPECT(hf_error_class(code) == HF_CLASS_RETRY ||
               hf_error_class(code) == HF_CLASS_UNKNOWN);
        strike_no_more(&w->x);
        EXPECT_OK(hf_break(w->s, "k", NULL, &count, &err), err);
    }
    hf_renew(held, NULL);
    AWAIT(hf_hold_state(held) == HF_LOST);
    EXPECT_CODE(hf_release(held, NULL), HF_EFORCED);
}

/* ---- The sweep ---------------------------------------------------------- */

static inline lost_world *lost_begin(ensemble_kind kind, const char *path)
{
    lost_world *w = calloc(1, sizeof *w);
    char url[200];

    EXPECT(w != NULL);
    w->e = ensemble_start(kind, NULL);
    strike_start(&w->x, kind == ON_ETCD ? STRIKE_ETCD : STRIKE_ZOOKEEPER,
                 w->e->members[0].port);
    snprintf(url, sizeof url, "%s://127.0.0.1:%d%s",
             kind == ON_ETCD ? "etcd" : "zookeeper", w->x.port, path);
    w->s = open_session(url, LEASE_MS);
    w->rival = open_session(ensemble_url(w->e, path), LEASE_MS);
    return w;
}

static inline void lost_end(lost_world *w)
{
    hf_close(w->s);
    AWAIT(count_entries(w) == 0);
    hf_close(w->rival);
    strike_stop(&w->x);
    ensemble_stop(w->e);
    free(w);
}

/* One play; how many requests were struck. */
static inline int play(lost_world *w, lost_scene *scene, int nth,
                       strike_when when, int times)
{
    int mode = w->mode, struck;

    /* It has a connection, a session, and the queue is there. */
    w->mode = HF_EXCLUSIVE;
    give(take(w, w->s));
    w->mode = mode;
    fprintf(stderr, "request %d, %s, %d times\n", nth,
            when == STRIKE_BEFORE ? "lost" : "its answer is lost", times);
    strike_set(&w->x, nth, when, times);
    scene(w);
    struck = strike_set(&w->x, 0, when, 0);
    AWAIT(count_entries(w) == 0);
    return struck;
}

static inline void lose_each(lost_world *w, lost_scene *scene, int times_most)
{
    for (int k = 0; k < 2 * times_most; k++) {
        int nth = 1;

        while (play(w, scene, nth, (strike_when)(k % 2), 1 + k / 2) > 0)
            EXPECT(++nth < MOST_REQUESTS);
        EXPECT(nth > 1); /* something was lost */
    }
}

/* The same for a try that was overtaken when it sent its `creation`-th request;
 * the key's nodes are there, so that it sends as many each time. */
static inline void lose_each_withdrawal(lost_world *w,
                                        const hf_lock_options *opt,
                                        int creation, int times_most)
{
    for (int k = 0; k < 2 * times_most; k++) {
        int nth = 1;

        while (try_overtaken(w, opt, creation, nth, (strike_when)(k % 2),
                             1 + k / 2) > 0)
            EXPECT(++nth < MOST_REQUESTS);
        EXPECT(nth > 1); /* something was lost */
    }
}

#endif
