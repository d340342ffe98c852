/* grpc.c - calls: on which connection, by whose thread, and again or not.
 *
 * Answers: where does this call go, who works for it, and what does it hear
 * when there is no connection?  Knows nothing of frames or handshakes.
 *
 *     NEW --connection--> SENT --answer, break, late--> LANDING --> DONE
 *      |--driven--> LACKS: its thread dials, then as above       |--> AGAIN
 *      |--else----> LINE: the dialer thread dials, then as above
 *
 * A lone caller does one send and one receive on its own thread.  Calls are
 * streams of their own: many are under way at once, answers come in any order.
 *
 * Safety.  A call that never got a connection is NOT APPLIED.  It goes out
 * twice only when the server says that it did not begin with it, or refused it
 * for its token.  After `landed` a driven call is touched only to wake its
 * thread, which returns from nowhere else; any other call not at all.  Paused
 * between two lines here: the deadline is looked at again before every sleep
 * (grpc_late.c). */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "grpc_inside.h"

enum {
    /* A connection that was idle for so long is looked at before it is used:
     * a server that was restarted meanwhile is noticed without a loss. */
    IDLE_MS = 500,
    TAKEN_MS = 20,
    EVENTS = 16
};

/* ---- Lines ---- */

void grpc_calls_add(grpc_calls *calls, grpc_call *call)
{
    call->next = NULL;
    if (calls->first)
        calls->last->next = call;
    else
        calls->first = call;
    calls->last = call;
}

grpc_call *grpc_calls_take(grpc_calls *calls)
{
    grpc_call *call = calls->first;

    if (call)
        calls->first = call->next;
    return call;
}

/* ---- Landing ---- */

void grpc_call_land(grpc_call *call, const grpc_answer *answer, hf__pipe *pipe)
{
    bool driven = call->driven;
    bool well = answer->outcome == HF_APPLIED && answer->code == GRPC_OK;

    if (driven)
        call->state = CALL_LANDING;
    call->landed(call, answer->outcome, answer->code, answer->reply,
                 answer->len, well ? NULL : &answer->why);
    if (!driven)
        return;
    if (call->state == CALL_LANDING)
        call->state = CALL_DONE;
    if (pipe)
        hf__pipe_wake(pipe, &call->waiter);
}

static void refuse(grpc_call *call, const hf_error *why)
{
    grpc_answer answer = {
        .outcome = HF_NOT_APPLIED, .code = GRPC_UNAVAILABLE, .why = *why};

    grpc_call_land(call, &answer, NULL);
}

static void refuse_late(grpc_channel *channel, grpc_call *call)
{
    hf_error why = {0};

    hfd_error(&why, HF_EUNAVAIL, "etcd", ETIMEDOUT, "%s: no connection in time",
              channel->addresses[0].host);
    refuse(call, &why);
}

void grpc_refuse_late(grpc_channel *channel, grpc_calls *calls)
{
    grpc_call *call;

    while ((call = grpc_calls_take(calls)))
        refuse_late(channel, call);
}

/* ---- On the connection that stands ---- */

/* The current one, with a reference for the call.  One that nobody drives may
 * land and drop it while we are still inside the pipe, so the sender then has
 * one of his own.  *ret_idle: nothing was sent for long. */
static grpc_conn *choose_conn(grpc_channel *channel, bool driven,
                              bool *ret_idle)
{
    grpc_conn *conn;

    grpc_lock(channel);
    conn = channel->current;
    if (conn) {
        *ret_idle = hfd_now() - conn->used > HF_MS(IDLE_MS);
        conn->refs += driven ? 1 : 2;
    }
    grpc_unlock(channel);
    return conn;
}

/* Not a byte of the call went out: it is not this connection's any more. */
static void leave_conn(grpc_conn *conn, grpc_call *call, grpc_sending end)
{
    bool current = false;

    call->inside = NULL;
    if (!call->driven)
        hf__pipe_attend(conn->pipe, -1);
    if (end == SENDING_BROKEN) {
        grpc_lock(conn->channel);
        if (!conn->broken && !conn->retired)
            current = grpc_conn_retire(conn); /* nobody else tries it */
        grpc_unlock(conn->channel);
        if (hf__pipe_is_broken(conn->pipe))
            grpc_conn_cut(conn, HF_EUNAVAIL, EPIPE, "the connection broke");
        else
            grpc_conn_deliver(conn); /* its streams end */
    }
    if (current)
        grpc_conn_drop(conn);
    grpc_conn_drop(conn);
}

/* Send it on the connection that stands; false: there is none.  Else it is
 * under way, or has landed because there was no memory. */
static bool send_call(grpc_channel *channel, grpc_call *call)
{
    bool driven = call->driven, idle = false;
    hf_error why = {0};
    grpc_conn *conn;

    while ((conn = choose_conn(channel, driven, &idle))) {
        grpc_sending end;

        if (idle)
            hf__pipe_dispatch(conn->pipe);
        memset(&call->waiter, 0, sizeof call->waiter);
        call->inside = driven ? conn : NULL;
        call->state = CALL_SENT;
        if (!driven)
            hf__pipe_attend(conn->pipe, 1);
        end = grpc_conn_send(conn, call);
        if (end != SENDING_DONE)
            leave_conn(conn, call, end);
        if (!driven)
            grpc_conn_drop(conn);
        if (end == SENDING_DONE)
            return true;
        if (end == SENDING_NO_MEMORY) {
            hfd_error(&why, HF_ENOMEM, "etcd", ENOMEM, "no memory for a call");
            refuse(call, &why);
            return true;
        }
    }
    return false;
}

/* ---- Calls that nobody drives ---- */

/* There was no connection: wait for one, unless the last attempt has failed
 * just now. */
static void stand_in_line(grpc_channel *channel, grpc_call *call)
{
    hf_error why = {0};
    bool stands, queued = false, alone = false;

    grpc_lock(channel);
    stands = channel->current != NULL;
    if (!stands && !channel->dialing && hfd_now() < channel->backoff.until) {
        why = channel->failure;
    } else if (!stands) {
        queued = true;
        call->state = CALL_LINE;
        grpc_calls_add(&channel->line, call);
        grpc_remind(channel, call->deadline);
        alone = !channel->dialing && grpc_dial_summon(channel) != 0;
    }
    grpc_unlock(channel);
    if (stands) {
        grpc_start_again(channel, call);
    } else if (!queued) {
        refuse(call, &why);
    } else if (alone) {
        hfd_error(&why, HF_ENOMEM, "etcd", 0, "no thread to connect with");
        grpc_move_line(channel, &why);
    }
}

void grpc_move_line(grpc_channel *channel, const hf_error *why)
{
    grpc_calls line;
    grpc_call *call;

    grpc_lock(channel);
    line = channel->line;
    memset(&channel->line, 0, sizeof channel->line);
    grpc_unlock(channel);
    while ((call = grpc_calls_take(&line))) {
        if (hfd_now() >= call->deadline)
            refuse_late(channel, call);
        else if (why)
            refuse(call, why);
        else if (!send_call(channel, call))
            stand_in_line(channel, call);
    }
}

void grpc_start_again(grpc_channel *channel, grpc_call *call)
{
    if (send_call(channel, call))
        return;
    if (call->driven)
        call->state = CALL_LACKS;
    else
        stand_in_line(channel, call);
}

void grpc_start(grpc_channel *channel, grpc_call *call)
{
    call->tries = 0;
    if (call->driven && call->state == CALL_LANDING)
        call->state = CALL_AGAIN;
    else
        grpc_start_again(channel, call);
}

/* ---- Calls that have a thread ---- */

static void wait_landed(grpc_call *call)
{
    grpc_conn *conn = call->inside;
    hf_nsec until = grpc_next_look(call, call->sent);

    while (!hf__pipe_wait(conn->pipe, &call->waiter, until)) {
        hf_nsec now = hfd_now();

        if (now < call->deadline) {
            grpc_conn_look(conn, ASKER_WAITS);
            until = grpc_next_look(call, now);
        } else if (grpc_give_up(conn, call)) {
            break;
        } else {
            /* Somebody has its answer in hand: he lands it, or it goes out
             * again with another token and is given up then. */
            until = now + HF_MS(TAKEN_MS);
        }
    }
    call->inside = NULL;
    grpc_conn_drop(conn);
}

void grpc_call_on(grpc_conn *conn, grpc_call *call)
{
    hf_error why = {0};

    grpc_lock(conn->channel);
    conn->leader = false;
    conn->refs++;
    grpc_unlock(conn->channel);
    call->inside = conn;
    call->state = CALL_SENT;
    if (grpc_conn_send(conn, call) == SENDING_DONE) {
        wait_landed(call);
    } else {
        call->inside = NULL;
        grpc_conn_drop(conn);
        call->state = CALL_AGAIN;
    }
    if (call->state == CALL_DONE)
        return;
    hfd_error(&why, HF_EUNAVAIL, "etcd", 0, "%s: the member takes no calls",
              conn->where);
    refuse(call, &why);
}

/* A login may take longer than this call has, and is not begun anew by each
 * that comes: the thread for that does it.  With mu held, which is unlocked;
 * false: there is no thread, and mu is held. */
static bool wait_for_dialer(grpc_channel *channel, hf_nsec deadline)
{
    unsigned seen = atomic_load(&channel->turn);

    if (grpc_dial_summon(channel) != 0)
        return false;
    channel->waiting++;
    grpc_unlock(channel);
    grpc_futex_sleep(&channel->turn, seen, deadline);
    grpc_lock(channel);
    channel->waiting--;
    grpc_unlock(channel);
    return true;
}

/* No connection stands: open one on this thread, or wait for who does. */
static void dial_for(grpc_channel *channel, grpc_call *call)
{
    hf_nsec now = hfd_now(), deadline;
    hf_error why = {0};
    unsigned seen;

    grpc_lock(channel);
    if (channel->current) {
        grpc_unlock(channel);
        return;
    }
    if (now >= call->deadline) {
        grpc_unlock(channel);
        refuse_late(channel, call);
        return;
    }
    if (channel->dialing) {
        seen = atomic_load(&channel->turn);
        grpc_unlock(channel);
        grpc_futex_sleep(&channel->turn, seen, call->deadline);
        return;
    }
    if (now < channel->backoff.until) {
        why = channel->failure;
        grpc_unlock(channel);
        refuse(call, &why);
        return;
    }
    if (channel->user[0] && wait_for_dialer(channel, call->deadline))
        return; /* and look again */
    deadline = now + channel->dial_time;
    if (deadline > call->deadline)
        deadline = call->deadline;
    if (grpc_dial(channel, deadline, false, &why) != 0)
        refuse(call, &why);
}

void grpc_drive(grpc_channel *channel, grpc_call *call)
{
    for (;;) {
        if (call->inside)
            wait_landed(call);
        /* From here to the next sending the call is this thread's alone. */
        if (call->state == CALL_DONE)
            return;
        if (hfd_now() >= call->deadline) {
            refuse_late(channel, call);
            continue;
        }
        if (send_call(channel, call))
            continue;
        call->state = CALL_LACKS;
        dial_for(channel, call);
    }
}

/* ---- The epoll: timer and pipes ---- */

/* The tag is the address of a connection that may be gone by now: it counts
 * only if it is still among all. */
static void dispatch_conn(grpc_channel *channel, const void *tag)
{
    grpc_conn *conn;

    grpc_lock(channel);
    for (conn = channel->all; conn && conn != tag;)
        conn = conn->next;
    if (conn)
        conn->refs++;
    grpc_unlock(channel);
    if (conn) {
        hf__pipe_dispatch(conn->pipe);
        grpc_conn_drop(conn);
    }
}

int grpc_fd(grpc_channel *channel)
{
    return channel->epoll_fd;
}

void grpc_dispatch(grpc_channel *channel)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(channel->epoll_fd, events, EVENTS, 0);
    uint64_t count;

    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr != channel) {
            dispatch_conn(channel, events[i].data.ptr);
        } else if (read(channel->timer_fd, &count, sizeof count) > 0) {
            grpc_look_for_late(channel);
        }
    }
}
