/* clock_test.c - which clock deadlines are counted by.
 *
 * A machine that sleeps stops CLOCK_MONOTONIC, not the leases in a store; an
 * administrator sets CLOCK_REALTIME, and no lease gets longer by that.  Neither
 * can be done to the machine that runs a test, so its clocks are read through
 * a function of our own, which the library calls instead of the C library's. */
#include "base/clock.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "harness/expect.h"
#include "harness/runner.h"

enum { HOUR_S = 3600, SLACK_S = 600 };

static time_t slept_s, set_by_s;

int clock_gettime(clockid_t clock, struct timespec *ret)
{
    if (syscall(SYS_clock_gettime, clock, ret) != 0)
        return -1;
    if (clock == CLOCK_BOOTTIME)
        ret->tv_sec += slept_s;
    if (clock == CLOCK_REALTIME)
        ret->tv_sec += slept_s + set_by_s;
    return 0;
}

static int64_t passed_s(hf_nsec since)
{
    return (hfd_now() - since) / 1000000000;
}

static void a_suspend_counts(void)
{
    hf_nsec before = hfd_now();

    slept_s += HOUR_S;
    EXPECT(passed_s(before) >= HOUR_S);
    EXPECT(passed_s(before) < HOUR_S + SLACK_S);
}

static void nobody_sets_it(void)
{
    hf_nsec before = hfd_now();
    int64_t wall = hfd_realtime_us();

    set_by_s -= 2 * HOUR_S;
    EXPECT(hfd_realtime_us() < wall - INT64_C(1000000) * HOUR_S);
    EXPECT(hfd_now() >= before && passed_s(before) < SLACK_S);
    set_by_s += 4 * HOUR_S;
    EXPECT(hfd_now() >= before && passed_s(before) < SLACK_S);
}

/* For a condition variable, which knows no BOOTTIME: what is left of a span is
 * counted from now, however long the machine slept before. */
static void what_is_left_for_a_sleeper(void)
{
    hf_nsec due = hfd_now() + HF_MS(2000LL * HOUR_S);
    struct timespec until, now;

    slept_s += HOUR_S;
    until = hf__clock_monotonic(due);
    EXPECT(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    EXPECT(until.tv_sec - now.tv_sec <= HOUR_S);
    EXPECT(until.tv_sec - now.tv_sec > HOUR_S - SLACK_S);
    slept_s += 2 * HOUR_S;
    until = hf__clock_monotonic(due);
    EXPECT(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    EXPECT(until.tv_sec <= now.tv_sec);
}

static const test_case cases[] = {TEST(a_suspend_counts), TEST(nobody_sets_it),
                                  TEST(what_is_left_for_a_sleeper)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "clock", cases, sizeof cases / sizeof *cases);
}
