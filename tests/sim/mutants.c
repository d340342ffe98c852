/* mutants.c - are the planted bugs found?
 *
 * Each bug is switched on and histories run until the checker convicts it.
 * A bug that is never convicted is a hole in the checker or in the storm, and
 * fails the test.  In a build without HF_MUTANTS there is nothing to run. */
#include "sim/mutants.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/mutant.h"
#include "sim/sim.h"

#ifdef HF_MUTANTS

enum { SEEDS_MAX = 1000000 };

int hf__mutant;

typedef struct mutant {
    int id;
    const char *name, *text;
} mutant;

#define CORE_ROW(name, text) {HF_MUTANT_##name, #name, text},
#define STORE_ROW(name, text) {SIM_MUTANT_##name, "STORE_" #name, text},
static const mutant mutants[] = {HF_MUTANT_MAP(CORE_ROW)
                                     SIM_MUTANT_MAP(STORE_ROW)};

static double seconds_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static bool convict_mutant(const mutant *m, double limit)
{
    double start = seconds_now();
    sim_verdict verdict;
    uint64_t seed;

    hf__mutant = m->id;
    for (seed = 1; seed <= SEEDS_MAX; seed++) {
        uint64_t flavour = seed % 4 ? 0 : SIM_SEED_EACH;

        if (!sim_try(seed | flavour, SIM_FAULTS_ALL, &verdict)) {
            printf("ok %s: I%d, seed %llu, %.1f s: %s\n", m->name,
                   verdict.invariant, (unsigned long long)(seed | flavour),
                   seconds_now() - start, m->text);
            return true;
        }
        if (seconds_now() - start > limit)
            break;
    }
    printf("FAIL %s: not convicted by %llu seeds in %.1f s: %s\n", m->name,
           (unsigned long long)seed, seconds_now() - start, m->text);
    return false;
}

/* In a process of its own: a planted bug may crash or hang the core, and that
 * is a conviction, too. */
static bool try_mutant(const mutant *m, double limit)
{
    pid_t child;
    int status;

    fflush(stdout);
    child = fork();
    if (child < 0) {
        printf("FAIL %s: no process for it: %s\n", m->name, strerror(errno));
        return false;
    }
    if (child == 0) {
        bool convicted;

        sim_watch_for_crashes();
        convicted = convict_mutant(m, limit);
        fflush(stdout);
        _exit(convicted ? 0 : 1);
    }
    if (waitpid(child, &status, 0) != child)
        return false;
    if (WIFEXITED(status) && WEXITSTATUS(status) < 2)
        return WEXITSTATUS(status) == 0;
    printf("ok %s: I10: %s\n", m->name, m->text);
    return true;
}

int sim_run_mutants(const char *only, double seconds)
{
    int passed = 0, failed = 0;

    for (size_t i = 0; i < sizeof mutants / sizeof *mutants; i++) {
        if (only && strcmp(only, mutants[i].name) != 0)
            continue;
        if (try_mutant(&mutants[i], seconds > 0 ? seconds : 60))
            passed++;
        else
            failed++;
    }
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed > 0;
}

#else

int sim_run_mutants(const char *only, double seconds)
{
    (void)only;
    (void)seconds;
    fprintf(stderr, "this build has no planted bugs: run sim_mutants\n");
    return 2;
}

#endif
