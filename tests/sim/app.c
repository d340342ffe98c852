/* app.c - what a client does with its locks, and what it believes.
 *
 * An event loop with a handful of requests: it asks in all the ways that the
 * public header offers, works for a while, writes to the resource with its
 * token, renews, cancels, releases.  It behaves: it stops when it is told that
 * a hold is lost, and gives it back.
 *
 * Its belief is what the library tells it: hf_hold_check said 0, and
 * hf_hold_remaining_ms said how long.  The second is asked first, so that a
 * pause in between makes the belief shorter, not longer. */
#include "sim/sim.h"

#include <string.h>

#include "core/internal.h"

static sim_event *record(sim_client *c, sim_event_kind kind, const sim_task *t)
{
    sim_event *e = sim_record(&c->world->history, kind, c->world->now);

    e->life = (uint8_t)c->life;
    if (t) {
        e->task = t->id;
        e->key = t->key;
        e->mode = t->mode;
        e->token = t->token;
    }
    return e;
}

static sim_task *find_task(sim_client *c, const void *user)
{
    for (int i = 0; i < SIM_HOLDS; i++) {
        sim_task *t = &c->tasks[i];

        if (t->state != SIM_TASK_FREE && t->id == (uint32_t)(uintptr_t)user)
            return t;
    }
    return NULL;
}

bool sim_app_idle(const sim_client *c)
{
    for (int i = 0; i < SIM_HOLDS; i++) {
        if (c->tasks[i].state != SIM_TASK_FREE)
            return false;
    }
    return true;
}

void sim_app_end(sim_client *c, sim_event_kind kind)
{
    record(c, kind, NULL);
    memset(c->tasks, 0, sizeof c->tasks);
}

void sim_app_forget(sim_client *c)
{
    for (int i = 0; i < SIM_HOLDS; i++) {
        if (c->tasks[i].state == SIM_TASK_HELD)
            record(c, SIM_CUT, &c->tasks[i]);
    }
}

static void plan_next(sim_client *c)
{
    sim_world *w = c->world;

    c->app_at = w->now + sim_span(w, HF_MS(1), HF_MS(180));
}

void sim_app_begin(sim_client *c)
{
    memset(c->tasks, 0, sizeof c->tasks);
    plan_next(c);
}

/* ---- beliefs ---- */

/* When it ends, as told; *ret_code is what the check says. */
static hf_nsec ask_remaining(sim_client *c, sim_task *t, int *ret_code)
{
    unsigned freezes = c->freezes;
    hf_nsec boot = sim_boot_of(c, c->world->now);
    int64_t left = hf_hold_remaining_ms(t->hold);

    *ret_code = hf_hold_check(t->hold, NULL);
    if (left > 60000)
        left = 60000;
    if (c->freezes != freezes)
        *ret_code = HF_EUNKNOWN; /* it fell asleep over the question */
    return sim_true_of(c, boot + HF_MS(left)) - 2000;
}

static void is_lost(sim_client *c, sim_task *t, int code)
{
    sim_world *w = c->world;
    sim_event *e;

    if (t->state != SIM_TASK_HELD)
        return;
    t->state = SIM_TASK_LOST;
    t->let_go = w->now + sim_span(w, 0, HF_MS(100));
    e = record(c, SIM_GONE, t);
    e->code = code;
    if (sim_store_has(w, t->key, t->token))
        e->flags |= SIM_STANDING;
}

static void look_at_hold(sim_client *c, sim_task *t)
{
    int code;
    hf_nsec until = ask_remaining(c, t, &code);

    if (code == 0)
        record(c, SIM_BELIEF, t)->until = until;
    else if (code == HF_EUNKNOWN)
        record(c, SIM_CUT, t);
    else
        is_lost(c, t, code);
}

static void write_resource(sim_client *c, sim_task *t)
{
    look_at_hold(c, t);
    if (t->state == SIM_TASK_HELD)
        record(c, SIM_ACT, t);
}

/* ---- results ---- */

static bool has_again(const sim_client *c, const sim_task *t)
{
    for (int i = 0; i < SIM_HOLDS; i++) {
        const sim_task *o = &c->tasks[i];

        if (o != t && o->key == t->key && o->token == t->token &&
            o->owner == t->owner && t->owner != HF_OWNER_HOLD &&
            (o->state == SIM_TASK_HELD || o->state == SIM_TASK_LOST))
            return true;
    }
    return false;
}

/* Was it handed out although the session had ended before the step that did it
 * began?  Nobody can say once the client was stopped in between. */
static bool was_over(const sim_client *c, const sim_task *t, int code)
{
    const hf__lease *lease = &c->core->lease;

    return t->bound && hf_error_class(code) == HF_CLASS_LOST &&
           !c->stopped_now &&
           c->step_boot >= lease->deadline - lease->stop_margin;
}

static void is_granted(sim_client *c, sim_task *t, hf_hold *hold)
{
    sim_world *w = c->world;
    sim_event *e;
    hf_nsec until;
    int code;

    t->hold = hold;
    t->request = NULL;
    t->state = SIM_TASK_HELD;
    t->token = hf_hold_token(hold);
    t->let_go = w->now + (sim_chance(w, 8) ? sim_span(w, 0, HF_MS(4000))
                                           : sim_span(w, 0, HF_MS(300)));
    if (w->healed)
        t->let_go = w->now + sim_span(w, 0, HF_MS(20));
    until = ask_remaining(c, t, &code);
    e = record(c, SIM_GRANT, t);
    e->until = until;
    e->num = c->core->gen;
    if (code)
        e->flags |= SIM_DOUBT;
    if (has_again(c, t))
        e->flags |= SIM_AGAIN;
    else if (was_over(c, t, code))
        e->flags |= SIM_OVER;
    if (code && code != HF_EUNKNOWN)
        is_lost(c, t, code);
}

static void take_result(sim_client *c, const hf_result *r)
{
    sim_task *t = find_task(c, r->user);
    int code = r->error.code;

    if (!t)
        return; /* of a hold that was given back */
    switch (r->kind) {
    case HF_RESULT_LOCK:
        if (code == 0) {
            is_granted(c, t, r->hold);
        } else {
            record(c, SIM_REFUSED, t)->code = code;
            t->state = SIM_TASK_FREE;
        }
        break;
    case HF_RESULT_RELEASE:
        record(c, SIM_RELEASED, t)->code = code;
        t->state = SIM_TASK_FREE;
        break;
    case HF_RESULT_RENEW:
    case HF_RESULT_PUBLISH:
        t->renewing = false;
        if (t->state == SIM_TASK_HELD)
            look_at_hold(c, t);
        break;
    case HF_RESULT_CHANGE:
        if (t->state == SIM_TASK_HELD && r->state == HF_LOST)
            is_lost(c, t, code);
        break;
    }
}

static void give_back(sim_client *c, sim_task *t)
{
    sim_task_state state = t->state;

    record(c, SIM_RELEASE, t);
    t->state = SIM_TASK_RELEASING;
    if (hf_release_start(t->hold, (void *)(uintptr_t)t->id, NULL, NULL) != 0) {
        t->state = state; /* out of memory: nothing was done */
        t->let_go = c->world->now + HF_MS(10);
    }
}

static void collect_results(sim_client *c)
{
    hf_result r;

    while (hf_collect(c->session, &r) == 1)
        take_result(c, &r);
}

void sim_app_look(sim_client *c)
{
    sim_world *w = c->world;
    hf_nsec next = HF_NEVER;

    collect_results(c);
    for (int i = 0; i < SIM_HOLDS; i++) {
        sim_task *t = &c->tasks[i];

        if (t->state != SIM_TASK_HELD && t->state != SIM_TASK_LOST)
            continue;
        if (w->healed && t->let_go > w->now + HF_MS(100))
            t->let_go = w->now + HF_MS(20);
        if (t->let_go <= w->now)
            give_back(c, t);
        else if (t->state == SIM_TASK_HELD && sim_chance(w, 3))
            look_at_hold(c, t);
        if (t->state != SIM_TASK_RELEASING && t->let_go < next)
            next = t->let_go;
    }
    collect_results(c); /* of what was just given back */
    if (w->healed)
        c->app_at = next;
}

/* ---- what it wants ---- */

static void draw_wait(sim_client *c, hf_lock_options *o, bool plain)
{
    sim_world *w = c->world;

    if (plain || sim_chance(w, 3))
        o->wait_ms = HF_FOREVER;
    else if (sim_chance(w, 3))
        o->wait_ms = 0;
    else
        o->wait_ms = sim_span(w, 1, 3000);
}

static void draw_extras(sim_client *c, hf_lock_options *o)
{
    sim_world *w = c->world;

    if (sim_chance(w, 6))
        o->lease_ms = sim_span(w, 500, 2000);
    else if (sim_chance(w, 8))
        o->at_most_ms = sim_span(w, 500, 2000);
    if (sim_chance(w, 12))
        o->at_least_ms = sim_span(w, 1, 600);
    if (sim_chance(w, 3))
        o->owner = sim_below(&w->chance, 2) + 1;
    if (sim_chance(w, 16) && !w->each) {
        o->value = "v";
        o->value_len = 1;
    }
}

static void draw_mode(const sim_world *w, hf_lock_options *o, uint8_t key,
                      uint64_t dice)
{
    o->mode = (hf_mode)w->key_mode[key];
    if (o->mode == HF_PERMIT)
        o->places = w->key_places[key];
    else if (o->mode == HF_SHARED && dice % 2)
        o->mode = HF_EXCLUSIVE; /* readers and writers on one key */
}

void sim_app_ask(sim_client *c, uint8_t key, bool plain)
{
    sim_world *w = c->world;
    hf_lock_options o = {HF_LOCK_OPTIONS, .owner = HF_OWNER_HOLD};
    hf_nsec boot = sim_boot_of(c, w->now);
    sim_task *t = c->tasks;
    sim_event *e;
    int code;

    while (t < c->tasks + SIM_HOLDS && t->state != SIM_TASK_FREE)
        t++;
    if (t == c->tasks + SIM_HOLDS || w->next_task + 1 >= SIM_TASKS)
        return;
    draw_wait(c, &o, plain);
    draw_mode(w, &o, key, sim_random(&w->chance) >> 20);
    if (!plain)
        draw_extras(c, &o);
    *t = (sim_task){.state = SIM_TASK_ASKED,
                    .id = ++w->next_task,
                    .key = key,
                    .mode = (uint8_t)o.mode,
                    .bound = !o.lease_ms && !o.at_most_ms,
                    .owner = o.owner};
    e = record(c, SIM_ASK, t);
    e->num = c->core->gen;
    e->count = o.places;
    e->until = o.wait_ms == HF_FOREVER
                   ? INT64_MAX
                   : sim_true_of(c, boot + HF_MS(o.wait_ms));
    e->flags = (uint8_t)((o.wait_ms == 0 ? SIM_TRY : 0) |
                         (o.owner != HF_OWNER_HOLD ? SIM_OWNED : 0));
    code = hf_lock_start(c->session, sim_keys[key], &o,
                         (void *)(uintptr_t)t->id, &t->request, NULL);
    if (code) {
        record(c, SIM_REFUSED, t)->code = code;
        t->state = SIM_TASK_FREE;
    }
}

static void touch_task(sim_client *c, sim_task *t)
{
    sim_world *w = c->world;

    if (t->state == SIM_TASK_ASKED) {
        if (sim_chance(w, 3) && !t->cancelled) {
            t->cancelled = true;
            record(c, SIM_CANCEL, t);
            hf_cancel(t->request, NULL);
        }
    } else if (t->state == SIM_TASK_HELD) {
        switch (sim_below(&w->chance, 4)) {
        case 0:
            if (!t->renewing)
                t->renewing = hf_renew_start(t->hold, (void *)(uintptr_t)t->id,
                                             NULL, NULL) == 0;
            break;
        case 1:
            if (!t->renewing)
                t->renewing =
                    hf_publish_start(t->hold, "w", 1, (void *)(uintptr_t)t->id,
                                     NULL, NULL) == 0;
            break;
        case 2:
            give_back(c, t);
            break;
        default:
            write_resource(c, t);
            break;
        }
    }
}

void sim_app_act(sim_client *c)
{
    sim_world *w = c->world;

    if (w->healed)
        return;
    if (sim_has(w, SIM_FAULT_CLOSE) && sim_chance(w, 40)) {
        sim_client_close(c);
        sim_plan(w, w->now + sim_span(w, 0, HF_MS(300)), SIM_STEP_OPEN, c,
                 NULL);
        return;
    }
    if (sim_chance(w, 3))
        touch_task(c, &c->tasks[sim_below(&w->chance, SIM_HOLDS)]);
    else
        sim_app_ask(c, (uint8_t)sim_below(&w->chance, w->key_count), false);
    plan_next(c);
}
