/* scope.c - hf_with_lock: a body that runs only while the lock is held.
 *
 * Checks on every store that the lock is released on every way out of the body
 * (its end, break, continue, goto, return, a nested one), that the body does
 * not run when the lock was not taken, and what err says afterwards. */
#include "support.h"

#include <string.h>

static hf_session *s, *rival;

static void open_both(void)
{
    s = open_store();
    rival = open_store();
}

static void close_both(void)
{
    hf_close(s);
    hf_close(rival);
}

/* Held inside, under the formatted key; free afterwards; err.code 0. */
static void falls_out(void)
{
    hf_error err = {.code = 77};
    int ran = 0;

    open_both();
    hf_with_lock(s, NULL, &err, "/invoice/pay/%d", 4587) {
        ran++;
        EXPECT(hf_held != NULL);
        EXPECT_RISES(hf_hold_token(hf_held), 0);
        EXPECT_CODE(hf_hold_check(hf_held, NULL), 0);
        EXPECT_CODE(probe(rival, "/invoice/pay/4587"), HF_EBUSY);
    }
    EXPECT_EQ(ran, 1);
    EXPECT_EQ(err.code, 0);
    EXPECT_CODE(probe(rival, "/invoice/pay/4587"), 0);
    close_both();
}

static int leave_by_return(hf_error *err)
{
    hf_with_lock(s, NULL, err, "k%s", "") {
        EXPECT_CODE(probe(rival, "k"), HF_EBUSY);
        return 5;
    }
    return 6;
}

/* break, continue, return, goto. */
static void other_ways_out(void)
{
    hf_error err = {0};
    int ran = 0;

    open_both();
    hf_with_lock(s, NULL, &err, "k") {
        ran++;
        if (ran == 1)
            break;
        ran += 100;
    }
    EXPECT_EQ(ran, 1);
    EXPECT_CODE(probe(rival, "k"), 0);
    hf_with_lock(s, NULL, &err, "k") {
        ran++;
        if (ran == 2)
            continue;
        ran += 100;
    }
    EXPECT_EQ(ran, 2);
    EXPECT_CODE(probe(rival, "k"), 0);
    EXPECT_EQ(leave_by_return(&err), 5);
    EXPECT_EQ(err.code, 0);
    EXPECT_CODE(probe(rival, "k"), 0);
    hf_with_lock(s, NULL, &err, "k") {
        EXPECT_CODE(probe(rival, "k"), HF_EBUSY);
        goto out;
    }
    EXPECT(!"reached");
out:
    EXPECT_EQ(err.code, 0);
    EXPECT_CODE(probe(rival, "k"), 0);
    close_both();
}

/* Nested, on another key and on the same one (re-entry).  That the inner
 * hf_held hides the outer one is meant. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
static void nested(void)
{
    hf_error outer = {0}, inner = {0};
    int ran = 0;

    open_both();
    hf_with_lock(s, NULL, &outer, "a") {
        uint64_t token = hf_hold_token(hf_held);
        hf_with_lock(s, NULL, &inner, "b") {
            EXPECT_CODE(probe(rival, "a"), HF_EBUSY);
            EXPECT_CODE(probe(rival, "b"), HF_EBUSY);
            ran++;
        }
        EXPECT_CODE(probe(rival, "b"), 0);
        hf_with_lock(s, NULL, &inner, "a") {
            EXPECT(hf_hold_token(hf_held) == token);
            ran++;
        }
        EXPECT_CODE(probe(rival, "a"), HF_EBUSY);
        EXPECT_CODE(hf_hold_check(hf_held, NULL), 0);
    }
    EXPECT_EQ(ran, 2);
    EXPECT(outer.code == 0 && inner.code == 0);
    EXPECT_CODE(probe(rival, "a"), 0);
    close_both();
}
#pragma GCC diagnostic pop

/* Not granted: the body does not run, err says why. */
static void not_granted(void)
{
    hf_lock_options try_it = {HF_LOCK_OPTIONS, .wait_ms = 0};
    hf_lock_options soon = {HF_LOCK_OPTIONS, .wait_ms = 30};
    hf_error err = {0};

    open_both();
    hf_hold *hold = take(rival, "k");
    hf_with_lock(s, &try_it, &err, "k") {
        EXPECT(!"reached");
    }
    EXPECT_EQ(err.code, HF_EBUSY);
    hf_with_lock(s, &soon, &err, "k") {
        EXPECT(!"reached");
    }
    EXPECT_EQ(err.code, HF_ETIMEDOUT);
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    give(hold);
    hf_with_lock(s, &try_it, &err, "k") {
        EXPECT_CODE(hf_hold_check(hf_held, NULL), 0);
    }
    EXPECT_EQ(err.code, 0);
    close_both();
}

/* The options count: shared with shared. */
static void with_options(void)
{
    hf_lock_options shared = {HF_LOCK_OPTIONS, .mode = HF_SHARED};
    hf_error err = {0};
    int ran = 0;

    open_both();
    hf_hold *hold = take_with(rival, "k", shared);
    hf_with_lock(s, &shared, &err, "k") {
        ran++;
    }
    EXPECT(ran == 1 && err.code == 0);
    give(hold);
    close_both();
}

/* A loop around it: break leaves the lock, not the loop. */
static void in_a_loop(void)
{
    hf_error err = {0};
    int ran = 0;

    open_both();
    for (int i = 0; i < 5; i++) {
        hf_with_lock(s, NULL, &err, "k%d", i % 2) {
            ran++;
            break;
        }
        EXPECT_EQ(err.code, 0);
    }
    EXPECT_EQ(ran, 5);
    await_empty(rival);
    close_both();
}

/* Lost in the body: err says how. */
static void lost_inside(void)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = PATIENCE_MS,
                           .at_most_ms = 400};
    hf_error err = {0};

    open_both();
    hf_with_lock(s, &opt, &err, "k") {
        AWAIT(hf_hold_state(hf_held) == HF_LOST);
    }
    EXPECT_EQ(err.code, HF_EEXPIRED);
    EXPECT(err.text[0] != '\0');
    close_both();
}

/* Keys that are none: a NUL that the format put in, empty, too long. */
static void bad_keys(void)
{
    static const char nothing[] = "";
    hf_error err = {0};
    char longest[HF_KEY_MAX + 2];
    int ran = 0;

    open_both();
    hf_with_lock(s, NULL, &err, "a%cb", 0) {
        EXPECT(!"reached");
    }
    EXPECT_EQ(err.code, HF_EINVAL);
    err.code = 0;
    hf_with_lock(s, NULL, &err, "%s", nothing) {
        EXPECT(!"reached");
    }
    EXPECT_EQ(err.code, HF_EINVAL);
    memset(longest, 'x', sizeof(longest));
    longest[HF_KEY_MAX + 1] = '\0';
    err.code = 0;
    hf_with_lock(s, NULL, &err, "%s", longest) {
        EXPECT(!"reached");
    }
    EXPECT_EQ(err.code, HF_EINVAL);
    longest[HF_KEY_MAX] = '\0';
    hf_with_lock(s, NULL, &err, "%s", longest) {
        ran++;
    }
    EXPECT(ran == 1 && err.code == 0);
    await_empty(rival);
    close_both();
}

/* Released by hand inside the body: the way out does no harm. */
static void released_inside(void)
{
    hf_error err = {0};

    open_both();
    hf_with_lock(s, NULL, &err, "k") {
        give(hf_held);
        hf_hold *other = take(rival, "k");
        EXPECT_CODE(hf_hold_check(other, NULL), 0);
        give(other);
    }
    EXPECT_CODE(probe(rival, "k"), 0);
    close_both();
}

static const test_case cases[] = {
    TEST(falls_out),   TEST(other_ways_out), TEST(nested),
    TEST(not_granted), TEST(with_options),   TEST(in_a_loop),
    TEST(lost_inside), TEST(bad_keys),       TEST(released_inside),
};
RUN_ON_TARGET("scope", cases)
