/* wire.c - commands to a Redis server: which connection, and until when.
 *
 * Answers: where does this call go, who works for it, and what does it hear
 * when there is no connection or no reply in time?  Knows nothing of RESP or
 * of handshakes.
 *
 *     NEW --connection--> SENT --reply, break--> LANDING --> DONE
 *      |--driven--> LACKS: its thread dials, then as above  |--> AGAIN: NEW
 *      |--else----> LINE: the dialer thread dials, then as above
 *
 * A reply that says "not here" (finder.h) makes it NEW again, after a pause.
 *
 * A lone caller finds the first connection idle and does one send and one
 * receive on its own thread.  Calls are pipelined: one connection carries many,
 * and more are opened only when many wait on each.
 *
 * Safety.  A call that never got a connection is NOT APPLIED; one whose reply
 * is late is UNKNOWN, and its connection is cut, because the late reply would
 * be taken for the next one.  A driven call's own thread watches its deadline,
 * a timer in the epoll that of all others.  After `landed` a driven call is
 * touched only to wake its thread, which returns from nowhere else; any other
 * call not at all.  Paused between two lines here: the deadline is looked at
 * again before every sleep. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "wire_inside.h"

enum {
    /* One more connection when the best of them has so many calls under way.
     */
    CROWDED = 8,
    /* A connection that was idle for so long is looked at before it is used:
     * a server that was restarted meanwhile is noticed without a loss. */
    IDLE_MS = 500,
    EVENTS = 16
};

/* ---- Lines ---- */

void redis_calls_add(redis_calls *calls, redis_call *call)
{
    call->next = NULL;
    if (calls->first)
        calls->last->next = call;
    else
        calls->first = call;
    calls->last = call;
}

redis_call *redis_calls_take(redis_calls *calls)
{
    redis_call *call = calls->first;

    if (call)
        calls->first = call->next;
    return call;
}

/* ---- Landing ---- */

void redis_call_land(redis_call *call, hf_outcome outcome, const resp *reply,
                     const hf_error *why, hf__pipe *pipe)
{
    bool driven = call->driven;

    if (driven)
        call->state = CALL_LANDING;
    call->landed(call, outcome, reply, why);
    if (!driven)
        return;
    if (call->state == CALL_LANDING)
        call->state = CALL_DONE;
    if (pipe)
        hf__pipe_wake(pipe, &call->waiter);
}

static void refuse(redis_call *call, const hf_error *why)
{
    redis_call_land(call, HF_NOT_APPLIED, NULL, why, NULL);
}

static void refuse_late(redis_wire *wire, redis_call *call)
{
    hf_error why = {0};

    hfd_error(&why, HF_EUNAVAIL, "redis", ETIMEDOUT,
              "%s: no connection in time", wire->addresses[0].host);
    refuse(call, &why);
}

/* ---- Which connection ---- */

/* The first idle one, so that few stay in use; else the one with the fewest
 * calls under way.  What nobody drives is read by the epoll's owner: all on
 * the first.  With mu held; NULL: none stands. */
static redis_conn *pick_conn(redis_wire *wire, bool driven)
{
    redis_conn *best = NULL;
    unsigned standing = 0;

    for (unsigned i = 0; i < wire->most; i++) {
        redis_conn *conn = wire->slots[i];

        if (!redis_conn_usable(conn))
            continue;
        standing++;
        if (!best || conn->load < best->load)
            best = conn;
        if (!driven || conn->load == 0)
            return best;
    }
    if (best && best->load >= CROWDED && standing < wire->most && !wire->more &&
        hfd_now() >= wire->backoff.until) {
        wire->more = true;
        if (redis_dial_summon(wire) != 0)
            wire->more = false; /* those that stand will do */
    }
    return best;
}

/* Choose, and count it; *ret_idle: nothing was under way for long. */
static redis_conn *choose_conn(redis_wire *wire, bool driven, bool *ret_idle)
{
    redis_conn *conn;

    redis_lock(wire);
    conn = pick_conn(wire, driven);
    if (conn) {
        *ret_idle = conn->load == 0 && hfd_now() - conn->used > HF_MS(IDLE_MS);
        /* The call's.  One that nobody drives may land and drop it while we are
         * still inside the pipe, so the sender then has one of his own. */
        conn->refs += driven ? 1 : 2;
        conn->load++;
    }
    redis_unlock(wire);
    return conn;
}

/* Not a byte of the call went out: it is not this connection's any more. */
static void leave_conn(redis_conn *conn, redis_call *call, redis_sending end)
{
    hf_error why = {0};

    call->conn = NULL;
    if (!call->driven)
        hf__pipe_attend(conn->pipe, -1);
    redis_lock(conn->wire);
    conn->load--;
    if (end == SENDING_BROKEN)
        conn->retired = true; /* nobody else tries it */
    redis_unlock(conn->wire);
    if (end == SENDING_BROKEN) {
        hfd_error(&why, HF_EUNAVAIL, "redis", EPIPE, "%s: the connection broke",
                  conn->where);
        hf__pipe_cut(conn->pipe, &why);
    }
    redis_conn_drop(conn);
}

/* Send it on a connection that stands; false: there is none.  Else it is under
 * way, or has landed because there was no memory. */
static bool send_call(redis_wire *wire, redis_call *call)
{
    bool driven = call->driven, idle = false;
    hf_error why = {0};
    redis_conn *conn;

    while ((conn = choose_conn(wire, driven, &idle))) {
        redis_sending end;

        if (idle)
            hf__pipe_dispatch(conn->pipe);
        memset(&call->waiter, 0, sizeof call->waiter);
        call->conn = driven ? conn : NULL;
        call->state = CALL_SENT;
        if (!driven)
            hf__pipe_attend(conn->pipe, 1);
        end = redis_conn_send(conn, call);
        if (end != SENDING_DONE)
            leave_conn(conn, call, end);
        if (!driven)
            redis_conn_drop(conn);
        if (end == SENDING_DONE)
            return true;
        if (end == SENDING_NO_MEMORY) {
            hfd_error(&why, HF_ENOMEM, "redis", ENOMEM,
                      "no memory for a command");
            refuse(call, &why);
            return true;
        }
    }
    return false;
}

/* ---- Calls that nobody drives ---- */

/* There was no connection: wait for one, unless the last attempt has failed
 * just now. */
static void stand_in_line(redis_wire *wire, redis_call *call)
{
    hf_error why = {0};
    bool stands, queued = false, alone = false;

    redis_lock(wire);
    stands = redis_any_stands(wire);
    if (!stands && !wire->dialing && hfd_now() < wire->backoff.until) {
        why = wire->failure;
    } else if (!stands) {
        queued = true;
        call->state = CALL_LINE;
        redis_calls_add(&wire->line, call);
        redis_wire_remind(wire, call->deadline);
        alone = !wire->dialing && redis_dial_summon(wire) != 0;
    }
    redis_unlock(wire);
    if (stands) {
        redis_wire_send(wire, call);
    } else if (!queued) {
        refuse(call, &why);
    } else if (alone) {
        hfd_error(&why, HF_ENOMEM, "redis", 0, "no thread to connect with");
        redis_wire_move_line(wire, &why);
    }
}

void redis_wire_send(redis_wire *wire, redis_call *call)
{
    if (!send_call(wire, call))
        stand_in_line(wire, call);
}

void redis_wire_move_line(redis_wire *wire, const hf_error *why)
{
    redis_calls line;
    redis_call *call;

    redis_lock(wire);
    line = wire->line;
    memset(&wire->line, 0, sizeof wire->line);
    redis_unlock(wire);
    while ((call = redis_calls_take(&line))) {
        if (why)
            refuse(call, why);
        else
            redis_wire_send(wire, call);
    }
}

void redis_wire_start(redis_wire *wire, redis_call *call)
{
    call->by_text = false;
    call->strays = 0;
    call->again = 0;
    if (call->driven && call->state == CALL_LANDING)
        call->state = CALL_AGAIN;
    else if (!call->driven)
        redis_wire_send(wire, call);
    else if (!send_call(wire, call))
        call->state = CALL_LACKS;
}

/* ---- Calls that have a thread ---- */

/* Late: the reply may still come, and nobody could tell it from the next. */
static void cut_late(redis_conn *conn, hf_nsec sent)
{
    hf_error why = {0};

    redis_lock(conn->wire);
    conn->late = true;
    redis_unlock(conn->wire);
    hfd_error(&why, HF_EUNAVAIL, "redis", ETIMEDOUT,
              "%s: no reply within %lld ms", conn->where,
              (long long)((hfd_now() - sent) / HF_MS(1)));
    hf__pipe_cut(conn->pipe, &why);
}

static void wait_landed(redis_call *call)
{
    redis_conn *conn = call->conn;

    if (!hf__pipe_wait(conn->pipe, &call->waiter, call->deadline)) {
        cut_late(conn, call->sent);
        /* It lands now, by whoever tells that the pipe is broken; if the reply
         * has come at this very moment, by him who reads it. */
        while (!hf__pipe_wait(conn->pipe, &call->waiter, HF_NEVER))
            continue;
    }
    call->conn = NULL;
    redis_conn_drop(conn);
}

/* No connection stands: open one on this thread, or wait for who does. */
static void dial_for(redis_wire *wire, redis_call *call)
{
    hf_nsec now = hfd_now(), deadline;
    hf_error why = {0};
    unsigned seen;

    redis_lock(wire);
    if (redis_any_stands(wire)) {
        redis_unlock(wire);
        return;
    }
    if (now >= call->deadline) {
        redis_unlock(wire);
        refuse_late(wire, call);
        return;
    }
    if (wire->dialing) {
        seen = atomic_load(&wire->turn);
        redis_unlock(wire);
        redis_futex_sleep(&wire->turn, seen, call->deadline);
        return;
    }
    if (now < wire->backoff.until) {
        why = wire->failure;
        redis_unlock(wire);
        refuse(call, &why);
        return;
    }
    deadline = now + wire->dial_time;
    if (deadline > call->deadline)
        deadline = call->deadline;
    if (redis_dial_command(wire, deadline, &why) != 0)
        refuse(call, &why);
}

void redis_wire_drive(redis_wire *wire, redis_call *call)
{
    for (;;) {
        if (call->conn)
            wait_landed(call);
        /* From here to the next sending the call is this thread's alone. */
        if (call->state == CALL_DONE)
            return;
        if (call->again > 0)
            redis_wait_again(call);
        if (send_call(wire, call))
            continue;
        call->state = CALL_LACKS;
        dial_for(wire, call);
    }
}

/* ---- The epoll: timer and pipes ---- */

void redis_wire_remind(redis_wire *wire, hf_nsec due)
{
    struct itimerspec spec = {0};

    if (due >= wire->timer_due || due == HF_NEVER)
        return;
    wire->timer_due = due;
    if (due < 1)
        due = 1;
    spec.it_value.tv_sec = due / HF_MS(1000);
    spec.it_value.tv_nsec = due % HF_MS(1000);
    timerfd_settime(wire->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

/* Is a call late on this connection that nobody drives, and when was it sent?
 * With mu held. */
static bool find_late(redis_wire *wire, const redis_conn *conn, hf_nsec now,
                      hf_nsec *ret_sent)
{
    for (redis_call *call = conn->sent.first; call; call = call->next) {
        if (call->driven)
            continue;
        if (call->deadline <= now) {
            *ret_sent = call->sent;
            return true;
        }
        redis_wire_remind(wire, call->deadline);
    }
    return false;
}

/* Calls in the line whose time is over; with mu held. */
static redis_calls take_late_line(redis_wire *wire, hf_nsec now)
{
    redis_calls all = wire->line, late = {0};
    redis_call *call;

    memset(&wire->line, 0, sizeof wire->line);
    while ((call = redis_calls_take(&all))) {
        if (call->deadline <= now) {
            redis_calls_add(&late, call);
        } else {
            redis_calls_add(&wire->line, call);
            redis_wire_remind(wire, call->deadline);
        }
    }
    return late;
}

static void look_for_late(redis_wire *wire)
{
    hf_nsec now = hfd_now();
    redis_conn *conn;
    redis_calls late, again;
    redis_call *call;
    hf_nsec sent;

    redis_lock(wire);
    wire->timer_due = HF_NEVER;
    late = take_late_line(wire, now);
    again = redis_take_again(wire, now);
    conn = wire->all;
    while (conn) {
        if (conn->late || !find_late(wire, conn, now, &sent)) {
            conn = conn->next;
            continue;
        }
        conn->late = true;
        conn->refs++;
        redis_unlock(wire);
        cut_late(conn, sent);
        redis_conn_drop(conn);
        redis_lock(wire);
        conn = wire->all; /* it may have changed */
    }
    if (redis_push_wanted(wire) && redis_dial_summon(wire) != 0)
        redis_wire_remind(wire, now + HF_MS(500));
    redis_unlock(wire);
    redis_push_prove(wire, now);
    while ((call = redis_calls_take(&late)))
        refuse_late(wire, call);
    while ((call = redis_calls_take(&again)))
        redis_wire_send(wire, call);
}

/* The tag is the address of a connection that may be gone by now: it counts
 * only if it is still among all. */
static void dispatch_conn(redis_wire *wire, const void *tag)
{
    redis_conn *conn;

    redis_lock(wire);
    for (conn = wire->all; conn && conn != tag;)
        conn = conn->next;
    if (conn)
        conn->refs++;
    redis_unlock(wire);
    if (conn) {
        hf__pipe_dispatch(conn->pipe);
        redis_conn_drop(conn);
    }
}

int redis_wire_fd(redis_wire *wire)
{
    return wire->epoll_fd;
}

void redis_wire_dispatch(redis_wire *wire)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(wire->epoll_fd, events, EVENTS, 0);
    uint64_t count;

    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr != wire) {
            dispatch_conn(wire, events[i].data.ptr);
        } else if (read(wire->timer_fd, &count, sizeof count) > 0) {
            look_for_late(wire);
        }
    }
}
