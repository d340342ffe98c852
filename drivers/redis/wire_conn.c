/* wire_conn.c - one connection: who expects which answer.
 *
 * Answers: whose reply is this, and what becomes of the calls when there will
 * be none?  The line `sent` has the calls whose bytes were handed to the pipe,
 * in the order of the bytes, because both happen between hf__pipe_begin and
 * end; replies take them from its front.  Knows nothing of who picks a
 * connection (wire.c) or opens it (wire_dial.c).
 *
 * Safety.  A call in the line may have been executed, so when the connection
 * ends it is UNKNOWN, never NOT APPLIED; one that found the connection broken
 * is not in the line and not a byte of it went out.  `sent` is read before the
 * bytes are made, so a thread that is paused here has an old instant and a
 * short lease, never a long one.  A reply that nobody asked for, or that is not
 * RESP, ends the connection: from there on no reply could be matched.  So does
 * one to a call that was done though its SELECT was refused: who knows where.
 *
 * Two threads: the pipe has one reader at a time; the line is taken from and
 * added to under mu; the last who drops a reference frees, so nobody is inside
 * a pipe that goes. */
#include <string.h>

#include "wire_inside.h"

/* ---- Lifetime ---- */

static ssize_t conn_received(void *ctx, const char *bytes, size_t len,
                             hf_error *err);
static void conn_broken(void *ctx, const hf_error *why);

int redis_conn_new(redis_conn **ret, redis_wire *wire, hf__link *link,
                   bool push, hf_error *err)
{
    redis_conn *conn = hfd_alloc(sizeof *conn);
    hf__pipe_user user = {conn, conn_received, conn_broken};
    int code;

    if (!conn) {
        hf__link_close(link, false);
        return hfd_error(err, HF_ENOMEM, "redis", 0,
                         "no memory for a connection");
    }
    conn->wire = wire;
    conn->push = push;
    conn->refs = 1;
    code =
        hf__pipe_new(&conn->pipe, link, &user, push, wire->epoll_fd, conn, err);
    if (code != 0) {
        hf__link_close(link, false);
        hfd_free(conn);
        return code;
    }
    redis_lock(wire);
    conn->next = wire->all;
    wire->all = conn;
    redis_unlock(wire);
    *ret = conn;
    return 0;
}

void redis_conn_drop(redis_conn *conn)
{
    redis_wire *wire = conn->wire;
    redis_conn **at = &wire->all;
    bool last;

    redis_lock(wire);
    last = --conn->refs == 0;
    while (last && *at != conn)
        at = &(*at)->next;
    if (last)
        *at = conn->next;
    redis_unlock(wire);
    if (last) {
        /* A broken one is closed with a RST, so that nothing that is still
         * under way is executed later. */
        hf__pipe_free(conn->pipe, conn->broken);
        hf__buf_done(&conn->asked);
        hfd_free(conn);
    }
}

bool redis_conn_usable(const redis_conn *conn)
{
    return conn && !conn->broken && !conn->retired && !conn->late;
}

/* ---- Sending ---- */

void redis_take_back(hf__buf *out, size_t len)
{
    out->end = out->start + len;
    out->failed = false;
}

/* Behind a proxy that goes on at another connection between two calls, a new
 * one would be made in the database that all begin with, and a lock there
 * excludes nobody.  So whoever wants another says so each time. */
static void select_database(const redis_wire *wire, hf__buf *out)
{
    if (wire->database == 0)
        return;
    resp_command(out, 2);
    resp_text(out, "SELECT");
    resp_number(out, wire->database);
}

redis_sending redis_conn_send(redis_conn *conn, redis_call *call)
{
    redis_wire *wire = conn->wire;
    redis_sending end = SENDING_DONE;
    hf__buf *out = hf__pipe_begin(conn->pipe);
    size_t len;

    if (!out)
        return SENDING_BROKEN;
    len = hf__buf_len(out);
    call->sent = hfd_now();
    call->before = 0;
    select_database(wire, out);
    call->encode(call, out, &conn->server);
    if (wire->database != 0)
        call->before++;
    redis_lock(wire);
    if (out->failed) {
        end = SENDING_NO_MEMORY;
    } else if (conn->broken) {
        end = SENDING_BROKEN;
    } else {
        conn->used = call->sent;
        if (!call->driven)
            redis_wire_remind(wire, call->deadline);
        redis_calls_add(&conn->sent, call);
    }
    redis_unlock(wire);
    if (end != SENDING_DONE)
        redis_take_back(out, len);
    hf__pipe_end(conn->pipe);
    return end;
}

/* ---- Receiving ---- */

/* Whose reply it is; NULL: *ret_before: it comes before the one that somebody
 * expects; or why this connection is of no use any more.
 *
 * A SELECT that is refused (the server is busy, mostly) leaves open in which
 * database the call behind it is made, if it is: that one's reply says.  If it
 * is refused, too, it was made nowhere, and is an answer like any other. */
static redis_call *take_call(redis_conn *conn, const resp *reply,
                             bool *ret_before, hf_error *err)
{
    redis_wire *wire = conn->wire;
    redis_call *call;
    bool cut;

    redis_lock(wire);
    call = conn->sent.first;
    *ret_before = call && call->before > 0;
    if (*ret_before) {
        call->before--;
        call = NULL;
        if (wire->database != 0 && reply->type == RESP_ERROR)
            redis_error_of(reply, &conn->astray, &cut);
    } else if (!call) {
        hfd_error(err, HF_EPROTO, "redis", 0,
                  "%s: a reply that nobody asked for", conn->where);
    } else if (conn->astray.code != 0 && reply->type != RESP_ERROR) {
        call = NULL; /* it lands with all others */
        hfd_error(err, HF_EUNAVAIL, "redis", 0, "%s: %s", conn->where,
                  conn->astray.text);
    } else {
        call = redis_calls_take(&conn->sent);
        conn->astray.code = 0;
        conn->load--;
    }
    redis_unlock(wire);
    return call;
}

static void land(redis_conn *conn, redis_call *call, hf_outcome outcome,
                 const resp *reply, const hf_error *why)
{
    bool driven = call->driven;

    if (!driven)
        hf__pipe_attend(conn->pipe, -1);
    redis_call_land(call, outcome, reply, why, conn->pipe);
    if (!driven)
        redis_conn_drop(conn); /* not the last: we are inside its pipe */
}

void redis_conn_retire(redis_conn *conn)
{
    redis_wire *wire = conn->wire;

    redis_lock(wire);
    conn->retired = wire->left = true;
    redis_unlock(wire);
}

/* The server did not know the script and has done nothing: once more, by its
 * text, on the connection on which its thread waits. */
static bool send_by_text(redis_conn *conn, redis_call *call)
{
    bool sent;

    call->by_text = true;
    redis_lock(conn->wire);
    conn->load++;
    redis_unlock(conn->wire);
    sent = redis_conn_send(conn, call) == SENDING_DONE;
    if (!sent) {
        redis_lock(conn->wire);
        conn->load--;
        redis_unlock(conn->wire);
    }
    return sent;
}

static void land_error(redis_conn *conn, redis_call *call, const resp *reply)
{
    hf_error said = {0}, why = {0};
    bool cut = false;
    hf_outcome outcome;

    if (reply->len >= 8 && memcmp(reply->text, "NOSCRIPT", 8) == 0 &&
        !call->by_text && send_by_text(conn, call))
        return;
    if (redis_call_stray(conn, call, reply))
        return;
    outcome = redis_error_of(reply, &said, &cut);
    if (cut)
        redis_conn_retire(conn);
    hfd_error(&why, said.code, "redis", said.native, "%s: %s", conn->where,
              said.text);
    land(conn, call, outcome, NULL, &why);
}

/* Where the first in line has a second reply: is it there, too?  Both are
 * handled together, so that nothing of the first has to be kept.  1: one reply
 * is all there is to wait for, or *ret_size; 0: not yet; -1: it is not RESP. */
static long look_behind(redis_conn *conn, const char *bytes, size_t len,
                        size_t *ret_size, uint8_t *ret_acked)
{
    const redis_call *call;
    resp reply;
    long size;
    bool waits;

    *ret_size = 0;
    *ret_acked = UINT8_MAX;
    if (!conn->wire->waits)
        return 1;
    redis_lock(conn->wire);
    call = conn->sent.first;
    waits = call && call->before == 0 && call->waits;
    redis_unlock(conn->wire);
    if (!waits)
        return 1;
    size = len > 0 ? resp_size(bytes, len) : 0;
    if (size <= 0)
        return size;
    reply = resp_at(bytes);
    *ret_size = (size_t)size;
    if (reply.type == RESP_INTEGER && reply.number >= 0)
        *ret_acked = (uint8_t)(reply.number < 254 ? reply.number : 254);
    return 1;
}

static bool is_spent(redis_conn *conn)
{
    bool spent;

    redis_lock(conn->wire);
    spent = conn->load == 0;
    redis_unlock(conn->wire);
    return spent;
}

static void land_reply(redis_conn *conn, redis_call *call, const resp *reply,
                       uint8_t acked)
{
    call->acked = acked;
    if (reply->type == RESP_ERROR)
        land_error(conn, call, reply);
    else
        land(conn, call, HF_APPLIED, reply, NULL);
}

static ssize_t conn_received(void *ctx, const char *bytes, size_t len,
                             hf_error *err)
{
    redis_conn *conn = ctx;
    size_t eaten = 0, tail = 0;
    uint8_t acked = UINT8_MAX;

    if (conn->push)
        return redis_push_received(conn, bytes, len, err);
    while (eaten < len) {
        const char *at = bytes + eaten;
        long size = resp_more(&conn->scan, at, len - eaten), more = size;
        redis_call *call;
        bool before;
        resp reply;

        if (size == 0)
            break;
        memset(&conn->scan, 0, sizeof conn->scan);
        if (size > 0)
            more = look_behind(conn, at + size, len - eaten - (size_t)size,
                               &tail, &acked);
        if (more == 0)
            break;
        if (more < 0) {
            hfd_error(err, HF_EPROTO, "redis", 0,
                      "%s: a reply that is not Redis's protocol", conn->where);
            return -1;
        }
        reply = resp_at(at);
        call = take_call(conn, &reply, &before, err);
        if (!call && !before)
            return -1;
        eaten += (size_t)size + tail;
        if (call)
            land_reply(conn, call, &reply, acked);
    }
    if (conn->retired && is_spent(conn)) {
        hfd_error(err, HF_EUNAVAIL, "redis", 0,
                  "%s: the connection was given up", conn->where);
        return -1;
    }
    return (ssize_t)eaten;
}

/* ---- Not waiting any longer ---- */

/* Nobody drives it any more; false: somebody has its reply and lands it now.
 * Who takes a call from the line does so under mu, and looks afterwards whether
 * it is driven; the call's reference is his then. */
static bool let_go(redis_wire *wire, redis_conn *conn, redis_call *call)
{
    bool found = false;

    hf__pipe_attend(conn->pipe, 1);
    redis_lock(wire);
    for (redis_call *at = conn->sent.first; at && !found; at = at->next)
        found = at == call;
    if (found) {
        call->conn = NULL;
        call->driven = false;
        redis_wire_remind(wire, call->deadline);
    }
    redis_unlock(wire);
    if (!found)
        hf__pipe_attend(conn->pipe, -1);
    return found;
}

bool redis_wire_drive_for(redis_wire *wire, redis_call *call, hf_nsec until)
{
    redis_conn *conn = call->conn;

    if (!conn && call->state == CALL_DONE)
        return true;
    if (!conn) {
        /* There was no connection: somebody else opens one. */
        call->driven = false;
        redis_wire_start(wire, call);
        return false;
    }
    while (!hf__pipe_wait(conn->pipe, &call->waiter, until)) {
        if (let_go(wire, conn, call))
            return false;
        /* Who has its reply lands it at once, or sends it again by its text:
         * then it is in the line once more, and only we know its deadline. */
        until = hfd_now() + HF_MS(1);
    }
    call->conn = NULL;
    redis_conn_drop(conn);
    return true;
}

/* ---- Slots, and the end ---- */

bool redis_conn_place(redis_conn *conn, redis_conn **ret_old)
{
    redis_wire *wire = conn->wire;

    *ret_old = NULL;
    for (unsigned i = 0; i < wire->most; i++) {
        if (!redis_conn_usable(wire->slots[i])) {
            *ret_old = wire->slots[i];
            wire->slots[i] = conn;
            return true;
        }
    }
    return false;
}

bool redis_any_stands(const redis_wire *wire)
{
    for (unsigned i = 0; i < wire->most; i++) {
        if (redis_conn_usable(wire->slots[i]))
            return true;
    }
    return false;
}

/* Nobody will find it any more; true: it had a slot. */
static bool leave_slot(redis_conn *conn)
{
    redis_wire *wire = conn->wire;

    for (unsigned i = 0; i < wire->most; i++) {
        if (wire->slots[i] == conn) {
            wire->slots[i] = NULL;
            return true;
        }
    }
    return false;
}

static void conn_broken(void *ctx, const hf_error *why)
{
    redis_conn *conn = ctx;
    redis_wire *wire = conn->wire;
    redis_calls lost;
    redis_call *call;
    hf_error told = {0};
    bool had_slot, closing;

    /* What comes from below does not always name the address. */
    hfd_error(&told, why->code ? why->code : HF_EUNAVAIL, "redis", why->native,
              strstr(why->text, conn->where) ? "%.0s%s" : "%s: %s", conn->where,
              why->text);
    redis_lock(wire);
    conn->broken = true;
    had_slot = leave_slot(conn);
    closing = wire->closing;
    lost = conn->sent;
    memset(&conn->sent, 0, sizeof conn->sent);
    redis_unlock(wire);
    if (conn->push) {
        redis_push_broken(conn, &told);
        return;
    }
    if (lost.first) {
        hfd_log(HF_LOG_WARN, "redis: %s", told.text);
        while ((call = redis_calls_take(&lost)))
            land(conn, call, HF_UNKNOWN, NULL, &told);
        if (!closing)
            wire->listener.doubt(wire->listener.ctx, HF_EUNAVAIL, told.text);
    }
    /* Whoever called us is inside the pipe and has a reference of his own. */
    if (had_slot)
        redis_conn_drop(conn);
}
