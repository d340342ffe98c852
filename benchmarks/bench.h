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
    bench_contended, bench_command, bench_many, bench_crash, bench_redis_pair,
    bench_redis_threads, bench_redis_handover, bench_redis_contended,
    bench_redis_waiters, bench_redis_many, bench_redlock_pair,
    bench_cluster_pair, bench_postgres_pair, bench_postgres_handover,
    bench_postgres_contended, bench_postgres_waiters, bench_mariadb_pair,
    bench_mariadb_handover, bench_mariadb_contended, bench_mariadb_waiters,
    bench_odbc_pair, bench_zookeeper_pair, bench_zookeeper_handover,
    bench_zookeeper_contended, bench_zookeeper_waiters, bench_etcd_pair,
    bench_etcd_handover, bench_etcd_contended, bench_etcd_waiters,
    bench_etcd_command;

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

/* End this scenario: what it needs is not on this machine. */
void bench_skip(const char *format, ...)
    __attribute__((format(printf, 1, 2), noreturn));
#define SKIPPED 77 /* its status */

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
#define ALL_CORES (-1)
void pin_to(int i);
int core_count(void);

/* Where a server and its clients run. */
struct placement {
    const char *name; /* "one core", "split" */
    int server, client;
};
#define PLACEMENTS 2
/* How many of them this machine has: one on a machine with one core. */
int placements(struct placement ret[PLACEMENTS]);

int free_port(void); /* of the loopback, free a moment ago */
bool is_in_path(const char *program);

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
    /* Once a process, then once a thread.  `where` is a folder, or the URL of
     * a server. */
    void *(*open_process)(const char *where);
    void *(*open_thread)(void *process, int worker);
    void (*lock)(void *thread, const char *key);
    void (*unlock)(void *thread, const char *key);
};

extern const struct side side_holdfast; /* sqlite: in a folder, or a URL */
extern const struct side floor_wal;     /* two transactions, never waits */
extern const struct side floor_flock;   /* flock(2), a file a key */
extern const struct side floor_poll;    /* floor_wal, tried each 100 ms */

/* floor_wal's acquisition for those who know what to do when it is taken. */
bool floor_wal_try(void *thread, const char *key);

/* The URL of the store that side_holdfast uses there. */
void holdfast_url(char *ret, size_t cap, const char *where);
/* End the scenario with a word if this holdfast cannot open the URL. */
void holdfast_needed(const char *url);

/* ---- Measures that are the same on every store ----------------------- */

struct pair_sample {
    double p50_us, p99_us, per_second;
};

/* `pairs` (at most 20 000) locks and releases of one thread (pair.c). */
struct pair_sample measure_pairs(const struct side *side, void *thread,
                                 int pairs);

/* Sixteen threads of a new process on keys of their own: pairs a second.
 * *ret_pairs: all that were done, those to warm up too. */
double measure_crew(const struct side *side, const char *where, int core,
                    double seconds, double *ret_pairs);

/* Two processes that take one key in turn (handover.c). */
struct turns {
    const struct side *side[2]; /* in turn, round by round */
    const char *where;
    int core[2]; /* of the two processes */
    int rounds, turns;
    int hold_us, jitter_us;
};
#define MAX_TURN_ROUNDS 10
#define MAX_TURNS 300
/* The medians of the rounds' medians, by side, in microseconds. */
void measure_turns(const struct turns *t, double ret_p50_us[2]);

/* Two processes of four threads on one key (contended.c). */
struct contest {
    double grants, handovers; /* a second */
    double fairness, longest_ms;
    long overlaps;
};
struct contest measure_contest(const struct side *side, const char *where,
                               const int core[2], double seconds);

/* Two hundred threads that wait for one key (waiters.c). */
#define WAITERS 200
#define WAITER_COUNTS 2
typedef double count_fn(void *server); /* what it has been asked so far */
struct waiting {
    double idle[WAITER_COUNTS]; /* a second, while all wait */
    double each[WAITER_COUNTS]; /* a hand-over */
    double ms;                  /* all of them */
};
/* `sessions` for all threads together: 1, or one each. */
struct waiting measure_waiters(const char *url, int sessions, double idle_s,
                               count_fn *const count[WAITER_COUNTS],
                               void *server);

/* From the start of a command to its end, which must be 0 (command.c). */
double run_ms(const char *const argv[]);

#endif
