/* sql.h - throwaway databases for the benchmark, and their floors.
 *
 * A database is durable here, as it would be in use: it flushes at every
 * commit.  Each kind brings the same four floors, written by hand on its client
 * library, so that the scenarios are written once.  A server dies with its
 * scenario. */
#ifndef BENCH_SQL_H
#define BENCH_SQL_H

#include "bench.h"

struct sql_server {
    const struct sql_kind *kind;
    pid_t pid;
    int port;
    char url[80];  /* for holdfast, and for the floors */
    char log[420]; /* what it writes */
};

/* All floors have a connection a thread; their tables are made by prepare. */
struct sql_kind {
    const char *name;   /* "postgres": scenarios are postgres-pair, ... */
    const char *server; /* what sql-server calls it */
    const char *ready;  /* in its log, when it may be asked */
    const char *user;
    const char *const *durable; /* words for the server, NULL-ended */
    void (*prepare)(const struct sql_server *s);
    /* Statements that clients have sent so far; begin_counting once before. */
    void (*begin_counting)(const struct sql_server *s);
    double (*count)(const struct sql_server *s);
    /* Two upserts of one row, each a commit; cannot wait. */
    const struct side *pair;
    /* The same row, tried each 100 ms. */
    const struct side *poll;
    /* One commit, then the cheapest wake-up there is; for two processes. */
    const struct side *wake;
    /* The lock that the server itself has, without lease or token. */
    const struct side *own;
};

extern const struct sql_kind sql_kind_postgres, sql_kind_mariadb;

/* sql_server.c.  Ends the scenario with a word if there is no such server. */
void sql_start(struct sql_server *ret, const struct bench *b,
               const struct sql_kind *kind, int core);
void sql_stop(struct sql_server *s);
/* The last word of a URL of a server here: its port. */
int sql_port_of(const char *url);

#endif
