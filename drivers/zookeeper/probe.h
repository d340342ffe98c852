/* probe.h - what doctor knows about an ensemble, and what it thinks of it.
 *
 * probe.c asks and fills the facts; probe_judge.c turns facts into findings and
 * asks nobody, so that a test can put any ensemble in front of it. */
#ifndef HF_DRIVERS_ZOOKEEPER_PROBE_H
#define HF_DRIVERS_ZOOKEEPER_PROBE_H

#include <holdfast/driver.h>

enum { ZK_PROBED_MAX = 16 };

typedef struct zk_probed { /* a member of the URL */
    char name[80];         /* as the URL has it */
    bool reached;
    char why[160];    /* not reached, or srvr was refused: the reason */
    char version[48]; /* "": unknown */
    char mode[24];    /* leader, follower, observer, standalone */
    int64_t tick_ms, min_ms, max_ms; /* -1: conf was refused */
    int64_t voters;                  /* of the ensemble, by conf; -1 */
    int64_t observers;
} zk_probed;

typedef struct zk_facts {
    /* How we use it: */
    hf_nsec lease, tick;
    bool write_beats, exposed, closed_acl, plain_parents;
    char root[80];
    /* What was found: */
    zk_probed members[ZK_PROBED_MAX];
    size_t member_count;
    bool attached; /* then this was negotiated: */
    int64_t timeout_ms;
    char connected_to[80];
    bool read_only;
    bool root_exists;
    bool acl_known;
    int32_t world; /* what anybody may do to the root */
    int64_t samples;
    hf_nsec trip_best, trip_worst; /* of a sync */
} zk_facts;

/* Fill from the text of srvr and of conf. */
void zk_probed_srvr(zk_probed *member, const char *text);
void zk_probed_conf(zk_probed *member, const char *text);
/* Emits every finding, each with its cure. */
void zk_judge(const zk_facts *facts, hf_doctor_fn *emit, void *user);

#endif
