/* format_leave.c - one lock of a peer's format: extend it, give it back.
 *
 * Both ask the store whose it is in the same script that acts, so that a lock
 * which expired and went to another is never touched, and its former owner is
 * told that it was lost.
 *
 * Reply lost: a leave that finds nothing after one without an answer takes that
 * one for the cause; the store keeps no trace of an expiry by which the two
 * could be told apart.  What `keep` leaves behind is written as another owner:
 * a leave repeated does not find it. */
#include "format.h"

/* Check the answer about op->place; false: op is finished. */
static bool read_one(hf_op *op, hf_outcome outcome, const resp *reply,
                     const hf_error *why, format_answer *ret)
{
    resp at;

    format_note_sent(op);
    if (outcome != HF_APPLIED) {
        redis_op_failed(op, outcome, why);
        return false;
    }
    op->store_us = format_read(reply, 1);
    if (op->store_us == 0) {
        format_nonsense(op);
        return false;
    }
    at = resp_item(reply, 0);
    *ret = format_next(&at);
    return true;
}

static void confirm_landed(redis_call *call, hf_outcome outcome,
                           const resp *reply, const hf_error *why)
{
    hf_op *op = redis_op_from(call);
    hf_store *store = redis_op_of(op)->store;
    format_data *data = format_of(store);
    hf_place *place = op->place;
    format_record *record;
    format_answer answer;

    if (!read_one(op, outcome, reply, why, &answer))
        return;
    pthread_mutex_lock(&data->mu);
    record = format_find(data, &place->rid);
    format_doubt_grant(data, record, &answer);
    if (answer.code == FORMAT_MINE && record) {
        if (place->lease > 0)
            record->ends = op->sent + HF_MS(answer.left_ms);
        format_answer_granted(data, op, place, record, &answer);
    } else if (record && record->state == FORMAT_WAITS) {
        place->verdict = HF_WAITS;
        place->reason = 0;
    } else {
        format_answer_gone(place, record ? HF_EEXPIRED : HF_ENOTHELD);
    }
    pthread_mutex_unlock(&data->mu);
    format_finish(store, op);
}

void format_confirm(hf_store *store, hf_op *op)
{
    /* What has no lease of its own is extended by renewals. */
    format_set_verb(op->place, op->place->lease > 0 ? 'X' : 'L');
    redis_op_of(op)->note = 0;
    redis_op_send(store, op, format_encode, confirm_landed);
}

static void leave_landed(redis_call *call, hf_outcome outcome,
                         const resp *reply, const hf_error *why)
{
    hf_op *op = redis_op_from(call);
    hf_store *store = redis_op_of(op)->store;
    format_data *data = format_of(store);
    hf_place *place = op->place;
    format_record *record, *gone = NULL;
    format_answer answer;

    if (outcome != HF_APPLIED) {
        pthread_mutex_lock(&data->mu);
        record = format_find(data, &place->rid);
        if (record && outcome == HF_UNKNOWN)
            record->left = true;
        else if (record)
            record->leaving = record->left;
        pthread_mutex_unlock(&data->mu);
    }
    if (!read_one(op, outcome, reply, why, &answer))
        return;
    pthread_mutex_lock(&data->mu);
    record = format_find(data, &place->rid);
    if (answer.code == FORMAT_MINE) {
        place->verdict = HF_GRANTED;
        place->reason = 0;
    } else if (record && record->state == FORMAT_WAITS) {
        place->verdict = HF_WAITS;
        place->reason = 0;
    } else {
        /* Gone after a leave without an answer: that one did it. */
        bool held = record && record->state == FORMAT_GRANTED && !record->left;

        format_answer_gone(place, held ? HF_EEXPIRED : HF_ENOTHELD);
    }
    if (record)
        gone = format_take_out(data, record);
    pthread_mutex_unlock(&data->mu);
    format_dispose(store, gone);
    format_finish(store, op);
}

void format_leave(hf_store *store, hf_op *op)
{
    format_data *data = format_of(store);
    const format_session *session;
    format_record *record;
    bool tomb = op->tomb;

    pthread_mutex_lock(&data->mu);
    session = format_session_of(data, &op->sid);
    if (session)
        op->ttl = session->ttl;
    record = format_find(data, &op->place->rid);
    if (record && (record->asking > 0 || record->stray))
        tomb = true;
    /* A look that was begun is caught by the tomb, a later one by this. */
    if (record)
        record->leaving = true;
    if (record && record->state != FORMAT_GRANTED)
        op->keep = 0;
    pthread_mutex_unlock(&data->mu);
    if (op->ttl <= 0)
        op->ttl = HF_MS(60000);
    if (op->place->lease > op->ttl)
        op->ttl = op->place->lease;
    format_set_verb(op->place, 'D');
    redis_op_of(op)->note = tomb ? (uintptr_t)format_ms(op->ttl) : 0;
    redis_op_send(store, op, format_encode, leave_landed);
}
