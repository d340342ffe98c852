/* callers.c - the rules about what callers were told.
 *
 * Keeps for every request what its caller believes, and convicts answers that
 * contradict each other or the store (I1 to I4, I6, the line in I7).  Time only
 * moves forward here: a belief is checked when it begins or grows, against all
 * that are alive at that instant, and so no overlap can be missed. */
#include "sim/rules.h"

enum { SLACK_NS = 2000000, TELL_NS = 500000000 };

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
            sim_convict(c, 1, me, other,
                        "requests %u and %u both believe that they hold key %d",
                        me, other, mine->key);
    }
    if (mine->mode == HF_PERMIT && together > mine->places)
        sim_convict(c, 1, me, me, "%u hold one of %u places of key %d",
                    together, mine->places, mine->key);
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
            sim_convict(c, 2, e->task, i, "token %llu was given to request %u",
                        (unsigned long long)e->token, i);
        return;
    }
    if (e->flags & SIM_AGAIN)
        sim_convict(c, 2, e->task, e->task,
                    "taken again with a token of its own");
    else if (e->token <= t->floor ||
             (e->mode == HF_EXCLUSIVE && e->until > e->at &&
              !(e->flags & SIM_DOUBT) && e->token <= key->told_max))
        sim_convict(c, 2, e->task, e->task,
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
            sim_convict(c, 7, e->task, i,
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
        sim_convict(c, 4, e->task, e->task, "request %u is answered twice",
                    e->task);
        return;
    }
    if (!g)
        sim_convict(c, 4, e->task, e->task,
                    "token %llu is told, but the store never granted it",
                    (unsigned long long)e->token);
    else if (c->calm && g->at >= c->calm && !g->told && e->at - g->at > TELL_NS)
        sim_convict(c, 6, e->task, e->task,
                    "the store granted %lld ms before it is told",
                    (long long)((e->at - g->at) / 1000000));
    if (e->flags & SIM_OVER)
        sim_convict(c, 4, e->task, e->task,
                    "a hold is handed out whose session is over");
    if (g && g->lost && e->at > g->lost + SLACK_NS)
        sim_convict(c, 4, e->task, e->task,
                    "a hold that was lost is handed on");
    if (g)
        g->told = true;
    check_token(c, e, t);
    check_line(c, e);
    t->state = HELD;
    t->granted = e->at;
    t->token = e->token;
    t->until = e->flags & SIM_DOUBT ? e->at : e->until;
    t->longest = t->until;
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
        sim_convict(c, 4, e->task, e->task,
                    "request %u is lost, then held again", e->task);
        return;
    }
    if (t->state != HELD)
        return;
    t->until = e->until;
    if (e->until > t->longest)
        t->longest = e->until;
    check_alone(c, e->task, e->at);
}

/* What was told before a clock was in doubt binds nobody any more: a loss may
 * come earlier now. */
static void on_cut(task *t, int64_t at)
{
    if (t->until > at)
        t->until = at;
    if (t->longest > at)
        t->longest = at;
}

static void on_gone(checker *c, const sim_event *e)
{
    task *t = &c->tasks[e->task];
    grant *g = find_grant(&c->keys[t->key], t->life, t->token);

    if (t->state != HELD)
        return;
    if (g && !g->lost)
        g->lost = e->at;
    if (e->code == HF_EFORCED
            ? !c->keys[t->key].broken
            : (e->flags & SIM_STANDING) && e->at + SLACK_NS < t->longest)
        sim_convict(c, 4, e->task, e->task,
                    "told lost with %lld ms left, and the store still has it",
                    (long long)((t->longest - e->at) / 1000000));
    t->state = LOST;
    t->until = e->at;
}

/* Is "come again later" an answer to this request?  The weather's fault, or
 * nobody's: who asks when it is calm must be served (I6, I9). */
static bool has_weather(const checker *c, const task *t)
{
    return !c->calm || t->asked < c->calm;
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
        sim_convict(c, 4, e->task, e->task, "a release is answered twice");
    if (e->code == 0 && t->rival)
        sim_convict(
            c, 4, e->task, e->task,
            "the release says that it was held all the time, but another "
            "was granted");
    if (e->code == HF_EINTERNAL || e->code == HF_ENOTHELD ||
        e->code == HF_EOWNER ||
        (!has_weather(c, t) &&
         (e->code == HF_EUNAVAIL || e->code == HF_ENOMEM ||
          e->code == HF_EUNKNOWN)))
        sim_convict(c, 4, e->task, e->task, "a release is answered %s",
                    hf_error_name(e->code));
    t->state = DONE;
}

static void on_refused(checker *c, const sim_event *e)
{
    task *t = &c->tasks[e->task];
    bool fits = true;

    if (t->state != ASKED) {
        sim_convict(c, 4, e->task, e->task, "request %u is answered twice",
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
    case HF_EFORCED:
        fits = c->keys[t->key].broken;
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
        fits = has_weather(c, t);
        break;
    default:
        fits = false;
    }
    if (!fits)
        sim_convict(c, 4, e->task, e->task,
                    "request %u is refused with %s, which "
                    "has no ground",
                    e->task, hf_error_name(e->code));
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
        sim_convict(
            c, 3, e->task, e->task,
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

bool sim_check_caller(checker *c, const sim_event *e)
{
    switch ((sim_event_kind)e->kind) {
    case SIM_ASK:
        on_ask(c, e);
        return true;
    case SIM_GRANT:
        on_grant(c, e);
        return true;
    case SIM_BELIEF:
        on_belief(c, e);
        return true;
    case SIM_CUT:
        on_cut(&c->tasks[e->task], e->at);
        return true;
    case SIM_GONE:
        on_gone(c, e);
        return true;
    case SIM_RELEASE:
        on_release(c, e);
        return true;
    case SIM_RELEASED:
        on_released(c, e);
        return true;
    case SIM_REFUSED:
        on_refused(c, e);
        return true;
    case SIM_CANCEL:
        c->tasks[e->task].cancelled = true;
        return true;
    case SIM_ACT:
        on_act(c, e);
        return true;
    case SIM_CLOSE:
    case SIM_CRASH:
        on_end_of_life(c, e);
        return true;
    default:
        return false;
    }
}
