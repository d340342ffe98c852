/* loop.c - an event loop with thousands of requests, as a scenario needs it.
 *
 * Knows nothing of what is measured with it, and keeps nothing for each
 * request, so that what the process grows by is holdfast's. */
#include "loop.h"
#include "bench.h"

#include <malloc.h>
#include <poll.h>
#include <sqlite3.h>
#include <stdio.h>

struct usage loop_look(void)
{
    struct mallinfo2 m = mallinfo2();

    return (struct usage){.rss = (double)self_status("VmRSS:") * 1024,
                          .heap = (double)m.uordblks + (double)m.hblkhd,
                          .sqlite = (double)sqlite3_memory_used(),
                          .threads = self_status("Threads:")};
}

hf_session *loop_open(const char *where)
{
    hf_open_options opt = {HF_OPEN_OPTIONS, .lease_ms = LOOP_LEASE_MS,
                           .max_waiters = 30000};
    hf_session *s;
    hf_error err;
    char url[512];

    holdfast_url(url, sizeof url, where);
    if (hf_open(&s, url, &opt, &err) != 0)
        bench_die("holdfast: %s", err.text);
    if (hf_session_fd(s) < 0)
        bench_die("many: the session has no descriptor");
    return s;
}

void loop_collect(struct loop *l, long until_granted)
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

void loop_start(struct loop *l, const char *prefix, long first, long count)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = HF_FOREVER};

    for (long i = first; i < first + count; i++) {
        hf_request *request;
        hf_error err;
        char key[48];

        snprintf(key, sizeof key, "/%s/%ld/%ld", prefix, i / LOOP_BATCH, i);
        if (hf_lock_start(l->session, key, &opt, NULL, &request, &err) != 0)
            bench_die("many: '%s': %s", key, err.text);
    }
}

void loop_take(struct loop *l, const char *prefix, long count)
{
    for (long i = 0; i < count; i += LOOP_BATCH) {
        long n = count - i < LOOP_BATCH ? count - i : LOOP_BATCH;

        loop_start(l, prefix, i, n);
        loop_collect(l, l->granted + n);
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

void loop_wait(struct loop *l, const char *name, long count)
{
    for (long i = 0; i < count; i += LOOP_BATCH) {
        long n = count - i < LOOP_BATCH ? count - i : LOOP_BATCH;
        int tries = 0;
        char prefix[48];

        snprintf(prefix, sizeof prefix, "/%s/%ld/", name, i / LOOP_BATCH);
        loop_start(l, name, i, n);
        while (count_places(l, prefix) != n && tries++ < 10000)
            sleep_us(1000);
    }
}

void loop_await(struct loop *l, long all, long stored)
{
    hf_stats now = {0};
    long found = 0;

    for (int i = 0; i < 300; i++) {
        sleep_us(200 * 1000);
        loop_collect(l, 0);
        if (hf_session_stats(l->session, &now) != 0)
            bench_die("many: no statistics of the session");
        found = count_places(l, NULL);
        if ((long)now.waiters == all && found == stored)
            return;
    }
    bench_die("many: %ld of %ld waits, %ld of %ld in the store after a minute",
              (long)now.waiters, all, found, stored);
}
