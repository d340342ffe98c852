/* grpc_stream.c - streams, and threads that sleep until one of them tells.
 *
 * Answers: how does a message reach its stream, how does a stream end, and who
 * reads meanwhile?  A sleeping thread of a caller reads the connection when
 * nobody else does, so a message needs no other thread to wake it; without one
 * the epoll's owner reads, while somebody attends, and from each sending on a
 * stream to the next message of it (a keep-alive is answered).  Knows nothing
 * of what the messages mean.
 *
 * Messages and the end are told by one thread at a time, in order.  After `end`
 * has returned nothing of the stream is touched: who is telling it is waited
 * for, unless it is the same thread.  So `end` must not be called with a lock
 * held that the stream's functions take.
 *
 * Message lost (the connection broke): `ended` says so, and the user looks.
 * Paused in the middle of a message: others sleep until their instants.
 *
 * A parked thread has two waiters: the caller's, which says that it is meant,
 * and one for the pipe it sleeps in, which also ends when that pipe breaks.
 * Both change under park_mu, so a waiter that is woken still exists. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "grpc_inside.h"

/* On the stack of a parked thread. */
typedef struct grpc_parker {
    hf__waiter inner; /* first: the caller's waiter points to it */
    atomic_uint bell; /* a futex, while there is no connection */
    grpc_conn *conn;  /* whose pipe it sleeps in; NULL: on the bell */
    struct grpc_parker *prev, *next;
} grpc_parker;

static grpc_conn *conn_of(const grpc_flight *flight)
{
    return (grpc_conn *)(void *)((char *)flight->h2 - offsetof(grpc_conn, h2));
}

static int no_connection(hf_error *err)
{
    return hfd_error(err, HF_EUNAVAIL, "etcd", ENOTCONN,
                     "no connection to a member stands");
}

/* ---- Opening and sending ---- */

int grpc_stream_open(grpc_channel *channel, grpc_stream *stream, hf_error *err)
{
    grpc_conn *conn = grpc_current(channel);
    hf__buf *out = conn ? hf__pipe_begin(conn->pipe) : NULL;
    grpc_flight *flight = NULL;
    int code = 0;

    if (!out)
        code = no_connection(err);
    if (out) {
        grpc_lock(channel);
        stream->inside = NULL;
        if (conn->broken || conn->retired || !grpc_h2_takes_more(&conn->h2)) {
            code = no_connection(err);
        } else {
            flight = grpc_h2_begin(&conn->h2, NULL, stream, conn->token,
                                   conn->leader);
            if (!flight)
                code = hfd_error(err, HF_ENOMEM, "etcd", ENOMEM,
                                 "no memory for a stream");
            else if (!grpc_h2_flush(&conn->h2, out))
                out->failed = true; /* it ends with its connection */
            stream->inside = flight;
        }
        grpc_unlock(channel);
        hf__pipe_end(conn->pipe);
    }
    if (conn)
        grpc_conn_drop(conn);
    return code;
}

/* The connection of a stream that is open, with a reference. */
static grpc_conn *conn_of_stream(grpc_channel *channel, grpc_stream *stream)
{
    grpc_flight *flight;
    grpc_conn *conn = NULL;

    grpc_lock(channel);
    flight = stream->inside;
    if (flight) {
        conn = conn_of(flight);
        conn->refs++;
    }
    grpc_unlock(channel);
    return conn;
}

/* With mu held and the sending begun; *ret_attend: the epoll's owner is to
 * read until it is answered. */
static int add_message(grpc_conn *conn, grpc_stream *stream, const void *bytes,
                       size_t len, hf__buf *out, bool *ret_attend,
                       hf_error *err)
{
    grpc_flight *flight = stream->inside;

    if (!flight || flight->closed || conn_of(flight) != conn)
        return no_connection(err);
    if (!grpc_h2_add(flight, bytes, len))
        return hfd_error(err, HF_ENOMEM, "etcd", ENOMEM,
                         "no memory for a message");
    if (!grpc_h2_flush(&conn->h2, out))
        out->failed = true;
    *ret_attend = !flight->attended;
    flight->attended = true;
    return 0;
}

int grpc_stream_send(grpc_channel *channel, grpc_stream *stream,
                     const void *bytes, size_t len, hf_nsec *ret_sent,
                     hf_error *err)
{
    grpc_conn *conn = conn_of_stream(channel, stream);
    hf__buf *out = conn ? hf__pipe_begin(conn->pipe) : NULL;
    hf_nsec now = hfd_now();
    bool attend = false;
    int code;

    if (!out) {
        code = no_connection(err);
    } else {
        grpc_lock(channel);
        conn->used = now;
        code = add_message(conn, stream, bytes, len, out, &attend, err);
        grpc_unlock(channel);
        hf__pipe_end(conn->pipe);
    }
    if (attend)
        hf__pipe_attend(conn->pipe, 1);
    if (conn)
        grpc_conn_drop(conn);
    if (ret_sent)
        *ret_sent = now;
    return code;
}

/* ---- Telling ---- */

/* Everything whole that came moves to `telling`, which is the teller's alone;
 * with mu held.  False: it is not gRPC's, or there is no memory. */
static bool take_messages(grpc_flight *flight)
{
    hf__buf *in = &flight->in;
    size_t whole = 0;
    int found = 0;

    while (whole < hf__buf_len(in)) {
        const char *bytes = in->data + in->start + whole, *message;
        size_t len;

        found =
            grpc_first_message(bytes, hf__buf_len(in) - whole, &message, &len);
        if (found != 1)
            break;
        whole += GRPC_PREFIX + len;
    }
    if (whole > 0) {
        hf__buf_add(&flight->telling, in->data + in->start, whole);
        hf__buf_eat(in, whole);
    }
    return found >= 0 && !flight->telling.failed;
}

/* With mu held, as afterwards, but not while a message is told.  The stream may
 * be ended by the function that is told, and is touched no more then. */
static void tell_messages(grpc_conn *conn, grpc_flight *flight)
{
    grpc_stream *stream = flight->stream;
    hf__buf *telling = &flight->telling;
    const char *message;
    size_t len;

    while (flight->stream == stream && hf__buf_len(telling) > 0 &&
           grpc_first_message(telling->data + telling->start,
                              hf__buf_len(telling), &message, &len) == 1) {
        grpc_unlock(conn->channel);
        stream->message(stream, message, len);
        grpc_lock(conn->channel);
        hf__buf_eat(telling, GRPC_PREFIX + len);
    }
    hf__buf_eat(telling, hf__buf_len(telling));
}

/* With mu held, as afterwards: he whose function ran is not waited for any
 * more. */
static void end_telling(grpc_conn *conn)
{
    conn->telling = NULL;
    pthread_cond_broadcast(&conn->channel->told);
}

static void tell_end(grpc_conn *conn, grpc_flight *flight)
{
    grpc_channel *channel = conn->channel;
    grpc_stream *stream = flight->stream;
    grpc_answer answer;

    flight->stream = NULL;
    stream->inside = NULL; /* it may be opened again from `ended` */
    conn->telling = stream;
    grpc_unlock(channel);
    grpc_judge_stream(flight, conn->where, &answer);
    if (flight->reset == GRPC_BROKEN && conn->why.code != 0) {
        answer.code = GRPC_UNAVAILABLE;
        answer.why = conn->why;
    }
    stream->ended(stream, answer.code, &answer.why);
    if (channel->user[0] && grpc_is_stale_token(answer.code, flight->message))
        grpc_auth_begin(conn);
    grpc_lock(channel);
    end_telling(conn);
}

void grpc_stream_tell(grpc_conn *conn, grpc_flight *flight)
{
    grpc_channel *channel = conn->channel;
    bool well = take_messages(flight), attended = false;

    if (hf__buf_len(&flight->telling) > 0 || flight->closed) {
        attended = flight->attended;
        flight->attended = false;
    }
    if (hf__buf_len(&flight->telling) > 0 && well) {
        conn->telling = flight->stream;
        tell_messages(conn, flight);
        end_telling(conn);
    }
    if (flight->stream && flight->closed)
        tell_end(conn, flight);
    grpc_unlock(channel);
    if (attended)
        hf__pipe_attend(conn->pipe, -1);
    if (!well)
        grpc_conn_cut(conn, HF_EPROTO, 0, "a message that is not gRPC's");
    grpc_lock(channel);
}

/* ---- Ending ---- */

/* Somebody else runs a function of the stream; with mu held. */
static bool is_told(const grpc_channel *channel, const grpc_stream *stream)
{
    for (const grpc_conn *at = channel->all; at; at = at->next) {
        if (at->telling == stream && !pthread_equal(at->teller, pthread_self()))
            return true;
    }
    return false;
}

void grpc_stream_end(grpc_channel *channel, grpc_stream *stream)
{
    grpc_conn *conn = conn_of_stream(channel, stream);
    grpc_flight *flight;
    bool attended = false;

    grpc_lock(channel);
    flight = stream->inside;
    if (flight && conn && conn_of(flight) == conn) {
        attended = flight->attended;
        flight->attended = false;
        stream->inside = NULL;
        grpc_h2_forget(flight);
    }
    while (is_told(channel, stream))
        pthread_cond_wait(&channel->told, &channel->mu);
    grpc_unlock(channel);
    if (!conn)
        return;
    if (attended)
        hf__pipe_attend(conn->pipe, -1);
    grpc_conn_flush(conn);
    grpc_conn_drop(conn);
}

/* ---- Parked threads ---- */

void grpc_stir(grpc_channel *channel, const grpc_conn *conn)
{
    pthread_mutex_lock(&channel->park_mu);
    for (grpc_parker *p = channel->parkers; p; p = p->next) {
        if (p->conn != conn)
            continue;
        if (conn)
            hf__pipe_wake(conn->pipe, &p->inner);
        else
            grpc_futex_ring(&p->bell);
    }
    pthread_mutex_unlock(&channel->park_mu);
}

/* Takes his place among the parked; false: he was woken already. */
static bool go_to_bed(grpc_channel *channel, grpc_parker *p, hf__waiter *w,
                      grpc_conn *conn)
{
    bool goes;

    pthread_mutex_lock(&channel->park_mu);
    goes = !hf__waiter_woken(w);
    if (goes) {
        /* One that broke has stirred its sleepers before or will do so after
         * this, but then it finds us. */
        p->conn = conn && !conn->broken ? conn : NULL;
        w->next = &p->inner;
        p->next = channel->parkers;
        if (p->next)
            p->next->prev = p;
        channel->parkers = p;
    }
    pthread_mutex_unlock(&channel->park_mu);
    return goes;
}

static void get_up(grpc_channel *channel, grpc_parker *p, hf__waiter *w)
{
    pthread_mutex_lock(&channel->park_mu);
    w->next = NULL;
    if (p->next)
        p->next->prev = p->prev;
    if (p->prev)
        p->prev->next = p->next;
    else
        channel->parkers = p->next;
    pthread_mutex_unlock(&channel->park_mu);
}

void grpc_park(grpc_channel *channel, hf__waiter *w, hf_nsec until)
{
    while (!hf__waiter_woken(w) && hfd_now() < until) {
        grpc_parker p = {0};
        grpc_conn *conn = grpc_current(channel);

        if (go_to_bed(channel, &p, w, conn)) {
            if (p.conn)
                hf__pipe_wait(p.conn->pipe, &p.inner, until);
            else
                grpc_futex_sleep(&p.bell, 0, until);
            get_up(channel, &p, w);
        }
        if (conn)
            grpc_conn_drop(conn);
    }
}

void grpc_wake(grpc_channel *channel, hf__waiter *w)
{
    grpc_parker *p;

    pthread_mutex_lock(&channel->park_mu);
    p = (grpc_parker *)(void *)w->next;
    if (!(atomic_fetch_or(&w->word, 1) & 1) && p) {
        if (p->conn)
            hf__pipe_wake(p->conn->pipe, &p->inner);
        else
            grpc_futex_ring(&p->bell);
    }
    pthread_mutex_unlock(&channel->park_mu);
}

void grpc_attend(grpc_channel *channel, int by)
{
    grpc_conn *conn;

    grpc_lock(channel);
    channel->attention += by;
    conn = channel->current;
    if (conn)
        conn->refs++;
    grpc_unlock(channel);
    if (conn) {
        hf__pipe_attend(conn->pipe, by);
        grpc_conn_drop(conn);
    }
}
