/* wire_hear.c - what comes on the connection for pushes, and whether it still
 * can.
 *
 * Answers: is this a message, or which command's answer, and is the server's
 * side of the connection still the one that subscribed?  A proxy may go on with
 * it at another one, which has not: nothing would ever come, and nobody would
 * notice.  So every two seconds, while somebody listens, PING is asked, and a
 * channel that stands is subscribed to again.  PING is answered by an array to
 * who has subscribed, by a status to who has not; and each answer about a
 * channel has the number of all that stand, which is ours unless others listen
 * there.  Knows nothing of what the messages mean.
 *
 * Answers come in the order of the commands, so that of PING comes when as many
 * others have as were owed before it; one that comes earlier shows that
 * others were lost.  What stands is counted as answers come, and is what the
 * server counted when it wrote them.
 *
 * Answer lost, or wrong: the connection is cut and dialled again, `listening`
 * is told when all stands, and the core looks.  Paused before the answer was
 * read: it is read before it is called late.  Two of us: the epoll's owner
 * asks, whoever reads judges, both under mu.  No proof decides anything. */
#include <errno.h>
#include <string.h>

#include "wire_inside.h"

enum { PROOF_MS = 2000 };

static const char elsewhere[] =
    "the connection for pushes goes on at another one of the server's, which "
    "has not subscribed";

/* ---- Asking ---- */

void redis_push_prove_later(redis_conn *conn)
{
    if (conn->proof_due != 0)
        return;
    conn->proof_due = hfd_now() + HF_MS(PROOF_MS);
    redis_wire_remind(conn->wire, conn->proof_due);
}

static bool is_steady(const redis_channel *channel)
{
    return channel->stands && channel->asked == 0 && channel->unasked == 0 &&
           channel->refs > 0;
}

/* Each in its turn: where others listen a wrong number could be ours once, but
 * grows.  With mu held; NULL: none stands for sure. */
static const redis_channel *next_channel(redis_conn *conn)
{
    unsigned count = 0, turn;
    const redis_channel *at;

    for (at = conn->wire->channels; at; at = at->next)
        count += is_steady(at);
    if (count == 0)
        return NULL;
    turn = conn->proofs++ % count;
    for (at = conn->wire->channels; !is_steady(at) || turn-- > 0;)
        at = at->next;
    return at;
}

/* With mu held. */
static void write_proof(redis_conn *conn, hf__buf *out)
{
    redis_wire *wire = conn->wire;
    const redis_channel *channel = next_channel(conn);
    size_t before = hf__buf_len(out);

    resp_command(out, 1);
    resp_text(out, "PING");
    if (channel)
        redis_push_write(out, channel, wire->sharded, true);
    if (out->failed) {
        redis_take_back(out, before);
        redis_push_prove_later(conn);
        return;
    }
    conn->proof_sent = hfd_now();
    conn->proof_after = conn->owed;
    conn->proof_with = channel != NULL;
    conn->owed += conn->proof_with;
    conn->proof_due = conn->proof_sent + wire->dial_time;
    redis_wire_remind(wire, conn->proof_due);
}

/* Unless nobody listens any more: who listens next begins anew. */
static void ask_proof(redis_conn *conn)
{
    redis_wire *wire = conn->wire;
    hf__buf *out = hf__pipe_begin(conn->pipe);

    if (!out)
        return;
    redis_lock(wire);
    conn->proof_due = 0;
    if (!conn->broken && redis_push_used(wire))
        write_proof(conn, out);
    redis_unlock(wire);
    hf__pipe_end(conn->pipe);
}

static void cut_silent(redis_conn *conn)
{
    hf_error why = {0};
    hf_nsec sent;

    hf__pipe_dispatch(conn->pipe);
    redis_lock(conn->wire);
    sent = conn->proof_sent;
    redis_unlock(conn->wire);
    if (sent == 0)
        return;
    hfd_error(&why, HF_EUNAVAIL, "redis", ETIMEDOUT,
              "%s: no answer on the connection for pushes within %lld ms",
              conn->where, (long long)((hfd_now() - sent) / HF_MS(1)));
    hf__pipe_cut(conn->pipe, &why);
}

void redis_push_prove(redis_wire *wire, hf_nsec now)
{
    redis_conn *conn;
    bool due, under_way;

    redis_lock(wire);
    conn = wire->push;
    due = conn && conn->proof_due != 0 && conn->proof_due <= now;
    under_way = due && conn->proof_sent != 0;
    if (due)
        conn->refs++;
    else if (conn && conn->proof_due != 0)
        redis_wire_remind(wire, conn->proof_due);
    redis_unlock(wire);
    if (!due)
        return;
    if (under_way)
        cut_silent(conn);
    else
        ask_proof(conn);
    redis_conn_drop(conn);
}

/* ---- Answers; what is returned is why it is of no use any more ---- */

/* Is this the proof's answer?  With mu held. */
static bool end_proof(redis_conn *conn)
{
    if (conn->proof_sent == 0 || conn->proof_after > 0)
        return false;
    conn->proof_sent = conn->proof_due = 0;
    conn->proof_again = conn->proof_with;
    redis_push_prove_later(conn);
    return true;
}

static void note_owed(redis_conn *conn)
{
    if (conn->owed > 0)
        conn->owed--;
    if (conn->proof_after > 0)
        conn->proof_after--;
}

/* subscribed: by the form of the answer.  Where everything was refused nothing
 * stands, and that is right. */
static const char *take_proof(redis_conn *conn, bool subscribed)
{
    bool right;

    redis_lock(conn->wire);
    right = end_proof(conn) &&
            subscribed == (conn->standing[0] + conn->standing[1] > 0);
    redis_unlock(conn->wire);
    return right ? NULL : elsewhere;
}

/* [subscribe, channel, count] and its like.  *ret_all: all that was asked for
 * stands now.  The server ends a channel that we did not give up when its slot
 * goes to another node. */
static const char *note_answer(redis_conn *conn, const resp *push,
                               bool subscribed, bool pattern, bool *ret_all)
{
    redis_wire *wire = conn->wire;
    resp name = resp_item(push, 1), count = resp_item(push, 2);
    unsigned *standing = &conn->standing[wire->sharded && !pattern];
    redis_channel *channel;
    const char *wrong = NULL;
    bool counts = true;

    redis_lock(wire);
    note_owed(conn);
    channel = name.type == RESP_STRING
                  ? redis_push_find(wire, name.text, name.len, pattern)
                  : NULL;
    if (subscribed && conn->proof_again) {
        conn->proof_again = false; /* it stands already */
    } else if (channel && subscribed && channel->asked > 0) {
        channel->asked--;
        *standing += !channel->stands;
        channel->stands = true;
        *ret_all = --wire->unconfirmed == 0;
    } else if (channel && !subscribed && channel->unasked > 0) {
        channel->unasked--;
        *standing -= channel->stands;
        channel->stands = false;
    } else if (channel && !subscribed) {
        wrong = "the slot of these channels went to another node";
    } else {
        counts = false; /* of what we have forgotten */
    }
    if (!wrong && counts && resp_int(&count, -1) != (int64_t)*standing)
        wrong = elsewhere;
    if (wrong)
        *ret_all = false;
    else if (*ret_all)
        memset(&wire->push_backoff, 0, sizeof wire->push_backoff);
    redis_push_sweep(wire);
    redis_unlock(wire);
    return wrong;
}

static void tell_message(redis_wire *wire, const resp *channel,
                         const resp *text)
{
    if (channel->type == RESP_STRING && text->type == RESP_STRING)
        wire->listener.message(wire->listener.ctx, channel->text, channel->len,
                               text->text, text->len);
}

static const char *take_push(redis_conn *conn, const resp *push)
{
    redis_wire *wire = conn->wire;
    resp kind = resp_item(push, 0), a = resp_item(push, 1),
         b = resp_item(push, 2), c;
    const char *wrong = NULL;
    bool all = false;

    if (resp_is(&kind, "message") || resp_is(&kind, "smessage")) {
        tell_message(wire, &a, &b);
    } else if (resp_is(&kind, "pmessage")) {
        c = resp_item(push, 3);
        tell_message(wire, &b, &c);
    } else if (resp_is(&kind, "subscribe") || resp_is(&kind, "ssubscribe")) {
        wrong = note_answer(conn, push, true, false, &all);
    } else if (resp_is(&kind, "psubscribe")) {
        wrong = note_answer(conn, push, true, true, &all);
    } else if (resp_is(&kind, "unsubscribe") ||
               resp_is(&kind, "sunsubscribe")) {
        wrong = note_answer(conn, push, false, false, &all);
    } else if (resp_is(&kind, "punsubscribe")) {
        wrong = note_answer(conn, push, false, true, &all);
    } else if (resp_is(&kind, "pong")) {
        wrong = take_proof(conn, true);
    }
    if (all)
        wire->listener.listening(wire->listener.ctx);
    return wrong;
}

/* A channel that is not permitted, mostly: nothing is heard of it, and its
 * waiters look by the clock.  But a server that is not the one, is of no use,
 * or cannot now is left.  A proof that is refused because the server is busy
 * proves nothing; one that asks for a password is not answered to us. */
static const char *take_error(redis_conn *conn, const resp *reply,
                              hf_error *said)
{
    const redis_finder *finder = conn->wire->finder;
    bool cut = false, proof;

    redis_error_of(reply, said, &cut);
    redis_lock(conn->wire);
    proof = end_proof(conn);
    if (!proof) {
        note_owed(conn);
        proof = conn->proof_again; /* the other half of one */
        conn->proof_again = false;
    }
    redis_unlock(conn->wire);
    if (finder && finder->stray(finder->ctx, reply) != REDIS_STRAY_NOT)
        return said->text;
    if (proof && said->code == HF_EAUTH)
        return elsewhere;
    if (!proof) {
        hfd_log(HF_LOG_ERROR, "redis: %s: a channel is refused: %s",
                conn->where, said->text);
        cut = cut || said->code == HF_EUNAVAIL;
    }
    return cut ? said->text : NULL;
}

ssize_t redis_push_received(redis_conn *conn, const char *bytes, size_t len,
                            hf_error *err)
{
    hf_error said = {0};
    const char *wrong = NULL;
    size_t eaten = 0;

    while (eaten < len && !wrong) {
        long size = resp_more(&conn->scan, bytes + eaten, len - eaten);
        resp reply;

        if (size == 0)
            break;
        memset(&conn->scan, 0, sizeof conn->scan);
        if (size < 0) {
            hfd_error(err, HF_EPROTO, "redis", 0,
                      "%s: a push that is not Redis's protocol", conn->where);
            return -1;
        }
        reply = resp_at(bytes + eaten);
        eaten += (size_t)size;
        if (reply.type == RESP_ARRAY)
            wrong = take_push(conn, &reply);
        else if (reply.type == RESP_ERROR)
            wrong = take_error(conn, &reply, &said);
        else
            wrong = take_proof(conn, false);
    }
    if (wrong) {
        hfd_error(err, HF_EUNAVAIL, "redis", 0, "%s: %s", conn->where, wrong);
        return -1;
    }
    return (ssize_t)eaten;
}
