/* quorum_wait.c - what does waiting for a lock in ZooKeeper or etcd cost, and
 * whom?
 *
 * Three scenarios for each: how long a hand-over takes between two processes,
 * how many the store manages when eight threads of two processes want one key
 * all the time, and what two hundred who wait ask of the server.  Compared with
 * the libraries that people use there, each in its own language; all of them,
 * ours too, are peers that do what they are told (peer.h). */
#include "peer.h"
#include "quorum.h"

#include <stdio.h>

#define MAX_ROUNDS 5
/* Even a slow one stands in the queue by then. */
#define HOLD_US 4000
#define JITTER_US 1000

/* ---- The hand-over --------------------------------------------------- */

struct duel {
    struct peer *peer[1 + MAX_RIVALS][2]; /* ours first */
    double us[1 + MAX_RIVALS][MAX_ROUNDS];
    int sides, rounds;
};

static void run_duel(const struct bench *b, const struct quorum_server *s,
                     int core, const struct rival *rival, struct duel *d)
{
    const int turns = b->quick ? 40 : 100;

    for (int k = 0; k < d->sides; k++)
        for (int i = 0; i < 2; i++)
            d->peer[k][i] = k == 0 ? peer_side(&side_holdfast, s->url, core)
                                   : rival[k - 1].start(s, core);
    /* The first round is for those who get quicker. */
    for (int r = -1; r < d->rounds; r++)
        for (int k = 0; k < d->sides; k++) {
            bool is_slow = k > 0 && rival[k - 1].is_slow;
            double us = peer_turns_us(d->peer[k], is_slow ? 10 : turns, HOLD_US,
                                      JITTER_US);

            if (r >= 0)
                d->us[k][r] = us;
        }
    for (int k = 0; k < d->sides; k++)
        for (int i = 0; i < 2; i++)
            peer_end(d->peer[k][i]);
}

void quorum_handover(const struct bench *b, const struct quorum_kind *kind,
                     const struct rival *rival, int rivals, more_fn *more)
{
    struct placement place[PLACEMENTS];
    int places = placements(place);
    char text[64], name[40];

    snprintf(name, sizeof name, "%s-handover", kind->name);
    for (int i = 0; i < places; i++) {
        struct duel d = {.sides = 1 + rivals,
                         .rounds = b->quick ? 2 : MAX_ROUNDS};
        size_t n = (size_t)d.rounds;
        struct quorum_server s;
        double ours;

        quorum_start(&s, b, kind, place[i].server);
        run_duel(b, &s, place[i].client, rival, &d);
        ours = median(d.us[0], n);
        snprintf(text, sizeof text, "release to lock, p50, %s", place[i].name);
        for (int k = 0; k < rivals; k++) {
            double goal = rival[k].handover_goal;

            row_print(b,
                      &(struct row){name, text, "us", ours, rival[k].name,
                                    median(d.us[1 + k], n),
                                    goal > 0 ? RATIO_AT_MOST : NO_GOAL, goal});
        }
        if (more != NULL)
            more(b, &s, &place[i], ours);
        quorum_stop(&s);
    }
}

/* ---- Eight threads on one key ---------------------------------------- */

struct contest_sums {
    double grants[MAX_ROUNDS], handovers[MAX_ROUNDS], fair[MAX_ROUNDS];
    double longest;
    long overlaps;
};

static void add_contest(struct contest_sums *m, int round, struct contest c)
{
    m->grants[round] = c.grants;
    m->handovers[round] = c.handovers;
    m->fair[round] = c.fairness;
    m->overlaps += c.overlaps;
    if (c.longest_ms > m->longest)
        m->longest = c.longest_ms;
}

static void print_contest(const struct bench *b, const struct quorum_kind *kind,
                          const char *place, size_t n,
                          struct contest_sums *ours, const struct rival *rival,
                          struct contest_sums *theirs)
{
    const struct {
        const char *what, *unit;
        double ours, theirs;
        double goal;
    } row[] = {
        {"grants, 2 x 4 threads", "/s", median(ours->grants, n),
         median(theirs->grants, n), rival->contended_goal},
        {"real hand-overs", "/s", median(ours->handovers, n),
         median(theirs->handovers, n), 0},
        {"fairness", "", median(ours->fair, n), median(theirs->fair, n), 0},
        {"longest wait", "ms", ours->longest, theirs->longest, 0}};
    char text[64], name[40];

    snprintf(name, sizeof name, "%s-contended", kind->name);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        snprintf(text, sizeof text, "%s, %s", row[i].what, place);
        row_print(b, &(struct row){name, text, row[i].unit, row[i].ours,
                                   rival->name, row[i].theirs,
                                   row[i].goal > 0 ? RATIO_AT_LEAST : NO_GOAL,
                                   row[i].goal});
    }
    snprintf(text, sizeof text, "overlaps (two holders), %s", place);
    row_print(b, &(struct row){name, text, "", (double)ours->overlaps, NULL, 0,
                               VALUE_AT_MOST, 0});
    if (theirs->overlaps != 0)
        fprintf(stderr, "bench: %s had %ld overlaps\n", rival->name,
                theirs->overlaps);
}

static void run_contended(const struct bench *b, struct quorum_server *s,
                          const struct placement *place,
                          const struct rival *rival, int rivals)
{
    const int core[2] = {place->client, place->client};
    const int rounds = b->quick ? 2 : MAX_ROUNDS;
    struct contest_sums m[1 + MAX_RIVALS] = {0};
    struct peer *peer[MAX_RIVALS][2];

    for (int k = 0; k < rivals; k++) {
        for (int i = 0; i < 2; i++)
            peer[k][i] = rival[k].start(s, core[i]);
        peer_contest(peer[k], b->dir, 2);
    }
    for (int r = 0; r < rounds; r++) {
        add_contest(&m[0], r, measure_contest(&side_holdfast, s->url, core, 1));
        for (int k = 0; k < rivals; k++)
            add_contest(
                &m[1 + k], r,
                peer_contest(peer[k], b->dir, rival[k].is_slow ? 2 : 1));
    }
    for (int k = 0; k < rivals; k++) {
        peer_end(peer[k][0]);
        peer_end(peer[k][1]);
        print_contest(b, s->kind, place->name, (size_t)rounds, &m[0], &rival[k],
                      &m[1 + k]);
    }
}

void quorum_contended(const struct bench *b, const struct quorum_kind *kind,
                      const struct rival *rival, int rivals)
{
    struct placement place[PLACEMENTS];
    int places = placements(place);

    for (int i = 0; i < places; i++) {
        struct quorum_server s;

        quorum_start(&s, b, kind, place[i].server);
        run_contended(b, &s, &place[i], rival, rivals);
        quorum_stop(&s);
    }
}

/* ---- Two hundred who wait -------------------------------------------- */

static double count_all(void *server)
{
    struct quorum_server *s = server;

    return s->kind->count(s).all;
}

static double count_work(void *server)
{
    struct quorum_server *s = server;
    struct quorum_counts c = s->kind->count(s);

    return c.all - c.renewals;
}

/* One session, as a process of 200 threads has it; then one for each thread, as
 * 200 processes have: every hand-over goes through the store, and waiting has
 * its price, since each renews a lease of its own. */
void quorum_waiters(const struct bench *b, const struct quorum_kind *kind)
{
    static const int sessions[] = {1, WAITERS};
    count_fn *const count[WAITER_COUNTS] = {count_all, count_work};
    struct placement place[PLACEMENTS];
    int places = placements(place);
    struct quorum_server s;
    char text[64], name[40];

    snprintf(name, sizeof name, "%s-waiters", kind->name);
    quorum_start(&s, b, kind, place[places - 1].server);
    pin_to(place[places - 1].client);
    for (size_t i = 0; i < sizeof sessions / sizeof *sessions; i++) {
        int n = sessions[i];
        struct waiting w =
            measure_waiters(s.url, n, b->quick ? 5 : 20, count, &s);

        snprintf(text, sizeof text, "requests, 200 wait, sessions: %d", n);
        row_print(b, &(struct row){name, text, "/s", w.idle[0], NULL, 0,
                                   n == 1 ? VALUE_AT_MOST : NO_GOAL,
                                   kind->idle_goal});
        if (kind->tells_renewals) {
            snprintf(text, sizeof text, "no renewals, 200 wait, sessions: %d",
                     n);
            row_print(b, &(struct row){name, text, "/s", w.idle[1], NULL, 0,
                                       NO_GOAL, 0});
        }
        /* Waiting goes on meanwhile, at its own price. */
        snprintf(text, sizeof text, "requests a hand-over, sessions: %d", n);
        row_print(b, &(struct row){name, text, "",
                                   w.each[1] - w.idle[1] * w.ms / 1e3 / WAITERS,
                                   NULL, 0, VALUE_AT_MOST, 2.05});
        snprintf(text, sizeof text, "200 of 1 ms each, sessions: %d", n);
        row_print(b,
                  &(struct row){name, text, "ms", w.ms, NULL, 0, NO_GOAL, 0});
    }
    quorum_stop(&s);
}
