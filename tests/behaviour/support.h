/* support.h - what every behaviour test needs around the public API.
 *
 * Opens sessions on the one store of the running test (fresh for each test,
 * which is a process of its own), takes locks that must be granted, and keeps
 * waiting threads and child processes on a lead so that a test reads as the
 * promise it checks.
 *
 * Knows nothing of the library but holdfast.h.  Every wait in here has an end
 * (PATIENCE_MS): a promise that is never kept is a failure with a line number,
 * not a test that hangs. */
#ifndef HOLDFAST_TESTS_SUPPORT_H
#define HOLDFAST_TESTS_SUPPORT_H

#include <holdfast/holdfast.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "harness/expect.h"
#include "harness/runner.h"
#include "harness/target.h"

/* Far longer than anything takes; short enough to be worth waiting for. */
#define PATIENCE_MS 20000

/* May the child of a threaded process begin threads and ask for memory?  The
 * thread sanitizer knows no threads there, and a lock of the address
 * sanitizer's own heap stays locked if another thread had it at the fork. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define CHILD_IS_WHOLE 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define CHILD_IS_WHOLE 0
#endif
#endif
#ifndef CHILD_IS_WHOLE
#define CHILD_IS_WHOLE 1
#endif

/* main of a behaviour test: `NAME TARGET [CASE...]`.  The last shared_count
 * cases need a store that other processes see. */
int run_on_target(int argc, char **argv, const char *suite,
                  const test_case *cases, size_t count, size_t shared_count);
#define RUN_ON_TARGET_SHARED(suite, cases, shared_count)                       \
    int main(int argc, char **argv)                                            \
    {                                                                          \
        return run_on_target(argc, argv, suite, cases,                         \
                             sizeof(cases) / sizeof((cases)[0]),               \
                             shared_count);                                    \
    }
#define RUN_ON_TARGET(suite, cases) RUN_ON_TARGET_SHARED(suite, cases, 0)

/* ---- The store of this test -------------------------------------------- */

/* Its URL: the same in every call of one test, empty at the start. */
const char *store_url(void);
/* The same store behind the fault shim, which obeys faults_set. */
const char *store_url_switched(void);
/* Words of fault.md without "fault_", e.g. "rate=100 ops=renew"; NULL: no
 * faults.  Applies to the next operation. */
void faults_set(const char *words);
/* Do other processes see it? */
bool store_is_shared(void);
/* Is it reached through connections? */
bool store_is_remote(void);
/* By SQL, over connections? */
bool store_is_database(void);
/* Is it the layout of another library, which promises less? */
bool store_is_anothers(void);
/* Is a process that dies noticed at once, or when its lease ends? */
bool store_sees_deaths(void);
/* The shortest lease that is renewed in good time. */
int64_t brief_lease_ms(void);
/* May one entry own several tokens in a row, to be passed on in the process? */
bool store_has_runs(void);
/* A store of consensus: each step is a commit of several servers' disks. */
bool store_is_quorum(void);
/* A lease for a session whose process is killed by the test. */
int64_t mortal_lease_ms(void);
/* All caps in `caps` are promised by it; asked of the session opened last. */
bool store_has(uint32_t caps);
/* Does it tell a break from an expiry?  Where it does not (a layout of another
 * library has nowhere to note it) a break takes effect at once, and the owner
 * learns of it from its next renewal. */
bool store_marks_breaks(void);
/* What a hold that was broken answers. */
int broken_code(void);
/* This mode where the store has it, else the exclusive one. */
hf_lock_options options_of(hf_mode mode, uint32_t places);
/* Tokens rise, where there are any. */
#define EXPECT_RISES(later, earlier)                                           \
    EXPECT(!store_has(HF_CAP_TOKEN) || (later) > (earlier))
/* A file name in the test's own folder, which is removed afterwards. */
const char *scratch_path(const char *name, char *buf, size_t size);

/* Opens; a test that needs what this store lacks ends here (needs.c). */
hf_session *open_store(void);
hf_session *open_leased(int64_t lease_ms);
hf_session *open_url(const char *url, int64_t lease_ms);

void skip_if_unfit(uint32_t caps);
/* For a test whose children open the store first: end it here, not there. */
void skip_before_fork(void);

/* ---- Locks ------------------------------------------------------------- */

/* Take it alone; the test fails if it is not granted in time. */
hf_hold *take(hf_session *s, const char *key);
/* With options; wait_ms 0 becomes PATIENCE_MS. */
hf_hold *take_with(hf_session *s, const char *key, hf_lock_options opt);
/* The code of a try, which is released at once if it was granted. */
int probe(hf_session *s, const char *key);
int probe_with(hf_session *s, const char *key, hf_lock_options opt);
void give(hf_hold *hold);

/* Entries under a prefix (NULL: all), by what they are. */
typedef struct census {
    int granted, waiting, closed, broken, mine;
} census;
census count_entries(hf_session *s, const char *prefix);
/* Until there are so many waiting entries in the store. */
void await_waiting(hf_session *s, const char *key, int n);
/* Until the store is empty: nothing was left behind. */
void await_empty(hf_session *s);
/* Until this session counts so many waiters. */
void await_waiters(hf_session *s, uint64_t n);

/* ---- Time, descriptors, process ---------------------------------------- */

int64_t now_ms(void); /* CLOCK_BOOTTIME */
void sleep_ms(int64_t ms);
bool is_readable(int fd, int64_t wait_ms);
int count_fds(void);
int count_threads(void);
/* A joined thread is still listed for a moment, hence the wait. */
#define EXPECT_THREADS(most) AWAIT(count_threads() <= (most))
int64_t resident_kb(void);
/* Poll a condition every millisecond; fails the test when it never holds. */
#define AWAIT(condition)                                                       \
    do {                                                                       \
        int64_t until_ = now_ms() + PATIENCE_MS;                               \
        while (!(condition)) {                                                 \
            if (now_ms() >= until_)                                            \
                FAIL_TEST("waited in vain for: %s", #condition);               \
            sleep_ms(1);                                                       \
        }                                                                      \
    } while (0)

/* ---- A thread that wants a lock ---------------------------------------- */

typedef struct waiter {
    hf_session *s;
    const char *key;
    hf_lock_options opt;
    pthread_t thread;
    atomic_uint_fast64_t self; /* its hf_owner_self() */
    atomic_bool answered;      /* hf_lock returned; the rest below is set */
    atomic_bool let_go;        /* told to release */
    atomic_int *turn;          /* counts grants, where order matters */
    int place;                 /* which grant was it */
    int code, release_code;
    uint64_t token;
    hf_hold *hold;
    hf_error error;
} waiter;

/* Start a thread in hf_lock; wait_ms 0 becomes HF_FOREVER. */
void waiter_start(waiter *w, hf_session *s, const char *key,
                  hf_lock_options opt);
/* The same; its grant is numbered by *turn. */
void waiter_start_counted(waiter *w, hf_session *s, const char *key,
                          hf_lock_options opt, atomic_int *turn);
bool waiter_answered(waiter *w);
/* Wait for the answer of its hf_lock. */
int waiter_code(waiter *w);
/* Let it release what it got and end; the answer of hf_lock. */
int waiter_finish(waiter *w);

/* Run fn(arg) on a thread of its own and wait for its end. */
void on_thread(void *(*fn)(void *), void *arg);

/* ---- A process --------------------------------------------------------- */

/* Memory that parent and children share, zeroed. */
void *shared_memory(size_t size);
/* fn(arg) in a forked child, which ends by _exit with fn's result. */
pid_t spawn(int (*fn)(void *), void *arg);
/* Its exit status; a signal is 128 + n. */
int reap(pid_t pid);
/* Steps in shared memory by which two processes take turns. */
void step_reach(atomic_int *step, int n);
void step_await(atomic_int *step, int n);

#endif
