/* format_session.c - sessions of a store that has none.
 *
 * A session is a record of this process: its lease is written as the expiry of
 * every lock that it takes, and a renewal extends those that the core still
 * believes in, each if it is still ours.  There is nothing in the store that
 * could end a session; the core does, by its own clock.  Each hold learns its
 * own fate: one that was broken or ran out is gone, the others stay.  One of
 * which nobody can say it has no answer, and is neither extended nor lost by
 * it: its own end decides, unless a later renewal comes first.
 *
 * Attaching asks the server for the time, so that a store which cannot be
 * reached is noticed.  Detaching gives back what the table still knows, in
 * batches; locks of fixed leases stay, as promised.  What could not be given
 * back is known again, and asked for by the next detach. */
#include "format.h"
#include "info.h"

static void start_session(format_session *session, const hf_op *op)
{
    hf_nsec ends = op->sent + op->ttl;

    session->ttl = op->ttl;
    if (ends > session->ends)
        session->ends = ends;
}

/* ---- Attach ------------------------------------------------------------- */

static void encode_time(redis_call *call, hf__buf *out,
                        const redis_server *server)
{
    (void)call;
    (void)server;
    resp_command(out, 1);
    resp_text(out, "TIME");
}

static void attach_landed(redis_call *call, hf_outcome outcome,
                          const resp *reply, const hf_error *why)
{
    hf_op *op = redis_op_from(call);
    hf_store *store = redis_op_of(op)->store;
    format_data *data = format_of(store);
    format_session *session;

    format_note_sent(op);
    if (outcome != HF_APPLIED) {
        redis_op_failed(op, outcome, why);
        return;
    }
    if (!redis_read_time(reply, &op->store_us)) {
        format_nonsense(op);
        return;
    }
    pthread_mutex_lock(&data->mu);
    session = format_session_of(data, &op->sid);
    if (!session)
        session = format_session_add(data, &op->sid);
    if (session) {
        size_t len = op->text_len < sizeof session->name
                         ? op->text_len
                         : sizeof session->name - 1;

        if (len > 0)
            memcpy(session->name, op->text, len);
        session->name[len] = '\0';
        start_session(session, op);
    }
    pthread_mutex_unlock(&data->mu);
    if (session)
        format_finish(store, op);
    else
        hfd_finish(op, HF_NOT_APPLIED, HF_ENOMEM);
}

void format_attach(hf_store *store, hf_op *op)
{
    if (op->ttl <= 0)
        hfd_finish(op, HF_NOT_APPLIED, HF_EINVAL);
    else
        redis_op_send(store, op, encode_time, attach_landed);
}

/* ---- Renew -------------------------------------------------------------- */

static void send_renewals(hf_store *store, hf_op *op);

static void renew_landed(redis_call *call, hf_outcome outcome,
                         const resp *reply, const hf_error *why)
{
    hf_op *op = redis_op_from(call);
    hf_store *store = redis_op_of(op)->store;
    size_t next, i = (size_t)redis_op_of(op)->note;
    size_t n = format_batch(op, &next);
    int64_t now;
    resp at;

    if (i == 0)
        format_note_sent(op);
    if (outcome != HF_APPLIED) {
        redis_op_failed(op, outcome, why);
        return;
    }
    now = format_read(reply, n);
    if (now == 0) {
        format_nonsense(op);
        return;
    }
    if (i == 0)
        op->store_us = now; /* beside the instant of sending */
    at = resp_item(reply, 0);
    for (; i < next; i++) {
        hf_place *place = op->places[i];
        format_answer answer = format_next(&at);

        if (answer.code == FORMAT_MINE) {
            place->verdict = HF_GRANTED;
            place->reason = 0;
            place->remaining = HF_MS(answer.left_ms < 0 ? 0 : answer.left_ms);
        } else if (answer.code != FORMAT_OPEN) {
            format_answer_gone(place, HF_EEXPIRED);
        }
    }
    redis_op_of(op)->note = next;
    send_renewals(store, op);
}

static void send_renewals(hf_store *store, hf_op *op)
{
    format_data *data = format_of(store);
    format_session *session;
    size_t next;

    if (format_batch(op, &next) > 0) {
        redis_op_send(store, op, format_encode, renew_landed);
        return;
    }
    pthread_mutex_lock(&data->mu);
    session = format_session_of(data, &op->sid);
    if (session)
        start_session(session, op);
    pthread_mutex_unlock(&data->mu);
    format_finish(store, op);
}

void format_renew(hf_store *store, hf_op *op)
{
    format_data *data = format_of(store);
    bool known;

    if (op->ttl <= 0) {
        hfd_finish(op, HF_NOT_APPLIED, HF_EINVAL);
        return;
    }
    pthread_mutex_lock(&data->mu);
    known = format_session_of(data, &op->sid) != NULL;
    pthread_mutex_unlock(&data->mu);
    if (!known) {
        redis_op_refuse(op, HF_EEXPIRED, "the session is over");
        return;
    }
    for (size_t i = 0; i < op->place_count; i++)
        format_set_verb(op->places[i], op->places[i]->lease > 0 ? 'L' : 'X');
    redis_op_of(op)->note = 0;
    send_renewals(store, op);
}

/* ---- Detach ------------------------------------------------------------- */

/* The records on their way out hang together by next_rid; the first is the
 * op's note. */
static format_record *first_of(hf_op *op)
{
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): a note is a number or this. */
    return (format_record *)redis_op_of(op)->note;
}

static void encode_detach(redis_call *call, hf__buf *out,
                          const redis_server *server)
{
    hf_op *op = redis_op_from(call);
    const format_record *at = first_of(op);
    format_item items[FORMAT_BATCH];
    size_t n = 0;

    (void)server;
    for (; at && n < FORMAT_BATCH; at = at->next_rid)
        items[n++] = (format_item){
            .rid = &at->rid,
            .key = at->key,
            .key_len = at->key_len,
            .whole = true,
            .verb = 'D',
            .tomb_ms = at->asking > 0 || at->stray ? format_ms(op->ttl) : 0};
    format_put(format_of(redis_op_of(op)->store), call, out, items, n);
}

static void end_detach(hf_store *store, hf_op *op)
{
    format_data *data = format_of(store);

    pthread_mutex_lock(&data->mu);
    format_session_drop(data, &op->sid);
    pthread_mutex_unlock(&data->mu);
    format_finish(store, op);
}

static void detach_landed(redis_call *call, hf_outcome outcome,
                          const resp *reply, const hf_error *why)
{
    hf_op *op = redis_op_from(call);
    hf_store *store = redis_op_of(op)->store;
    format_data *data = format_of(store);
    format_record *at = first_of(op), *next;
    size_t n = 0;

    (void)reply; /* whose each was makes no difference any more */
    format_note_sent(op);
    if (outcome != HF_APPLIED) {
        pthread_mutex_lock(&data->mu);
        for (; at; at = next) {
            next = at->next_rid;
            at->stray = at->stray || at->asking > 0;
            at->asking = 0;
            format_insert(data, at);
        }
        pthread_mutex_unlock(&data->mu);
        redis_op_failed(op, outcome, why);
        return;
    }
    for (; at && n < FORMAT_BATCH; at = next, n++) {
        next = at->next_rid;
        hfd_free(at);
    }
    redis_op_of(op)->note = (uintptr_t)at;
    if (at)
        redis_op_send(store, op, encode_detach, detach_landed);
    else
        end_detach(store, op);
}

/* Does the store perhaps have something of it that must go? */
static bool is_to_give_back(const format_record *record)
{
    return record->asking > 0 || record->stray ||
           (record->state == FORMAT_GRANTED && record->ends == 0);
}

/* Out of the table; *ret: those to be asked for, the answer: the others. */
static format_record *collect(format_data *data, const hf_id *sid,
                              format_record **ret)
{
    format_record *rest = NULL;

    *ret = NULL;
    for (size_t i = 0; i < data->slots; i++) {
        format_record *next;

        for (format_record *at = data->by_rid[i]; at; at = next) {
            format_record **list = is_to_give_back(at) ? ret : &rest;

            next = at->next_rid;
            if (memcmp(&at->sid, sid, sizeof *sid) != 0)
                continue;
            format_unlink(data, at);
            at->next_rid = *list;
            *list = at;
        }
    }
    return rest;
}

void format_detach(hf_store *store, hf_op *op)
{
    format_data *data = format_of(store);
    const format_session *session;
    format_record *asked, *rest, *next;

    pthread_mutex_lock(&data->mu);
    session = format_session_of(data, &op->sid);
    if (session)
        op->ttl = session->ttl;
    rest = collect(data, &op->sid, &asked);
    pthread_mutex_unlock(&data->mu);
    for (; rest; rest = next) {
        next = rest->next_rid;
        format_dispose(store, rest);
    }
    for (format_record *at = asked; at; at = at->next_rid) {
        if (at->listening)
            format_unlisten(store, at->key, at->key_len);
        at->listening = false;
    }
    redis_op_of(op)->note = (uintptr_t)asked;
    if (asked)
        redis_op_send(store, op, encode_detach, detach_landed);
    else
        end_detach(store, op);
}
