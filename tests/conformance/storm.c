/* storm.c - many threads, two stores, few keys: never two holders.
 *
 * Each thread takes a key, alone or shared, checks with plain counters that
 * nobody is in with it who must not be, and leaves; now and then it gives up
 * waiting, tries, or repeats a join.  Tokens of exclusive holds must rise in
 * the order in which they are held. */
#include "suite.h"

#include <sched.h>

enum { THREADS = 8, ROUNDS = 150, KEYS = 2 };

static const char *const storm_keys[KEYS] = {"storm/a", "storm/b"};

typedef struct ground { /* what a key protects */
    atomic_int alone, together;
    atomic_uint_fast64_t last_token;
    atomic_int visits;
} ground;

typedef struct runner {
    party *p;
    ground *grounds;
    uint64_t random;
    pthread_t thread;
} runner;

static uint64_t draw(runner *r)
{
    r->random = r->random * UINT64_C(6364136223846793005) +
                UINT64_C(1442695040888963407);
    return r->random >> 33;
}

static void visit(const party *p, ground *g, const hf_place *place)
{
    if (place->mode == HF_EXCLUSIVE) {
        uint64_t last = atomic_load(&g->last_token);

        EXPECT_SAFE(atomic_fetch_add(&g->alone, 1) == 0);
        EXPECT_SAFE(atomic_load(&g->together) == 0);
        EXPECT_SAFE(place->token > last || !HAS_CAP(p, HF_CAP_TOKEN));
        atomic_store(&g->last_token, place->token);
        sched_yield();
        EXPECT_SAFE(atomic_load(&g->together) == 0);
        EXPECT_SAFE(atomic_fetch_sub(&g->alone, 1) == 1);
    } else {
        atomic_fetch_add(&g->together, 1);
        EXPECT_SAFE(atomic_load(&g->alone) == 0);
        sched_yield();
        EXPECT_SAFE(atomic_load(&g->alone) == 0);
        atomic_fetch_sub(&g->together, 1);
    }
    atomic_fetch_add(&g->visits, 1);
}

/* Sleep as the core would, then look.  false: gave up. */
static bool wait_turn(runner *r, hf_place *place)
{
    bool impatient = draw(r) % 8 == 0;
    long long end = test_now_ms() + (impatient ? 1 : 4 * PATIENCE_MS);

    while (place->verdict == HF_WAITS) {
        if (test_now_ms() >= end) {
            EXPECT(impatient);
            return false;
        }
        if (r->p->driver->park)
            r->p->driver->park(r->p->store, place, hfd_now() + HF_MS(20));
        else
            test_sleep_ms(1);
        EXPECT_CODE(recheck(r->p, place), 0);
    }
    return true;
}

static void *run_storm(void *arg)
{
    runner *r = arg;

    for (int i = 0; i < ROUNDS; i++) {
        size_t key = draw(r) % KEYS;
        hf_place place = make_place(
            storm_keys[key], draw(r) % 4 == 0 && HAS_CAP(r->p, HF_CAP_SHARED)
                                 ? HF_SHARED
                                 : HF_EXCLUSIVE);
        int code;

        place.run = (uint32_t)(1 + draw(r) % 4);
        code = draw(r) % 5 ? join(r->p, &place) : try_join(r->p, &place);
        if (code == HF_EBUSY)
            continue;
        EXPECT_CODE(code, 0);
        if (draw(r) % 16 == 0)
            EXPECT_CODE(join(r->p, &place), 0);
        if (wait_turn(r, &place))
            visit(r->p, &r->grounds[key], &place);
        EXPECT(leave(r->p, &place) != HF_GONE);
    }
    return NULL;
}

static void never_two_holders(void)
{
    party *stores[2] = {party_open(LONG_MS), party_open(LONG_MS)};
    ground grounds[KEYS] = {{.alone = 0}};
    runner runners[THREADS];

    party_serve(stores[0]);
    party_serve(stores[1]);
    for (int i = 0; i < THREADS; i++) {
        runners[i] = (runner){
            .p = stores[i % 2], .grounds = grounds, .random = (uint64_t)i + 1};
        EXPECT_EQ(
            pthread_create(&runners[i].thread, NULL, run_storm, &runners[i]),
            0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(runners[i].thread, NULL);
    EXPECT(atomic_load(&grounds[0].visits) > ROUNDS / 2);
    EXPECT(atomic_load(&grounds[1].visits) > ROUNDS / 2);
    EXPECT_EQ(count_entries(stores[0]), 0);
    party_close(stores[0]);
    party_close(stores[1]);
}

/* The same with permits: never more than there are places. */
static void *run_permits(void *arg)
{
    runner *r = arg;

    for (int i = 0; i < ROUNDS; i++) {
        hf_place place = make_permit("storm/p", 3);

        EXPECT_CODE(join(r->p, &place), 0);
        if (wait_turn(r, &place)) {
            EXPECT_SAFE(atomic_fetch_add(&r->grounds->together, 1) < 3);
            sched_yield();
            atomic_fetch_sub(&r->grounds->together, 1);
        }
        EXPECT(leave(r->p, &place) != HF_GONE);
    }
    return NULL;
}

static void never_more_than_places(void)
{
    party *stores[2] = {party_open(LONG_MS), party_open(LONG_MS)};
    ground g = {.alone = 0};
    runner runners[THREADS];

    party_serve(stores[0]);
    party_serve(stores[1]);
    for (int i = 0; i < THREADS; i++) {
        runners[i] = (runner){
            .p = stores[i % 2], .grounds = &g, .random = (uint64_t)i + 100};
        EXPECT_EQ(
            pthread_create(&runners[i].thread, NULL, run_permits, &runners[i]),
            0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(runners[i].thread, NULL);
    EXPECT_EQ(count_entries(stores[1]), 0);
    party_close(stores[0]);
    party_close(stores[1]);
}

const test_case storm_tests[] = {TEST_LIMIT(never_two_holders, 120),
                                 TEST_LIMIT(never_more_than_places, 120),
                                 {NULL, NULL, 0}};
