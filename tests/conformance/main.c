/* main.c - conformance [TARGET [CASE...]]: one target, all clauses.
 *
 * Without a target it is `mem`; an unknown one is answered with their names.
 * Cases of all clauses are put into one table, so that one line at the end
 * counts them all. */
#include "suite.h"

const target *the_target = &targets[0];

static const test_case *const clauses[] = {
    join_tests,  order_tests,   leave_tests, renew_tests, expiry_tests,
    wait_tests,  publish_tests, fixed_tests, evict_tests, list_tests,
    error_tests, name_tests,    kind_tests,  storm_tests, each_tests};

enum { CASES_MAX = 256 };
static test_case cases[CASES_MAX];

static size_t gather_cases(void)
{
    size_t count = 0;

    for (size_t i = 0; i < sizeof clauses / sizeof *clauses; i++) {
        for (const test_case *test = clauses[i]; test->name; test++) {
            if (count == CASES_MAX) {
                fprintf(stderr, "conformance: more than %d cases\n", CASES_MAX);
                exit(2);
            }
            cases[count++] = *test;
        }
    }
    return count;
}

static const target *find_target(const char *name)
{
    for (size_t i = 0; i < target_count; i++) {
        if (strcmp(targets[i].name, name) == 0)
            return &targets[i];
    }
    fprintf(stderr, "conformance: no target '%s'; there are:", name);
    for (size_t i = 0; i < target_count; i++)
        fprintf(stderr, " %s", targets[i].name);
    fputc('\n', stderr);
    exit(2);
}

int main(int argc, char **argv)
{
    char *none[] = {argv[0], NULL};
    size_t count = gather_cases();

    if (argc > 1)
        the_target = find_target(argv[1]);
    if (!known_needs(cases, count))
        return 2;
    return run_tests(argc > 2 ? argc - 1 : 1, argc > 2 ? argv + 1 : none,
                     the_target->name, cases, count);
}
