/* stress.c - many processes, few keys, sudden deaths, and a judge.
 *
 * Ten processes, some with two threads, take one of three keys, alone or
 * shared, as fast as they can, and write down in shared memory when they were
 * inside and with which token.  One of them is killed every now and then,
 * every second time while it is inside, and another takes its place.  When
 * there are enough sections the judge looks for two who were inside together
 * and for tokens that do not rise.
 *
 * A dead holder counts as inside until the instant before it was killed; one
 * whose hold was lost in time (a machine that stood still) counts as inside
 * for no time at all, and such must be few.
 *
 *     stress TARGET            a few thousand sections
 *     HF_STRESS_SECTIONS=50000 stress TARGET storm
 */
#include "../behaviour/support.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "judge.h"

enum { PROCESSES = 10, KEYS = 3, LIVES_MAX = 2000, LEASE_MS = 2000 };
/* One dies after so many sections, or after such a part of them: whoever it
 * left behind in a queue waits for its lease. */
enum { KILL_EVERY = 1000, KILLS_LEAST = 6, MINUTES_MAX = 40 };

enum { EMPTY, INSIDE, GIVEN, LOST }; /* how far a record is */
typedef struct record {              /* one hold, written by its holder */
    section what;
    int life;
    atomic_int stage;
} record;

struct arena {
    atomic_size_t used, room; /* records */
    atomic_size_t done;       /* sections that ended */
    atomic_bool stop;
    atomic_int inside[LIVES_MAX]; /* threads of this life inside now */
    int64_t killed_ns[LIVES_MAX]; /* 0: it lived on */
    bool cheats[LIVES_MAX];       /* a planted one, which takes no lock */
    record records[];
};
static struct arena *arena;

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* ---- A worker ----------------------------------------------------------- */

typedef struct worker {
    hf_session *s;
    int life;
    uint64_t random;
} worker;

static uint32_t draw(worker *me, uint32_t below)
{
    me->random ^= me->random << 13;
    me->random ^= me->random >> 7;
    me->random ^= me->random << 17;
    return (uint32_t)((me->random >> 16) % below);
}

static record *enter(worker *me, int key, bool alone, uint64_t token)
{
    int64_t now = now_ns();
    size_t at = atomic_fetch_add(&arena->used, 1);

    if (at >= arena->room) {
        atomic_store(&arena->stop, true);
        return NULL;
    }
    arena->records[at].what =
        (section){.key = key, .alone = alone, .token = token, .got_ns = now};
    arena->records[at].life = me->life;
    atomic_store(&arena->records[at].stage, INSIDE);
    atomic_fetch_add(&arena->inside[me->life], 1);
    return &arena->records[at];
}

static void leave_room(worker *me, record *r, hf_hold *hold)
{
    int64_t now = now_ns();
    bool good = !hold || hf_hold_check(hold, NULL) == 0;

    r->what.gave_ns = good ? now : r->what.got_ns;
    atomic_store(&r->stage, good ? GIVEN : LOST);
    atomic_fetch_sub(&arena->inside[me->life], 1);
    if (hold) /* one without does not count: it would be done before all */
        atomic_fetch_add(&arena->done, 1);
}

static void take_turn(worker *me)
{
    int key = (int)draw(me, KEYS);
    bool cheats = arena->cheats[me->life];
    bool alone = cheats || draw(me, 3) != 0;
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = HF_FOREVER,
                           .mode = alone ? HF_EXCLUSIVE : HF_SHARED};
    hf_hold *hold = NULL;
    hf_error err;
    char name[16];

    snprintf(name, sizeof(name), "key %d", key);
    if (!cheats && hf_lock(me->s, name, &opt, &hold, &err) != 0) {
        /* A lease that ended while this machine stood still: once more. */
        EXPECT_EQ(err.code, HF_EEXPIRED);
        return;
    }
    record *r = enter(me, key, alone, hold ? hf_hold_token(hold) : 0);
    if (cheats || draw(me, 4) == 0)
        usleep(draw(me, cheats ? 4000 : 400));
    if (r)
        leave_room(me, r, hold);
    if (hold)
        hf_release(hold, NULL); /* a lost one answers so, and is gone */
    if (draw(me, 4) == 0)
        usleep(draw(me, 400));
}

static void *work(void *arg)
{
    worker *me = arg;

    while (!atomic_load(&arena->stop))
        take_turn(me);
    return NULL;
}

static worker new_worker(hf_session *s, int life, int number)
{
    worker me = {.s = s, .life = life};

    me.random = (uint64_t)now_ns() * 2654435761U + (uint64_t)life * 2 +
                (uint64_t)number;
    me.random += me.random == 0;
    return me;
}

static int live(void *arg)
{
    int life = *(int *)arg;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    hf_session *s = open_leased(LEASE_MS);
    worker one = new_worker(s, life, 0), two = new_worker(s, life, 1);
    pthread_t second;

    if (life % 3 == 0)
        EXPECT(pthread_create(&second, NULL, work, &two) == 0);
    work(&one);
    if (life % 3 == 0)
        EXPECT(pthread_join(second, NULL) == 0);
    hf_close(s);
    return 0;
}

/* ---- The arena ---------------------------------------------------------- */

typedef struct crew {
    pid_t pids[PROCESSES];
    int lives[PROCESSES];
    int next;
} crew;

static void start_life(crew *c, int place)
{
    EXPECT(c->next < LIVES_MAX);
    c->lives[place] = c->next++;
    c->pids[place] = spawn(live, &c->lives[place]);
}

/* Every second one while it is inside. */
static void kill_one(crew *c, unsigned n)
{
    int place = (int)(n * 7 % PROCESSES);

    for (int i = 0; n % 2 && i < PROCESSES; i++) {
        int other = (place + i) % PROCESSES;

        if (atomic_load(&arena->inside[c->lives[other]]) > 0) {
            place = other;
            break;
        }
    }
    arena->killed_ns[c->lives[place]] = now_ns();
    EXPECT(kill(c->pids[place], SIGKILL) == 0);
    EXPECT_EQ(reap(c->pids[place]), 128 + SIGKILL);
    start_life(c, place);
}

static void make_arena(size_t sections)
{
    size_t room = sections + sections / 4 + 1000;
    size_t size = sizeof(*arena) + room * sizeof(record);

    arena = shared_memory(size);
    atomic_store(&arena->room, room);
}

static void run_arena(size_t sections, int cheat)
{
    int64_t end = now_ms() + MINUTES_MAX * INT64_C(60000);
    size_t step = sections / (KILLS_LEAST + 1), done;
    crew c = {.next = 0};
    unsigned kills = 0;

    if (step > KILL_EVERY)
        step = KILL_EVERY;
    if (cheat >= 0)
        arena->cheats[cheat] = true;
    for (int i = 0; i < PROCESSES; i++)
        start_life(&c, i);
    while ((done = atomic_load(&arena->done)) < sections && now_ms() < end) {
        sleep_ms(2);
        if (cheat < 0 && done >= step * (kills + 1))
            kill_one(&c, kills++);
    }
    atomic_store(&arena->stop, true);
    for (int i = 0; i < PROCESSES; i++)
        EXPECT_EQ(reap(c.pids[i]), 0);
    fprintf(stderr, "%u of %d killed\n", kills, c.next);
}

/* What was written down, as the judge wants it. */
static verdict judge_arena(size_t *ret_lost)
{
    size_t used = atomic_load(&arena->used), count = 0;
    section *all;

    if (used > arena->room)
        used = arena->room;
    all = calloc(used + 1, sizeof(*all));
    EXPECT(all != NULL);
    *ret_lost = 0;
    for (size_t i = 0; i < used; i++) {
        record *r = &arena->records[i];
        int stage = atomic_load(&r->stage);

        if (stage == EMPTY)
            continue; /* killed between two words */
        all[count] = r->what;
        if (stage == INSIDE)
            all[count].gave_ns = arena->killed_ns[r->life];
        *ret_lost += stage == LOST;
        count++;
    }
    verdict v = judge(all, count);
    free(all);
    fprintf(stderr, "%zu sections, %zu lost, %zu overlaps, %zu falls\n",
            v.sections, *ret_lost, v.overlaps, v.falls);
    return v;
}

/* ---- The tests ---------------------------------------------------------- */

static size_t wanted(void)
{
    const char *given = getenv("HF_STRESS_SECTIONS");

    if (given && *given)
        return strtoul(given, NULL, 10);
    /* Without a bell the waiters look from time to time. */
    return strncmp(test_target(), "odbc", 4) == 0 ? 300 : 2000;
}

static void storm(void)
{
    size_t lost, sections = wanted();

    make_arena(sections);
    run_arena(sections, -1);
    verdict v = judge_arena(&lost);
    EXPECT_SAFE(v.overlaps == 0);
    EXPECT_SAFE(v.falls == 0);
    EXPECT(v.sections >= sections);
    EXPECT(lost * 20 <= v.sections);
    hf_session *s = open_store();
    for (int key = 0; key < KEYS; key++) {
        char name[16];

        snprintf(name, sizeof(name), "key %d", key);
        give(take(s, name)); /* nothing of the dead is left in the way */
    }
    await_empty(s);
    hf_close(s);
}

static void one_without_a_lock_is_caught(void)
{
    size_t lost, caught = 0;

    /* It may not have had its turn beside anybody. */
    for (int i = 0; i < 10 && caught == 0; i++) {
        make_arena(100000);
        run_arena(100, 4);
        caught = judge_arena(&lost).overlaps;
    }
    EXPECT(caught > 0);
}

/* What the judge must see, and what it must let pass. */
static void the_judge_can_convict(void)
{
    section calm[] = {{0, true, 5, 10, 20},  {0, false, 7, 21, 40},
                      {0, false, 6, 22, 30}, {0, true, 9, 41, 50},
                      {1, true, 1, 15, 45},  {0, true, 12, 50, 60}};
    section two[] = {{0, true, 5, 10, 20}, {0, true, 6, 19, 30}};
    section sharer[] = {
        {0, false, 5, 10, 90}, {0, false, 6, 11, 12}, {0, true, 7, 50, 60}};
    section late[] = {{0, true, 5, 10, 90}, {0, false, 6, 89, 95}};
    section fall[] = {{0, true, 5, 10, 20}, {0, true, 5, 21, 30}};
    section back[] = {{0, false, 5, 10, 20}, {0, true, 4, 21, 30}};
    verdict v = judge(calm, 6);

    EXPECT(v.sections == 6 && v.overlaps == 0 && v.falls == 0);
    EXPECT_EQ(judge(two, 2).overlaps, 1);
    EXPECT_EQ(judge(sharer, 3).overlaps, 1);
    EXPECT_EQ(judge(late, 2).overlaps, 1);
    EXPECT_EQ(judge(fall, 2).falls, 1);
    EXPECT_EQ(judge(back, 2).falls, 1);
}

static const test_case cases[] = {
    TEST(the_judge_can_convict),
    TEST_LIMIT(one_without_a_lock_is_caught, 120),
    TEST_LIMIT(storm, MINUTES_MAX * 60 + 60),
};
RUN_ON_TARGET("stress", cases)
