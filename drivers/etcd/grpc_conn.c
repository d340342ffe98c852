/* grpc_conn.c - one connection: what goes out, what came, and its end.
 *
 * Answers: whose answer is this, and what becomes of the calls and streams when
 * there will be none?  The bytes go through a pipe, nghttp2 under `mu` cuts
 * them; both sides of a sending happen between hf__pipe_begin and end, so that
 * frames go out in the order in which nghttp2 made them.  Knows nothing of who
 * picks a connection (grpc.c) or opens it (grpc_dial.c).
 *
 * Whatever is new for a call or a stream stands in nghttp2's line of news, and
 * one thread at a time delivers it, without a lock: mostly the one that read;
 * one that finds another at it leaves it to him.  So a stream's messages and
 * its end are told in order.
 *
 * Safety.  A call that was handed to nghttp2 may have been executed, so when
 * the connection ends it is UNKNOWN; one that found the connection broken was
 * not, and not a byte of it went out.  `sent` is read before the bytes are
 * made, so a thread that is paused here has an old instant and a short lease,
 * never a long one.  An answer is taken once: under `mu`, either by who
 * delivers it or by the thread whose time is over. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "grpc_inside.h"

/* ---- Lifetime ---- */

static ssize_t conn_received(void *ctx, const char *bytes, size_t len,
                             hf_error *err);
static void conn_broken(void *ctx, const hf_error *why);

static void free_conn(grpc_conn *conn)
{
    if (conn->h2.session)
        grpc_h2_done(&conn->h2);
    if (conn->token)
        explicit_bzero(conn->token, strlen(conn->token));
    hfd_free(conn->token);
    hf__buf_done(&conn->auth_request);
    hfd_free(conn);
}

int grpc_conn_new(grpc_conn **ret, grpc_channel *channel, hf__link *link,
                  size_t which, hf_error *err)
{
    const hf__address *address = &channel->addresses[which];
    grpc_conn *conn = hfd_alloc(sizeof *conn);
    hf__pipe_user user = {conn, conn_received, conn_broken};
    int code = HF_ENOMEM;

    if (conn) {
        conn->channel = channel;
        conn->which = which;
        conn->refs = 1;
        conn->leader = true;
        snprintf(conn->where, sizeof conn->where,
                 strchr(address->host, ':') ? "[%s]:%u" : "%s:%u",
                 address->host, (unsigned)address->port);
        conn->token = hfd_alloc(1);
        if (conn->token)
            code = grpc_h2_init(&conn->h2, conn->where, channel->tls != NULL);
    }
    if (code == 0)
        code = hf__pipe_new(&conn->pipe, link, &user, true, channel->epoll_fd,
                            conn, err);
    else
        hfd_error(err, HF_ENOMEM, "etcd", ENOMEM, "no memory for a connection");
    if (code != 0) {
        hf__link_close(link, false);
        if (conn)
            free_conn(conn);
        return code;
    }
    grpc_lock(channel);
    conn->next = channel->all;
    channel->all = conn;
    conn->used = conn->heard = hfd_now();
    grpc_unlock(channel);
    *ret = conn;
    return 0;
}

void grpc_conn_drop(grpc_conn *conn)
{
    grpc_channel *channel = conn->channel;
    grpc_conn **at = &channel->all;
    bool last;

    grpc_lock(channel);
    last = --conn->refs == 0;
    while (last && *at != conn)
        at = &(*at)->next;
    if (last)
        *at = conn->next;
    grpc_unlock(channel);
    if (last) {
        /* A broken one is closed with a RST, so that nothing that is still
         * under way is executed later. */
        hf__pipe_free(conn->pipe, conn->broken);
        free_conn(conn);
    }
}

grpc_conn *grpc_current(grpc_channel *channel)
{
    grpc_conn *conn;

    grpc_lock(channel);
    conn = channel->current;
    if (conn)
        conn->refs++;
    grpc_unlock(channel);
    return conn;
}

void grpc_conn_cut(grpc_conn *conn, int code, int native, const char *text)
{
    hf_error why = {0};

    hfd_error(&why, code, "etcd", native, "%s: %s", conn->where, text);
    hf__pipe_cut(conn->pipe, &why);
}

/* ---- Sending ---- */

grpc_sending grpc_conn_send(grpc_conn *conn, grpc_call *call)
{
    grpc_channel *channel = conn->channel;
    grpc_sending end = SENDING_BROKEN;
    hf__buf *out = hf__pipe_begin(conn->pipe);
    grpc_flight *flight = NULL;
    bool login = call == &conn->auth, news = false;

    if (!out)
        return SENDING_BROKEN;
    call->sent = hfd_now();
    grpc_lock(channel);
    if (!conn->broken && !conn->retired) {
        /* etcd refuses a login that shows an old token. */
        flight = grpc_h2_begin(&conn->h2, call, NULL, login ? "" : conn->token,
                               conn->leader && !login);
        end = flight                          ? SENDING_DONE
              : grpc_h2_takes_more(&conn->h2) ? SENDING_NO_MEMORY
                                              : SENDING_BROKEN;
    }
    if (flight) {
        flight->token_turn = conn->token_turn;
        conn->used = call->sent;
        if (!call->driven)
            grpc_remind(channel, grpc_next_look(call, call->sent));
        if (!grpc_h2_flush(&conn->h2, out))
            out->failed = true;
        news = conn->h2.news != NULL;
    }
    grpc_unlock(channel);
    hf__pipe_end(conn->pipe);
    if (news)
        grpc_conn_deliver(conn);
    return end;
}

void grpc_conn_flush(grpc_conn *conn)
{
    hf__buf *out = hf__pipe_begin(conn->pipe);
    bool news;

    if (!out)
        return;
    grpc_lock(conn->channel);
    if (!grpc_h2_flush(&conn->h2, out))
        out->failed = true;
    news = conn->h2.news != NULL;
    grpc_unlock(conn->channel);
    hf__pipe_end(conn->pipe);
    if (news)
        grpc_conn_deliver(conn);
}

/* ---- Delivering ---- */

static void land(grpc_conn *conn, grpc_call *call, const grpc_answer *answer)
{
    bool driven = call->driven;

    if (!driven)
        hf__pipe_attend(conn->pipe, -1);
    grpc_call_land(call, answer, conn->pipe);
    if (!driven)
        grpc_conn_drop(conn); /* not the last: we are inside its pipe */
}

/* The server did not begin with it. */
static void send_again(grpc_conn *conn, grpc_call *call)
{
    if (call->driven) {
        call->state = CALL_AGAIN;
        hf__pipe_wake(conn->pipe, &call->waiter);
        return;
    }
    hf__pipe_attend(conn->pipe, -1);
    grpc_start_again(conn->channel, call);
    grpc_conn_drop(conn);
}

/* What is said of a call that ended with its connection, or for want of a
 * token. */
static void explain(const grpc_conn *conn, const grpc_flight *flight,
                    grpc_answer *answer)
{
    if (flight->refused) {
        answer->outcome = HF_NOT_APPLIED;
        if (conn->auth_error.code != 0)
            answer->why = conn->auth_error;
    } else if (flight->reset == GRPC_BROKEN && conn->why.code != 0) {
        answer->code = GRPC_UNAVAILABLE;
        answer->why = conn->why;
    }
}

/* With mu held, as afterwards. */
static void deliver_call(grpc_conn *conn, grpc_flight *flight)
{
    grpc_call *call = flight->call;
    bool knows = conn->channel->user[0] && call != &conn->auth;
    grpc_answer answer;
    grpc_end end;

    flight->call = NULL; /* from here on it is ours to land */
    grpc_unlock(conn->channel);
    end = grpc_judge(flight, conn->where, &answer);
    explain(conn, flight, &answer);
    if (end == GRPC_END_AGAIN && call->tries < 3) {
        call->tries++;
        send_again(conn, call);
    } else if (end == GRPC_END_TOKEN && knows && !flight->refused &&
               call->tries < 3) {
        call->tries++;
        grpc_auth_hold(conn, flight, call);
    } else {
        if (answer.cut)
            grpc_conn_cut(conn, answer.why.code, 0, "an answer makes no sense");
        land(conn, call, &answer);
    }
    grpc_lock(conn->channel);
}

void grpc_conn_deliver(grpc_conn *conn)
{
    grpc_channel *channel = conn->channel;
    grpc_flight *flight;

    grpc_lock(channel);
    if (conn->delivering) {
        grpc_unlock(channel);
        return;
    }
    conn->delivering = true;
    conn->teller = pthread_self();
    while ((flight = grpc_h2_take_news(&conn->h2))) {
        flight->busy = true;
        if (flight->call && flight->closed)
            deliver_call(conn, flight);
        else if (flight->stream)
            grpc_stream_tell(conn, flight);
        flight->busy = false;
        if (!flight->call && !flight->stream && flight->id == 0 &&
            !flight->news)
            grpc_h2_recycle(flight);
    }
    conn->delivering = false;
    grpc_unlock(channel);
}

grpc_flight *grpc_conn_find(grpc_conn *conn, const grpc_call *call)
{
    grpc_flight *flight = conn->h2.flights;

    while (flight && flight->call != call)
        flight = flight->next;
    return flight;
}

/* ---- Receiving ---- */

bool grpc_conn_retire(grpc_conn *conn)
{
    grpc_channel *channel = conn->channel;
    bool current = channel->current == conn;

    conn->retired = true;
    for (grpc_flight *at = conn->h2.flights; at; at = at->next) {
        if (!at->stream || at->closed)
            continue;
        nghttp2_session_set_stream_user_data(conn->h2.session, at->id, NULL);
        at->id = 0;
        at->closed = true;
        at->reset = GRPC_BROKEN;
        grpc_h2_tell(at);
        channel->wanted = true;
    }
    if (current) {
        channel->current = NULL;
        channel->which = conn->which + 1;
        if (channel->wanted && grpc_dial_summon(channel) != 0)
            grpc_remind(channel, hfd_now() + HF_MS(500));
    }
    return current;
}

static ssize_t conn_received(void *ctx, const char *bytes, size_t len,
                             hf_error *err)
{
    grpc_conn *conn = ctx;
    hf_error why = {0};
    bool wants, news, hello = false, current = false;
    int code;

    grpc_lock(conn->channel);
    conn->heard = hfd_now();
    code = grpc_h2_feed(&conn->h2, bytes, len, &why);
    wants = grpc_h2_wants(&conn->h2);
    if (conn->h2.greeted && !conn->greeted)
        hello = conn->greeted = true;
    if (conn->h2.goaway && !conn->retired)
        current = grpc_conn_retire(conn);
    news = conn->h2.news != NULL;
    grpc_unlock(conn->channel);
    if (hello && !conn->channel->user[0])
        hf__pipe_wake(conn->pipe, &conn->hello);
    if (current)
        grpc_stir(conn->channel, conn);
    if (wants)
        grpc_conn_flush(conn);
    if (news)
        grpc_conn_deliver(conn);
    if (current)
        grpc_conn_drop(conn); /* not the last: we are inside its pipe */
    if (code == 0)
        return (ssize_t)len;
    hfd_error(err, why.code, "etcd", why.native, "%s: %s", conn->where,
              why.text);
    return -1;
}

/* ---- The end ---- */

/* Something of the user's is under way; with mu held. */
static bool is_used(const grpc_conn *conn, bool *ret_streams)
{
    bool used = false;

    for (const grpc_flight *at = conn->h2.flights; at; at = at->next) {
        used |= at->stream || (at->call && at->call != &conn->auth);
        *ret_streams |= at->stream != NULL;
    }
    return used;
}

static void conn_broken(void *ctx, const hf_error *why)
{
    grpc_conn *conn = ctx;
    grpc_channel *channel = conn->channel;
    hf_error told = {0};
    bool current, closing, used, streams = false;

    /* What comes from below does not always name the address. */
    hfd_error(&told, why->code ? why->code : HF_EUNAVAIL, "etcd", why->native,
              strstr(why->text, conn->where) ? "%.0s%s" : "%s: %s", conn->where,
              why->text);
    grpc_lock(channel);
    conn->why = told;
    conn->broken = true;
    closing = channel->closing;
    used = is_used(conn, &streams);
    current = channel->current == conn;
    if (current) {
        channel->current = NULL;
        channel->which = conn->which + 1;
        channel->wanted |= streams;
        if (streams && grpc_dial_summon(channel) != 0)
            grpc_remind(channel, hfd_now() + HF_MS(500));
    }
    grpc_h2_break(&conn->h2);
    grpc_unlock(channel);
    hf__pipe_wake(conn->pipe, &conn->hello);
    grpc_stir(channel, conn);
    if (used)
        hfd_log(HF_LOG_WARN, "etcd: %s", told.text);
    grpc_conn_deliver(conn);
    if (used && !closing)
        channel->listener.doubt(channel->listener.ctx, HF_EUNAVAIL, told.text);
    /* Whoever called us is inside the pipe and has a reference of his own. */
    if (current)
        grpc_conn_drop(conn);
}
