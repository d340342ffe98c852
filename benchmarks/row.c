/* row.c - the one table of the benchmark.
 *
 * A row is a number of holdfast's, the floor's number of the same run, their
 * ratio, the goal and whether it was met.  As text for people, or as one JSON
 * object a line.  Knows nothing of how a number was measured. */
#include "bench.h"

#include <math.h>
#include <stdio.h>

static bool missed;

bool row_missed(void)
{
    return missed;
}

static bool is_met(const struct row *r, double ratio)
{
    switch (r->goal) {
    case NO_GOAL:
        return true;
    case RATIO_AT_MOST:
        return ratio <= r->bound;
    case RATIO_AT_LEAST:
        return ratio >= r->bound;
    case VALUE_AT_MOST:
        return r->ours <= r->bound;
    case VALUE_AT_LEAST:
        return r->ours >= r->bound;
    }
    return false;
}

/* Three digits that count, and no exponent. */
static void print_number(char *ret, size_t cap, double v, const char *unit)
{
    double size = fabs(v);
    int digits = v == floor(v) || size >= 100 ? 0 : size >= 10 ? 1 : 2;

    snprintf(ret, cap, "%.*f%s%s", digits, v, *unit ? " " : "", unit);
}

static void print_goal(char *ret, size_t cap, const struct row *r)
{
    bool most = r->goal == RATIO_AT_MOST || r->goal == VALUE_AT_MOST;
    bool ratio = r->goal == RATIO_AT_MOST || r->goal == RATIO_AT_LEAST;
    char number[48];

    ret[0] = '\0';
    if (r->goal == NO_GOAL)
        return;
    print_number(number, sizeof number, r->bound, ratio ? "x" : r->unit);
    snprintf(ret, cap, "%s %s", most ? "<=" : ">=", number);
}

void row_heading(bool json)
{
    if (!json)
        printf("%-18s %-36s %12s  %-28s %12s %8s  %-12s %s\n", "scenario",
               "measure", "holdfast", "against", "", "ratio", "goal", "met");
}

static void print_text(const struct row *r, double ratio, bool met)
{
    char ours[48], other[48] = "", times[48] = "", goal[64];

    print_number(ours, sizeof ours, r->ours, r->unit);
    if (r->floor_name != NULL) {
        print_number(other, sizeof other, r->floor, r->unit);
        snprintf(times, sizeof times, ratio >= 100 ? "%.0f" : "%.2f", ratio);
    }
    print_goal(goal, sizeof goal, r);
    printf("%-18s %-36s %12s  %-28s %12s %8s  %-12s %s\n", r->scenario, r->what,
           ours, r->floor_name != NULL ? r->floor_name : "", other, times, goal,
           r->goal == NO_GOAL ? ""
           : met              ? "yes"
                              : "NO");
}

static void print_json(const struct row *r, double ratio, bool met)
{
    char goal[64];

    print_goal(goal, sizeof goal, r);
    printf("{\"scenario\":\"%s\",\"measure\":\"%s\",\"unit\":\"%s\","
           "\"holdfast\":%.6g",
           r->scenario, r->what, r->unit, r->ours);
    if (r->floor_name != NULL)
        printf(",\"against\":\"%s\",\"floor\":%.6g,\"ratio\":%.6g",
               r->floor_name, r->floor, ratio);
    if (r->goal != NO_GOAL)
        printf(",\"goal\":\"%s\",\"met\":%s", goal, met ? "true" : "false");
    puts("}");
}

void row_print(const struct bench *b, const struct row *r)
{
    double ratio = 0;
    bool met;

    if (r->floor_name != NULL) {
        if (r->floor <= 0)
            bench_die("%s: %s measured nothing", r->scenario, r->floor_name);
        ratio = r->ours / r->floor;
    }
    met = is_met(r, ratio);
    missed = missed || !met;
    if (b->json)
        print_json(r, ratio, met);
    else
        print_text(r, ratio, met);
    fflush(stdout);
}
