/* grpc_auth.c - the token that a user and a password are good for.
 *
 * Answers: how does a call show who sends it, and what if that is not known any
 * more?  Authenticate is asked once when a connection is opened, and the token
 * goes with every call.  etcd forgets tokens: after five minutes without use,
 * when a member is restarted, when users or roles change.  Then it refuses the
 * call without executing it; the call is held, a new token is asked for, once
 * for all that wait, and they go out again.  A stream keeps the token that it
 * was opened with; whose was refused is told when there is another.  Knows
 * nothing of what they mean.
 *
 * Safety.  A refused call was not executed, so it may go out again; three
 * times at most, and its own deadline goes on.  If there is no token, all that
 * were held hear why, NOT APPLIED.  The password is written into the request
 * and nowhere else; the request is wiped when it is answered. */
#include <stddef.h>
#include <string.h>

#include "grpc_inside.h"
#include "pb.h"

enum { PATIENCE_MS = 500 };

static void wipe_request(grpc_conn *conn)
{
    hf__buf *request = &conn->auth_request;

    if (request->data)
        explicit_bzero(request->data, request->room);
    hf__buf_done(request);
}

/* The token of an AuthenticateResponse; NULL: none, or no memory. */
static char *read_token(const void *reply, size_t len)
{
    pb_reader reader = pb_read(reply, len);
    pb_field field;
    char *token = NULL;

    while (pb_next(&reader, &field)) {
        if (field.number != 2 || field.len == 0 || token)
            continue;
        token = hfd_alloc(field.len + 1);
        if (!token)
            return NULL;
        memcpy(token, field.bytes, field.len);
    }
    if (token && (reader.bad || strlen(token) == 0)) {
        hfd_free(token);
        token = NULL;
    }
    return token;
}

static bool send_held(grpc_conn *conn, grpc_flight *flight)
{
    grpc_call *call = flight->call;

    call->sent = hfd_now();
    if (!grpc_h2_again(flight, conn->token, conn->leader))
        return false;
    flight->token_turn = conn->token_turn;
    if (!call->driven)
        grpc_remind(conn->channel, grpc_next_look(call, call->sent));
    return true;
}

/* Those that were held go out again, or hear why not; with mu held. */
static void release_held(grpc_conn *conn, bool well)
{
    for (grpc_flight *at = conn->h2.flights; at; at = at->next) {
        if (!at->held)
            continue;
        at->held = false;
        if (!well || !at->call || !send_held(conn, at)) {
            at->refused = true;
            grpc_h2_tell(at);
        }
    }
}

static void auth_landed(grpc_call *call, hf_outcome outcome, grpc_code code,
                        const void *reply, size_t len, const hf_error *why)
{
    grpc_conn *conn =
        (grpc_conn *)(void *)((char *)call - offsetof(grpc_conn, auth));
    grpc_channel *channel = conn->channel;
    char *token = NULL, *old = NULL;
    hf_error error = {0};
    bool tell;

    (void)code;
    if (why)
        error = *why;
    else if (outcome == HF_APPLIED)
        token = read_token(reply, len);
    if (!why && !token)
        hfd_error(&error, HF_EPROTO, "etcd", 0,
                  "%s: the login was answered without a token", conn->where);
    grpc_lock(channel);
    wipe_request(conn);
    conn->authing = false;
    conn->auth_error = error;
    if (token) {
        old = conn->token;
        conn->token = token;
        conn->token_turn++;
    }
    release_held(conn, token != NULL);
    /* Of the first token the dialer tells, when the connection stands. */
    tell = token && conn == channel->current && !channel->closing;
    grpc_unlock(channel);
    if (old)
        explicit_bzero(old, strlen(old));
    hfd_free(old);
    grpc_conn_flush(conn);
    hf__pipe_wake(conn->pipe, &conn->hello);
    if (tell)
        channel->listener.standing(channel->listener.ctx);
}

bool grpc_auth_begin(grpc_conn *conn)
{
    grpc_channel *channel = conn->channel;
    grpc_call *call = &conn->auth;
    grpc_sending end;
    bool busy;

    grpc_lock(channel);
    busy = conn->authing;
    conn->authing = true;
    if (!busy)
        conn->refs += 2; /* the call's and ours */
    grpc_unlock(channel);
    if (busy)
        return true;
    memset(call, 0, sizeof *call);
    pb_bytes(&conn->auth_request, 1, channel->user, strlen(channel->user));
    pb_bytes(&conn->auth_request, 2, channel->password,
             strlen(channel->password));
    call->method = "/etcdserverpb.Auth/Authenticate";
    call->request = conn->auth_request.data;
    call->request_len = hf__buf_len(&conn->auth_request);
    call->deadline = hfd_now() + channel->dial_time;
    call->landed = auth_landed;
    hf__pipe_attend(conn->pipe, 1);
    end = conn->auth_request.failed ? SENDING_NO_MEMORY
                                    : grpc_conn_send(conn, call);
    if (end != SENDING_DONE) {
        hf_error why = {0};

        hf__pipe_attend(conn->pipe, -1);
        hfd_error(&why, HF_EUNAVAIL, "etcd", 0, "%s: the login was not sent",
                  conn->where);
        auth_landed(call, HF_NOT_APPLIED, GRPC_UNAVAILABLE, NULL, 0, &why);
        grpc_conn_drop(conn);
    }
    grpc_conn_drop(conn);
    return end == SENDING_DONE;
}

void grpc_auth_hold(grpc_conn *conn, grpc_flight *flight, grpc_call *call)
{
    grpc_channel *channel = conn->channel;
    bool newer;

    grpc_lock(channel);
    flight->call = call;
    flight->held = true;
    newer = flight->token_turn != conn->token_turn;
    if (newer)
        release_held(conn, true);
    grpc_unlock(channel);
    if (newer)
        grpc_conn_flush(conn);
    else
        grpc_auth_begin(conn);
}

bool grpc_login_after(grpc_channel *channel, const char *words)
{
    grpc_conn *conn;
    bool begun = false;

    if (!channel->user[0] || !grpc_is_stale_token(GRPC_OK, words))
        return false;
    conn = grpc_current(channel);
    if (conn) {
        begun = grpc_auth_begin(conn);
        grpc_conn_drop(conn);
    }
    return begun;
}

static bool is_closing(grpc_channel *channel)
{
    bool closing;

    grpc_lock(channel);
    closing = channel->closing;
    grpc_unlock(channel);
    return closing;
}

/* A login is a hash that is slow on purpose and a commit: when a cluster comes
 * back and everybody logs in at once it takes seconds, and whoever gives up
 * early only adds to it.  So it has long; that the member is there at all is
 * asked of it meanwhile. */
static bool await_login(grpc_conn *conn, hf_nsec deadline)
{
    for (;;) {
        hf_nsec now = hfd_now(), until = now + HF_MS(PATIENCE_MS);

        if (now >= deadline || is_closing(conn->channel))
            return false;
        if (until > deadline)
            until = deadline;
        if (hf__pipe_wait(conn->pipe, &conn->hello, until))
            return true;
        grpc_conn_look(conn, ASKER_WAITS);
    }
}

int grpc_auth_first(grpc_conn *conn, hf_nsec deadline, hf_error *err)
{
    grpc_channel *channel = conn->channel;
    hf_error why = {0};
    bool well;

    if (!grpc_auth_begin(conn) || !await_login(conn, deadline))
        hfd_error(&why, HF_EUNAVAIL, "etcd", 0,
                  "%s: the login was not answered in time", conn->where);
    grpc_lock(channel);
    well = conn->token[0] != '\0';
    if (!well && conn->auth_error.code != 0)
        why = conn->auth_error;
    grpc_unlock(channel);
    if (!well && err)
        *err = why;
    return well ? 0 : why.code;
}
