/* native_replicas.c - a grant counts when so many replicas have it.
 *
 * With replicas=N a join, a look, a renewal and a confirmation are three
 * commands on one connection: an empty message to a channel that nobody hears,
 * the script, WAIT.  WAIT counts the replicas that have everything up to the
 * connection's last write; the message is that write where the script itself
 * writes nothing (a grant by somebody else's release, a join repeated), and
 * goes through the stream of replication without leaving anything behind.
 *
 * Fewer than N: a grant at once is given back and told as HF_EUNAVAIL; one that
 * was found by a look is not taken, the look is repeated, and who gives up
 * leaves; a renewal that N do not have is as good as not answered, so nobody
 * believes longer than N replicas know.  Leaving waits for nobody: a release
 * that is forgotten holds up others, and excludes no less.
 *
 * It makes forgetting unlikely, not impossible: the sentinels may promote one
 * that is not among the N.  The quarantine of strict is what covers that.
 * Reply lost: UNKNOWN, as for every call; asked again, it is counted again.
 * Paused here: what was counted stays true, replicas do not unlearn. */
#include <stdio.h>
#include <string.h>

#include "native.h"

enum { WAIT_MAX_MS = 500 };

/* A quarter of what is left: others stand behind us on this connection. */
static int64_t patience_ms(const hf_op *op)
{
    int64_t ms = (op->deadline - hfd_now()) / HF_MS(4);

    return ms < 1 ? 1 : ms < WAIT_MAX_MS ? ms : WAIT_MAX_MS;
}

void redis_ask_replicas(hf_store *store, hf_op *op)
{
    redis_op_of(op)->call.waits = store->replicas > 0;
}

void redis_put_mark(hf__buf *out, redis_call *call, const hf_store *store)
{
    call->before = call->waits; /* whatever it was when it was not sent */
    if (!call->waits)
        return;
    resp_command(out, 3);
    resp_text(out, "PUBLISH");
    redis_key_word(out, store, "r", "", 0);
    resp_text(out, "");
}

void redis_put_wait(hf__buf *out, const redis_call *call, const hf_op *op)
{
    if (!call->waits)
        return;
    resp_command(out, 3);
    resp_text(out, "WAIT");
    resp_number(out, redis_op_of((hf_op *)op)->store->replicas);
    resp_number(out, patience_ms(op));
}

bool redis_lacks_replicas(hf_op *op, hf_error *ret)
{
    const redis_op *own = redis_op_of(op);
    int64_t want = own->store->replicas;
    int has = own->call.acked == UINT8_MAX ? 0 : own->call.acked;

    if (!own->call.waits || has >= want)
        return false;
    hfd_error(ret, HF_EUNAVAIL, "redis", 0,
              "%d of the %lld replicas that the URL asks for have confirmed it "
              "in time: see replicas= and the replication of the server",
              has, (long long)want);
    return true;
}

/* ---- Giving back ---- */

static void encode_back(redis_call *call, hf__buf *out,
                        const redis_server *server)
{
    redis_native_write_leave(call, out, server);
}

/* It is gone, whoever took it away: nothing of the join is left. */
static void back_landed(redis_call *call, hf_outcome outcome, const resp *reply,
                        const hf_error *why)
{
    hf_op *op = redis_op_from(call);
    hf_error told = op->error;

    (void)reply;
    (void)why;
    op->place->verdict = HF_GONE;
    redis_op_failed(op, outcome == HF_APPLIED ? HF_NOT_APPLIED : HF_UNKNOWN,
                    &told);
}

void redis_give_back(hf_op *op, const hf_error *why)
{
    redis_op *own = redis_op_of(op);

    op->error = *why;
    own->call.waits = false;
    redis_op_send(own->store, op, encode_back, back_landed);
}
