/* many.c - what do ten thousand locks and ten thousand waits cost a process?
 *
 * All in one process and by the non-blocking form: holds first, then as many
 * requests that wait for those very keys, then as many that wait for keys
 * which another process holds.  After each step the process is looked at from
 * outside (resident memory, threads) and from inside (malloc's own count),
 * and at the end a few terms of the lease go by while renewals are counted:
 * one for all of them, every third of the lease.
 *
 * The benchmark itself keeps nothing for each of them. */
#include "bench.h"

#include <holdfast/holdfast.h>
#include <malloc.h>
#include <poll.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEASE_MS 6000
#define FEW 256
#define BATCH 100

struct usage {
    double rss, heap;
    double sqlite; /* the part of the heap that is SQLite's, mostly caches */
    long threads;
};

struct loop {
    hf_session *session;
    long granted;
};

static struct usage look(void)
{
    struct mallinfo2 m = mallinfo2();

    return (struct usage){.rss = (double)self_status("VmRSS:") * 1024,
                          .heap = (double)m.uordblks + (double)m.hblkhd,
                          .sqlite = (double)sqlite3_memory_used(),
                          .threads = self_status("Threads:")};
}

static hf_session *open_session(const struct bench *b)
{
    hf_open_options opt = {HF_OPEN_OPTIONS, .lease_ms = LEASE_MS,
                           .max_waiters = 30000};
    hf_session *s;
    hf_error err;
    char url[512];

    holdfast_url(url, sizeof url, b->dir);
    if (hf_open(&s, url, &opt, &err) != 0)
        bench_die("holdfast: %s", err.text);
    if (hf_session_fd(s) < 0)
        bench_die("many: the session has no descriptor");
    return s;
}

/* Take what has come in; with grants expected, wait for it. */
static void collect(struct loop *l, long until_granted)
{
    struct pollfd p = {.fd = hf_session_fd(l->session), .events = POLLIN};
    hf_result r;

    do {
        if (l->granted < until_granted && poll(&p, 1, 60000) != 1)
            bench_die("many: %ld of %ld grants after a minute", l->granted,
                      until_granted);
        while (hf_collect(l->session, &r) == 1) {
            if (r.kind == HF_RESULT_CHANGE)
                bench_die("many: a hold is %s: %s",
                          r.state == HF_LOST ? "lost" : "in doubt",
                          r.error.text);
            if (r.kind != HF_RESULT_LOCK || r.error.code != 0)
                bench_die("many: a request failed: %s", r.error.text);
            l->granted++;
        }
    } while (l->granted < until_granted);
}

static void start_locks(struct loop *l, const char *prefix, long first,
                        long count)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = HF_FOREVER};

    for (long i = first; i < first + count; i++) {
        hf_request *request;
        hf_error err;
        char key[48];

        snprintf(key, sizeof key, "/%s/%ld/%ld", prefix, i / BATCH, i);
        if (hf_lock_start(l->session, key, &opt, NULL, &request, &err) != 0)
            bench_die("many: '%s': %s", key, err.text);
    }
}

/* As a program would that comes to its locks one by one: a burst of requests
 * in flight would be measured as if holds had that price. */
static void take_holds(struct loop *l, const char *prefix, long count)
{
    for (long i = 0; i < count; i += BATCH) {
        long n = count - i < BATCH ? count - i : BATCH;

        start_locks(l, prefix, i, n);
        collect(l, l->granted + n);
    }
}

static int count_place(const hf_entry_info *entry, void *user)
{
    if (entry->mine && !entry->granted)
        ++*(long *)user;
    return 0;
}

/* How many waits of this session have a place in the store's queues. */
static long count_places(struct loop *l, const char *prefix)
{
    long found = 0;
    hf_error err;

    if (hf_list(l->session, prefix, count_place, &found, &err) != 0)
        bench_die("many: %s", err.text);
    return found;
}

/* The same for waits that need a place in the store. */
static void start_waits(struct loop *l, const char *name, long count)
{
    for (long i = 0; i < count; i += BATCH) {
        long n = count - i < BATCH ? count - i : BATCH;
        int tries = 0;
        char prefix[48];

        snprintf(prefix, sizeof prefix, "/%s/%ld/", name, i / BATCH);
        start_locks(l, name, i, n);
        while (count_places(l, prefix) != n && tries++ < 10000)
            sleep_us(1000);
    }
}

/* Until the session counts `all` waits, and `stored` of them have a place in
 * the store's queues; the others wait behind a hold of this process. */
static void await_waits(struct loop *l, long all, long stored)
{
    hf_stats now = {0};
    long found = 0;

    for (int i = 0; i < 300; i++) {
        sleep_us(200 * 1000);
        collect(l, 0);
        if (hf_session_stats(l->session, &now) != 0)
            bench_die("many: no statistics of the session");
        found = count_places(l, NULL);
        if ((long)now.waiters == all && found == stored)
            return;
    }
    bench_die("many: %ld of %ld waits, %ld of %ld in the store after a minute",
              (long)now.waiters, all, found, stored);
}

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
    const double seconds = b->quick ? LEASE_MS / 1e3 : 2 * LEASE_MS / 1e3;
    hf_stats before, after;
    int64_t begin = now_ns();

    hf_session_stats(l->session, &before);
    sleep_us((int64_t)(seconds * 1e6));
    collect(l, 0);
    hf_session_stats(l->session, &after);
    row_print(b, &(struct row){
                     "many", "renewals in a third of the lease", "",
                     (double)(after.renewals - before.renewals) /
                         ((double)(now_ns() - begin) / 1e6 / (LEASE_MS / 3.0)),
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
        struct loop l = {.session = open_session(b)};
        int64_t begin = now_ns();

        start_locks(&l, "other", 0, count);
        collect(&l, count);
        took = now_ns() - begin;
        take_holds(&l, "other-few", FEW);
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

    start_locks(l, "few", 0, FEW);
    collect(l, FEW);
    start_locks(l, "few", 0, FEW);
    start_waits(l, "other-few", FEW);
    await_waits(l, 2 * FEW, FEW);
    for (int i = 0; i < LEASE_MS && stats.renewals == 0; i++) {
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
    struct loop l = {.session = open_session(b)};
    long granted = warm_up(&l);

    snprintf(text, sizeof text, "%ld locks started at once, held", count);
    row_print(b, &(struct row){"many", text, "ms", ms, NULL, 0, NO_GOAL, 0});
    few = look();
    take_holds(&l, "own", count);
    holds = look();
    print_cost(b, "holds", count, few, holds);
    start_locks(&l, "own", 0, count);
    await_waits(&l, 2 * FEW + count, FEW);
    waits = look();
    print_cost(b, "waits, own keys", count, holds, waits);
    start_waits(&l, "other", count);
    await_waits(&l, 2 * FEW + 2 * count, FEW + count);
    remote = look();
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
