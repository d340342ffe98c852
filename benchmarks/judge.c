/* judge.c - who held when, worked out from what the workers wrote down.
 *
 * Pure: knows nothing of locks, clocks or processes, so that judge_test.c can
 * show that a lock which does not exclude is caught. */
#include "judge.h"

#include <stdlib.h>

static int compare_grants(const void *a, const void *b)
{
    int64_t x = ((const struct grant *)a)->got;
    int64_t y = ((const struct grant *)b)->got;

    return (x > y) - (x < y);
}

static double count_fairness(const struct grant *log, size_t count,
                             size_t workers)
{
    size_t of[JUDGE_WORKERS_MAX] = {0}, least = SIZE_MAX, most = 0;

    for (size_t i = 0; i < count; i++)
        of[log[i].worker]++;
    for (size_t w = 0; w < workers; w++) {
        least = of[w] < least ? of[w] : least;
        most = of[w] > most ? of[w] : most;
    }
    return most > 0 ? (double)least / (double)most : 0;
}

struct verdict judge_grants(struct grant *log, size_t count, size_t workers)
{
    struct verdict v = {.fairness = count_fairness(log, count, workers)};
    int64_t free_at = INT64_MIN; /* when the last of the earlier ones gave */

    qsort(log, count, sizeof *log, compare_grants);
    for (size_t i = 0; i < count; i++) {
        double wait_ms = (double)(log[i].got - log[i].asked) / 1e6;

        v.longest_ms = wait_ms > v.longest_ms ? wait_ms : v.longest_ms;
        v.overlaps += log[i].got < free_at;
        v.handovers += i > 0 && log[i].worker != log[i - 1].worker &&
                       log[i].asked < log[i - 1].gave;
        free_at = log[i].gave > free_at ? log[i].gave : free_at;
    }
    return v;
}
