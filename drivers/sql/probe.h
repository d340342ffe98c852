/* probe.h - is this database fit to hold locks?
 *
 * probe.c asks, probe_judge.c judges from facts alone, so that the test can
 * show it a database that we do not have. */
#ifndef HF_DRIVERS_SQL_PROBE_H
#define HF_DRIVERS_SQL_PROBE_H

#include "store.h"

/* All of HF_OP_PROBE: asks, judges, lets the port add its own, finishes op. */
void sql_probe(hf_store *store, hf_op *op);

/* A number that is -1 could not be found out. */
typedef struct sql_facts {
    /* How we use it: */
    const char *database; /* the dialect's name */
    bool native;          /* our own tables */
    bool strict;          /* asked for in this URL */
    bool observer;        /* no clock is compared */
    bool has_clock;       /* the dialect knows how to ask for one */
    bool purges;          /* idle queues can be removed safely */
    hf_nsec lease;
    unsigned connections;
    /* From the tables: */
    bool meta_there; /* the one row of meta was read */
    int64_t format, max_lease_us, quarantine_us;
    bool meta_strict, epoch_known, epoch_same;
    int64_t sessions, queues, values;
    char missing[240]; /* rights: "UPDATE on hf_queue, ..." */
    char refusal[160]; /* the database's words for the first of them */
    /* Asked several times: */
    unsigned samples;
    int64_t offset_us; /* its clock less ours, by the quickest answer */
    hf_nsec trip_best, trip_worst;
    /* Waking: */
    bool can_listen, deaf;
    char deaf_why[160];
} sql_facts;

void sql_facts_init(sql_facts *facts);
void sql_judge_facts(const sql_facts *facts, hf_doctor_fn *emit, void *user);

#endif
