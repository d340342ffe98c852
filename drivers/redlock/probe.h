/* probe.h - what doctor knows about the servers, and what it thinks of them.
 *
 * probe.c asks and fills the facts; probe_judge.c turns facts into findings and
 * asks nobody, so that a test can put any servers in front of it. */
#ifndef HF_DRIVERS_REDLOCK_PROBE_H
#define HF_DRIVERS_REDLOCK_PROBE_H

#include <holdfast/driver.h>

#include "vote.h"

/* A number that is -1, and a text that is "", could not be found out. */
typedef struct redlock_facts { /* of one server */
    char where[80];
    bool answers;  /* TIME at least */
    char why[160]; /* else */
    char run_id[41], version[24], role[16], policy[32];
    int64_t uptime_s, replicas, memory_limit, log_on;
    int64_t offset_us; /* its clock less ours */
    hf_nsec trip;      /* the shortest; 0: none */
} redlock_facts;

typedef struct redlock_use { /* how we use them */
    hf_nsec lease;
    hf_nsec settled; /* strict: the age that a vote needs; else 0 */
    bool tokens, exposed;
} redlock_use;

void redlock_facts_init(redlock_facts *facts);
/* Emits every finding, each with its cure. */
void redlock_judge(const redlock_facts *facts, size_t n, const redlock_use *use,
                   hf_doctor_fn *emit, void *user);

#endif
