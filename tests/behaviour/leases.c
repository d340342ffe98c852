/* leases.c - holds that end by the clock.
 *
 * Checks on every store: lease_ms (ends then, renewed only by hf_renew, and
 * outlives the process), at_most_ms (a renewed hold is lost after this long)
 * and at_least_ms (stays taken this long, even if released).
 *
 * Clocks are only asserted in the direction that is promised: never early for
 * the rival, never "held" once the rival could have it. */
#include "support.h"

#include <string.h>

/* What a clock that is read in milliseconds may be off. */
enum { MARGIN_MS = 10 };

static hf_lock_options leased(int64_t ms)
{
    return (hf_lock_options){HF_LOCK_OPTIONS, .lease_ms = ms};
}

/* Until the rival gets it; the time that took. */
static int64_t until_free(hf_session *rival, const char *key, int64_t since)
{
    hf_hold *hold = take(rival, key);
    int64_t took = now_ms() - since;

    give(hold);
    return took;
}

static void need_fixed_leases(hf_session *s)
{
    if ((hf_session_caps(s) & HF_CAP_FIXED_LEASE) == 0)
        FAIL_TEST("%s lacks HF_CAP_FIXED_LEASE", test_target());
}

/* lease_ms > 0: ends then, though the process lives and the session is
 * renewed; the owner is told first. */
static void fixed_lease_ends(void)
{
    hf_session *s = open_store(), *rival = open_store();
    int64_t start = now_ms();
    hf_hold *hold = take_with(s, "k", leased(1000));

    need_fixed_leases(s);
    EXPECT(hf_hold_remaining_ms(hold) <= 1000);
    EXPECT(hf_hold_remaining_ms(hold) > 0);
    int fd = hf_hold_fd(hold);
    EXPECT(fd >= 0);
    EXPECT_CODE(probe(rival, "k"), HF_EBUSY);
    hf_hold *other = take(rival, "k");
    /* Granted to another: the first must have been told before. */
    EXPECT_CODE(hf_hold_check(hold, NULL), HF_EEXPIRED);
    EXPECT(hf_hold_state(hold) == HF_LOST);
    EXPECT(is_readable(fd, 0));
    EXPECT(hf_hold_remaining_ms(hold) == 0);
    EXPECT(now_ms() - start >= 1000 - MARGIN_MS);
    EXPECT_RISES(hf_hold_token(other), hf_hold_token(hold));
    EXPECT_CODE(hf_renew(hold, NULL), HF_EEXPIRED);
    EXPECT_CODE(hf_release(hold, NULL), HF_EEXPIRED);
    EXPECT_CODE(hf_release(hold, NULL), HF_ENOTHELD);
    EXPECT_CODE(hf_hold_check(other, NULL), 0);
    give(other);
    hf_close(s);
    hf_close(rival);
}

/* hf_renew lengthens a fixed lease by its lease_ms. */
static void renew_extends(void)
{
    hf_session *s = open_store(), *rival = open_store();
    int64_t start = now_ms();
    hf_hold *hold = take_with(s, "k", leased(1500));
    uint64_t token = hf_hold_token(hold);

    while (now_ms() - start < 3500) {
        sleep_ms(400);
        EXPECT_CODE(hf_renew(hold, NULL), 0);
        EXPECT(hf_hold_remaining_ms(hold) <= 1500);
        EXPECT_CODE(hf_hold_check(hold, NULL), 0);
        EXPECT_CODE(probe(rival, "k"), HF_EBUSY);
    }
    EXPECT(hf_hold_token(hold) == token);
    int64_t last = now_ms();
    EXPECT_CODE(hf_renew(hold, NULL), 0);
    EXPECT(until_free(rival, "k", last) >= 1500 - MARGIN_MS);
    EXPECT_CODE(hf_release(hold, NULL), HF_EEXPIRED);
    hf_close(s);
    hf_close(rival);
}

/* Released in time it is free at once, and that was all right. */
static void fixed_lease_released(void)
{
    hf_session *s = open_store(), *rival = open_store();
    hf_hold *hold = take_with(s, "k", leased(20000));

    EXPECT_CODE(probe(rival, "k"), HF_EBUSY);
    give(hold);
    EXPECT_CODE(probe(rival, "k"), 0);
    hf_close(s);
    hf_close(rival);
}

/* Granted after a wait, the lease starts with the grant, not with the call. */
static void fixed_lease_after_wait(void)
{
    hf_session *s = open_store(), *rival = open_store();
    hf_hold *first = take(rival, "k");
    waiter w;

    waiter_start(&w, s, "k", leased(2000));
    await_waiting(rival, "k", 1);
    sleep_ms(2500);
    EXPECT(!waiter_answered(&w));
    int64_t given = now_ms();
    give(first);
    EXPECT_CODE(waiter_code(&w), 0);
    int64_t left = hf_hold_remaining_ms(w.hold);
    EXPECT(left > 0 && left <= 2000);
    EXPECT(until_free(rival, "k", given) >= 2000 - MARGIN_MS);
    EXPECT_CODE(waiter_finish(&w), 0);
    EXPECT_CODE(w.release_code, HF_EEXPIRED);
    hf_close(s);
    hf_close(rival);
}

/* It outlives the process: the child is gone, its lock is not. */
struct child_lease {
    atomic_int step;
    int64_t taken_at;
    uint64_t token;
};

static int take_and_die(void *arg)
{
    struct child_lease *c = arg;
    hf_session *s = open_leased(mortal_lease_ms());

    c->taken_at = now_ms();
    c->token = hf_hold_token(take_with(s, "k", leased(4000)));
    take(s, "ordinary");
    step_reach(&c->step, 1);
    return 0; /* by _exit: nothing is closed */
}

static void outlives_process(void)
{
    struct child_lease *c = shared_memory(sizeof(*c));

    skip_before_fork();
    pid_t child = spawn(take_and_die, c);

    EXPECT_EQ(reap(child), 0);
    EXPECT_EQ(atomic_load(&c->step), 1);
    hf_session *s = open_store();
    hf_hold *ordinary = take(s, "ordinary"); /* freed by the death */
    EXPECT_CODE(probe(s, "k"), HF_EBUSY);
    give(ordinary);
    hf_hold *hold = take(s, "k");
    EXPECT(now_ms() - c->taken_at >= 3990);
    EXPECT_RISES(hf_hold_token(hold), c->token);
    give(hold);
    hf_close(s);
}

/* at_most_ms > 0: a renewed hold is lost after this long. */
static void at_most(void)
{
    hf_session *s = open_leased(2000), *rival = open_store();
    hf_lock_options opt = {HF_LOCK_OPTIONS, .at_most_ms = 700};
    int64_t start = now_ms();
    hf_hold *hold = take_with(s, "k", opt), *plain = take(s, "plain");

    EXPECT(hf_hold_remaining_ms(hold) <= 700);
    int fd = hf_hold_fd(hold);
    hf_hold *other = take(rival, "k");
    EXPECT_CODE(hf_hold_check(hold, NULL), HF_EEXPIRED);
    EXPECT(hf_hold_state(hold) == HF_LOST && is_readable(fd, 0));
    EXPECT(now_ms() - start >= 700 - MARGIN_MS);
    EXPECT_CODE(hf_release(hold, NULL), HF_EEXPIRED);
    give(other);
    /* Only this hold ends; the session goes on. */
    sleep_ms(2000);
    EXPECT_CODE(hf_hold_check(plain, NULL), 0);
    give(plain);
    hf_close(s);
    hf_close(rival);
}

/* at_least_ms > 0: stays taken this long, even if released. */
static void at_least(void)
{
    hf_session *s = open_store(), *rival = open_store();
    hf_lock_options opt = {HF_LOCK_OPTIONS, .at_least_ms = 800};
    int64_t start = now_ms();
    hf_hold *hold = take_with(s, "k", opt);
    uint64_t token = hf_hold_token(hold);

    give(hold);
    EXPECT_CODE(hf_hold_check(hold, NULL), HF_ENOTHELD);
    EXPECT_CODE(probe(rival, "k"), HF_EBUSY);
    EXPECT_CODE(probe(s, "k"), HF_EBUSY);
    census c = count_entries(rival, "k");
    EXPECT_EQ(c.closed, 1);
    hold = take(rival, "k");
    EXPECT(now_ms() - start >= 790);
    EXPECT_RISES(hf_hold_token(hold), token);
    give(hold);
    EXPECT_CODE(probe(s, "k"), 0);
    hf_close(s);
    hf_close(rival);
}

/* Held longer than that anyway: free at once. */
static void at_least_is_over(void)
{
    hf_session *s = open_store(), *rival = open_store();
    hf_lock_options opt = {HF_LOCK_OPTIONS, .at_least_ms = 100};
    hf_hold *hold = take_with(s, "k", opt);

    sleep_ms(150);
    give(hold);
    EXPECT_CODE(probe(rival, "k"), 0);
    hf_close(s);
    hf_close(rival);
}

/* The closed entry needs no session: it stays when that is closed. */
static void at_least_outlives_session(void)
{
    hf_session *s = open_store(), *rival = open_store();
    hf_lock_options opt = {HF_LOCK_OPTIONS, .at_least_ms = 1000};
    int64_t start = now_ms();

    give(take_with(s, "k", opt));
    hf_close(s);
    EXPECT_CODE(probe(rival, "k"), HF_EBUSY);
    EXPECT(until_free(rival, "k", start) >= 990);
    hf_close(rival);
}

/* A waiting thread of the same session waits for it too. */
static void at_least_holds_back_threads(void)
{
    hf_session *s = open_store();
    hf_lock_options opt = {HF_LOCK_OPTIONS, .at_least_ms = 600};
    int64_t start = now_ms();
    hf_hold *hold = take_with(s, "k", opt);
    waiter w;

    waiter_start(&w, s, "k", (hf_lock_options){HF_LOCK_OPTIONS});
    await_waiters(s, 1);
    give(hold);
    EXPECT_CODE(waiter_code(&w), 0);
    EXPECT(now_ms() - start >= 590);
    EXPECT_CODE(waiter_finish(&w), 0);
    hf_close(s);
}

static const test_case cases[] = {
    TEST(fixed_lease_ends),
    TEST(renew_extends),
    TEST(fixed_lease_released),
    TEST(fixed_lease_after_wait),
    TEST(at_most),
    TEST(at_least),
    TEST(at_least_is_over),
    TEST(at_least_outlives_session),
    TEST(at_least_holds_back_threads),
    TEST(outlives_process),
};
RUN_ON_TARGET_SHARED("leases", cases, 1)
