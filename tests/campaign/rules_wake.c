/* rules_wake.c - no wake-up is lost: I6.
 *
 * While nobody has a lock and somebody waits for it, somebody is granted it
 * soon.  A push that is lost costs a few seconds until the waiter looks by
 * itself; the bound leaves room for that and for a busy machine.  Judged in
 * peace only: from two leases and a second after the last fault was over, so
 * that nothing of the killed and the stopped is left in the store, until the
 * next one begins.  What the waiter's process stood still does not count.
 *
 * Where the store wakes who waits, that look is a net and no more: one that
 * comes late is bad luck, many are a store whose pushes nobody hears.  So the
 * late ones of a history are counted, each gap once.
 *
 * Who had it, and until when, is what the owners were told; a release that is
 * under way still has it. */
#include "case.h"

#include <stdlib.h>

#include <holdfast/holdfast.h>

#define MS INT64_C(1000000)

/* Late is what a push is not; so many of a hundred may be, and a handful. */
enum { BOUND_MS = 8000, LATE_MS = 1000, LATE_PERCENT = 3, LATE_FEW = 5 };

typedef struct had {
    int64_t from, to;
    uint8_t key;
    bool counted; /* the gap before it */
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

/* One gap that a grant ended, if all of it was in peace and somebody had waited
 * before: else nobody had to be woken. */
static void count_gap(camp_case *c, const camp_task *t, int64_t from, had *next)
{
    int64_t peace = 2 * c->lease + 1000 * MS, late = LATE_MS * MS;
    int64_t length = next->from - from;

    if (next->counted || from == t->asked ||
        camp_faulty(c, from - peace, next->from))
        return;
    next->counted = true;
    c->counts.wakes++;
    if (length > late &&
        length > late + camp_stalled(c, t->life, from, next->from))
        c->counts.late_wakes++;
}

static void judge_share(camp_case *c)
{
    uint64_t late = c->counts.late_wakes, all = c->counts.wakes;

    if ((c->promises & CAMP_PUSH) && late > LATE_FEW &&
        late * 100 > all * LATE_PERCENT)
        camp_convict(c, 6, c->finish ? c->finish : c->begin, NULL, NULL,
                     "%llu of %llu wake-ups in peace took more than a second, "
                     "and the store promises to push",
                     (unsigned long long)late, (unsigned long long)all);
}

/* The key was free, and this one waited: was there peace for too long? */
static void judge_gap(camp_case *c, const camp_task *t, int64_t from,
                      int64_t to)
{
    int64_t bound = BOUND_MS * MS, peace = 2 * c->lease + 1000 * MS;

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

static void judge_waiter(camp_case *c, const camp_task *t, had *all,
                         size_t count)
{
    int64_t from = t->asked, to = t->answered;
    size_t i;

    if (to == 0)
        to = c->lives[t->life].killed;
    if (to == INT64_MAX) /* for ever: I9 asks why */
        return;
    i = first_of(all, count, t->key, from);
    for (; i < count && all[i].key == t->key && all[i].from < to; i++) {
        if (all[i].from > from) {
            judge_gap(c, t, from, all[i].from);
            count_gap(c, t, from, &all[i]);
        }
        from = all[i].to;
    }
    if (from >= to)
        return;
    judge_gap(c, t, from, to);
    if (i < count && all[i].key == t->key && all[i].from == to)
        count_gap(c, t, from, &all[i]); /* the grant is its own */
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
            all[count++] = (had){t->answered, end_of(c, t), t->key, false};
    }
    count = join_spans(all, count);
    for (size_t i = 0; i < c->task_count; i++) {
        const camp_task *t = c->tasks[i];

        if (!(t->flags & (CAMP_TRY | CAMP_AGAIN)))
            judge_waiter(c, t, all, count);
    }
    judge_share(c);
    free(all);
}
