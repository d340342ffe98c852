/* wire_push.c - channels, their connection, and threads that sleep.
 *
 * Answers: how does a waiter hear, and what if the connection goes?  One
 * connection carries all channels.  A sleeping thread of a caller reads it when
 * nobody else does, so a push needs no other thread to wake it; without one the
 * epoll's owner reads.  Knows nothing of what comes on it (wire_hear.c).
 *
 * The table of channels and the commands about them change together, between
 * hf__pipe_begin and end, so the server sees SUBSCRIBE and UNSUBSCRIBE in the
 * table's order.  A line of the connection has what was asked on it and not
 * answered: a refusal names no channel, but comes in its turn like any answer.
 * All stands when no SUBSCRIBE is in that line: a late answer to an earlier one
 * of a channel does not count.
 *
 * Message lost (the connection broke, or did not stand yet): `listening` is
 * told once everything asked for stands again, and the core looks.  Paused in
 * the middle of a message: others sleep on until their instants and look by
 * themselves.  A push decides nothing; it says that a look is worth while.
 *
 * A parked thread has two waiters: the caller's, which says that it is meant,
 * and one for the pipe it sleeps in, which also ends when that pipe breaks.
 * Both change under park_mu, so a waiter that is woken still exists. */
#include <errno.h>
#include <string.h>

#include "wire_inside.h"

/* On the stack of a parked thread. */
typedef struct redis_parker {
    hf__waiter inner; /* first: the caller's waiter points to it */
    atomic_uint bell; /* a futex, while there is no connection */
    redis_conn *conn; /* whose pipe it sleeps in; NULL: on the bell */
    struct redis_parker *prev, *next;
} redis_parker;

/* ---- The table; with mu held ---- */

bool redis_push_used(const redis_wire *wire)
{
    const redis_channel *at = wire->channels;

    while (at && at->refs == 0)
        at = at->next;
    return at != NULL;
}

bool redis_push_wanted(const redis_wire *wire)
{
    return !wire->push && !wire->closing && redis_push_used(wire);
}

static redis_channel *find_channel(redis_wire *wire, const char *name,
                                   size_t len, bool pattern)
{
    redis_channel *at = wire->channels;

    while (at && (at->pattern != pattern || at->len != len ||
                  memcmp(at->name, name, len) != 0))
        at = at->next;
    return at;
}

static redis_channel *add_channel(redis_wire *wire, const char *name,
                                  size_t len, bool pattern)
{
    redis_channel *channel = hfd_alloc(sizeof *channel + len + 1);

    if (!channel)
        return NULL;
    channel->pattern = pattern;
    channel->len = len;
    memcpy(channel->name, name, len);
    channel->next = wire->channels;
    wire->channels = channel;
    return channel;
}

void redis_push_sweep(redis_wire *wire)
{
    redis_channel **at = &wire->channels;

    while (*at) {
        redis_channel *channel = *at;

        if (channel->refs == 0 && channel->owed == 0 && !channel->stands) {
            *at = channel->next;
            hfd_free(channel);
        } else {
            at = &channel->next;
        }
    }
}

/* conn: which is of no use any more, or not yet; NULL: none. */
static void forget_answers(redis_wire *wire, redis_conn *conn)
{
    for (redis_channel *at = wire->channels; at; at = at->next) {
        at->owed = 0;
        at->stands = false;
    }
    if (conn) {
        hf__buf_eat(&conn->asked, hf__buf_len(&conn->asked));
        conn->unconfirmed = 0;
    }
    redis_push_sweep(wire);
}

void redis_push_free(redis_wire *wire)
{
    for (redis_channel *at = wire->channels; at; at = at->next)
        at->refs = 0;
    forget_answers(wire, NULL);
}

/* ---- Commands ---- */

/* (P|S)SUBSCRIBE or its contrary, or PING. */
static void write_command(hf__buf *out, bool sharded, redis_asking kind,
                          const redis_channel *channel)
{
    static const char *const words[2][3] = {
        {"UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"},
        {"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"}};

    resp_command(out, channel ? 2 : 1);
    if (!channel) {
        resp_text(out, "PING");
        return;
    }
    resp_text(out, words[kind != ASKED_UNSUBSCRIBE][channel->pattern ? 1
                                                    : sharded        ? 2
                                                                     : 0]);
    resp_word(out, channel->name, channel->len);
}

bool redis_push_ask(redis_conn *conn, hf__buf *out, redis_asking kind,
                    redis_channel *channel)
{
    redis_asked asked = {kind, channel};
    size_t before = hf__buf_len(out), line = hf__buf_len(&conn->asked);

    write_command(out, conn->wire->sharded, kind, channel);
    hf__buf_add(&conn->asked, &asked, sizeof asked);
    if (out->failed || conn->asked.failed) {
        redis_take_back(out, before);
        redis_take_back(&conn->asked, line);
        return false;
    }
    if (channel)
        channel->owed++;
    if (kind == ASKED_SUBSCRIBE) {
        conn->unconfirmed++;
        redis_push_prove_later(conn);
    }
    return true;
}

/* The connection, with a reference, and its sending side begun; NULL: none.
 * With mu held or not afterwards as before: not. */
static redis_conn *begin_push(redis_wire *wire, hf__buf **ret)
{
    redis_conn *conn;

    *ret = NULL;
    redis_lock(wire);
    conn = wire->push;
    if (conn)
        conn->refs++;
    redis_unlock(wire);
    if (conn)
        *ret = hf__pipe_begin(conn->pipe);
    return conn;
}

static void end_push(redis_conn *conn, hf__buf *out)
{
    if (out)
        hf__pipe_end(conn->pipe);
    if (conn)
        redis_conn_drop(conn);
}

static bool is_standing(const redis_wire *wire, const redis_conn *conn,
                        const hf__buf *out)
{
    return out && wire->push == conn && !conn->broken;
}

int redis_wire_listen(redis_wire *wire, const char *channel, size_t len,
                      bool pattern)
{
    hf__buf *out;
    redis_conn *conn = begin_push(wire, &out);
    redis_channel *at;
    int code = 0;

    redis_lock(wire);
    at = find_channel(wire, channel, len, pattern);
    if (!at)
        at = add_channel(wire, channel, len, pattern);
    if (!at) {
        code = HF_ENOMEM;
    } else if (at->refs++ == 0 && is_standing(wire, conn, out) &&
               !redis_push_ask(conn, out, ASKED_SUBSCRIBE, at)) {
        at->refs--;
        redis_push_sweep(wire);
        code = HF_ENOMEM;
    }
    if (code == 0 && redis_push_wanted(wire) && redis_dial_summon(wire) != 0)
        redis_wire_remind(wire, hfd_now() + HF_MS(500));
    redis_unlock(wire);
    end_push(conn, out);
    return code;
}

void redis_wire_unlisten(redis_wire *wire, const char *channel, size_t len,
                         bool pattern)
{
    hf__buf *out;
    redis_conn *conn = begin_push(wire, &out);
    redis_channel *at;

    redis_lock(wire);
    at = find_channel(wire, channel, len, pattern);
    if (at && at->refs > 0 && --at->refs == 0) {
        /* Without memory it stays subscribed until the next connection; what
         * comes then is told and means nothing to anybody. */
        if (is_standing(wire, conn, out))
            redis_push_ask(conn, out, ASKED_UNSUBSCRIBE, at);
        redis_push_sweep(wire);
    }
    redis_unlock(wire);
    end_push(conn, out);
}

/* ---- The connection comes and goes ---- */

/* Who sleeps in this connection's pipe (NULL: on his bell) looks again. */
static void stir_parkers(redis_wire *wire, const redis_conn *conn)
{
    pthread_mutex_lock(&wire->park_mu);
    for (redis_parker *p = wire->parkers; p; p = p->next) {
        if (p->conn != conn)
            continue;
        if (conn)
            hf__pipe_wake(conn->pipe, &p->inner);
        else
            redis_futex_ring(&p->bell);
    }
    pthread_mutex_unlock(&wire->park_mu);
}

void redis_push_stands(redis_wire *wire, redis_conn *conn)
{
    hf__buf *out;
    bool stands = false;

    hf__pipe_attend(conn->pipe, 1);
    out = hf__pipe_begin(conn->pipe);
    redis_lock(wire);
    if (out && !conn->broken) {
        size_t before = hf__buf_len(out);

        forget_answers(wire, conn);
        stands = true;
        for (redis_channel *at = wire->channels; at && stands; at = at->next)
            stands = redis_push_ask(conn, out, ASKED_SUBSCRIBE, at);
        if (stands) {
            /* From here on it may break and be dropped by others. */
            conn->refs++;
            wire->push = conn;
        } else {
            redis_take_back(out, before);
            forget_answers(wire, conn);
        }
    }
    if (!stands)
        redis_backoff_more(&wire->push_backoff);
    redis_unlock(wire);
    if (out)
        hf__pipe_end(conn->pipe);
    redis_conn_drop(conn);
    if (stands)
        stir_parkers(wire, NULL);
}

void redis_push_broken(redis_conn *conn, const hf_error *why)
{
    redis_wire *wire = conn->wire;
    bool mine;

    redis_lock(wire);
    mine = wire->push == conn;
    if (mine) {
        wire->push = NULL;
        forget_answers(wire, conn);
        redis_backoff_more(&wire->push_backoff);
        if (redis_push_wanted(wire) && redis_dial_summon(wire) != 0)
            redis_wire_remind(wire, hfd_now() + HF_MS(500));
    }
    redis_unlock(wire);
    if (!mine)
        return;
    stir_parkers(wire, conn);
    hfd_log(HF_LOG_WARN, "redis: pushes: %s", why->text);
    wire->listener.doubt(wire->listener.ctx, HF_EUNAVAIL, why->text);
    /* Whoever called us is inside the pipe and has a reference of his own. */
    redis_conn_drop(conn);
}

/* ---- Parked threads ---- */

/* Takes his place among the parked; false: he was woken already. */
static bool go_to_bed(redis_wire *wire, redis_parker *p, hf__waiter *w,
                      redis_conn *conn)
{
    bool goes;

    pthread_mutex_lock(&wire->park_mu);
    goes = !hf__waiter_woken(w);
    if (goes) {
        /* One that broke has stirred its sleepers before or will do so after
         * this, but then it finds us. */
        p->conn = conn && !conn->broken ? conn : NULL;
        w->next = &p->inner;
        p->next = wire->parkers;
        if (p->next)
            p->next->prev = p;
        wire->parkers = p;
    }
    pthread_mutex_unlock(&wire->park_mu);
    return goes;
}

static void get_up(redis_wire *wire, redis_parker *p, hf__waiter *w)
{
    pthread_mutex_lock(&wire->park_mu);
    w->next = NULL;
    if (p->next)
        p->next->prev = p->prev;
    if (p->prev)
        p->prev->next = p->next;
    else
        wire->parkers = p->next;
    pthread_mutex_unlock(&wire->park_mu);
}

void redis_wire_park(redis_wire *wire, hf__waiter *w, hf_nsec until)
{
    while (!hf__waiter_woken(w) && hfd_now() < until) {
        redis_parker p = {0};
        redis_conn *conn;

        redis_lock(wire);
        conn = wire->push;
        if (conn)
            conn->refs++;
        redis_unlock(wire);
        if (go_to_bed(wire, &p, w, conn)) {
            if (p.conn)
                hf__pipe_wait(p.conn->pipe, &p.inner, until);
            else
                redis_futex_sleep(&p.bell, 0, until);
            get_up(wire, &p, w);
        }
        if (conn)
            redis_conn_drop(conn);
    }
}

void redis_wire_wake(redis_wire *wire, hf__waiter *w)
{
    redis_parker *p;

    pthread_mutex_lock(&wire->park_mu);
    p = (redis_parker *)(void *)w->next;
    if (!(atomic_fetch_or(&w->word, 1) & 1) && p) {
        if (p->conn)
            hf__pipe_wake(p->conn->pipe, &p->inner);
        else
            redis_futex_ring(&p->bell);
    }
    pthread_mutex_unlock(&wire->park_mu);
}
