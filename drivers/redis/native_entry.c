/* native_entry.c - join, leave, recheck, confirm, publish, evict.
 *
 * Each is one script: what is decided is decided in the server, in one atomic
 * step, so there is nothing to race with here.  Reply lost: the core asks
 * again with the same rid, and the script finds the entry.  Paused here: every
 * answer carries what is left by the server's clock, and the core counts it
 * from `sent`. */
#include <stdio.h>
#include <string.h>

#include "native.h"

/* ---- Entries ------------------------------------------------------------ */

/* A number and a space. */
static char *put_digits(char *at, int64_t number)
{
    char digits[RESP_DIGITS], *end = digits + sizeof digits;
    char *from = resp_digits(end, number);

    memcpy(at, from, (size_t)(end - from));
    at += end - from;
    *at++ = ' ';
    return at;
}

/* The record as it will be if the key is free and no larger number was drawn:
 * sid mode places run lease born ends num token flag till value. */
static size_t make_record(char *record, const hf_op *op, int64_t num)
{
    const hf_place *place = op->place;
    char *at = record + REDIS_ID;

    redis_id_text(record, &op->sid);
    *at++ = ' ';
    at = put_digits(at, place->mode);
    at = put_digits(at, place->places);
    at = put_digits(at, place->run);
    at = put_digits(at, US(place->lease));
    at = put_digits(at, num);
    at = put_digits(at, 0);
    at = put_digits(at, num);
    at = put_digits(at, num);
    memcpy(at, "a 0 ", 4);
    at += 4;
    if (op->value_len)
        memcpy(at, op->value, op->value_len);
    return (size_t)(at - record) + op->value_len;
}

static void encode_join(redis_call *call, hf__buf *out,
                        const redis_server *server)
{
    hf_op *op = redis_op_from(call);
    const hf_place *place = op->place;
    hf_store *store = redis_op_of(op)->store;
    char record[REDIS_ID + 10 * (RESP_DIGITS + 1) + HF_VALUE_MAX];
    bool plain = place->lease == 0 && !store->strict;
    int64_t num = redis_next_number(store, &plain);
    size_t len = make_record(record, op, num);

    (void)server;
    redis_op_of(op)->note = (uintptr_t)num;
    redis_put_mark(out, call, store);
    redis_put_script(out, call, store, redis_join, 4,
                     plain && !op->only_if_granted ? 8
                     : plain                       ? 9
                                                   : 10);
    redis_key_word(out, store, "l:", record, REDIS_ID);
    redis_key_word(out, store, "e:", record, REDIS_ID);
    redis_put_queue_key(out, store, place);
    redis_key_word(out, store, "c", "", 0);
    redis_put_id(out, &place->rid);
    resp_number(out, num);
    resp_number(out, num + place->run - 1);
    resp_word(out, record, len);
    if (op->only_if_granted || !plain)
        resp_text(out, op->only_if_granted ? "t" : "w");
    if (!plain)
        redis_put_epoch(out, store, "");
    redis_put_wait(out, call, op);
}

static void join_done(hf_op *op)
{
    hf_error why = {0};

    if (op->place->verdict == HF_GRANTED && redis_lacks_replicas(op, &why)) {
        redis_give_back(op, &why);
        return;
    }
    redis_note_token(redis_op_of(op)->store, op->place);
    redis_op_done(op);
}

/* The key was free: only the token came back, or 1 for what we proposed. */
static void granted_at_once(hf_op *op, int64_t token)
{
    hf_place *place = op->place;

    if (token < 1 || token >= INT64_C(1) << 60) {
        redis_bad_reply(op);
        return;
    }
    place->verdict = HF_GRANTED;
    place->token = token > 1 ? (uint64_t)token : redis_op_of(op)->note;
    place->num = place->token;
    place->reason = 0;
    place->remaining = place->look_in = 0;
    join_done(op);
}

static void join_landed(redis_call *call, hf_outcome outcome, const resp *reply,
                        const hf_error *why)
{
    hf_op *op = redis_op_from(call);
    hf_store *store = redis_op_of(op)->store;

    if (outcome == HF_APPLIED && reply->type == RESP_INTEGER) {
        granted_at_once(op, reply->number);
        return;
    }
    if (!redis_is_row(op, outcome, reply, why, 1))
        return;
    switch (redis_item(reply, 0)) {
    case 0:
        redis_op_refuse(op, HF_EEXPIRED, "the session's lease ran out");
        return;
    case 4:
        redis_op_refuse(op, HF_EKIND,
                        "the key is in use as another kind of lock, or with "
                        "another number of places");
        return;
    case 5:
        op->place->look_in = redis_span(reply, 1);
        redis_op_refuse(op, HF_EBUSY, "held by another");
        return;
    case 6:
        op->place->look_in = redis_span(reply, 1);
        hfd_error(&op->error, HF_EQUARANTINE, "redis", 0,
                  "the server was restarted or replaced and may have "
                  "forgotten locks: nothing is granted for %lld ms more",
                  (long long)(op->place->look_in / HF_MS(1)));
        op->sent = call->sent;
        hfd_finish(op, HF_NOT_APPLIED, HF_EQUARANTINE);
        return;
    default:
        break;
    }
    if (!redis_read_place(op->place, reply)) {
        redis_bad_reply(op);
        return;
    }
    if (reply->number >= 8)
        redis_set_times(op, redis_item(reply, 6), redis_item(reply, 7));
    if (op->place->verdict == HF_WAITS)
        redis_native_listen(store, &op->sid);
    join_done(op);
}

void redis_native_write_leave(redis_call *call, hf__buf *out,
                              const redis_server *server)
{
    hf_op *op = redis_op_from(call);
    hf_store *store = redis_op_of(op)->store;
    bool plain = op->keep == 0 && !op->tomb && !store->strict;
    int64_t num = redis_next_number(store, &plain);

    (void)server;
    redis_put_script(out, call, store, redis_leave, 2, plain ? 4 : 7);
    redis_put_session_key(out, store, &op->sid);
    redis_put_queue_key(out, store, op->place);
    redis_put_id(out, &op->place->rid);
    resp_number(out, num);
    if (!plain) {
        redis_put_epoch(out, store, "");
        resp_number(out, op->keep > 0 ? US(op->keep) + 1 : 0);
        resp_text(out, op->tomb ? "1" : "0");
    }
}

static void leave_landed(redis_call *call, hf_outcome outcome,
                         const resp *reply, const hf_error *why)
{
    hf_op *op = redis_op_from(call);
    int64_t was;

    if (outcome != HF_APPLIED) {
        redis_op_failed(op, outcome, why);
        return;
    }
    was = reply->type == RESP_ARRAY ? redis_item(reply, 0) : resp_int(reply, 0);
    if (was < 1 || was > 3 || (was == 3 && redis_item(reply, 1) >= 0)) {
        redis_bad_reply(op);
        return;
    }
    op->place->verdict = was == 1 ? HF_GRANTED : was == 2 ? HF_WAITS : HF_GONE;
    op->place->reason = was == 3 ? (int32_t)redis_item(reply, 1) : 0;
    redis_op_done(op);
}

static void encode_confirm(redis_call *call, hf__buf *out,
                           const redis_server *server)
{
    hf_op *op = redis_op_from(call);
    hf_store *store = redis_op_of(op)->store;
    bool value = op->kind == HF_OP_PUBLISH;

    (void)server;
    redis_put_mark(out, call, store);
    redis_put_script(out, call, store, value ? redis_publish : redis_confirm, 2,
                     value ? 6 : 7);
    redis_key_word(out, store, "n", "", 0);
    redis_put_queue_key(out, store, op->place);
    redis_put_id(out, &op->sid);
    redis_put_id(out, &op->place->rid);
    resp_word(out, op->place->key, op->place->key_len);
    if (value) {
        resp_word(out, op->value, op->value_len);
    } else {
        resp_number(out, US(op->place->lease));
        redis_put_epoch(out, store, "");
    }
    redis_put_wait(out, call, op);
}

/* Of confirm and publish: a place, and nothing about the session. */
static void place_landed(redis_call *call, hf_outcome outcome,
                         const resp *reply, const hf_error *why)
{
    hf_op *op = redis_op_from(call);
    hf_error lacks = {0};

    if (outcome != HF_APPLIED) {
        redis_op_failed(op, outcome, why);
    } else if (!redis_read_place(op->place, reply)) {
        redis_bad_reply(op);
    } else if (op->place->verdict == HF_GRANTED &&
               redis_lacks_replicas(op, &lacks)) {
        redis_op_failed(op, HF_UNKNOWN, &lacks);
    } else {
        if (op->kind == HF_OP_CONFIRM)
            op->store_us = redis_item(reply, (size_t)reply->number - 1);
        redis_op_done(op);
    }
}

static void encode_recheck(redis_call *call, hf__buf *out,
                           const redis_server *server)
{
    hf_op *op = redis_op_from(call);
    hf_store *store = redis_op_of(op)->store;

    (void)server;
    redis_put_mark(out, call, store);
    redis_put_script(out, call, store, redis_recheck, 1,
                     3 + 2 * (unsigned)op->place_count);
    redis_key_word(out, store, "n", "", 0);
    redis_put_id(out, &op->sid);
    redis_put_epoch(out, store, "");
    for (size_t i = 0; i < op->place_count; i++) {
        redis_put_id(out, &op->places[i]->rid);
        resp_word(out, op->places[i]->key, op->places[i]->key_len);
    }
    redis_put_wait(out, call, op);
}

static void recheck_landed(redis_call *call, hf_outcome outcome,
                           const resp *reply, const hf_error *why)
{
    hf_op *op = redis_op_from(call);
    hf_error lacks = {0};
    bool granted = false;
    resp at;

    if (!redis_is_row(op, outcome, reply, why, 1))
        return;
    if (reply->number == 1) {
        redis_op_refuse(op, HF_EEXPIRED, "the session's lease ran out");
        return;
    }
    if (!redis_is_row(op, outcome, reply, why, 2 + (int64_t)op->place_count))
        return;
    redis_set_times(op, redis_item(reply, 0), redis_item(reply, 1));
    at = resp_item(reply, 1);
    for (size_t i = 0; i < op->place_count; i++) {
        at = resp_at(at.after);
        if (!redis_read_place(op->places[i], &at)) {
            redis_bad_reply(op);
            return;
        }
        granted = granted || op->places[i]->verdict == HF_GRANTED;
    }
    /* Not taken yet: the look is repeated. */
    if (granted && redis_lacks_replicas(op, &lacks)) {
        redis_op_failed(op, HF_UNKNOWN, &lacks);
        return;
    }
    for (size_t i = 0; i < op->place_count; i++)
        redis_note_token(redis_op_of(op)->store, op->places[i]);
    redis_op_done(op);
}

static void encode_evict(redis_call *call, hf__buf *out,
                         const redis_server *server)
{
    hf_op *op = redis_op_from(call);
    hf_store *store = redis_op_of(op)->store;

    (void)server;
    redis_put_script(out, call, store, redis_evict, 2, 7);
    redis_key_word(out, store, "n", "", 0);
    redis_key_word(out, store, "g:", op->text, op->text_len);
    resp_word(out, op->text, op->text_len);
    resp_number(out, (int64_t)op->token);
    resp_text(out, op->now ? "1" : "0");
    resp_number(out, US(op->ttl));
    redis_put_epoch(out, store, "");
}

static void evict_landed(redis_call *call, hf_outcome outcome,
                         const resp *reply, const hf_error *why)
{
    hf_op *op = redis_op_from(call);
    int64_t count = outcome == HF_APPLIED ? resp_int(reply, -1) : 0;

    if (outcome != HF_APPLIED) {
        redis_op_failed(op, outcome, why);
    } else if (count < 0 || count > UINT32_MAX) {
        redis_bad_reply(op);
    } else {
        op->count = (uint32_t)count;
        redis_op_done(op);
    }
}

/* ---- Beginning ---------------------------------------------------------- */

static bool is_sound(hf_store *store, hf_op *op)
{
    const hf_place *place = op->place;
    const char *why = NULL;

    if (place->key_len == 0 || place->key_len > HF_KEY_MAX ||
        op->value_len > HF_VALUE_MAX || place->mode > HF_PERMIT ||
        (place->mode == HF_PERMIT && place->places == 0) || place->lease < 0)
        why = "the place to join with is malformed";
    else if (store->strict && place->lease > HF_MS(store->max_lease_ms))
        why = "the lease is longer than max_lease_ms of this strict store";
    if (why) {
        hfd_error(&op->error, HF_EINVAL, "redis", 0, "%s", why);
        hfd_finish(op, HF_NOT_APPLIED, HF_EINVAL);
    }
    return !why;
}

void redis_native_join(hf_store *store, hf_op *op)
{
    if (is_sound(store, op)) {
        redis_note_bell(store, op->place);
        redis_ask_replicas(store, op);
        redis_op_send(store, op, encode_join, join_landed);
    }
}

void redis_native_leave(hf_store *store, hf_op *op)
{
    if (store->strict && op->keep > HF_MS(store->max_lease_ms))
        op->keep = HF_MS(store->max_lease_ms);
    redis_op_send(store, op, redis_native_write_leave, leave_landed);
}

void redis_native_recheck(hf_store *store, hf_op *op)
{
    for (size_t i = 0; i < op->place_count; i++)
        redis_note_bell(store, op->places[i]);
    redis_ask_replicas(store, op);
    redis_op_send(store, op, encode_recheck, recheck_landed);
}

void redis_native_place(hf_store *store, hf_op *op)
{
    if (op->value_len > HF_VALUE_MAX) {
        hfd_error(&op->error, HF_EINVAL, "redis", 0,
                  "a value has at most %d bytes", HF_VALUE_MAX);
        hfd_finish(op, HF_NOT_APPLIED, HF_EINVAL);
    } else {
        if (op->kind == HF_OP_CONFIRM)
            redis_ask_replicas(store, op);
        redis_op_send(store, op, encode_confirm, place_landed);
    }
}

void redis_native_evict(hf_store *store, hf_op *op)
{
    redis_op_send(store, op, encode_evict, evict_landed);
}
