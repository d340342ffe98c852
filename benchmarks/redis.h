/* redis.h - a throwaway Redis server, and what it says about itself.
 *
 * Every scenario on Redis starts a server of its own on a free port of the
 * loopback, bound to the core that the placement says, and asks it what it
 * has read, executed and burnt.  The server dies with the scenario. */
#ifndef BENCH_REDIS_H
#define BENCH_REDIS_H

#include "bench.h"

struct redis_server {
    pid_t pid;
    int port;
    char url[64];  /* "redis://127.0.0.1:PORT" */
    void *control; /* our own connection to it */
};

/* End the scenario with a word if there is no redis-server, or this holdfast
 * has no driver for it. */
void redis_needed(const struct bench *b);

void redis_start(struct redis_server *ret, const struct bench *b, int core);
/* more: further words for the server, at most 16, NULL-ended. */
void redis_start_with(struct redis_server *ret, const struct bench *b, int core,
                      const char *const *more);
void redis_stop(struct redis_server *s);

/* What the server has counted. */
struct redis_counts {
    double executed; /* commands, also those inside scripts */
    double reads;    /* from its sockets: a pipelined batch counts once */
    double cpu_s;
};
struct redis_counts redis_count(struct redis_server *s);
/* Since then, without our own two questions. */
struct redis_counts redis_count_since(struct redis_server *s,
                                      struct redis_counts then);

/* Connections of this process to it, without our own. */
long redis_connections(struct redis_server *s);

/* Counts the commands that come over the network, by MONITOR: for what is
 * counted, not for what is timed. */
struct redis_monitor;
struct redis_monitor *redis_watch(struct redis_server *s);
/* All commands of others that were read before this call. */
long redis_read_so_far(struct redis_monitor *m);
void redis_unwatch(struct redis_monitor *m);

/* ---- Sides ----------------------------------------------------------- */

/* SET NX PX and a compare-and-delete script, a connection a thread; it cannot
 * wait. */
extern const struct side floor_redis;
/* The same, tried again each 100 ms. */
extern const struct side floor_redis_poll;
/* A list with one element: BLPOP takes it, RPUSH gives it back. */
extern const struct side floor_blpop;

#endif
