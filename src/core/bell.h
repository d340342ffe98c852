/* bell.h - what a blocking caller sleeps on, and how it is rung.
 *
 * A condition that is signalled under the mutex wakes a thread which can only
 * run into that mutex; on one core that is two changes of threads instead of
 * one.  So a ring is counted at once, under the mutex, and heard after it was
 * unlocked.  Knows nothing of sessions. */
#ifndef HF_CORE_BELL_H
#define HF_CORE_BELL_H

#include <holdfast/driver.h>
#include <stdatomic.h>

typedef struct hf__bell { /* zeroed: ready */
    atomic_uint rings;
    unsigned sleepers; /* who sleeps, or is about to; with the mutex held */
} hf__bell;

enum { HF_RUNG_MAX = 4 };

/* Part of what a mutex guards. */
typedef struct hf__rung {
    hf__bell *bells[HF_RUNG_MAX];
    unsigned count;
} hf__rung;

/* With the mutex held. */
void hf__bell_ring(hf__rung *rung, hf__bell *bell);
/* How often it was rung. */
unsigned hf__bell_count(const hf__bell *bell);
/* With the mutex held, around every sleep; the count is for that. */
unsigned hf__bell_begin(hf__bell *bell);
void hf__bell_end(hf__bell *bell);
/* Without the mutex, with a copy that was taken under it.  The bells may be
 * gone: they are not touched. */
void hf__bell_hear(const hf__rung *copy);
/* Without the mutex: until it was rung more often, `due`, or for nothing. */
void hf__bell_sleep(hf__bell *bell, unsigned count, hf_nsec due);

#endif
