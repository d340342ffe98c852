/* redis_absent.c - the scenarios on Redis in a build without hiredis, with
 * which their floors are written: each says so and is skipped. */
#include "bench.h"

static void say_needed(void)
{
    bench_skip("needs hiredis (Debian: libhiredis-dev), and a build after it");
}

#define ABSENT(name)                                                           \
    void name(const struct bench *b)                                           \
    {                                                                          \
        (void)b;                                                               \
        say_needed();                                                          \
    }
ABSENT(bench_redis_pair)
ABSENT(bench_redis_threads)
ABSENT(bench_redis_handover)
ABSENT(bench_redis_contended)
ABSENT(bench_redis_waiters)
ABSENT(bench_redis_many)
ABSENT(bench_redlock_pair)
ABSENT(bench_cluster_pair)
