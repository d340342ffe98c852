/* case.c - records become requests: what each caller was told, and when.
 *
 * Files come in any order and may be damaged or cut short; a record is taken
 * only if its sum fits and its numbers are in range, so that the rules need
 * not doubt them.  Knows nothing of what is allowed: that is the rules'. */
#include "case.h"

#include <stdlib.h>
#include <string.h>

#include <holdfast/holdfast.h>

static bool is_sound(const camp_record *r)
{
    return r->sum == camp_sum(r) && r->kind > CAMP_NOTHING &&
           r->kind < CAMP_KINDS && r->key < CAMP_KEYS && r->mode <= HF_PERMIT &&
           r->life < CAMP_LIVES && r->at > 0 && r->called > 0 &&
           r->called <= r->at && r->at < INT64_MAX / 4 &&
           (r->until == INT64_MAX ||
            (r->until >= 0 && r->until < INT64_MAX / 2));
}

bool camp_add(camp_case *c, const void *bytes, size_t size)
{
    size_t n = size / sizeof(camp_record);

    if (c->count + n > c->room) {
        size_t room = (c->count + n) * 2;
        camp_record *grown = realloc(c->records, room * sizeof *grown);

        if (!grown)
            return false;
        c->records = grown;
        c->room = room;
    }
    for (size_t i = 0; i < n; i++) {
        camp_record *to = &c->records[c->count];

        memcpy(to, (const char *)bytes + i * sizeof *to, sizeof *to);
        if (is_sound(to))
            c->count++;
        else
            c->counts.damaged++;
    }
    /* Half a record at the end: its writer was killed in mid-write. */
    c->counts.damaged += size % sizeof(camp_record) != 0;
    return true;
}

static int by_time(const void *one, const void *other)
{
    const camp_record *a = one, *b = other;

    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    if (a->life != b->life)
        return a->life < b->life ? -1 : 1;
    if (a->task != b->task)
        return a->task < b->task ? -1 : 1;
    return (a->kind > b->kind) - (a->kind < b->kind);
}

static int by_asked(const void *one, const void *other)
{
    const camp_task *a = *(camp_task *const *)one;
    const camp_task *b = *(camp_task *const *)other;

    if (a->asked != b->asked)
        return a->asked < b->asked ? -1 : 1;
    return (a->life > b->life) - (a->life < b->life);
}

/* Room for the requests of each process.  Their numbers rise by one, but for
 * a few that were drawn by threads which were killed before they wrote. */
static bool make_room(camp_case *c)
{
    static uint32_t asks[CAMP_LIVES];

    memset(asks, 0, sizeof asks);
    for (size_t i = 0; i < c->count; i++)
        asks[c->records[i].life] += c->records[i].kind == CAMP_ASK;
    for (size_t i = 0; i < CAMP_LIVES; i++) {
        c->lives[i].killed = INT64_MAX;
        if (asks[i] == 0)
            continue;
        c->lives[i].most = asks[i] + 64;
        c->lives[i].tasks = calloc(c->lives[i].most + 1, sizeof(camp_task));
        if (!c->lives[i].tasks)
            return false;
    }
    c->tasks = calloc(c->count + 1, sizeof(camp_task *));
    c->windows = calloc(c->count + 1, sizeof *c->windows);
    c->calms = calloc(c->count + 1, sizeof *c->calms);
    return c->tasks && c->windows && c->calms;
}

static camp_task *task_of(camp_case *c, uint32_t life, uint32_t task)
{
    camp_life *l = &c->lives[life];

    return task > 0 && task <= l->most ? &l->tasks[task] : NULL;
}

/* ---- One record --------------------------------------------------------- */

static void first_word_of_loss(camp_task *t, int64_t at)
{
    if (!t->lost || at < t->lost)
        t->lost = at;
}

static void take_check(camp_case *c, camp_task *t, const camp_record *r)
{
    c->counts.checks++;
    if (r->code == 0) {
        if (r->until > t->until)
            t->until = r->until;
    } else if (hf_error_class(r->code) == HF_CLASS_LOST) {
        first_word_of_loss(t, r->called);
        if (!t->lost_check)
            t->lost_check = r->called;
    }
}

static void take_change(camp_task *t, const camp_record *r)
{
    if (r->number != HF_LOST)
        return;
    first_word_of_loss(t, r->at);
    t->lost_notice = r->at;
    t->lost_told = true;
}

/* Of a request that is known. */
static void take_answer(camp_case *c, camp_task *t, const camp_record *r)
{
    switch ((camp_kind)r->kind) {
    case CAMP_GRANT:
    case CAMP_REFUSED:
        t->answered = r->at;
        t->code = r->code;
        t->granted = r->kind == CAMP_GRANT;
        t->token = r->token;
        c->counts.granted += t->granted;
        c->counts.refused += !t->granted;
        break;
    case CAMP_CHECK:
        take_check(c, t, r);
        break;
    case CAMP_CHANGE:
        take_change(t, r);
        break;
    case CAMP_ACT:
        c->counts.acts++;
        c->counts.fenced += r->code != 0;
        break;
    case CAMP_RELEASE:
        t->release_called = r->called;
        break;
    case CAMP_RELEASED:
        t->release_answered = r->at;
        t->release_code = r->code;
        t->released = true;
        t->left = (r->flags & CAMP_LEAVES) != 0;
        break;
    default:
        break;
    }
}

static void take_ask(camp_case *c, camp_task *t, const camp_record *r)
{
    if (t->asked)
        return; /* a number that was used twice: the first one counts */
    *t = (camp_task){.life = r->life,
                     .task = r->task,
                     .key = r->key,
                     .mode = r->mode,
                     .flags = r->flags,
                     .above = (uint32_t)r->number,
                     .asked = r->called,
                     .wait_until = r->until};
    if (r->flags & CAMP_ENDS)
        t->length = (int64_t)(r->token % (INT64_MAX / 4));
    c->tasks[c->task_count++] = t;
    c->counts.asked++;
}

static void end_window(camp_case *c, const camp_record *r)
{
    for (size_t i = c->window_count; i-- > 0;) {
        camp_window *w = &c->windows[i];

        if (w->fault == r->code && w->healed == 0) {
            w->healed = r->at;
            w->to = r->at + c->lease;
            if (r->number) { /* it found nobody to strike */
                w->fault = 0;
                w->to = r->at;
            }
            return;
        }
    }
}

static void take_nemesis(camp_case *c, const camp_record *r)
{
    switch ((camp_kind)r->kind) {
    case CAMP_CONFIG:
        c->begin = r->at;
        c->lease = r->until < INT64_MAX / 64 ? r->until : 0;
        c->promises = r->number;
        c->excuses = r->token;
        break;
    case CAMP_KILL:
        if (r->at < c->lives[r->task % CAMP_LIVES].killed)
            c->lives[r->task % CAMP_LIVES].killed = r->at;
        c->counts.kills++;
        break;
    case CAMP_STOP:
        c->counts.stops++;
        break;
    case CAMP_FAULT:
        c->windows[c->window_count++] =
            (camp_window){.from = r->at, .to = INT64_MAX, .fault = r->code};
        break;
    case CAMP_HEALED:
        end_window(c, r);
        break;
    case CAMP_CALM:
        c->calm = r->at;
        c->calms[c->calm_count++] = r->at;
        break;
    case CAMP_FINISH:
        c->finish = r->at;
        break;
    default:
        break;
    }
}

static void take_record(camp_case *c, const camp_record *r)
{
    camp_task *t = task_of(c, r->life, r->task);

    if (r->kind >= CAMP_KILL || r->kind == CAMP_CONFIG) {
        take_nemesis(c, r);
    } else if (r->kind == CAMP_BEGIN) {
        c->lives[r->life].begun = true;
    } else if (r->kind == CAMP_END) {
        c->lives[r->life].ended = true;
    } else if (r->kind == CAMP_STALL) {
        c->counts.stalls++;
    } else if (r->kind == CAMP_FORKED) {
        c->counts.forks++;
    } else if (r->kind == CAMP_ASK && t) {
        take_ask(c, t, r);
    } else if (t && t->asked) {
        take_answer(c, t, r);
    }
}

bool camp_build(camp_case *c)
{
    if (c->count > 0)
        qsort(c->records, c->count, sizeof *c->records, by_time);
    if (!make_room(c))
        return false;
    for (size_t i = 0; i < c->count; i++)
        take_record(c, &c->records[i]);
    qsort(c->tasks, c->task_count, sizeof *c->tasks, by_asked);
    for (size_t i = 0; i < c->task_count; i++)
        c->counts.lost += c->tasks[i]->granted && c->tasks[i]->lost != 0;
    c->counts.records = c->count;
    return true;
}

void camp_free(camp_case *c)
{
    for (size_t i = 0; i < CAMP_LIVES; i++)
        free(c->lives[i].tasks);
    free(c->records);
    free(c->tasks);
    free(c->windows);
    free(c->calms);
    memset(c, 0, sizeof *c);
}

/* ---- Questions ---------------------------------------------------------- */

bool camp_belief(const camp_case *c, const camp_task *t, int64_t *ret_from,
                 int64_t *ret_to)
{
    bool kept = t->released && !t->left &&
                (t->release_code == 0 || t->release_code == HF_EUNKNOWN);
    int64_t to = t->until;

    if (!t->granted || (t->flags & CAMP_AGAIN))
        return false;
    /* "It was yours all the time" is a belief up to that call. */
    if (kept || (t->release_called && t->release_called < to))
        to = t->release_called;
    if (t->lost && t->lost < to)
        to = t->lost;
    if (c->lives[t->life].killed < to)
        to = c->lives[t->life].killed;
    *ret_from = t->answered;
    *ret_to = to;
    return to > t->answered;
}

int64_t camp_stalled(const camp_case *c, uint32_t life, int64_t from,
                     int64_t to)
{
    int64_t sum = 0;

    for (size_t i = 0; i < c->count; i++) {
        const camp_record *r = &c->records[i];
        int64_t a = r->called > from ? r->called : from;
        int64_t b = r->at < to ? r->at : to;

        if (r->kind == CAMP_STALL && r->life == life && b > a)
            sum += b - a;
    }
    return sum;
}
