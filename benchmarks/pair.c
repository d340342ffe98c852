/* pair.c - what does a lock cost when nobody else wants it?
 *
 * Three scenarios on keys of one's own: one thread (pair), sixteen threads of
 * one process (threads), and very many different keys in turn (keys), after
 * which the process must be no bigger than before.
 *
 * The two sides take turns in short rounds inside one process, so that a
 * machine that gets slower for a while slows both. */
#include "bench.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEYS 16
#define THREADS 16
#define WARM_PAIRS 10
#define MAX_ROUNDS 40

struct pair_sample measure_pairs(const struct side *side, void *thread,
                                 int pairs)
{
    static double took[20000];
    char key[KEYS][32];
    int64_t begin = now_ns(), before = begin, after = begin;
    struct pair_sample s;

    for (int i = 0; i < KEYS; i++)
        snprintf(key[i], sizeof key[i], "/bench/pair/%d", i);
    for (int i = 0; i < pairs; i++) {
        side->lock(thread, key[i % KEYS]);
        side->unlock(thread, key[i % KEYS]);
        after = now_ns();
        took[i] = (double)(after - before) / 1e3;
        before = after;
    }
    s.per_second = pairs / ((double)(after - begin) / 1e9);
    s.p50_us = quantile(took, (size_t)pairs, 0.5);
    s.p99_us = quantile(took, (size_t)pairs, 0.99);
    return s;
}

void bench_pair(const struct bench *b)
{
    const struct side *side[2] = {&side_holdfast, &floor_wal};
    const int rounds = b->quick ? 8 : MAX_ROUNDS, pairs = 2000;
    double p50[2][MAX_ROUNDS], p99[2][MAX_ROUNDS], rate[2][MAX_ROUNDS];
    size_t n = (size_t)rounds;
    void *thread[2];

    pin_to(core_count() - 1);
    for (int k = 0; k < 2; k++) {
        thread[k] = side[k]->open_thread(side[k]->open_process(b->dir), 0);
        measure_pairs(side[k], thread[k], pairs);
    }
    for (int r = 0; r < rounds; r++)
        for (int k = 0; k < 2; k++) {
            struct pair_sample s = measure_pairs(side[k], thread[k], pairs);

            p50[k][r] = s.p50_us;
            p99[k][r] = s.p99_us;
            rate[k][r] = s.per_second;
        }
    row_print(b, &(struct row){"pair", "lock + release, p50", "us",
                               median(p50[0], n), floor_wal.name,
                               median(p50[1], n), RATIO_AT_MOST, 1.5});
    row_print(b, &(struct row){"pair", "lock + release, p99", "us",
                               median(p99[0], n), floor_wal.name,
                               median(p99[1], n), NO_GOAL, 0});
    row_print(b,
              &(struct row){"pair", "pairs a second", "/s", median(rate[0], n),
                            floor_wal.name, median(rate[1], n), NO_GOAL, 0});
}

/* ---- Sixteen threads ------------------------------------------------- */

struct crew {
    const struct side *side;
    void *process;
    pthread_barrier_t gate;
    _Atomic int64_t end_ns;
    _Atomic uint64_t pairs;
};

struct member {
    struct crew *crew;
    int number;
    pthread_t id;
};

static void *work_until(void *arg)
{
    struct member *m = arg;
    struct crew *c = m->crew;
    void *thread = c->side->open_thread(c->process, m->number);
    uint64_t pairs = 0;
    char key[32];

    snprintf(key, sizeof key, "/bench/own/%d", m->number);
    for (int i = 0; i < WARM_PAIRS; i++) {
        c->side->lock(thread, key);
        c->side->unlock(thread, key);
    }
    pthread_barrier_wait(&c->gate);
    pthread_barrier_wait(&c->gate);
    while (now_ns() < atomic_load(&c->end_ns)) {
        c->side->lock(thread, key);
        c->side->unlock(thread, key);
        pairs++;
    }
    atomic_fetch_add(&c->pairs, pairs);
    return NULL;
}

double measure_crew(const struct side *side, const char *where, int core,
                    double seconds, double *ret_pairs)
{
    _Atomic uint64_t *pairs = shared_memory(sizeof *pairs);
    pid_t pid = fork_bound();
    double all;

    if (pid == 0) {
        struct crew c = {.side = side};
        struct member m[THREADS];

        pin_to(core);
        c.process = side->open_process(where);
        pthread_barrier_init(&c.gate, NULL, THREADS + 1);
        for (int i = 0; i < THREADS; i++) {
            m[i] = (struct member){.crew = &c, .number = i};
            if (pthread_create(&m[i].id, NULL, work_until, &m[i]) != 0)
                bench_die("cannot start a thread");
        }
        pthread_barrier_wait(&c.gate);
        atomic_store(&c.end_ns, now_ns() + (int64_t)(seconds * 1e9));
        pthread_barrier_wait(&c.gate);
        for (int i = 0; i < THREADS; i++)
            pthread_join(m[i].id, NULL);
        atomic_store(pairs, atomic_load(&c.pairs));
        _exit(0);
    }
    wait_done(pid);
    all = (double)atomic_load(pairs);
    unshare_memory(pairs, sizeof *pairs);
    *ret_pairs = all + THREADS * WARM_PAIRS;
    return all / seconds;
}

void bench_threads(const struct bench *b)
{
    const int rounds = b->quick ? 1 : 5;
    const double seconds = b->quick ? 0.5 : 1;
    double rate[2][5], all;

    for (int r = 0; r < rounds; r++) {
        rate[0][r] =
            measure_crew(&side_holdfast, b->dir, ALL_CORES, seconds, &all);
        rate[1][r] = measure_crew(&floor_wal, b->dir, ALL_CORES, seconds, &all);
    }
    row_print(b, &(struct row){
                     "threads", "pairs of 16 threads on own keys", "/s",
                     median(rate[0], (size_t)rounds), "16 threads of WAL pairs",
                     median(rate[1], (size_t)rounds), RATIO_AT_LEAST, 1.0});
}

/* ---- Very many keys in turn ------------------------------------------ */

static double folder_mib(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    double sum = 0;

    while (d != NULL && (e = readdir(d)) != NULL) {
        char path[1024];
        struct stat st;

        path_in(path, sizeof path, dir, e->d_name);
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
            sum += (double)st.st_size / (1 << 20);
    }
    if (d != NULL)
        closedir(d);
    return sum;
}

static void visit_keys(void *thread, long from, long to)
{
    char key[48];

    for (long i = from; i < to; i++) {
        snprintf(key, sizeof key, "/bench/key/%ld", i);
        side_holdfast.lock(thread, key);
        side_holdfast.unlock(thread, key);
    }
}

void bench_keys(const struct bench *b)
{
    const long warm = 20000, all = b->quick ? 100000 : 1000000;
    void *thread;
    double rss, disk;
    char what[64];

    pin_to(core_count() - 1);
    thread = side_holdfast.open_thread(side_holdfast.open_process(b->dir), 0);
    visit_keys(thread, 0, warm);
    rss = (double)self_status("VmRSS:");
    disk = folder_mib(b->dir);
    visit_keys(thread, warm, warm + all);
    snprintf(what, sizeof what, "growth over %ld keys in turn", all);
    row_print(b, &(struct row){"keys", what, "KiB",
                               (double)self_status("VmRSS:") - rss, NULL, 0,
                               VALUE_AT_MOST, 1024});
    row_print(b, &(struct row){"keys", "growth of the store's files", "MiB",
                               folder_mib(b->dir) - disk, NULL, 0, NO_GOAL, 0});
}
