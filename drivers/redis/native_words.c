/* native_words.c - how the native format spells its words and reads replies.
 *
 * Ids are 32 hexadecimal digits, times microseconds, names of keys begin with
 * the namespace's prefix, whose braces come before any byte of the user's.
 * Every number of a reply is checked before it becomes an answer: a reply that
 * is not of our scripts is unknown, never a grant. */
#include <stdio.h>
#include <string.h>

#include "native.h"

/* ---- Words -------------------------------------------------------------- */

void redis_put_script(hf__buf *out, const redis_call *call,
                      const hf_store *store, const redis_script pair[2],
                      unsigned keys, unsigned words)
{
    resp_script(out, call, &pair[store->cluster ? 1 : 0], keys, words);
}

void redis_key_word(hf__buf *out, const hf_store *store, const char *kind,
                    const void *bytes, size_t len)
{
    char name[sizeof store->prefix + 8 + HF_KEY_MAX];
    size_t at = store->prefix_len, kind_len = strlen(kind);

    memcpy(name, store->prefix, at);
    memcpy(name + at, kind, kind_len);
    at += kind_len;
    if (len > HF_KEY_MAX)
        len = HF_KEY_MAX;
    memcpy(name + at, bytes, len);
    resp_word(out, name, at + len);
}

void redis_put_id(hf__buf *out, const hf_id *id)
{
    char text[REDIS_ID];

    redis_id_text(text, id);
    resp_word(out, text, sizeof text);
}

void redis_put_session_key(hf__buf *out, const hf_store *store,
                           const hf_id *sid)
{
    char text[REDIS_ID];

    redis_id_text(text, sid);
    redis_key_word(out, store, "e:", text, sizeof text);
}

void redis_put_queue_key(hf__buf *out, const hf_store *store,
                         const hf_place *place)
{
    redis_key_word(out, store, "g:", place->key, place->key_len);
}

void redis_put_epoch(hf__buf *out, const hf_store *store, const char *otherwise)
{
    char text[100];
    int used;

    if (!store->strict) {
        resp_text(out, otherwise);
        return;
    }
    /* A quarantine also covers what a primary that was cut off still grants:
     * its replicas' silence is counted in whole seconds. */
    used = snprintf(text, sizeof text, "%lld %lld",
                    (long long)store->max_lease_ms * 1000,
                    (long long)store->lag_ms * 1000);
    if (store->lag_ms >= 2000)
        snprintf(text + used, sizeof text - (size_t)used, " %lld",
                 (long long)(store->lag_ms / 1000 - 1));
    resp_text(out, text);
}

/* ---- Answers ------------------------------------------------------------ */

int64_t redis_item(const resp *reply, size_t i)
{
    resp item = resp_item(reply, i);

    return resp_int(&item, -1);
}

void redis_bad_reply(hf_op *op)
{
    hf_error why;

    hfd_error(&why, HF_EPROTO, "redis", 0,
              "the server's answer is not of our script: is the namespace used "
              "by another version of holdfast?");
    redis_op_failed(op, HF_UNKNOWN, &why);
}

/* An array with at least n elements; else op is finished. */
bool redis_is_row(hf_op *op, hf_outcome outcome, const resp *reply,
                  const hf_error *why, int64_t n)
{
    if (outcome != HF_APPLIED) {
        redis_op_failed(op, outcome, why);
        return false;
    }
    if (reply->type == RESP_ARRAY && reply->number >= n &&
        resp_item(reply, 0).type == RESP_INTEGER)
        return true;
    redis_bad_reply(op);
    return false;
}

/* Tokens, places in a queue and instants: what one more can be added to. */
static bool is_number(int64_t n)
{
    return n > 0 && n < INT64_C(1) << 60;
}

/* Time that is told: none, or less than thirty years. */
static bool is_time(int64_t us)
{
    return us >= 0 && us < INT64_C(1000000000000000);
}

hf_nsec redis_span(const resp *reply, size_t i)
{
    int64_t us = redis_item(reply, i);

    return is_time(us) ? us * 1000 : 0;
}

void redis_set_times(hf_op *op, int64_t rest_us, int64_t now_us)
{
    hf_store *store = redis_op_of(op)->store;

    if (!is_time(rest_us) || !is_number(now_us))
        return; /* it says nothing */
    op->remaining = rest_us * 1000;
    if (op->ttl > 0 && op->remaining > op->ttl)
        op->remaining = op->ttl; /* never more than we asked for */
    op->store_us = now_us;
    atomic_store(&store->clock_ahead_us, now_us - hfd_now() / 1000);
}

int64_t redis_server_clock(hf_store *store)
{
    return atomic_load(&store->clock_ahead_us) + hfd_now() / 1000;
}

int64_t redis_next_number(hf_store *store, bool *ret_plain)
{
    int64_t clock = redis_server_clock(store);
    int64_t above = (int64_t)atomic_load(&store->token_seen) + 1;

    if (above <= clock)
        return clock;
    if (above > clock + 1000000)
        *ret_plain = false;
    return above;
}

void redis_note_token(hf_store *store, const hf_place *place)
{
    uint64_t last = place->token + place->run - 1;
    uint64_t seen = atomic_load(&store->token_seen);

    if (place->verdict != HF_GRANTED || place->token == 0)
        return;
    while (seen < last &&
           !atomic_compare_exchange_weak(&store->token_seen, &seen, last))
        continue;
}

void redis_op_done(hf_op *op)
{
    redis_note_sent(op);
    hfd_finish(op, HF_APPLIED, 0);
}

/* {1|2, token, run, rest of a fixed lease, num, look} or {3, reason}; false:
 * it is neither. */
static bool is_reason(int64_t reason)
{
    return reason == HF_EEXPIRED || reason == HF_EFORCED ||
           reason == HF_ENOTHELD;
}

bool redis_read_place(hf_place *place, const resp *reply)
{
    int64_t kind = redis_item(reply, 0), token = redis_item(reply, 1),
            run = redis_item(reply, 2), rest = redis_item(reply, 3),
            num = redis_item(reply, 4), look = redis_item(reply, 5);

    if (reply->type != RESP_ARRAY ||
        (kind == 3 ? !is_reason(token)
                   : (kind != 1 && kind != 2) || reply->number < 6 ||
                         !is_number(num) || !is_time(rest) || !is_time(look)) ||
        (kind == 1 && (!is_number(token) || run < 1 || run > UINT16_MAX)))
        return false;
    place->reason = kind == 3 ? (int32_t)token : 0;
    place->verdict = kind == 1 ? HF_GRANTED : kind == 2 ? HF_WAITS : HF_GONE;
    place->token = kind == 1 ? (uint64_t)token : 0;
    place->remaining = place->look_in = 0;
    if (kind == 3)
        return true;
    place->num = (uint64_t)num;
    if (kind == 1) {
        place->run = (uint32_t)run;
        place->remaining = rest * 1000;
    } else {
        place->look_in = look * 1000 + 1; /* 0 would mean: unknown */
    }
    return true;
}
