/* thread_exit.c - a thread that ends gives back what it holds.
 *
 * Checks on every store that a lock whose owner is a thread is freed when the
 * thread ends by whatever way, that holds of a number or of nobody in
 * particular are not, and that nobody trips over the handles. */
#include "support.h"

#include <string.h>

struct leaver {
    hf_session *s;
    hf_lock_options opt;
    hf_hold *holds[3];
    int depth;
    bool by_exit;
};

/* Takes it `depth` times and never releases. */
static void *take_and_leave(void *arg)
{
    struct leaver *l = arg;

    for (int i = 0; i < l->depth; i++)
        l->holds[i] = take_with(l->s, "k", l->opt);
    if (l->by_exit)
        pthread_exit(NULL);
    return NULL;
}

static void leave_once(struct leaver l, hf_session *rival)
{
    on_thread(take_and_leave, &l);
    AWAIT(probe(rival, "k") == 0);
    for (int i = 0; i < l.depth; i++) {
        EXPECT_CODE(hf_release(l.holds[i], NULL), HF_ENOTHELD);
        EXPECT(hf_hold_check(l.holds[i], NULL) != 0);
        EXPECT(hf_hold_state(l.holds[i]) != HF_HELD);
    }
    hf_stats stats;
    EXPECT_CODE(hf_session_stats(l.s, &stats), 0);
    EXPECT(stats.holds == 0);
}

/* Exclusive, shared, a permit; once and re-entered; return and pthread_exit. */
static void holder_ends(void)
{
    hf_session *s = open_store(), *rival = open_store();
    hf_lock_options opt = {HF_LOCK_OPTIONS};

    for (int depth = 1; depth <= 3; depth++) {
        leave_once(
            (struct leaver){
                .s = s, .opt = opt, .depth = depth, .by_exit = depth == 2},
            rival);
        opt = options_of(HF_SHARED, 0);
    }
    opt = options_of(HF_PERMIT, 1);
    leave_once((struct leaver){.s = s, .opt = opt, .depth = 1}, rival);
    hf_close(s);
    hf_close(rival);
}

/* One who waits in the same session gets it, with a larger token. */
static void local_waiter_gets_it(void)
{
    hf_session *s = open_store();
    struct leaver l = {.s = s, .opt = {HF_LOCK_OPTIONS}, .depth = 1};
    uint64_t last = 0;

    for (int i = 0; i < 20; i++) {
        on_thread(take_and_leave, &l);
        hf_hold *hold = take(s, "k");
        EXPECT_RISES(hf_hold_token(hold), last);
        last = hf_hold_token(hold);
        give(hold);
    }
    hf_close(s);
}

/* Several sessions and keys of one thread. */
static void *take_widely(void *arg)
{
    hf_session **s = arg;

    take(s[0], "a");
    take(s[1], "b");
    take(s[0], "c");
    take(s[0], "c");
    give(take(s[1], "d"));
    return NULL;
}

static void several_sessions(void)
{
    hf_session *s[2] = {open_store(), open_store()}, *rival = open_store();

    on_thread(take_widely, s);
    await_empty(rival);
    hf_close(s[0]);
    hf_close(s[1]);
    hf_close(rival);
}

/* Nobody watches a number or a bare hold: it stays. */
static void other_owners_stay(void)
{
    hf_session *s = open_store(), *rival = open_store();
    static const uint64_t owners[] = {42, HF_OWNER_HOLD};

    for (int i = 0; i < 2; i++) {
        struct leaver l = {
            .s = s, .depth = 1, .opt = {HF_LOCK_OPTIONS, .owner = owners[i]}};
        on_thread(take_and_leave, &l);
        sleep_ms(50);
        EXPECT_CODE(probe(rival, "k"), HF_EBUSY);
        EXPECT_CODE(hf_hold_check(l.holds[0], NULL), 0);
        give(l.holds[0]);
        EXPECT_CODE(probe(rival, "k"), 0);
    }
    hf_close(s);
    hf_close(rival);
}

/* The session may be gone before the thread is. */
struct outliver {
    hf_session *s;
    atomic_int step;
};

static void *outlive(void *arg)
{
    struct outliver *o = arg;

    take(o->s, "k");
    step_reach(&o->step, 1);
    step_await(&o->step, 2);
    return NULL;
}

static void session_ends_first(void)
{
    struct outliver o = {.s = open_store()};
    hf_session *rival = open_store();
    pthread_t thread;

    EXPECT(pthread_create(&thread, NULL, outlive, &o) == 0);
    step_await(&o.step, 1);
    hf_close(o.s);
    EXPECT_CODE(probe(rival, "k"), 0);
    hf_hold *hold = take(rival, "k");
    step_reach(&o.step, 2);
    EXPECT(pthread_join(thread, NULL) == 0);
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    give(hold);
    hf_close(rival);
}

/* Many threads that all end while holding; the key goes through them all. */
static void *take_and_fall(void *arg)
{
    /* Guarded by the lock, which the thread's end gives back; atomic because
     * the thread sanitizer does not see a lock that goes through a file. */
    static atomic_uint_fast64_t last;
    hf_hold *hold = take(arg, "k");

    EXPECT_RISES(hf_hold_token(hold), atomic_load(&last));
    atomic_store(&last, hf_hold_token(hold));
    return NULL;
}

static void relay_of_the_dead(void)
{
    hf_session *s[2] = {open_store(), open_store()};
    pthread_t threads[24];

    for (int i = 0; i < 24; i++)
        EXPECT(pthread_create(&threads[i], NULL, take_and_fall, s[i % 2]) == 0);
    for (int i = 0; i < 24; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    await_empty(s[0]);
    hf_close(s[0]);
    hf_close(s[1]);
}

static const test_case cases[] = {
    TEST(holder_ends),        TEST(local_waiter_gets_it),
    TEST(several_sessions),   TEST(other_owners_stay),
    TEST(session_ends_first), TEST(relay_of_the_dead),
};
RUN_ON_TARGET("thread_exit", cases)
