/* wire_inside.h - what the files of the wire share.
 *
 * wire.c has the calls, wire_conn.c one connection, wire_dial.c how one comes
 * to stand, wire_push.c channels and parked threads, wire_hear.c what is
 * pushed, wire_again.c calls that came to the wrong server.
 *
 * Locks: `mu` guards everything but what is said otherwise; it is a leaf, but
 * is taken inside hf__pipe_begin .. end, so no function of a pipe is called
 * with it held.  `park_mu` guards the parked threads alone; hf__pipe_wake is
 * called with it held, and `mu` is not taken then.  No user's function is
 * called with either. */
#ifndef HF_DRIVERS_REDIS_WIRE_INSIDE_H
#define HF_DRIVERS_REDIS_WIRE_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "wire.h"

enum { REDIS_CONNS_MAX = 16, REDIS_WHERE = 80 };

enum redis_call_state {
    CALL_NEW = 0,
    CALL_LACKS,   /* driven, and no connection: drive dials */
    CALL_LINE,    /* waits for a connection that somebody else opens */
    CALL_SENT,    /* in the line of its connection */
    CALL_LANDING, /* `landed` runs */
    CALL_AGAIN,   /* and has started it again, or it went astray: drive sends
                     it */
    CALL_DONE
};

typedef struct redis_calls { /* a line, first in first out */
    redis_call *first, *last;
} redis_calls;

/* Alive while somebody has a reference: the slot it stands in, every call that
 * is under way on it, and everybody who is inside its pipe. */
typedef struct redis_conn {
    struct redis_conn *next; /* of all */
    redis_wire *wire;
    hf__pipe *pipe;
    unsigned refs;
    bool push;
    atomic_bool broken;  /* set under mu; read under park_mu, too */
    atomic_bool retired; /* not for new calls; cut when its line is empty */
    bool late;           /* a call is, and whoever saw that cuts */
    bool given_up;       /* another server was found, and whoever did cuts */
    unsigned load;       /* calls that it was chosen for and that have not
                           landed */
    hf_nsec used;        /* when something was sent last */
    redis_calls sent;    /* who expects an answer, in order */
    hf_error astray;     /* why the SELECT of the first was refused; code 0: it
                            was not */
    resp_scan scan;      /* the reader's */
    /* of the one for pushes */
    unsigned standing[2]; /* channels that stand: of a slot [1], all others */
    hf__buf asked;        /* redis_asked without an answer, in order */
    unsigned unconfirmed; /* SUBSCRIBEs among them, without the proofs' */
    bool news;            /* one was granted since `listening` was told */
    hf_nsec proof_sent;   /* 0: no PING is under way */
    unsigned proofs;      /* so many were asked: each channel has its turn */
    hf_nsec proof_due;    /* the next, or the end of its time; 0: none */
    redis_server server;
    unsigned find;           /* the number of the find that named it */
    char where[REDIS_WHERE]; /* the address, for messages */
} redis_conn;

typedef struct redis_channel {
    struct redis_channel *next;
    unsigned refs; /* listens without an unlisten; 0: on its way out */
    unsigned owed; /* commands about it without an answer */
    bool stands;   /* by the answers so far */
    bool pattern;
    size_t len;
    char name[];
} redis_channel;

/* A command on the connection for pushes. */
typedef enum redis_asking {
    ASKED_NOTHING = 0,
    ASKED_SUBSCRIBE,
    ASKED_UNSUBSCRIBE,
    ASKED_PING, /* a proof, */
    ASKED_AGAIN /* and its SUBSCRIBE of what stands already */
} redis_asking;

typedef struct redis_asked {
    redis_asking kind;
    redis_channel *channel; /* NULL: PING */
} redis_asked;

typedef struct redis_backoff {
    unsigned failures;
    hf_nsec until; /* no new attempt before */
} redis_backoff;

struct redis_wire {
    pthread_mutex_t mu;
    redis_listener listener;
    int epoll_fd, timer_fd;
    hf_nsec timer_due; /* HF_NEVER: not set */
    redis_conn *all;
    bool closing;

    /* what to connect to; never changed */
    hf__address *addresses;
    size_t address_count;
    hf__tls *tls;
    char *user, *password, *client_name;
    int database;
    hf_nsec dial_time;
    const redis_finder *finder;
    bool waits;
    bool sharded;

    /* commands */
    redis_conn *slots[REDIS_CONNS_MAX];
    unsigned most;
    redis_calls line;
    redis_calls later; /* astray, and not driven: sent again by the timer */
    unsigned finds;    /* counts dials, in the order of their beginning */
    unsigned settled;  /* the one that `server` is of */
    size_t which;      /* the address that answered last */
    bool dialing;      /* somebody opens a connection for commands */
    bool more;         /* one more is wanted beside those that stand */
    redis_backoff backoff;
    hf_error failure; /* why the last attempt failed */
    atomic_uint turn; /* a futex: counts attempts that ended */
    redis_server server;
    bool known; /* server is filled */
    bool left;  /* it said that it is not the one: it may know less when it is
                   met again */

    /* the dialer thread */
    pthread_t dialer;
    bool dialer_runs, dialer_joinable;
    atomic_uint bell; /* a futex: ends its sleep */

    /* pushes */
    redis_conn *push;
    redis_channel *channels;
    redis_backoff push_backoff;
    pthread_mutex_t park_mu;
    struct redis_parker *parkers;
};

static inline void redis_lock(redis_wire *wire)
{
    pthread_mutex_lock(&wire->mu);
}
static inline void redis_unlock(redis_wire *wire)
{
    pthread_mutex_unlock(&wire->mu);
}

/* ---- wire.c ---- */

/* The call has its answer, on this thread; pipe: where its thread waits, NULL:
 * nobody waits or this is that thread. */
void redis_call_land(redis_call *call, hf_outcome outcome, const resp *reply,
                     const hf_error *why, hf__pipe *pipe);
/* A timer for a call that nobody drives; with mu held. */
void redis_wire_remind(redis_wire *wire, hf_nsec due);
/* A connection came to stand, or did not (why): the line goes on. */
void redis_wire_move_line(redis_wire *wire, const hf_error *why);
/* Send a call that nobody drives, or stand in line for a connection. */
void redis_wire_send(redis_wire *wire, redis_call *call);
void redis_calls_add(redis_calls *calls, redis_call *call);
redis_call *redis_calls_take(redis_calls *calls); /* NULL: none */

/* ---- wire_conn.c ---- */

/* Takes the link; one reference, the caller's.  HF_ENOMEM. */
int redis_conn_new(redis_conn **ret, redis_wire *wire, hf__link *link,
                   bool push, hf_error *err);
void redis_conn_drop(redis_conn *conn); /* mu is not held */
void redis_conn_retire(redis_conn *conn);
/* Stands and takes calls; with mu held. */
bool redis_conn_usable(const redis_conn *conn);

typedef enum redis_sending {
    SENDING_DONE,
    SENDING_BROKEN, /* not a byte went out: on another connection */
    SENDING_NO_MEMORY
} redis_sending;
/* The call goes out; `load` and the pipe's attention count it already.  Of a
 * call that is not driven nothing may be touched any more when it is done. */
redis_sending redis_conn_send(redis_conn *conn, redis_call *call);
/* Undo an addition to *out that was not whole; len: what was in it before. */
void redis_take_back(hf__buf *out, size_t len);

/* ---- wire_dial.c ---- */

/* Connect and shake hands on this thread, without mu.  The connection is in
 * no slot yet and the caller's. */
int redis_dial(redis_conn **ret, redis_wire *wire, bool push, hf_nsec deadline,
               hf_error *err);
/* Open a connection for commands on this thread, while nobody else does.  With
 * mu held, which is unlocked. */
int redis_dial_command(redis_wire *wire, hf_nsec deadline, hf_error *err);
/* See to it that the dialer thread does what is to be done; with mu held.
 * HF_ENOMEM: there is none, and none can be made. */
int redis_dial_summon(redis_wire *wire);
void redis_dial_stop(redis_wire *wire); /* joins it */
/* After a failure: no attempt for a while, longer each time. */
void redis_backoff_more(redis_backoff *backoff);
/* Sleep while *word is `seen`, a quarter of a second at most. */
void redis_futex_sleep(atomic_uint *word, unsigned seen, hf_nsec until);
void redis_futex_ring(atomic_uint *word);

/* Put it into a slot that has no usable one; with mu held.  *ret_old: who was
 * there, to be dropped.  false: no slot. */
bool redis_conn_place(redis_conn *conn, redis_conn **ret_old);
bool redis_any_stands(const redis_wire *wire); /* with mu held */

/* ---- wire_again.c ---- */

/* The reply says that this is not the server: it will go out again, and is not
 * ours any more.  False: it is an answer. */
bool redis_call_stray(redis_conn *conn, redis_call *call, const resp *reply);
void redis_wait_again(const redis_call *call); /* sleep until it may go out */
/* Calls that may go out now; with mu held. */
redis_calls redis_take_again(redis_wire *wire, hf_nsec now);
/* A connection came to stand, and was not used yet: those to another server
 * end.  HF_EUNAVAIL: it is the one that is outdated. */
int redis_conn_settle(redis_conn *conn, hf_error *err);

/* ---- wire_push.c ---- */

bool redis_push_wanted(const redis_wire *wire); /* with mu held */
bool redis_push_used(const redis_wire *wire);   /* the same; somebody listens */
/* Forget what nobody listens to, does not stand, and the server owes no answer
 * about; with mu held. */
void redis_push_sweep(redis_wire *wire);
/* Write a command and note that its answer is owed; false: no memory, and
 * nothing is changed.  With mu held. */
bool redis_push_ask(redis_conn *conn, hf__buf *out, redis_asking kind,
                    redis_channel *channel);
/* It stands: subscribe to everything.  Takes the reference. */
void redis_push_stands(redis_wire *wire, redis_conn *conn);
void redis_push_broken(redis_conn *conn, const hf_error *why);
void redis_push_free(redis_wire *wire);

/* ---- wire_hear.c ---- */

ssize_t redis_push_received(redis_conn *conn, const char *bytes, size_t len,
                            hf_error *err);
/* It is asked now and then, from now on, whether it still listens; with mu
 * held. */
void redis_push_prove_later(redis_conn *conn);
void redis_push_prove(redis_wire *wire, hf_nsec now); /* if it is time */

#endif
