/* heap.h - timers in order of their due instant; intrusive. */
#ifndef HF_BASE_HEAP_H
#define HF_BASE_HEAP_H

#include <holdfast/driver.h>

typedef struct hf__timer {
    hf_nsec due;
    size_t index; /* place in the heap, from 1; 0: not in it */
    void (*fire)(struct hf__timer *timer, hf_nsec now);
} hf__timer;

typedef struct hf__heap {
    hf__timer **slots; /* 1 .. count */
    size_t count, room;
} hf__heap;

/* Make room for one more timer, so that a later set cannot fail. */
int hf__heap_reserve(hf__heap *heap, size_t timers);
/* Set or move; the room must have been reserved. */
void hf__heap_set(hf__heap *heap, hf__timer *timer, hf_nsec due);
void hf__heap_remove(hf__heap *heap, hf__timer *timer);
hf_nsec hf__heap_next(const hf__heap *heap); /* HF_NEVER: empty */
hf__timer *hf__heap_pop_due(hf__heap *heap, hf_nsec now);
void hf__heap_done(hf__heap *heap);

#endif
