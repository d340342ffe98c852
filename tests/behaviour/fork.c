/* fork.c - a child has nothing of its parent's.
 *
 * Checks the rule that after fork() the child's inherited sessions answer
 * HF_EFORKED and never touch the parent's locks: for every function, for every
 * way in which a child ends, and for a fork that falls into the middle of
 * other threads' calls.
 *
 * What the child saw comes back in shared memory, since its exit status may be
 * the sanitizer's. */
#include "support.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct family {
    hf_session *s;
    hf_hold *hold;
    hf_request *request;
    atomic_int *reached; /* the child came to its end */
};

static int list_nothing(const hf_entry_info *entry, void *user)
{
    (void)entry;
    (void)user;
    return 1;
}

static void find_nothing(hf_level level, const char *name, const char *text,
                         void *user)
{
    (void)level;
    (void)name;
    (void)text;
    (void)user;
}

static void expect_forked_session(const struct family *f)
{
    hf_hold *hold = NULL;
    hf_request *request = NULL;
    hf_result result;
    hf_stats stats;
    hf_error err = {0};

    EXPECT_CODE(hf_lock(f->s, "x", NULL, &hold, &err), HF_EFORKED);
    EXPECT(err.code == HF_EFORKED && err.text[0] != '\0');
    EXPECT_CODE(hf_lock(f->s, "k", NULL, &hold, NULL), HF_EFORKED);
    EXPECT_CODE(hf_try_lock(f->s, "x", NULL, &hold, NULL), HF_EFORKED);
    EXPECT_CODE(hf_lock_shared(f->s, "x", NULL, &hold, NULL), HF_EFORKED);
    EXPECT_CODE(hf_lock_permit(f->s, "x", 2, NULL, &hold, NULL), HF_EFORKED);
    EXPECT_CODE(hf_lock_start(f->s, "x", NULL, NULL, &request, NULL),
                HF_EFORKED);
    EXPECT_CODE(hf_cancel_owner(f->s, 7), HF_EFORKED);
    EXPECT_CODE(hf_session_fd(f->s), HF_EFORKED);
    EXPECT_CODE(hf_collect(f->s, &result), HF_EFORKED);
    EXPECT_CODE(hf_session_stats(f->s, &stats), HF_EFORKED);
    EXPECT_CODE(hf_list(f->s, NULL, list_nothing, NULL, NULL), HF_EFORKED);
    EXPECT_CODE(hf_break(f->s, "k", NULL, NULL, NULL), HF_EFORKED);
    EXPECT_CODE(hf_doctor(f->s, find_nothing, NULL, NULL), HF_EFORKED);
    EXPECT(hold == NULL && request == NULL);

    bool ran = false;
    hf_with_lock(f->s, NULL, &err, "x") {
        ran = hf_held != NULL;
    }
    EXPECT(!ran && err.code == HF_EFORKED);
}

static void expect_forked_hold(const struct family *f)
{
    hf_request *request = NULL;
    char byte;
    size_t len;

    EXPECT_CODE(hf_hold_check(f->hold, NULL), HF_EFORKED);
    EXPECT(hf_hold_state(f->hold) != HF_HELD);
    EXPECT_CODE(hf_release(f->hold, NULL), HF_EFORKED);
    EXPECT_CODE(hf_renew(f->hold, NULL), HF_EFORKED);
    EXPECT_CODE(hf_publish(f->hold, "v", 1, NULL), HF_EFORKED);
    EXPECT_CODE(hf_hold_value(f->hold, &byte, 1, &len), HF_EFORKED);
    EXPECT_CODE(hf_hold_fd(f->hold), HF_EFORKED);
    EXPECT_CODE(hf_release_start(f->hold, NULL, &request, NULL), HF_EFORKED);
    EXPECT_CODE(hf_renew_start(f->hold, NULL, &request, NULL), HF_EFORKED);
    EXPECT_CODE(hf_publish_start(f->hold, "v", 1, NULL, &request, NULL),
                HF_EFORKED);
    EXPECT(request == NULL);
    EXPECT_CODE(hf_cancel(f->request, NULL), HF_EFORKED);
    hf_hold_token(f->hold);
    EXPECT(hf_hold_remaining_ms(f->hold) >= 0);
}

static int ask_everything(void *arg)
{
    struct family *f = arg;

    expect_forked_session(f);
    expect_forked_hold(f);
    atomic_store(f->reached, 1);
    return 0;
}

static int ask_and_close(void *arg)
{
    struct family *f = arg;

    hf_close(f->s);
    EXPECT(hf_release(f->hold, NULL) != 0);
    hf_close(f->s);
    atomic_store(f->reached, 1);
    return 0;
}

/* A leak check at exit, in a child that has none of its parent's threads, may
 * wait for ever for an allocator that one of them was using.  The leak
 * sanitizer asks this before it looks; nothing else does. */
static bool child_exits;

__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return child_exits;
}

static int only_exit(void *arg)
{
    struct family *f = arg;

    child_exits = true;
    atomic_store(f->reached, 1);
    exit(0); /* with every atexit handler there is */
}

static int close_and_exit(void *arg)
{
    struct family *f = arg;

    child_exits = true;
    hf_close(f->s);
    atomic_store(f->reached, 1);
    exit(0);
}

static int die_hard(void *arg)
{
    struct family *f = arg;

    atomic_store(f->reached, 1);
    raise(SIGKILL);
    return 1;
}

static int become_another(void *arg)
{
    struct family *f = arg;

    atomic_store(f->reached, 1);
    execl("/bin/true", "true", (char *)NULL);
    return 1;
}

/* The request for "busy" waits as before: the store says so or, where waiting
 * is in no store, our session. */
static void expect_waiting(hf_session *s, hf_session *rival)
{
    hf_stats stats;
    hf_result result;

    if (store_has(HF_CAP_FIFO))
        EXPECT(count_entries(rival, "busy").waiting == 1);
    EXPECT_CODE(hf_session_stats(s, &stats), 0);
    EXPECT_EQ(stats.waiters, 1);
    EXPECT_EQ(hf_collect(s, &result), 0);
}

/* Let a child do this; afterwards the parent has all it had. */
static void with_child(int (*child)(void *))
{
    hf_session *s = open_leased(2000), *rival = open_store();
    hf_lock_options wait = {HF_LOCK_OPTIONS, .wait_ms = HF_FOREVER};
    struct family f = {.s = s, .hold = take(s, "k")};
    uint64_t token = hf_hold_token(f.hold);
    hf_hold *busy = take(rival, "busy");
    hf_result result;

    f.reached = shared_memory(sizeof(*f.reached));
    EXPECT_CODE(hf_lock_start(s, "busy", &wait, NULL, &f.request, NULL), 0);
    await_waiting(rival, "busy", 1);
    reap(spawn(child, &f));
    EXPECT_EQ(atomic_load(f.reached), 1);

    EXPECT_CODE(hf_hold_check(f.hold, NULL), 0);
    EXPECT_CODE(hf_renew(f.hold, NULL), 0);
    EXPECT(hf_hold_token(f.hold) == token);
    EXPECT_CODE(probe(rival, "k"), HF_EBUSY);
    expect_waiting(s, rival);
    give(busy);
    EXPECT(is_readable(hf_session_fd(s), PATIENCE_MS));
    EXPECT_EQ(hf_collect(s, &result), 1);
    EXPECT_CODE(result.error.code, 0);
    give(result.hold);
    give(f.hold);
    EXPECT_CODE(probe(rival, "k"), 0);
    hf_close(s);
    await_empty(rival);
    hf_close(rival);
}

static void every_function(void)
{
    with_child(ask_everything);
}

static void close_in_child(void)
{
    with_child(ask_and_close);
}

static void exit_in_child(void)
{
    with_child(only_exit);
}

static void close_and_exit_in_child(void)
{
    with_child(close_and_exit);
}

static void killed_child(void)
{
    with_child(die_hard);
}

static void exec_in_child(void)
{
    with_child(become_another);
}

/* The parent's lease goes on being renewed while a child lives. */
static int linger(void *arg)
{
    step_await(arg, 1);
    return 0;
}

static void parent_is_renewed(void)
{
    hf_session *s = open_leased(brief_lease_ms()), *rival = open_store();
    hf_hold *hold = take(s, "k");
    atomic_int *step = shared_memory(sizeof(*step));
    pid_t child = spawn(linger, step);
    int64_t until = now_ms() + brief_lease_ms() * 5 / 2;

    while (now_ms() < until) {
        EXPECT_CODE(hf_hold_check(hold, NULL), 0);
        EXPECT_CODE(probe(rival, "k"), HF_EBUSY);
        sleep_ms(50);
    }
    step_reach(step, 1);
    EXPECT_EQ(reap(child), 0);
    give(hold);
    hf_close(s);
    hf_close(rival);
}

/* ---- A fork in the middle of everything -------------------------------- */

static atomic_bool stop;
static uint64_t last_token; /* guarded by the lock */

static void *hammer(void *arg)
{
    while (!atomic_load(&stop)) {
        hf_hold *hold = take(arg, "k");
        EXPECT_RISES(hf_hold_token(hold), last_token);
        last_token = hf_hold_token(hold);
        give(hold);
    }
    return NULL;
}

static int ask_a_little(void *arg)
{
    hf_hold *hold = NULL;

    EXPECT_CODE(hf_lock(arg, "k", NULL, &hold, NULL), HF_EFORKED);
    hf_close(arg);
    return 0;
}

static void fork_under_load(void)
{
    hf_session *s = open_store();
    pthread_t threads[3];

    for (int i = 0; i < 3; i++)
        EXPECT(pthread_create(&threads[i], NULL, hammer, s) == 0);
    for (int i = 0; i < 40; i++) {
        EXPECT_EQ(reap(spawn(ask_a_little, s)), 0);
        sleep_ms(i % 3);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 3; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    await_empty(s);
    hf_close(s);
}

/* ---- The child opens its own ------------------------------------------- */

#if CHILD_IS_WHOLE
static int open_own(void *arg)
{
    struct family *f = arg;
    hf_session *own = open_store();

    if (store_is_shared())
        EXPECT_CODE(probe(own, "k"), HF_EBUSY);
    hf_hold *hold = take(own, "child's");
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    EXPECT_CODE(hf_hold_check(f->hold, NULL), HF_EFORKED);
    give(hold);
    hf_close(f->s);
    EXPECT_CODE(probe(own, "child's"), 0);
    hf_close(own);
    atomic_store(f->reached, 1);
    return 0;
}

static void own_session(void)
{
    with_child(open_own);
}
#endif

static const test_case cases[] = {
    TEST(every_function),    TEST(close_in_child),
    TEST(exit_in_child),     TEST(close_and_exit_in_child),
    TEST(killed_child),      TEST(exec_in_child),
    TEST(parent_is_renewed), TEST(fork_under_load),
#if CHILD_IS_WHOLE
    TEST(own_session),
#endif
};
RUN_ON_TARGET("fork", cases)
