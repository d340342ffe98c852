/* rules_loss.c - is a loss true, and told in time: I4, I5.
 *
 * A hold is lost for a reason, or because it was asked for so that it ends by
 * itself; else its first word of a loss is a lie.  And its owner knows before
 * anybody else is granted the lock.  The callback runs on a thread of its own
 * and writes to a file, on a machine that may be busy: half a second is left
 * for that, and what the process stood still does not count. */
#include "case.h"

#include <stdlib.h>

#include <holdfast/holdfast.h>

#define MS INT64_C(1000000)

enum { TOLD_MS = 500 };

/* ---- I4 ----------------------------------------------------------------- */

/* A lease of its own, or `at_most_ms`: less what the library keeps to stop in,
 * and counted from when it was asked for. */
static bool ends_by_itself(const camp_case *c, const camp_task *t, int64_t at)
{
    int64_t margin = c->lease / 10 > 250 * MS ? c->lease / 10 : 250 * MS;

    if (!t->length)
        return false;
    if (margin > t->length / 2)
        margin = t->length / 2;
    return at >= t->asked + t->length - margin;
}

static void judge_reason(camp_case *c, const camp_task *t)
{
    int64_t at = t->lost, until = at;
    int code = HF_EEXPIRED;

    if (!at && t->released &&
        hf_error_class(t->release_code) == HF_CLASS_LOST) {
        at = t->release_called;
        until = t->release_answered; /* it may have befallen it on its way */
        code = t->release_code;
    }
    if (!t->granted || !at || ends_by_itself(c, t, until))
        return;
    if (!camp_reason(c, code, t->life, at, until))
        camp_convict(c, 4, at, t, NULL, "told LOST, and nothing befell it");
}

/* ---- I5 ----------------------------------------------------------------- */

/* A check that says LOST is known to the library at that instant: the notice
 * follows at once, and no later check says anything else. */
static void judge_notice(camp_case *c, const camp_task *t)
{
    int64_t late = 2000 * MS;

    if (t->lost_check && !t->lost_notice &&
        t->release_called > t->lost_check + late &&
        t->release_called - t->lost_check >
            late + camp_stalled(c, t->life, t->lost_check, t->release_called))
        camp_convict(c, 5, t->release_called, t, NULL,
                     "a check said LOST, and no notice of it came");
    if (t->lost_check && t->lost_notice > t->lost_check + late &&
        t->lost_notice - t->lost_check >
            late + camp_stalled(c, t->life, t->lost_check, t->lost_notice))
        camp_convict(c, 5, t->lost_notice, t, NULL,
                     "told LOST %.0f ms after a check had said it",
                     (double)(t->lost_notice - t->lost_check) / 1e6);
}

static int by_key_and_answer(const void *one, const void *other)
{
    const camp_task *a = *(camp_task *const *)one;
    const camp_task *b = *(camp_task *const *)other;

    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return (a->answered > b->answered) - (a->answered < b->answered);
}

/* The instant up to which this one was not told; INT64_MAX: never. */
static int64_t told_at(const camp_case *c, const camp_task *t)
{
    int64_t at = t->lost ? t->lost : INT64_MAX;

    if (t->release_called && t->release_called < at)
        at = t->release_called;
    if (c->lives[t->life].killed < at)
        at = c->lives[t->life].killed;
    return at;
}

/* The next of this key that had to find it gone. */
static const camp_task *rival_of(const camp_task *t, camp_task **granted,
                                 size_t place, size_t count)
{
    for (size_t i = place + 1; i < count && granted[i]->key == t->key; i++) {
        const camp_task *o = granted[i];

        if (o->answered > t->answered &&
            (t->mode == HF_EXCLUSIVE || o->mode == HF_EXCLUSIVE))
            return o;
    }
    return NULL;
}

static void judge_before_rival(camp_case *c, const camp_task *t,
                               const camp_task *rival)
{
    int64_t told = told_at(c, t), late;

    if (told == INT64_MAX) /* I9 asks why it was never given back */
        return;
    late = told - rival->answered - TOLD_MS * MS;
    if (late <= 0 ||
        late <= camp_stalled(c, t->life, rival->answered - c->lease, told) ||
        camp_excused(c, t->answered, rival->answered))
        return;
    camp_convict(c, 5, told, t, rival,
                 "knew nothing of its loss %.0f ms after another was granted",
                 (double)(told - rival->answered) / 1e6);
}

void camp_judge_losses(camp_case *c)
{
    camp_task **granted = calloc(c->task_count + 1, sizeof(camp_task *));
    size_t count = 0;

    for (size_t i = 0; i < c->task_count; i++) {
        camp_task *t = c->tasks[i];

        judge_reason(c, t);
        judge_notice(c, t);
        if (granted && t->granted && !(t->flags & CAMP_AGAIN))
            granted[count++] = t;
    }
    if (!granted) {
        camp_convict(c, 10, c->begin, NULL, NULL, "no memory to judge");
        return;
    }
    qsort(granted, count, sizeof *granted, by_key_and_answer);
    for (size_t i = 0; i < count; i++) {
        const camp_task *rival = rival_of(granted[i], granted, i, count);

        if (rival)
            judge_before_rival(c, granted[i], rival);
    }
    free(granted);
}
