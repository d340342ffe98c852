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
 * Answers come in the order of the commands, each takes the first from the line
 * of what was asked; one that is not that one's shows that others were lost.
 * What stands is counted as answers come, and is what the server counted when
 * it wrote them.
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
static const char moved[] = "the slot of these channels went to another node";

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
    return channel->stands && channel->owed == 0 && channel->refs > 0;
}

/* Each in its turn: where others listen a wrong number could be ours once, but
 * grows.  With mu held; NULL: none stands for sure. */
static redis_channel *next_channel(redis_conn *conn)
{
    unsigned count = 0, turn;
    redis_channel *at;

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
    redis_channel *channel = next_channel(conn);

    if (!redis_push_ask(conn, out, ASKED_PING, NULL)) {
        redis_push_prove_later(conn);
        return;
    }
    /* Without memory it is half a proof. */
    if (channel)
        redis_push_ask(conn, out, ASKED_AGAIN, channel);
    conn->proof_sent = hfd_now();
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

/* Which command's is it?  With mu held. */
static redis_asked take_asked(redis_conn *conn)
{
    redis_asked asked = {ASKED_NOTHING, NULL};

    if (hf__buf_len(&conn->asked) == 0)
        return asked;
    memcpy(&asked, conn->asked.data + conn->asked.start, sizeof asked);
    hf__buf_eat(&conn->asked, sizeof asked);
    if (asked.channel)
        asked.channel->owed--;
    conn->unconfirmed -= asked.kind == ASKED_SUBSCRIBE;
    if (asked.kind == ASKED_PING) {
        conn->proof_sent = conn->proof_due = 0;
        redis_push_prove_later(conn);
    }
    return asked;
}

/* Was that the last of those who were waited for, and is there anything to
 * tell?  With mu held. */
static bool is_all(redis_conn *conn, const redis_asked *asked)
{
    bool all = asked->kind == ASKED_SUBSCRIBE && conn->unconfirmed == 0;
    bool tell = all && conn->news;

    if (all)
        memset(&conn->wire->push_backoff, 0, sizeof conn->wire->push_backoff);
    if (tell)
        conn->news = false;
    return tell;
}

/* subscribed: by the form of the answer.  Where everything was refused nothing
 * stands, and that is right. */
static const char *take_proof(redis_conn *conn, bool subscribed)
{
    bool right;

    redis_lock(conn->wire);
    right = take_asked(conn).kind == ASKED_PING &&
            subscribed == (conn->standing[0] + conn->standing[1] > 0);
    redis_unlock(conn->wire);
    return right ? NULL : elsewhere;
}

static bool is_named(const redis_channel *channel, const resp *name,
                     bool pattern)
{
    return channel && channel->pattern == pattern &&
           name->type == RESP_STRING && name->len == channel->len &&
           memcmp(name->text, channel->name, channel->len) == 0;
}

/* [subscribe, channel, count] and its like.  *ret_all: all that was asked for
 * has its answer now.  The server ends a channel that we did not give up when
 * its slot goes to another node. */
static const char *note_answer(redis_conn *conn, const resp *push,
                               bool subscribed, bool pattern, bool *ret_all)
{
    redis_wire *wire = conn->wire;
    resp name = resp_item(push, 1), count = resp_item(push, 2);
    unsigned *standing = &conn->standing[wire->sharded && !pattern];
    const char *wrong = NULL;
    redis_asked asked;

    redis_lock(wire);
    asked = take_asked(conn);
    if (!is_named(asked.channel, &name, pattern) ||
        subscribed != (asked.kind != ASKED_UNSUBSCRIBE)) {
        wrong = subscribed ? elsewhere : moved;
    } else {
        *standing += subscribed;
        *standing -= asked.channel->stands;
        asked.channel->stands = subscribed;
        conn->news = conn->news || asked.kind == ASKED_SUBSCRIBE;
        if (resp_int(&count, -1) != (int64_t)*standing)
            wrong = elsewhere;
    }
    *ret_all = !wrong && is_all(conn, &asked);
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
 * waiters look by the clock; those of others are told all the same.  But a
 * server that is not the one, is of no use, or cannot now is left.  A proof
 * that is refused because the server is busy proves nothing; one that asks for
 * a password is not answered to us. */
static const char *take_error(redis_conn *conn, const resp *reply,
                              hf_error *said)
{
    const redis_finder *finder = conn->wire->finder;
    bool cut = false, proof, all;
    redis_asked asked;

    redis_error_of(reply, said, &cut);
    redis_lock(conn->wire);
    asked = take_asked(conn);
    redis_push_sweep(conn->wire);
    redis_unlock(conn->wire);
    proof = asked.kind == ASKED_PING || asked.kind == ASKED_AGAIN;
    if (finder && finder->stray(finder->ctx, reply) != REDIS_STRAY_NOT)
        return said->text;
    if (proof && said->code == HF_EAUTH)
        return elsewhere;
    if (!proof) {
        hfd_log(HF_LOG_ERROR, "redis: %s: a channel is refused: %s",
                conn->where, said->text);
        cut = cut || said->code == HF_EUNAVAIL;
    }
    if (cut)
        return said->text;
    redis_lock(conn->wire);
    all = is_all(conn, &asked);
    redis_unlock(conn->wire);
    if (all)
        conn->wire->listener.listening(conn->wire->listener.ctx);
    return NULL;
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
