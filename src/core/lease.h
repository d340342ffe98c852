/* lease.h - the lease of a session, as its owner believes in it. */
#ifndef HF_CORE_LEASE_H
#define HF_CORE_LEASE_H

#include <holdfast/driver.h>

typedef struct hf__lease {
    /* fixed by hf__lease_init */
    hf_nsec ttl, renew_every, attempt, stop_margin;
    /* the belief */
    hf_state state;     /* HF_HELD, HF_DOUBTFUL, HF_LOST; 0: none yet */
    hf_nsec deadline;   /* after it the store may have given it away */
    hf_nsec next_renew; /* send the next renewal then */
    hf_nsec doubt_at;   /* when the doubt arose */
    int reason;         /* of doubt or loss */
    bool clock_doubt;   /* arithmetic itself is in doubt */
    /* the clocks, watched from the start, with a lease or without */
    hf_nsec jump_at; /* when a jump was noticed last; 0: never */
    int64_t real_minus_boot_us;
    /* the store's clock, as its answers showed it (HF_CAP_CLOCK) */
    int64_t store_minus_boot_us;
    hf_nsec store_sent; /* of the answer that showed it; 0: none yet */
    hf_nsec store_trip; /* how long that took */
    unsigned failures;  /* in a row */
    /* the store's memory */
    bool unaudited;     /* may have changed: not HELD before it was looked at */
    hf_nsec renewed_at; /* when the last answered renewal was sent */
} hf__lease;

/* Derive the times from the lease; HF_EINVAL when they cannot work. */
int hf__lease_init(hf__lease *lease, int64_t lease_ms, hf_error *err);

/* What is taken off a remaining time: drift of 1 % and timer slack. */
hf_nsec hf__lease_guard(hf_nsec remaining);

/* The store answered an attach or a renewal that was sent at `sent`. */
void hf__lease_began(hf__lease *lease, hf_nsec sent, hf_nsec remaining);
void hf__lease_renewed(hf__lease *lease, hf_nsec sent, hf_nsec remaining);

/* A renewal failed, or the connection did: try again soon. */
void hf__lease_doubt(hf__lease *lease, hf_nsec now, int reason);

/* The store said that it is over, or time did. */
void hf__lease_lost(hf__lease *lease, int reason);

/* Read both clocks: did the wall clock run ahead of ours, as it does after a
 * freeze that ours did not count? */
void hf__lease_look_at_clocks(hf__lease *lease);

/* The store's clock, as an answer brought it: asked at `sent`, here now.
 * Answers how far it was set forward since the last answer (back: negative);
 * 0: as far as one can tell it was not.  After a step forward the deadline is
 * earlier by that much, and the arithmetic in doubt until a renewal that is
 * sent from now on is answered. */
hf_nsec hf__lease_store_clock(hf__lease *lease, hf_nsec sent, hf_nsec now,
                              int64_t store_us);

/* The store's memory may have changed: DOUBTFUL until a renewal was answered
 * that was sent since, *and* hf__lease_audited was called. */
void hf__lease_memory_doubt(hf__lease *lease, hf_nsec now, int reason);
void hf__lease_audited(hf__lease *lease);

/* LOST from then on; HF_NEVER while there is no lease. */
hf_nsec hf__lease_lost_at(const hf__lease *lease);

/* The state as of now, computed; moves to LOST by itself. */
hf_state hf__lease_state(hf__lease *lease, hf_nsec now);

/* When to look again: the next renewal or the loss. */
hf_nsec hf__lease_next(const hf__lease *lease);

#endif
