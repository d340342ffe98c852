/* grpc_inside.h - what the files of the channel share.
 *
 * grpc_h2.c and grpc_flight.c have the frames of one connection, grpc_status.c
 * how a call ended, grpc_conn.c the connection, grpc.c the calls, grpc_late.c
 * the clock, grpc_auth.c the token, grpc_stream.c streams and parked threads,
 * grpc_dial.c how a connection comes to stand.
 *
 * Locks: `mu` guards everything but what is said otherwise, nghttp2's session
 * too; it is a leaf, but is taken inside hf__pipe_begin .. end, so no function
 * of a pipe is called with it held.  `park_mu` guards the parked threads alone;
 * hf__pipe_wake is called with it held, and `mu` is not taken then.  No user's
 * function is called with either. */
#ifndef HF_DRIVERS_ETCD_GRPC_INSIDE_H
#define HF_DRIVERS_ETCD_GRPC_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include <nghttp2/nghttp2.h>

#include "grpc.h"

enum {
    GRPC_WHERE = 80,
    GRPC_MESSAGE = 200,      /* of a grpc-message as many bytes are kept */
    GRPC_PREFIX = 5,         /* in front of each message: flag and length */
    GRPC_LONGEST = 64 << 20, /* a message; longer ones are refused */
    GRPC_BROKEN = -1 /* `reset` of a stream that ended with its connection */
};

enum grpc_call_state {
    CALL_NEW = 0,
    CALL_LACKS,   /* driven, and no connection: drive dials */
    CALL_LINE,    /* waits for a connection that somebody else opens */
    CALL_SENT,    /* under way on its connection */
    CALL_LANDING, /* `landed` runs */
    CALL_AGAIN,   /* to be sent once more, by drive */
    CALL_DONE
};

typedef struct grpc_calls { /* a line, first in first out */
    grpc_call *first, *last;
} grpc_calls;

/* ---- The frames: grpc_flight.c, grpc_h2.c; all of it with mu held ---- */

typedef struct grpc_h2 grpc_h2;
typedef struct grpc_conn grpc_conn;

/* One stream of HTTP/2, from the request to the delivery of its end. */
typedef struct grpc_flight {
    struct grpc_flight *prev, *next; /* of all under way, or of the spare */
    struct grpc_flight *next_news;
    grpc_h2 *h2;
    grpc_call *call;     /* whose it is: one of the two; neither: it is */
    grpc_stream *stream; /* forgotten, and what comes for it is dropped */
    int32_t id;          /* 0: not or no longer known to nghttp2 */
    unsigned token_turn; /* with which token it went out */
    bool news;           /* in the line of those to be looked at */
    bool busy;           /* being delivered; who does recycles it */
    bool closed;         /* nothing comes any more */
    bool unsent;         /* nghttp2 never sent it */
    bool held;           /* refused for its token; goes out with the next */
    bool refused;        /* there is no next: it hears auth_error */
    bool attended;       /* the epoll's owner reads for it */
    bool grpc;           /* its content-type is gRPC's */
    bool too_long, no_memory;
    int64_t reset;   /* when closed: RST_STREAM's code, or GRPC_BROKEN */
    int http;        /* 0: not said */
    int code;        /* grpc-status; -1: not said */
    size_t sent;     /* of prefix and request */
    hf__buf in;      /* came, and is not delivered */
    hf__buf telling; /* a stream's messages that are; the deliverer's */
    hf__buf out;     /* a stream's: not sent yet */
    char message[GRPC_MESSAGE + 1]; /* grpc-message, decoded */
} grpc_flight;

struct grpc_h2 {
    nghttp2_session *session;
    grpc_flight *flights;
    grpc_flight *spare;
    grpc_flight *news, **news_end;
    char authority[GRPC_WHERE];
    bool tls;
    bool greeted;  /* its SETTINGS came */
    bool goaway;   /* it takes no more requests */
    bool answered; /* headers or data came since the last PING */
    bool ping_out; /* ours, not answered yet */
    unsigned owed; /* after so many requests a PING is answered; 0: none is */
    char bad[80];  /* what was wrong with a frame; "": nothing */
};

/* Between the two files. */
extern const uint8_t grpc_measuring[8]; /* grpc-go's measuring PING */
void grpc_h2_callbacks(nghttp2_session_callbacks *calls);
grpc_flight *grpc_h2_new_flight(grpc_h2 *h2); /* NULL: no memory */
void grpc_h2_clear(grpc_flight *flight);
ssize_t grpc_on_read(nghttp2_session *session, int32_t id, uint8_t *buf,
                     size_t room, uint32_t *flags, nghttp2_data_source *source,
                     void *user);

/* HF_ENOMEM. */
int grpc_h2_init(grpc_h2 *h2, const char *authority, bool tls);
void grpc_h2_done(grpc_h2 *h2);
bool grpc_h2_takes_more(grpc_h2 *h2);
/* Begin a call, or a stream (call NULL).  token "": none; leader: to be refused
 * by a member that has none.  NULL: no memory, or it takes no more. */
grpc_flight *grpc_h2_begin(grpc_h2 *h2, grpc_call *call, grpc_stream *stream,
                           const char *token, bool leader);
/* The bytes of a stream's next message; false: no memory. */
bool grpc_h2_add(grpc_flight *flight, const void *bytes, size_t len);
/* Nobody wants it any more: it is reset, nothing of its user is touched. */
void grpc_h2_forget(grpc_flight *flight);
/* What the server sent.  -1: this is not the protocol, or memory; and *err. */
int grpc_h2_feed(grpc_h2 *h2, const void *bytes, size_t len, hf_error *err);
/* Is there something that should not wait for the next request? */
bool grpc_h2_wants(grpc_h2 *h2);
/* What is to be sent, into *out; false: no memory, or nghttp2 gave up. */
bool grpc_h2_flush(grpc_h2 *h2, hf__buf *out);
void grpc_h2_ping(grpc_h2 *h2);
/* To be looked at by whoever delivers. */
void grpc_h2_tell(grpc_flight *flight);
grpc_flight *grpc_h2_take_news(grpc_h2 *h2);
/* It is over and delivered: for the next one. */
void grpc_h2_recycle(grpc_flight *flight);
/* It goes out once more, under another number. */
bool grpc_h2_again(grpc_flight *flight, const char *token, bool leader);
/* The connection broke: all that is under way is closed and told. */
void grpc_h2_break(grpc_h2 *h2);

/* ---- How it ended: grpc_status.c; pure ---- */

typedef enum grpc_end {
    GRPC_END_ANSWER, /* what it says */
    GRPC_END_AGAIN,  /* the server says that it did not begin with it */
    GRPC_END_TOKEN   /* refused for its token */
} grpc_end;

typedef struct grpc_answer {
    hf_outcome outcome;
    grpc_code code;
    const void *reply;
    size_t len;
    hf_error why;
    bool cut; /* the connection is of no use any more */
} grpc_answer;

/* A call's flight that is closed. */
grpc_end grpc_judge(const grpc_flight *flight, const char *where,
                    grpc_answer *ret);
/* A stream's flight that is closed. */
void grpc_judge_stream(const grpc_flight *flight, const char *where,
                       grpc_answer *ret);
/* The first whole message in `bytes`: 1 and where it is; 0: none yet; -1: it
 * is not one. */
int grpc_first_message(const char *bytes, size_t len, const char **ret,
                       size_t *ret_len);
/* %41 is A; what is not plain text becomes a '?'. */
void grpc_decode_text(char *to, size_t room, const char *text, size_t len);
bool grpc_is_stale_token(grpc_code code, const char *message);

/* ---- One connection: grpc_conn.c ---- */

/* Alive while somebody has a reference: the channel whose current one it is,
 * every call that is under way on it, and everybody who is inside its pipe. */
struct grpc_conn {
    struct grpc_conn *next; /* of all */
    grpc_channel *channel;
    hf__pipe *pipe;
    grpc_h2 h2;
    size_t which; /* the member */
    unsigned refs;
    bool leader;          /* its calls want a member that has one */
    atomic_bool broken;   /* set under mu; read under park_mu, too */
    bool retired;         /* not for new calls */
    bool greeted;         /* its first word came, and was told */
    bool delivering;      /* somebody does; he looks again before he ends */
    pthread_t teller;     /* he */
    grpc_stream *telling; /* the stream whose function he runs */
    hf_error why;         /* why it broke */
    hf_nsec used, heard;  /* when something was sent and received last */
    hf_nsec pinged;       /* when the last PING went out; 0: none did */
    bool calm;            /* nobody waits for its answer */
    hf__waiter hello;     /* who waits for its first word */
    /* the token */
    char *token; /* "": none */
    unsigned token_turn;
    bool authing;
    hf_error auth_error; /* of the last attempt */
    grpc_call auth;
    hf__buf auth_request;
    char where[GRPC_WHERE]; /* the address, for messages */
};

typedef struct grpc_backoff {
    unsigned failures;
    hf_nsec until; /* no new attempt before */
} grpc_backoff;

struct grpc_channel {
    pthread_mutex_t mu;
    pthread_cond_t told; /* a stream's function has returned */
    grpc_listener listener;
    int epoll_fd, timer_fd;
    hf_nsec timer_due; /* HF_NEVER: not set */
    grpc_conn *all;
    bool closing;

    /* what to connect to; never changed */
    hf__address *addresses;
    size_t address_count;
    hf__tls *tls;
    char *user, *password;
    hf_nsec dial_time;

    grpc_conn *current; /* takes new calls; NULL: none stands */
    unsigned stood;     /* how many did */
    grpc_calls line;
    size_t which;     /* the member to try first */
    bool dialing;     /* somebody does */
    bool wanted;      /* streams were lost: a connection without any call */
    unsigned waiting; /* threads that the dialer thread dials for */
    int attention;    /* grpc_attend's sum */
    grpc_backoff backoff;
    hf_error failure; /* why the last attempt failed */
    atomic_uint turn; /* a futex: counts attempts that ended */

    /* the dialer thread */
    pthread_t dialer;
    bool dialer_runs, dialer_joinable;
    atomic_uint bell; /* a futex: ends its sleep */

    pthread_mutex_t park_mu;
    struct grpc_parker *parkers;
};

static inline void grpc_lock(grpc_channel *channel)
{
    pthread_mutex_lock(&channel->mu);
}
static inline void grpc_unlock(grpc_channel *channel)
{
    pthread_mutex_unlock(&channel->mu);
}

/* Takes the link; one reference, the caller's. */
int grpc_conn_new(grpc_conn **ret, grpc_channel *channel, hf__link *link,
                  size_t which, hf_error *err);
void grpc_conn_drop(grpc_conn *conn); /* mu is not held */
/* The current one with a reference; NULL: none stands. */
grpc_conn *grpc_current(grpc_channel *channel);

typedef enum grpc_sending {
    SENDING_DONE,
    SENDING_BROKEN, /* not a byte went out: on another connection */
    SENDING_NO_MEMORY
} grpc_sending;
/* The call goes out; the pipe's attention counts it already.  Of a call that is
 * not driven nothing may be touched any more when it is done. */
grpc_sending grpc_conn_send(grpc_conn *conn, grpc_call *call);
/* Send what nghttp2 has to send, and deliver what came of it. */
void grpc_conn_flush(grpc_conn *conn);
/* Land and tell what there is, unless somebody is at it. */
void grpc_conn_deliver(grpc_conn *conn);
/* No new calls on it, and its streams end; those that are under way go on, and
 * it goes with the last of them.  With mu held.  true: it was the current one,
 * and that reference is the caller's now. */
bool grpc_conn_retire(grpc_conn *conn);
void grpc_conn_cut(grpc_conn *conn, int code, int native, const char *text);
/* Finds the flight of a call that has not been taken for its landing; with mu
 * held. */
grpc_flight *grpc_conn_find(grpc_conn *conn, const grpc_call *call);

/* ---- grpc.c ---- */

/* One driven call on this connection and no other, until it has landed. */
void grpc_call_on(grpc_conn *conn, grpc_call *call);
/* Once more, from the beginning, on whichever connection stands. */
void grpc_start_again(grpc_channel *channel, grpc_call *call);
/* The call has its answer, on this thread; pipe: where its thread waits, NULL:
 * nobody waits or this is that thread. */
void grpc_call_land(grpc_call *call, const grpc_answer *answer, hf__pipe *pipe);
/* A connection came to stand, or did not (why): the line goes on. */
void grpc_move_line(grpc_channel *channel, const hf_error *why);
void grpc_refuse_late(grpc_channel *channel, grpc_calls *calls);
void grpc_calls_add(grpc_calls *calls, grpc_call *call);
grpc_call *grpc_calls_take(grpc_calls *calls); /* NULL: none */

/* ---- grpc_late.c ---- */

/* When a call is looked at next, at `now`. */
hf_nsec grpc_next_look(const grpc_call *call, hf_nsec now);
/* The timer, for what no thread watches; with mu held. */
void grpc_remind(grpc_channel *channel, hf_nsec due);
/* Does the member still live?  Who asks: nobody in particular, one whose call
 * is under way, one whose call was not answered in time. */
typedef enum grpc_asker { ASKER_NONE, ASKER_WAITS, ASKER_LATE } grpc_asker;
void grpc_conn_look(grpc_conn *conn, grpc_asker asker);
/* The thread of a driven call whose time is over: true: it is reset and landed;
 * false: somebody else lands it right now. */
bool grpc_give_up(grpc_conn *conn, grpc_call *call);
void grpc_look_for_late(grpc_channel *channel);

/* ---- grpc_auth.c ---- */

/* Ask for a token, unless that is under way; `landed` gives it to the held
 * ones.  mu is not held.  False: it could not be sent. */
bool grpc_auth_begin(grpc_conn *conn);
/* Refused for its token: with a newer one it goes out again at once, else it is
 * held until there is one.  mu is not held. */
void grpc_auth_hold(grpc_conn *conn, grpc_flight *flight, grpc_call *call);
/* On a connection that no one else has yet, until the deadline. */
int grpc_auth_first(grpc_conn *conn, hf_nsec deadline, hf_error *err);

/* ---- grpc_dial.c ---- */

/* Connect to member i and greet it on this thread, without mu. */
int grpc_dial_member(grpc_conn **ret, grpc_channel *channel, size_t i,
                     hf_nsec deadline, hf_error *err);
/* Open a connection to whichever member answers, while nobody else does.  With
 * mu held, which is unlocked.  first: of grpc_open, nobody is told. */
int grpc_dial(grpc_channel *channel, hf_nsec deadline, bool first,
              hf_error *err);
/* See to it that the dialer thread does what is to be done; with mu held.
 * HF_ENOMEM: there is none, and none can be made. */
int grpc_dial_summon(grpc_channel *channel);
void grpc_dial_stop(grpc_channel *channel); /* joins it */
void grpc_backoff_more(grpc_backoff *backoff);
/* Sleep while *word is `seen`, a quarter of a second at most. */
void grpc_futex_sleep(atomic_uint *word, unsigned seen, hf_nsec until);
void grpc_futex_ring(atomic_uint *word);

/* ---- grpc_stream.c ---- */

/* Who sleeps in this connection's pipe (NULL: on his bell) looks again. */
void grpc_stir(grpc_channel *channel, const grpc_conn *conn);
/* The whole messages that came for a stream, then its end if it is closed;
 * the caller delivers. */
void grpc_stream_tell(grpc_conn *conn, grpc_flight *flight);

#endif
