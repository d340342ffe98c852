/* wire_again.c - calls that came to a server which is not the one any more.
 *
 * Answers: the server says "not here" or "not now" (finder.h); when does the
 * call go out again, and what becomes of the connections to a server that was
 * followed by another?  Knows nothing of topologies.
 *
 * A call goes out again after a pause that grows and is drawn by chance, so
 * that a thousand clients do not fall on the new one together, and only while
 * that is before its deadline; so often at most.  A driven call sleeps on its
 * own thread, the others are woken by the timer of the epoll.
 *
 * Safety.  What is stray was not applied, and `sent` is read anew when it goes
 * out again, so no lease is counted from an older instant or a later one than
 * that of the attempt which was answered.  Between the promotion of one server
 * and the end of another both may answer: the connections of one wire never
 * lead to both, because the later find decides, however long the earlier one
 * took; and the core hears of the change (a doubt: everything is verified)
 * before the first call goes to the new server, and once more when no call goes
 * to the old one any more, for a look that came in between was answered there.
 * So it is where the URL names the servers, too: one that was restarted, or is
 * found behind the same name, may know of the session and not of the lock.  And
 * where one said that it does not lead: it may have followed another until it
 * leads again. */
#include <string.h>

#include "wire_inside.h"

enum { PAUSE_MS = 10, PAUSE_MAX_MS = 250, STRAYS_MAX = 40 };

/* ---- Calls ---- */

static hf_nsec next_pause(unsigned strays)
{
    hf_nsec most = strays < 6 ? HF_MS(PAUSE_MS) << strays : HF_MS(PAUSE_MAX_MS);
    uint32_t chance;

    if (most > HF_MS(PAUSE_MAX_MS))
        most = HF_MS(PAUSE_MAX_MS);
    hfd_random(&chance, sizeof chance);
    return HF_MS(1) + most * (chance >> 16) / 65536;
}

bool redis_call_stray(redis_conn *conn, redis_call *call, const resp *reply)
{
    redis_wire *wire = conn->wire;
    const redis_finder *finder = wire->finder;
    resp inside = redis_error_inside(reply);
    redis_stray stray =
        finder ? finder->stray(finder->ctx, &inside) : REDIS_STRAY_NOT;

    if (stray == REDIS_STRAY_NOT)
        return false;
    if (stray == REDIS_STRAY_AWAY)
        redis_conn_retire(conn);
    if (call->once)
        return false;
    call->again = hfd_now() + next_pause(call->strays);
    if (call->strays >= STRAYS_MAX || call->again >= call->deadline)
        return false;
    call->strays++;
    call->by_text = false;
    if (call->driven) {
        call->state = CALL_AGAIN;
        hf__pipe_wake(conn->pipe, &call->waiter);
        return true;
    }
    hf__pipe_attend(conn->pipe, -1);
    redis_lock(wire);
    call->state = CALL_LINE;
    redis_calls_add(&wire->later, call);
    redis_wire_remind(wire, call->again);
    redis_unlock(wire);
    redis_conn_drop(conn); /* not the last: we are inside its pipe */
    return true;
}

void redis_wait_again(const redis_call *call)
{
    atomic_uint nobody_rings = 0;

    while (hfd_now() < call->again)
        redis_futex_sleep(&nobody_rings, 0, call->again);
}

redis_calls redis_take_again(redis_wire *wire, hf_nsec now)
{
    redis_calls all = wire->later, due = {0};
    redis_call *call;

    memset(&wire->later, 0, sizeof wire->later);
    while ((call = redis_calls_take(&all))) {
        if (call->again <= now) {
            redis_calls_add(&due, call);
        } else {
            redis_calls_add(&wire->later, call);
            redis_wire_remind(wire, call->again);
        }
    }
    return due;
}

/* ---- Connections ---- */

static bool is_elsewhere(const redis_conn *conn, const redis_conn *than)
{
    return conn != than && !conn->broken && !conn->given_up &&
           conn->server.run_id[0] &&
           strcmp(conn->server.run_id, than->server.run_id) != 0;
}

/* Is it another server than the one that stood last, and was that one found
 * later?  With mu held. */
static bool is_other(const redis_conn *conn, bool *ret_outdated)
{
    const redis_wire *wire = conn->wire;
    bool other =
        wire->known && strcmp(wire->server.run_id, conn->server.run_id) != 0;

    /* Counted round. */
    *ret_outdated = other && (int)(wire->settled - conn->find) > 0;
    return other;
}

/* Nothing new goes to another server from now on; one of those connections,
 * with a reference, each only once: whoever reads it tells that it is broken,
 * and that may take a while.  With mu held; NULL: none. */
static redis_conn *retire_elsewhere(redis_conn *conn)
{
    redis_conn *found = NULL;

    for (redis_conn *at = conn->wire->all; at; at = at->next) {
        if (is_elsewhere(at, conn)) {
            at->retired = true;
            found = at;
        }
    }
    if (found) {
        found->given_up = true;
        found->refs++;
    }
    return found;
}

static void cut_elsewhere(redis_conn *conn, redis_conn *first)
{
    redis_wire *wire = conn->wire;
    redis_conn *old = first;
    hf_error why = {0};

    hfd_error(&why, HF_EUNAVAIL, "redis", 0,
              "the connection was given up: the server to ask is %s now",
              conn->where);
    while (old) {
        hf__pipe_cut(old->pipe, &why);
        redis_conn_drop(old);
        redis_lock(wire);
        old = retire_elsewhere(conn);
        redis_unlock(wire);
    }
}

static void tell_other(redis_conn *conn)
{
    redis_wire *wire = conn->wire;
    hf_error told = {0};

    hfd_error(&told, HF_EUNAVAIL, "redis", 0,
              "the server to ask is %s now, and may know less", conn->where);
    wire->listener.doubt(wire->listener.ctx, HF_EUNAVAIL, told.text);
}

int redis_conn_settle(redis_conn *conn, hf_error *err)
{
    redis_wire *wire = conn->wire;
    redis_conn *old = NULL;
    bool doubt, outdated;

    redis_lock(wire);
    doubt = is_other(conn, &outdated) || wire->left;
    wire->left = false;
    redis_unlock(wire);
    if (doubt)
        tell_other(conn);
    redis_lock(wire);
    is_other(conn, &outdated);
    if (!outdated) {
        wire->server = conn->server;
        wire->known = true;
        wire->settled = conn->find;
        old = retire_elsewhere(conn);
    }
    redis_unlock(wire);
    if (outdated)
        return hfd_error(err, HF_EUNAVAIL, "redis", 0,
                         "%s: another server was found meanwhile", conn->where);
    if (old)
        tell_other(conn);
    cut_elsewhere(conn, old);
    return 0;
}
