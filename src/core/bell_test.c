/* bell_test.c - a ring is never slept through, and wakes every sleeper.
 *
 * Threads pass a baton around under a mutex, as requests pass a lock: if a ring
 * between the unlock and the sleep were missed, the baton would stop, and the
 * test with it. */
#include "harness/expect.h"
#include "harness/runner.h"

#include <pthread.h>

#include "core/bell.h"

enum { THREADS = 8, TURNS = 2000 };

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static hf__bell bells[THREADS];
static hf__rung rung;
static int turn;

static void unlock(void)
{
    hf__rung copy = rung;

    rung.count = 0;
    pthread_mutex_unlock(&mu);
    hf__bell_hear(&copy);
}

static void await_turn(int me)
{
    pthread_mutex_lock(&mu);
    while (turn % THREADS != me) {
        unsigned count = hf__bell_begin(&bells[me]);

        unlock();
        hf__bell_sleep(&bells[me], count, HF_NEVER);
        pthread_mutex_lock(&mu);
        hf__bell_end(&bells[me]);
    }
}

static void *pass_on(void *arg)
{
    int me = (int)(intptr_t)arg;

    for (int i = 0; i < TURNS; i++) {
        await_turn(me);
        turn++;
        hf__bell_ring(&rung, &bells[turn % THREADS]);
        unlock();
    }
    return NULL;
}

static void run_threads(void *(*run)(void *), int n)
{
    pthread_t thread[THREADS];

    for (int i = 0; i < n; i++)
        EXPECT(pthread_create(&thread[i], NULL, run, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < n; i++)
        EXPECT(pthread_join(thread[i], NULL) == 0);
}

static void nobody_is_missed(void)
{
    turn = 0;
    run_threads(pass_on, THREADS);
    EXPECT_EQ(turn, THREADS * TURNS);
}

/* One rings all of them, more than are remembered for the unlock. */
static void *ring_all(void *arg)
{
    int me = (int)(intptr_t)arg;

    if (me != 0) {
        pthread_mutex_lock(&mu);
        while (turn == 0) {
            unsigned count = hf__bell_begin(&bells[me]);

            unlock();
            hf__bell_sleep(&bells[me], count, HF_NEVER);
            pthread_mutex_lock(&mu);
            hf__bell_end(&bells[me]);
        }
        unlock();
        return NULL;
    }
    pthread_mutex_lock(&mu);
    turn = 1;
    for (int i = 1; i < THREADS; i++)
        hf__bell_ring(&rung, &bells[i]);
    unlock();
    return NULL;
}

static void many_at_once(void)
{
    for (int i = 0; i < 100; i++) {
        turn = 0;
        run_threads(ring_all, THREADS);
    }
}

static void old_counts_and_instants(void)
{
    hf__bell bell = {0};
    hf__rung one = {.count = 0};
    hf_nsec before = hfd_now();

    hf__bell_ring(&one, &bell);
    EXPECT_EQ(one.count, 0); /* nobody is there */
    EXPECT_EQ(hf__bell_begin(&bell), 1);
    hf__bell_ring(&one, &bell);
    hf__bell_sleep(&bell, 1, HF_NEVER);    /* rung before it slept */
    while (hfd_now() < before + HF_MS(20)) /* it may wake up for nothing */
        hf__bell_sleep(&bell, 2, before + HF_MS(20));
    EXPECT_EQ(one.count, 1);
    hf__bell_end(&bell);
    hf__bell_hear(&one); /* it has gone */
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        TEST(nobody_is_missed),
        TEST(many_at_once),
        TEST(old_counts_and_instants),
    };

    return run_tests(argc, argv, "bell", cases, sizeof cases / sizeof *cases);
}
