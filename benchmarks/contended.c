/* contended.c - what happens when everybody wants the same key?
 *
 * Two processes of four threads take one key again and again, with nothing in
 * between.  Each worker writes down when it asked, when it had the lock and
 * when it gave it back, on a clock that all processes share.  Afterwards the
 * log is put in order and read by judge.c: hand-overs, fairness, and above all
 * overlaps, of which there must be none. */
#include "bench.h"
#include "judge.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROCESSES 2
#define THREADS 4
#define WORKERS (PROCESSES * THREADS)
#define MAX_GRANTS 1000000 /* a worker and round */
#define MAX_ROUNDS 5
#define KEY "/bench/contended"

struct board {
    pthread_barrier_t gate;
    _Atomic int64_t end_ns;
    size_t count[WORKERS];
    struct grant grant[WORKERS][MAX_GRANTS];
};

struct worker {
    struct board *board;
    const struct side *side;
    void *process;
    int number;
    pthread_t id;
};

static void *compete(void *arg)
{
    struct worker *w = arg;
    struct board *board = w->board;
    struct grant *log = board->grant[w->number];
    void *thread = w->side->open_thread(w->process, w->number);
    size_t n = 0;

    pthread_barrier_wait(&board->gate);
    pthread_barrier_wait(&board->gate);
    while (n < MAX_GRANTS && now_ns() < atomic_load(&board->end_ns)) {
        struct grant *g = &log[n++];

        g->worker = w->number;
        g->asked = now_ns();
        w->side->lock(thread, KEY);
        g->got = now_ns();
        g->gave = now_ns();
        w->side->unlock(thread, KEY);
    }
    board->count[w->number] = n;
    return NULL;
}

static void compete_in_process(struct board *board, const struct side *side,
                               const char *where, int process)
{
    struct worker w[THREADS];
    void *opened;

    opened = side->open_process(where);
    for (int i = 0; i < THREADS; i++) {
        w[i] = (struct worker){.board = board,
                               .side = side,
                               .process = opened,
                               .number = process * THREADS + i};
        if (pthread_create(&w[i].id, NULL, compete, &w[i]) != 0)
            bench_die("cannot start a thread");
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(w[i].id, NULL);
}

/* The workers' logs in one piece. */
static struct contest judge(const struct board *board, double seconds)
{
    size_t all = 0, n = 0;
    struct verdict v;
    struct grant *log;

    for (int w = 0; w < WORKERS; w++)
        all += board->count[w];
    log = malloc((all + 1) * sizeof *log);
    if (log == NULL)
        bench_die("out of memory for %zu grants", all);
    for (int w = 0; w < WORKERS; n += board->count[w++])
        memcpy(&log[n], board->grant[w], board->count[w] * sizeof *log);
    v = judge_grants(log, all, WORKERS);
    free(log);
    return (struct contest){.grants = (double)all / seconds,
                            .handovers = (double)v.handovers / seconds,
                            .fairness = v.fairness,
                            .longest_ms = v.longest_ms,
                            .overlaps = v.overlaps};
}

struct contest measure_contest(const struct side *side, const char *where,
                               const int core[2], double seconds)
{
    struct board *board = shared_memory(sizeof *board);
    pthread_barrierattr_t attr;
    struct contest c;
    pid_t pid[PROCESSES];

    pthread_barrierattr_init(&attr);
    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&board->gate, &attr, WORKERS + 1);
    for (int p = 0; p < PROCESSES; p++)
        if ((pid[p] = fork_bound()) == 0) {
            pin_to(core[p]);
            compete_in_process(board, side, where, p);
            _exit(0);
        }
    pthread_barrier_wait(&board->gate);
    atomic_store(&board->end_ns, now_ns() + (int64_t)(seconds * 1e9));
    pthread_barrier_wait(&board->gate);
    for (int p = 0; p < PROCESSES; p++)
        wait_done(pid[p]);
    c = judge(board, seconds);
    unshare_memory(board, sizeof *board);
    return c;
}

void bench_contended(const struct bench *b)
{
    const struct side *side[2] = {&side_holdfast, &floor_poll};
    /* The poller hands over so seldom that it needs the longer look. */
    const double seconds[2] = {1, b->quick ? 3 : 5};
    const int core[2] = {0, 1};
    const int rounds = b->quick ? 1 : MAX_ROUNDS;
    double rate[2][MAX_ROUNDS], fair[2][MAX_ROUNDS], longest[2] = {0, 0};
    long overlaps[2] = {0, 0};
    size_t n = (size_t)rounds;

    for (int r = 0; r < rounds; r++)
        for (int k = 0; k < 2; k++) {
            struct contest c =
                measure_contest(side[k], b->dir, core, seconds[k]);

            rate[k][r] = c.handovers;
            fair[k][r] = c.fairness;
            overlaps[k] += c.overlaps;
            if (c.longest_ms > longest[k])
                longest[k] = c.longest_ms;
        }
    if (overlaps[1] != 0)
        bench_die("contended: the poller had %ld overlaps: the check or the "
                  "clock is broken",
                  overlaps[1]);
    row_print(b, &(struct row){"contended", "real hand-overs, 2 x 4 threads",
                               "/s", median(rate[0], n), floor_poll.name,
                               median(rate[1], n), RATIO_AT_LEAST, 1000});
    row_print(b,
              &(struct row){"contended", "fairness, fewest / most grants", "",
                            median(fair[0], n), NULL, 0, VALUE_AT_LEAST, 0.5});
    row_print(b, &(struct row){"contended", "overlaps (two holders)", "",
                               (double)overlaps[0], NULL, 0, VALUE_AT_MOST, 0});
    row_print(b, &(struct row){"contended", "longest wait", "ms", longest[0],
                               floor_poll.name, longest[1], NO_GOAL, 0});
}
