/* mutants.c - are the planted bugs found?
 *
 * Each bug is switched on and histories run until the checker convicts it.
 * A bug that is never convicted is a hole in the checker or in the storm, and
 * fails the test.  In a build without HF_MUTANTS there is nothing to run. */
#include "sim/mutants.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

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
        if (!sim_try(seed, SIM_FAULTS_ALL, &verdict)) {
            printf("ok %s: I%d, seed %llu, %.1f s: %s\n", m->name,
                   verdict.invariant, (unsigned long long)seed,
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

int sim_run_mutants(const char *only, double seconds)
{
    int passed = 0, failed = 0;

    for (size_t i = 0; i < sizeof mutants / sizeof *mutants; i++) {
        if (only && strcmp(only, mutants[i].name) != 0)
            continue;
        if (convict_mutant(&mutants[i], seconds > 0 ? seconds : 60))
            passed++;
        else
            failed++;
        fflush(stdout);
    }
    hf__mutant = 0;
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
