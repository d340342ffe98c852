/* redis_pair.c - what does a lock on Redis cost when nobody else wants it?
 *
 * One thread (redis-pair), then sixteen threads of one process on keys of
 * their own (redis-threads), against the floor on the same server, round by
 * round in turn.  Server and client share a core first and have one each
 * then: between two cores every message also wakes a core, which hides what
 * the client itself costs.
 *
 * What the server counted is part of the result: commands and round trips a
 * pair, and, with sixteen threads, the time it burnt. */
#include "redis.h"

#include <stdio.h>

#define MAX_ROUNDS 25
#define MAX_CREW_ROUNDS 5

/* ---- One thread ------------------------------------------------------ */

struct pair_sums {
    double p50[2][MAX_ROUNDS], p99[2][MAX_ROUNDS], rate[2][MAX_ROUNDS];
    double executed[2], reads[2]; /* a pair */
};

/* Both sides in turn, then once more each with the server's counters read. */
static void run_pairs(struct redis_server *s, const struct side *const side[2],
                      int rounds, int pairs, struct pair_sums *ret)
{
    void *thread[2];

    for (int k = 0; k < 2; k++) {
        thread[k] = side[k]->open_thread(side[k]->open_process(s->url), 0);
        measure_pairs(side[k], thread[k], pairs);
    }
    for (int r = 0; r < rounds; r++)
        for (int k = 0; k < 2; k++) {
            struct pair_sample m = measure_pairs(side[k], thread[k], pairs);

            ret->p50[k][r] = m.p50_us;
            ret->p99[k][r] = m.p99_us;
            ret->rate[k][r] = m.per_second;
        }
    for (int k = 0; k < 2; k++) {
        struct redis_counts c = redis_count(s);

        measure_pairs(side[k], thread[k], pairs);
        c = redis_count_since(s, c);
        ret->executed[k] = c.executed / pairs;
        ret->reads[k] = c.reads / pairs;
    }
}

static void print_pairs(const struct bench *b, const char *place, size_t rounds,
                        struct pair_sums *m)
{
    const struct {
        const char *what, *unit;
        double (*of)[MAX_ROUNDS];
        enum goal goal;
    } row[] = {{"lock + release, p50", "us", m->p50, RATIO_AT_MOST},
               {"lock + release, p99", "us", m->p99, NO_GOAL},
               {"pairs a second", "/s", m->rate, NO_GOAL}};
    char text[64];

    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        snprintf(text, sizeof text, "%s, %s", row[i].what, place);
        row_print(
            b, &(struct row){"redis-pair", text, row[i].unit,
                             median(row[i].of[0], rounds), floor_redis.name,
                             median(row[i].of[1], rounds), row[i].goal, 1.10});
    }
}

void bench_redis_pair(const struct bench *b)
{
    const struct side *const side[2] = {&side_holdfast, &floor_redis};
    const int rounds = b->quick ? 6 : MAX_ROUNDS, pairs = 1500;
    struct placement place[PLACEMENTS];
    struct pair_sums m;
    int places = placements(place);

    redis_needed(b);
    for (int i = 0; i < places; i++) {
        struct redis_server s;

        redis_start(&s, b, place[i].server);
        pin_to(place[i].client);
        run_pairs(&s, side, rounds, pairs, &m);
        print_pairs(b, place[i].name, (size_t)rounds, &m);
        redis_stop(&s);
    }
    row_print(b,
              &(struct row){"redis-pair", "round trips a pair", "", m.reads[0],
                            floor_redis.name, m.reads[1], VALUE_AT_MOST, 2.01});
    row_print(b, &(struct row){"redis-pair", "commands executed a pair", "",
                               m.executed[0], floor_redis.name, m.executed[1],
                               NO_GOAL, 0});
}

/* ---- Sixteen threads ------------------------------------------------- */

struct crew_sums {
    double rate[2][MAX_CREW_ROUNDS], cpu_us[2][MAX_CREW_ROUNDS];
};

static void print_crews(const struct bench *b, const char *place, size_t rounds,
                        struct crew_sums *m)
{
    char text[64];

    snprintf(text, sizeof text, "pairs of 16 threads, %s", place);
    row_print(b, &(struct row){"redis-threads", text, "/s",
                               median(m->rate[0], rounds),
                               "16 connections of the floor",
                               median(m->rate[1], rounds), RATIO_AT_LEAST, 1});
    snprintf(text, sizeof text, "server CPU a pair, %s", place);
    row_print(b, &(struct row){
                     "redis-threads", text, "us", median(m->cpu_us[0], rounds),
                     "16 connections of the floor",
                     median(m->cpu_us[1], rounds), RATIO_AT_MOST, 0.5});
}

void bench_redis_threads(const struct bench *b)
{
    const struct side *const side[2] = {&side_holdfast, &floor_redis};
    const int rounds = b->quick ? 2 : MAX_CREW_ROUNDS;
    const double seconds = b->quick ? 0.5 : 1;
    struct placement place[PLACEMENTS];
    int places = placements(place);

    redis_needed(b);
    for (int i = 0; i < places; i++) {
        struct redis_server s;
        struct crew_sums m;

        redis_start(&s, b, place[i].server);
        for (int r = 0; r < rounds; r++)
            for (int k = 0; k < 2; k++) {
                struct redis_counts c = redis_count(&s);
                double pairs;

                m.rate[k][r] = measure_crew(side[k], s.url, place[i].client,
                                            seconds, &pairs);
                c = redis_count_since(&s, c);
                m.cpu_us[k][r] = c.cpu_s * 1e6 / pairs;
            }
        print_crews(b, place[i].name, (size_t)rounds, &m);
        redis_stop(&s);
    }
}
