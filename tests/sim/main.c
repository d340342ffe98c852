/* main.c - the command: many seeds, one seed, or the planted bugs.
 *
 *     sim --histories N [--from SEED] [--seconds S]
 *     sim --seeds FILE          the regression seeds
 *     sim --seed SEED [--trace] [--faults HEX]
 *     sim_mutants --mutants     (a build with the planted bugs)
 *
 * A history that breaks an invariant is run again without one class of faults
 * after the other, as long as it still fails; then the calls concerned are
 * printed, and how to replay it. */
#include "sim/sim.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "sim/checker.h"
#include "sim/mutants.h"

enum { REPLAY_EVERY = 500 };

static sim_world world;
static volatile sig_atomic_t ticks;
static volatile uint64_t running_seed;

typedef struct arguments {
    uint64_t histories, from, seed;
    double seconds;
    uint32_t faults;
    const char *seeds_file, *only;
    bool one, trace, forget, mutants;
} arguments;

static double real_seconds(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* ---- when the core itself breaks (I10) ---- */

static void say_seed(const char *what)
{
    char line[160];
    int len = snprintf(line, sizeof line,
                       "I10 broken: %s; replay: sim --seed %llu --trace\n",
                       what, (unsigned long long)running_seed);

    if (write(STDOUT_FILENO, line, (size_t)len) < 0)
        _exit(3);
}

static void on_crash(int number)
{
    say_seed(number == SIGABRT ? "an assertion failed" : "the core crashed");
    signal(number, SIG_DFL);
    raise(number);
}

static void on_tick(int number)
{
    static uint64_t last_seed;

    (void)number;
    if (last_seed != running_seed)
        ticks = 0;
    last_seed = running_seed;
    if (++ticks > 4) {
        say_seed("a history hangs");
        _exit(2);
    }
}

void sim_watch_for_crashes(void)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
    struct itimerval every = {{5, 0}, {5, 0}};

#ifndef __SANITIZE_ADDRESS__
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        signal(numbers[i], on_crash);
#else
    signal(numbers[2], on_crash);
#endif
    signal(SIGALRM, on_tick);
    setitimer(ITIMER_REAL, &every, NULL);
}

/* ---- running ---- */

bool sim_try(uint64_t seed, uint32_t faults, sim_verdict *verdict)
{
    running_seed = seed;
    sim_world_run(&world, seed, faults);
    return sim_check(&world.history, verdict);
}

/* The fewest classes of faults with which it still fails. */
static uint32_t shrink(uint64_t seed, uint32_t faults, int invariant)
{
    sim_verdict verdict;

    for (int i = 0; i < SIM_FAULT_COUNT; i++) {
        uint32_t fewer = faults & ~(UINT32_C(1) << i);

        if (fewer != faults && !sim_try(seed, fewer, &verdict) &&
            verdict.invariant == invariant)
            faults = fewer;
    }
    return faults;
}

/* Does the seed give the very same history again?  A seed that does not is no
 * use to anybody. */
static bool replays(uint64_t seed, uint32_t faults)
{
    size_t count = world.history.count, size = count * sizeof(sim_event);
    sim_event *first = malloc(size + 1);
    sim_verdict verdict;
    bool same;

    if (!first)
        return true;
    memcpy(first, world.history.events, size);
    sim_try(seed, faults, &verdict);
    same = count == world.history.count &&
           memcmp(first, world.history.events, size) == 0;
    free(first);
    if (!same)
        printf("FAIL seed %llu: another history the second time\n",
               (unsigned long long)seed);
    return same;
}

#define FAULT_NAME(name, text) #name,
static const char *const fault_names[] = {SIM_FAULT_MAP(FAULT_NAME)};

static void report(uint64_t seed, uint32_t faults, const sim_verdict *first)
{
    uint32_t fewest = shrink(seed, faults, first->invariant);
    uint32_t drawn;
    sim_verdict verdict;

    if (sim_try(seed, fewest, &verdict))
        return;
    drawn = 0;
    printf("FAIL seed %llu: ", (unsigned long long)seed);
    sim_print_verdict(stdout, &world.history, &verdict);
    printf("  %s store, pushes %s the grant; faults:",
           world.each    ? "one-by-one"
           : world.marks ? "marking"
                         : "judged",
           world.fresh && world.marks ? "carry" : "without");
    for (int i = 0; i < SIM_FAULT_COUNT; i++) {
        if (fewest >> i & 1) {
            printf(" %s", fault_names[i]);
            drawn++;
        }
    }
    printf("%s\n  replay: sim --seed %llu --faults %x --trace\n",
           drawn ? "" : " none", (unsigned long long)seed, fewest);
    fflush(stdout);
}

static int run_many(const arguments *args)
{
    double start = real_seconds(), used;
    uint64_t done = 0, failed = 0, passed;
    unsigned long steps = 0;
    sim_verdict verdict;

    for (; done < args->histories && failed < 3; done++) {
        if (args->seconds > 0 && done % 64 == 0 &&
            real_seconds() - start > args->seconds)
            break;
        if (!sim_try(args->from + done, args->faults, &verdict)) {
            failed++;
            report(args->from + done, args->faults, &verdict);
        } else if (done % REPLAY_EVERY == 0 &&
                   !replays(args->from + done, args->faults)) {
            failed++;
        }
        steps += world.steps_done;
    }
    used = real_seconds() - start;
    printf("%llu histories, seeds %llu to %llu, %.0f a second, %.0f steps "
           "each\n",
           (unsigned long long)done, (unsigned long long)args->from,
           (unsigned long long)(args->from + done), (double)done / used,
           (double)steps / (double)(done ? done : 1));
    passed = done / 10000;
    if (passed == 0 && failed == 0)
        passed = 1;
    printf("%llu passed, %llu failed, 0 skipped\n", (unsigned long long)passed,
           (unsigned long long)failed);
    return failed ? 1 : 0;
}

static int run_one(const arguments *args)
{
    sim_verdict verdict;
    bool good;

    world.trace = args->trace;
    good = sim_try(args->seed, args->faults, &verdict);
    world.trace = false;
    for (size_t i = 0; args->trace && i < world.history.count; i++)
        sim_print_event(stdout, &world.history.events[i]);
    if (good)
        printf("ok seed %llu: %lu steps\n", (unsigned long long)args->seed,
               world.steps_done);
    else
        report(args->seed, args->faults, &verdict);
    printf("%d passed, %d failed, 0 skipped\n", good, !good);
    return !good;
}

/* Each line: a seed, and what it once found. */
static int run_seeds(const arguments *args)
{
    FILE *file = fopen(args->seeds_file, "re");
    char line[200];
    int passed = 0, failed = 0;
    sim_verdict verdict;

    if (!file) {
        printf("FAIL seeds: '%s' cannot be read: %s\n"
               "0 passed, 1 failed, 0 skipped\n",
               args->seeds_file, strerror(errno));
        return 1;
    }
    while (fgets(line, sizeof line, file)) {
        char *end;
        uint64_t seed = strtoull(line, &end, 10);

        if (line[0] == '#' || end == line)
            continue;
        end[strcspn(end, "\n")] = '\0';
        if (sim_try(seed, args->faults, &verdict)) {
            printf("ok seed %llu:%s\n", (unsigned long long)seed, end);
            passed++;
        } else {
            report(seed, args->faults, &verdict);
            failed++;
        }
    }
    fclose(file);
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed > 0;
}

static int usage(void)
{
    fprintf(stderr, "usage: sim --histories N [--from SEED] [--seconds S]\n"
                    "       sim --seed SEED [--trace] [--faults HEX]\n"
                    "       sim --seeds FILE\n"
                    "       sim_mutants --mutants [--only NAME] [--seconds S]\n"
                    "       --forget: the store forgets; must be convicted\n");
    return 2;
}

static bool read_arguments(arguments *args, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;

        if (strcmp(word, "--trace") == 0) {
            args->trace = true;
        } else if (strcmp(word, "--forget") == 0) {
            args->forget = true;
        } else if (strcmp(word, "--mutants") == 0) {
            args->mutants = true;
        } else if (!value) {
            return false;
        } else {
            i++;
            if (strcmp(word, "--histories") == 0)
                args->histories = strtoull(value, NULL, 10);
            else if (strcmp(word, "--from") == 0)
                args->from = strtoull(value, NULL, 10);
            else if (strcmp(word, "--seconds") == 0)
                args->seconds = strtod(value, NULL);
            else if (strcmp(word, "--faults") == 0)
                args->faults = (uint32_t)strtoul(value, NULL, 16);
            else if (strcmp(word, "--seeds") == 0)
                args->seeds_file = value;
            else if (strcmp(word, "--only") == 0)
                args->only = value;
            else if (strcmp(word, "--seed") == 0)
                args->seed = strtoull(value, NULL, 10), args->one = true;
            else
                return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    arguments args = {.from = 1, .faults = SIM_FAULTS_ALL};
    int status;

    if (!read_arguments(&args, argc, argv))
        return usage();
    sim_driver_install(&world);
    if (!args.mutants) /* each of them watches for itself */
        sim_watch_for_crashes();
    world.forget = args.forget;
    if (args.mutants)
        status = sim_run_mutants(args.only, args.seconds);
    else if (args.one)
        status = run_one(&args);
    else if (args.seeds_file)
        status = run_seeds(&args);
    else if (args.histories)
        status = run_many(&args);
    else
        status = usage();
    sim_world_free(&world);
    return status;
}
