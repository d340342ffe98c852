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
#define MAX_ROUNDS 10
#define MAX_TURNS 300

struct board {
    _Atomic int64_t released_ns[2]; /* by side */
    double took_us[2][MAX_ROUNDS][2 * MAX_TURNS];
};

struct player {
    int number; /* 0 begins */
    int rounds, turns;
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

static void play(const struct player *p, const char *dir)
{
    const struct side *side[2] = {&side_holdfast, &floor_flock};
    unsigned seed = 1 + (unsigned)p->number;
    void *thread[2];

    for (int k = 0; k < 2; k++)
        thread[k] = side[k]->open_thread(side[k]->open_process(dir), p->number);
    for (int r = 0; r < 2 * p->rounds; r++)
        for (int i = 0; i < p->turns; i++) {
            int k = r % 2;
            double *ret = &p->board->took_us[k][r / 2][2 * i + p->number];
            int64_t got, gone;

            await_turn(p);
            side[k]->lock(thread[k], KEY);
            got = now_ns();
            gone = atomic_load(&p->board->released_ns[k]);
            *ret = i == 0 ? -1 : (double)(got - gone) / 1e3;
            pass_turn(p);
            sleep_us(700 + rand_r(&seed) % 300);
            atomic_store(&p->board->released_ns[k], now_ns());
            side[k]->unlock(thread[k], KEY);
        }
}

/* The medians of the rounds' medians, by side; the first turns of a round
 * waited for nobody and do not count. */
static void sum_up(struct board *board, int rounds, int turns, double *ret)
{
    for (int k = 0; k < 2; k++) {
        double p50[MAX_ROUNDS];

        for (int r = 0; r < rounds; r++)
            p50[r] =
                median(&board->took_us[k][r][2], (size_t)(2 * (turns - 1)));
        ret[k] = median(p50, (size_t)rounds);
    }
}

static void measure(const struct bench *b, bool split, double *ret)
{
    const int rounds = b->quick ? 3 : MAX_ROUNDS, turns = MAX_TURNS;
    struct board *board = shared_memory(sizeof *board);
    int pipes[2][2];
    pid_t pid[2];

    for (int i = 0; i < 2; i++)
        if (pipe(pipes[i]) != 0)
            bench_die("handover: no pipe: %s", strerror(errno));
    for (int i = 0; i < 2; i++)
        if ((pid[i] = fork_bound()) == 0) {
            struct player p = {.number = i,
                               .rounds = rounds,
                               .turns = turns,
                               .my_turn = pipes[i][0],
                               .your_turn = pipes[1 - i][1],
                               .board = board};

            pin_to(split ? i : core_count() - 1);
            play(&p, b->dir);
            _exit(0);
        }
    if (write(pipes[0][1], "x", 1) != 1)
        bench_die("handover: cannot begin: %s", strerror(errno));
    for (int i = 0; i < 2; i++)
        wait_done(pid[i]);
    sum_up(board, rounds, turns, ret);
}

void bench_handover(const struct bench *b)
{
    double us[2];

    measure(b, false, us);
    row_print(b, &(struct row){"handover", "2 processes, one core, p50", "us",
                               us[0], floor_flock.name, us[1], RATIO_AT_MOST,
                               3.0});
    if (core_count() < 2)
        return;
    measure(b, true, us);
    row_print(b, &(struct row){"handover", "2 processes, a core each, p50",
                               "us", us[0], floor_flock.name, us[1],
                               RATIO_AT_MOST, 3.0});
}
