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
 *       reason, a dying hold is not handed out, nobody who asks in calm
 *       weather is told to come again
 *   I5  a belief ends before the store grants to a rival
 *   I6  in calm weather a grant is told at once
 *   I7  first come, first served: in the store, and in one process
 *   I8  nothing is left behind
 *   I9  with faults healed, everybody is served or told
 *   I10 there is a whole record to judge; the rest of it is main.c's
 *
 * A belief is [told, until): `until` is what the caller was told remains, in
 * true time, so a caller who is paused past it is no violation. */
#include "sim/rules.h"

#include <stdarg.h>
#include <string.h>

void sim_convict(checker *c, int invariant, uint32_t who, uint32_t rival,
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
            sim_convict(c, 5, key->active[i], key->active[i],
                        "the store grants token %llu while request %u still "
                        "believes for %lld ms",
                        (unsigned long long)e->token, key->active[i],
                        (long long)((t->until - e->at) / 1000000));
        else if (e->mode == HF_PERMIT && together > t->places)
            sim_convict(c, 5, key->active[i], key->active[i],
                        "the store grants one place more than there are");
    }
}

static void on_store_grant(checker *c, const sim_event *e)
{
    key_state *key = &c->keys[e->key];

    if (e->token <= key->granted_token)
        sim_convict(c, 2, 0, 0, "the store grants token %llu after %llu",
                    (unsigned long long)e->token,
                    (unsigned long long)key->granted_token);
    if (e->num <= key->granted_num)
        sim_convict(c, 7, 0, 0, "the store grants place %llu after %llu",
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
            sim_convict(c, 9, i, i, "request %u was never answered", i);
        else if (state == RELEASING)
            sim_convict(c, 9, i, i, "the release of %u was never answered", i);
    }
}

static void on_end(checker *c, const sim_event *e)
{
    if (e->count)
        sim_convict(c, 8, 0, 0, "%u entries or sessions are left in the store",
                    e->count);
    if (e->num)
        sim_convict(c, 8, 0, 0, "%llu blocks of memory are left",
                    (unsigned long long)e->num);
}

static void look_at(checker *c, const sim_event *e)
{
    if (sim_check_caller(c, e))
        return;
    switch ((sim_event_kind)e->kind) {
    case SIM_STORE_GRANT:
        on_store_grant(c, e);
        break;
    case SIM_BREAK:
        c->keys[e->key].broken = true;
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
    default:
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
        key->broken = false;
    }
    c.history = history;
    c.verdict = ret;
    c.task_count = 0;
    c.calm = 0;
    *ret = (sim_verdict){.invariant = 0};
    for (c.i = 0; c.i < history->count && !ret->invariant; c.i++)
        look_at(&c, &history->events[c.i]);
    if (history->full && history->count) {
        c.i = history->count - 1;
        sim_convict(&c, 10, 0, 0, "the record is full: the rest is missing");
    }
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
