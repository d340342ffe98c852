/* order.c - first come, first served, and nobody starves.
 *
 * Checks the queue promise on every store: if A's join was answered before B's
 * was sent, A is granted before B; a try never overtakes one who waits; local
 * hand-over between threads of one session stops after at most 16 grants when
 * somebody else waits, or 64 where all of them fit into a millisecond; tokens
 * rise through all of it.
 *
 * "A was first" is established by looking (the entry is in the listing, or the
 * session counts the waiter), never by sleeping. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

enum { QUEUE = 6, HAMMERS = 4, RUN_SURE = 16, RUN_MOST = 64 };

static const hf_lock_options plain = {HF_LOCK_OPTIONS};

static void expect_order(waiter *w, int n, uint64_t before)
{
    for (int i = 0; i < n; i++) {
        EXPECT_CODE(waiter_code(&w[i]), 0);
        for (int j = i + 1; j < n; j++)
            EXPECT(!waiter_answered(&w[j]));
        EXPECT_EQ(w[i].place, i);
        EXPECT(w[i].token > before);
        before = w[i].token;
        EXPECT_CODE(waiter_finish(&w[i]), 0);
        EXPECT_CODE(w[i].release_code, 0);
    }
}

/* Between sessions. */
static void fifo_of_sessions(void)
{
    hf_session *s[QUEUE], *first = open_store();
    hf_hold *hold = take(first, "k");
    atomic_int turn = 0;
    waiter w[QUEUE];

    for (int i = 0; i < QUEUE; i++) {
        s[i] = open_store();
        waiter_start_counted(&w[i], s[i], "k", plain, &turn);
        await_waiting(first, "k", i + 1);
    }
    uint64_t token = hf_hold_token(hold);
    give(hold);
    expect_order(w, QUEUE, token);
    for (int i = 0; i < QUEUE; i++)
        hf_close(s[i]);
    hf_close(first);
}

/* Between threads of one session. */
static void fifo_of_threads(void)
{
    hf_session *s = open_store();
    hf_hold *hold = take(s, "k");
    atomic_int turn = 0;
    waiter w[QUEUE];

    for (int i = 0; i < QUEUE; i++) {
        waiter_start_counted(&w[i], s, "k", plain, &turn);
        await_waiters(s, (uint64_t)i + 1);
    }
    uint64_t token = hf_hold_token(hold);
    give(hold);
    expect_order(w, QUEUE, token);
    hf_close(s);
}

/* One who gives up leaves a gap, not a wall. */
static void middle_gives_up(void)
{
    hf_session *s[3], *first = open_store();
    hf_hold *hold = take(first, "k");
    waiter w[3];

    for (int i = 0; i < 3; i++) {
        s[i] = open_store();
        waiter_start(&w[i], s[i], "k",
                     (hf_lock_options){HF_LOCK_OPTIONS,
                                       .wait_ms = i == 1 ? 100 : HF_FOREVER});
        if (i != 1)
            await_waiting(first, "k", i + 1 - (i == 2));
        else
            EXPECT_CODE(waiter_finish(&w[1]), HF_ETIMEDOUT);
        AWAIT(count_entries(first, "k").waiting == (i == 2 ? 2 : 1));
    }
    give(hold);
    EXPECT_CODE(waiter_code(&w[0]), 0);
    EXPECT(!waiter_answered(&w[2]));
    EXPECT_CODE(waiter_finish(&w[0]), 0);
    EXPECT_CODE(waiter_finish(&w[2]), 0);
    for (int i = 0; i < 3; i++)
        hf_close(s[i]);
    hf_close(first);
}

/* hf_try_lock never overtakes one who waits: not even its old holder, in the
 * instant after the release. */
static void try_never_overtakes(void)
{
    hf_session *a = open_store(), *b = open_store();

    for (int round = 0; round < 30; round++) {
        hf_session *waits = round % 2 == 0 ? b : a;
        hf_hold *hold = take(a, "k"), *again = NULL;
        waiter w;

        waiter_start(&w, waits, "k", plain);
        if (waits == b)
            await_waiting(a, "k", 1);
        else
            await_waiters(a, 1);
        give(hold);
        EXPECT_CODE(hf_try_lock(a, "k", NULL, &again, NULL), HF_EBUSY);
        EXPECT_CODE(waiter_code(&w), 0);
        EXPECT_CODE(waiter_finish(&w), 0);
    }
    hf_close(a);
    hf_close(b);
}

/* Nor does one who asks again and would wait: it stands behind. */
static void old_holder_stands_behind(void)
{
    hf_session *a = open_store(), *b = open_store();
    hf_hold *hold = take(a, "k");
    hf_lock_options soon = {HF_LOCK_OPTIONS, .wait_ms = 30};
    waiter w;

    waiter_start(&w, b, "k", plain);
    await_waiting(a, "k", 1);
    give(hold);
    EXPECT_CODE(hf_lock(a, "k", &soon, &hold, NULL), HF_ETIMEDOUT);
    EXPECT_CODE(waiter_code(&w), 0);
    EXPECT_CODE(waiter_finish(&w), 0);
    hf_close(a);
    hf_close(b);
}

/* ---- Bounded local hand-over ------------------------------------------- */

/* Shared with a child process where the store allows one. */
struct hammer {
    atomic_long grants;
    atomic_bool stop, ready;
    hf_mode mode;
    int section_ms;
};
static struct hammer *hammer;
static hf_session *hammer_session;

static void *strike(void *unused)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .mode = hammer->mode};

    (void)unused;
    while (!atomic_load(&hammer->stop)) {
        hf_hold *hold = take_with(hammer_session, "k", opt);
        atomic_fetch_add(&hammer->grants, 1);
        if (hammer->section_ms > 0)
            sleep_ms(hammer->section_ms);
        give(hold);
    }
    return NULL;
}

/* Threads of one session that never leave the key alone. */
static int run_hammer(void *unused)
{
    pthread_t threads[HAMMERS];

    (void)unused;
    hammer_session = open_store();
    for (int i = 0; i < HAMMERS; i++)
        EXPECT(pthread_create(&threads[i], NULL, strike, NULL) == 0);
    atomic_store(&hammer->ready, true);
    for (int i = 0; i < HAMMERS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    hf_close(hammer_session);
    return 0;
}

static void *hammer_thread(void *unused)
{
    (void)unused;
    run_hammer(NULL);
    return NULL;
}

/* How many of the others are granted between the moment my wait is seen in the
 * store and my grant. */
static long overtaken_by(hf_session *s)
{
    waiter w;

    waiter_start(&w, s, "k", plain);
    AWAIT(waiter_answered(&w) || count_entries(s, "k").mine > 0);
    long before = atomic_load(&hammer->grants);
    EXPECT_CODE(waiter_code(&w), 0);
    long after = atomic_load(&hammer->grants);
    EXPECT_CODE(waiter_finish(&w), 0);
    EXPECT_CODE(w.release_code, 0);
    return after - before;
}

static void bounded_handover(hf_mode mode, int section_ms, long bound)
{
    pid_t child = 0;
    pthread_t thread;

    hammer = shared_memory(sizeof(*hammer));
    hammer->mode = mode;
    hammer->section_ms = section_ms;
    /* The process first: the parent has no threads yet. */
    if (store_is_shared())
        child = spawn(run_hammer, NULL);
    else
        EXPECT(pthread_create(&thread, NULL, hammer_thread, NULL) == 0);
    AWAIT(atomic_load(&hammer->ready));
    hf_session *s = open_store();
    for (int round = 0; round < 20; round++) {
        long since = atomic_load(&hammer->grants);
        AWAIT(atomic_load(&hammer->grants) > since + 2);
        EXPECT(overtaken_by(s) <= bound);
    }
    atomic_store(&hammer->stop, true);
    if (child != 0)
        EXPECT_EQ(reap(child), 0);
    else
        EXPECT(pthread_join(thread, NULL) == 0);
    await_empty(s);
    hf_close(s);
}

/* At most 64 grants in a row stay in one process while another waits. */
static void writers_are_bounded(void)
{
    bounded_handover(HF_EXCLUSIVE, 0, RUN_MOST);
}

/* And 16, where a millisecond is over before. */
static void slow_writers_are_bounded(void)
{
    bounded_handover(HF_EXCLUSIVE, 2, RUN_SURE);
}

/* A stream of readers, of whom one is always inside, closes for a writer: the
 * entry's 16, and those readers whose own entry was already in the queue. */
static void readers_are_bounded(void)
{
    bounded_handover(HF_SHARED, 2, RUN_SURE + HAMMERS);
}

/* ---- Tokens through hand-overs ----------------------------------------- */

/* Guarded by the lock under test.  Atomic only because the thread sanitizer
 * does not see a lock that goes through a file; read and written in two steps,
 * so that a second holder would be noticed. */
static atomic_uint_fast64_t last_token;
static atomic_long grants;

static void *draw_tokens(void *arg)
{
    for (int i = 0; i < 200; i++) {
        hf_hold *hold = take(arg, "k");
        uint64_t token = hf_hold_token(hold);
        EXPECT(token > atomic_load(&last_token));
        atomic_store(&last_token, token);
        atomic_store(&grants, atomic_load(&grants) + 1);
        give(hold);
    }
    return NULL;
}

/* So many ask in this session, and wait. */
static void await_asking(hf_session *s, uint64_t count)
{
    hf_stats stats = {0};

    for (int i = 0; i < PATIENCE_MS && stats.waiters < count; i++) {
        EXPECT_CODE(hf_session_stats(s, &stats), 0);
        sleep_ms(1);
    }
    EXPECT(stats.waiters >= count);
}

static void tokens_rise_in_handovers(void)
{
    hf_session *s[2] = {open_store(), open_store()};
    pthread_t threads[8];
    hf_stats stats;
    uint64_t handovers = 0;
    /* Until all of them wait: on a fast store each would else be through
     * before the next has begun. */
    hf_hold *gate = take(s[0], "k");

    for (int i = 0; i < 8; i++)
        EXPECT(pthread_create(&threads[i], NULL, draw_tokens, s[i % 2]) == 0);
    await_asking(s[0], 4);
    await_asking(s[1], 4);
    give(gate);
    for (int i = 0; i < 8; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    EXPECT_EQ(atomic_load(&grants), 8 * 200);
    for (int i = 0; i < 2; i++) {
        EXPECT_CODE(hf_session_stats(s[i], &stats), 0);
        EXPECT(stats.holds == 0 && stats.waiters == 0);
        handovers += stats.handovers;
    }
    /* Without runs two local holders would have one token: no hand-over. */
    if (store_has_runs())
        EXPECT(handovers > 0);
    else
        EXPECT_EQ(handovers, 0);
    await_empty(s[0]);
    hf_close(s[0]);
    hf_close(s[1]);
}

static const test_case cases[] = {
    TEST(fifo_of_sessions),
    TEST(fifo_of_threads),
    TEST(middle_gives_up),
    TEST(try_never_overtakes),
    TEST(old_holder_stands_behind),
    TEST_LIMIT(writers_are_bounded, 120),
    TEST_LIMIT(slow_writers_are_bounded, 120),
    TEST_LIMIT(readers_are_bounded, 120),
    TEST_LIMIT(tokens_rise_in_handovers, 120),
};
RUN_ON_TARGET("order", cases)
