/* rules_answers.c - is every answer true, and does everybody get one: I4, I8,
 * I9, I10.
 *
 * An answer that blames the store is true only if something befell it
 * (reasons.c).  Where all was healed and nobody strikes, whoever asks is
 * served: from then on a refusal is I9, not I4.
 *
 * What cannot be known from the callers' side is not convicted: a busy try is
 * a lie only if nobody can have been in the store then, not even the ghost of
 * one that was killed, whose lease had not ended.  A bound of time has slack
 * for a machine that is busy, and does not count what a process stood still. */
#include "case.h"

#include <stdlib.h>

#include <holdfast/holdfast.h>

#define MS INT64_C(1000000)

/* ---- I4 ----------------------------------------------------------------- */

/* What this process may be answered between these instants.  Some answers tell
 * of a set-up that is wrong, or of a want of memory or of room: they are true
 * only where the nemesis saw to that.  Others need any reason at all. */
static bool is_allowed(const camp_case *c, int code, uint32_t life,
                       int64_t from, int64_t to)
{
    static const struct {
        int code, fault;
    } excused[] = {{HF_EAUTH, 23},  {HF_EPERM, 23},  {HF_ENOMEM, 30},
                   {HF_ENOMEM, 31}, {HF_EPROTO, 24}, {HF_EPROTO, 26},
                   {HF_EPROTO, 23}, {HF_EFULL, 21},  {HF_EFULL, 22},
                   {HF_EFULL, 30},  {HF_EFULL, 31},  {HF_EFULL, 32}};
    /* The last word of a server counts until another one has come. */
    int64_t before = from - 2 * c->lease - 5000 * MS;

    for (size_t i = 0; i < sizeof excused / sizeof *excused; i++) {
        if (excused[i].code == code &&
            camp_struck(c, excused[i].fault, before, to))
            return true;
    }
    switch (hf_error_class(code)) {
    case HF_CLASS_OK:
        return true;
    case HF_CLASS_NO:
        return code != HF_EDEADLK && code != HF_EFULL;
    case HF_CLASS_LOST:
    case HF_CLASS_UNKNOWN:
    case HF_CLASS_RETRY:
        return code != HF_EFORCED && camp_reason(c, code, life, from, to);
    default:
        return false;
    }
}

static void judge_request(camp_case *c, const camp_task *t)
{
    if (!t->answered || t->granted)
        return;
    if (!is_allowed(c, t->code, t->life, t->asked, t->answered))
        camp_convict(c, 4, t->answered, t, NULL, "a request was answered %s",
                     hf_error_name(t->code));
    if (t->code == HF_EBUSY && !(t->flags & CAMP_TRY))
        camp_convict(c, 4, t->answered, t, NULL, "one who waits was told %s",
                     hf_error_name(t->code));
    if (t->code == HF_ECANCELED && !(t->flags & CAMP_CANCELS))
        camp_convict(c, 4, t->answered, t, NULL, "nobody cancelled it");
    if (t->code == HF_ETIMEDOUT && t->answered + 2 * MS < t->wait_until)
        camp_convict(c, 4, t->answered, t, NULL,
                     "told %.1f ms before its time that it was not granted in "
                     "time",
                     (double)(t->wait_until - t->answered) / 1e6);
}

static void judge_release(camp_case *c, const camp_task *t)
{
    if (!t->released)
        return;
    /* Of a loss its first word counts (rules_loss.c). */
    if (hf_error_class(t->release_code) != HF_CLASS_LOST &&
        !is_allowed(c, t->release_code, t->life, t->release_called,
                    t->release_answered))
        camp_convict(c, 4, t->release_answered, t, NULL,
                     "a release was answered %s",
                     hf_error_name(t->release_code));
    if (t->release_code == 0 && !t->left && t->lost &&
        t->lost < t->release_called)
        camp_convict(c, 4, t->release_answered, t, NULL,
                     "told LOST, and then that it was held all the time");
}

/* Until when something of this request may have been in the store.  Where
 * servers vote, one that is behind still has it when the others have let it go,
 * and votes that were too few are taken back after that was told. */
static int64_t last_trace(const camp_case *c, const camp_task *t)
{
    int64_t end = t->answered;
    int64_t behind = c->promises & CAMP_VOTES ? 500 * MS : 0;

    if (t->answered && t->granted && t->released && t->release_code == 0 &&
        !t->left)
        return t->release_answered + behind;
    /* A try takes no place; only a cut may leave something of it behind. */
    if (t->answered && t->code == HF_EBUSY &&
        !camp_faulty(c, t->asked - c->lease, t->answered))
        return t->answered + behind;
    if (t->granted)
        end = t->release_answered;
    if (end == 0 || c->lives[t->life].killed < INT64_MAX)
        end = c->lives[t->life].killed;
    return end == INT64_MAX ? end : end + 2 * c->lease + 1000 * MS;
}

typedef struct trace {
    int64_t to;
    const camp_task *t;
} trace;

/* The latest ends of all that asked so far: one more than a key has places, so
 * that there are enough without the one that is judged. */
typedef struct latest {
    trace top[CAMP_PLACES + 1];
} latest;

static void add_trace(latest *l, trace one)
{
    for (int k = 0; k <= CAMP_PLACES; k++) {
        trace old = l->top[k];

        if (old.t && old.to >= one.to)
            continue;
        l->top[k] = one;
        if (!old.t)
            return;
        one = old;
    }
}

/* By the instants at which they asked.  Nobody is told busy while there is
 * room: one other is enough to fill a lock, as many as there are places to fill
 * those. */
static void judge_busy(camp_case *c)
{
    latest far[CAMP_KEYS] = {0};
    size_t ahead = 0;

    for (size_t i = 0; i < c->task_count; i++) {
        const camp_task *t = c->tasks[i];
        int company = 0;

        for (; ahead < c->task_count && (c->tasks[ahead]->asked <= t->answered);
             ahead++) {
            const camp_task *one = c->tasks[ahead];

            add_trace(&far[one->key], (trace){last_trace(c, one), one});
        }
        for (int k = 0; k <= CAMP_PLACES; k++) {
            const trace *other = &far[t->key].top[k];

            company += other->t && other->t != t && other->to >= t->asked;
        }
        if (t->answered && t->code == HF_EBUSY &&
            company < (t->mode == HF_PERMIT ? CAMP_PLACES : 1))
            camp_convict(c, 4, t->answered, t, NULL,
                         "told busy, and %s was there",
                         company ? "one alone" : "nobody");
    }
}

static void judge_children(camp_case *c)
{
    for (size_t i = 0; i < c->count; i++) {
        const camp_record *r = &c->records[i];
        camp_task who = {.life = r->life};

        if (r->kind == CAMP_FORKED && r->code != HF_EFORKED)
            camp_convict(c, 4, r->at, &who, NULL,
                         "a forked child was answered %s",
                         r->code ? hf_error_name(r->code) : "0");
    }
}

static void judge_checks(camp_case *c)
{
    for (size_t i = 0; i < c->count; i++) {
        const camp_record *r = &c->records[i];
        const camp_life *l = &c->lives[r->life];
        const camp_task *t;

        if (r->kind != CAMP_CHECK || r->task == 0 || r->task > l->most)
            continue;
        t = &l->tasks[r->task];
        if (r->code == 0 && t->lost && r->called > t->lost)
            camp_convict(c, 5, r->at, t, NULL,
                         "a check says held %.1f ms after LOST",
                         (double)(r->called - t->lost) / 1e6);
        if (hf_error_class(r->code) != HF_CLASS_LOST &&
            !is_allowed(c, r->code, r->life, r->called, r->at))
            camp_convict(c, 4, r->at, t, NULL, "a check was answered %s",
                         hf_error_name(r->code));
    }
}

/* ---- I8, I9, I10 ------------------------------------------------------- */

static void judge_residue(camp_case *c)
{
    for (size_t i = 0; i < c->count; i++) {
        const camp_record *r = &c->records[i];
        camp_task who = {.life = r->life};

        if (r->kind == CAMP_END && (r->number > r->token || r->code > 0))
            camp_convict(c, 8, r->at, &who, NULL,
                         "%lld descriptors and %d threads are left",
                         (long long)(r->number - r->token), r->code);
    }
}

/* Whoever began has said that it ends, or was killed. */
static void judge_crashes(camp_case *c)
{
    for (uint32_t i = 1; c->finish && i < CAMP_LIVES; i++) {
        camp_task who = {.life = i};

        if (c->lives[i].begun && !c->lives[i].ended &&
            c->lives[i].killed == INT64_MAX)
            camp_convict(c, 10, c->finish, &who, NULL,
                         "process %u ended without a word", i);
    }
}

/* All was healed, and the servers stood: who asks is served, not refused.  A
 * session needs a moment to find its store again, a wait bears with it for a
 * lease, and a quarantine takes its time. */
static void judge_service(camp_case *c, const camp_task *t)
{
    int64_t calm = camp_calm_since(c, t->answered), settled;

    if (!calm || t->granted || hf_error_class(t->code) != HF_CLASS_RETRY)
        return;
    settled = calm + c->lease + 1000 * MS;
    if (t->code == HF_EQUARANTINE)
        settled += c->lease + 1000 * MS;
    if ((t->asked > settled || t->answered > settled + c->lease) &&
        !camp_busy(c, t->life, t->answered - 2 * c->lease, t->answered,
                   c->lease / 8))
        camp_convict(c, 9, t->answered, t, NULL,
                     "was refused with %s %.1f s after all was healed",
                     hf_error_name(t->code),
                     (double)(t->answered - calm) / 1e9);
}

static void judge_liveness(camp_case *c, const camp_task *t)
{
    bool killed = c->lives[t->life].killed < INT64_MAX;
    int64_t bound = 2 * c->lease + 10000 * MS, from = t->wait_until;

    if (!t->answered) {
        if (!killed)
            camp_convict(c, 9, t->asked, t, NULL, "was never answered");
        return;
    }
    judge_service(c, t);
    if (t->granted && t->release_called && !t->released && !killed)
        camp_convict(c, 9, t->release_called, t, NULL,
                     "its release was never answered");
    /* One who waits for ever: counted from when everybody was to end. */
    if (t->wait_until == INT64_MAX)
        from = c->finish > c->calm ? c->finish : c->calm;
    if (from < t->asked)
        from = t->asked;
    if (from && t->answered > from + bound &&
        t->answered - from >
            bound + camp_stalled(c, t->life, t->asked, t->answered))
        camp_convict(c, 9, t->answered, t, NULL,
                     "was answered %.1f s after it should have been",
                     (double)(t->answered - from) / 1e9);
}

void camp_judge_answers(camp_case *c)
{
    for (size_t i = 0; i < c->task_count; i++) {
        judge_request(c, c->tasks[i]);
        judge_release(c, c->tasks[i]);
        judge_liveness(c, c->tasks[i]);
    }
    judge_busy(c);
    judge_checks(c);
    judge_children(c);
    judge_residue(c);
    judge_crashes(c);
}
