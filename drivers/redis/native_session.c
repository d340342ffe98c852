/* native_session.c - attach, renew, detach: one record and one renewal for a
 * process, however many locks it holds.
 *
 * The record's expiry is judged by the server's clock inside the scripts; a
 * session that is over is never revived (lua/lib.lua, alive).  Reply lost: an
 * attach is not repeated under the same id by the core, a renewal that arrives
 * late extends only what still lives, a detach repeated finds nothing. */
#include <stdio.h>
#include <unistd.h>

#include "native.h"

/* ---- Sessions ----------------------------------------------------------- */

static void encode_attach(redis_call *call, hf__buf *out,
                          const redis_server *server)
{
    hf_op *op = redis_op_from(call);
    hf_store *store = redis_op_of(op)->store;

    (void)server;
    redis_put_script(out, call, store, redis_attach, 2, 8);
    redis_key_word(out, store, "n", "", 0);
    redis_put_session_key(out, store, &op->sid);
    redis_put_id(out, &op->sid);
    resp_number(out, US(op->ttl));
    resp_number(out, getpid());
    resp_text(out, store->host_name);
    resp_word(out, op->text, op->text_len);
    redis_put_epoch(out, store, "");
}

static void refuse_lease(hf_op *op, int64_t most_ms, int64_t lag_ms)
{
    char text[160];

    snprintf(text, sizeof text,
             "this namespace is strict and allows leases of at most %lld ms: "
             "all its users must say max_lease_ms=%lld&lag_ms=%lld",
             (long long)most_ms, (long long)most_ms, (long long)lag_ms);
    redis_op_refuse(op, HF_EINVAL, text);
}

static void attach_landed(redis_call *call, hf_outcome outcome,
                          const resp *reply, const hf_error *why)
{
    hf_op *op = redis_op_from(call);

    if (!redis_is_row(op, outcome, reply, why, 1))
        return;
    switch (redis_item(reply, 0)) {
    case 1:
        redis_set_times(op, redis_item(reply, 1), redis_item(reply, 2));
        atomic_store(&redis_op_of(op)->store->until, redis_item(reply, 3));
        redis_op_done(op);
        return;
    case 0:
        redis_op_refuse(op, HF_EEXPIRED, "this session is over");
        return;
    case 2:
        refuse_lease(op, redis_item(reply, 1) / 1000,
                     redis_item(reply, 2) / 1000);
        return;
    case 3:
        redis_op_refuse(op, HF_EURL,
                        "this namespace is strict: add strict=yes to the URL");
        return;
    default:
        redis_bad_reply(op);
    }
}

void redis_encode_renew(redis_call *call, hf__buf *out,
                        const redis_server *server)
{
    hf_op *op = redis_op_from(call);
    hf_store *store = redis_op_of(op)->store;

    (void)server;
    redis_put_mark(out, call, store);
    redis_put_script(out, call, store, redis_renew, 2, 6);
    redis_key_word(out, store, "n", "", 0);
    redis_put_session_key(out, store, &op->sid);
    redis_put_id(out, &op->sid);
    resp_number(out, US(op->ttl));
    redis_put_epoch(out, store, "");
    resp_number(out, (int64_t)atomic_load(&store->token_seen));
    redis_put_wait(out, call, op);
}

/* The store's numbers had fallen behind one that we were granted: somebody else
 * may have been granted a smaller one meanwhile.  From now on they rise. */
static void tell_regression(hf_store *store, int64_t was)
{
    hfd_log(HF_LOG_ERROR,
            "redis: the server has forgotten numbers, and its clock is behind "
            "them: it stood at %lld, and %llu was granted here; tokens of "
            "others may have gone back until now",
            (long long)was,
            (unsigned long long)atomic_load(&store->token_seen));
}

/* A quarantine has begun since we last heard: the server, or another in its
 * place, may know of the session and not of its locks.  The connection may be
 * the same: a proxy hides it, or the server followed another for a while. */
static void note_until(hf_store *store, int64_t until)
{
    if (until > 0 && atomic_exchange(&store->until, until) != until)
        store->host.doubt(store->host.ctx, HF_EUNAVAIL,
                          "a quarantine has begun: the server may have "
                          "forgotten what was granted");
}

void redis_renew_landed(redis_call *call, hf_outcome outcome, const resp *reply,
                        const hf_error *why)
{
    hf_op *op = redis_op_from(call);
    hf_store *store = redis_op_of(op)->store;
    hf_error lacks = {0};

    if (!redis_is_row(op, outcome, reply, why, 1))
        return;
    if (redis_item(reply, 0) == 0) {
        redis_op_refuse(op, HF_EEXPIRED, "the session's lease ran out");
        return;
    }
    if (redis_item(reply, 0) != 1) {
        redis_bad_reply(op);
        return;
    }
    redis_set_times(op, redis_item(reply, 1), redis_item(reply, 2));
    for (int64_t i = 3; i + 1 < reply->number; i += 2) {
        resp id = resp_item(reply, (size_t)i);
        int reason = (int)redis_item(reply, (size_t)i + 1);
        hf_id rid;

        if (redis_id_from(&rid, id.text, id.len) &&
            hf_error_class(reason) == HF_CLASS_LOST)
            store->host.news(store->host.ctx, &rid, reason);
        else if (resp_is(&id, "token"))
            tell_regression(store, redis_item(reply, (size_t)i + 1));
        else if (resp_is(&id, "until"))
            note_until(store, redis_item(reply, (size_t)i + 1));
    }
    if (redis_lacks_replicas(op, &lacks))
        redis_op_failed(op, HF_UNKNOWN, &lacks);
    else
        redis_op_done(op);
}

static void encode_detach(redis_call *call, hf__buf *out,
                          const redis_server *server)
{
    hf_op *op = redis_op_from(call);
    hf_store *store = redis_op_of(op)->store;

    (void)server;
    redis_put_script(out, call, store, redis_detach, 1, 3);
    redis_key_word(out, store, "n", "", 0);
    redis_put_id(out, &op->sid);
    redis_put_epoch(out, store, "");
}

static void detach_landed(redis_call *call, hf_outcome outcome,
                          const resp *reply, const hf_error *why)
{
    hf_op *op = redis_op_from(call);

    if (outcome != HF_APPLIED)
        redis_op_failed(op, outcome, why);
    else if (resp_int(reply, 0) == 2) /* a page of many entries is done */
        redis_op_send(redis_op_of(op)->store, op, encode_detach, detach_landed);
    else
        redis_op_done(op);
}

void redis_native_attach(hf_store *store, hf_op *op)
{
    if (store->strict && op->ttl > HF_MS(store->max_lease_ms)) {
        refuse_lease(op, store->max_lease_ms, store->lag_ms);
        return;
    }
    redis_native_begins(store, &op->sid);
    redis_op_send(store, op, encode_attach, attach_landed);
}

void redis_native_renew(hf_store *store, hf_op *op)
{
    /* Who has been here for a third of a lease wants to hear of a break, and
     * of a lost connection, at once. */
    redis_native_listen(store, &op->sid);
    redis_ask_replicas(store, op);
    if (store->cluster)
        redis_native_renew_there(store, op);
    else
        redis_op_send(store, op, redis_encode_renew, redis_renew_landed);
}

void redis_native_detach(hf_store *store, hf_op *op)
{
    redis_op_send(store, op, encode_detach, detach_landed);
}
