/* round.c - one command to all servers at once.
 *
 * Answers: when are enough answers there, and who works for them?  One thread
 * drives all connections.  The command goes out to everybody before anything
 * is waited for; a caller's own thread then collects the answers one after the
 * other, which have come side by side, and a round that nobody drives ends on
 * the thread that reads the answer which decides it.  Each has a short time to
 * answer in; who misses it is waited for only as long as nothing is decided
 * without it, and not at all by the next call unless it has answered since.  So
 * a server that is stopped costs one short time, and not one for each call.
 * Knows nothing of what is asked (act.c, list.c).
 *
 * Safety.  The instant that counts is read before the first byte of the first
 * server's goes out.  What comes after the verdict changes nothing: `over` is
 * set once, under the lock.  A server without an answer is never a vote.  The
 * round lives until the last call of it has landed, the operation only until
 * the verdict: after `over` nothing touches it.  Each server has one connection
 * for commands, so what is sent later is done later there, until it breaks. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "../redis/info.h"
#include "redlock.h"

enum { SLICE_MS = 10, NODE_LEAST_MS = 20, NODE_MOST_MS = 100 };

/* ---- Lifetime ----------------------------------------------------------- */

redlock_round *round_new(redlock_store *store, hf_op *op, redlock_shape shape,
                         size_t places)
{
    redlock_round *round =
        hfd_alloc(sizeof *round + store->count * places * sizeof *round->votes);

    if (!round)
        return NULL;
    pthread_mutex_init(&round->mu, NULL);
    round->store = store;
    round->op = op;
    round->shape = shape;
    round->places = places;
    round->votes = (vote *)(void *)(round + 1);
    round->refs = 1;
    atomic_fetch_add(&store->working, 1);
    return round;
}

void round_drop(redlock_round *round)
{
    redlock_store *store = round->store;
    bool last;

    pthread_mutex_lock(&round->mu);
    last = --round->refs == 0;
    pthread_mutex_unlock(&round->mu);
    if (!last)
        return;
    pthread_mutex_destroy(&round->mu);
    hf__buf_done(&round->bytes);
    hfd_free(round->more);
    hfd_free(round);
    atomic_fetch_sub(&store->working, 1);
}

/* ---- What is known ------------------------------------------------------ */

vote_tally round_tally(const redlock_round *round, size_t place)
{
    return vote_count(round->votes + place, round->places, round->store->count);
}

unsigned round_heard(const redlock_round *round)
{
    unsigned heard = 0;

    for (size_t i = 0; i < round->store->count; i++)
        heard +=
            round->calls[i].landed && round->calls[i].outcome == HF_APPLIED;
    return heard;
}

/* Did a majority do it, or can none have done it any more? */
static bool is_number_decided(const redlock_round *round)
{
    size_t nodes = round->store->count;
    unsigned done = 0, heard = round_heard(round);

    for (size_t i = 0; i < nodes; i++)
        done += round->calls[i].landed &&
                round->calls[i].outcome == HF_APPLIED &&
                round->calls[i].said > 0;
    return done >= vote_majority(nodes) ||
           heard > done + nodes - vote_majority(nodes);
}

/* With mu held.  It must ask what the judge of this round will ask: what ends
 * too early ends open, and is asked again in vain. */
static bool is_decided(const redlock_round *round)
{
    size_t nodes = round->store->count;

    if (round->pending == 0)
        return true;
    if (round->shape == SHAPE_NUMBER)
        return is_number_decided(round);
    if (round->places == 0)
        return round_heard(round) >= vote_majority(nodes);
    if (round->leaves)
        return vote_leave(round->votes, round->places, nodes, round->given,
                          round->content)
                   .verdict != VOTE_OPEN;
    for (size_t i = 0; i < round->places; i++) {
        vote_tally tally = round_tally(round, i);

        if (tally.verdict == VOTE_OPEN ||
            (round->raise[i] && tally.verdict == VOTE_YES &&
             !vote_is_level(&tally, nodes)))
            return false;
    }
    return true;
}

void redlock_reasons(char *ret, size_t room, const hf_error *const *why,
                     size_t n)
{
    size_t used = 0;

    ret[0] = '\0';
    for (size_t i = 0; i < n && used + 8 < room; i++) {
        /* A fair share of what is left for each. */
        size_t share = (room - used) / (n - i);
        int len =
            snprintf(ret + used, share, "%s%s", i ? "; " : "", why[i]->text);

        used += (size_t)len < share ? (size_t)len : share - 1;
    }
}

hf_outcome round_why(const redlock_round *round, hf_error *ret)
{
    const hf_error *why[VOTE_NODES_MAX];
    size_t nodes = round->store->count, n = 0;
    hf_outcome outcome = HF_NOT_APPLIED;
    int code = HF_EQUORUM, native = 0;
    char reasons[190];

    for (size_t i = 0; i < nodes; i++) {
        const redlock_call *call = &round->calls[i];

        if (!call->landed || call->outcome != HF_NOT_APPLIED)
            outcome = HF_UNKNOWN;
        if (!call->landed || call->outcome == HF_APPLIED)
            continue;
        why[n++] = &call->why;
        native = call->why.native;
        if (hf_error_class(call->why.code) == HF_CLASS_SETUP)
            code = call->why.code;
    }
    redlock_reasons(reasons, sizeof reasons, why, n);
    hfd_error(ret, code, "redlock", native,
              "%u of %zu servers answered, %u are needed: %s",
              round_heard(round), nodes, vote_majority(nodes), reasons);
    return outcome;
}

/* ---- One server's call -------------------------------------------------- */

static void encode_call(redis_call *call, hf__buf *out,
                        const redis_server *server)
{
    redlock_call *mine = (redlock_call *)(void *)call;
    const redlock_round *round = mine->round;
    const char *bytes = round->bytes.data + round->bytes.start;
    size_t len = hf__buf_len(&round->bytes);

    mine->born = server->born;
    if (!call->by_text || !round->script) {
        hf__buf_add(out, bytes, len);
        return;
    }
    hf__buf_add(out, bytes,
                (size_t)((const char *)memchr(bytes, '\n', len) - bytes) + 1);
    resp_text(out, "EVAL");
    resp_text(out, round->script->text);
    hf__buf_add(out, bytes + round->rest, len - round->rest);
}

/* A server that was started a moment ago may have forgotten what it had. */
static bool is_too_young(const redlock_call *call, hf_nsec settled)
{
    return settled > 0 && hfd_now() - call->born < settled;
}

static vote read_vote(resp *at)
{
    vote v = {.heard = true};
    int64_t code, number;

    *at = resp_at(at->after);
    code = resp_int(at, VOTE_OTHER);
    if (code >= VOTE_MINE && code <= VOTE_ALIEN)
        v.code = (vote_code)code;
    *at = resp_at(at->after);
    v.left_ms = format_left(at);
    *at = resp_at(at->after);
    number = resp_int(at, 0);
    v.number = number > 0 ? (uint64_t)number : 0;
    return v;
}

/* What is ours there by a vote that may be taken back yet is no vote, and says
 * nothing about what is held.  With mu held. */
static void pass_over(redlock_call *call, size_t place, vote *v)
{
    redlock_round *round = call->round;
    char verb = round->verbs[place];
    const hf_id *rid = round->rids[place];

    if (!rid || v->code != VOTE_MINE || round->leaves ||
        !back_bars(round->store, rid, call->node))
        return;
    if (verb == 'J' || verb == LAYOUT_RAISE)
        v->code = VOTE_OTHER;
    else
        v->heard = false;
    round->hidden = true;
}

/* With mu held. */
static void note_vote(redlock_call *call, size_t place, vote v)
{
    redlock_round *round = call->round;

    /* What is above it already, by a vote that came twice, is as good. */
    if (round->raise[place] && v.number > round->raise[place])
        v.number = round->raise[place];
    if (round->verbs[place] == 'J' && v.code == VOTE_MINE &&
        is_too_young(call, round->store->settled)) {
        v.code = VOTE_YOUNG;
        v.left_ms = -2;
    }
    pass_over(call, place, &v);
    round->votes[call->node * round->places + place] = v;
}

/* A lone vote or leave that was done is answered by a number.  With mu held. */
static bool hear_number(redlock_call *call, int64_t number)
{
    const redlock_round *round = call->round;
    bool join = round->verbs[0] == 'J';
    vote v = {.heard = true, .code = VOTE_MINE, .left_ms = -2};

    call->said = number;
    if (round->places == 0) /* nobody asks for whom it was done */
        return number > 0;
    if (round->places != 1 || number <= 0 || (!join && round->verbs[0] != 'D'))
        return false;
    if (join)
        v.left_ms = round->asked_ms;
    if (join && round->store->tokens)
        v.number = (uint64_t)number;
    note_vote(call, 0, v);
    return true;
}

/* Note what this server says; false: it is not what was asked.  With mu
 * held. */
static bool hear(redlock_call *call, const resp *reply)
{
    redlock_round *round = call->round;
    size_t places = round->places;
    resp first = resp_item(reply, 0);

    if (round->shape == SHAPE_NUMBER) {
        call->said = reply->number;
        return reply->type == RESP_INTEGER;
    }
    if (round->shape == SHAPE_ACT && reply->type == RESP_INTEGER)
        return hear_number(call, reply->number);
    if (reply->type != RESP_ARRAY)
        return false;
    if (round->shape == SHAPE_TIME)
        return redis_read_time(reply, &call->said);
    call->said = resp_int(&first, 0);
    if (places > 0 && reply->number != (int64_t)(3 * places + 1))
        return false;
    for (size_t i = 0; i < places; i++)
        note_vote(call, i, read_vote(&first));
    return call->said > 0;
}

/* With mu held, and before the verdict: afterwards it is read without. */
static void note_answer(redlock_call *call, hf_outcome outcome,
                        const resp *reply, const hf_error *why)
{
    if (outcome != HF_APPLIED) {
        call->why = *why;
    } else if (!hear(call, reply)) {
        outcome = HF_UNKNOWN;
        hfd_error(&call->why, HF_EPROTO, "redlock", 0,
                  "%s: its answer is not what the script says",
                  call->round->store->nodes[call->node].where);
    }
    call->outcome = outcome;
    call->landed = true;
}

static void call_landed(redis_call *at, hf_outcome outcome, const resp *reply,
                        const hf_error *why)
{
    redlock_call *call = (redlock_call *)(void *)at;
    redlock_round *round = call->round;
    bool complete;

    atomic_store(&round->store->nodes[call->node].answers,
                 outcome == HF_APPLIED);
    if (round->each)
        round->each(call, outcome);
    pthread_mutex_lock(&round->mu);
    if (!round->over)
        note_answer(call, outcome, reply, why);
    round->pending--;
    complete = !round->driven && !round->over && is_decided(round);
    if (complete)
        round->over = true;
    pthread_mutex_unlock(&round->mu);
    if (complete)
        round->complete(round);
    round_drop(round);
}

/* ---- The round ---------------------------------------------------------- */

static hf_nsec time_of_node(const redlock_store *store, const hf_op *op)
{
    hf_nsec time = op && op->ttl > 0 ? op->ttl / 100 : 0;

    if (store->node_time > 0)
        return store->node_time;
    if (time < HF_MS(NODE_LEAST_MS))
        return HF_MS(NODE_LEAST_MS);
    return time < HF_MS(NODE_MOST_MS) ? time : HF_MS(NODE_MOST_MS);
}

int round_start(redlock_round *round, hf_nsec deadline)
{
    redlock_store *store = round->store;
    bool driven = round->op && round->op->driven, complete;

    if (round->bytes.failed) {
        round_drop(round);
        return HF_ENOMEM;
    }
    round->script = layout_script(round->bytes.data + round->bytes.start,
                                  hf__buf_len(&round->bytes), &round->rest);
    round->driven = driven;
    round->refs += (unsigned)store->count;
    round->pending = (unsigned)store->count + 1; /* until all went out */
    round->sent = hfd_now();
    for (unsigned i = 0; i < store->count; i++) {
        redlock_call *call = &round->calls[i];

        call->round = round;
        call->node = i;
        call->call.encode = encode_call;
        call->call.landed = call_landed;
        call->call.deadline = deadline;
        call->waited_for = driven && atomic_load(&store->nodes[i].answers);
        call->call.driven = call->waited_for;
        redis_wire_start(store->nodes[i].wire, &call->call);
    }
    pthread_mutex_lock(&round->mu);
    round->pending--;
    complete = !driven && !round->over && is_decided(round);
    if (complete)
        round->over = true;
    pthread_mutex_unlock(&round->mu);
    if (complete)
        round->complete(round);
    if (!driven)
        round_drop(round);
    return 0;
}

static bool round_is_ready(void *arg)
{
    redlock_round *round = arg;
    bool ready;

    pthread_mutex_lock(&round->mu);
    ready = is_decided(round);
    pthread_mutex_unlock(&round->mu);
    return ready;
}

void round_drive(redlock_round *round)
{
    redlock_store *store = round->store;
    hf_nsec until = round->sent + time_of_node(store, round->op);

    for (unsigned i = 0; i < store->count; i++) {
        redlock_node *node = &store->nodes[i];

        if (round->calls[i].waited_for &&
            !redis_wire_drive_for(node->wire, &round->calls[i].call, until))
            atomic_store(&node->answers, false);
    }
    redlock_await(store, round_is_ready, round, HF_NEVER);
    pthread_mutex_lock(&round->mu);
    round->over = true;
    pthread_mutex_unlock(&round->mu);
    round->complete(round);
    round_drop(round);
}

/* The keeper reads, too; so what is waited for may have come without a sign
 * here, and is looked for again after a slice. */
void redlock_await(redlock_store *store, bool (*ready)(void *arg), void *arg,
                   hf_nsec until)
{
    while (!ready(arg) && hfd_now() < until) {
        struct pollfd at = {.fd = store->epoll_fd, .events = POLLIN};

        if (poll(&at, 1, SLICE_MS) > 0) {
            for (size_t i = 0; i < store->count; i++)
                redis_wire_dispatch(store->nodes[i].wire);
        }
    }
}
