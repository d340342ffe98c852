/* contest.h - several sessions that want one key, and a judge.
 *
 * Each rival is a thread with a session of its own; what each believed is
 * written down: when it had the key, when the library last said that it still
 * had it, and with which token.  The judge then looks for two at once and for
 * a token that did not rise.  A belief is counted only from an answer of the
 * library to an instant that was read before the question, so that a slow
 * machine cannot convict the innocent.
 *
 * Answers that a fault may cause (not in time, unavailable, unknown, lost) are
 * counted; any other ends the test. */
#ifndef HF_TEST_CONTEST_H
#define HF_TEST_CONTEST_H

#include <holdfast/holdfast.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "harness/expect.h"
#include "harness/runner.h"

enum { RIVALS_MAX = 8, SECTIONS_MAX = 60000 };

typedef struct contest_section {
    long long got, last; /* milliseconds; the library said yes at both */
    uint64_t token;
    int rival;
} contest_section;

typedef struct contest contest;
typedef struct contest_rival {
    contest *c;
    int number;
    hf_session *s;
    pthread_t thread;
} contest_rival;

struct contest {
    const char *key;
    int hold_ms;
    atomic_bool stop;
    atomic_int lost, excused;
    pthread_mutex_t mutex; /* guards what follows */
    int count;             /* sections */
    contest_section *sections;
    int rivals;
    contest_rival each[RIVALS_MAX];
};

static inline hf_session *open_session(const char *url, int64_t lease_ms)
{
    hf_open_options opt = {HF_OPEN_OPTIONS, .lease_ms = lease_ms};
    hf_session *s = NULL;
    hf_error err;

    EXPECT_OK(hf_open(&s, url, &opt, &err), err);
    return s;
}

/* May a fault make a lock answer this? */
static inline bool is_excused(int code)
{
    hf_class class = hf_error_class(code);

    return code == HF_ETIMEDOUT || class == HF_CLASS_LOST ||
           class == HF_CLASS_UNKNOWN || class == HF_CLASS_RETRY;
}

static inline void note_section(contest *c, const contest_section *section)
{
    pthread_mutex_lock(&c->mutex);
    if (c->count < SECTIONS_MAX)
        c->sections[c->count] = *section;
    c->count++;
    pthread_mutex_unlock(&c->mutex);
}

static inline int contest_count(contest *c)
{
    int count;

    pthread_mutex_lock(&c->mutex);
    count = c->count;
    pthread_mutex_unlock(&c->mutex);
    return count;
}

/* Stay inside as long as it is ours, at most so long. */
static inline void stay_inside(contest *c, hf_hold *hold, contest_section *io)
{
    long long end = io->got + c->hold_ms, now;

    while ((now = test_now_ms()) < end && !atomic_load(&c->stop)) {
        if (hf_hold_check(hold, NULL) != 0) {
            atomic_fetch_add(&c->lost, 1);
            return;
        }
        io->last = now;
        test_sleep_ms(1);
    }
}

static inline void *run_rival(void *arg)
{
    contest_rival *r = arg;
    contest *c = r->c;
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = 5000};

    while (!atomic_load(&c->stop)) {
        contest_section section = {.rival = r->number};
        hf_hold *hold = NULL;
        hf_error err;
        int code = hf_lock(r->s, c->key, &opt, &hold, &err);

        if (code != 0) {
            if (!is_excused(code))
                FAIL_TEST("hf_lock: %s (%s)", hf_error_name(code), err.text);
            atomic_fetch_add(&c->excused, 1);
            test_sleep_ms(10);
            continue;
        }
        section.got = section.last = test_now_ms();
        section.token = hf_hold_token(hold);
        if (hf_hold_check(hold, NULL) == 0) {
            stay_inside(c, hold, &section);
            note_section(c, &section);
        }
        code = hf_release(hold, &err);
        if (code != 0 && !is_excused(code))
            FAIL_TEST("hf_release: %s (%s)", hf_error_name(code), err.text);
    }
    return NULL;
}

static inline void contest_begin(contest *c, const char *key, int hold_ms)
{
    *c = (contest){.key = key, .hold_ms = hold_ms};
    EXPECT(pthread_mutex_init(&c->mutex, NULL) == 0);
    c->sections = calloc(SECTIONS_MAX, sizeof *c->sections);
    EXPECT(c->sections != NULL);
}

static inline void contest_enter(contest *c, const char *url, int64_t lease_ms)
{
    contest_rival *r = &c->each[c->rivals];

    EXPECT(c->rivals < RIVALS_MAX);
    *r = (contest_rival){.c = c, .number = c->rivals++};
    r->s = open_session(url, lease_ms);
    EXPECT(pthread_create(&r->thread, NULL, run_rival, r) == 0);
}

/* Until so many more sections were noted, from now on. */
static inline void contest_progress(contest *c, int more, int patience_ms)
{
    int goal = contest_count(c) + more;

    if (!WAIT_FOR(contest_count(c) >= goal, patience_ms))
        FAIL_TEST("only %d of %d sections in %d s (%d lost, %d refused)",
                  contest_count(c) - goal + more, more, patience_ms / 1000,
                  atomic_load(&c->lost), atomic_load(&c->excused));
}

static inline int by_token(const void *a, const void *b)
{
    const contest_section *x = a, *y = b;

    return x->token < y->token ? -1 : x->token > y->token;
}

/* In the order of their tokens nobody had it while one before him still had:
 * that is both promises in one. */
static inline void judge_sections(contest_section *sections, int count)
{
    long long until = 0;

    qsort(sections, (size_t)count, sizeof *sections, by_token);
    for (int i = 0; i < count; i++) {
        const contest_section *s = &sections[i];

        EXPECT(s->token != 0);
        if (i > 0 && s->token == s[-1].token)
            FAIL_TEST("unsafe: two sections with the token %llu",
                      (unsigned long long)s->token);
        if (s->got < until)
            FAIL_TEST(
                "unsafe: rival %d had it %lld ms before the one before was "
                "through (tokens %llu, %llu)",
                s->rival, until - s->got, (unsigned long long)s->token,
                (unsigned long long)s[-1].token);
        until = s->last > until ? s->last : until;
    }
}

/* Ends the rivals, judges, frees; how many sections there were. */
static inline int contest_end(contest *c)
{
    int count;

    atomic_store(&c->stop, true);
    for (int i = 0; i < c->rivals; i++) {
        pthread_join(c->each[i].thread, NULL);
        hf_close(c->each[i].s);
    }
    count = c->count < SECTIONS_MAX ? c->count : SECTIONS_MAX;
    judge_sections(c->sections, count);
    fprintf(stderr, "%d sections, %d lost, %d refused\n", count,
            atomic_load(&c->lost), atomic_load(&c->excused));
    free(c->sections);
    pthread_mutex_destroy(&c->mutex);
    return count;
}

/* ---- One who holds, and is watched -------------------------------------- */

typedef struct guarded {
    hf_session *s;
    hf_hold *hold;
    uint64_t token;
    pthread_t thread;
    atomic_bool stop;
    atomic_llong last;         /* when the library last said that it is held */
    atomic_bool lost;          /* it said that it is not */
    atomic_int doubts, losses; /* told by on_change */
} guarded;

static inline void note_change(hf_hold *hold, hf_state state, int reason,
                               void *user)
{
    guarded *g = user;

    (void)hold;
    (void)reason;
    if (state == HF_DOUBTFUL)
        atomic_fetch_add(&g->doubts, 1);
    if (state == HF_LOST)
        atomic_fetch_add(&g->losses, 1);
}

static inline void *watch_hold(void *arg)
{
    guarded *g = arg;

    while (!atomic_load(&g->stop)) {
        long long now = test_now_ms();

        if (hf_hold_check(g->hold, NULL) == 0) {
            EXPECT(!atomic_load(&g->lost)); /* lost is for good */
            atomic_store(&g->last, now);
        } else {
            atomic_store(&g->lost, true);
        }
        test_sleep_ms(1);
    }
    return NULL;
}

/* Takes the key in this session and watches it; the caller releases by
 * guarded_end, on the same thread. */
static inline void guarded_begin(guarded *g, hf_session *s, const char *key)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = 60000,
                           .on_change = note_change, .user = g};
    hf_error err;

    *g = (guarded){.s = s};
    EXPECT_OK(hf_lock(s, key, &opt, &g->hold, &err), err);
    g->token = hf_hold_token(g->hold);
    atomic_store(&g->last, test_now_ms());
    EXPECT(pthread_create(&g->thread, NULL, watch_hold, g) == 0);
}

/* The answer of the release. */
static inline int guarded_end(guarded *g)
{
    atomic_store(&g->stop, true);
    pthread_join(g->thread, NULL);
    return hf_release(g->hold, NULL);
}

/* ---- One who waits ------------------------------------------------------ */

typedef struct waiting {
    hf_session *s;
    const char *key;
    atomic_int *turn;
    pthread_t thread;
    atomic_bool answered;
    int code, place; /* which grant of all it was, from 0 */
    long long got;
    uint64_t token;
} waiting;

static inline void *wait_for_key(void *arg)
{
    waiting *w = arg;
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = 120000};
    hf_hold *hold = NULL;

    w->code = hf_lock(w->s, w->key, &opt, &hold, NULL);
    w->got = test_now_ms();
    if (w->code == 0) {
        w->token = hf_hold_token(hold);
        w->place = atomic_fetch_add(w->turn, 1);
    }
    atomic_store(&w->answered, true);
    if (w->code == 0)
        hf_release(hold, NULL);
    return NULL;
}

static inline int count_waiting(const hf_entry_info *info, void *user)
{
    *(int *)user += !info->granted;
    return 0;
}

static inline int waiting_now(hf_session *s, const char *key)
{
    int count = 0;

    return hf_list(s, key, count_waiting, &count, NULL) == 0 ? count : -1;
}

/* A thread that waits; returns when the store shows so many entries that do,
 * asked by `look`: so the next one comes behind it. */
static inline void waiting_begin(waiting *w, hf_session *s, const char *key,
                                 atomic_int *turn, hf_session *look, int n)
{
    *w = (waiting){.s = s, .key = key, .turn = turn};
    EXPECT(pthread_create(&w->thread, NULL, wait_for_key, w) == 0);
    if (!WAIT_FOR(waiting_now(look, key) >= n, 60000))
        FAIL_TEST("%d wait, not %d", waiting_now(look, key), n);
}

static inline int waiting_end(waiting *w)
{
    pthread_join(w->thread, NULL);
    return w->code;
}

#endif
