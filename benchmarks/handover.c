/* handover.c - how long from "I give it back" to "the other has it"?
 *
 * Two processes take one key in turn.  The next one asks only once the other
 * holds, and the holder then keeps it for a while, so that the next one is
 * really asleep when the lock comes free: what is measured is the wake-up,
 * from the call of the release in one process to the return of the lock in
 * the other.
 *
 * A byte in a pipe says whose turn it is.  The sides change from round to
 * round; each has its own release instant, since the last holder of a round
 * may still hold when the next round begins on the other side. */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEY "handover"

struct board {
    _Atomic int64_t released_ns[2]; /* by side */
    double took_us[2][MAX_TURN_ROUNDS][2 * MAX_TURNS];
};

struct player {
    const struct turns *plan;
    int number;             /* 0 begins */
    int my_turn, your_turn; /* pipe ends */
    struct board *board;
};

static void pass_turn(const struct player *p)
{
    if (write(p->your_turn, "x", 1) != 1)
        bench_die("handover: cannot pass the turn: %s", strerror(errno));
}

static void await_turn(const struct player *p)
{
    char c;

    if (read(p->my_turn, &c, 1) != 1)
        bench_die("handover: the other process is gone");
}

static void play(const struct player *p)
{
    const struct turns *plan = p->plan;
    const struct side *const *side = plan->side;
    unsigned seed = 1 + (unsigned)p->number;
    void *thread[2];

    for (int k = 0; k < 2; k++)
        thread[k] =
            side[k]->open_thread(side[k]->open_process(plan->where), p->number);
    for (int r = 0; r < 2 * plan->rounds; r++)
        for (int i = 0; i < plan->turns; i++) {
            int k = r % 2;
            double *ret = &p->board->took_us[k][r / 2][2 * i + p->number];
            int64_t got, gone;

            await_turn(p);
            side[k]->lock(thread[k], KEY);
            got = now_ns();
            gone = atomic_load(&p->board->released_ns[k]);
            *ret = i == 0 ? -1 : (double)(got - gone) / 1e3;
            pass_turn(p);
            sleep_us(plan->hold_us + rand_r(&seed) % plan->jitter_us);
            atomic_store(&p->board->released_ns[k], now_ns());
            side[k]->unlock(thread[k], KEY);
        }
}

/* The medians of the rounds' medians, by side; the first turns of a round
 * waited for nobody and do not count. */
static void sum_up(struct board *board, int rounds, int turns, double *ret)
{
    for (int k = 0; k < 2; k++) {
        double p50[MAX_TURN_ROUNDS];

        for (int r = 0; r < rounds; r++)
            p50[r] =
                median(&board->took_us[k][r][2], (size_t)(2 * (turns - 1)));
        ret[k] = median(p50, (size_t)rounds);
    }
}

void measure_turns(const struct turns *t, double ret_p50_us[2])
{
    struct board *board = shared_memory(sizeof *board);
    int pipes[2][2];
    pid_t pid[2];

    for (int i = 0; i < 2; i++)
        if (pipe(pipes[i]) != 0)
            bench_die("handover: no pipe: %s", strerror(errno));
    for (int i = 0; i < 2; i++)
        if ((pid[i] = fork_bound()) == 0) {
            struct player p = {.plan = t,
                               .number = i,
                               .my_turn = pipes[i][0],
                               .your_turn = pipes[1 - i][1],
                               .board = board};

            pin_to(t->core[i]);
            play(&p);
            _exit(0);
        }
    if (write(pipes[0][1], "x", 1) != 1)
        bench_die("handover: cannot begin: %s", strerror(errno));
    for (int i = 0; i < 2; i++)
        wait_done(pid[i]);
    for (int i = 0; i < 2; i++) {
        close(pipes[i][0]);
        close(pipes[i][1]);
    }
    sum_up(board, t->rounds, t->turns, ret_p50_us);
    unshare_memory(board, sizeof *board);
}

void bench_handover(const struct bench *b)
{
    const int last = core_count() - 1;
    struct turns t = {.side = {&side_holdfast, &floor_flock},
                      .where = b->dir,
                      .core = {last, last},
                      .rounds = b->quick ? 3 : MAX_TURN_ROUNDS,
                      .turns = MAX_TURNS,
                      .hold_us = 700,
                      .jitter_us = 300};
    double us[2];

    measure_turns(&t, us);
    row_print(b, &(struct row){"handover", "2 processes, one core, p50", "us",
                               us[0], floor_flock.name, us[1], RATIO_AT_MOST,
                               3.0});
    if (core_count() < 2)
        return;
    t.core[0] = 0;
    t.core[1] = 1;
    measure_turns(&t, us);
    row_print(b, &(struct row){"handover", "2 processes, a core each, p50",
                               "us", us[0], floor_flock.name, us[1],
                               RATIO_AT_MOST, 3.0});
}
