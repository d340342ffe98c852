/* lock.c - what one exclusive lock promises.
 *
 * Checks hf_lock and hf_try_lock on every store: exclusion between sessions
 * and between threads, the three ways to wait, and that outputs are written on
 * success only and *err on failure only.  Who owns a hold is owner.c, what
 * becomes of a handle afterwards is handle.c.
 *
 * "Granted" is never believed because of one return code alone: the rival
 * session is asked too. */
#include "support.h"

#include <string.h>

/* holdfast.h: HF_EBUSY (wait_ms 0); outputs on success only. */
static void exclusive_excludes(void)
{
    hf_session *a = open_store(), *b = open_store();
    hf_hold *mine = take(a, "k"), *other = (hf_hold *)(uintptr_t)1;
    hf_error err;

    memset(&err, 0, sizeof(err));
    EXPECT_CODE(hf_try_lock(b, "k", NULL, &other, &err), HF_EBUSY);
    EXPECT(other == (hf_hold *)(uintptr_t)1);
    EXPECT(err.code == HF_EBUSY);
    EXPECT(err.text[0] != '\0' && strchr(err.text, '\n') == NULL);
    EXPECT(hf_error_class(err.code) == HF_CLASS_NO);
    EXPECT_CODE(hf_hold_check(mine, NULL), 0);
    give(mine);
    EXPECT_CODE(probe(b, "k"), 0);
    hf_close(a);
    hf_close(b);
}

/* holdfast.h: *err is written on failure only. */
static void error_untouched_on_success(void)
{
    hf_session *s = open_store();
    hf_hold *hold = NULL;
    hf_error err, before;

    memset(&err, 0x5a, sizeof(err));
    before = err;
    EXPECT_CODE(hf_lock(s, "k", NULL, &hold, &err), 0);
    EXPECT_CODE(hf_hold_check(hold, &err), 0);
    EXPECT_CODE(hf_renew(hold, &err), 0);
    EXPECT_CODE(hf_release(hold, &err), 0);
    EXPECT(memcmp(&err, &before, sizeof(err)) == 0);
    hf_close(s);
}

/* holdfast.h: err may be NULL, also when the call fails. */
static void error_may_be_null(void)
{
    hf_session *a = open_store(), *b = open_store();
    hf_hold *mine = take(a, "k"), *other = NULL;

    EXPECT_CODE(hf_try_lock(b, "k", NULL, &other, NULL), HF_EBUSY);
    EXPECT_CODE(hf_lock(b, "", NULL, &other, NULL), HF_EINVAL);
    EXPECT(other == NULL);
    EXPECT_CODE(hf_release(mine, NULL), 0);
    EXPECT_CODE(hf_release(mine, NULL), HF_ENOTHELD);
    hf_close(a);
    hf_close(b);
}

/* hf_try_lock: does not wait, whatever opt->wait_ms says. */
static void try_ignores_wait(void)
{
    hf_session *a = open_store(), *b = open_store();
    hf_hold *mine = take(a, "k"), *other;
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = HF_FOREVER};

    EXPECT_CODE(hf_try_lock(b, "k", &opt, &other, NULL), HF_EBUSY);
    EXPECT(count_entries(a, "k").waiting == 0);
    give(mine);
    EXPECT_CODE(hf_try_lock(b, "k", &opt, &other, NULL), 0);
    give(other);
    hf_close(a);
    hf_close(b);
}

/* hf_lock with wait_ms 0 does not wait, and leaves nothing in the queue. */
static void wait_zero(void)
{
    hf_session *a = open_store(), *b = open_store();
    hf_hold *mine = take(a, "k"), *other;
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = 0};

    EXPECT_CODE(hf_lock(b, "k", &opt, &other, NULL), HF_EBUSY);
    census c = count_entries(b, "k");
    EXPECT(c.granted == 1 && c.waiting == 0);
    give(mine);
    hf_close(a);
    hf_close(b);
}

/* hf_lock with a time: HF_ETIMEDOUT, not before it is over, and the place in
 * the queue is given up. */
static void timed_out(void)
{
    hf_session *a = open_store(), *b = open_store();
    hf_hold *mine = take(a, "k"), *other = NULL;
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = 150};
    int64_t start = now_ms();

    EXPECT_CODE(hf_lock(b, "k", &opt, &other, NULL), HF_ETIMEDOUT);
    EXPECT(now_ms() - start >= 149);
    EXPECT(other == NULL);
    AWAIT(count_entries(a, "k").waiting == 0);
    EXPECT_CODE(hf_hold_check(mine, NULL), 0);
    give(mine);
    EXPECT_CODE(probe(a, "k"), 0);
    hf_close(a);
    hf_close(b);
}

/* The same between threads of one session, where the queue is local. */
static void timed_out_locally(void)
{
    hf_session *s = open_store();
    hf_hold *mine = take(s, "k");
    waiter w;

    waiter_start(&w, s, "k", (hf_lock_options){HF_LOCK_OPTIONS, .wait_ms = 50});
    EXPECT_CODE(waiter_finish(&w), HF_ETIMEDOUT);
    hf_stats stats;
    EXPECT_CODE(hf_session_stats(s, &stats), 0);
    EXPECT(stats.waiters == 0 && stats.holds == 1);
    give(mine);
    hf_close(s);
}

/* A timed wait ends with the grant when that comes first. */
static void timed_granted(void)
{
    hf_session *a = open_store(), *b = open_store();
    hf_hold *mine = take(a, "k");
    uint64_t token = hf_hold_token(mine);
    waiter w;

    waiter_start(&w, b, "k",
                 (hf_lock_options){HF_LOCK_OPTIONS, .wait_ms = PATIENCE_MS});
    await_waiting(a, "k", 1);
    EXPECT(!waiter_answered(&w));
    give(mine);
    EXPECT_CODE(waiter_code(&w), 0);
    EXPECT_RISES(w.token, token);
    EXPECT_CODE(probe(a, "k"), HF_EBUSY);
    EXPECT_CODE(waiter_finish(&w), 0);
    EXPECT_CODE(w.release_code, 0);
    hf_close(a);
    hf_close(b);
}

/* opt NULL: exclusive, for this thread, waits for ever. */
static void *lock_plainly(void *arg)
{
    waiter *w = arg;

    w->code = hf_lock(w->s, w->key, NULL, &w->hold, &w->error);
    w->token = w->code == 0 ? hf_hold_token(w->hold) : 0;
    atomic_store(&w->answered, true);
    w->release_code = w->code == 0 ? hf_release(w->hold, NULL) : 0;
    return NULL;
}

static void null_options_wait(void)
{
    hf_session *a = open_store(), *b = open_store();
    hf_hold *mine = take(a, "k");
    waiter w = {.s = b, .key = "k"};

    EXPECT(pthread_create(&w.thread, NULL, lock_plainly, &w) == 0);
    await_waiting(a, "k", 1);
    sleep_ms(200);
    EXPECT(!atomic_load(&w.answered));
    give(mine);
    AWAIT(atomic_load(&w.answered));
    EXPECT(pthread_join(w.thread, NULL) == 0);
    EXPECT_CODE(w.code, 0);
    EXPECT_CODE(w.release_code, 0);
    hf_close(a);
    hf_close(b);
}

/* Threads of one session exclude each other as well. */
static void threads_exclude(void)
{
    hf_session *s = open_store();
    hf_hold *mine = take(s, "k");
    waiter w;

    waiter_start(&w, s, "k", (hf_lock_options){HF_LOCK_OPTIONS});
    await_waiters(s, 1);
    sleep_ms(50);
    EXPECT(!waiter_answered(&w));
    uint64_t token = hf_hold_token(mine);
    give(mine);
    EXPECT_CODE(waiter_code(&w), 0);
    EXPECT_RISES(w.token, token);
    EXPECT_CODE(probe(s, "k"), HF_EBUSY);
    EXPECT_CODE(waiter_finish(&w), 0);
    EXPECT_CODE(probe(s, "k"), 0);
    hf_close(s);
}

/* A token rises with every grant of a key, whoever gets it. */
static void tokens_rise(void)
{
    hf_session *a = open_store(), *b = open_store();
    uint64_t last = 0;

    for (int i = 0; i < 50; i++) {
        hf_hold *hold = take(i % 2 == 0 ? a : b, "k");
        uint64_t token = hf_hold_token(hold);
        EXPECT_RISES(token, last);
        last = token;
        give(hold);
    }
    hf_close(a);
    /* Nothing is held and nobody of the first session is left. */
    hf_hold *hold = take(b, "k");
    EXPECT_RISES(hf_hold_token(hold), last);
    give(hold);
    hf_close(b);
}

/* Distinct keys never meet, however alike they look. */
static void keys_are_distinct(void)
{
    static const char *const keys[] = {
        "a",   "A",  "a ",  " a", "a/", "a/b", "/a",  "a%",   "{a}",
        "a\n", "aa", "a?b", "a*", "a'", "a\"", "a;b", "\x80", "\xff"};
    enum { N = sizeof(keys) / sizeof(keys[0]) };
    hf_session *a = open_store(), *b = open_store();
    hf_hold *holds[N];

    for (int i = 0; i < N; i++)
        EXPECT_CODE(hf_try_lock(a, keys[i], NULL, &holds[i], NULL), 0);
    for (int i = 0; i < N; i++)
        EXPECT_CODE(probe(b, keys[i]), HF_EBUSY);
    EXPECT(count_entries(b, NULL).granted == N);
    for (int i = 0; i < N; i++) {
        give(holds[i]);
        EXPECT_CODE(probe(b, keys[i]), 0);
    }
    hf_close(a);
    hf_close(b);
}

/* While you hold it: check, state, token, time left; and after. */
static void hold_facts(void)
{
    hf_session *s = open_leased(5000);
    hf_hold *hold = take(s, "k");

    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    EXPECT(hf_hold_state(hold) == HF_HELD);
    EXPECT_RISES(hf_hold_token(hold), 0);
    int64_t left = hf_hold_remaining_ms(hold);
    EXPECT(left > 0 && left <= 5000);
    int fd = hf_hold_fd(hold);
    EXPECT(fd >= 0 && hf_hold_fd(hold) == fd);
    EXPECT(!is_readable(fd, 0));
    EXPECT_CODE(hf_renew(hold, NULL), 0);
    hf_stats stats;
    EXPECT_CODE(hf_session_stats(s, &stats), 0);
    EXPECT(stats.holds == 1 && stats.joins >= 1);
    give(hold);
    EXPECT_CODE(hf_session_stats(s, &stats), 0);
    EXPECT(stats.holds == 0 && stats.leaves >= 1);
    hf_close(s);
}

/* One renewal for all holds: a lease lasts while the process lives. */
static void lease_is_renewed(void)
{
    hf_session *a = open_leased(brief_lease_ms()), *b = open_store();
    hf_hold *one = take(a, "one"), *two = take(a, "two");
    int64_t until = now_ms() + brief_lease_ms() * 5 / 2;

    while (now_ms() < until) {
        EXPECT_CODE(hf_hold_check(one, NULL), 0);
        EXPECT_CODE(probe(b, "two"), HF_EBUSY);
        sleep_ms(20);
    }
    hf_stats stats;
    EXPECT_CODE(hf_session_stats(a, &stats), 0);
    EXPECT(stats.renewals >= 2 && stats.renewals <= 40);
    give(two);
    give(one);
    hf_close(a);
    hf_close(b);
}

/* The session shows its URL and what the store promises. */
static void session_facts(void)
{
    hf_session *s = open_store();
    uint32_t caps = hf_session_caps(s);

    EXPECT(hf_session_url(s) != NULL && hf_session_url(s)[0] != '\0');
    /* All of it, unless it is another library's layout. */
    if (!store_is_anothers())
        EXPECT(store_has(HF_CAP_TOKEN | HF_CAP_FIFO | HF_CAP_SHARED));
    if (!store_is_anothers() && strcmp(test_target(), "zookeeper-kazoo") != 0)
        EXPECT(store_has(HF_CAP_PERMIT));
    EXPECT((caps & HF_CAP_CRASH_AT_ONCE) == 0 || hf_session_life_fd(s) >= 0);
    hf_close(s);
}

static const test_case cases[] = {
    TEST(exclusive_excludes), TEST(error_untouched_on_success),
    TEST(error_may_be_null),  TEST(try_ignores_wait),
    TEST(wait_zero),          TEST(timed_out),
    TEST(timed_out_locally),  TEST(timed_granted),
    TEST(null_options_wait),  TEST(threads_exclude),
    TEST(tokens_rise),        TEST(keys_are_distinct),
    TEST(hold_facts),         TEST(lease_is_renewed),
    TEST(session_facts),
};
RUN_ON_TARGET("lock", cases)
