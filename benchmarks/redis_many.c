/* redis_many.c - ten thousand waits on Redis, in one process.
 *
 * Another process holds as many keys.  This one asks for each of them by the
 * non-blocking form, on one thread, and then looks: how many connections it
 * has to the server, what a wait costs in memory, which threads there are,
 * what the server is asked while all wait.  At the end the other lets go, and
 * every wait must become a grant. */
#include "loop.h"
#include "redis.h"

#include <stdio.h>
#include <unistd.h>

#define FEW 256
#define PORTION 500

/* Another process that holds the keys, counts who waits for them when it is
 * asked, and lets go when it is told: what this one would do itself for that
 * would be measured, too. */
struct other {
    pid_t pid;
    int say, hear; /* pipe ends */
};

static int count_waiting(const hf_entry_info *entry, void *user)
{
    if (!entry->granted)
        ++*(long *)user;
    return 0;
}

static void serve(const char *url, long count, int hear, int say)
{
    struct loop l = {.session = loop_open(url)};
    long found = 0;
    char order;

    loop_start(&l, "few", 0, FEW);
    loop_start(&l, "many", 0, count);
    loop_collect(&l, FEW + count);
    while (write(say, &found, sizeof found) == sizeof found &&
           read(hear, &order, 1) == 1 && order == 'c') {
        hf_error err;

        found = 0;
        if (hf_list(l.session, NULL, count_waiting, &found, &err) != 0)
            bench_die("redis-many: %s", err.text);
    }
    hf_close(l.session);
    _exit(0);
}

static long hear_count(const struct other *o)
{
    long found;

    if (read(o->hear, &found, sizeof found) != sizeof found)
        bench_die("redis-many: the other process failed");
    return found;
}

static struct other start_other(const char *url, long count)
{
    int up[2], down[2];
    struct other o;

    if (pipe(up) != 0 || pipe(down) != 0)
        bench_die("redis-many: no pipe");
    o.pid = fork_bound();
    if (o.pid == 0) {
        close(up[0]);
        close(down[1]);
        serve(url, count, down[0], up[1]);
    }
    close(up[1]);
    close(down[0]);
    o.say = down[1];
    o.hear = up[0];
    hear_count(&o);
    return o;
}

/* Start the waits in portions, each once the store has all before it. */
static void start_waits(struct loop *l, const struct other *o,
                        const char *prefix, long count, long before)
{
    for (long i = 0; i < count; i += PORTION) {
        long n = count - i < PORTION ? count - i : PORTION, found = -1;

        loop_start(l, prefix, i, n);
        for (int k = 0; k < 1000 && found != before + i + n; k++) {
            sleep_us(5 * 1000);
            if (write(o->say, "c", 1) != 1)
                bench_die("redis-many: the other process is gone");
            found = hear_count(o);
        }
        if (found != before + i + n)
            bench_die("redis-many: %ld waits in the store, expected %ld", found,
                      before + i + n);
        loop_collect(l, 0);
    }
}

static void print_waits(const struct bench *b, long count, struct usage before,
                        struct usage after)
{
    char text[64];

    snprintf(text, sizeof text, "%ld waits, malloc", count);
    row_print(b, &(struct row){"redis-many", text, "B",
                               (after.heap - before.heap) / (double)count, NULL,
                               0, VALUE_AT_MOST, 1024});
    snprintf(text, sizeof text, "%ld waits, resident", count);
    row_print(b, &(struct row){"redis-many", text, "B",
                               (after.rss - before.rss) / (double)count, NULL,
                               0, NO_GOAL, 0});
    row_print(b, &(struct row){"redis-many", "threads more than with 256", "",
                               (double)(after.threads - before.threads), NULL,
                               0, VALUE_AT_MOST, 0});
    row_print(b, &(struct row){"redis-many", "threads in all", "",
                               (double)after.threads, NULL, 0, NO_GOAL, 0});
}

static void print_idle(const struct bench *b, struct redis_server *s,
                       struct loop *l)
{
    const double seconds = b->quick ? 3 : 12;
    struct redis_monitor *m = redis_watch(s);
    long before = redis_read_so_far(m);

    sleep_us((int64_t)(seconds * 1e6));
    row_print(b,
              &(struct row){"redis-many", "commands read, all wait", "/s",
                            (double)(redis_read_so_far(m) - before) / seconds,
                            NULL, 0, NO_GOAL, 0});
    loop_collect(l, 0);
    redis_unwatch(m);
}

/* The other lets go: every wait becomes a hold. */
static void print_grants(const struct bench *b, struct other *o, struct loop *l,
                         long count)
{
    int64_t begin = now_ns();

    if (write(o->say, "x", 1) != 1)
        bench_die("redis-many: the other process is gone");
    loop_collect(l, count);
    row_print(b, &(struct row){"redis-many", "all let go, until all granted",
                               "ms", (double)(now_ns() - begin) / 1e6, NULL, 0,
                               NO_GOAL, 0});
    wait_done(o->pid);
}

void bench_redis_many(const struct bench *b)
{
    const long count = b->quick ? 2000 : 10000;
    struct placement place[PLACEMENTS];
    int places = placements(place);
    struct redis_server s;
    struct usage few;
    struct other o;
    struct loop l = {0};

    redis_needed(b);
    redis_start(&s, b, place[places - 1].server);
    pin_to(place[places - 1].client);
    o = start_other(s.url, count);
    l.session = loop_open(s.url);
    start_waits(&l, &o, "few", FEW, 0);
    few = loop_look();
    start_waits(&l, &o, "many", count, FEW);
    print_waits(b, count, few, loop_look());
    row_print(b, &(struct row){"redis-many", "connections of this process", "",
                               (double)redis_connections(&s), NULL, 0,
                               VALUE_AT_MOST, 2});
    print_idle(b, &s, &l);
    print_grants(b, &o, &l, FEW + count);
    hf_close(l.session);
    redis_stop(&s);
}
