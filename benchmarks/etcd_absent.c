/* etcd_absent.c - the scenarios on etcd in a build without the library with
 * which their floor is written: each says so and is skipped. */
#include "bench.h"

#define ABSENT(name)                                                           \
    void name(const struct bench *b)                                           \
    {                                                                          \
        (void)b;                                                               \
        bench_skip("needs libnghttp2 (Debian: libnghttp2-dev), and a build "   \
                   "after it");                                                \
    }
ABSENT(bench_etcd_pair)
ABSENT(bench_etcd_handover)
ABSENT(bench_etcd_contended)
ABSENT(bench_etcd_waiters)
ABSENT(bench_etcd_command)
