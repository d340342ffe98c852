/* probe.h - what doctor knows about an etcd cluster, and what it thinks of it.
 *
 * probe.c asks and fills the facts; probe_judge.c turns facts into findings and
 * asks nobody, so that a test can put any cluster in front of it. */
#ifndef HF_DRIVERS_ETCD_PROBE_H
#define HF_DRIVERS_ETCD_PROBE_H

#include <holdfast/driver.h>

enum { ETCD_PROBED = 16 };

typedef struct etcd_member_facts { /* of one that the URL names */
    char where[64];
    bool reached;
    char why[120]; /* it was not, or what it complains about */
    uint64_t id, leader;
    char version[24];
    int64_t version_number; /* 30423 is 3.4.23; -1 */
    int64_t size, in_use, quota;
    bool learner;
} etcd_member_facts;

/* A number that is -1 could not be found out. */
typedef struct etcd_facts {
    bool exposed, tls, has_user; /* how we use it */
    etcd_member_facts members[ETCD_PROBED];
    size_t member_count;
    int64_t voters, learners; /* of the whole cluster */
    bool alarms_known, no_space, corrupt;
    int64_t lease_floor; /* seconds */
    char refused[160];   /* why a lease or a key was refused */
    hf_nsec read_best, read_worst, commit;
    hf_nsec lease; /* of the session */
} etcd_facts;

void etcd_facts_init(etcd_facts *facts); /* everything unknown */
/* 3.4.23 is 30423; -1: that is no version. */
int64_t etcd_version_number(const char *text);
/* Emits every finding, each with its cure. */
void etcd_judge(const etcd_facts *facts, hf_doctor_fn *emit, void *user);

#endif
