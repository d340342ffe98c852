/* wire.h - commands to a Redis server over few connections.
 *
 * A call is one command and its one reply.  Callers are pipelined: each call
 * goes out at once on a connection that is open, replies come in order.  A
 * connection is opened when it is first needed: by the thread of a caller that
 * waits anyway (`driven`), else by a thread made for that, so that the keeper
 * never waits for a name server or a handshake.
 *
 * Handshake, pipelined: AUTH (user and) password, SELECT, CLIENT SETNAME,
 * HELLO is not sent (RESP2); then PING (refused while loading), ROLE and INFO
 * server, from which version and run_id are kept.  A replica, a server that is
 * loading, or one in cluster mode is refused with the sentence that the user
 * needs.
 *
 * After a reply that is late or nonsense the connection is closed with a RST:
 * RESP has no numbers by which a late reply could be told from another.  Calls
 * that were sent and not answered are HF_UNKNOWN then, those of which no byte
 * went out are HF_NOT_APPLIED.
 *
 * Pushes have one connection of their own, opened with the first subscription;
 * when it breaks it is dialled again, with back-off, and subscribed anew. */
#ifndef HF_DRIVERS_REDIS_WIRE_H
#define HF_DRIVERS_REDIS_WIRE_H

#include <holdfast/driver.h>

#include "finder.h"
#include "net/pipe.h"

typedef struct redis_wire redis_wire;

typedef struct redis_script {
    const char *name;
    const char *text;
    char sha[41]; /* filled by redis_script_ready */
} redis_script;
void redis_script_ready(redis_script *script); /* once, before any call */

typedef struct redis_call redis_call;
struct redis_call {
    redis_call *next; /* the wire's */
    /* Write the command.  Called when it is sent, perhaps again on another
     * connection before a byte of it went out, and again with `by_text` set
     * when the server did not know the script: use resp_script.  With the
     * connection's lock held: only write. */
    void (*encode)(redis_call *call, hf__buf *out, const redis_server *server);
    /* Called once, on any thread, with no lock held; the call may be gone when
     * it returns, or be started again from in here.  A driven one must live
     * until redis_wire_drive has returned: whoever reads lands it and then
     * wakes its thread, which also sends it if it was started again.
     * HF_APPLIED: *reply, never an error reply; else *why. */
    void (*landed)(redis_call *call, hf_outcome outcome, const resp *reply,
                   const hf_error *why);
    hf_nsec deadline;
    hf_nsec sent;   /* by the wire: just before the first byte went out */
    bool by_text;   /* by the wire: the script's text is wanted */
    bool driven;    /* redis_wire_drive follows at once */
    bool once;      /* lands when it strays (finder.h), is not sent again */
    uint8_t before; /* so many replies come before the one that counts; set by
                       encode, if ever */
    bool waits;     /* one more reply, a number, comes behind it: WAIT's */
    uint8_t acked;  /* by the wire: that number, at most 254; 255: none */
    uint8_t state;  /* the wire's, like all that follows; 0 before the first
                      start, then untouched */
    uint8_t strays; /* so often a server said that it is not the one */
    struct redis_conn *conn;
    hf_nsec again; /* it is not sent before; 0: at once */
    hf__waiter waiter;
};

/* EVALSHA sha or EVAL text, with `keys` keys among the words that follow (the
 * two or three words in front of them are written and counted here). */
void resp_script(hf__buf *out, const redis_call *call,
                 const redis_script *script, unsigned keys, unsigned words);

typedef struct redis_settings {
    const hf__address *addresses; /* copied, with their strings */
    size_t address_count;
    hf__tls *tls; /* the caller's, alive until close; NULL: plain */
    const char *user, *password; /* copied; NULL or "": none */
    int database;
    const char *client_name;    /* copied */
    unsigned most;              /* connections for commands */
    hf_nsec dial_time;          /* for one connection with its handshake */
    bool lazy;                  /* the first call opens the first connection */
    const redis_finder *finder; /* whom to dial; NULL: one of the addresses.
                                   The caller's, alive until close */
    bool sharded;               /* channels of a slot, as clusters have */
    bool waits;                 /* calls may set `waits` */
} redis_settings;

typedef struct redis_listener {
    void *ctx;
    /* A message came on a channel; called with no lock held, on any thread. */
    void (*message)(void *ctx, const char *channel, size_t channel_len,
                    const char *text, size_t len);
    /* All that was asked for is subscribed, for the first time or again: what
     * was published before may have been missed. */
    void (*listening)(void *ctx);
    /* A connection broke that was not idle, or the one for pushes; or another
     * server answers, or one that did not lead meanwhile. */
    void (*doubt)(void *ctx, int code, const char *text);
} redis_listener;

/* Opens and shakes hands on the first connection, on this thread, unless it is
 * to be lazy. */
int redis_wire_open(redis_wire **ret, const redis_settings *settings,
                    const redis_listener *listener, hf_error *err);
void redis_wire_close(redis_wire *wire); /* no calls are under way */
void redis_wire_abandon(redis_wire *wire);

/* The call is under way; `landed` may be called before this returns. */
void redis_wire_start(redis_wire *wire, redis_call *call);
/* Work on this thread until it has landed, at its deadline at the latest. */
void redis_wire_drive(redis_wire *wire, redis_call *call);
/* Work on this thread until the instant at most.  False: it has not landed,
 * and nobody drives it from now on.  Not for one that is started again. */
bool redis_wire_drive_for(redis_wire *wire, redis_call *call, hf_nsec until);
int redis_wire_fd(redis_wire *wire);
void redis_wire_dispatch(redis_wire *wire);
/* Of the connection that stood last; false: none did yet. */
bool redis_wire_server(redis_wire *wire, redis_server *ret);

/* Listen to a channel (pattern: PSUBSCRIBE) from now on, over reconnections,
 * until as many unlistens; HF_ENOMEM.  `listening` is told when it stands, and
 * not told for one that stood already: of that nothing can have been missed. */
int redis_wire_listen(redis_wire *wire, const char *channel, size_t len,
                      bool pattern);
void redis_wire_unlisten(redis_wire *wire, const char *channel, size_t len,
                         bool pattern);
/* Sleep until w is woken (by redis_wire_wake, from any thread, with any locks
 * held) or the instant; meanwhile this thread may be the one who reads what is
 * pushed, and tells it. */
void redis_wire_park(redis_wire *wire, hf__waiter *w, hf_nsec until);
void redis_wire_wake(redis_wire *wire, hf__waiter *w);

/* What was said inside a script, without its wrapping; else the reply. */
resp redis_error_inside(const resp *reply);
/* The error table: what an error reply means.  HF_APPLIED is never answered;
 * *ret_cut: the connection is of no use any more. */
hf_outcome redis_error_of(const resp *reply, hf_error *ret, bool *ret_cut);

#endif
