/* quorum_pair.c - what does a lock in ZooKeeper or etcd cost when nobody else
 * wants it?
 *
 * One thread, against the two requests of the floor, round by round in turn.
 * Both are two commits and two flushes; what holdfast costs more is what a
 * queue, a record of the holder and a token cost.  Server and client share a
 * core first and have one each then.  How many requests the server got is part
 * of the result. */
#include "quorum.h"

#include <stdio.h>

#define MAX_ROUNDS 15

#define MAX_SIDES 3

struct pair_sums {
    const struct side *side[MAX_SIDES]; /* ours first */
    int sides;
    double p50[MAX_SIDES][MAX_ROUNDS], p99[MAX_SIDES][MAX_ROUNDS];
    double rate[MAX_SIDES][MAX_ROUNDS];
};

static void run_pairs(struct pair_sums *m, void *const *thread, int rounds,
                      int pairs)
{
    /* A server in Java gets quicker for a while. */
    for (int r = -3; r < rounds; r++)
        for (int k = 0; k < m->sides; k++) {
            struct pair_sample s = measure_pairs(m->side[k], thread[k], pairs);

            if (r < 0)
                continue;
            m->p50[k][r] = s.p50_us;
            m->p99[k][r] = s.p99_us;
            m->rate[k][r] = s.per_second;
        }
}

static void print_pairs(const struct bench *b, const struct quorum_kind *kind,
                        const char *place, size_t rounds, struct pair_sums *m)
{
    const struct {
        const char *what, *unit;
        double (*of)[MAX_ROUNDS];
        enum goal goal;
        int side;
    } row[] = {{"lock + release, p50", "us", m->p50, RATIO_AT_MOST, 1},
               {"lock + release, p50", "us", m->p50, NO_GOAL, 2},
               {"lock + release, p99", "us", m->p99, NO_GOAL, 1},
               {"pairs a second", "/s", m->rate, NO_GOAL, 1}};
    char text[64], name[40];

    snprintf(name, sizeof name, "%s-pair", kind->name);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        int k = row[i].side;

        if (k >= m->sides)
            continue;
        snprintf(text, sizeof text, "%s, %s", row[i].what, place);
        row_print(b, &(struct row){
                         name, text, row[i].unit, median(row[i].of[0], rounds),
                         m->side[k]->name, median(row[i].of[k], rounds),
                         row[i].goal, kind->pair_goal});
    }
}

/* The same pairs once more, counted and not timed. */
static void print_requests(const struct bench *b, struct quorum_server *s,
                           void *const *thread, int pairs)
{
    const struct side *const side[2] = {&side_holdfast, s->kind->pair};
    double each[2];
    char name[40];

    for (int k = 0; k < 2; k++) {
        double before = s->kind->count(s).all;

        measure_pairs(side[k], thread[k], pairs);
        each[k] = (s->kind->count(s).all - before) / pairs;
    }
    snprintf(name, sizeof name, "%s-pair", s->kind->name);
    row_print(b, &(struct row){name, "requests a pair", "", each[0],
                               s->kind->pair->name, each[1], VALUE_AT_MOST,
                               s->kind->requests_goal});
}

void quorum_pair(const struct bench *b, const struct quorum_kind *kind)
{
    const int rounds = b->quick ? 4 : MAX_ROUNDS, pairs = b->quick ? 200 : 400;
    struct placement place[PLACEMENTS];
    int places = placements(place);

    for (int i = 0; i < places; i++) {
        struct pair_sums m = {.side = {&side_holdfast, kind->pair, kind->same},
                              .sides = kind->same != NULL ? 3 : 2};
        struct quorum_server s;
        void *thread[MAX_SIDES];

        quorum_start(&s, b, kind, place[i].server);
        pin_to(place[i].client);
        for (int k = 0; k < m.sides; k++)
            thread[k] =
                m.side[k]->open_thread(m.side[k]->open_process(s.url), 0);
        run_pairs(&m, thread, rounds, pairs);
        print_pairs(b, kind, place[i].name, (size_t)rounds, &m);
        if (i == places - 1)
            print_requests(b, &s, thread, 200);
        quorum_stop(&s);
    }
}
