/* wire_inside.h - what the files of the wire share.
 *
 * wire.c has the calls, wire_conn.c one connection, wire_late.c what is not
 * answered in time, wire_session.c the session and its end, wire_dial.c who
 * dials, wire_hello.c the handshake with a member, wire_tick.c timers and
 * pings, wire_park.c threads that sleep, wire_open.c the whole.
 *
 * Locks: `mu` guards everything but what is said otherwise; it is a leaf, but
 * is taken inside hf__pipe_begin .. end, so no function of a pipe is called
 * with it held.  `park_mu` guards the parked threads alone; hf__pipe_wake is
 * called with it held, and `mu` is not taken then.  No user's function is
 * called with either. */
#ifndef HF_DRIVERS_ZOOKEEPER_WIRE_INSIDE_H
#define HF_DRIVERS_ZOOKEEPER_WIRE_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "wire.h"

enum { ZK_WHERE = 80, ZK_CASUAL_MS = 6000 };
/* A member of an ensemble now and then does not go on until something more
 * comes in (3.8.0, a request in some ten thousand on a busy machine, replies
 * and events alike): after so long without a word it is sent a ping. */
#define ZK_NUDGE HF_MS(200)

enum zk_call_state {
    CALL_NEW = 0,
    CALL_LACKS,   /* driven, and no connection: drive dials */
    CALL_LINE,    /* waits for a connection that somebody else opens */
    CALL_SENT,    /* in the line of its connection */
    CALL_LANDING, /* `landed` runs */
    CALL_AGAIN,   /* and has started it again: drive sends it */
    CALL_DONE
};

typedef struct zk_calls { /* a line, first in first out */
    zk_call *first, *last;
} zk_calls;

/* Alive while somebody has a reference: the wire whose connection it is, every
 * call that is under way on it, and everybody who is inside its pipe. */
typedef struct zk_conn {
    struct zk_conn *next; /* of all */
    zk_wire *wire;
    hf__pipe *pipe;
    unsigned refs;
    int64_t session;
    atomic_bool broken; /* set under mu; read under park_mu, too */
    bool late;          /* a call is, and whoever saw that cuts */
    hf_nsec used;       /* when something was sent last */
    hf_nsec heard;      /* when something came last */
    hf_nsec pinged;     /* the oldest ping that may be without answer; 0 */
    /* What the member has answered, and when: see find_touch in wire_conn.c. */
    struct {
        hf_nsec sent, heard;
    } touches[16];
    unsigned touch_count;
    hf_nsec began;  /* when its handshake was sent */
    unsigned pings; /* without an answer, the first of them sent then: */
    hf_nsec first_ping;
    int32_t xid;   /* the last one; by who has begun a sending */
    zk_calls sent; /* who expects answers, in order */
    /* Whose number was the last to go out, and the last to be answered; what
     * is between them and nobody's in `sent` was given up. */
    int32_t given, turn;
    hf_nsec quiet;   /* since when nothing was answered that was asked */
    zk_call *taking; /* its reply is being read: it is the reader's */
    bool read_only;
    size_t which; /* the member */
    char where[ZK_WHERE];
} zk_conn;

typedef struct zk_backoff {
    unsigned failures;
    hf_nsec until; /* no new attempt before */
} zk_backoff;

struct zk_wire {
    pthread_mutex_t mu;
    zk_listener listener;
    int epoll_fd, timer_fd;
    hf_nsec timer_due; /* HF_NEVER: not set */
    zk_conn *all;
    atomic_bool closing; /* set under mu */

    /* what to connect to; never changed */
    hf__address *addresses;
    size_t address_count;
    hf__tls *tls;
    char *auth;
    hf_nsec dial_time, tick;

    /* the session */
    int64_t session;    /* 0: none stands */
    bool casual;        /* begun by the wire itself; nothing is told of it */
    int64_t parting;    /* a session that its user has asked to end */
    hf_nsec keep_until; /* HF_NEVER: as long as it stands */
    int32_t timeout_ms;
    char password[16];
    int64_t zxid;    /* the last one seen in this session */
    atomic_uint gen; /* counts sessions that began or ended; set under mu */
    zk_conn *conn;   /* where it stands; NULL: nowhere now */
    zk_calls line;   /* calls that nobody drives and that wait */
    hf__link *ready; /* the first connection, before it has a session */
    hf_nsec ready_since;

    /* dialling */
    size_t which; /* the member to try first */
    bool dialing;
    zk_backoff backoff;
    hf_error failure; /* why the last attempt failed */
    atomic_uint turn; /* a futex: counts attempts that ended */
    pthread_t dialer;
    bool dialer_runs, dialer_joinable;
    atomic_uint bell; /* a futex: ends its sleep */

    pthread_mutex_t park_mu;
    struct zk_parker *parkers;
};

static inline void zk_lock(zk_wire *wire)
{
    pthread_mutex_lock(&wire->mu);
}
static inline void zk_unlock(zk_wire *wire)
{
    pthread_mutex_unlock(&wire->mu);
}

/* ---- wire.c ---- */

/* The call has its end, on this thread; pipe: where its thread waits, NULL:
 * nobody waits or this is that thread. */
void zk_call_land(zk_call *call, hf_outcome outcome, const hf_error *why,
                  hf__pipe *pipe);
void zk_call_refuse(zk_call *call, const hf_error *why);
void zk_call_refuse_late(zk_wire *wire, zk_call *call);
/* Something changed: who waits in the line goes on.  why (may be NULL): an
 * attempt failed, and whoever has no session that stands hears it. */
void zk_wire_move_line(zk_wire *wire, const hf_error *why);
void zk_calls_add(zk_calls *calls, zk_call *call);
zk_call *zk_calls_take(zk_calls *calls); /* NULL: none */
/* The first ZK_BEGIN in the line, taken out of it; NULL: none.  With mu held.
 */
zk_call *zk_line_take_begin(zk_wire *wire);
/* Does anybody in the line need a session to be begun?  With mu held. */
bool zk_line_wants_session(const zk_wire *wire);

/* A ping is due after so long without a request. */
static inline hf_nsec zk_ping_every(const zk_wire *wire)
{
    hf_nsec third = HF_MS(wire->timeout_ms) / 3;

    return !wire->casual && wire->tick > 0 && wire->tick < third ? wire->tick
                                                                 : third;
}

/* ---- wire_conn.c ---- */

/* Takes the link; one reference, the caller's. */
int zk_conn_new(zk_conn **ret, zk_wire *wire, hf__link *link, hf_error *err);
void zk_conn_drop(zk_conn *conn);         /* mu is not held */
bool zk_conn_usable(const zk_conn *conn); /* with mu held */
typedef enum zk_sending {
    SENDING_DONE,
    SENDING_BROKEN, /* not a byte went out */
    SENDING_NO_MEMORY
} zk_sending;
/* Of a call that is not driven nothing may be touched any more when it is
 * done. */
zk_sending zk_conn_send(zk_conn *conn, zk_call *call);
void zk_conn_ping(zk_conn *conn);
/* The same, unless something went out or came in a moment ago. */
void zk_conn_nudge(zk_conn *conn);

/* ---- wire_late.c ---- */

typedef enum zk_lateness {
    LATE_ALONE,  /* taken out of the line: zk_conn_land_late */
    LATE_SILENT, /* nothing comes: zk_conn_cut_late */
    LATE_BUSY    /* it is about to hear more, or the end: later */
} zk_lateness;
#define ZK_LATE_AGAIN HF_MS(10) /* so much later */
/* Of a call that was sent, and not answered by its deadline; with mu held. */
zk_lateness zk_conn_judge_late(zk_conn *conn, zk_call *call, hf_nsec now);
void zk_conn_land_late(zk_conn *conn, zk_call *call);
/* since: when the call was sent that is late. */
void zk_conn_cut_late(zk_conn *conn, hf_nsec since);

/* ---- wire_session.c ---- */

/* The session ends here, if it stands: by a server's word (text; told), or
 * without a word (NULL). */
void zk_session_end(zk_wire *wire, int64_t session, const char *text);
/* A connection on which the session stands; takes the reference.  With mu
 * held, which is unlocked. */
void zk_session_stands(zk_wire *wire, zk_conn *conn, bool again);
void zk_expired(int64_t session, hf_error *ret);

/* ---- wire_hello.c ---- */

typedef struct zk_hello {
    zk_connect ask;
    hf_nsec deadline; /* of this member */
    zk_connected got;
    hf_nsec sent;
    hf__link *link;
    char where[ZK_WHERE];
} zk_hello;
/* Connect to the member and shake hands; link: a connection that stands
 * already and is taken (NULL: none).  0: h->got says what it answered. */
int zk_hello_say(zk_wire *wire, size_t which, hf__link *link, zk_hello *h,
                 hf_error *err);

/* ---- wire_dial.c ---- */

/* An attempt on this thread, while nobody else is at it: for this ZK_BEGIN
 * (which lands), else for the session that stands, else for a casual one.
 * With mu held, which is unlocked. */
int zk_dial_attempt(zk_wire *wire, zk_call *begin, hf_nsec deadline,
                    hf_error *err);
hf_nsec zk_dial_limit(const zk_wire *wire); /* of a whole attempt, from now */
/* See to it that the dialer thread does what is to be done; with mu held.  If
 * there is none and none can be made, the timer tries again. */
void zk_dial_summon(zk_wire *wire);
void zk_dial_stop(zk_wire *wire); /* joins it */
/* Must somebody dial who is no caller?  With mu held. */
bool zk_dial_wanted(const zk_wire *wire);

/* ---- wire_tick.c ---- */

/* A timer; with mu held. */
void zk_wire_remind(zk_wire *wire, hf_nsec due);

/* ---- wire_park.c ---- */

/* Who sleeps in this connection's pipe (NULL: without one) looks again. */
void zk_stir_parkers(zk_wire *wire, const zk_conn *conn);
/* Sleep while *word is `seen`, a quarter of a second at most. */
void zk_futex_sleep(atomic_uint *word, unsigned seen, hf_nsec until);
void zk_futex_ring(atomic_uint *word);

#endif
