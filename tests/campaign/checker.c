/* checker.c - reads the diaries of a campaign and says what they prove.
 *
 *     campaign_checker FILE...
 *
 * Prints each violation as a timeline (the first few), a line per kind of
 * fault, and last one line of counts for the conductor.  Status: 0 nothing is
 * broken, 1 something is, 2 the files cannot be read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case.h"

enum { DRAWN = 5 };

static bool add_file(camp_case *c, const char *path)
{
    FILE *f = fopen(path, "rbe");
    char *bytes = NULL;
    long size = -1;
    bool good = false;

    if (f && fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) >= 0 &&
        fseek(f, 0, SEEK_SET) == 0)
        bytes = malloc((size_t)size + 1);
    if (bytes && fread(bytes, 1, (size_t)size, f) == (size_t)size)
        good = camp_add(c, bytes, (size_t)size);
    if (!good)
        perror(path);
    free(bytes);
    if (f)
        fclose(f);
    return good;
}

/* For the table: what happened while each kind of fault was at work. */
static void print_faults(const camp_case *c)
{
    uint64_t counts[CAMP_FAULTS][3] = {{0}}; /* injected, granted, broken */

    for (size_t i = 0; i < c->window_count; i++) {
        const camp_window *w = &c->windows[i];
        uint64_t *n = counts[(uint32_t)w->fault % CAMP_FAULTS];

        n[0]++;
        for (size_t k = 0; k < c->task_count; k++) {
            const camp_task *t = c->tasks[k];

            n[1] +=
                t->granted && t->answered >= w->from && t->answered <= w->to;
        }
        for (size_t k = 0; k < c->verdict_count && k < CAMP_VERDICTS; k++)
            n[2] += c->verdicts[k].at >= w->from && c->verdicts[k].at <= w->to;
    }
    for (int i = 0; i < CAMP_FAULTS; i++) {
        if (counts[i][0])
            printf("fault %d injected %llu granted %llu violations %llu\n", i,
                   (unsigned long long)counts[i][0],
                   (unsigned long long)counts[i][1],
                   (unsigned long long)counts[i][2]);
    }
}

static void print_counts(const camp_case *c)
{
    const camp_counts *n = &c->counts;
    const struct {
        const char *name;
        uint64_t count;
    } all[] = {
        {"records", n->records},       {"damaged", n->damaged},
        {"asked", n->asked},           {"granted", n->granted},
        {"refused", n->refused},       {"lost", n->lost},
        {"checks", n->checks},         {"acts", n->acts},
        {"fenced", n->fenced},         {"forks", n->forks},
        {"kills", n->kills},           {"stops", n->stops},
        {"stalls", n->stalls},         {"order_pairs", n->order_pairs},
        {"faults", c->window_count},   {"violations", c->verdict_count},
        {"allowed", n->allowed},       {"wakes", n->wakes},
        {"late_wakes", n->late_wakes},
    };

    printf("counts");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        printf(" %s %llu", all[i].name, (unsigned long long)all[i].count);
    putchar('\n');
}

int main(int argc, char **argv)
{
    static camp_case c;
    size_t broken;

    for (int i = 1; i < argc; i++) {
        if (!add_file(&c, argv[i]))
            return 2;
    }
    if (argc < 2 || !camp_build(&c)) {
        fprintf(stderr, "usage: %s FILE...\n", argv[0]);
        return 2;
    }
    broken = camp_judge(&c);
    for (size_t i = 0; i < broken && i < DRAWN; i++)
        camp_print(stdout, &c, &c.verdicts[i]);
    for (size_t i = DRAWN; i < broken && i < CAMP_VERDICTS; i++)
        printf("VIOLATION I%d: %s\n", c.verdicts[i].invariant,
               c.verdicts[i].text);
    print_faults(&c);
    print_counts(&c);
    camp_free(&c);
    return broken ? 1 : 0;
}
