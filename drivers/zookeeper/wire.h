/* wire.h - one ZooKeeper session at a time, over one connection at a time.
 *
 * A call is up to four requests that go out together, in their order, on one
 * connection; the server answers in order, so that a list sent behind a create
 * shows it.  Replies are matched by xid; what was sent and not answered when
 * the connection breaks is HF_UNKNOWN, what was not sent HF_NOT_APPLIED.
 *
 * The wire keeps the session over broken connections: it dials the members in
 * turn (from a random first one), hands in id and password and the last zxid
 * it has seen, and tells `again` when the same session stands on a new
 * connection: watches are gone then, and the user asks anew.  A server that
 * answers with another id, or none, ends the session: `over`.  It does not
 * begin a new one by itself; ZK_BEGIN does.
 *
 * Pings are the wire's: one when a third of the timeout passed without a
 * request.  They keep the session alive and prove nothing to anybody; what
 * proves that the session lives is ZK_SYNC, which the leader answers.
 *
 * It dials on the thread of a caller that waits anyway (`driven`), else on a
 * thread made for that; the keeper never waits for a name or a handshake. */
#ifndef HF_DRIVERS_ZOOKEEPER_WIRE_H
#define HF_DRIVERS_ZOOKEEPER_WIRE_H

#include <holdfast/driver.h>

#include "net/pipe.h"
#include "record.h"

typedef struct zk_wire zk_wire;
typedef struct zk_call zk_call;

enum { ZK_MOST_REQUESTS = 4 };

struct zk_call {
    zk_call *next; /* the wire's */
    /* What is asked; the caller's memory, and what it points at, untouched
     * until it has landed. */
    zk_request requests[ZK_MOST_REQUESTS];
    unsigned count;
    /* 0: whatever session stands; else only in this one: HF_NOT_APPLIED with
     * HF_EEXPIRED when it is over. */
    int64_t session;
    hf_nsec deadline;
    bool driven; /* zk_wire_drive follows at once */
    /* Each reply in its order, an error reply too (reply->error); on the
     * reader's thread, with no lock held; *reply lives during the call. */
    void (*answered)(zk_call *call, unsigned i, const zk_reply *reply);
    /* Once, after the last `answered`; the call may be gone when it returns, or
     * be started again from in here.  HF_APPLIED: all were answered; else *why.
     * A driven one lives until zk_wire_drive has returned. */
    void (*landed)(zk_call *call, hf_outcome outcome, const hf_error *why);
    hf_nsec sent; /* by the wire: just before the first byte went out */
    /* by the wire: when it is answered, the leader knows of us as of this
     * instant or a later one (see wire_conn.c) */
    hf_nsec touched;
    /* the wire's; zero before the first start, then untouched: */
    unsigned answers;
    int32_t xid; /* of the next reply */
    uint8_t state;
    struct zk_conn *conn;
    hf__waiter waiter;
};

typedef struct zk_settings {
    const hf__address *addresses; /* copied, with their strings */
    size_t address_count;
    hf__tls *tls;      /* the caller's, alive until close; NULL: plain */
    const char *auth;  /* "user:password" for digest; NULL: none */
    hf_nsec dial_time; /* for one connection with its handshake */
    hf_nsec tick;      /* of the servers; at least one ping in each */
} zk_settings;

typedef struct zk_listener {
    void *ctx;
    /* All with no lock held, on any thread. */
    /* A watch fired (zk_event of record.h); path as the server knows it. */
    void (*event)(void *ctx, int32_t type, const char *path, size_t len);
    /* The same session stands on a new connection; watches are gone. */
    void (*again)(void *ctx, int64_t session);
    /* The connection broke while a session stood: doubt. */
    void (*doubt)(void *ctx, int code, const char *text);
    /* The session is over: expired, refused, or another id was given. */
    void (*over)(void *ctx, int64_t session, const char *text);
} zk_listener;

/* Reaches a member (connects, and closes again unless it can be used for the
 * first ZK_BEGIN), so that a wrong address is told at once. */
int zk_wire_open(zk_wire **ret, const zk_settings *settings,
                 const zk_listener *listener, hf_error *err);
void zk_wire_close(zk_wire *wire); /* no calls are under way */
void zk_wire_abandon(zk_wire *wire);

/* The call is under way; `landed` may be called before this returns.  Two
 * kinds of request stand alone in a call and are the wire's own:
 * ZK_BEGIN: a new session with request.version as its timeout in ms (a session
 *   that stands is given up without a word); the reply has session and timeout
 *   as negotiated, and `sent` is the instant from which it counts.
 * ZK_CLOSE: closeSession; the server deletes its ephemeral nodes at once. */
void zk_wire_start(zk_wire *wire, zk_call *call);
/* Work on this thread until it has landed, at its deadline at the latest. */
void zk_wire_drive(zk_wire *wire, zk_call *call);
int zk_wire_fd(zk_wire *wire);
void zk_wire_dispatch(zk_wire *wire);

/* Give this session up at that instant unless a later one is told before: its
 * user does not believe in it any more then, and pings that go on would keep
 * others waiting for what nobody holds.  Told as `over`. */
void zk_wire_keep(zk_wire *wire, int64_t session, hf_nsec until);

/* The session that stands (0: none) with its negotiated timeout, the member
 * that it is connected to, and what the last handshakes found. */
typedef struct zk_standing {
    int64_t session;
    int32_t timeout_ms;
    bool connected;
    bool read_only; /* the member has lost its quorum */
    char member[80];
} zk_standing;
void zk_wire_standing(zk_wire *wire, zk_standing *ret);

/* Sleep until w is woken (by zk_wire_wake, from any thread, with any locks
 * held) or the instant; meanwhile this thread may be the one who reads.  When
 * nobody does, the epoll's owner reads: an event is never left lying. */
void zk_wire_park(zk_wire *wire, hf__waiter *w, hf_nsec until);
void zk_wire_wake(zk_wire *wire, hf__waiter *w);

/* A ping, unless the connection was used a moment ago: what the member has not
 * told yet comes then. */
void zk_wire_nudge(zk_wire *wire);

/* One four-letter word (srvr, conf, mntr) to member i over a connection of its
 * own, as text into buf; for the doctor.  HF_ENOTSUP: not in its whitelist. */
int zk_wire_word(zk_wire *wire, size_t i, const char *word, char *buf,
                 size_t room, hf_nsec deadline, hf_error *err);

/* What an error of a reply means to a caller: a code of holdfast.h with a text
 * that names the cure. */
int zk_error_of(int32_t error, const char *path, hf_error *ret);

#endif
