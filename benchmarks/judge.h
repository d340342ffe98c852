/* judge.h - reads the log of a contended run.
 *
 * - A *real hand-over* is a grant to a worker that was already asking when
 *   another gave the lock back.  A lock that the same worker snatches again a
 *   thousand times has moved nothing.
 * - *Fairness* is the smallest number of grants of a worker over the largest.
 * - An *overlap* is a grant while an earlier holder had not yet begun to
 *   release: two holders. */
#ifndef BENCH_JUDGE_H
#define BENCH_JUDGE_H

#include <stddef.h>
#include <stdint.h>

struct grant {
    int64_t asked, got, gave; /* nanoseconds on a clock all workers share */
    int64_t worker;           /* 0 .. workers - 1 */
};

struct verdict {
    long handovers, overlaps;
    double fairness, longest_ms;
};

#define JUDGE_WORKERS_MAX 64

/* Sorts the log by the instant of the grant. */
struct verdict judge_grants(struct grant *log, size_t count, size_t workers);

#endif
