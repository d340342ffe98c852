/* grpc_late.c - the clock: calls that are not answered, members that are dead.
 *
 * Answers: how long does a call wait, and is there still somebody at the other
 * end?  A late call is reset alone: its stream has a number, so a late answer
 * cannot be taken for another's, and the connection goes on.  Knows nothing of
 * what the calls mean.
 *
 * A member that stands still is noticed by a PING: when a call has waited for a
 * while and nothing came, or was not answered in time.  HTTP/2 answers that
 * below etcd, so a cluster without a majority is not mistaken for a dead
 * member.  Not answered: the connection is cut, and the next member is dialled.
 * etcd closes connections that ping too often: one at a time, and not again
 * before it has answered some call or more than five seconds have passed.
 *
 * Safety.  A call that is given up is UNKNOWN, because it may be executed
 * later.  Whoever gives it up takes it out under `mu`; if it was taken for its
 * landing before, its answer counts.  Paused here: everything is only later.
 * A driven call's own thread watches it, a timer in the epoll all others. */
#include <errno.h>
#include <sys/timerfd.h>

#include "grpc_inside.h"

enum {
    LOOK_MS = 500,  /* a call has waited for so long: is the member there? */
    DEAD_MS = 1500, /* a PING, and nothing at all came for so long: no */
    CALM_DEAD_MS = 5000, /* ... while no call is under way */
    CALM_MS = 5200       /* more than etcd's --grpc-keepalive-min-time, 5 s */
};

/* ---- The timer ---- */

void grpc_remind(grpc_channel *channel, hf_nsec due)
{
    struct itimerspec spec = {0};

    if (due >= channel->timer_due || due == HF_NEVER)
        return;
    channel->timer_due = due;
    if (due < 1)
        due = 1;
    spec.it_value.tv_sec = due / HF_MS(1000);
    spec.it_value.tv_nsec = due % HF_MS(1000);
    timerfd_settime(channel->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

hf_nsec grpc_next_look(const grpc_call *call, hf_nsec now)
{
    hf_nsec due = now + HF_MS(LOOK_MS);

    return due < call->deadline ? due : call->deadline;
}

/* ---- Does it live? ---- */

static bool may_ping(const grpc_conn *conn, hf_nsec now)
{
    return !conn->h2.ping_out && (conn->pinged == 0 || conn->h2.answered ||
                                  now - conn->pinged >= HF_MS(CALM_MS));
}

void grpc_conn_look(grpc_conn *conn, grpc_asker asker)
{
    grpc_channel *channel = conn->channel;
    hf_nsec now = hfd_now(), last, patience;
    bool dead = false, ping = false;

    grpc_lock(channel);
    last = conn->heard > conn->pinged ? conn->heard : conn->pinged;
    conn->calm = asker == ASKER_NONE && (conn->calm || !conn->h2.ping_out);
    patience = HF_MS(conn->calm ? CALM_DEAD_MS : DEAD_MS);
    if (conn->broken) {
        ping = false;
    } else if (conn->h2.ping_out) {
        dead = now - last >= patience;
        grpc_remind(channel, last + patience);
    } else if ((asker == ASKER_LATE || now - conn->heard >= HF_MS(LOOK_MS)) &&
               may_ping(conn, now)) {
        ping = true;
        conn->pinged = now;
        grpc_h2_ping(&conn->h2);
        grpc_remind(channel, now + patience);
    }
    grpc_unlock(channel);
    if (ping)
        grpc_conn_flush(conn);
    if (dead)
        grpc_conn_cut(conn, HF_EUNAVAIL, ETIMEDOUT,
                      "the member does not answer any more");
}

void grpc_look(grpc_channel *channel)
{
    grpc_conn *conn = grpc_current(channel);

    if (!conn)
        return;
    grpc_conn_look(conn, ASKER_NONE);
    grpc_conn_drop(conn);
}

/* ---- Giving up ---- */

static void land_late(grpc_conn *conn, grpc_call *call)
{
    grpc_answer answer = {.outcome = HF_UNKNOWN,
                          .code = GRPC_DEADLINE_EXCEEDED};

    hfd_error(&answer.why, HF_EUNAVAIL, "etcd", ETIMEDOUT,
              "%s: no answer within %lld ms", conn->where,
              (long long)((hfd_now() - call->sent) / HF_MS(1)));
    grpc_call_land(call, &answer, NULL);
}

bool grpc_give_up(grpc_conn *conn, grpc_call *call)
{
    grpc_flight *flight;

    grpc_conn_look(conn, ASKER_LATE);
    grpc_lock(conn->channel);
    flight = grpc_conn_find(conn, call);
    if (flight)
        grpc_h2_forget(flight);
    grpc_unlock(conn->channel);
    if (!flight)
        return false;
    grpc_conn_flush(conn);
    land_late(conn, call);
    return true;
}

/* ---- What no thread watches ---- */

/* Calls in the line whose time is over; with mu held. */
static grpc_calls take_late_line(grpc_channel *channel, hf_nsec now)
{
    grpc_calls all = channel->line, late = {0};
    grpc_call *call;

    channel->line = (grpc_calls){0};
    while ((call = grpc_calls_take(&all))) {
        if (call->deadline <= now) {
            grpc_calls_add(&late, call);
        } else {
            grpc_calls_add(&channel->line, call);
            grpc_remind(channel, call->deadline);
        }
    }
    return late;
}

/* Calls of a connection whose time is over; with mu held.  *ret_look: one of
 * the others has waited for long; *ret_pinged: an answer is awaited. */
static grpc_calls take_late(grpc_conn *conn, hf_nsec now, bool *ret_look,
                            bool *ret_pinged)
{
    grpc_calls late = {0};
    grpc_flight *next;

    *ret_look = false;
    *ret_pinged = conn->h2.ping_out;
    for (grpc_flight *flight = conn->h2.flights; flight; flight = next) {
        grpc_call *call = flight->call;

        next = flight->next;
        if (!call || call->driven)
            continue;
        if (call->deadline <= now) {
            grpc_h2_forget(flight);
            grpc_calls_add(&late, call);
        } else {
            *ret_look |= now - call->sent >= HF_MS(LOOK_MS);
            grpc_remind(conn->channel, grpc_next_look(call, now));
        }
    }
    return late;
}

static void look_at_conn(grpc_conn *conn, grpc_calls late, bool look,
                         bool pinged)
{
    bool any = late.first != NULL;
    grpc_call *call;

    if (any || look || pinged)
        grpc_conn_look(conn, any    ? ASKER_LATE
                             : look ? ASKER_WAITS
                                    : ASKER_NONE);
    if (any)
        grpc_conn_flush(conn);
    while ((call = grpc_calls_take(&late))) {
        hf__pipe_attend(conn->pipe, -1);
        land_late(conn, call);
        grpc_conn_drop(conn); /* the caller has one more */
    }
}

void grpc_look_for_late(grpc_channel *channel)
{
    hf_nsec now = hfd_now();
    grpc_conn *conn, *next;
    grpc_calls line, late;
    bool look, pinged;

    grpc_lock(channel);
    channel->timer_due = HF_NEVER;
    line = take_late_line(channel, now);
    if (channel->wanted && !channel->current && grpc_dial_summon(channel) != 0)
        grpc_remind(channel, now + HF_MS(LOOK_MS));
    conn = channel->all;
    if (conn)
        conn->refs++;
    while (conn) {
        late = take_late(conn, now, &look, &pinged);
        next = conn->next;
        if (next)
            next->refs++;
        grpc_unlock(channel);
        look_at_conn(conn, late, look, pinged);
        grpc_conn_drop(conn);
        conn = next;
        grpc_lock(channel);
    }
    grpc_unlock(channel);
    grpc_refuse_late(channel, &line);
}
