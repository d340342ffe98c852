/* bell.c - what a blocking caller sleeps on, and how it is rung.
 *
 * Answers: how does a thread learn that what it waits for may have changed?
 * What has changed is under the mutex of whoever uses this, and is looked at
 * again after every sleep; a bell only ends the sleep.
 *
 * No ring is missed: the count is raised under the mutex, and the sleeper read
 * it under the mutex after it had looked, so the kernel refuses to put it to
 * sleep on a count that is old.  Paused between the unlock and the call that
 * wakes: the sleeper is late by that pause, as behind a mutex that is held.
 * Two ring: the second counts, too, and wakes nobody or for nothing.  Where
 * nobody sleeps, which the mutex tells, the kernel is not asked: a caller who
 * is served at once rings for himself alone.
 *
 * The sleeper may have returned, and the bell on its stack be gone, before the
 * call: the kernel is given an address and reads nothing there, and whoever
 * sleeps on something else at that address wakes up for nothing, which every
 * user of a futex must bear. */
#include "core/bell.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

static void wake(hf__bell *bell)
{
    syscall(SYS_futex, &bell->rings, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL,
            0);
}

void hf__bell_ring(hf__rung *rung, hf__bell *bell)
{
    atomic_fetch_add(&bell->rings, 1);
    if (bell->sleepers == 0)
        return;
    if (rung->count < HF_RUNG_MAX)
        rung->bells[rung->count++] = bell;
    else
        wake(bell);
}

unsigned hf__bell_count(const hf__bell *bell)
{
    return atomic_load(&bell->rings);
}

unsigned hf__bell_begin(hf__bell *bell)
{
    bell->sleepers++;
    return hf__bell_count(bell);
}

void hf__bell_end(hf__bell *bell)
{
    bell->sleepers--;
}

void hf__bell_hear(const hf__rung *copy)
{
    for (unsigned i = 0; i < copy->count; i++)
        wake(copy->bells[i]);
}

void hf__bell_sleep(hf__bell *bell, unsigned count, hf_nsec due)
{
    struct timespec until, *at = NULL;

    if (due != HF_NEVER) {
        until = hf__clock_monotonic(due);
        at = &until;
    }
    syscall(SYS_futex, &bell->rings, FUTEX_WAIT_BITSET_PRIVATE, count, at, NULL,
            FUTEX_BITSET_MATCH_ANY);
}
