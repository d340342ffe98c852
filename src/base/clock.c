/* clock.c - time and chance, from one replaceable table.
 *
 * The library knows one clock for deadlines: CLOCK_BOOTTIME, which counts a
 * suspend and which nobody can set.  CLOCK_REALTIME is read only to notice
 * that it ran ahead of BOOTTIME (a restored snapshot, a resumed guest).  Under
 * the simulator both, and all randomness, come from its table, so that a seed
 * replays a history exactly. */
#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

static hf_nsec real_now(void *ctx)
{
    struct timespec ts;

    (void)ctx;
    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (hf_nsec)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int64_t real_realtime_us(void *ctx)
{
    struct timespec ts;

    (void)ctx;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static void real_random(void *ctx, void *buf, size_t len)
{
    uint8_t *at = buf;

    (void)ctx;
    while (len > 0) {
        ssize_t got = getrandom(at, len, 0);

        if (got < 0) {
            if (errno == EINTR)
                continue;
            abort(); /* ids that repeat would let two sessions be one */
        }
        at += got;
        len -= (size_t)got;
    }
}

static const hf__clock real_clock = {
    .now = real_now,
    .realtime_us = real_realtime_us,
    .random = real_random,
    .threads = true,
};
static const hf__clock *clock_table = &real_clock;

void hf__clock_set(const hf__clock *clock)
{
    clock_table = clock ? clock : &real_clock;
}

bool hf__clock_threads(void)
{
    return clock_table->threads;
}

hf_nsec hfd_now(void)
{
    return clock_table->now(clock_table->ctx);
}

int64_t hfd_realtime_us(void)
{
    return clock_table->realtime_us(clock_table->ctx);
}

void hfd_random(void *buf, size_t len)
{
    clock_table->random(clock_table->ctx, buf, len);
}

uint64_t hf__random_below(uint64_t n)
{
    uint64_t word;

    hfd_random(&word, sizeof word);
    return word % n; /* the bias is below 2^-40 for every n used here */
}

hf_nsec hf__ms_to_ns(int64_t ms)
{
    return ms >= HF_NEVER / 1000000 ? HF_NEVER : ms * 1000000;
}

hf_nsec hf__add_ns(hf_nsec at, hf_nsec span)
{
    return span >= HF_NEVER - at ? HF_NEVER : at + span;
}

struct timespec hf__clock_monotonic(hf_nsec due)
{
    struct timespec ts;
    hf_nsec left = due - hfd_now();
    hf_nsec at;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    at = (hf_nsec)ts.tv_sec * 1000000000 + ts.tv_nsec + (left > 0 ? left : 0);
    return (struct timespec){at / 1000000000, at % 1000000000};
}
