/* storm.c - everything at once.
 *
 * Processes (or sessions, where a store is of one process) by threads by keys,
 * with exclusive, shared and permit holds, tries, timeouts, re-entry and
 * cancellation drawn by chance.  Who is inside is written to shared memory
 * under the protection of the lock itself, so that a second holder meets the
 * first one's word; tokens of exclusive holds must rise.
 *
 * The seed is printed when a storm fails and can be given as HF_TEST_SEED. */
#include "support.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CREWS = 3, THREADS = 4, KEYS = 5, TURNS = 150, PLACES = 3 };

/* One key's truth, kept by those inside. */
struct room {
    atomic_long owner; /* who is inside alone; 0: nobody */
    atomic_int readers, guests;
    atomic_uint_fast64_t token; /* the largest exclusive one */
};
struct storm {
    struct room rooms[KEYS];
    atomic_long entered[3], refused, cancelled;
    atomic_int crew; /* next number */
    atomic_bool dead[16];
    uint64_t seed;
};
static struct storm *storm;

struct sailor {
    hf_session *s;
    long id;
    uint64_t random, owner;
    atomic_bool *stop;
};

static uint32_t draw(struct sailor *me, uint32_t below)
{
    me->random ^= me->random << 13;
    me->random ^= me->random >> 7;
    me->random ^= me->random << 17;
    return (uint32_t)((me->random >> 16) % below);
}

static void enter_alone(struct room *r, long id, uint64_t token)
{
    long nobody = 0;

    EXPECT_RISES(token, atomic_load(&r->token));
    atomic_store(&r->token, token);
    if (!atomic_compare_exchange_strong(&r->owner, &nobody, id)) {
        /* Only the word of one who was killed may stand here. */
        EXPECT_SAFE(atomic_load(&storm->dead[nobody / 100]));
        atomic_store(&r->owner, id);
    }
    EXPECT_SAFE(atomic_load(&r->readers) == 0);
    EXPECT_SAFE(atomic_load(&r->guests) == 0);
}

static void leave_alone(struct room *r, long id)
{
    EXPECT_SAFE(atomic_load(&r->readers) == 0);
    EXPECT(atomic_compare_exchange_strong(&r->owner, &id, 0));
}

/* Inside: write who we are, dwell, check that nobody else did. */
static void dwell(struct sailor *me, struct room *r, hf_mode mode,
                  hf_hold *hold)
{
    if (mode == HF_EXCLUSIVE)
        enter_alone(r, me->id, hf_hold_token(hold));
    else if (mode == HF_SHARED)
        atomic_fetch_add(&r->readers, 1);
    else
        EXPECT_SAFE(atomic_fetch_add(&r->guests, 1) < PLACES);
    if (mode == HF_SHARED)
        EXPECT_SAFE(atomic_load(&r->owner) == 0);
    if (draw(me, 4) == 0)
        usleep(draw(me, 300));
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    if (mode == HF_EXCLUSIVE)
        leave_alone(r, me->id);
    else if (mode == HF_SHARED)
        atomic_fetch_sub(&r->readers, 1);
    else
        atomic_fetch_sub(&r->guests, 1);
}

/* One attempt at a random key in a random way. */
static void take_turn(struct sailor *me, bool alone_only)
{
    uint32_t key = draw(me, KEYS);
    hf_mode mode = key == KEYS - 1    ? HF_PERMIT
                   : draw(me, 3) == 0 ? HF_SHARED
                                      : HF_EXCLUSIVE;
    hf_lock_options opt = {HF_LOCK_OPTIONS, .owner = me->owner};
    char name[16];
    hf_hold *hold = NULL;

    if (alone_only || (mode == HF_PERMIT && !store_has(HF_CAP_PERMIT)))
        mode = HF_EXCLUSIVE;
    opt.mode = mode;
    opt.places = mode == HF_PERMIT ? PLACES : 0;
    uint32_t way = draw(me, 10);
    opt.wait_ms = way == 0 ? 0 : way < 4 ? (int64_t)draw(me, 12) : HF_FOREVER;
    snprintf(name, sizeof(name), "room %u", key);
    hf_error err;
    int code = hf_lock(me->s, name, &opt, &hold, &err);
    if (code == HF_EBUSY || code == HF_ETIMEDOUT || code == HF_ECANCELED) {
        EXPECT(way < 4 || code == HF_ECANCELED);
        EXPECT((code == HF_EBUSY) ==
               (opt.wait_ms == 0 && code != HF_ECANCELED));
        atomic_fetch_add(&storm->refused, 1);
        return;
    }
    EXPECT_OK(code, err);
    dwell(me, &storm->rooms[key], mode, hold);
    atomic_fetch_add(&storm->entered[mode], 1);
    if (mode != HF_PERMIT && draw(me, 8) == 0) {
        hf_hold *again = take_with(me->s, name, opt);
        EXPECT(hf_hold_token(again) == hf_hold_token(hold));
        give(again);
    }
    give(hold);
}

static void *sail(void *arg)
{
    struct sailor *me = arg;

    for (int i = 0; i < TURNS; i++)
        take_turn(me, false);
    return NULL;
}

/* Calls off the waits of one or the other for as long as they sail. */
static void *harass(void *arg)
{
    struct sailor *me = arg;

    while (!atomic_load(me->stop)) {
        int n = hf_cancel_owner(me->s, me->owner + draw(me, THREADS));
        EXPECT(n >= 0);
        atomic_fetch_add(&storm->cancelled, n);
        usleep(500 + draw(me, 2000));
    }
    return NULL;
}

static struct sailor new_sailor(hf_session *s, int crew, int number)
{
    struct sailor me = {
        .s = s, .id = crew * 100 + number + 1, .owner = (uint64_t)number + 1};

    me.random = storm->seed + (uint64_t)me.id * UINT64_C(0x9e3779b97f4a7c15);
    me.random += me.random == 0;
    return me;
}

/* One session with its threads: a process of its own where that is possible. */
static int run_crew(void *unused)
{
    int crew = atomic_fetch_add(&storm->crew, 1);
    hf_session *s = open_store();
    struct sailor sailors[THREADS], nuisance = new_sailor(s, crew, 50);
    pthread_t threads[THREADS], nuisance_thread;
    atomic_bool stop = false;

    (void)unused;
    nuisance.owner = 1;
    nuisance.stop = &stop;
    EXPECT(pthread_create(&nuisance_thread, NULL, harass, &nuisance) == 0);
    for (int i = 0; i < THREADS; i++) {
        sailors[i] = new_sailor(s, crew, i);
        EXPECT(pthread_create(&threads[i], NULL, sail, &sailors[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    atomic_store(&stop, true);
    EXPECT(pthread_join(nuisance_thread, NULL) == 0);
    hf_stats stats;
    EXPECT_CODE(hf_session_stats(s, &stats), 0);
    EXPECT(stats.holds == 0 && stats.waiters == 0);
    hf_close(s);
    return 0;
}

static void *crew_thread(void *unused)
{
    (void)unused;
    run_crew(NULL);
    return NULL;
}

static void begin_storm(void)
{
    const char *given = getenv("HF_TEST_SEED");

    storm = shared_memory(sizeof(*storm));
    storm->seed = given != NULL
                      ? strtoull(given, NULL, 10)
                      : (uint64_t)now_ms() * 1000003u + (uint64_t)getpid();
    fprintf(stderr, "HF_TEST_SEED=%llu\n", (unsigned long long)storm->seed);
}

static void end_storm(void)
{
    hf_session *s = open_store();

    await_empty(s);
    for (int i = 0; i < KEYS - 1; i++) {
        char name[16];
        snprintf(name, sizeof(name), "room %d", i);
        hf_hold *hold = take(s, name);
        EXPECT_RISES(hf_hold_token(hold), atomic_load(&storm->rooms[i].token));
        give(hold);
        EXPECT_EQ(atomic_load(&storm->rooms[i].readers), 0);
    }
    hf_close(s);
}

static void all_at_once(void)
{
    pid_t pids[CREWS];
    pthread_t threads[CREWS];
    hf_session *witness = NULL;

    skip_before_fork();
    begin_storm();
    /* A store of one process lives while a session has it open. */
    if (!store_is_shared())
        witness = open_store();
    for (int i = 0; i < CREWS; i++) {
        if (store_is_shared())
            pids[i] = spawn(run_crew, NULL);
        else
            EXPECT(pthread_create(&threads[i], NULL, crew_thread, NULL) == 0);
    }
    for (int i = 0; i < CREWS; i++) {
        if (store_is_shared())
            EXPECT_EQ(reap(pids[i]), 0);
        else
            EXPECT(pthread_join(threads[i], NULL) == 0);
    }
    for (int mode = 0; mode < 3; mode++)
        EXPECT(atomic_load(&storm->entered[mode]) > 0 ||
               (mode == HF_PERMIT && !store_has(HF_CAP_PERMIT)));
    end_storm();
    hf_close(witness);
}

/* ---- With murders ------------------------------------------------------ */

static int run_victim(void *arg)
{
    int crew = *(int *)arg;
    hf_session *s = open_leased(mortal_lease_ms());
    struct sailor me = new_sailor(s, crew, 0);

    while (s != NULL)
        take_turn(&me, true);
    return 1; /* it was to be killed */
}

/* Processes are killed wherever they happen to be; the living go on, and a
 * dead one's word is the only one that may be overwritten. */
static void with_murders(void)
{
    enum { LIVES = 12, AT_ONCE = 3 };
    pid_t pids[AT_ONCE];
    int crews[AT_ONCE], next = 0;

    begin_storm();
    for (int i = 0; i < AT_ONCE; i++) {
        crews[i] = next++;
        pids[i] = spawn(run_victim, &crews[i]);
    }
    for (int life = 0; life < LIVES; life++) {
        int i = life % AT_ONCE;
        long before = atomic_load(&storm->entered[HF_EXCLUSIVE]);

        AWAIT(atomic_load(&storm->entered[HF_EXCLUSIVE]) > before + 30);
        atomic_store(&storm->dead[crews[i]], true);
        EXPECT(kill(pids[i], SIGKILL) == 0);
        EXPECT_EQ(reap(pids[i]), 128 + SIGKILL);
        if (next < LIVES) {
            crews[i] = next++;
            pids[i] = spawn(run_victim, &crews[i]);
        } else {
            pids[i] = 0;
        }
        bool alive = pids[0] > 0 || pids[1] > 0 || pids[2] > 0;
        if (!alive)
            break;
    }
    for (int i = 0; i < AT_ONCE; i++)
        EXPECT(pids[i] == 0);
    end_storm();
}

static const test_case cases[] = {
    TEST_LIMIT(all_at_once, 150),
    TEST_LIMIT(with_murders, 120),
};
RUN_ON_TARGET_SHARED("storm", cases, 1)
