/* quorum.h - throwaway servers of ZooKeeper and etcd for the benchmark.
 *
 * A server is durable here, as it would be in use: it flushes at every commit
 * (one member, so that no commit waits for another).  Each kind brings the pair
 * of requests that is the least a lock can be there, written by hand on a bare
 * socket, and counts what it was asked.  A server dies with its scenario. */
#ifndef BENCH_QUORUM_H
#define BENCH_QUORUM_H

#include "bench.h"

struct quorum_server {
    const struct quorum_kind *kind;
    pid_t pid;
    int port, ask_port; /* for clients; for questions about itself */
    char at[32];        /* "127.0.0.1:PORT" */
    char url[64];       /* for holdfast, and for the floors */
    char log[420];      /* what it writes */
    double questions;   /* of ours, which the server counts too */
};

/* Requests that came from clients, without our own questions. */
struct quorum_counts {
    double all;
    double renewals; /* those of them that are known to keep a lease alive */
};

struct quorum_kind {
    const char *name;           /* "etcd": scenarios are etcd-pair, ... */
    const char *program;        /* that starts one, in tests/harness */
    const char *const *durable; /* words for it, NULL-ended */
    int ports;                  /* that it takes: one, or three */
    bool (*is_ready)(struct quorum_server *s);
    struct quorum_counts (*count)(struct quorum_server *s);
    /* Two requests that write, each a commit; cannot wait. */
    const struct side *pair;
    /* The requests of ours, by hand; NULL where they are the same. */
    const struct side *same;
    double pair_goal;     /* ours at most so many times the floor */
    double requests_goal; /* of ours, a pair */
    double idle_goal;     /* requests a second that a wait may cost */
    bool tells_renewals;  /* apart from other requests */
};

extern const struct quorum_kind quorum_zookeeper, quorum_etcd;

/* Ends the scenario with a word if there is no such server, or this holdfast
 * has no driver for it. */
void quorum_start(struct quorum_server *ret, const struct bench *b,
                  const struct quorum_kind *kind, int core);
void quorum_stop(struct quorum_server *s);
/* Send a text to a port of the loopback and read until the end; how much was
 * read, less than 0 without a connection. */
long quorum_ask(int port, const char *text, char *ret, size_t cap);

void quorum_pair(const struct bench *b, const struct quorum_kind *kind);
void quorum_waiters(const struct bench *b, const struct quorum_kind *kind);

/* ---- Against programs of others (quorum_wait.c) ---------------------- */

/* One way to lock that is compared with ours: its processes are peers. */
struct rival {
    const char *name;
    struct peer *(*start)(const struct quorum_server *s, int core);
    bool is_slow;          /* so that fewer turns must do */
    double handover_goal;  /* ours at most so many times theirs; 0: none */
    double contended_goal; /* ours at least so many times theirs; 0: none */
};
#define MAX_RIVALS 2

/* What else is to be said of a placement, with the median of ours. */
typedef void more_fn(const struct bench *b, const struct quorum_server *s,
                     const struct placement *place, double ours_us);
void quorum_handover(const struct bench *b, const struct quorum_kind *kind,
                     const struct rival *rival, int rivals, more_fn *more);
void quorum_contended(const struct bench *b, const struct quorum_kind *kind,
                      const struct rival *rival, int rivals);

/* ---- Sides ----------------------------------------------------------- */

/* create of an ephemeral node, delete; over a bare socket. */
extern const struct side floor_zookeeper;
/* The same with a list in the flight of the create. */
extern const struct side floor_zookeeper_list;
/* Txn that puts a key with a lease if it is not there, DeleteRange; gRPC on
 * nghttp2.  A read by a quorum besides. */
extern const struct side floor_etcd;
void floor_etcd_read(void *thread, const char *key);

#endif
