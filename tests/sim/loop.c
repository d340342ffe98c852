/* loop.c - the heap of what is to happen, and who may run now.
 *
 * Messages and other single events stand in a heap; each client's keeper and
 * application have one alarm each, which is set anew all the time, so these
 * are two fields that are looked at, not two more entries that go stale.
 *
 * Steps of a client that is stopped inside a call of its own are parked until
 * it goes on; steps of a client that is paused between two calls wait in the
 * same way.  Messages on their way to the store wait for nobody.
 *
 * Equal instants happen in the order in which they were planned, so a seed
 * replays exactly. */
#include "sim/sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS_MAX = 200000 }; /* a history that needs more is stuck */

void sim_trace(const sim_world *w, const char *format, ...)
{
    va_list args;

    if (!w->trace)
        return;
    printf("%12.6f    . ", (double)w->now / 1e9);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

static bool is_before(const sim_step *a, const sim_step *b)
{
    return a->at != b->at ? a->at < b->at : a->seq < b->seq;
}

static void push_step(sim_world *w, sim_step step)
{
    size_t i;

    if (w->step_count + 1 >= w->step_room) {
        size_t room = w->step_room ? w->step_room * 2 : 512;
        sim_step *grown = realloc(w->steps, room * sizeof *grown);

        if (!grown)
            abort();
        w->steps = grown;
        w->step_room = room;
    }
    step.seq = w->next_seq++;
    for (i = ++w->step_count; i > 1 && is_before(&step, &w->steps[i / 2]);
         i /= 2)
        w->steps[i] = w->steps[i / 2];
    w->steps[i] = step;
}

static sim_step pop_step(sim_world *w)
{
    sim_step first = w->steps[1];
    sim_step last = w->steps[w->step_count--];
    size_t i = 1, child;

    while ((child = 2 * i) <= w->step_count) {
        if (child < w->step_count &&
            is_before(&w->steps[child + 1], &w->steps[child]))
            child++;
        if (!is_before(&w->steps[child], &last))
            break;
        w->steps[i] = w->steps[child];
        i = child;
    }
    w->steps[i] = last;
    return first;
}

void sim_plan(sim_world *w, hf_nsec at, sim_step_kind kind, sim_client *c,
              void *what)
{
    push_step(w, (sim_step){.at = at > w->now ? at : w->now,
                            .kind = kind,
                            .client = c,
                            .life = c ? c->life : 0,
                            .what = what});
}

static void park_step(sim_client *c, const sim_step *step)
{
    if (c->parked_count == c->parked_room) {
        size_t room = c->parked_room ? c->parked_room * 2 : 64;
        sim_step *grown = realloc(c->parked, room * sizeof *grown);

        if (!grown)
            abort();
        c->parked = grown;
        c->parked_room = room;
    }
    c->parked[c->parked_count++] = *step;
}

void sim_unpark(sim_world *w, sim_client *c)
{
    if (c->frames > 0 || c->paused_until > w->now)
        return;
    for (size_t i = 0; i < c->parked_count; i++) {
        c->parked[i].at = w->now;
        push_step(w, c->parked[i]);
    }
    c->parked_count = 0;
}

static bool goes_to_store(const sim_step *step)
{
    return step->kind == SIM_STEP_REQUEST || step->kind == SIM_STEP_AGAIN;
}

static void do_step(sim_world *w, const sim_step *step)
{
    sim_client *c = step->client;

    if (c && !goes_to_store(step) && step->life == c->life &&
        step->kind != SIM_STEP_RESUME &&
        (c->frames > 0 || c->paused_until > w->now)) {
        park_step(c, step);
        return;
    }
    switch (step->kind) {
    case SIM_STEP_CHAOS:
        sim_chaos_step(w);
        break;
    case SIM_STEP_RESUME:
        sim_unpark(w, c);
        break;
    case SIM_STEP_OPEN:
        if (step->life == c->life && c->inside == 0)
            sim_client_open(c);
        else if (step->life == c->life)
            sim_plan(w, w->now + 1000000, SIM_STEP_OPEN, c, NULL);
        break;
    default:
        sim_net_step(w, step);
        break;
    }
}

/* Who among the clients has the next alarm, and when; NULL: nobody. */
static sim_client *next_alarm(sim_world *w, hf_nsec *ret_at)
{
    sim_client *first = NULL;

    *ret_at = HF_NEVER;
    for (int i = 0; i < w->client_count; i++) {
        sim_client *c = &w->clients[i];
        hf_nsec at = c->keeper_at;

        if (!c->session || c->frames > 0 || c->paused_until > w->now)
            continue;
        if (c->app_at < at && !c->closing)
            at = c->app_at;
        if (at < *ret_at) {
            *ret_at = at;
            first = c;
        }
    }
    return first;
}

static void ring_alarm(sim_client *c)
{
    if (c->app_at < c->keeper_at && !c->closing)
        sim_client_act(c);
    else
        sim_client_keep(c);
}

bool sim_run_one(sim_world *w, hf_nsec until)
{
    sim_client *cur = w->cur;
    hf_nsec at = w->step_count ? w->steps[1].at : HF_NEVER, alarm_at;
    sim_client *alarm = next_alarm(w, &alarm_at);

    if (alarm_at >= at)
        alarm = NULL;
    else
        at = alarm_at;
    if (at > until || at == HF_NEVER)
        return false;
    if (++w->steps_done > STEPS_MAX) {
        w->stuck = true;
        longjmp(w->way_out, 1);
    }
    if (at > w->now)
        w->now = at;
    w->depth++;
    w->cur = NULL;
    if (alarm) {
        ring_alarm(alarm);
    } else {
        sim_step step = pop_step(w);

        do_step(w, &step);
    }
    w->cur = cur;
    w->depth--;
    return true;
}

void sim_run_until(sim_world *w, hf_nsec until)
{
    while (sim_run_one(w, until))
        ;
    if (w->now < until)
        w->now = until;
}
