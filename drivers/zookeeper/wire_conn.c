/* wire_conn.c - one connection: who expects which answer.
 *
 * Answers: whose reply is this, and what becomes of the calls when there will
 * be none?  The line `sent` has the calls whose bytes were handed to the pipe,
 * in the order of the bytes, because both happen between hf__pipe_begin and
 * end.  A server answers the requests of a session in order, so a reply must
 * have the next of the numbers that were given out; any other ends the
 * connection.  It is for the front of the line, or, if its number is not the
 * front's, for one who stood before him and was given up (wire_late.c): then it
 * is dropped.  Pings and events come between them.  Knows nothing of who opens
 * a connection (wire_dial.c) or of sessions' ends (wire_session.c).
 *
 * Safety.  A call in the line may have been executed, so when the connection
 * ends it is UNKNOWN, never NOT APPLIED; one that found the connection broken
 * is not in the line and not a byte of it went out.  `sent` is read before the
 * bytes are made, so a thread that is paused here has an old instant and a
 * short lease, never a long one.  The last who drops a reference frees, so
 * nobody is inside a pipe that goes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "wire_inside.h"

/* ---- Lifetime ---- */

static ssize_t conn_received(void *ctx, const char *bytes, size_t len,
                             hf_error *err);
static void conn_broken(void *ctx, const hf_error *why);

int zk_conn_new(zk_conn **ret, zk_wire *wire, hf__link *link, hf_error *err)
{
    zk_conn *conn = hfd_alloc(sizeof *conn);
    hf__pipe_user user = {conn, conn_received, conn_broken};
    int code;

    if (!conn) {
        hf__link_close(link, false);
        return hfd_error(err, HF_ENOMEM, "zookeeper", ENOMEM,
                         "no memory for a connection");
    }
    conn->wire = wire;
    conn->refs = 1;
    code =
        hf__pipe_new(&conn->pipe, link, &user, true, wire->epoll_fd, conn, err);
    if (code != 0) {
        hf__link_close(link, false);
        hfd_free(conn);
        return code;
    }
    conn->used = conn->heard = hfd_now();
    zk_lock(wire);
    conn->next = wire->all;
    wire->all = conn;
    zk_unlock(wire);
    *ret = conn;
    return 0;
}

void zk_conn_drop(zk_conn *conn)
{
    zk_wire *wire = conn->wire;
    zk_conn **at = &wire->all;
    bool last;

    zk_lock(wire);
    last = --conn->refs == 0;
    while (last && *at != conn)
        at = &(*at)->next;
    if (last)
        *at = conn->next;
    zk_unlock(wire);
    if (last) {
        /* A broken one is closed with a RST, so that nothing that is still
         * under way is executed later. */
        hf__pipe_free(conn->pipe, conn->broken);
        hfd_free(conn);
    }
}

bool zk_conn_usable(const zk_conn *conn)
{
    return conn && !conn->broken && !conn->late;
}

/* ---- What the leader knows ----
 *
 * A request touches the session at the member that gets it, not at the leader:
 * the member reports whom it has heard of when the leader pings it, twice a
 * tick, over the same link by which it passes requests on.  So what was
 * answered a tick before a request was sent has been reported ahead of it, and
 * when that request is answered by the leader, the leader knows of us as of
 * the sending of that earlier one.  A handshake touches at the leader. */

/* With mu held.  One in an eighth of a tick is enough, and older is safe. */
static void note_touch(zk_conn *conn, hf_nsec sent)
{
    enum { ROOM = sizeof conn->touches / sizeof *conn->touches };
    unsigned n = conn->touch_count;

    if (n > 0 && conn->heard - conn->touches[(n - 1) % ROOM].heard <
                     conn->wire->tick / 8)
        return;
    conn->touches[n % ROOM].sent = sent;
    conn->touches[n % ROOM].heard = conn->heard;
    conn->touch_count++;
}

/* The base of a request that is sent now; with mu held. */
static hf_nsec find_touch(const zk_conn *conn, hf_nsec now)
{
    enum { ROOM = sizeof conn->touches / sizeof *conn->touches };
    unsigned n = conn->touch_count, kept = n < ROOM ? n : ROOM;
    hf_nsec base = conn->began;

    for (unsigned i = n - kept; i < n; i++) {
        if (conn->touches[i % ROOM].heard <= now - conn->wire->tick &&
            conn->touches[i % ROOM].sent > base)
            base = conn->touches[i % ROOM].sent;
    }
    return base;
}

/* ---- Sending ---- */

/* The addition was not whole. */
static void take_back(hf__buf *out, size_t len)
{
    out->end = out->start + len;
    out->failed = false;
}

/* Numbers are given in order, and are positive. */
static int32_t xid_after(int32_t xid)
{
    return xid == INT32_MAX ? 1 : xid + 1;
}

/* The last number, if this is sent. */
static int32_t write_call(zk_conn *conn, zk_call *call, hf__buf *out)
{
    int32_t xid = conn->xid;

    call->xid = xid_after(xid);
    for (unsigned i = 0; i < call->count; i++) {
        xid = xid_after(xid);
        zk_write_request(out, xid, &call->requests[i]);
    }
    return xid;
}

/* The call is in the line from here on; with mu held. */
static void note_sent(zk_conn *conn, zk_call *call, int32_t xid)
{
    zk_wire *wire = conn->wire;

    if (conn->given == conn->turn)
        conn->quiet = call->sent; /* now there is something to be answered */
    for (unsigned i = 0; i < call->count; i++) {
        if (call->requests[i].op == ZK_CLOSE)
            wire->parting = conn->session;
    }
    conn->xid = conn->given = xid;
    conn->used = call->sent;
    call->touched = find_touch(conn, call->sent);
    if (!call->driven)
        zk_wire_remind(wire, call->deadline < call->sent + ZK_NUDGE
                                 ? call->deadline
                                 : call->sent + ZK_NUDGE);
    zk_calls_add(&conn->sent, call);
}

zk_sending zk_conn_send(zk_conn *conn, zk_call *call)
{
    zk_wire *wire = conn->wire;
    zk_sending end = SENDING_DONE;
    hf__buf *out = hf__pipe_begin(conn->pipe);
    int32_t xid;
    size_t len;

    if (!out)
        return SENDING_BROKEN;
    len = hf__buf_len(out);
    call->sent = hfd_now();
    call->answers = 0;
    xid = write_call(conn, call, out);
    zk_lock(wire);
    if (out->failed) {
        end = SENDING_NO_MEMORY;
    } else if (conn->broken) {
        end = SENDING_BROKEN;
    } else {
        note_sent(conn, call, xid);
    }
    zk_unlock(wire);
    if (end != SENDING_DONE)
        take_back(out, len);
    hf__pipe_end(conn->pipe);
    return end;
}

void zk_conn_ping(zk_conn *conn)
{
    zk_request ping = {.op = ZK_PING};
    hf__buf *out = hf__pipe_begin(conn->pipe);
    size_t len;

    if (!out)
        return;
    len = hf__buf_len(out);
    zk_write_request(out, 0, &ping);
    if (out->failed) {
        take_back(out, len); /* the timer comes again */
    } else {
        zk_lock(conn->wire);
        conn->used = hfd_now();
        if (conn->pinged <= conn->heard)
            conn->pinged = conn->used;
        if (conn->pings++ == 0)
            conn->first_ping = conn->used;
        zk_unlock(conn->wire);
    }
    hf__pipe_end(conn->pipe);
}

void zk_conn_nudge(zk_conn *conn)
{
    hf_nsec before = hfd_now() - ZK_NUDGE / 2;
    bool due;

    zk_lock(conn->wire);
    due = zk_conn_usable(conn) && conn->heard < before && conn->used < before;
    zk_unlock(conn->wire);
    if (due)
        zk_conn_ping(conn);
}

/* ---- Receiving ---- */

static void land(zk_conn *conn, zk_call *call, hf_outcome outcome,
                 const hf_error *why)
{
    bool driven = call->driven;

    zk_call_land(call, outcome, why, conn->pipe);
    if (!driven)
        zk_conn_drop(conn); /* not the last: we are inside its pipe */
}

static bool nonsense(zk_conn *conn, const char *what, hf_error *err)
{
    hfd_error(err, HF_EPROTO, "zookeeper", 0, "%s: %s", conn->where, what);
    return false;
}

/* Whose reply it is (NULL: one's who was given up); he stays in the line until
 * his last one, and nobody gives him up while it is read. */
static bool find_asker(zk_conn *conn, const zk_header *header, zk_call **ret,
                       hf_error *err)
{
    zk_wire *wire = conn->wire;
    bool asked, in_turn;
    zk_call *call = NULL;

    zk_lock(wire);
    if (header->zxid > wire->zxid && wire->conn == conn)
        wire->zxid = header->zxid;
    asked = conn->turn != conn->given;
    in_turn = header->xid == xid_after(conn->turn);
    if (asked && in_turn) {
        conn->turn = header->xid;
        conn->quiet = conn->heard;
        call = conn->sent.first;
        if (call && call->xid != header->xid)
            call = NULL;
    }
    conn->taking = call;
    zk_unlock(wire);
    *ret = call;
    if (!asked)
        return nonsense(conn, "a reply that nobody asked for", err);
    return in_turn || nonsense(conn, "a reply out of its turn", err);
}

static void take_front(zk_conn *conn)
{
    zk_lock(conn->wire);
    note_touch(conn, conn->sent.first->sent);
    zk_calls_take(&conn->sent);
    conn->taking = NULL;
    zk_unlock(conn->wire);
}

/* He waits for the next one, and may be given up again. */
static void leave_front(zk_conn *conn)
{
    zk_lock(conn->wire);
    conn->taking = NULL;
    zk_unlock(conn->wire);
}

/* What an error says about the session; NULL: nothing. */
static const char *end_of(int32_t error)
{
    if (error == ZK_SESSION_EXPIRED)
        return "the server says that it has expired";
    if (error == ZK_SESSION_MOVED)
        return "the server says that it has moved to another connection";
    return NULL;
}

/* The end of the session is known before the call that brought it lands, so
 * that nothing that is started from there finds it standing. */
static bool take_reply(zk_conn *conn, const zk_header *header, const char *body,
                       size_t len, hf_error *err)
{
    const char *over = end_of(header->error);
    const zk_request *request;
    zk_reply reply;
    zk_call *call;
    bool last;
    unsigned i;

    if (!find_asker(conn, header, &call, err))
        return false;
    if (!call) {
        if (over)
            zk_session_end(conn->wire, conn->session, over);
        return true;
    }
    i = call->answers;
    request = &call->requests[i];
    if (!zk_read_reply(body, len, request, &reply))
        return nonsense(conn, "a reply that is not ZooKeeper's protocol", err);
    call->answers++;
    call->xid = xid_after(call->xid);
    last = call->answers == call->count;
    if (last)
        take_front(conn);
    if (over || (request->op == ZK_CLOSE && reply.error == 0))
        zk_session_end(conn->wire, conn->session, over);
    call->answered(call, i, &reply);
    if (last)
        land(conn, call, HF_APPLIED, NULL);
    else
        leave_front(conn);
    return true;
}

static bool take_event(zk_conn *conn, const char *body, size_t len,
                       hf_error *err)
{
    zk_listener *listener = &conn->wire->listener;
    const char *path;
    size_t path_len;
    int32_t type;

    if (!zk_read_event(body, len, &type, &path, &path_len))
        return nonsense(conn, "an event that is not ZooKeeper's protocol", err);
    if (type >= ZK_EVENT_CREATED && type <= ZK_EVENT_CHILD)
        listener->event(listener->ctx, type, path, path_len);
    return true;
}

static bool take_body(zk_conn *conn, const char *body, size_t len,
                      hf_error *err)
{
    zk_header header;

    if (!zk_read_header(body, len, &header))
        return nonsense(conn, "a reply that is not ZooKeeper's protocol", err);
    switch (header.xid) {
    case ZK_XID_EVENT:
        return take_event(conn, body, len, err);
    case ZK_XID_PING:
        zk_lock(conn->wire);
        if (conn->pings > 0) {
            note_touch(conn, conn->first_ping);
            conn->pings--;
        }
        zk_unlock(conn->wire);
        return true;
    case ZK_XID_AUTH:
        return nonsense(conn, "the server refused user and password", err);
    default:
        return take_reply(conn, &header, body, len, err);
    }
}

static ssize_t conn_received(void *ctx, const char *bytes, size_t len,
                             hf_error *err)
{
    zk_conn *conn = ctx;
    size_t eaten = 0;

    zk_lock(conn->wire);
    conn->heard = hfd_now();
    zk_unlock(conn->wire);
    while (eaten < len && !conn->broken) {
        long size = zk_frame(bytes + eaten, len - eaten);

        if (size == 0)
            break;
        if (size < 0) {
            nonsense(conn, "this is not ZooKeeper's protocol", err);
            return -1;
        }
        if (!take_body(conn, bytes + eaten + 4, (size_t)size - 4, err))
            return -1;
        eaten += (size_t)size;
    }
    return (ssize_t)eaten;
}

/* ---- The end ---- */

/* What the session needs now that its connection is gone; with mu held.  True:
 * it stands, and somebody is to be told.  Not whoever has said goodbye: the
 * server hangs up behind its answer to that, and if others still send, the
 * answer is lost in a reset. */
static bool lose_conn(zk_wire *wire, zk_conn *conn)
{
    wire->conn = NULL;
    wire->which = (conn->which + 1) % wire->address_count;
    if (wire->session == 0 || wire->casual || wire->closing)
        return false;
    zk_dial_summon(wire);
    return wire->session != wire->parting;
}

static void conn_broken(void *ctx, const hf_error *why)
{
    zk_conn *conn = ctx;
    zk_wire *wire = conn->wire;
    zk_calls lost;
    zk_call *call;
    hf_error told = {0};
    bool mine, doubt = false;

    /* What comes from below does not always name the address. */
    hfd_error(&told, why->code ? why->code : HF_EUNAVAIL, "zookeeper",
              why->native, strstr(why->text, conn->where) ? "%.0s%s" : "%s: %s",
              conn->where, why->text);
    zk_lock(wire);
    conn->broken = true;
    mine = wire->conn == conn;
    if (mine)
        doubt = lose_conn(wire, conn);
    lost = conn->sent;
    memset(&conn->sent, 0, sizeof conn->sent);
    conn->taking = NULL;
    zk_unlock(wire);
    zk_stir_parkers(wire, conn);
    if (doubt)
        hfd_log(HF_LOG_WARN, "zookeeper: %s", told.text);
    while ((call = zk_calls_take(&lost)))
        land(conn, call, HF_UNKNOWN, &told);
    if (doubt)
        wire->listener.doubt(wire->listener.ctx, HF_EUNAVAIL, told.text);
    /* Whoever called us is inside the pipe and has a reference of his own. */
    if (mine)
        zk_conn_drop(conn);
}
