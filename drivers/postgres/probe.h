/* probe.h - is this PostgreSQL fit to hold locks?
 *
 * probe.c asks, probe_judge.c judges from facts alone, so that the test can
 * show it a server that we do not have. */
#ifndef HF_DRIVERS_POSTGRES_PROBE_H
#define HF_DRIVERS_POSTGRES_PROBE_H

#include "postgres.h"

/* A number that is -1 could not be found out. */
typedef struct pg_facts {
    /* How we use it: */
    bool strict, pooled, local, tls, verified;
    hf_nsec lease;
    /* What the server says: */
    char version[40];
    int64_t version_number; /* 150018 */
    bool standby;           /* in recovery */
    bool fsync, full_pages;
    char commit[16]; /* synchronous_commit, as our statements have it */
    int64_t copies;  /* standbys that follow it now */
    bool copies_waited_for;
    char isolation[24];
    int64_t statement_ms, idle_ms; /* the role's own; 0: none */
    int64_t connections, connection_limit;
    /* Of our tables: */
    int64_t unlogged, live_rows, dead_rows;
} pg_facts;

void pg_judge_facts(const pg_facts *facts, hf_doctor_fn *emit, void *user);
/* schema and prefix as sql_render has them; false: it did not answer. */
bool pg_ask_facts(sql_conn *conn, const char *schema, const char *prefix,
                  hf_nsec deadline, pg_facts *ret, hf_error *err);

#endif
