/* finder.h - whom to dial, where the URL does not say it for ever.
 *
 * Behind Sentinel, or in a cluster, the server that decides is another one
 * tomorrow.  So it is asked for anew before each dial, of this table; without
 * one the addresses of the URL are the servers.  Whoever fills it knows the
 * topology; the wire knows connections and calls, and does the rest: it dials
 * whom `find` named, shows what it met to `judge`, and when an answer says that
 * the server is not the one (`stray`) sends the call again, elsewhere, with
 * pauses that grow, until the call's deadline.
 *
 * Safety, with this table and without.  A connection to another server than
 * the one that stood last is told as a doubt before anything is sent on it,
 * and every connection to the server before it is cut: one wire speaks to one
 * server at a time.  A find that took long and comes in after a later one that
 * named somebody else does not count.  Only what the server refused before the
 * first write may be called stray: such a call was not applied, so it may go
 * out again. */
#ifndef HF_DRIVERS_REDIS_FINDER_H
#define HF_DRIVERS_REDIS_FINDER_H

#include <holdfast/driver.h>

#include "resp.h"

typedef struct redis_found {
    char host[256];
    uint16_t port;
} redis_found;

typedef struct redis_server { /* what the handshake of a connection found */
    char run_id[41];
    int version;  /* 70015 is 7.0.15 */
    hf_nsec born; /* when it was started, at the latest, by our clock */
} redis_server;

typedef struct redis_met { /* what judge is shown */
    const char *where;     /* the address, for messages */
    redis_server server;
    char role[16]; /* first word of ROLE: "master", "slave", "sentinel" */
    char of[80];   /* a replica: host of its primary */
    bool cluster;  /* redis_mode:cluster */
} redis_met;

typedef enum redis_stray {
    REDIS_STRAY_NOT,   /* an error like any other: see errors.c */
    REDIS_STRAY_PAUSE, /* the right server, not now: here again, later */
    REDIS_STRAY_AWAY   /* another one: give up this connection, find anew */
} redis_stray;

typedef struct redis_finder {
    void *ctx;
    /* Who is it now?  Blocks, on a thread that may, until the deadline; two
     * threads may ask at once.  0, or why nobody can be named. */
    int (*find)(void *ctx, redis_found *ret, hf_nsec deadline, hf_error *err);
    /* The handshake is over: is it whom we want?  0, or the refusal. */
    int (*judge)(void *ctx, const redis_met *met, hf_error *err);
    /* What does this error reply say about its server?  On any thread, must
     * not block.  Not REDIS_STRAY_NOT only where nothing was written. */
    redis_stray (*stray)(void *ctx, const resp *error);
} redis_finder;

#endif
