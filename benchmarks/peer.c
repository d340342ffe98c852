/* peer.c - starts processes that lock on command, and measures them.
 *
 * Knows nothing of what they lock with.  A peer dies with the scenario; one
 * that says something else than was asked for ends the benchmark. */
#include "peer.h"
#include "judge.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEY "handover"
#define THREADS 4
#define MAX_LOG 2000000

struct peer {
    const char *name;
    pid_t pid;
    FILE *to, *from;
};

/* ---- Starting -------------------------------------------------------- */

static void serve_side(const struct side *side, const char *where)
{
    void *thread = side->open_thread(side->open_process(where), 0);
    char line[64];

    printf("ready 0\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        bool take = strcmp(line, "take\n") == 0;
        int64_t at = now_ns();

        if (take) {
            side->lock(thread, KEY);
            at = now_ns();
        } else {
            side->unlock(thread, KEY);
        }
        printf("%s %lld\n", take ? "held" : "given", (long long)at);
        fflush(stdout);
    }
}

/* A child with both of its ends; true in the child. */
static bool split_off(struct peer *p, int core)
{
    int down[2], up[2];

    if (pipe2(down, O_CLOEXEC) != 0 || pipe2(up, O_CLOEXEC) != 0)
        bench_die("no pipe: %s", strerror(errno));
    p->pid = fork_bound();
    if (p->pid == 0) {
        pin_to(core);
        if (dup2(down[0], 0) < 0 || dup2(up[1], 1) < 0)
            bench_die("no pipe: %s", strerror(errno));
        close(down[1]);
        close(up[0]);
        return true;
    }
    close(down[0]);
    close(up[1]);
    p->to = fdopen(down[1], "w");
    p->from = fdopen(up[0], "r");
    if (p->to == NULL || p->from == NULL)
        bench_die("out of memory");
    return false;
}

static struct peer *new_peer(const char *name)
{
    struct peer *p = calloc(1, sizeof *p);

    if (p == NULL)
        bench_die("out of memory");
    p->name = name;
    return p;
}

struct peer *peer_program(const char *const argv[], int core)
{
    struct peer *p = new_peer(argv[0]);

    if (split_off(p, core)) {
        execvp(argv[0], (char *const *)argv);
        bench_die("cannot run '%s': %s", argv[0], strerror(errno));
    }
    peer_hear(p, "ready");
    return p;
}

struct peer *peer_side(const struct side *side, const char *where, int core)
{
    struct peer *p = new_peer(side->name);

    if (split_off(p, core)) {
        serve_side(side, where);
        _exit(0);
    }
    peer_hear(p, "ready");
    return p;
}

void peer_end(struct peer *p)
{
    end_child(p->pid);
    fclose(p->to);
    fclose(p->from);
    free(p);
}

/* ---- Talking --------------------------------------------------------- */

int64_t peer_hear(struct peer *p, const char *word)
{
    char line[100];
    size_t len = strlen(word);

    if (fgets(line, sizeof line, p->from) == NULL)
        bench_die("%s ended before it said '%s'", p->name, word);
    if (strncmp(line, word, len) != 0 || line[len] != ' ')
        bench_die("%s said '%.*s' instead of '%s'", p->name,
                  (int)strcspn(line, "\n"), line, word);
    return strtoll(line + len, NULL, 10);
}

void peer_tell(struct peer *p, const char *line)
{
    if (fprintf(p->to, "%s\n", line) < 0 || fflush(p->to) != 0)
        bench_die("%s does not listen", p->name);
}

/* ---- The hand-over --------------------------------------------------- */

double peer_turns_us(struct peer *const p[2], int turns, int hold_us,
                     int jitter_us)
{
    static double took[MAX_TURNS];
    unsigned seed = 1;

    if (turns > MAX_TURNS)
        bench_die("no room for %d turns", turns);
    peer_tell(p[0], "take");
    peer_hear(p[0], "held");
    for (int i = 0; i < turns; i++) {
        struct peer *holder = p[i % 2], *next = p[1 - i % 2];
        int64_t got, gave;

        peer_tell(next, "take");
        sleep_us(hold_us + rand_r(&seed) % jitter_us);
        peer_tell(holder, "give");
        /* Nobody but the two is awake until both are done. */
        got = peer_hear(next, "held");
        gave = peer_hear(holder, "given");
        took[i] = (double)(got - gave) / 1e3;
    }
    peer_tell(p[turns % 2], "give");
    peer_hear(p[turns % 2], "given");
    return median(took, (size_t)turns);
}

/* ---- All on one key -------------------------------------------------- */

static size_t read_log(const char *path, int first, struct grant *ret,
                       size_t room)
{
    FILE *f = fopen(path, "re");
    long long asked, got, gave;
    size_t n = 0;
    int worker;

    if (f == NULL)
        bench_die("cannot read '%s': %s", path, strerror(errno));
    while (fscanf(f, "%d %lld %lld %lld", &worker, &asked, &got, &gave) == 4) {
        if (n == room || worker < 0 || worker >= THREADS)
            bench_die("'%s' is not a log of four threads", path);
        ret[n++] = (struct grant){
            .worker = first + worker, .asked = asked, .got = got, .gave = gave};
    }
    fclose(f);
    return n;
}

struct contest peer_contest(struct peer *const p[2], const char *dir,
                            double seconds)
{
    struct grant *log = malloc(MAX_LOG * sizeof *log);
    int64_t end = now_ns() + (int64_t)(seconds * 1e9);
    char path[2][500], line[600];
    struct verdict v;
    size_t n = 0;

    if (log == NULL)
        bench_die("out of memory");
    for (int i = 0; i < 2; i++) {
        path_in(path[i], sizeof path[i], dir, i == 0 ? "log-0" : "log-1");
        snprintf(line, sizeof line, "run %lld %s", (long long)end, path[i]);
        peer_tell(p[i], line);
    }
    for (int i = 0; i < 2; i++) {
        peer_hear(p[i], "done");
        n += read_log(path[i], THREADS * i, log + n, MAX_LOG - n);
    }
    v = judge_grants(log, n, 2 * THREADS);
    free(log);
    return (struct contest){.grants = (double)n / seconds,
                            .handovers = (double)v.handovers / seconds,
                            .fairness = v.fairness,
                            .longest_ms = v.longest_ms,
                            .overlaps = v.overlaps};
}
