/* native_keep.c - renewing a session in a cluster, also while its slot moves.
 *
 * While a slot is being moved every script stands still (lua/moving.lua), and a
 * move may take longer than a lease: its holders must not lose what nobody can
 * take from them.  So a renewal that finds the slot moving asks for less
 * (lua/keep.lua): it extends the one key of all sessions, at the node that
 * gives the slot away, or, if that says ASK, at the one that takes it.
 *
 *     renew --moving--> keep here --ASK--> keep there (ASKING)
 *       \---------------------------------------> renew, until its deadline
 *
 * Safety.  One key is at one node at a time, and both agree on where: a session
 * is extended only where its end is kept, only while that lies ahead, and
 * nothing else is decided.  News of entries wait for the renewal after the
 * move.  Reply lost: as with every renewal.  Paused: the answer is counted from
 * `sent`. */
#include <stdio.h>

#include "cluster.h"
#include "native.h"

static void encode_keep(redis_call *call, hf__buf *out,
                        const redis_server *server)
{
    hf_op *op = redis_op_from(call);

    (void)server;
    resp_script(out, call, &redis_keep, 1, 3);
    redis_key_word(out, redis_op_of(op)->store, "s", "", 0);
    redis_put_id(out, &op->sid);
    resp_number(out, US(op->ttl));
}

static void encode_asking(redis_call *call, hf__buf *out,
                          const redis_server *server)
{
    resp_command(out, 1);
    resp_text(out, "ASKING");
    call->before = 1;
    encode_keep(call, out, server);
}

/* Like any other call: again and again until its deadline. */
static void renew_patiently(hf_op *op)
{
    redis_op *own = redis_op_of(op);

    own->call.once = false;
    redis_op_send(own->store, op, redis_encode_renew, redis_renew_landed);
}

/* True: it was answered, and op is finished. */
static bool is_kept(hf_op *op, hf_outcome outcome, const resp *reply)
{
    if (outcome != HF_APPLIED || reply->type != RESP_ARRAY)
        return false;
    switch (redis_item(reply, 0)) {
    case 1:
        redis_set_times(op, redis_item(reply, 1), redis_item(reply, 2));
        redis_op_done(op);
        return true;
    case 0:
        redis_op_refuse(op, HF_EEXPIRED, "the session's lease ran out");
        return true;
    default:
        return false;
    }
}

static void kept_there(redis_call *call, hf_outcome outcome, const resp *reply,
                       const hf_error *why)
{
    hf_op *op = redis_op_from(call);

    if (is_kept(op, outcome, reply))
        return;
    if (outcome == HF_UNKNOWN)
        redis_op_failed(op, outcome, why);
    else
        renew_patiently(op);
}

static void kept_here(redis_call *call, hf_outcome outcome, const resp *reply,
                      const hf_error *why)
{
    hf_op *op = redis_op_from(call);
    redis_op *own = redis_op_of(op);
    redis_found to;

    if (is_kept(op, outcome, reply))
        return;
    if (outcome == HF_UNKNOWN) {
        redis_op_failed(op, outcome, why);
    } else if (outcome == HF_NOT_APPLIED && !call->driven &&
               redis_cluster_moving(own->store->cluster, call->sent, &to) &&
               to.port != 0) {
        call->encode = encode_asking;
        call->landed = kept_there;
        redis_wire_start(redis_cluster_aside(own->store->cluster), call);
    } else {
        renew_patiently(op);
    }
}

static void renewed(redis_call *call, hf_outcome outcome, const resp *reply,
                    const hf_error *why)
{
    hf_op *op = redis_op_from(call);
    redis_op *own = redis_op_of(op);
    redis_found to;

    if (outcome != HF_NOT_APPLIED)
        redis_renew_landed(call, outcome, reply, why);
    else if (call->sent > 0 &&
             redis_cluster_moving(own->store->cluster, call->sent, &to))
        redis_op_send(own->store, op, encode_keep, kept_here);
    else
        renew_patiently(op);
}

void redis_native_renew_there(hf_store *store, hf_op *op)
{
    redis_op_of(op)->call.once = true;
    redis_op_send(store, op, redis_encode_renew, renewed);
}
