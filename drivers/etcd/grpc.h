/* grpc.h - gRPC calls to an etcd cluster over one HTTP/2 connection at a time.
 *
 * A call is one request and one reply; a stream is open until it is ended or
 * the connection breaks.  Many threads call at once; each call is a stream of
 * HTTP/2, so that replies need no order and one that is late is reset alone,
 * without its connection.  nghttp2 does the framing and is used under one lock.
 *
 * The channel has several members: it dials them in turn, and again when the
 * connection breaks, on the thread of a caller that waits anyway (`driven`),
 * else on a thread made for that.  A call that went out and was not answered
 * is HF_UNKNOWN; nothing is sent twice by the channel, but for a call that the
 * server says it did not process (REFUSED_STREAM, or a GOAWAY below it).
 *
 * With a user and a password it authenticates once per connection and sends
 * the token with every call; when a call is refused because the token is old,
 * it asks for a new one and the call goes out again (it was not executed). */
#ifndef HF_DRIVERS_ETCD_GRPC_H
#define HF_DRIVERS_ETCD_GRPC_H

#include <holdfast/driver.h>

#include "net/pipe.h"

typedef struct grpc_channel grpc_channel;

/* What a call was answered with, by gRPC's numbers; those that matter here. */
typedef enum grpc_code {
    GRPC_OK = 0,
    GRPC_CANCELLED = 1,
    GRPC_UNKNOWN = 2,
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_DEADLINE_EXCEEDED = 4,
    GRPC_NOT_FOUND = 5,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_FAILED_PRECONDITION = 9,
    GRPC_OUT_OF_RANGE = 11,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_UNAVAILABLE = 14,
    GRPC_UNAUTHENTICATED = 16
} grpc_code;

typedef struct grpc_call grpc_call;
struct grpc_call {
    grpc_call *next;     /* the channel's */
    const char *method;  /* "/etcdserverpb.KV/Txn"; a constant */
    const void *request; /* the message; the caller's, until it has landed */
    size_t request_len;
    hf_nsec deadline;
    bool driven; /* grpc_drive follows at once */
    /* Once, on any thread, with no lock held; the call may be gone when it
     * returns, or be started again from in here.  HF_APPLIED: the server
     * answered, with GRPC_OK and the message, or with its refusal and *why
     * (see grpc_error_of: some refusals leave it open whether it was done, and
     * come as HF_UNKNOWN). */
    void (*landed)(grpc_call *call, hf_outcome outcome, grpc_code code,
                   const void *reply, size_t len, const hf_error *why);
    hf_nsec sent; /* by the channel: just before the first byte went out */
    /* the channel's; zero before the first start, then untouched: */
    uint8_t state, tries;
    hf__waiter waiter;
    void *inside;
};

/* A stream of messages both ways; alive until `ended` was called or
 * grpc_stream_end has returned. */
typedef struct grpc_stream grpc_stream;
struct grpc_stream {
    grpc_stream *next; /* the channel's */
    const char *method;
    void *ctx;
    void (*message)(grpc_stream *stream, const void *bytes, size_t len);
    /* It is over, by the server's word or with its connection: open it again
     * when it is still wanted.  Called once per grpc_stream_open. */
    void (*ended)(grpc_stream *stream, grpc_code code, const hf_error *why);
    void *inside; /* the channel's; zero before the first open */
};
/* Both: HF_EUNAVAIL when no connection stands; nothing is dialled for it. */
int grpc_stream_open(grpc_channel *channel, grpc_stream *stream, hf_error *err);
/* The bytes are copied; ret_sent (may be NULL): just before they went out. */
int grpc_stream_send(grpc_channel *channel, grpc_stream *stream,
                     const void *bytes, size_t len, hf_nsec *ret_sent,
                     hf_error *err);
void grpc_stream_end(grpc_channel *channel, grpc_stream *stream);
/* The server refused on a stream what was asked for, in these words.  If they
 * mean that the token is not valid any more another one is asked for, and
 * `standing` is told when it is here; false: they do not, or it cannot be. */
bool grpc_login_after(grpc_channel *channel, const char *words);

typedef struct grpc_settings {
    const hf__address *addresses; /* copied, with their strings */
    size_t address_count;
    hf__tls *tls; /* the caller's, alive until close; NULL: plain */
    const char *user, *password; /* copied; NULL or "": none */
    hf_nsec dial_time;           /* for one connection with its handshake */
} grpc_settings;

typedef struct grpc_listener {
    void *ctx;
    /* With no lock held, on any thread.  A connection stands (again), or has
     * another token: streams are to be opened anew. */
    void (*standing)(void *ctx);
    /* A connection broke that had calls or streams. */
    void (*doubt)(void *ctx, int code, const char *text);
} grpc_listener;

/* Opens the first connection, on this thread, and authenticates. */
int grpc_open(grpc_channel **ret, const grpc_settings *settings,
              const grpc_listener *listener, hf_error *err);
/* From now on nothing is dialled and the listener is told of no connection; who
 * dials is waited for.  Then what the listener needs may go, before close. */
void grpc_stop(grpc_channel *channel);
void grpc_close(grpc_channel *channel); /* no calls or streams are under way */
void grpc_abandon(grpc_channel *channel);

void grpc_start(grpc_channel *channel, grpc_call *call);
void grpc_drive(grpc_channel *channel, grpc_call *call);
int grpc_fd(grpc_channel *channel);
void grpc_dispatch(grpc_channel *channel);
/* Give the connection up and dial another member: this one answers, but has no
 * leader or is too slow. */
void grpc_move(grpc_channel *channel, const char *why);
/* Is the member still there?  If nothing was heard lately it is pinged, and the
 * connection is cut when that is not answered. */
void grpc_look(grpc_channel *channel);
/* "host:port" of the member that it is connected to, or ""; and how many
 * connections stood so far: a number by which the user sees a change.  room 0:
 * the number alone. */
unsigned grpc_member(grpc_channel *channel, char *buf, size_t room);
/* One call to member i over a connection of its own, for the doctor; *ret is
 * hfd_alloc'ed. */
int grpc_ask_member(grpc_channel *channel, size_t i, const char *method,
                    const void *request, size_t len, hf_nsec deadline,
                    void **ret, size_t *ret_len, hf_error *err);

/* Sleep until w is woken (by grpc_wake, from any thread, with any locks held)
 * or the instant; meanwhile this thread may be the one who reads. */
void grpc_park(grpc_channel *channel, hf__waiter *w, hf_nsec until);
void grpc_wake(grpc_channel *channel, hf__waiter *w);
/* So many waits do not park: the keeper must read for them (by is 1 or -1). */
void grpc_attend(grpc_channel *channel, int by);

/* What a refusal means: a code of holdfast.h with a text that names the cure,
 * and whether the server did it (HF_APPLIED: it answered no; HF_UNKNOWN). */
hf_outcome grpc_error_of(grpc_code code, const char *message, hf_error *ret);

#endif
