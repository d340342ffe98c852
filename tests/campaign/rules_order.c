/* rules_order.c - first come, first served: I7.
 *
 * The callers' side knows when somebody asked, not when its place was taken.
 * But whoever listed the store and saw an entry wait with place n, and saw it
 * wait with place n again later, has proved that it waited all the time
 * between.  Nobody who asked after the first look may be granted before the
 * second.  Threads of one process queue in front of one entry, so whoever was
 * granted counts from when its process came to that key and never left it. */
#include "case.h"

#include <stdlib.h>
#include <string.h>

#include <holdfast/holdfast.h>

#define MS INT64_C(1000000)

typedef struct wait_proof {
    uint64_t number;
    int64_t from, to; /* answer of the first look, call of the last */
    uint8_t key;
} wait_proof;

static int by_place(const void *one, const void *other)
{
    const wait_proof *a = one, *b = other;

    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return (a->from > b->from) - (a->from < b->from);
}

/* The looks at one entry as one proof; how many there are. */
static size_t join_proofs(wait_proof *all, size_t count)
{
    size_t n = 0;

    qsort(all, count, sizeof *all, by_place);
    for (size_t i = 0; i < count; i++) {
        wait_proof *last = n ? &all[n - 1] : NULL;

        if (last && last->key == all[i].key && last->number == all[i].number) {
            if (all[i].to > last->to)
                last->to = all[i].to;
        } else {
            all[n++] = all[i];
        }
    }
    return n;
}

/* Since when the process of each request has been at its key. */
static void find_runs(camp_case *c)
{
    static struct run {
        int64_t start, end;
    } runs[CAMP_LIVES][CAMP_KEYS];

    memset(runs, 0, sizeof runs);
    for (size_t i = 0; i < c->task_count; i++) {
        camp_task *t = c->tasks[i];
        struct run *run = &runs[t->life][t->key];
        int64_t end = t->granted ? t->release_answered : t->answered;

        if (t->asked > run->end)
            run->start = t->asked;
        t->run_start = run->start;
        /* A place that was not given back cleanly may be found again. */
        if (end == 0)
            end = INT64_MAX / 2;
        else if (t->granted && t->released && t->release_code == 0 && !t->left)
            end += 20 * MS;
        else
            end += 2 * c->lease;
        if (end > run->end)
            run->end = end;
    }
}

/* The first request that was made after this instant. */
static size_t first_after(const camp_case *c, int64_t at)
{
    size_t low = 0, high = c->task_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (c->tasks[middle]->asked <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void judge_proof(camp_case *c, const wait_proof *p)
{
    if (p->to <= p->from)
        return;
    if (!(c->promises & CAMP_FIFO) &&
        camp_faulty(c, p->from - 2 * c->lease, p->to))
        return;
    for (size_t i = first_after(c, p->from); i < c->task_count; i++) {
        const camp_task *t = c->tasks[i];

        if (t->asked > p->to)
            break;
        if (t->key != p->key || !t->granted || (t->flags & CAMP_AGAIN) ||
            t->run_start <= p->from)
            continue;
        c->counts.order_pairs++;
        if (t->answered < p->to)
            camp_convict(c, 7, t->answered, t, NULL,
                         "granted before place %llu, which was seen to wait "
                         "%.0f ms before it asked and %.0f ms after it was "
                         "granted",
                         (unsigned long long)p->number,
                         (double)(t->asked - p->from) / 1e6,
                         (double)(p->to - t->answered) / 1e6);
    }
}

void camp_judge_order(camp_case *c)
{
    wait_proof *all;
    size_t count = 0;

    if (!(c->promises & (CAMP_FIFO | CAMP_FIFO_CALM)))
        return;
    all = calloc(c->count + 1, sizeof *all);
    if (!all) {
        camp_convict(c, 10, c->begin, NULL, NULL, "no memory to judge");
        return;
    }
    for (size_t i = 0; i < c->count; i++) {
        const camp_record *r = &c->records[i];

        if (r->kind == CAMP_SEEN && r->mode == HF_EXCLUSIVE)
            all[count++] = (wait_proof){r->number, r->at, r->called, r->key};
    }
    count = join_proofs(all, count);
    find_runs(c);
    for (size_t i = 0; i < count; i++)
        judge_proof(c, &all[i]);
    free(all);
}
