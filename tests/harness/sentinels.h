/* sentinels.h - a Redis primary, two replicas and three sentinels of a test.
 *
 * They are children of the calling process and die with the thread that
 * started them.  The sentinels know each other and the replicas from the start,
 * and are patient: only between sentinels_impatient and sentinels_patient do
 * they replace a primary that does not answer, so that a slow machine brings
 * about no failover that the test did not ask for. */
#ifndef HF_TEST_SENTINELS_H
#define HF_TEST_SENTINELS_H

#include "harness/server.h"

enum { SENTINELS_SERVERS = 3, SENTINELS_WATCHERS = 3 };

typedef struct sentinels_options {
    const char *password; /* of the sentinels themselves; NULL: none */
    bool guarded;         /* min-replicas-to-write 1, max-lag 2 */
} sentinels_options;

typedef struct sentinels {
    sentinels_options options;
    server *servers[SENTINELS_SERVERS]; /* the first begins as the primary */
    pid_t watchers[SENTINELS_WATCHERS];
    int ports[SENTINELS_WATCHERS];
    char primary_port[16];
    char urls[8][400];
    unsigned next;
} sentinels;

/* Starts all; returns when the replicas are in step and every sentinel names
 * the first server. */
sentinels *sentinels_start(const sentinels_options *opt);
void sentinels_stop(sentinels *all);
/* redis+sentinel://.../primary?query, good until the test ends. */
const char *sentinels_url(sentinels *all, const char *query);
void sentinels_impatient(sentinels *all);
void sentinels_patient(sentinels *all);
/* Which server do all sentinels name?  -1: they differ, or some are silent. */
int sentinels_primary(sentinels *all);
/* Wait until they name another than this one, and that says so itself. */
int sentinels_await_other(sentinels *all, int than);
/* They watch this server from now on, and have never heard of the one before:
 * nobody demotes that. */
void sentinels_appoint(sentinels *all, int number);
/* Wait until the replicas have all that the first server has. */
void sentinels_await_step(sentinels *all);
/* Replicas follow nobody any more, and keep what they have. */
void sentinels_cut_replicas(sentinels *all);
/* Of the sentinel, or of the server with this port, on a connection of its
 * own; the reply's bytes, "" for none. */
const char *sentinels_ask(int port, const char *password, const char *line);

#endif
