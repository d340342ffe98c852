/* act.c - what a majority says about locks, as one reply.
 *
 * The formats of drivers/redis ask one server for a batch of places; here the
 * question goes to all, and what they get is a reply as one server would have
 * written it.  A vote that has no majority is taken back everywhere, also where
 * no answer came, before it is told as busy; one that has it may need a second
 * round, which raises the servers that are behind in counting (vote.c).
 *
 * What is told is left of a lock is what the best majority has, less what their
 * clocks may drift apart in that time; a grant that used up its validity on the
 * way is none.  Renewals and releases need a majority, too; a renewal that too
 * few answered is unknown, never a loss.
 *
 * Taking back is not waited for: on its connection it comes before whatever is
 * asked next.  If that breaks, what the server says counts no more for a while
 * (back.c).  If it never arrives, one vote stays there until its lease ends;
 * the place is marked, so that its leave writes a tomb, which a vote that
 * arrives even later finds.  Paused here: the instant that counts was read
 * before the first vote went out. */
#include <stdio.h>
#include <string.h>

#include "judge.h"

typedef struct act { /* one act of an operation, over its rounds */
    void (*landed)(redis_call *call, hf_outcome outcome, const resp *reply,
                   const hf_error *why);
    int64_t now_us;
    size_t count;
    size_t raised[FORMAT_BATCH]; /* in a second round: whose */
    format_answer answers[FORMAT_BATCH];
} act;

/* ---- The places of a batch ---------------------------------------------- */

/* As format_encode walks them; how many. */
static size_t gather(hf_op *op, hf_place *ret[FORMAT_BATCH])
{
    hf_place **places = op->place ? &op->place : op->places;
    size_t n = op->place ? 1 : op->place_count, count = 0;
    size_t i = op->kind == HF_OP_LEAVE ? 0 : (size_t)redis_op_of(op)->note;

    if (op->kind == HF_OP_DETACH || op->kind == HF_OP_ATTACH ||
        op->kind == HF_OP_EVICT)
        return 0;
    for (; i < n && count < FORMAT_BATCH; i++) {
        if (format_verb(places[i]) != '-')
            ret[count++] = places[i];
    }
    return count;
}

static void undone(redlock_round *round)
{
    (void)round; /* nobody waits for it */
}

/* Send one verb for these places to all, for op or for nobody. */
static redlock_round *make_round(redlock_store *store, hf_op *op,
                                 hf_place *const *places, size_t n, char verb,
                                 const uint64_t *numbers)
{
    redlock_round *round = round_new(store, op, SHAPE_ACT, n);
    format_item items[FORMAT_BATCH];
    redis_call plain = {.by_text = false};

    if (!round)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        round->verbs[i] = verb;
        round->raise[i] = numbers ? numbers[i] : 0;
        round->rids[i] = op ? &places[i]->rid : NULL;
        items[i] = (format_item){.rid = &places[i]->rid,
                                 .key = places[i]->key,
                                 .key_len = places[i]->key_len,
                                 .verb = verb,
                                 .ms = numbers ? (int64_t)numbers[i] : 0};
    }
    format_put(format_of(&store->base), &plain, &round->bytes, items, n);
    return round;
}

static void mark_stray(redlock_store *store, const hf_place *place)
{
    format_data *data = format_of(&store->base);
    format_record *record;

    pthread_mutex_lock(&data->mu);
    record = format_find(data, &place->rid);
    if (record)
        record->stray = true;
    pthread_mutex_unlock(&data->mu);
}

/* The longest lease among them. */
static hf_nsec longest_lease(const hf_op *op, hf_place *const *places, size_t n)
{
    hf_nsec longest = op->ttl;

    for (size_t i = 0; i < n; i++) {
        if (places[i]->lease > longest)
            longest = places[i]->lease;
    }
    return longest;
}

/* Of those that were asked in this round.  Unsure, one of them may do that only
 * after it was taken back. */
static void take_back(redlock_round *asked, hf_place *const *places, size_t n)
{
    redlock_store *store = asked->store;
    bool unsure = judge_unsure(asked);
    redlock_round *round;

    if (n == 0)
        return;
    for (size_t i = 0; unsure && i < n; i++)
        mark_stray(store, places[i]);
    round = make_round(store, NULL, places, n, LAYOUT_TAKE_BACK, NULL);
    if (round && !round->bytes.failed &&
        back_note(round, places, n, longest_lease(asked->op, places, n))) {
        round->complete = undone;
        if (round_start(round, hfd_now() + HF_MS(2000)) == 0)
            return;
    } else if (round) {
        round_drop(round);
    }
    hfd_log(HF_LOG_WARN,
            "redlock: no memory to take back %zu votes: they "
            "stay until their lease ends",
            n);
}

/* ---- The reply ---------------------------------------------------------- */

static void fail(redlock_round *round, act *a)
{
    hf_op *op = round->op;
    hf_error why = {0};
    hf_outcome outcome = round_why(round, &why);

    a->landed(&redis_op_of(op)->call, outcome, NULL, &why);
}

static void add_number(hf__buf *out, int64_t number)
{
    char end[RESP_DIGITS], *at = resp_digits(end + sizeof end, number);

    hf__buf_add(out, ":", 1);
    hf__buf_add(out, at, (size_t)(end + sizeof end - at));
    hf__buf_add(out, "\r\n", 2);
}

static void tell(redlock_round *round, act *a)
{
    redis_call *call = &redis_op_of(round->op)->call;
    hf_error why = {0};
    hf__buf out = {0};
    char head[32];
    resp reply;

    hf__buf_add(
        &out, head,
        (size_t)snprintf(head, sizeof head, "*%zu\r\n", 3 * a->count + 1));
    add_number(&out, a->now_us);
    for (size_t i = 0; i < a->count; i++) {
        add_number(&out, (int64_t)a->answers[i].code);
        add_number(&out, a->answers[i].left_ms);
        add_number(&out, (int64_t)a->answers[i].token);
    }
    if (out.failed) {
        /* The leave that follows an unknown join takes it back. */
        hfd_error(&why, HF_ENOMEM, "redlock", 0, "out of memory for a reply");
        a->landed(call, HF_UNKNOWN, NULL, &why);
    } else {
        reply = resp_at(out.data + out.start);
        a->landed(call, HF_APPLIED, &reply, NULL);
    }
    hf__buf_done(&out);
}

static void tell_time(redlock_round *round, act *a)
{
    char text[64];
    resp reply;

    snprintf(text, sizeof text, "*2\r\n:%lld\r\n:%lld\r\n",
             (long long)(a->now_us / 1000000),
             (long long)(a->now_us % 1000000));
    reply = resp_at(text);
    a->landed(&redis_op_of(round->op)->call, HF_APPLIED, &reply, NULL);
}

/* The middle one of their clocks: a minority that is wrong does not move it. */
static int64_t middle_time(const redlock_round *round)
{
    int64_t times[VOTE_NODES_MAX], swap;
    size_t n = 0;

    for (size_t i = 0; i < round->store->count; i++) {
        const redlock_call *call = &round->calls[i];

        if (!call->landed || call->outcome != HF_APPLIED)
            continue;
        times[n++] = call->said;
        for (size_t j = n - 1; j > 0 && times[j] < times[j - 1]; j--) {
            swap = times[j];
            times[j] = times[j - 1];
            times[j - 1] = swap;
        }
    }
    return n ? times[n / 2] : 0;
}

/* ---- The second round --------------------------------------------------- */

static void raised(redlock_round *round)
{
    hf_op *op = round->op;
    redlock_store *store = round->store;
    act *a = round->more;
    hf_place *all[FORMAT_BATCH], *back[FORMAT_BATCH];
    size_t n = 0;

    redlock_op_of(op)->round = NULL;
    gather(op, all);
    for (size_t i = 0; i < round->places; i++) {
        format_answer *answer = &a->answers[a->raised[i]];
        vote_tally tally = round_tally(round, i);
        hf_nsec spent = hfd_now() - redis_op_of(op)->call.sent;

        if (vote_is_level(&tally, store->count) &&
            tally.number == answer->token && HF_MS(answer->left_ms) > spent)
            continue;
        *answer = (format_answer){.code = FORMAT_BUSY, .left_ms = -2};
        back[n++] = all[a->raised[i]];
    }
    take_back(round, back, n);
    if (round_heard(round) >= vote_majority(store->count))
        tell(round, a);
    else
        fail(round, a);
}

/* Raise those that are behind; false: no memory for that. */
static bool raise_some(redlock_round *round, act *a, hf_place **all, size_t n)
{
    hf_op *op = round->op;
    hf_place *places[FORMAT_BATCH];
    uint64_t numbers[FORMAT_BATCH];
    redlock_round *next;

    for (size_t i = 0; i < n; i++) {
        places[i] = all[a->raised[i]];
        numbers[i] = a->answers[a->raised[i]].token;
    }
    next = make_round(round->store, op, places, n, LAYOUT_RAISE, numbers);
    if (!next || next->bytes.failed) {
        if (next)
            round_drop(next);
        return false;
    }
    next->complete = raised;
    next->more = a;
    round->more = NULL;
    redlock_op_of(op)->round = op->driven ? next : NULL;
    return round_start(next, op->deadline) == 0;
}

/* ---- The first round ---------------------------------------------------- */

static void voted(redlock_round *round)
{
    hf_op *op = round->op;
    redlock_store *store = round->store;
    act *a = round->more;
    hf_place *all[FORMAT_BATCH], *back[FORMAT_BATCH];
    size_t n = 0, behind = 0, open = 0;
    bool whole = round_heard(round) >= vote_majority(store->count);

    redlock_op_of(op)->round = NULL;
    a->now_us = middle_time(round);
    gather(op, all);
    for (size_t i = 0; i < a->count; i++) {
        vote_tally tally = round_tally(round, i);
        format_answer *answer = &a->answers[i];

        if (op->kind == HF_OP_LEAVE) {
            whole = judge_leave(round, all[i], answer);
            continue;
        }
        if (round->verbs[i] != 'J') {
            if (judge_other(round, &tally, all[i], answer))
                continue;
            /* The other holds of a session are not to suffer for it. */
            answer->code = FORMAT_OPEN;
            if (op->kind != HF_OP_RENEW || ++open == a->count)
                whole = false;
            continue;
        }
        if (judge_vote(round, &tally, all[i], answer))
            back[n++] = all[i];
        if (answer->code != FORMAT_MINE)
            answer->token = 0;
        if (answer->code == FORMAT_MINE && store->tokens &&
            !vote_is_level(&tally, store->count))
            a->raised[behind++] = i;
    }
    take_back(round, back, n);
    if (whole && behind > 0) {
        if (raise_some(round, a, all, behind))
            return;
        /* It was not told: as if there had been no majority. */
        for (size_t i = 0; i < behind; i++) {
            a->answers[a->raised[i]] =
                (format_answer){.code = FORMAT_BUSY, .left_ms = -2};
            back[i] = all[a->raised[i]];
        }
        take_back(round, back, behind);
    }
    if (whole)
        tell(round, a);
    else
        fail(round, a);
}

/* Nobody asks what each server said: attach and detach. */
static void answered(redlock_round *round)
{
    hf_op *op = round->op;
    act *a = round->more;

    redlock_op_of(op)->round = NULL;
    a->now_us = middle_time(round);
    if (round_heard(round) < vote_majority(round->store->count))
        fail(round, a);
    else if (round->shape == SHAPE_TIME)
        tell_time(round, a);
    else
        tell(round, a);
}

/* ---- What the formats call ---------------------------------------------- */

static void out_of_memory(hf_op *op, act *a,
                          void (*landed)(redis_call *call, hf_outcome outcome,
                                         const resp *reply,
                                         const hf_error *why))
{
    hf_error why = {0};

    hfd_free(a);
    hfd_error(&why, HF_ENOMEM, "redlock", 0, "out of memory for a command");
    landed(&redis_op_of(op)->call, HF_NOT_APPLIED, NULL, &why);
}

void redis_op_send(hf_store *base, hf_op *op,
                   void (*encode)(redis_call *call, hf__buf *out,
                                  const redis_server *server),
                   void (*landed)(redis_call *call, hf_outcome outcome,
                                  const resp *reply, const hf_error *why))
{
    redlock_store *store = redlock_of(base);
    redlock_op *own = redlock_op_of(op);
    hf_place *all[FORMAT_BATCH];
    size_t n = gather(op, all);
    redlock_round *round = round_new(
        store, op, op->kind == HF_OP_ATTACH ? SHAPE_TIME : SHAPE_ACT, n);
    act *a = hfd_alloc(sizeof *a);

    own->base.store = base;
    if (round && a)
        encode(&own->base.call, &round->bytes, NULL);
    if (!round || !a || round->bytes.failed) {
        if (round)
            round_drop(round);
        out_of_memory(op, a, landed);
        return;
    }
    a->landed = landed;
    a->count = n;
    round->more = a;
    round->complete = n > 0 ? voted : answered;
    for (size_t i = 0; i < n; i++) {
        round->verbs[i] = format_verb(all[i]);
        round->rids[i] = &all[i]->rid;
    }
    if (n == 1)
        round->asked_ms = format_lease_ms(op, all[0]);
    if (op->kind == HF_OP_LEAVE && n > 0)
        judge_prepare_leave(round);
    own->base.under_way = true;
    own->base.call.sent = hfd_now();
    if (op->driven)
        own->round = round;
    round_start(round, op->deadline);
}

void redis_op_failed(hf_op *op, hf_outcome outcome, const hf_error *why)
{
    op->error = *why;
    hfd_finish(op, outcome, why->code ? why->code : HF_EQUORUM);
}

void redis_op_refuse(hf_op *op, int code, const char *text)
{
    hfd_error(&op->error, code, "redlock", 0, "%s", text);
    hfd_finish(op, HF_APPLIED, code);
}
