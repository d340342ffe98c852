/* runner.h - one process per test, with a time limit. */
#ifndef HF_TEST_RUNNER_H
#define HF_TEST_RUNNER_H

#include <stddef.h>

typedef struct test_case {
    const char *name;
    void (*run)(void);
    unsigned limit_s; /* 0: 180 */
} test_case;

/* clang-format off */
#define TEST(fn) {#fn, fn, 0}
#define TEST_LIMIT(fn, seconds) {#fn, fn, seconds}
/* clang-format on */

/* Runs the cases named in argv (all without), each in a process of its own
 * (forked; the parent has no threads), killing its process group at the limit.
 * Prints `ok NAME`, `FAIL NAME: why` (after the output of the test) or
 * `skip NAME: why`, then `N passed, N failed, N skipped`.  Returns main's
 * status.  A test that leaves a child process or a descriptor more than it
 * found fails. */
int run_tests(int argc, char **argv, const char *suite, const test_case *cases,
              size_t count);

/* End the running test as skipped. */
void skip_test(const char *why) __attribute__((noreturn));

/* A new folder for this test, removed when it ends. */
const char *test_folder(void);

const char *test_name(void); /* of the test that runs */

/* Sleep this long (real time). */
void test_sleep_ms(int ms);

/* Milliseconds of CLOCK_BOOTTIME. */
long long test_now_ms(void);

/* Poll `condition` every few milliseconds for at most `ms`; is it true? */
#define WAIT_FOR(condition, ms)                                                \
    ({                                                                         \
        long long end_ = test_now_ms() + (ms);                                 \
        int is_;                                                               \
        while (!(is_ = !!(condition)) && test_now_ms() < end_)                 \
            test_sleep_ms(2);                                                  \
        is_;                                                                   \
    })

#endif
