/* main.c - the benchmark's front door: which scenarios, where, in what shape.
 *
 * Each scenario runs in a process and a folder of its own, one after the
 * other, under a time limit; what it reports is printed as it comes.  The
 * status is 0 when every goal was met, 1 when one was missed, 2 when
 * something could not be measured.  A scenario that needs what this machine
 * has not is skipped with a word; asked for by name, that is a 2 as well.
 *
 * The numbers of a busy machine are not worth reading: the share of the
 * machine that others used meanwhile is printed at the end. */
#include "bench.h"

#include <errno.h>
#include <getopt.h>
#include <holdfast/holdfast.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_SECONDS 300

static const struct scenario {
    const char *name;
    scenario_fn *run;
    const char *pinning;
    const char *help;
} scenarios[] = {
    {"pair", bench_pair, "all on one core", "an uncontended lock and release"},
    {"threads", bench_threads, "all cores, no pinning",
     "16 threads of one process, each on a key of its own"},
    {"handover", bench_handover, "both on one core, then a core each",
     "from the release in one process to the lock in another"},
    {"contended", bench_contended, "a core for each process",
     "2 processes x 4 threads on one key"},
    {"command", bench_command, "all on one core", "holdfast run KEY -- true"},
    {"crash", bench_crash, "all cores, no pinning",
     "kill -9 of a holder, until the next one has the lock"},
    {"many", bench_many, "all cores, no pinning",
     "10 000 holds and 10 000 waits in one process"},
    {"keys", bench_keys, "all on one core",
     "a million different keys in turn: memory stays flat"},
    {"redis-pair", bench_redis_pair,
     "server and client on one core, then a core each",
     "Redis: an uncontended lock and release"},
    {"redis-threads", bench_redis_threads,
     "server and client on one core, then a core each",
     "Redis: 16 threads of one process, each on a key of its own"},
    {"redis-handover", bench_redis_handover,
     "server and clients on one core, then the server on another",
     "Redis: from the release in one process to the lock in another"},
    {"redis-contended", bench_redis_contended,
     "server and clients on one core, then the server on another",
     "Redis: 2 processes x 4 threads on one key"},
    {"redis-waiters", bench_redis_waiters, "the server on a core of its own",
     "Redis: what 200 who wait for one key ask of the server"},
    {"redis-many", bench_redis_many, "the server on a core of its own",
     "Redis: 10 000 waits in one process"},
    {"redlock-pair", bench_redlock_pair, "all cores, no pinning",
     "Redlock: an uncontended lock and release on five servers"},
    {"cluster-pair", bench_cluster_pair,
     "servers and client on one core, then a core for each side",
     "Redis Cluster: an uncontended lock and release"},
    {"postgres-pair", bench_postgres_pair,
     "server and client on one core, then a core each",
     "PostgreSQL: an uncontended lock and release"},
    {"postgres-handover", bench_postgres_handover,
     "server and clients on one core, then the server on another",
     "PostgreSQL: from the release in one process to the lock in another"},
    {"postgres-contended", bench_postgres_contended,
     "server and clients on one core, then the server on another",
     "PostgreSQL: 2 processes x 4 threads on one key"},
    {"postgres-waiters", bench_postgres_waiters,
     "the server on a core of its own",
     "PostgreSQL: what 200 who wait for one key ask of the server"},
    {"mariadb-pair", bench_mariadb_pair,
     "server and client on one core, then a core each",
     "MariaDB: an uncontended lock and release"},
    {"mariadb-handover", bench_mariadb_handover,
     "server and clients on one core, then the server on another",
     "MariaDB: from the release in one process to the lock in another"},
    {"mariadb-contended", bench_mariadb_contended,
     "server and clients on one core, then the server on another",
     "MariaDB: 2 processes x 4 threads on one key"},
    {"mariadb-waiters", bench_mariadb_waiters,
     "the server on a core of its own",
     "MariaDB: what 200 who wait for one key ask of the server"},
    {"odbc-pair", bench_odbc_pair, "all on one core",
     "ODBC: an uncontended lock and release, three drivers"},
    {"zookeeper-pair", bench_zookeeper_pair,
     "server and client on one core, then a core each",
     "ZooKeeper: an uncontended lock and release"},
    {"zookeeper-handover", bench_zookeeper_handover,
     "server and clients on one core, then the server on another",
     "ZooKeeper: from the release in one process to the lock in another"},
    {"zookeeper-contended", bench_zookeeper_contended,
     "server and clients on one core, then the server on another",
     "ZooKeeper: 2 processes x 4 threads on one key"},
    {"zookeeper-waiters", bench_zookeeper_waiters,
     "the server on a core of its own",
     "ZooKeeper: what 200 who wait for one key ask of the server"},
    {"etcd-pair", bench_etcd_pair,
     "server and client on one core, then a core each",
     "etcd: an uncontended lock and release"},
    {"etcd-handover", bench_etcd_handover,
     "server and clients on one core, then the server on another",
     "etcd: from the release in one process to the lock in another"},
    {"etcd-contended", bench_etcd_contended,
     "server and clients on one core, then the server on another",
     "etcd: 2 processes x 4 threads on one key"},
    {"etcd-waiters", bench_etcd_waiters, "the server on a core of its own",
     "etcd: what 200 who wait for one key ask of the server"},
    {"etcd-command", bench_etcd_command,
     "server and command on one core, then a core each",
     "etcd: holdfast run KEY -- true"},
};
#define SCENARIOS (sizeof scenarios / sizeof *scenarios)

static void print_help(void)
{
    puts("usage: bench [--quick] [--json] [SCENARIO...]\n\n"
         "Measures holdfast on SQLite, and on throwaway servers of Redis,\n"
         "PostgreSQL, MariaDB, ZooKeeper and etcd, against floors written by\n"
         "hand and locks of others, side by side in one run, and prints one "
         "table of medians and ratios.\n\n"
         "  --quick  a fifth of the work, for a first look\n"
         "  --json   one JSON object a line\n\n"
         "Scenarios, and where their processes run (both sides alike):");
    for (size_t i = 0; i < SCENARIOS; i++)
        printf("  %-18s %s\n  %-18s   (%s)\n", scenarios[i].name,
               scenarios[i].help, "", scenarios[i].pinning);
    puts("\nStatus: 0 every goal met, 1 a goal missed, 2 could not measure.");
}

/* ---- How much others disturbed --------------------------------------- */

struct load {
    double busy_s, all_s; /* the machine's cores together */
    double own_s;         /* ours and our children's, those that ended */
};

static double rusage_s(int who)
{
    struct rusage u;

    getrusage(who, &u);
    return (double)u.ru_utime.tv_sec + (double)u.ru_utime.tv_usec / 1e6 +
           (double)u.ru_stime.tv_sec + (double)u.ru_stime.tv_usec / 1e6;
}

static struct load read_load(void)
{
    unsigned long long t[8] = {0};
    struct load l = {.own_s =
                         rusage_s(RUSAGE_SELF) + rusage_s(RUSAGE_CHILDREN)};
    FILE *f = fopen("/proc/stat", "re");
    double tick = (double)sysconf(_SC_CLK_TCK), sum = 0;

    if (f == NULL ||
        fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1],
               &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]) != 8)
        bench_die("cannot read /proc/stat");
    fclose(f);
    for (int i = 0; i < 8; i++)
        sum += (double)t[i];
    l.all_s = sum / tick;
    l.busy_s = (sum - (double)t[3] - (double)t[4]) / tick;
    return l;
}

static void print_load(const struct bench *b, struct load from)
{
    struct load to = read_load();
    double all = to.all_s - from.all_s;
    double others = (to.busy_s - from.busy_s) - (to.own_s - from.own_s);
    double percent = all > 0 && others > 0 ? 100 * others / all : 0;

    if (b->json)
        printf("{\"others_cpu_percent\":%.1f}\n", percent);
    else
        printf("\nOther processes used %.0f %% of the machine meanwhile%s.\n",
               percent, percent > 10 ? ": run it again alone" : "");
}

/* ---- Running --------------------------------------------------------- */

/* The signal that ends it all early; this process stays to tidy up. */
static volatile sig_atomic_t ended_by;
static volatile pid_t running;

static void end_early(int sig)
{
    ended_by = sig;
    if (running > 0)
        kill(running, SIGKILL);
}

static int run_scenario(const struct bench *b, const struct scenario *s)
{
    const char *tmp = getenv("TMPDIR");
    struct bench own = *b;
    char dir[400];
    int status = 0;
    pid_t pid;

    path_in(dir, sizeof dir, tmp != NULL && *tmp ? tmp : "/tmp",
            "holdfast-bench-XXXXXX");
    if (mkdtemp(dir) == NULL)
        bench_die("cannot make a folder like '%s': %s", dir, strerror(errno));
    own.dir = dir;
    pid = fork_bound();
    if (pid == 0) {
        signal(SIGINT, SIG_DFL);
        signal(SIGTERM, SIG_DFL);
        alarm(LIMIT_SECONDS);
        s->run(&own);
        fflush(NULL);
        _exit(row_missed() ? 1 : 0);
    }
    running = pid;
    if (ended_by)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    running = 0;
    /* Its children die with it, but not in the same instant. */
    sleep_us(20 * 1000);
    remove_folder(dir);
    if (ended_by)
        exit(128 + ended_by);
    if (WIFEXITED(status) && WEXITSTATUS(status) <= 1)
        return WEXITSTATUS(status);
    if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
        return SKIPPED;
    fprintf(stderr, "bench: scenario '%s' failed%s\n", s->name,
            WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM
                ? ": it did not end in time"
                : "");
    return 2;
}

static bool is_wanted(const char *name, char **wanted)
{
    if (*wanted == NULL)
        return true;
    while (*wanted != NULL)
        if (strcmp(*wanted++, name) == 0)
            return true;
    return false;
}

static void check_names(char **wanted)
{
    for (; *wanted != NULL; wanted++) {
        size_t i = 0;

        while (i < SCENARIOS && strcmp(scenarios[i].name, *wanted) != 0)
            i++;
        if (i == SCENARIOS)
            bench_die("no scenario '%s'; --help lists them", *wanted);
    }
}

static void print_machine(const struct bench *b, char **wanted)
{
    struct utsname u;

    uname(&u);
    if (b->json) {
        printf("{\"holdfast\":\"%s\",\"sqlite\":\"%s\",\"kernel\":\"%s\","
               "\"cores\":%d,\"quick\":%s}\n",
               hf_version(), sqlite3_libversion(), u.release, core_count(),
               b->quick ? "true" : "false");
        return;
    }
    printf("holdfast %s, SQLite %s, Linux %s, %d cores%s\n", hf_version(),
           sqlite3_libversion(), u.release, core_count(),
           b->quick ? "; --quick: few rounds, expect noise" : "");
    puts("Both sides run in turn in the same places:");
    for (size_t i = 0; i < SCENARIOS; i++)
        if (is_wanted(scenarios[i].name, wanted))
            printf("  %-18s %s\n", scenarios[i].name, scenarios[i].pinning);
    puts("");
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"quick", no_argument, NULL, 'q'},
        {"json", no_argument, NULL, 'j'},
        {"command", required_argument, NULL, 'c'},
        {"help", no_argument, NULL, 'h'},
        {0}};
    struct bench b = {.command = "holdfast"};
    struct load before;
    int worst = 0, c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
        switch (c) {
        case 'q':
            b.quick = true;
            break;
        case 'j':
            b.json = true;
            break;
        case 'c':
            b.command = optarg;
            break;
        case 'h':
            print_help();
            return 0;
        default:
            return 2;
        }
    check_names(argv + optind);
    /* The drivers of this build, not of what is installed. */
    setenv("HOLDFAST_DRIVER_PATH", BENCH_DRIVERS, 0);
    signal(SIGINT, end_early);
    signal(SIGTERM, end_early);
    before = read_load();
    print_machine(&b, argv + optind);
    row_heading(b.json);
    for (size_t i = 0; i < SCENARIOS; i++)
        if (is_wanted(scenarios[i].name, argv + optind)) {
            int rc = run_scenario(&b, &scenarios[i]);

            /* Who asked for it by name wanted a number. */
            if (rc == SKIPPED)
                rc = argv[optind] != NULL ? 2 : 0;
            worst = rc > worst ? rc : worst;
        }
    print_load(&b, before);
    return worst;
}
