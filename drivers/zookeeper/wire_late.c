/* wire_late.c - calls that were sent and are not answered in time.
 *
 * Answers: is one late, or are all of them?  A call may go out shortly before
 * its deadline, as the last flight of an operation that took several; a busy
 * ensemble then answers it late, and all others in time.  It is given up alone:
 * taken out of the line of its connection, and its replies, whose numbers
 * nobody expects, are dropped when they come (wire_conn.c).  But a connection
 * on which nothing at all was answered for half an attempt is cut, and the next
 * member is dialled.  So is one that does not answer a closeSession.
 *
 * Why half an attempt: the core's attempts take a sixth of the lease, two
 * seconds at most, so a member that has fallen silent is given up with the
 * first whole attempt that it does not answer, and the second goes elsewhere.
 *
 * Safety.  Given up is UNKNOWN: it may have been executed, or may be yet.  What
 * is asked about it later on this connection is answered behind it, because a
 * server keeps a session's order; on another one the session has moved, and
 * the old requests are refused.  Two of us: the reader owns a call while he
 * reads a reply of it (`taking`); else whoever takes it out of the line under
 * `mu` lands it, and nobody else finds it. */
#include <errno.h>

#include "wire_inside.h"

/* With mu held. */
static hf_nsec half_attempt(const zk_wire *wire)
{
    hf_nsec half = HF_MS(wire->timeout_ms) / 12;

    return half < HF_MS(1000) ? half : HF_MS(1000);
}

/* With mu held; false: it is not in the line. */
static bool take_out(zk_conn *conn, const zk_call *call)
{
    zk_call **at = &conn->sent.first, *before = NULL;

    while (*at && *at != call) {
        before = *at;
        at = &before->next;
    }
    if (!*at)
        return false;
    *at = call->next;
    if (conn->sent.last == call)
        conn->sent.last = before;
    return true;
}

zk_lateness zk_conn_judge_late(zk_conn *conn, zk_call *call, hf_nsec now)
{
    if (!zk_conn_usable(conn) || conn->taking == call)
        return LATE_BUSY;
    if (now - conn->quiet >= half_attempt(conn->wire) ||
        call->requests[0].op == ZK_CLOSE)
        return LATE_SILENT;
    return take_out(conn, call) ? LATE_ALONE : LATE_BUSY;
}

static void say_late(const zk_conn *conn, hf_nsec since, hf_error *ret)
{
    hfd_error(ret, HF_EUNAVAIL, "zookeeper", ETIMEDOUT,
              "%s: no reply within %lld ms", conn->where,
              (long long)((hfd_now() - since) / HF_MS(1)));
}

void zk_conn_land_late(zk_conn *conn, zk_call *call)
{
    bool driven = call->driven;
    hf_error why = {0};

    say_late(conn, call->sent, &why);
    zk_call_land(call, HF_UNKNOWN, &why, NULL);
    if (!driven)
        zk_conn_drop(conn); /* the caller has one more */
}

void zk_conn_cut_late(zk_conn *conn, hf_nsec since)
{
    hf_error why = {0};

    zk_lock(conn->wire);
    conn->late = true;
    zk_unlock(conn->wire);
    say_late(conn, since, &why);
    hf__pipe_cut(conn->pipe, &why);
}
