/* rules_wake.c - no wake-up is lost: I6.
 *
 * While nobody has a lock and somebody waits for it, somebody is granted it
 * soon.  A push that is lost costs a few seconds until the waiter looks by
 * itself; the bound leaves room for that and for a busy machine.  Judged in
 * peace only: from two leases and a second after the last fault was over, so
 * that nothing of the killed and the stopped is left in the store, until the
 * next one begins.  What the waiter's process stood still does not count.
 *
 * Who had it, and until when, is what the owners were told; a release that is
 * under way still has it. */
#include "case.h"

#include <stdlib.h>

#include <holdfast/holdfast.h>

#define MS INT64_C(1000000)

enum { BOUND_MS = 8000 };

typedef struct had {
    int64_t from, to;
    uint8_t key;
} had;

static int by_key_and_start(const void *one, const void *other)
{
    const had *a = one, *b = other;

    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return (a->from > b->from) - (a->from < b->from);
}

/* Neighbours that touch become one; how many are left. */
static size_t join_spans(had *all, size_t count)
{
    size_t n = 0;

    qsort(all, count, sizeof *all, by_key_and_start);
    for (size_t i = 0; i < count; i++) {
        had *last = n ? &all[n - 1] : NULL;

        if (last && last->key == all[i].key && all[i].from <= last->to) {
            if (all[i].to > last->to)
                last->to = all[i].to;
        } else {
            all[n++] = all[i];
        }
    }
    return n;
}

static int64_t end_of(const camp_case *c, const camp_task *t)
{
    int64_t killed = c->lives[t->life].killed;

    if (t->released)
        return t->release_answered;
    return killed < INT64_MAX ? killed : INT64_MAX;
}

/* The key was free, and this one waited: was there peace for too long? */
static void judge_gap(camp_case *c, const camp_task *t, int64_t from,
                      int64_t to)
{
    int64_t bound = BOUND_MS * MS, peace = 2 * c->lease + 1000 * MS;

    c->counts.wakes++;
    if (to - from <= bound)
        return;
    for (size_t i = 0; i <= c->window_count && from < to; i++) {
        const camp_window *w = i < c->window_count ? &c->windows[i] : NULL;
        int64_t end = w && w->from < to ? w->from : to;

        if (end - from > bound &&
            end - from > bound + camp_stalled(c, t->life, from, end)) {
            camp_convict(c, 6, end, t, NULL,
                         "nobody had key %d for %.1f s, and it waited", t->key,
                         (double)(end - from) / 1e9);
            return;
        }
        if (!w)
            break;
        if (w->to > INT64_MAX - peace)
            return;
        if (w->to + peace > from)
            from = w->to + peace;
    }
}

/* The first span of this key that ends after this instant. */
static size_t first_of(const had *all, size_t count, uint8_t key, int64_t at)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const had *s = &all[middle];

        if (s->key < key || (s->key == key && s->to <= at))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void judge_waiter(camp_case *c, const camp_task *t, const had *all,
                         size_t count)
{
    int64_t from = t->asked, to = t->answered;

    if (to == 0) /* for ever, or until it was killed: I9 asks why */
        return;
    for (size_t i = first_of(all, count, t->key, from);
         i < count && all[i].key == t->key && all[i].from < to; i++) {
        if (all[i].from > from)
            judge_gap(c, t, from, all[i].from);
        from = all[i].to;
    }
    if (from < to)
        judge_gap(c, t, from, to);
}

void camp_judge_wakes(camp_case *c)
{
    had *all = calloc(c->task_count + 1, sizeof *all);
    size_t count = 0;

    if (!all) {
        camp_convict(c, 10, c->begin, NULL, NULL, "no memory to judge");
        return;
    }
    for (size_t i = 0; i < c->task_count; i++) {
        const camp_task *t = c->tasks[i];

        if (t->granted)
            all[count++] = (had){t->answered, end_of(c, t), t->key};
    }
    count = join_spans(all, count);
    for (size_t i = 0; i < c->task_count; i++) {
        const camp_task *t = c->tasks[i];

        if (!(t->flags & (CAMP_TRY | CAMP_AGAIN)))
            judge_waiter(c, t, all, count);
    }
    free(all);
}
