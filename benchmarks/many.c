/* many.c - what do ten thousand locks and ten thousand waits cost a process?
 *
 * All in one process and by the non-blocking form: holds first, then as many
 * requests that wait for those very keys, then as many that wait for keys
 * which another process holds.  After each step the process is looked at from
 * outside (resident memory, threads) and from inside (malloc's own count),
 * and at the end a few terms of the lease go by while renewals are counted:
 * one for all of them, every third of the lease.
 *
 * What the benchmark itself needs is allocated and touched beforehand. */
#include "bench.h"

#include <holdfast/holdfast.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEASE_MS 6000

struct usage {
    double rss, heap;
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
            if (r.kind != HF_RESULT_LOCK || r.error.code != 0)
                bench_die("many: result %d: %s", (int)r.kind, r.error.text);
            l->granted++;
        }
    } while (l->granted < until_granted);
}

static void start_locks(struct loop *l, const char *prefix, long count)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = HF_FOREVER};

    for (long i = 0; i < count; i++) {
        hf_request *request;
        hf_error err;
        char key[48];

        snprintf(key, sizeof key, "/%s/%ld", prefix, i);
        if (hf_lock_start(l->session, key, &opt, NULL, &request, &err) != 0)
            bench_die("many: '%s': %s", key, err.text);
    }
}

/* Until the session counts them all and no more comes in. */
static void await_waiters(struct loop *l, uint64_t count)
{
    hf_stats before = {0}, now = {0};

    for (int i = 0; i < 300; i++) {
        before = now;
        sleep_us(200 * 1000);
        collect(l, 0);
        if (hf_session_stats(l->session, &now) != 0)
            bench_die("many: no statistics of the session");
        if (now.waiters == count && now.joins == before.joins)
            return;
    }
    bench_die("many: %llu waiters, expected %llu",
              (unsigned long long)now.waiters, (unsigned long long)count);
}

static void print_cost(const struct bench *b, const char *what, long count,
                       struct usage before, struct usage after)
{
    char text[64];

    snprintf(text, sizeof text, "%ld %s, malloc", count, what);
    row_print(b, &(struct row){"many", text, "B",
                               (after.heap - before.heap) / (double)count, NULL,
                               0, VALUE_AT_MOST, 1024});
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

/* Another process that holds `count` keys until it is killed. */
static pid_t start_other(const struct bench *b, long count)
{
    int up[2];
    pid_t pid;
    char c;

    if (pipe(up) != 0)
        bench_die("many: no pipe");
    pid = fork_bound();
    if (pid == 0) {
        struct loop l = {.session = open_session(b)};

        start_locks(&l, "other", count);
        collect(&l, count);
        if (write(up[1], "x", 1) != 1)
            _exit(2);
        for (;;)
            pause();
    }
    close(up[1]);
    if (read(up[0], &c, 1) != 1)
        bench_die("many: the other holder failed");
    close(up[0]);
    return pid;
}

void bench_many(const struct bench *b)
{
    const long count = b->quick ? 2000 : 10000;
    struct usage bare, holds, waits, remote;
    pid_t other = start_other(b, count);
    struct loop l = {.session = open_session(b)};

    start_locks(&l, "first", 1);
    collect(&l, 1);
    bare = look();
    start_locks(&l, "own", count);
    collect(&l, 1 + count);
    holds = look();
    print_cost(b, "holds", count, bare, holds);
    start_locks(&l, "own", count);
    await_waiters(&l, (uint64_t)count);
    waits = look();
    print_cost(b, "waits, own keys", count, holds, waits);
    start_locks(&l, "other", count);
    await_waiters(&l, 2 * (uint64_t)count);
    remote = look();
    print_cost(b, "waits, others' keys", count, waits, remote);
    row_print(b, &(struct row){"many", "threads more than with one hold", "",
                               (double)(remote.threads - bare.threads), NULL, 0,
                               VALUE_AT_MOST, 0});
    row_print(b, &(struct row){"many", "threads in all", "",
                               (double)remote.threads, NULL, 0, NO_GOAL, 0});
    print_renewals(b, &l);
    if (l.granted != 1 + count)
        bench_die("many: %ld grants, expected %ld", l.granted, 1 + count);
    end_child(other);
}
