/* checker.c - is this history one that the promises allow?
 *
 * Reads the record from the first event to the last and keeps, for every
 * request, what its caller believes, and for every key, what the store did.
 * Knows nothing of the core, of the faults, or of how the record was made.
 *
 *   I1  two callers never believe at one instant in what excludes the other
 *   I2  tokens are unique and rise in the order of the grants
 *   I3  what is fenced by tokens never refuses one who still holds
 *   I4  answers are true: a grant has one in the store behind it, 0 from a
 *       release means that nobody else was granted meanwhile, a loss has a
 *       reason, a dying hold is not handed out
 *   I5  a belief ends before the store grants to a rival
 *   I6  in calm weather a grant is told at once
 *   I7  first come, first served: in the store, and in one process
 *   I8  nothing is left behind
 *   I9  with faults healed, everybody is served or told
 *
 * A belief is [told, until): `until` is what the caller was told remains, in
 * true time, so a caller who is paused past it is no violation. */
#include "sim/checker.h"

#include <stdarg.h>
#include <string.h>

#include <holdfast/holdfast.h>

enum { GRANTS_MAX = 2048, ACTIVE_MAX = 64 };
enum { SLACK_NS = 2000000, TELL_NS = 500000000 };

typedef enum task_state { UNSEEN, ASKED, HELD, LOST, RELEASING, DONE } task_state;

typedef struct task {
    task_state state;
    uint8_t life, key, mode, flags;
    uint32_t places;
    int64_t asked, wait_until, granted, until, longest;
    uint64_t floor, token, session;
    bool rival, cancelled;
} task;

typedef struct grant {
    int64_t at;
    uint64_t token, num;
    uint32_t run;
    uint8_t life, mode;
    bool told;
    int64_t lost; /* when a holder of it was told so; 0: never */
} grant;

typedef struct key_state {
    uint64_t told_max, granted_num, granted_token, acted;
    uint32_t active[ACTIVE_MAX]; /* granted and not given back */
    size_t active_count;
    grant grants[GRANTS_MAX];
    size_t grant_count;
} key_state;

typedef struct checker {
    const sim_history *history;
    sim_verdict *verdict;
    size_t i;
    int64_t calm;
    uint32_t task_count;
    task tasks[SIM_TASKS];
    key_state keys[SIM_KEYS];
} checker;

__attribute__((format(printf, 5, 6))) static void
convict(checker *c, int invariant, uint32_t who, uint32_t rival,
        const char *format, ...)
{
    const sim_event *event = &c->history->events[c->i];
    va_list args;

    if (c->verdict->invariant)
        return;
    c->verdict->invariant = invariant;
    c->verdict->at = c->i;
    c->verdict->task = who;
    c->verdict->rival = rival;
    c->verdict->key = event->key;
    va_start(args, format);
    vsnprintf(c->verdict->text, sizeof c->verdict->text, format, args);
    va_end(args);
}

static bool excludes(uint8_t a, uint8_t b)
{
    return a == HF_EXCLUSIVE || b == HF_EXCLUSIVE;
}

/* Re-entry: two handles on one hold. */
static bool is_same_hold(const task *a, const task *b)
{
    return a->life == b->life && a->token == b->token;
}

/* Does anybody believe in what `me` may not share at this instant? */
static void check_alone(checker *c, uint32_t me, int64_t at)
{
    const task *mine = &c->tasks[me];
    const key_state *key = &c->keys[mine->key];
    uint32_t together = 1;

    if (mine->until <= at)
        return;
    for (size_t i = 0; i < key->active_count; i++) {
        uint32_t other = key->active[i];
        const task *its = &c->tasks[other];

        if (other == me || its->until <= at || is_same_hold(mine, its))
            continue;
        together++;
        if (excludes(mine->mode, its->mode))
            convict(c, 1, me, other,
                    "requests %u and %u both believe that they hold key %d",
                    me, other, mine->key);
    }
    if (mine->mode == HF_PERMIT && together > mine->places)
        convict(c, 1, me, me, "%u hold one of %u places of key %d", together,
                mine->places, mine->key);
}

static void remove_active(key_state *key, uint32_t who)
{
    for (size_t i = 0; i < key->active_count; i++) {
        if (key->active[i] == who) {
            key->active[i] = key->active[--key->active_count];
            return;
        }
    }
}

static void finish_task(checker *c, uint32_t who, int64_t at)
{
    task *t = &c->tasks[who];

    if (t->until > at)
        t->until = at;
    t->state = DONE;
    remove_active(&c->keys[t->key], who);
}

/* ---- what callers saw ---- */

static void on_ask(checker *c, const sim_event *e)
{
    task *t = &c->tasks[e->task];

    *t = (task){.state = ASKED,
                .life = e->life,
                .key = e->key,
                .mode = e->mode,
                .flags = e->flags,
                .places = e->count,
                .asked = e->at,
                .wait_until = e->until,
                .session = e->num,
                .floor = c->keys[e->key].told_max};
    if (e->task >= c->task_count)
        c->task_count = e->task + 1;
}

/* The store's grant behind a token that a caller was told. */
static grant *find_grant(key_state *key, uint8_t life, uint64_t token)
{
    for (size_t i = key->grant_count; i-- > 0;) {
        grant *g = &key->grants[i];

        if (g->life == life && token >= g->token && token - g->token < g->run)
            return g;
    }
    return NULL;
}

static void check_token(checker *c, const sim_event *e, const task *t)
{
    key_state *key = &c->keys[e->key];

    for (uint32_t i = 0; i < c->task_count; i++) {
        const task *other = &c->tasks[i];

        if (i == e->task || other->key != e->key || other->token != e->token)
            continue;
        if (!(e->flags & SIM_AGAIN))
            convict(c, 2, e->task, i, "token %llu was given to request %u",
                    (unsigned long long)e->token, i);
        return;
    }
    if (e->flags & SIM_AGAIN)
        convict(c, 2, e->task, e->task, "taken again with a token of its own");
    else if (e->token <= t->floor ||
             (e->mode == HF_EXCLUSIVE && e->until > e->at &&
              !(e->flags & SIM_DOUBT) && e->token <= key->told_max))
        convict(c, 2, e->task, e->task,
                "token %llu does not rise: %llu was told before",
                (unsigned long long)e->token,
                (unsigned long long)key->told_max);
}

/* In one process nobody is served before one who asked earlier and waits. */
static void check_line(checker *c, const sim_event *e)
{
    const task *me = &c->tasks[e->task];

    if (e->mode != HF_EXCLUSIVE || (e->flags & SIM_AGAIN))
        return;
    for (uint32_t i = 0; i < c->task_count; i++) {
        const task *other = &c->tasks[i];

        if (other->state == ASKED && other->life == e->life &&
            other->key == e->key && other->mode == HF_EXCLUSIVE &&
            other->asked < me->asked && !other->cancelled &&
            !(other->flags & SIM_TRY) && other->wait_until > e->at &&
            other->session == e->num && other->session != 0 &&
            me->session == e->num)
            convict(c, 7, e->task, i,
                    "request %u is served before %u of the same process, "
                    "which asked first",
                    e->task, i);
    }
}

static void on_grant(checker *c, const sim_event *e)
{
    task *t = &c->tasks[e->task];
    key_state *key = &c->keys[e->key];
    grant *g = find_grant(key, e->life, e->token);

    if (t->state != ASKED) {
        convict(c, 4, e->task, e->task, "request %u is answered twice",
                e->task);
        return;
    }
    if (!g)
        convict(c, 4, e->task, e->task,
                "token %llu is told, but the store never granted it",
                (unsigned long long)e->token);
    else if (c->calm && g->at >= c->calm && !g->told &&
             e->at - g->at > TELL_NS)
        convict(c, 6, e->task, e->task,
                "the store granted %lld ms before it is told",
                (long long)((e->at - g->at) / 1000000));
    if (e->flags & SIM_OVER)
        convict(c, 4, e->task, e->task,
                "a hold is handed out whose session is over");
    if (g && g->lost && e->at > g->lost + SLACK_NS)
        convict(c, 4, e->task, e->task, "a hold that was lost is handed on");
    if (g)
        g->told = true;
    check_token(c, e, t);
    check_line(c, e);
    t->state = HELD;
    t->granted = e->at;
    t->token = e->token;
    t->until = e->flags & SIM_DOUBT ? e->at : e->until;
    t->longest = e->until;
    if (e->token > key->told_max)
        key->told_max = e->token;
    if (key->active_count < ACTIVE_MAX)
        key->active[key->active_count++] = e->task;
    check_alone(c, e->task, e->at);
}

static void on_belief(checker *c, const sim_event *e)
{
    task *t = &c->tasks[e->task];

    if (t->state == LOST) {
        convict(c, 4, e->task, e->task, "request %u is lost, then held again",
                e->task);
        return;
    }
    if (t->state != HELD)
        return;
    t->until = e->until;
    if (e->until > t->longest)
        t->longest = e->until;
    check_alone(c, e->task, e->at);
}

static void on_gone(checker *c, const sim_event *e)
{
    task *t = &c->tasks[e->task];
    grant *g = find_grant(&c->keys[t->key], t->life, t->token);

    if (t->state != HELD)
        return;
    if (g && !g->lost)
        g->lost = e->at;
    if ((e->flags & SIM_STANDING) && e->at + SLACK_NS < t->longest)
        convict(c, 4, e->task, e->task,
                "told lost with %lld ms left, and the store still has it",
                (long long)((t->longest - e->at) / 1000000));
    t->state = LOST;
    t->until = e->at;
}

static void on_release(checker *c, const sim_event *e)
{
    task *t = &c->tasks[e->task];

    if (t->until > e->at)
        t->until = e->at;
    t->state = RELEASING;
    remove_active(&c->keys[t->key], e->task);
}

static void on_released(checker *c, const sim_event *e)
{
    task *t = &c->tasks[e->task];

    if (t->state != RELEASING)
        convict(c, 4, e->task, e->task, "a release is answered twice");
    if (e->code == 0 && t->rival)
        convict(c, 4, e->task, e->task,
                "the release says that it was held all the time, but another "
                "was granted");
    if (e->code == HF_EINTERNAL || e->code == HF_ENOTHELD ||
        e->code == HF_EOWNER)
        convict(c, 4, e->task, e->task, "a release is answered %s",
                hf_error_name(e->code));
    t->state = DONE;
}

static void on_refused(checker *c, const sim_event *e)
{
    task *t = &c->tasks[e->task];
    bool fits = true;

    if (t->state != ASKED) {
        convict(c, 4, e->task, e->task, "request %u is answered twice",
                e->task);
        return;
    }
    switch (e->code) {
    case HF_EBUSY:
        fits = t->flags & SIM_TRY;
        break;
    case HF_ETIMEDOUT:
        fits = !(t->flags & SIM_TRY) && e->at + SLACK_NS >= t->wait_until;
        break;
    case HF_ECANCELED:
        fits = t->cancelled;
        break;
    case HF_EDEADLK:
    case HF_EEXPIRED:
    case HF_EUNKNOWN:
        fits = t->flags & SIM_OWNED;
        break;
    case HF_EUNAVAIL:
    case HF_ENOMEM:
    case HF_EFULL:
        break;
    default:
        fits = false;
    }
    if (!fits)
        convict(c, 4, e->task, e->task, "request %u is refused with %s, which "
                "has no ground", e->task, hf_error_name(e->code));
    finish_task(c, e->task, e->at);
}

static void on_act(checker *c, const sim_event *e)
{
    const task *t = &c->tasks[e->task];
    key_state *key = &c->keys[e->key];

    if (e->mode != HF_EXCLUSIVE)
        return;
    if (e->token >= key->acted)
        key->acted = e->token;
    else if (t->state == HELD && t->until > e->at)
        convict(c, 3, e->task, e->task,
                "the resource saw token %llu and refuses %llu, which is held",
                (unsigned long long)key->acted, (unsigned long long)e->token);
}

static void on_end_of_life(checker *c, const sim_event *e)
{
    for (uint32_t i = 0; i < c->task_count; i++) {
        if (c->tasks[i].life == e->life && c->tasks[i].state != UNSEEN &&
            c->tasks[i].state != DONE)
            finish_task(c, i, e->at);
    }
}

/* ---- what the store did ---- */

static void check_rivals(checker *c, const sim_event *e)
{
    key_state *key = &c->keys[e->key];
    uint32_t together = 1;

    for (size_t i = 0; i < key->active_count; i++) {
        task *t = &c->tasks[key->active[i]];

        if (t->life == e->life && t->token >= e->token &&
            t->token - e->token < e->count)
            continue;
        if (excludes(t->mode, e->mode))
            t->rival = true;
        if (t->until <= e->at)
            continue;
        together++;
        if (excludes(t->mode, e->mode))
            convict(c, 5, key->active[i], key->active[i],
                    "the store grants token %llu while request %u still "
                    "believes for %lld ms",
                    (unsigned long long)e->token, key->active[i],
                    (long long)((t->until - e->at) / 1000000));
        else if (e->mode == HF_PERMIT && together > t->places)
            convict(c, 5, key->active[i], key->active[i],
                    "the store grants one place more than there are");
    }
}

static void on_store_grant(checker *c, const sim_event *e)
{
    key_state *key = &c->keys[e->key];

    if (e->token <= key->granted_token)
        convict(c, 2, 0, 0, "the store grants token %llu after %llu",
                (unsigned long long)e->token,
                (unsigned long long)key->granted_token);
    if (e->num <= key->granted_num)
        convict(c, 7, 0, 0, "the store grants place %llu after %llu",
                (unsigned long long)e->num,
                (unsigned long long)key->granted_num);
    key->granted_token = e->token + e->count - 1;
    key->granted_num = e->num;
    check_rivals(c, e);
    if (key->grant_count < GRANTS_MAX)
        key->grants[key->grant_count++] = (grant){.at = e->at,
                                                  .token = e->token,
                                                  .num = e->num,
                                                  .run = e->count,
                                                  .life = e->life,
                                                  .mode = e->mode};
}

static void on_served(checker *c)
{
    for (uint32_t i = 0; i < c->task_count; i++) {
        task_state state = c->tasks[i].state;

        if (state == ASKED)
            convict(c, 9, i, i, "request %u was never answered", i);
        else if (state == RELEASING)
            convict(c, 9, i, i, "the release of %u was never answered", i);
    }
}

static void on_end(checker *c, const sim_event *e)
{
    if (e->count)
        convict(c, 8, 0, 0, "%u entries or sessions are left in the store",
                e->count);
    if (e->num)
        convict(c, 8, 0, 0, "%llu blocks of memory are left",
                (unsigned long long)e->num);
}

static void look_at(checker *c, const sim_event *e)
{
    switch ((sim_event_kind)e->kind) {
    case SIM_ASK:
        on_ask(c, e);
        break;
    case SIM_GRANT:
        on_grant(c, e);
        break;
    case SIM_BELIEF:
        on_belief(c, e);
        break;
    case SIM_CUT:
        if (c->tasks[e->task].until > e->at)
            c->tasks[e->task].until = e->at;
        break;
    case SIM_GONE:
        on_gone(c, e);
        break;
    case SIM_RELEASE:
        on_release(c, e);
        break;
    case SIM_RELEASED:
        on_released(c, e);
        break;
    case SIM_REFUSED:
        on_refused(c, e);
        break;
    case SIM_CANCEL:
        c->tasks[e->task].cancelled = true;
        break;
    case SIM_ACT:
        on_act(c, e);
        break;
    case SIM_CLOSE:
    case SIM_CRASH:
        on_end_of_life(c, e);
        break;
    case SIM_STORE_GRANT:
        on_store_grant(c, e);
        break;
    case SIM_CALM:
        c->calm = e->at;
        break;
    case SIM_SERVED:
        on_served(c);
        break;
    case SIM_END:
        on_end(c, e);
        break;
    case SIM_OPEN:
    case SIM_STORE_END:
        break;
    }
}

bool sim_check(const sim_history *history, sim_verdict *ret)
{
    static checker c;

    memset(c.tasks, 0, c.task_count * sizeof *c.tasks);
    for (size_t i = 0; i < SIM_KEYS; i++) {
        key_state *key = &c.keys[i];

        key->told_max = key->granted_num = key->granted_token = key->acted = 0;
        key->active_count = key->grant_count = 0;
    }
    c.history = history;
    c.verdict = ret;
    c.task_count = 0;
    c.calm = 0;
    *ret = (sim_verdict){.invariant = 0};
    for (c.i = 0; c.i < history->count && !ret->invariant; c.i++)
        look_at(&c, &history->events[c.i]);
    return ret->invariant == 0;
}

void sim_print_verdict(FILE *out, const sim_history *history,
                       const sim_verdict *verdict)
{
    fprintf(out, "I%d broken: %s\n", verdict->invariant, verdict->text);
    for (size_t i = 0; i <= verdict->at && i < history->count; i++) {
        const sim_event *e = &history->events[i];
        bool store = e->kind == SIM_STORE_GRANT || e->kind == SIM_STORE_END;

        if (e->kind == SIM_CALM || i == verdict->at ||
            (store && e->key == verdict->key) ||
            (!store && verdict->task &&
             (e->task == verdict->task || e->task == verdict->rival)))
            sim_print_event(out, e);
    }
}
