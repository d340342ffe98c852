/* net.c - the network between the clients and the store.
 *
 * A copy of each operation is put on the wire.  The copy may be lost, late,
 * overtaken or delivered twice; at its arrival the model runs it at the store's
 * clock, and the answer travels back in the same way.  The caller's op is
 * touched once, when it is done: by the reply, or by its deadline, after which
 * a late reply is dropped.
 *
 * Pushes travel alone, and may be lost; but the reply to a renewal carries the
 * session's news, as every store's does.
 *
 * A request is repeated on the wire only while its answer can't arrive: a
 * stream never repeats what was acknowledged, but bytes of an attempt that was
 * given up may still be on their way. */
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

typedef struct sim_news {
    hf_id rid;
    int reason;
} sim_news;

struct sim_call {
    hf_op *op; /* the caller's; NULL: done */
    hf_op copy;
    hf_place place, places[SIM_HOLDS];
    hf_place *pointers[SIM_HOLDS];
    sim_client *client;
    uint32_t life;
    unsigned refs;
    bool mute, answered, used;
    sim_news news[SIM_HOLDS]; /* that its reply carries */
    size_t news_count;
    sim_rows rows; /* that it lists */
    char value[16];
    char text[16];
    sim_call *next;
};

struct sim_push {
    hf_id rid;
    hf_place fresh;
    bool has_fresh;
    int reason;
    sim_push *next;
};

enum { CALLS_MAX = 4096 };
static sim_call *calls[CALLS_MAX];
static size_t call_count;
static sim_call *free_calls;
static sim_push *free_pushes;
static sim_call *renewal; /* that the store runs now */

/* ---- packets ---- */

static sim_call *take_call(void)
{
    sim_call *call = free_calls;

    if (call) {
        free_calls = call->next;
    } else {
        if (call_count == CALLS_MAX)
            abort();
        call = malloc(sizeof *call);
        if (!call)
            abort();
        calls[call_count++] = call;
    }
    call->refs = 0;
    call->mute = call->answered = false;
    call->news_count = call->rows.count = 0;
    call->used = true;
    return call;
}

static void drop_seats(sim_call *call)
{
    if (!call->answered)
        return;
    hfd_free(call->place.seats);
    call->place.seats = NULL;
    for (size_t i = 0; i < call->copy.place_count; i++) {
        hfd_free(call->places[i].seats);
        call->places[i].seats = NULL;
    }
    call->answered = false;
}

static void unref_call(sim_call *call)
{
    if (--call->refs > 0)
        return;
    drop_seats(call);
    call->used = false;
    call->next = free_calls;
    free_calls = call;
}

static sim_push *take_push(void)
{
    sim_push *push = free_pushes;

    if (push)
        free_pushes = push->next;
    else
        push = malloc(sizeof *push);
    if (!push)
        abort();
    return push;
}

static void give_push(sim_push *push)
{
    push->next = free_pushes;
    free_pushes = push;
}

void sim_net_clear(sim_world *w)
{
    for (size_t i = 1; i <= w->step_count; i++) {
        if (w->steps[i].kind == SIM_STEP_PUSH)
            give_push(w->steps[i].what);
    }
    for (int i = 0; i < w->client_count; i++) {
        sim_client *c = &w->clients[i];

        for (size_t j = 0; j < c->parked_count; j++) {
            if (c->parked[j].kind == SIM_STEP_PUSH)
                give_push(c->parked[j].what);
        }
        c->parked_count = 0;
    }
    w->step_count = 0;
    free_calls = NULL;
    for (size_t i = 0; i < call_count; i++) {
        if (calls[i]->used)
            drop_seats(calls[i]);
        calls[i]->used = false;
        calls[i]->next = free_calls;
        free_calls = calls[i];
    }
}

/* The key is the core's memory: the copy names one of ours. */
static const char *lasting_key(const char *key)
{
    for (int i = 0; i < SIM_KEYS; i++) {
        if (sim_keys[i][0] == key[0])
            return sim_keys[i];
    }
    abort();
}

static void copy_place(hf_place *to, const hf_place *from)
{
    *to = *from;
    to->key = lasting_key(from->key);
    to->seats = NULL;
    to->seat_count = 0;
}

static void fill_call(sim_call *call, sim_client *c, hf_op *op)
{
    call->op = op;
    call->client = c;
    call->life = c->life;
    memcpy(&call->copy, op, offsetof(hf_op, error));
    call->copy.error.code = 0;
    call->copy.done = NULL;
    if (op->place) {
        copy_place(&call->place, op->place);
        call->copy.place = &call->place;
    } else {
        call->place.seats = NULL;
    }
    if (op->place_count > SIM_HOLDS)
        abort();
    for (size_t i = 0; i < op->place_count; i++) {
        copy_place(&call->places[i], op->places[i]);
        call->pointers[i] = &call->places[i];
    }
    call->copy.places = call->pointers;
    if (op->value_len) {
        memcpy(call->value, op->value, op->value_len);
        call->copy.value = call->value;
    }
    if (op->text_len) {
        memcpy(call->text, op->text, op->text_len);
        call->copy.text = call->text;
    }
}

/* ---- on the way ---- */

hf_nsec sim_net_delay(sim_world *w)
{
    hf_nsec delay = sim_span(w, HF_MS(1) / 5, HF_MS(3));

    if (sim_has(w, SIM_FAULT_LATE) && sim_chance(w, 8))
        delay = sim_chance(w, 2) ? sim_span(w, 0, HF_MS(400))
                                 : sim_span(w, 0, 3 * w->longest_lease);
    if (w->now + delay > w->longest_late)
        w->longest_late = w->now + delay;
    return delay;
}

static void plan_call(sim_world *w, sim_call *call, sim_step_kind kind)
{
    call->refs++;
    sim_plan(w, w->now + sim_net_delay(w), kind, call->client, call);
}

static void finish(sim_call *call, hf_outcome outcome, int code)
{
    hf_op *op = call->op;

    call->op = NULL;
    if (outcome != HF_APPLIED)
        hfd_error(&op->error, code, "sim", 0, "the store did not answer");
    hfd_finish(op, outcome, code);
}

/* Of the place that a call is about, as the core counts them; 0: none. */
static unsigned rid_of(const sim_call *call)
{
    uint64_t number = 0;

    if (call->copy.place)
        memcpy(&number, call->place.rid.bytes + 8, sizeof number);
    return (unsigned)number;
}

/* A store that keeps no record of the dead cannot tell an attempt that comes a
 * lease too late from a new one.  Its driver closes the connection when it
 * gives an attempt up, and nothing repeats it. */
static bool takes_anew(const sim_world *w, const sim_call *call)
{
    return w->each &&
           (call->copy.kind == HF_OP_JOIN || call->copy.kind == HF_OP_RECHECK);
}

static void send_call(sim_world *w, sim_call *call)
{
    sim_client *c = call->client;
    bool lost = sim_has(w, SIM_FAULT_LOSE) && sim_chance(w, 12);

    call->mute = lost || (sim_has(w, SIM_FAULT_MUTE) && sim_chance(w, 12));
    sim_trace(w, "client %u sends %s %u%s%s%s", c->life,
              sim_op_name(call->copy.kind), rid_of(call),
              call->copy.tomb ? " (tomb)" : "", lost ? ", which is lost" : "",
              call->mute && !lost ? ", whose reply will be lost" : "");
    call->refs++;
    sim_plan(w, sim_true_of(c, call->copy.deadline), SIM_STEP_DEADLINE, c,
             call);
    if (!lost)
        plan_call(w, call, SIM_STEP_REQUEST);
    if (sim_has(w, SIM_FAULT_TWICE) && sim_chance(w, 6) &&
        (call->mute || call->copy.kind != HF_OP_JOIN) && !takes_anew(w, call))
        plan_call(w, call, SIM_STEP_AGAIN);
}

/* Whom to push to. */
static void note_sid(sim_world *w, sim_client *c, const hf_id *sid)
{
    if (w->sid_count == SIM_SIDS)
        abort();
    w->sids[w->sid_count++] =
        (sim_sid){.sid = *sid, .life = (uint8_t)c->life, .client = c};
}

bool sim_net_pending(const hf_op *op)
{
    return ((const sim_call *)op->own[0])->op == op;
}

void sim_net_start(sim_client *c, hf_op *op)
{
    sim_world *w = c->world;
    sim_call *call = take_call();

    fill_call(call, c, op);
    if (op->kind == HF_OP_ATTACH)
        note_sid(w, c, &op->sid);
    op->sent = hfd_now();
    call->copy.sent = op->sent;
    op->own[0] = (uintptr_t)call;
    call->refs++;
    if (sim_has(w, SIM_FAULT_REFUSE) && sim_chance(w, 25)) {
        sim_trace(w, "client %u cannot send its %s", c->life,
                  sim_op_name(op->kind));
        finish(call, HF_NOT_APPLIED, HF_EUNAVAIL);
    } else {
        send_call(w, call);
    }
    unref_call(call);
}

/* ---- at the other end ---- */

static void run_request(sim_world *w, sim_call *call)
{
    if (w->now < w->down_until) {
        sim_trace(w, "the store is down: a %s is lost",
                  sim_op_name(call->copy.kind));
        return;
    }
    if (takes_anew(w, call) && !call->op)
        return;
    sim_trace(w, "store: %s %u of client %u", sim_op_name(call->copy.kind),
              rid_of(call), call->life);
    renewal = call->copy.kind == HF_OP_RENEW ? call : NULL;
    call->copy.emit_row = sim_keep_row;
    call->copy.user = &call->rows;
    sim_store_run(w, &call->copy);
    renewal = NULL;
    call->answered = true;
    if (call->mute || call->client->life != call->life)
        return;
    plan_call(w, call, SIM_STEP_REPLY);
}

/* Executed as well, answered to nobody. */
static void run_again(sim_world *w, const sim_call *call)
{
    hf_op op = call->copy;
    hf_place place = call->place, places[SIM_HOLDS], *pointers[SIM_HOLDS];

    if (w->now < w->down_until || op.kind == HF_OP_LIST)
        return;
    sim_trace(w, "store: %s of client %u once more", sim_op_name(op.kind),
              call->life);
    place.seats = NULL;
    op.place = op.place ? &place : NULL;
    op.places = pointers;
    for (size_t i = 0; i < op.place_count; i++) {
        places[i] = call->places[i];
        places[i].seats = NULL;
        pointers[i] = &places[i];
    }
    sim_store_run(w, &op);
    hfd_free(place.seats);
    for (size_t i = 0; i < op.place_count; i++)
        hfd_free(places[i].seats);
}

static void answer_place(hf_place *to, hf_place *from)
{
    const char *key = to->key;

    *to = *from;
    to->key = key;
    from->seats = NULL; /* they are the core's now */
}

/* A break is an operator's override: the library gives the lock up when it
 * hears of it, whether or not the program has heard. */
static void tell_news(sim_client *c, const hf_id *rid, int reason)
{
    sim_app_forget(c);
    c->store->host.news(c->store->host.ctx, rid, reason);
}

/* Planted: replies are matched by what was asked, not by the attempt. */
static void mistake_reply(sim_call *late)
{
    for (size_t i = 0; i < call_count && !late->op; i++) {
        sim_call *other = calls[i];

        if (!other->used || !other->op || other->life != late->life ||
            late->copy.kind != HF_OP_RENEW || late->copy.place_count ||
            other->copy.kind != HF_OP_RENEW || other->copy.place_count)
            continue;
        late->op = other->op;
        late->op->own[0] = (uintptr_t)late;
        other->op = NULL;
    }
}

static void deliver_reply(sim_world *w, sim_call *call)
{
    hf_op *op;

    if (PLANTED(UNMATCHED_REPLY))
        mistake_reply(call);
    op = call->op;
    for (size_t i = 0; op && i < call->news_count; i++)
        tell_news(call->client, &call->news[i].rid, call->news[i].reason);
    if (!op) {
        sim_trace(w, "client %u: a reply comes too late", call->life);
        return;
    }
    if (op->place)
        answer_place(op->place, &call->place);
    for (size_t i = 0; i < op->place_count; i++)
        answer_place(op->places[i], &call->places[i]);
    for (size_t i = 0; i < call->rows.count; i++)
        op->emit_row(&call->rows.rows[i], op->user);
    op->remaining = call->copy.remaining;
    op->store_us = call->copy.store_us;
    op->count = call->copy.count;
    op->error = call->copy.error;
    sim_trace(w, "client %u: reply to its %s: %s, verdict %d", call->life,
              sim_op_name(op->kind), hf_error_name(op->error.code),
              op->place ? (int)op->place->verdict : 0);
    finish(call, call->copy.outcome, op->error.code);
}

static void deliver_push(sim_client *c, const sim_push *push)
{
    hf_host *host = &c->store->host;

    sim_trace(c->world, "client %u: a push, %s", c->life,
              push->reason ? "news" : "changed");
    if (push->reason)
        tell_news(c, &push->rid, push->reason);
    else
        host->changed(host->ctx, &push->rid,
                      push->has_fresh ? &push->fresh : NULL);
}

static void meet_deadline(sim_world *w, sim_call *call)
{
    sim_client *c = call->client;

    if (!call->op)
        return;
    if (sim_boot_of(c, w->now) < call->copy.deadline) { /* it was frozen */
        call->refs++;
        sim_plan(w, sim_true_of(c, call->copy.deadline), SIM_STEP_DEADLINE, c,
                 call);
        return;
    }
    sim_trace(w, "client %u gives up its %s", c->life,
              sim_op_name(call->copy.kind));
    finish(call, HF_UNKNOWN, HF_EUNKNOWN);
}

static void step_at_client(sim_world *w, const sim_step *step)
{
    sim_client *c = step->client, *before;

    if (step->life != c->life || !c->session)
        return;
    before = sim_enter(c);
    if (step->kind == SIM_STEP_REPLY)
        deliver_reply(w, step->what);
    else if (step->kind == SIM_STEP_DEADLINE)
        meet_deadline(w, step->what);
    else
        deliver_push(c, step->what);
    sim_leave(c, before, true);
}

void sim_net_step(sim_world *w, const sim_step *step)
{
    if (step->kind == SIM_STEP_REQUEST)
        run_request(w, step->what);
    else if (step->kind == SIM_STEP_AGAIN)
        run_again(w, step->what);
    else
        step_at_client(w, step);
    if (step->kind == SIM_STEP_PUSH)
        give_push(step->what);
    else
        unref_call(step->what);
}

void sim_net_push(sim_world *w, const hf_id *sid, const hf_id *rid,
                  const hf_place *fresh, int reason)
{
    const sim_sid *who = sim_find_sid(w, sid);
    bool shaky = sim_has(w, SIM_FAULT_PUSH);
    int copies = shaky && sim_chance(w, 6) ? 2 : 1;

    if (reason && renewal && renewal->news_count < SIM_HOLDS)
        renewal->news[renewal->news_count++] = (sim_news){*rid, reason};
    if (!who || who->client->life != who->life || (shaky && sim_chance(w, 5)))
        return;
    while (copies-- > 0) {
        sim_push *push = take_push();
        hf_nsec delay = shaky && sim_chance(w, 5) ? sim_span(w, 0, HF_MS(6000))
                                                  : sim_net_delay(w);

        push->rid = *rid;
        push->reason = reason;
        push->has_fresh = fresh && w->fresh;
        if (fresh) {
            push->fresh = *fresh;
            push->fresh.key = lasting_key(fresh->key);
        }
        if (w->now + delay > w->longest_late)
            w->longest_late = w->now + delay;
        sim_plan(w, w->now + delay, SIM_STEP_PUSH, who->client, push);
    }
}
