/* redis_wait.c - what does waiting for a lock on Redis cost, and whom?
 *
 * Three scenarios: how long a hand-over takes between two processes
 * (redis-handover), how many the store manages when eight threads of two
 * processes want one key all the time (redis-contended), and what two hundred
 * who wait ask of the server (redis-waiters).
 *
 * The floor is BLPOP: the server itself wakes the next in line, and there is
 * no quicker way to be woken by a Redis server.  Beside it stands what is
 * usually done, a try every 100 ms. */
#include "redis.h"

#include <holdfast/holdfast.h>
#include <pthread.h>
#include <stdio.h>

#define MAX_ROUNDS 5

/* ---- The hand-over --------------------------------------------------- */

static void print_handover(const struct bench *b, const struct redis_server *s,
                           const struct placement *place)
{
    struct turns t = {.side = {&side_holdfast, &floor_blpop},
                      .where = s->url,
                      .core = {place->client, place->client},
                      .rounds = b->quick ? 3 : MAX_TURN_ROUNDS,
                      .turns = b->quick ? 100 : MAX_TURNS,
                      .hold_us = 1000,
                      .jitter_us = 500};
    double us[2], poll_us[2];
    char text[64];

    measure_turns(&t, us);
    snprintf(text, sizeof text, "release to lock, p50, %s", place->name);
    row_print(b, &(struct row){"redis-handover", text, "us", us[0],
                               floor_blpop.name, us[1], RATIO_AT_MOST, 1.2});
    /* The release must fall anywhere between two tries, else the poller would
     * be lucky, or unlucky, and not average.  After so long a sleep the caches
     * and the core are cold, for both: the rows with `cold` say so. */
    t.side[1] = &floor_redis_poll;
    t.rounds = b->quick ? 1 : 3;
    t.turns = b->quick ? 15 : 25;
    t.jitter_us = 100 * 1000;
    measure_turns(&t, poll_us);
    snprintf(text, sizeof text, "cold, release to lock, p50, %s", place->name);
    row_print(b, &(struct row){"redis-handover", text, "us", poll_us[0],
                               floor_redis_poll.name, poll_us[1], NO_GOAL, 0});
    snprintf(text, sizeof text, "poller's p50 / ours, %s", place->name);
    row_print(b, &(struct row){"redis-handover", text, "x", poll_us[1] / us[0],
                               NULL, 0, VALUE_AT_LEAST, 250});
    snprintf(text, sizeof text, "poller's p50 / ours cold, %s", place->name);
    row_print(b, &(struct row){"redis-handover", text, "x",
                               poll_us[1] / poll_us[0], NULL, 0, NO_GOAL, 0});
}

void bench_redis_handover(const struct bench *b)
{
    struct placement place[PLACEMENTS];
    int places = placements(place);

    redis_needed(b);
    for (int i = 0; i < places; i++) {
        struct redis_server s;

        redis_start(&s, b, place[i].server);
        print_handover(b, &s, &place[i]);
        redis_stop(&s);
    }
}

/* ---- Eight threads on one key ---------------------------------------- */

struct contest_sums {
    double grants[2][MAX_ROUNDS], handovers[2][MAX_ROUNDS], fair[2][MAX_ROUNDS];
    double longest[2];
    long overlaps[2];
};

static void print_contest(const struct bench *b, const char *place, size_t n,
                          struct contest_sums *m)
{
    char text[64];

    snprintf(text, sizeof text, "grants, 2 x 4 threads, %s", place);
    row_print(b, &(struct row){"redis-contended", text, "/s",
                               median(m->grants[0], n), floor_blpop.name,
                               median(m->grants[1], n), RATIO_AT_LEAST, 4});
    snprintf(text, sizeof text, "real hand-overs, %s", place);
    row_print(b, &(struct row){"redis-contended", text, "/s",
                               median(m->handovers[0], n), floor_blpop.name,
                               median(m->handovers[1], n), NO_GOAL, 0});
    snprintf(text, sizeof text, "fairness, %s", place);
    row_print(b, &(struct row){"redis-contended", text, "",
                               median(m->fair[0], n), floor_blpop.name,
                               median(m->fair[1], n), VALUE_AT_LEAST, 0.8});
    snprintf(text, sizeof text, "longest wait, %s", place);
    row_print(b, &(struct row){"redis-contended", text, "ms", m->longest[0],
                               floor_blpop.name, m->longest[1], NO_GOAL, 0});
    snprintf(text, sizeof text, "overlaps (two holders), %s", place);
    row_print(b,
              &(struct row){"redis-contended", text, "", (double)m->overlaps[0],
                            NULL, 0, VALUE_AT_MOST, 0});
}

void bench_redis_contended(const struct bench *b)
{
    const struct side *const side[2] = {&side_holdfast, &floor_blpop};
    const int rounds = b->quick ? 2 : MAX_ROUNDS;
    struct placement place[PLACEMENTS];
    int places = placements(place);

    redis_needed(b);
    for (int i = 0; i < places; i++) {
        const int core[2] = {place[i].client, place[i].client};
        struct contest_sums m = {0};
        struct redis_server s;

        redis_start(&s, b, place[i].server);
        for (int r = 0; r < rounds; r++)
            for (int k = 0; k < 2; k++) {
                struct contest c = measure_contest(side[k], s.url, core, 1);

                m.grants[k][r] = c.grants;
                m.handovers[k][r] = c.handovers;
                m.fair[k][r] = c.fairness;
                m.overlaps[k] += c.overlaps;
                if (c.longest_ms > m.longest[k])
                    m.longest[k] = c.longest_ms;
            }
        if (m.overlaps[1] != 0)
            bench_die("redis-contended: BLPOP had %ld overlaps: the check or "
                      "the clock is broken",
                      m.overlaps[1]);
        print_contest(b, place[i].name, (size_t)rounds, &m);
        redis_stop(&s);
    }
}

/* ---- Two hundred who wait -------------------------------------------- */

#define WAITERS 200
#define HOLD_US 1000
#define KEY "/bench/waiters"

static hf_session *open_session(const char *url)
{
    hf_session *s;
    hf_error err;

    if (hf_open(&s, url, NULL, &err) != 0)
        bench_die("holdfast: %s", err.text);
    return s;
}

static void take(hf_session *s, hf_hold **ret)
{
    hf_error err;

    if (hf_lock(s, KEY, NULL, ret, &err) != 0)
        bench_die("holdfast: '%s': %s", KEY, err.text);
}

static void give(hf_hold *hold)
{
    hf_error err;

    if (hf_release(hold, &err) != 0)
        bench_die("holdfast: '%s': %s", KEY, err.text);
}

static void *take_once(void *session)
{
    hf_hold *hold;

    take(session, &hold);
    sleep_us(HOLD_US);
    give(hold);
    return NULL;
}

static void await_waiters(hf_session *const *session, int sessions)
{
    for (int i = 0; i < 3000; i++) {
        uint64_t waiting = 0;

        for (int k = 0; k < sessions; k++) {
            hf_stats now = {0};

            if (hf_session_stats(session[k], &now) != 0)
                bench_die("redis-waiters: no statistics of a session");
            waiting += now.waiters;
        }
        if (waiting == WAITERS)
            return;
        sleep_us(10 * 1000);
    }
    bench_die("redis-waiters: they do not all wait after half a minute");
}

/* One session for all threads, or one each: then every hand-over goes through
 * the store.  Returns commands the server read, while all wait (a second) and
 * a hand-over. */
static void run_waiters(struct redis_server *s, int sessions, double idle_s,
                        double *ret_idle, double *ret_each, double *ret_ms)
{
    static hf_session *session[WAITERS];
    pthread_t thread[WAITERS];
    hf_session *first = open_session(s->url);
    struct redis_monitor *m;
    int64_t begin;
    hf_hold *hold;
    long before;

    take(first, &hold);
    for (int i = 0; i < sessions; i++)
        session[i] = open_session(s->url);
    for (int i = 0; i < WAITERS; i++)
        if (pthread_create(&thread[i], NULL, take_once,
                           session[i % sessions]) != 0)
            bench_die("cannot start a thread");
    await_waiters(session, sessions);
    sleep_us(1000 * 1000); /* what begins with waiting is over */
    m = redis_watch(s);
    before = redis_read_so_far(m);
    sleep_us((int64_t)(idle_s * 1e6));
    *ret_idle = (double)(redis_read_so_far(m) - before) / idle_s;
    before = redis_read_so_far(m);
    begin = now_ns();
    give(hold);
    for (int i = 0; i < WAITERS; i++)
        pthread_join(thread[i], NULL);
    *ret_ms = (double)(now_ns() - begin) / 1e6;
    *ret_each = (double)(redis_read_so_far(m) - before) / WAITERS;
    redis_unwatch(m);
    for (int i = 0; i < sessions; i++)
        hf_close(session[i]);
    hf_close(first);
}

void bench_redis_waiters(const struct bench *b)
{
    const double idle_s = b->quick ? 5 : 20;
    struct placement place[PLACEMENTS];
    int places = placements(place);
    double idle, each, ms;
    struct redis_server s;

    redis_needed(b);
    redis_start(&s, b, place[places - 1].server);
    pin_to(place[places - 1].client);
    run_waiters(&s, 1, idle_s, &idle, &each, &ms);
    row_print(b, &(struct row){"redis-waiters", "commands read, 200 wait", "/s",
                               idle, NULL, 0, VALUE_AT_MOST, 1});
    row_print(b, &(struct row){"redis-waiters", "commands read a hand-over", "",
                               each, NULL, 0, VALUE_AT_MOST, 2});
    row_print(b, &(struct row){"redis-waiters", "200 hand-overs of 1 ms each",
                               "ms", ms, NULL, 0, NO_GOAL, 0});
    /* Here each waiter renews a lease of its own, so waiting has its price. */
    run_waiters(&s, WAITERS, b->quick ? 2 : 10, &idle, &each, &ms);
    row_print(b, &(struct row){"redis-waiters", "200 sessions: read, all wait",
                               "/s", idle, NULL, 0, NO_GOAL, 0});
    row_print(b,
              &(struct row){"redis-waiters", "200 sessions: read a hand-over",
                            "", each, NULL, 0, VALUE_AT_MOST, 2});
    row_print(b, &(struct row){"redis-waiters", "200 sessions: 200 hand-overs",
                               "ms", ms, NULL, 0, NO_GOAL, 0});
    redis_stop(&s);
}
