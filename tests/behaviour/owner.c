/* owner.c - who may take a lock again, and who may give it back.
 *
 * Checks the owner option of hf_lock on every store: the thread by default, a
 * number of the caller's, or the hold alone; re-entry with one token, counted,
 * without a round trip; HF_EDEADLK, HF_EOWNER and the handles afterwards,
 * which are numbers and never crash.
 *
 * Asking from another session as well keeps a library honest that would only
 * count in its own memory. */
#include "support.h"

#include <string.h>

static uint64_t joins_of(hf_session *s)
{
    hf_stats stats;

    EXPECT_CODE(hf_session_stats(s, &stats), 0);
    return stats.joins;
}

/* Taken again by its owner: no round trip, same token, a handle of its own. */
static void reentry_counts(void)
{
    hf_session *a = open_store(), *b = open_store();
    hf_hold *h[3];

    for (int order = 0; order < 2; order++) {
        h[0] = take(a, "k");
        uint64_t joins = joins_of(a);
        h[1] = take(a, "k");
        EXPECT_CODE(hf_try_lock(a, "k", NULL, &h[2], NULL), 0);
        EXPECT(joins_of(a) == joins);
        EXPECT(h[0] != h[1] && h[1] != h[2] && h[0] != h[2]);
        EXPECT(hf_hold_token(h[1]) == hf_hold_token(h[0]));
        EXPECT(hf_hold_token(h[2]) == hf_hold_token(h[0]));
        for (int i = 0; i < 3; i++) {
            EXPECT_CODE(probe(b, "k"), HF_EBUSY);
            give(h[order == 0 ? i : 2 - i]);
        }
        EXPECT_CODE(probe(b, "k"), 0);
    }
    hf_close(a);
    hf_close(b);
}

/* A handle of a re-entry is released once; the others stay good. */
static void reentry_handles_are_separate(void)
{
    hf_session *s = open_store();
    hf_hold *outer = take(s, "k"), *inner = take(s, "k");

    give(inner);
    EXPECT_CODE(hf_release(inner, NULL), HF_ENOTHELD);
    EXPECT_CODE(hf_hold_check(inner, NULL), HF_ENOTHELD);
    EXPECT_CODE(hf_hold_check(outer, NULL), 0);
    EXPECT(hf_hold_state(outer) == HF_HELD);
    give(outer);
    hf_close(s);
}

/* The stronger mode covers the weaker one. */
static void shared_inside_exclusive(void)
{
    hf_session *a = open_store(), *b = open_store();
    hf_hold *outer = take(a, "k"), *inner = NULL;

    EXPECT_CODE(hf_lock_shared(a, "k", NULL, &inner, NULL), 0);
    EXPECT(hf_hold_token(inner) == hf_hold_token(outer));
    give(outer);
    /* What is left was taken alone, so nobody may share it. */
    EXPECT_CODE(probe(b, "k"), HF_EBUSY);
    give(inner);
    EXPECT_CODE(probe(b, "k"), 0);
    hf_close(a);
    hf_close(b);
}

/* HF_EDEADLK: you hold it shared and want it alone. */
static void shared_to_exclusive(void)
{
    hf_session *s = open_store();
    hf_hold *shared = NULL, *alone = NULL;
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = HF_FOREVER};
    hf_error err;

    EXPECT_CODE(hf_lock_shared(s, "k", NULL, &shared, NULL), 0);
    EXPECT_CODE(hf_lock(s, "k", &opt, &alone, &err), HF_EDEADLK);
    EXPECT(err.code == HF_EDEADLK && alone == NULL);
    EXPECT_CODE(hf_hold_check(shared, NULL), 0);
    give(shared);
    EXPECT_CODE(hf_lock(s, "k", &opt, &alone, NULL), 0);
    give(alone);
    hf_close(s);
}

/* Only its owner may release: another thread is refused, nothing is done. */
static void *release_elsewhere(void *arg)
{
    waiter *w = arg;

    w->release_code = hf_release(w->hold, &w->error);
    w->code = hf_hold_check(w->hold, NULL);
    w->token = hf_hold_token(w->hold);
    return NULL;
}

static void other_thread_releases(void)
{
    hf_session *a = open_store(), *b = open_store();
    waiter w = {.hold = take(a, "k")};

    on_thread(release_elsewhere, &w);
    EXPECT_CODE(w.release_code, HF_EOWNER);
    EXPECT(w.error.code == HF_EOWNER);
    /* Any thread may ask. */
    EXPECT_CODE(w.code, 0);
    EXPECT(w.token == hf_hold_token(w.hold));
    EXPECT_CODE(hf_hold_check(w.hold, NULL), 0);
    EXPECT_CODE(probe(b, "k"), HF_EBUSY);
    give(w.hold);
    EXPECT_CODE(probe(b, "k"), 0);
    hf_close(a);
    hf_close(b);
}

/* A number below 2^63 is a task: whichever thread carries it. */
static void number_owner(void)
{
    hf_session *s = open_store();
    hf_lock_options seven = {HF_LOCK_OPTIONS, .owner = 7};
    hf_lock_options eight = {HF_LOCK_OPTIONS, .owner = 8};
    hf_hold *outer = take_with(s, "k", seven);
    waiter w;

    waiter_start(&w, s, "k", seven);
    EXPECT_CODE(waiter_code(&w), 0);
    EXPECT(w.token == hf_hold_token(outer));
    EXPECT_CODE(probe_with(s, "k", eight), HF_EBUSY);
    EXPECT_CODE(probe(s, "k"), HF_EBUSY);
    EXPECT_CODE(waiter_finish(&w), 0);
    EXPECT_CODE(w.release_code, 0);
    EXPECT_CODE(hf_hold_check(outer, NULL), 0);
    /* Release from another thread: a number is nobody's thread. */
    w.hold = outer;
    on_thread(release_elsewhere, &w);
    EXPECT_CODE(w.release_code, 0);
    EXPECT_CODE(probe_with(s, "k", eight), 0);
    hf_close(s);
}

/* The largest number that is one, and those that are none. */
static void owner_bounds(void)
{
    hf_session *s = open_store();
    hf_lock_options opt = {HF_LOCK_OPTIONS, .owner = (UINT64_C(1) << 63) - 1};
    hf_hold *hold = NULL;

    give(take_with(s, "k", opt));
    opt.owner = UINT64_C(1) << 63;
    EXPECT_CODE(hf_lock(s, "k", &opt, &hold, NULL), HF_EINVAL);
    opt.owner = HF_OWNER_THREAD - 1;
    EXPECT_CODE(hf_lock(s, "k", &opt, &hold, NULL), HF_EINVAL);
    EXPECT(hold == NULL);
    opt.owner = HF_OWNER_THREAD;
    hold = take(s, "k");
    EXPECT_CODE(probe_with(s, "k", opt), 0);
    give(hold);
    hf_close(s);
}

/* HF_OWNER_HOLD: this hold alone, not re-entrant; who has the handle has the
 * hold. */
static void hold_owner(void)
{
    hf_session *s = open_store();
    hf_lock_options opt = {HF_LOCK_OPTIONS, .owner = HF_OWNER_HOLD};
    waiter w = {.hold = take_with(s, "k", opt)};

    EXPECT_CODE(probe_with(s, "k", opt), HF_EBUSY);
    EXPECT_CODE(probe(s, "k"), HF_EBUSY);
    on_thread(release_elsewhere, &w);
    EXPECT_CODE(w.release_code, 0);
    EXPECT_CODE(probe_with(s, "k", opt), 0);
    hf_close(s);
}

/* hf_owner_self names the thread: the same in it, another elsewhere. */
static void *note_self(void *arg)
{
    *(uint64_t *)arg = hf_owner_self();
    return NULL;
}

static void owner_self(void)
{
    uint64_t mine = hf_owner_self(), one = 0, two = 0;

    EXPECT(mine != 0 && mine != HF_OWNER_THREAD && mine != HF_OWNER_HOLD);
    EXPECT(hf_owner_self() == mine);
    on_thread(note_self, &one);
    on_thread(note_self, &two);
    /* Never used again, though the thread's memory may be. */
    EXPECT(one != 0 && two != 0);
    EXPECT(one != mine && two != mine && one != two);
}

/* A call on a handle that was released answers, it never crashes. */
static void expect_spent(hf_hold *hold)
{
    char byte;
    size_t len;
    hf_request *request = NULL;

    EXPECT_CODE(hf_release(hold, NULL), HF_ENOTHELD);
    EXPECT_CODE(hf_hold_check(hold, NULL), HF_ENOTHELD);
    EXPECT_CODE(hf_renew(hold, NULL), HF_ENOTHELD);
    EXPECT_CODE(hf_publish(hold, "v", 1, NULL), HF_ENOTHELD);
    EXPECT_CODE(hf_hold_value(hold, &byte, 1, &len), HF_ENOTHELD);
    EXPECT_CODE(hf_hold_fd(hold), HF_ENOTHELD);
    EXPECT(hf_hold_state(hold) == HF_RELEASED);
    EXPECT(hf_hold_token(hold) == 0);
    EXPECT(hf_hold_remaining_ms(hold) == 0);
    EXPECT(hf_release_start(hold, NULL, &request, NULL) != 0);
    EXPECT(hf_renew_start(hold, NULL, &request, NULL) != 0);
    EXPECT(hf_publish_start(hold, "v", 1, NULL, &request, NULL) != 0);
    EXPECT(request == NULL);
}

static void spent_handles(void)
{
    hf_session *s = open_store();
    hf_hold *old = take(s, "k");

    give(old);
    expect_spent(old);
    /* The next hold may use the same memory; the old handle stays spent and
     * harms nobody. */
    for (int i = 0; i < 100; i++) {
        hf_hold *fresh = take(s, "k");
        EXPECT(fresh != old);
        expect_spent(old);
        EXPECT_CODE(hf_hold_check(fresh, NULL), 0);
        give(fresh);
    }
    hf_close(s);
    expect_spent(old);
}

/* Handles that never were: refused somehow, without harm. */
static void invented_handles(void)
{
    static const uintptr_t numbers[] = {
        0, 1, 7, 4096, UINTPTR_MAX, UINTPTR_MAX / 2, 0x5a5a5a5a};
    hf_session *s = open_store();
    hf_hold *real = take(s, "k");

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        hf_hold *hold = (hf_hold *)numbers[i];
        hf_request *request = (hf_request *)numbers[i];
        if (hold == real)
            continue;
        EXPECT(hf_release(hold, NULL) < 0);
        EXPECT(hf_hold_check(hold, NULL) < 0);
        EXPECT(hf_renew(hold, NULL) < 0);
        EXPECT(hf_cancel(request, NULL) < 0);
        EXPECT(hf_hold_token(hold) == 0);
        EXPECT(hf_hold_fd(hold) < 0);
    }
    EXPECT_CODE(hf_hold_check(real, NULL), 0);
    give(real);
    hf_close(s);
}

/* Holds of a closed session, and the session itself. */
static void closed_handles(void)
{
    hf_session *s = open_store(), *rival = open_store();
    hf_hold *hold = take(s, "k"), *other = NULL;

    hf_close(s);
    EXPECT_CODE(probe(rival, "k"), 0);
    int code = hf_release(hold, NULL);
    EXPECT(code == HF_ENOTHELD || code == HF_EINVAL);
    EXPECT(hf_hold_check(hold, NULL) != 0);
    code = hf_lock(s, "k", NULL, &other, NULL);
    EXPECT(code == HF_ECLOSED || code == HF_EINVAL);
    EXPECT(hf_collect(s, &(hf_result){0}) < 0);
    hf_close(s);
    EXPECT(other == NULL);
    hf_close(rival);
}

static const test_case cases[] = {
    TEST(reentry_counts),
    TEST(reentry_handles_are_separate),
    TEST(shared_inside_exclusive),
    TEST(shared_to_exclusive),
    TEST(other_thread_releases),
    TEST(number_owner),
    TEST(owner_bounds),
    TEST(hold_owner),
    TEST(owner_self),
    TEST(spent_handles),
    TEST(invented_handles),
    TEST(closed_handles),
};
RUN_ON_TARGET("owner", cases)
