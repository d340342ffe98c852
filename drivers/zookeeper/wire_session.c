/* wire_session.c - when a session stands, and when it is over.
 *
 * Answers: who learns that a session stands on a new connection, or that it
 * never will again?  A session ends by a server's word (expired, moved, another
 * id), by ZK_CLOSE that was answered, or because ZK_BEGIN gives it up; by
 * nothing else, least of all by silence: the user's own clock is for that.
 * Who has said ZK_CLOSE is told of no doubt and no end any more.
 * Knows nothing of dialling.
 *
 *     none --begin--> stands <--broken / again--> disconnected
 *       ^---------------'------ end (told: over) ------'
 *
 * Safety.  The end is written down under mu, with `gen`, before anybody is
 * told: a handshake for the old session that is under way finds `gen` changed
 * and is thrown away, so nothing revives a session that was told to be over.
 * Calls in flight are cut with the connection and are UNKNOWN; those that wait
 * for a connection are NOT APPLIED.  Two who end one session: the second finds
 * another id, or none. */
#include <string.h>

#include "wire_inside.h"

void zk_expired(int64_t session, hf_error *ret)
{
    hfd_error(ret, HF_EEXPIRED, "zookeeper", ZK_SESSION_EXPIRED,
              "session 0x%llx is over", (unsigned long long)session);
}

static void forget_session(zk_wire *wire)
{
    wire->session = 0;
    wire->casual = false;
    wire->keep_until = HF_NEVER;
    wire->zxid = 0;
    explicit_bzero(wire->password, sizeof wire->password);
    atomic_fetch_add(&wire->gen, 1);
}

/* It is nobody's any more. */
static void cut_conn(zk_conn *conn)
{
    hf_error why = {0};

    hfd_error(&why, HF_EUNAVAIL, "zookeeper", 0, "%s: the session has ended",
              conn->where);
    hf__pipe_cut(conn->pipe, &why);
    zk_conn_drop(conn);
}

void zk_wire_keep(zk_wire *wire, int64_t session, hf_nsec until)
{
    zk_lock(wire);
    if (wire->session == session && !wire->casual) {
        wire->keep_until = until;
        zk_wire_remind(wire, until);
    }
    zk_unlock(wire);
}

void zk_session_end(zk_wire *wire, int64_t session, const char *text)
{
    zk_conn *conn = NULL;
    bool told = false, ended;

    zk_lock(wire);
    ended = session != 0 && wire->session == session;
    if (ended) {
        told =
            text && !wire->casual && !wire->closing && session != wire->parting;
        conn = wire->conn;
        wire->conn = NULL;
        forget_session(wire);
    }
    zk_unlock(wire);
    if (!ended)
        return;
    if (conn)
        cut_conn(conn);
    if (told) {
        hfd_log(HF_LOG_WARN, "zookeeper: session 0x%llx is over: %s",
                (unsigned long long)session, text);
        wire->listener.over(wire->listener.ctx, session, text);
    }
    zk_futex_ring(&wire->turn);
    zk_wire_move_line(wire, NULL);
}

void zk_session_stands(zk_wire *wire, zk_conn *conn, bool again)
{
    zk_conn *old = wire->conn, *lost = NULL;
    int64_t session = wire->session;
    bool told = again && !wire->casual;

    memset(&wire->backoff, 0, sizeof wire->backoff);
    wire->which = conn->which;
    wire->conn = conn;
    if (conn->broken) { /* at once, and nobody was told */
        wire->conn = NULL;
        lost = conn;
        told = false;
        if (!wire->casual)
            zk_dial_summon(wire);
    } else {
        zk_wire_remind(wire, conn->used + zk_ping_every(wire));
    }
    zk_unlock(wire);
    if (old)
        cut_conn(old);
    if (lost)
        zk_conn_drop(lost);
    zk_futex_ring(&wire->turn);
    zk_stir_parkers(wire, NULL);
    if (told)
        wire->listener.again(wire->listener.ctx, session);
    zk_wire_move_line(wire, NULL);
}
