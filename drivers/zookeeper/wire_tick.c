/* wire_tick.c - the epoll: timers, pings, and whoever has to be read for.
 *
 * Answers: what is due now that no caller's thread does?  Calls without a
 * thread whose time is over (wire_late.c), a ping when a tick, or a third of
 * the timeout, passed without a request, and the end of a connection whose ping
 * has had no answer for a third; a ping, too, when an answer is overdue
 * (ZK_NUDGE).  One timer for all, set for the earliest; it may fire early,
 * never late.  Runs on the thread of the epoll's owner and never waits.
 *
 * A session whose user has not renewed its lease is given up (zk_wire_keep):
 * else the pings would keep it, and its nodes, alive for ever.
 *
 * A ping keeps the session alive as far as the member knows; it proves nothing
 * about the leader, so no lease is counted from it.  Paused here for long: the
 * first thing that happens is a ping, and only when that is not answered the
 * connection is given up. */
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <string.h>
#include <unistd.h>

#include "wire_inside.h"

enum { EVENTS = 16 };

void zk_wire_remind(zk_wire *wire, hf_nsec due)
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

/* Calls in the line whose time is over; with mu held. */
static zk_calls take_late_line(zk_wire *wire, hf_nsec now)
{
    zk_calls all = wire->line, late = {0};
    zk_call *call;

    memset(&wire->line, 0, sizeof wire->line);
    while ((call = zk_calls_take(&all))) {
        if (call->deadline <= now) {
            zk_calls_add(&late, call);
        } else {
            zk_calls_add(&wire->line, call);
            zk_wire_remind(wire, call->deadline);
        }
    }
    return late;
}

/* Is nothing answered on this connection, and since when (0: it is)?  Calls
 * that nobody drives and that are late alone are moved to *late.  With mu
 * held. */
static hf_nsec find_late(zk_wire *wire, zk_conn *conn, hf_nsec now,
                         zk_calls *late)
{
    hf_nsec third = HF_MS(wire->timeout_ms) / 3;
    zk_call *next;

    for (zk_call *call = conn->sent.first; call; call = next) {
        zk_lateness lateness;

        next = call->next;
        if (call->driven)
            continue;
        if (call->deadline > now) {
            zk_wire_remind(wire, call->deadline);
            continue;
        }
        lateness = zk_conn_judge_late(conn, call, now);
        if (lateness == LATE_SILENT)
            return call->sent;
        if (lateness == LATE_ALONE)
            zk_calls_add(late, call);
        else
            zk_wire_remind(wire, now + ZK_LATE_AGAIN);
    }
    return conn->pinged > conn->heard && now - conn->pinged >= third
               ? conn->pinged
               : 0;
}

/* With mu held. */
static bool is_ping_due(zk_wire *wire, const zk_conn *conn, hf_nsec now)
{
    hf_nsec every = zk_ping_every(wire);
    bool due = now - conn->used >= every;

    zk_wire_remind(wire, due ? now + every : conn->used + every);
    return due;
}

/* Is a call that nobody drives without answer for too long?  With mu held. */
static bool is_nudge_due(zk_wire *wire, const zk_conn *conn, hf_nsec now)
{
    bool due = false;

    for (zk_call *call = conn->sent.first; call; call = call->next) {
        bool over = !call->driven && now - call->sent >= ZK_NUDGE;

        if (!call->driven)
            zk_wire_remind(wire, (over ? now : call->sent) + ZK_NUDGE);
        due = due || over;
    }
    return due;
}

void zk_wire_nudge(zk_wire *wire)
{
    zk_conn *conn;

    zk_lock(wire);
    conn = zk_conn_usable(wire->conn) ? wire->conn : NULL;
    if (conn)
        conn->refs++;
    zk_unlock(wire);
    if (conn) {
        zk_conn_nudge(conn);
        zk_conn_drop(conn);
    }
}

static void look(zk_wire *wire)
{
    hf_nsec now = hfd_now(), since = 0;
    bool ping = false, nudge = false;
    int64_t stale = 0;
    zk_calls late, alone = {0};
    zk_conn *conn;
    zk_call *call;

    zk_lock(wire);
    wire->timer_due = HF_NEVER;
    if (wire->session != 0 && now >= wire->keep_until)
        stale = wire->session;
    else
        zk_wire_remind(wire, wire->keep_until);
    late = take_late_line(wire, now);
    conn = zk_conn_usable(wire->conn) ? wire->conn : NULL;
    if (conn) {
        conn->refs++;
        since = find_late(wire, conn, now, &alone);
        ping = since == 0 && is_ping_due(wire, conn, now);
        nudge = is_nudge_due(wire, conn, now);
    }
    if (zk_dial_wanted(wire))
        zk_dial_summon(wire);
    zk_unlock(wire);
    if (since)
        zk_conn_cut_late(conn, since);
    else if (ping)
        zk_conn_ping(conn);
    else if (nudge)
        zk_conn_nudge(conn);
    while ((call = zk_calls_take(&alone)))
        zk_conn_land_late(conn, call);
    if (conn)
        zk_conn_drop(conn);
    while ((call = zk_calls_take(&late)))
        zk_call_refuse_late(wire, call);
    if (stale)
        zk_session_end(wire, stale, "its lease was not renewed in time");
}

/* The tag is the address of a connection that may be gone by now: it counts
 * only if it is still among all. */
static void dispatch_conn(zk_wire *wire, const void *tag)
{
    zk_conn *conn;

    zk_lock(wire);
    for (conn = wire->all; conn && conn != tag;)
        conn = conn->next;
    if (conn)
        conn->refs++;
    zk_unlock(wire);
    if (conn) {
        hf__pipe_dispatch(conn->pipe);
        zk_conn_drop(conn);
    }
}

int zk_wire_fd(zk_wire *wire)
{
    return wire->epoll_fd;
}

void zk_wire_dispatch(zk_wire *wire)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(wire->epoll_fd, events, EVENTS, 0);
    uint64_t count;

    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr != wire)
            dispatch_conn(wire, events[i].data.ptr);
        else if (read(wire->timer_fd, &count, sizeof count) > 0)
            look(wire);
    }
}
