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

struct pair_sums {
    double p50[2][MAX_ROUNDS], p99[2][MAX_ROUNDS], rate[2][MAX_ROUNDS];
};

static void run_pairs(const struct quorum_kind *kind, void *const thread[2],
                      int rounds, int pairs, struct pair_sums *ret)
{
    const struct side *const side[2] = {&side_holdfast, kind->pair};

    for (int r = 0; r < rounds; r++)
        for (int k = 0; k < 2; k++) {
            struct pair_sample m = measure_pairs(side[k], thread[k], pairs);

            ret->p50[k][r] = m.p50_us;
            ret->p99[k][r] = m.p99_us;
            ret->rate[k][r] = m.per_second;
        }
}

static void print_pairs(const struct bench *b, const struct quorum_kind *kind,
                        const char *place, size_t rounds, struct pair_sums *m)
{
    const struct {
        const char *what, *unit;
        double (*of)[MAX_ROUNDS];
        enum goal goal;
    } row[] = {{"lock + release, p50", "us", m->p50, RATIO_AT_MOST},
               {"lock + release, p99", "us", m->p99, NO_GOAL},
               {"pairs a second", "/s", m->rate, NO_GOAL}};
    char text[64], name[40];

    snprintf(name, sizeof name, "%s-pair", kind->name);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        snprintf(text, sizeof text, "%s, %s", row[i].what, place);
        row_print(b, &(struct row){
                         name, text, row[i].unit, median(row[i].of[0], rounds),
                         kind->pair->name, median(row[i].of[1], rounds),
                         row[i].goal, kind->pair_goal});
    }
}

/* The same pairs once more, counted and not timed. */
static void print_requests(const struct bench *b, struct quorum_server *s,
                           void *const thread[2], int pairs)
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
        struct quorum_server s;
        struct pair_sums m;
        void *thread[2];

        quorum_start(&s, b, kind, place[i].server);
        pin_to(place[i].client);
        thread[0] =
            side_holdfast.open_thread(side_holdfast.open_process(s.url), 0);
        thread[1] = kind->pair->open_thread(kind->pair->open_process(s.url), 0);
        /* A server in Java gets quicker for a while. */
        for (int k = 0; k < 3; k++) {
            measure_pairs(&side_holdfast, thread[0], pairs);
            measure_pairs(kind->pair, thread[1], pairs);
        }
        run_pairs(kind, thread, rounds, pairs, &m);
        print_pairs(b, kind, place[i].name, (size_t)rounds, &m);
        if (i == places - 1)
            print_requests(b, &s, thread, 200);
        quorum_stop(&s);
    }
}
