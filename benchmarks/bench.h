/* bench.h - what every scenario of the benchmark shares.
 *
 * A scenario is one function that runs in a process of its own, measures two
 * sides in turn on the same cores, and reports rows.  The parent of all
 * scenarios never opens a store, so that a fork never carries one over.
 *
 * A side is one way to lock: holdfast, or a floor written by hand.  Whatever
 * goes wrong in a side ends the benchmark: a number measured over failing
 * calls would be worth nothing. */
#ifndef BENCH_H
#define BENCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- What a scenario is given ---------------------------------------- */

struct bench {
    bool quick;          /* a fifth of the work, for a first look */
    bool json;           /* rows as JSON lines */
    const char *dir;     /* an empty folder of this scenario's own */
    const char *command; /* the path of the holdfast command */
};

typedef void scenario_fn(const struct bench *b);
scenario_fn bench_pair, bench_threads, bench_keys, bench_handover,
    bench_contended, bench_command, bench_many, bench_crash;

/* ---- Rows ------------------------------------------------------------ */

enum goal {
    NO_GOAL,
    RATIO_AT_MOST, /* holdfast divided by floor */
    RATIO_AT_LEAST,
    VALUE_AT_MOST, /* holdfast's number itself */
    VALUE_AT_LEAST
};

struct row {
    const char *scenario;
    const char *what; /* what was counted, in words */
    const char *unit;
    double ours;
    const char *floor_name; /* NULL: this row has no floor */
    double floor;
    enum goal goal;
    double bound;
};

void row_heading(bool json);
void row_print(const struct bench *b, const struct row *row);

/* Did a row of this process miss its goal? */
bool row_missed(void);

/* ---- Tools (tools.c) ------------------------------------------------- */

void bench_die(const char *format, ...)
    __attribute__((format(printf, 1, 2), noreturn));

int64_t now_ns(void); /* CLOCK_MONOTONIC: the same in every process */
void sleep_us(int64_t us);

/* The q-th part of n numbers; sorts them. */
double quantile(double *v, size_t n, double q);
static inline double median(double *v, size_t n)
{
    return quantile(v, n, 0.5);
}

/* Bind the calling thread and what it starts later to the i-th core that this
 * process may use (counted round), or back to all of them. */
void pin_to(int i);
void pin_to_all(void);
int core_count(void);

/* fork() whose child dies with its parent; 0 in the child. */
pid_t fork_bound(void);
void wait_done(pid_t pid); /* dies unless it ended with 0 */
void end_child(pid_t pid); /* SIGKILL, and wait for it */

/* Zeroed memory shared with children forked later. */
void *shared_memory(size_t size);
void unshare_memory(void *p, size_t size);

/* A line of /proc/self/status, such as "VmRSS:" (in kB) or "Threads:". */
long self_status(const char *field);

void path_in(char *ret, size_t cap, const char *dir, const char *name);
void remove_folder(const char *dir);

/* ---- Sides ----------------------------------------------------------- */

struct side {
    const char *name;
    /* Once a process, then once a thread. */
    void *(*open_process)(const char *dir);
    void *(*open_thread)(void *process, int worker);
    void (*lock)(void *thread, const char *key);
    void (*unlock)(void *thread, const char *key);
};

extern const struct side side_holdfast; /* sqlite: in `dir` */
extern const struct side floor_wal;     /* two transactions, never waits */
extern const struct side floor_flock;   /* flock(2), a file a key */
extern const struct side floor_poll;    /* floor_wal, tried each 100 ms */

/* floor_wal's acquisition for those who know what to do when it is taken. */
bool floor_wal_try(void *thread, const char *key);

/* The URL of the store that side_holdfast uses in dir. */
void holdfast_url(char *ret, size_t cap, const char *dir);

#endif
