/* crash.c - processes that are killed or stopped.
 *
 * Checks, on stores that other processes see: a killed holder and killed
 * waiters are passed over, the next has a larger token; a holder that is
 * stopped past its lease and comes back has lost the lock before any call says
 * "held"; a stopped waiter that is granted does not block the queue for ever.
 *
 * Children are forked while the parent has no session open and take turns with
 * it by steps in shared memory. */
#include "support.h"

#include <signal.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { LEASE_MS = 2500 }; /* ZooKeeper allows no less than 2000 here */

struct scene {
    atomic_int step;           /* of the child */
    atomic_int cue;            /* of the parent */
    atomic_bool rival_granted; /* set before the parent acts */
    atomic_int bad_checks;     /* "held" although the rival had it */
    atomic_int release_code;
    atomic_uint_fast64_t token;
};

static struct scene *scene;

/* Takes it and says so, then sits there. */
static int hold_for_ever(void *unused)
{
    hf_session *s = open_leased(LEASE_MS);
    hf_hold *hold = take(s, "k");

    (void)unused;
    atomic_store(&scene->token, hf_hold_token(hold));
    step_reach(&scene->step, 1);
    step_await(&scene->cue, 99);
    return 0;
}

/* A holder dies: the next has it long before a lease of half an hour, where
 * the store sees deaths; else at the end of a short one. */
static int hold_long(void *unused)
{
    hf_session *s = open_leased(mortal_lease_ms());

    (void)unused;
    atomic_store(&scene->token, hf_hold_token(take(s, "k")));
    step_reach(&scene->step, 1);
    step_await(&scene->cue, 99);
    return 0;
}

static void holder_killed(void)
{
    scene = shared_memory(sizeof(*scene));
    pid_t child = spawn(hold_long, NULL);
    step_await(&scene->step, 1);
    hf_session *s = open_store();
    waiter w;

    EXPECT_EQ((hf_session_caps(s) & HF_CAP_CRASH_AT_ONCE) != 0,
              store_sees_deaths());
    waiter_start(&w, s, "k", (hf_lock_options){HF_LOCK_OPTIONS});
    await_waiting(s, "k", 1);
    EXPECT(kill(child, SIGKILL) == 0);
    EXPECT_EQ(reap(child), 128 + SIGKILL);
    EXPECT_CODE(waiter_code(&w), 0);
    EXPECT_RISES(w.token, atomic_load(&scene->token));
    EXPECT_CODE(waiter_finish(&w), 0);
    await_empty(s);
    hf_close(s);
}

/* Also when nobody waited yet: a newcomer's try finds it free. */
static void holder_killed_then_try(void)
{
    scene = shared_memory(sizeof(*scene));
    pid_t child = spawn(hold_long, NULL);
    step_await(&scene->step, 1);
    hf_session *s = open_store();

    EXPECT_CODE(probe(s, "k"), HF_EBUSY);
    EXPECT(kill(child, SIGKILL) == 0);
    reap(child);
    AWAIT(probe(s, "k") == 0);
    await_empty(s);
    hf_close(s);
}

/* Waiters die, first, middle and several: the living are served in order. */
static int wait_in_line(void *unused)
{
    hf_session *s = open_leased(mortal_lease_ms());
    hf_hold *hold;

    (void)unused;
    hf_lock(s, "k", NULL, &hold, NULL);
    return 1; /* it was to be killed while waiting */
}

static void waiters_killed(void)
{
    enum { N = 4 };
    pid_t dying[N];

    skip_before_fork();
    scene = shared_memory(sizeof(*scene));
    pid_t holder = spawn(hold_for_ever, NULL);
    step_await(&scene->step, 1);
    for (int i = 0; i < N; i++)
        dying[i] = spawn(wait_in_line, NULL);
    hf_session *s = open_store();
    await_waiting(s, "k", N);
    waiter w;
    waiter_start(&w, s, "k", (hf_lock_options){HF_LOCK_OPTIONS});
    await_waiting(s, "k", N + 1);
    for (int i = 0; i < N; i++) {
        EXPECT(kill(dying[i], SIGKILL) == 0);
        EXPECT_EQ(reap(dying[i]), 128 + SIGKILL);
    }
    EXPECT(!waiter_answered(&w));
    EXPECT(kill(holder, SIGKILL) == 0);
    reap(holder);
    EXPECT_CODE(waiter_code(&w), 0);
    EXPECT_CODE(waiter_finish(&w), 0);
    await_empty(s);
    hf_close(s);
}

/* Stopped past its lease: another is granted; afterwards the first is told
 * LOST before any call says "held". */
static int hold_and_check(void *unused)
{
    hf_session *s = open_leased(LEASE_MS);
    hf_hold *hold = take(s, "k");

    (void)unused;
    atomic_store(&scene->token, hf_hold_token(hold));
    step_reach(&scene->step, 1);
    while (atomic_load(&scene->cue) < 1) {
        bool granted = atomic_load(&scene->rival_granted); /* asked first */
        if (hf_hold_check(hold, NULL) == 0 && granted)
            atomic_fetch_add(&scene->bad_checks, 1);
    }
    EXPECT(hf_hold_state(hold) == HF_LOST);
    EXPECT(is_readable(hf_hold_fd(hold), 0));
    atomic_store(&scene->release_code, hf_release(hold, NULL));
    /* The session serves again. */
    EXPECT_CODE(probe(s, "other"), 0);
    hf_close(s);
    return 0;
}

static void holder_stopped(void)
{
    scene = shared_memory(sizeof(*scene));
    pid_t child = spawn(hold_and_check, NULL);
    step_await(&scene->step, 1);
    hf_session *s = open_store();

    EXPECT(kill(child, SIGSTOP) == 0);
    hf_hold *hold = take(s, "k"); /* granted by expiry */
    atomic_store(&scene->rival_granted, true);
    EXPECT_RISES(hf_hold_token(hold), atomic_load(&scene->token));
    EXPECT(kill(child, SIGCONT) == 0);
    sleep_ms(300);
    step_reach(&scene->cue, 1);
    EXPECT_EQ(reap(child), 0);
    EXPECT_EQ(atomic_load(&scene->bad_checks), 0);
    EXPECT_CODE(atomic_load(&scene->release_code), HF_EEXPIRED);
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    give(hold);
    await_empty(s);
    hf_close(s);
}

/* A stop shorter than the lease costs nothing. */
static int hold_and_release(void *unused)
{
    hf_session *s = open_leased(6000);
    hf_hold *hold = take(s, "k");

    (void)unused;
    step_reach(&scene->step, 1);
    step_await(&scene->cue, 1);
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    give(hold);
    hf_close(s);
    return 0;
}

static void short_stop(void)
{
    scene = shared_memory(sizeof(*scene));
    pid_t child = spawn(hold_and_release, NULL);
    step_await(&scene->step, 1);
    hf_session *s = open_store();

    EXPECT(kill(child, SIGSTOP) == 0);
    sleep_ms(400);
    EXPECT_CODE(probe(s, "k"), HF_EBUSY);
    EXPECT(kill(child, SIGCONT) == 0);
    step_reach(&scene->cue, 1);
    EXPECT_EQ(reap(child), 0);
    EXPECT_CODE(probe(s, "k"), 0);
    hf_close(s);
}

/* A stopped waiter whose turn comes: idle for its lease at most, then the lock
 * goes on; when it runs again it is either queued anew or told. */
static int wait_stopped(void *unused)
{
    hf_session *s = open_leased(LEASE_MS);
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = PATIENCE_MS};
    hf_hold *hold = NULL;

    (void)unused;
    step_reach(&scene->step, 1);
    step_await(&scene->cue, 1);
    int code = hf_lock(s, "k", &opt, &hold, NULL);
    if (code == 0) {
        if (!atomic_load(&scene->rival_granted))
            atomic_fetch_add(&scene->bad_checks, 1);
        atomic_store(&scene->token, hf_hold_token(hold));
        EXPECT_CODE(hf_release(hold, NULL), 0);
    } else {
        EXPECT_CODE(code, HF_EEXPIRED);
    }
    hf_close(s);
    return 0;
}

static void waiter_stopped(void)
{
    skip_before_fork();
    scene = shared_memory(sizeof(*scene));
    pid_t child = spawn(wait_stopped, NULL);
    step_await(&scene->step, 1);
    hf_session *a = open_store(), *b = open_store();
    hf_hold *hold = take(a, "k");

    step_reach(&scene->cue, 1);
    await_waiting(a, "k", 1);
    EXPECT(kill(child, SIGSTOP) == 0);
    uint64_t token = hf_hold_token(hold);
    give(hold);
    hold = take(b, "k"); /* behind the stopped one */
    EXPECT_RISES(hf_hold_token(hold), token);
    atomic_store(&scene->rival_granted, true);
    EXPECT(kill(child, SIGCONT) == 0);
    sleep_ms(200);
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    token = hf_hold_token(hold);
    give(hold);
    EXPECT_EQ(reap(child), 0);
    EXPECT_EQ(atomic_load(&scene->bad_checks), 0);
    uint64_t theirs = atomic_load(&scene->token);
    EXPECT(theirs == 0 || theirs > token);
    await_empty(a);
    hf_close(a);
    hf_close(b);
}

/* A process that ends without a word (return from main after exit handlers is
 * not even tried): freed at once as well. */
static int vanish(void *unused)
{
    hf_session *s = open_leased(mortal_lease_ms());

    (void)unused;
    take(s, "k");
    if (store_has(HF_CAP_PERMIT))
        take_with(
            s, "p",
            (hf_lock_options){HF_LOCK_OPTIONS, .mode = HF_PERMIT, .places = 1});
    return 0; /* _exit */
}

static void silent_exit(void)
{
    EXPECT_EQ(reap(spawn(vanish, NULL)), 0);
    hf_session *s = open_store();

    give(take(s, "k"));
    give(take(s, "p"));
    await_empty(s);
    hf_close(s);
}

/* Tokens go on rising when every process has gone. */
static int one_grant(void *unused)
{
    hf_session *s = open_leased(mortal_lease_ms());
    hf_hold *hold = take(s, "k");

    (void)unused;
    EXPECT_RISES(hf_hold_token(hold), atomic_load(&scene->token));
    atomic_store(&scene->token, hf_hold_token(hold));
    if (atomic_load(&scene->step) % 2 == 0)
        raise(SIGKILL);
    give(hold);
    hf_close(s);
    return 0;
}

static void tokens_survive(void)
{
    skip_before_fork();
    scene = shared_memory(sizeof(*scene));
    for (int i = 0; i < 10; i++) {
        step_reach(&scene->step, i);
        EXPECT_EQ(reap(spawn(one_grant, NULL)), i % 2 == 0 ? 137 : 0);
    }
}

static const test_case cases[] = {
    TEST(holder_killed),  TEST(holder_killed_then_try),
    TEST(waiters_killed), TEST(holder_stopped),
    TEST(short_stop),     TEST(waiter_stopped),
    TEST(silent_exit),    TEST(tokens_survive),
};
RUN_ON_TARGET("crash", cases)
