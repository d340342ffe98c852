/* wire.c - calls: where they go, who works for them, what they hear.
 *
 * Answers: does the session that this call asks for stand, where does it go,
 * and what does it hear when there is no connection or no reply in time?  Knows
 * nothing of bytes or of handshakes.
 *
 *     NEW --connection--> SENT --replies, break--> LANDING --> DONE
 *      |--driven--> LACKS: its thread dials, then as above  |--> AGAIN: NEW
 *      |--else----> LINE: the dialer thread dials, then as above
 *
 * A lone caller finds the connection idle and does one send and one receive on
 * its own thread.  Calls are pipelined; the server keeps their order.  A call
 * whose session stands without a connection waits for one until its deadline;
 * one that needs a new session hears why there is none.
 *
 * Safety.  A call that never got a connection is NOT APPLIED; one whose session
 * is over is so with HF_EEXPIRED, whatever session stands now.  One whose reply
 * is late is UNKNOWN, alone or with its whole connection (wire_late.c).
 * A driven call's own thread watches its deadline, a timer in the epoll that of
 * all others.  After `landed` a driven call is touched only to wake its thread,
 * which returns from nowhere else; any other call not at all. */
#include <errno.h>
#include <string.h>

#include "wire_inside.h"

/* A connection that was idle for so long is looked at before it is used: a
 * server that was restarted meanwhile is noticed without a loss. */
enum { IDLE_MS = 500 };

/* ---- Lines ---- */

void zk_calls_add(zk_calls *calls, zk_call *call)
{
    call->next = NULL;
    if (calls->first)
        calls->last->next = call;
    else
        calls->first = call;
    calls->last = call;
}

zk_call *zk_calls_take(zk_calls *calls)
{
    zk_call *call = calls->first;

    if (call)
        calls->first = call->next;
    return call;
}

static bool is_begin(const zk_call *call)
{
    return call->requests[0].op == ZK_BEGIN;
}

zk_call *zk_line_take_begin(zk_wire *wire)
{
    zk_calls all = wire->line;
    zk_call *call, *begin = NULL;

    memset(&wire->line, 0, sizeof wire->line);
    while ((call = zk_calls_take(&all))) {
        if (!begin && is_begin(call))
            begin = call;
        else
            zk_calls_add(&wire->line, call);
    }
    return begin;
}

bool zk_line_wants_session(const zk_wire *wire)
{
    for (const zk_call *call = wire->line.first; call; call = call->next) {
        if (is_begin(call) || !zk_conn_usable(wire->conn))
            return true;
    }
    return false;
}

/* ---- Landing ---- */

void zk_call_land(zk_call *call, hf_outcome outcome, const hf_error *why,
                  hf__pipe *pipe)
{
    bool driven = call->driven;

    if (driven)
        call->state = CALL_LANDING;
    call->landed(call, outcome, why);
    if (!driven)
        return;
    if (call->state == CALL_LANDING)
        call->state = CALL_DONE;
    if (pipe)
        hf__pipe_wake(pipe, &call->waiter);
}

void zk_call_refuse(zk_call *call, const hf_error *why)
{
    zk_call_land(call, HF_NOT_APPLIED, why, NULL);
}

static void refuse_expired(zk_call *call)
{
    hf_error why = {0};

    zk_expired(call->session, &why);
    zk_call_refuse(call, &why);
}

void zk_call_refuse_late(zk_wire *wire, zk_call *call)
{
    hf_error why = {0}, last;

    zk_lock(wire);
    last = wire->failure;
    zk_unlock(wire);
    hfd_error(&why, HF_EUNAVAIL, "zookeeper", ETIMEDOUT,
              "no connection in time%s%s", last.code ? ": " : "",
              last.code ? last.text : "");
    zk_call_refuse(call, &why);
}

/* With mu held. */
static bool is_over(const zk_wire *wire, const zk_call *call)
{
    return !is_begin(call) && call->session != 0 &&
           call->session != wire->session;
}

/* Is there a session that this call can wait for?  With mu held. */
static bool can_wait(const zk_wire *wire, const zk_call *call)
{
    return !is_begin(call) && wire->session != 0 && !wire->casual;
}

/* ---- On a connection that stands ---- */

typedef enum choice { CHOSEN, NO_CONN, OVER } choice;

static choice choose_conn(zk_wire *wire, zk_call *call, zk_conn **ret,
                          bool *ret_idle)
{
    choice chosen = NO_CONN;

    zk_lock(wire);
    if (is_over(wire, call)) {
        chosen = OVER;
    } else if (!is_begin(call) && zk_conn_usable(wire->conn)) {
        zk_conn *conn = wire->conn;

        chosen = CHOSEN;
        *ret_idle =
            !conn->sent.first && hfd_now() - conn->used > HF_MS(IDLE_MS);
        /* The call's.  One that nobody drives may land and drop it while we are
         * still inside the pipe, so the sender then has one of his own. */
        conn->refs += call->driven ? 1 : 2;
        *ret = conn;
    }
    zk_unlock(wire);
    return chosen;
}

/* Not a byte of the call went out: it is not this connection's any more. */
static void leave_conn(zk_conn *conn, zk_call *call, zk_sending end)
{
    hf_error why = {0};

    call->conn = NULL;
    if (end == SENDING_BROKEN) {
        zk_lock(conn->wire);
        conn->late = true; /* nobody else tries it */
        zk_unlock(conn->wire);
        hfd_error(&why, HF_EUNAVAIL, "zookeeper", EPIPE,
                  "%s: the connection broke", conn->where);
        hf__pipe_cut(conn->pipe, &why);
    }
    zk_conn_drop(conn);
}

/* false: no connection stands.  Else it is under way, or has landed. */
static bool send_call(zk_wire *wire, zk_call *call)
{
    bool driven = call->driven, idle = false;
    hf_error why = {0};
    zk_conn *conn = NULL;
    choice chosen;

    while ((chosen = choose_conn(wire, call, &conn, &idle)) == CHOSEN) {
        zk_sending end;

        if (idle)
            hf__pipe_dispatch(conn->pipe);
        memset(&call->waiter, 0, sizeof call->waiter);
        call->conn = driven ? conn : NULL;
        call->state = CALL_SENT;
        end = zk_conn_send(conn, call);
        if (end != SENDING_DONE)
            leave_conn(conn, call, end);
        if (!driven)
            zk_conn_drop(conn);
        if (end == SENDING_DONE)
            return true;
        if (end == SENDING_NO_MEMORY) {
            hfd_error(&why, HF_ENOMEM, "zookeeper", ENOMEM,
                      "no memory for a request");
            zk_call_refuse(call, &why);
            return true;
        }
    }
    if (chosen == OVER)
        refuse_expired(call);
    return chosen == OVER;
}

/* ---- Calls that nobody drives ---- */

/* There was no connection: wait for one, unless the last attempt has failed
 * just now and no session stands that could come back. */
static void stand_in_line(zk_wire *wire, zk_call *call)
{
    hf_error why = {0};
    bool over, stands, queued = false;

    zk_lock(wire);
    over = is_over(wire, call);
    stands = !is_begin(call) && zk_conn_usable(wire->conn);
    if (!over && !stands) {
        if (!can_wait(wire, call) && !wire->dialing &&
            hfd_now() < wire->backoff.until) {
            why = wire->failure;
        } else {
            queued = true;
            call->state = CALL_LINE;
            zk_calls_add(&wire->line, call);
            zk_wire_remind(wire, call->deadline);
            if (!wire->dialing)
                zk_dial_summon(wire);
        }
    }
    zk_unlock(wire);
    if (queued)
        return;
    if (over)
        refuse_expired(call);
    else if (stands)
        zk_wire_start(wire, call);
    else
        zk_call_refuse(call, &why);
}

void zk_wire_move_line(zk_wire *wire, const hf_error *why)
{
    zk_calls line;
    zk_call *call;

    zk_lock(wire);
    line = wire->line;
    memset(&wire->line, 0, sizeof wire->line);
    zk_unlock(wire);
    while ((call = zk_calls_take(&line))) {
        bool waits;

        if (send_call(wire, call))
            continue;
        zk_lock(wire);
        waits = can_wait(wire, call);
        zk_unlock(wire);
        if (why && !waits)
            zk_call_refuse(call, why);
        else
            stand_in_line(wire, call);
    }
}

/* A session that stands is given up; one that others are just fetching a
 * connection for, too. */
static void give_up_session(zk_wire *wire)
{
    int64_t session;

    zk_lock(wire);
    session = wire->session;
    zk_unlock(wire);
    zk_session_end(wire, session, NULL);
}

void zk_wire_start(zk_wire *wire, zk_call *call)
{
    if (call->driven && call->state == CALL_LANDING) {
        call->state = CALL_AGAIN;
        return;
    }
    if (is_begin(call))
        give_up_session(wire);
    else if (send_call(wire, call))
        return;
    if (call->driven)
        call->state = CALL_LACKS;
    else
        stand_in_line(wire, call);
}

/* ---- Calls that have a thread ---- */

/* Until it is answered or late; a member that seems to have forgotten it is
 * reminded. */
static bool wait_answered(zk_conn *conn, zk_call *call)
{
    hf_nsec until = call->sent + ZK_NUDGE;

    while (until < call->deadline) {
        if (hf__pipe_wait(conn->pipe, &call->waiter, until))
            return true;
        zk_conn_nudge(conn);
        until = hfd_now() + ZK_NUDGE;
    }
    return hf__pipe_wait(conn->pipe, &call->waiter, call->deadline);
}

static void wait_landed(zk_call *call)
{
    zk_conn *conn = call->conn;
    bool landed = wait_answered(conn, call);

    while (!landed) {
        hf_nsec now = hfd_now();
        zk_lateness late;

        zk_lock(conn->wire);
        late = zk_conn_judge_late(conn, call, now);
        zk_unlock(conn->wire);
        if (late == LATE_ALONE) {
            zk_conn_land_late(conn, call);
            break;
        }
        /* Then it lands by whoever tells that the pipe is broken; if the reply
         * has come at this very moment, by him who reads it. */
        if (late == LATE_SILENT)
            zk_conn_cut_late(conn, call->sent);
        landed = hf__pipe_wait(conn->pipe, &call->waiter, now + ZK_LATE_AGAIN);
    }
    call->conn = NULL;
    zk_conn_drop(conn);
}

/* Others are at it, or it is too early: sleep a while.  Unlocks mu. */
static void wait_turn(zk_wire *wire, hf_nsec until)
{
    unsigned seen = atomic_load(&wire->turn);

    zk_unlock(wire);
    zk_futex_sleep(&wire->turn, seen, until);
}

/* No connection stands: open one on this thread, or wait for who does. */
static void dial_for(zk_wire *wire, zk_call *call)
{
    hf_nsec now = hfd_now(), deadline;
    hf_error why = {0};
    bool waits, begin = is_begin(call);

    zk_lock(wire);
    waits = can_wait(wire, call);
    if (is_over(wire, call) || (!begin && zk_conn_usable(wire->conn))) {
        zk_unlock(wire); /* the next sending tells, or does */
    } else if (now >= call->deadline) {
        zk_unlock(wire);
        zk_call_refuse_late(wire, call);
    } else if (wire->dialing) {
        wait_turn(wire, call->deadline);
    } else if (now < wire->backoff.until && waits) {
        wait_turn(wire, wire->backoff.until < call->deadline
                            ? wire->backoff.until
                            : call->deadline);
    } else if (now < wire->backoff.until) {
        why = wire->failure;
        zk_unlock(wire);
        zk_call_refuse(call, &why);
    } else {
        deadline = zk_dial_limit(wire);
        if (deadline > call->deadline)
            deadline = call->deadline;
        if (zk_dial_attempt(wire, begin ? call : NULL, deadline, &why) != 0 &&
            !begin && !waits)
            zk_call_refuse(call, &why);
    }
}

void zk_wire_drive(zk_wire *wire, zk_call *call)
{
    for (;;) {
        if (call->conn)
            wait_landed(call);
        /* From here to the next sending the call is this thread's alone. */
        if (call->state == CALL_DONE)
            return;
        if (call->state == CALL_AGAIN && is_begin(call))
            give_up_session(wire);
        if (send_call(wire, call))
            continue;
        call->state = CALL_LACKS;
        dial_for(wire, call);
    }
}
