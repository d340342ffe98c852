/* probe.h - what doctor knows about a Redis server, and what it thinks of it.
 *
 * probe.c asks and fills the facts; probe_judge.c turns facts into findings and
 * asks nobody, so that a test can put any server in front of it. */
#ifndef HF_DRIVERS_REDIS_PROBE_H
#define HF_DRIVERS_REDIS_PROBE_H

#include <holdfast/driver.h>

/* A number that is -1, and a text that is "", could not be found out. */
typedef struct redis_facts {
    /* How we use it: */
    bool native;  /* our own layout, with sessions and tokens */
    bool strict;  /* nothing is granted while it may have forgotten locks */
    bool exposed; /* plain TCP that leaves this machine */
    hf_nsec lease;
    int64_t max_lease_ms; /* of a strict namespace */
    int64_t lag_ms;       /* the same: what a quarantine has in addition */
    int64_t confirmed;    /* replicas that must have a grant */
    /* From INFO: */
    bool info_refused;
    char version[24], role[16], mode[16];
    int64_t version_number; /* 70015 is 7.0.15 */
    int64_t uptime_s, clients, replicas, good_replicas;
    char snapshot_status[8], log_status[8]; /* of the last one: ok, err */
    /* From CONFIG GET, some of it from INFO where that is refused: */
    bool config_refused;
    int64_t memory_limit, client_limit, log_on, min_replicas, script_ms;
    int64_t max_lag_s; /* min-replicas-max-lag */
    int64_t push_hard, push_soft, push_soft_s;
    char policy[32], log_sync[16], snapshots[64];
    bool snapshots_known;
    /* From TIME, asked several times: */
    int64_t samples, offset_us; /* the server's clock less ours */
    hf_nsec trip_best, trip_worst;
    /* From the namespace's marker: */
    int64_t quarantine_us; /* what is left of it */
    /* In a cluster, from CLUSTER INFO and what was found on the way: */
    bool clustered, moving;    /* the second: the slot is, at this moment */
    int64_t slot;              /* of the namespace */
    char owner[80], state[16]; /* its node's address; ok, fail */
    int64_t shards, node_timeout_ms;
    /* From the server's own judgement of our user: */
    bool rights_known, rights_refused; /* the second: not even a script */
    char rights_missing[200];          /* commands, separated by blanks */
} redis_facts;

/* Everything unknown. */
void redis_facts_init(redis_facts *facts);
/* Emits every finding, each with its cure. */
void redis_judge(const redis_facts *facts, hf_doctor_fn *emit, void *user);
/* The same for what only a cluster has (cluster_judge.c). */
void redis_judge_cluster(const redis_facts *facts, hf_doctor_fn *emit,
                         void *user);

#endif
