/* fake_clock_test.h - a clock that stands still until the test moves it.
 *
 * For unit tests of what waits and expires: `now_ns` is the time, pass() lets
 * some go by, and the wall clock beside it, `real_us`, can be set by itself.
 * Chance is a byte that is another at each draw, so that ids differ and a run
 * is the same every time.  One thread drives everything by hand. */
#ifndef HF_CORE_FAKE_CLOCK_TEST_H
#define HF_CORE_FAKE_CLOCK_TEST_H

#include <string.h>

#include "base/clock.h"

static hf_nsec now_ns = HF_MS(1000000);
static int64_t real_us = INT64_C(1700000000000000);

static hf_nsec fake_now(void *ctx)
{
    (void)ctx;
    return now_ns;
}

static int64_t fake_real(void *ctx)
{
    (void)ctx;
    return real_us;
}

static void fake_random(void *ctx, void *buf, size_t len)
{
    static unsigned char drawn;

    (void)ctx;
    memset(buf, ++drawn, len);
}

static const hf__clock fake_clock = {fake_now, fake_real, fake_random, NULL,
                                     false};

static inline void pass(int64_t ms)
{
    now_ns += HF_MS(ms);
    real_us += ms * 1000;
}

#endif
