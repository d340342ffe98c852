/* clock.h - time and chance, from one replaceable table. */
#ifndef HF_BASE_CLOCK_H
#define HF_BASE_CLOCK_H

#include <stdbool.h>
#include <time.h>

#include <holdfast/driver.h>

/* The simulator puts its own table in place; nobody else does. */
typedef struct hf__clock {
    hf_nsec (*now)(void *ctx);         /* CLOCK_BOOTTIME */
    int64_t (*realtime_us)(void *ctx); /* CLOCK_REALTIME */
    void (*random)(void *ctx, void *buf, size_t len);
    void *ctx;
    bool threads; /* false: one thread drives everything by hand */
} hf__clock;

void hf__clock_set(const hf__clock *clock); /* NULL: the real one */
bool hf__clock_threads(void);

/* A uniformly drawn number below n (n > 0). */
uint64_t hf__random_below(uint64_t n);

/* The instant `due` as CLOCK_MONOTONIC has it, for condition variables. */
struct timespec hf__clock_monotonic(hf_nsec due);

/* ms to ns; HF_FOREVER and everything that overflows is HF_NEVER. */
hf_nsec hf__ms_to_ns(int64_t ms);
/* at + span, HF_NEVER when it overflows. */
hf_nsec hf__add_ns(hf_nsec at, hf_nsec span);

#endif
