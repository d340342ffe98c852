/* many.c - what do ten thousand locks and ten thousand waits cost a process?
 *
 * All in one process and by the non-blocking form: holds first, then as many
 * requests that wait for those very keys, then as many that wait for keys
 * which another process holds.  After each step the process is looked at from
 * outside (resident memory, threads) and from inside (malloc's own count),
 * and at the end a few terms of the lease go by while renewals are counted:
 * one for all of them, every third of the lease. */
#include "bench.h"
#include "loop.h"

#include <stdio.h>
#include <unistd.h>

#define FEW 256

static void print_cost(const struct bench *b, const char *what, long count,
                       struct usage before, struct usage after)
{
    char text[64];

    snprintf(text, sizeof text, "%ld %s, malloc", count, what);
    row_print(b, &(struct row){"many", text, "B",
                               (after.heap - before.heap) / (double)count, NULL,
                               0, VALUE_AT_MOST, 1024});
    row_print(b, &(struct row){"many", "  of which SQLite's caches", "B",
                               (after.sqlite - before.sqlite) / (double)count,
                               NULL, 0, NO_GOAL, 0});
    snprintf(text, sizeof text, "%ld %s, resident", count, what);
    row_print(b, &(struct row){"many", text, "B",
                               (after.rss - before.rss) / (double)count, NULL,
                               0, VALUE_AT_MOST, 1024});
}

/* Renewals of a while, over what one session needs in it. */
static void print_renewals(const struct bench *b, struct loop *l)
{
    const double seconds =
        b->quick ? LOOP_LEASE_MS / 1e3 : 2 * LOOP_LEASE_MS / 1e3;
    hf_stats before, after;
    int64_t begin = now_ns();

    hf_session_stats(l->session, &before);
    sleep_us((int64_t)(seconds * 1e6));
    loop_collect(l, 0);
    hf_session_stats(l->session, &after);
    row_print(b, &(struct row){"many", "renewals in a third of the lease", "",
                               (double)(after.renewals - before.renewals) /
                                   ((double)(now_ns() - begin) / 1e6 /
                                    (LOOP_LEASE_MS / 3.0)),
                               NULL, 0, VALUE_AT_MOST, 1.5});
    if (after.renewals == before.renewals)
        bench_die("many: nothing was renewed in %.0f s", seconds);
    row_print(
        b, &(struct row){"many", "store calls to wait, a second", "/s",
                         (double)(after.rechecks - before.rechecks) / seconds,
                         NULL, 0, NO_GOAL, 0});
}

/* Another process that holds `count` keys until it is killed.  It starts all
 * of them at once, as a server does that comes back: *ret_ms is how long it
 * takes until it has them all. */
static pid_t start_other(const struct bench *b, long count, double *ret_ms)
{
    int64_t took;
    int up[2];
    pid_t pid;

    if (pipe(up) != 0)
        bench_die("many: no pipe");
    pid = fork_bound();
    if (pid == 0) {
        struct loop l = {.session = loop_open(b->dir)};
        int64_t begin = now_ns();

        loop_start(&l, "other", 0, count);
        loop_collect(&l, count);
        took = now_ns() - begin;
        loop_take(&l, "other-few", FEW);
        if (write(up[1], &took, sizeof took) != sizeof took)
            _exit(2);
        for (;;)
            pause();
    }
    close(up[1]);
    if (read(up[0], &took, sizeof took) != sizeof took)
        bench_die("many: the other holder failed");
    close(up[0]);
    *ret_ms = (double)took / 1e6;
    return pid;
}

/* A few of each kind first, until the first renewal: what is made once for all
 * (threads, connections and their caches) is not a price of each. */
static long warm_up(struct loop *l)
{
    hf_stats stats = {0};

    loop_start(l, "few", 0, FEW);
    loop_collect(l, FEW);
    loop_start(l, "few", 0, FEW);
    loop_wait(l, "other-few", FEW);
    loop_await(l, 2 * FEW, FEW);
    for (int i = 0; i < LOOP_LEASE_MS && stats.renewals == 0; i++) {
        sleep_us(1000);
        hf_session_stats(l->session, &stats);
    }
    return FEW;
}

void bench_many(const struct bench *b)
{
    const long count = b->quick ? 2000 : 10000;
    char text[64];
    struct usage few, holds, waits, remote;
    double ms;
    pid_t other = start_other(b, count, &ms);
    struct loop l = {.session = loop_open(b->dir)};
    long granted = warm_up(&l);

    snprintf(text, sizeof text, "%ld locks started at once, held", count);
    row_print(b, &(struct row){"many", text, "ms", ms, NULL, 0, NO_GOAL, 0});
    few = loop_look();
    loop_take(&l, "own", count);
    holds = loop_look();
    print_cost(b, "holds", count, few, holds);
    loop_start(&l, "own", 0, count);
    loop_await(&l, 2 * FEW + count, FEW);
    waits = loop_look();
    print_cost(b, "waits, own keys", count, holds, waits);
    loop_wait(&l, "other", count);
    loop_await(&l, 2 * FEW + 2 * count, FEW + count);
    remote = loop_look();
    print_cost(b, "waits, others' keys", count, waits, remote);
    row_print(b, &(struct row){"many", "threads more than with 256 of each", "",
                               (double)(remote.threads - few.threads), NULL, 0,
                               VALUE_AT_MOST, 0});
    row_print(b, &(struct row){"many", "threads in all", "",
                               (double)remote.threads, NULL, 0, NO_GOAL, 0});
    print_renewals(b, &l);
    if (l.granted != granted + count)
        bench_die("many: %ld grants, expected %ld", l.granted, granted + count);
    end_child(other);
}
