/* close.c - hf_close while everything is in flight.
 *
 * Checks on every store that hf_close releases every hold, ends every wait
 * with HF_ECLOSED, joins its threads and closes its descriptors, whatever the
 * other threads are doing; that those inside a call come out with HF_ECLOSED;
 * and that the store is as if the session had never been. */
#include "support.h"

#include <stdio.h>
#include <string.h>

static const hf_lock_options plain = {HF_LOCK_OPTIONS};

/* NULL is allowed. */
static void null_session(void)
{
    hf_close(NULL);
}

/* Every hold of every kind is freed in the store. */
static void frees_holds(void)
{
    hf_session *s = open_store(), *rival = open_store();
    char key[16];

    for (int i = 0; i < 20; i++) {
        hf_lock_options opt = options_of((hf_mode)(i % 3), 4);
        opt.owner = i % 2 == 0 ? 7 : HF_OWNER_HOLD;
        snprintf(key, sizeof(key), "k%d", i);
        take_with(s, key, opt);
    }
    take(s, "again");
    take(s, "again");
    hf_close(s);
    census c = count_entries(rival, NULL);
    EXPECT_EQ(c.granted + c.waiting, 0);
    EXPECT_CODE(probe(rival, "again"), 0);
    hf_close(rival);
}

/* Waits in other threads end with HF_ECLOSED: in the store's queue and in the
 * local one. */
static void ends_waits(void)
{
    hf_session *s = open_store(), *rival = open_store();
    hf_hold *theirs = take(rival, "theirs");
    waiter w[4];

    take(s, "mine");
    waiter_start(&w[0], s, "theirs", plain);
    waiter_start(&w[1], s, "theirs", plain);
    waiter_start(&w[2], s, "mine", plain);
    waiter_start(&w[3], s, "theirs", options_of(HF_SHARED, 0));
    await_waiters(s, 4);
    hf_close(s);
    for (int i = 0; i < 4; i++) {
        EXPECT_CODE(waiter_finish(&w[i]), HF_ECLOSED);
        EXPECT(w[i].hold == NULL && w[i].error.code == HF_ECLOSED);
    }
    census c = count_entries(rival, NULL);
    EXPECT(c.granted == 1 && c.waiting == 0);
    EXPECT_CODE(hf_hold_check(theirs, NULL), 0);
    EXPECT_CODE(probe(rival, "mine"), 0);
    give(theirs);
    hf_close(rival);
}

/* Those who wait elsewhere get what is freed. */
static void wakes_others(void)
{
    hf_session *s = open_store(), *rival = open_store();
    waiter w;

    take(s, "k");
    waiter_start(&w, rival, "k", plain);
    await_waiting(rival, "k", 1);
    hf_close(s);
    EXPECT_CODE(waiter_finish(&w), 0);
    hf_close(rival);
}

/* The other holds of the process are not concerned. */
static void leaves_others_alone(void)
{
    hf_session *s = open_store(), *other = open_store();
    hf_hold *hold = take(other, "k");

    take(s, "mine");
    hf_close(s);
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    EXPECT_CODE(hf_renew(hold, NULL), 0);
    give(hold);
    hf_close(other);
}

/* A descriptor handed out for a hold is closed, threads are joined. */
static void leaves_nothing(void)
{
    hf_session *first = open_store();

    give(take(first, "k")); /* whatever is made once is made */
    hf_close(first);
    sleep_ms(50);
    int fds = count_fds(), threads = count_threads();

    for (int i = 0; i < 20; i++) {
        hf_session *s = open_store();
        hf_hold *hold = take(s, "k");
        EXPECT(hf_hold_fd(hold) >= 0 && hf_session_fd(s) >= 0);
        EXPECT_CODE(
            hf_lock_start(s, "k", NULL, NULL, &(hf_request *){NULL}, NULL), 0);
        hf_close(s);
        EXPECT_EQ(count_fds(), fds);
        EXPECT_THREADS(threads);
    }
}

/* ---- Threads in the middle of calls ------------------------------------ */

struct worker {
    hf_session *s;
    int kind;
    atomic_long *calls;
    int last;
};

static bool is_end(int code)
{
    return code == HF_ECLOSED || code == HF_EINVAL;
}

/* What is asked for here flies when the call is back, and may land while the
 * session is closed.  0: go on. */
static int fly_once(struct worker *w)
{
    hf_hold *hold = NULL;
    int code = hf_lock(w->s, "flown", NULL, &hold, NULL);

    if (code == 0)
        code = hf_renew_start(hold, NULL, NULL, NULL);
    if (code == 0)
        code = hf_release_start(hold, NULL, NULL, NULL);
    return code == HF_ENOTHELD ? 0 : code;
}

/* One turn of a worker; the code that ended it, or 0. */
static int work_once(struct worker *w)
{
    hf_lock_options opt =
        options_of(w->kind % 2 == 0 ? HF_EXCLUSIVE : HF_SHARED, 0);
    hf_hold *hold = NULL;
    hf_request *request = NULL;
    opt.wait_ms = HF_FOREVER;
    if (w->kind > 4)
        return fly_once(w);
    int code = w->kind < 4
                   ? hf_lock(w->s, "k", &opt, &hold, NULL)
                   : hf_lock_start(w->s, "k", NULL, NULL, &request, NULL);

    if (code != 0)
        return code;
    if (w->kind < 4) {
        /* The close may have released it: that, and nothing else. */
        code = hf_release(hold, NULL);
        return code == 0 || code == HF_ENOTHELD ? 0 : code;
    }
    hf_result result;
    code = hf_collect(w->s, &result);
    if (code == 1 && result.hold != NULL)
        hf_release(result.hold, NULL);
    return code < 0 ? code : 0;
}

static void *work(void *arg)
{
    struct worker *w = arg;

    while ((w->last = work_once(w)) == 0)
        atomic_fetch_add(w->calls, 1);
    return NULL;
}

static void close_under_load(void)
{
    hf_session *rival = open_store();

    for (int round = 0; round < 12; round++) {
        hf_session *s = open_store();
        struct worker w[7];
        pthread_t threads[7];
        atomic_long calls = 0;

        for (int i = 0; i < 7; i++) {
            w[i] = (struct worker){.s = s, .kind = i, .calls = &calls};
            EXPECT(pthread_create(&threads[i], NULL, work, &w[i]) == 0);
        }
        AWAIT(atomic_load(&calls) > 20 + round * 3);
        hf_close(s);
        for (int i = 0; i < 7; i++) {
            EXPECT(pthread_join(threads[i], NULL) == 0);
            EXPECT(is_end(w[i].last));
        }
        census c = count_entries(rival, NULL);
        EXPECT_EQ(c.granted + c.waiting, 0);
        EXPECT_CODE(probe(rival, "k"), 0);
    }
    hf_close(rival);
}

/* Two threads close one session: it is closed once. */
static void *close_it(void *arg)
{
    hf_close(arg);
    return NULL;
}

static void closed_twice(void)
{
    hf_session *rival = open_store();

    for (int i = 0; i < 30; i++) {
        hf_session *s = open_store();
        pthread_t thread;

        take(s, "k");
        EXPECT(pthread_create(&thread, NULL, close_it, s) == 0);
        hf_close(s);
        EXPECT(pthread_join(thread, NULL) == 0);
        EXPECT_CODE(probe(rival, "k"), 0);
    }
    hf_close(rival);
}

static atomic_int callbacks;

static void on_change(hf_hold *hold, hf_state state, int reason, void *user)
{
    (void)hold;
    (void)reason;
    (void)user;
    atomic_fetch_add(&callbacks, state == HF_LOST);
}

/* A hold that ends by hf_close is released, not lost. */
static void closing_is_no_loss(void)
{
    hf_session *s = open_store();

    take_with(s, "k",
              (hf_lock_options){HF_LOCK_OPTIONS, .on_change = on_change});
    hf_close(s);
    EXPECT_EQ(atomic_load(&callbacks), 0);
}

static const test_case cases[] = {
    TEST(null_session),     TEST(frees_holds),         TEST(ends_waits),
    TEST(wakes_others),     TEST(leaves_others_alone), TEST(leaves_nothing),
    TEST(close_under_load), TEST(closed_twice),        TEST(closing_is_no_loss),
};
RUN_ON_TARGET("close", cases)
