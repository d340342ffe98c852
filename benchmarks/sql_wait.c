/* sql_wait.c - what does waiting for a lock in a database cost, and whom?
 *
 * Three scenarios for each database: how long a hand-over takes between two
 * processes, how many the store manages when eight threads of two processes
 * want one key all the time, and what two hundred who wait ask of the server.
 *
 * The floors: a commit and the cheapest wake-up of that server; the lock that
 * the server has itself; and what is usually done, a try every 100 ms. */
#include "sql.h"

#include <stdio.h>

#define MAX_ROUNDS 5

/* ---- The hand-over --------------------------------------------------- */

static void print_handover(const struct bench *b, const struct sql_server *s,
                           const struct placement *place)
{
    struct turns t = {.side = {&side_holdfast, s->kind->wake},
                      .where = s->url,
                      .core = {place->client, place->client},
                      .rounds = b->quick ? 3 : MAX_TURN_ROUNDS,
                      .turns = b->quick ? 60 : 150,
                      .hold_us = 1000,
                      .jitter_us = 500};
    double us[2], poll_us[2];
    char text[64], name[40];

    snprintf(name, sizeof name, "%s-handover", s->kind->name);
    measure_turns(&t, us);
    snprintf(text, sizeof text, "release to lock, p50, %s", place->name);
    row_print(b, &(struct row){name, text, "us", us[0], s->kind->wake->name,
                               us[1], RATIO_AT_MOST, 1.5});
    /* The release must fall anywhere between two tries. */
    t.side[1] = s->kind->poll;
    t.rounds = b->quick ? 1 : 3;
    t.turns = b->quick ? 15 : 25;
    t.jitter_us = 100 * 1000;
    measure_turns(&t, poll_us);
    snprintf(text, sizeof text, "cold, release to lock, p50, %s", place->name);
    row_print(b, &(struct row){name, text, "us", poll_us[0],
                               s->kind->poll->name, poll_us[1], NO_GOAL, 0});
    snprintf(text, sizeof text, "poller's p50 / ours, %s", place->name);
    row_print(b, &(struct row){name, text, "x", poll_us[1] / us[0], NULL, 0,
                               VALUE_AT_LEAST, 50});
}

static void run_handover(const struct bench *b, const struct sql_kind *kind)
{
    struct placement place[PLACEMENTS];
    int places = placements(place);

    for (int i = 0; i < places; i++) {
        struct sql_server s;

        sql_start(&s, b, kind, place[i].server);
        holdfast_needed(s.url);
        print_handover(b, &s, &place[i]);
        sql_stop(&s);
    }
}

/* ---- Eight threads on one key ---------------------------------------- */

struct contest_sums {
    double grants[2][MAX_ROUNDS], handovers[2][MAX_ROUNDS], fair[2][MAX_ROUNDS];
    double longest[2];
    long overlaps[2];
};

static void print_contest(const struct bench *b, const struct sql_kind *kind,
                          const char *place, size_t n, struct contest_sums *m)
{
    const char *own = kind->own->name;
    char text[64], name[40];

    snprintf(name, sizeof name, "%s-contended", kind->name);
    snprintf(text, sizeof text, "grants, 2 x 4 threads, %s", place);
    row_print(b, &(struct row){name, text, "/s", median(m->grants[0], n), own,
                               median(m->grants[1], n), RATIO_AT_LEAST, 1.5});
    snprintf(text, sizeof text, "real hand-overs, %s", place);
    row_print(b, &(struct row){name, text, "/s", median(m->handovers[0], n),
                               own, median(m->handovers[1], n), NO_GOAL, 0});
    snprintf(text, sizeof text, "fairness, %s", place);
    row_print(b, &(struct row){name, text, "", median(m->fair[0], n), own,
                               median(m->fair[1], n), NO_GOAL, 0});
    snprintf(text, sizeof text, "longest wait, %s", place);
    row_print(b, &(struct row){name, text, "ms", m->longest[0], own,
                               m->longest[1], NO_GOAL, 0});
    snprintf(text, sizeof text, "overlaps (two holders), %s", place);
    row_print(b, &(struct row){name, text, "", (double)m->overlaps[0], NULL, 0,
                               VALUE_AT_MOST, 0});
}

static void run_contended(const struct bench *b, const struct sql_kind *kind)
{
    const struct side *const side[2] = {&side_holdfast, kind->own};
    const int rounds = b->quick ? 2 : MAX_ROUNDS;
    struct placement place[PLACEMENTS];
    int places = placements(place);

    for (int i = 0; i < places; i++) {
        const int core[2] = {place[i].client, place[i].client};
        struct contest_sums m = {0};
        struct sql_server s;

        sql_start(&s, b, kind, place[i].server);
        holdfast_needed(s.url);
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
            bench_die("%s-contended: %s had %ld overlaps: the check or the "
                      "clock is broken",
                      kind->name, kind->own->name, m.overlaps[1]);
        print_contest(b, kind, place[i].name, (size_t)rounds, &m);
        sql_stop(&s);
    }
}

/* ---- Two hundred who wait -------------------------------------------- */

static double count_statements(void *server)
{
    const struct sql_server *s = server;

    return s->kind->count(s);
}

/* One session, as a process of 200 threads has it; then one for each thread, as
 * 200 processes have: every hand-over goes through the store, and waiting has
 * its price, since each renews a lease of its own. */
static void print_waiters(const struct bench *b, const struct sql_kind *kind)
{
    static const int sessions[] = {1, WAITERS};
    count_fn *const count[WAITER_COUNTS] = {count_statements};
    struct placement place[PLACEMENTS];
    int places = placements(place);
    struct sql_server s;
    char text[64], name[40];

    snprintf(name, sizeof name, "%s-waiters", kind->name);
    sql_start(&s, b, kind, place[places - 1].server);
    holdfast_needed(s.url);
    pin_to(place[places - 1].client);
    kind->begin_counting(&s);
    for (size_t i = 0; i < sizeof sessions / sizeof *sessions; i++) {
        int n = sessions[i];
        struct waiting w;
        char url[120];

        /* A server has not room for four connections of each. */
        snprintf(url, sizeof url, "%s?connections=%d", s.url, n > 1 ? 1 : 4);
        w = measure_waiters(url, n, b->quick ? 5 : 20, count, &s);

        snprintf(text, sizeof text, "statements, 200 wait, sessions: %d", n);
        row_print(b, &(struct row){name, text, "/s", w.idle[0], NULL, 0,
                                   n == 1 ? VALUE_AT_MOST : NO_GOAL, 1});
        snprintf(text, sizeof text, "statements a hand-over, sessions: %d", n);
        row_print(b, &(struct row){name, text, "", w.each[0], NULL, 0,
                                   VALUE_AT_MOST, 2});
        snprintf(text, sizeof text, "200 of 1 ms each, sessions: %d", n);
        row_print(b,
                  &(struct row){name, text, "ms", w.ms, NULL, 0, NO_GOAL, 0});
    }
    sql_stop(&s);
}

#define SCENARIOS_OF(kind)                                                     \
    void bench_##kind##_handover(const struct bench *b)                        \
    {                                                                          \
        run_handover(b, &sql_kind_##kind);                                     \
    }                                                                          \
    void bench_##kind##_contended(const struct bench *b)                       \
    {                                                                          \
        run_contended(b, &sql_kind_##kind);                                    \
    }                                                                          \
    void bench_##kind##_waiters(const struct bench *b)                         \
    {                                                                          \
        print_waiters(b, &sql_kind_##kind);                                    \
    }
SCENARIOS_OF(postgres)
SCENARIOS_OF(mariadb)
