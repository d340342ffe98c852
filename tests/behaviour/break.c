/* break.c - an operator takes a lock away.
 *
 * Checks hf_break on every store that can do it (HF_CAP_BREAK; the others
 * answer HF_ENOTSUP): the owner is told HF_EFORCED by state, descriptor,
 * callback and release; without `now` nobody else is granted before the owner
 * was told; the next token is larger; and only what was named is broken.
 *
 * A store that cannot mark a break (support.h) passes the lock on at once, and
 * its owner learns of it from the next renewal, as of an expiry. */
#include "support.h"

#include <string.h>

static hf_session *owner, *operator_;

static bool open_both(void)
{
    owner = open_leased(2000);
    operator_ = open_store();
    if ((hf_session_caps(operator_) & HF_CAP_BREAK) != 0)
        return true;
    uint32_t broken = 77;
    EXPECT_CODE(hf_break(operator_, "k", NULL, &broken, NULL), HF_ENOTSUP);
    EXPECT_EQ(broken, 77);
    hf_close(owner);
    hf_close(operator_);
    return false;
}

static void close_both(void)
{
    hf_close(owner);
    hf_close(operator_);
}

static uint32_t break_key(const char *key, uint64_t token, bool now)
{
    hf_break_options opt = {HF_BREAK_OPTIONS, .token = token, .now = now};
    uint32_t broken = 99;
    hf_error err;

    EXPECT_OK(hf_break(operator_, key, &opt, &broken, &err), err);
    return broken;
}

static void note_reason(hf_hold *hold, hf_state state, int reason, void *user)
{
    (void)hold;
    if (state == HF_LOST)
        atomic_store((atomic_int *)user, reason);
}

static void expect_forced(hf_hold *hold, int fd, atomic_int *reason)
{
    EXPECT(is_readable(fd, PATIENCE_MS));
    EXPECT(hf_hold_state(hold) == HF_LOST);
    EXPECT_CODE(hf_hold_check(hold, NULL), broken_code());
    AWAIT(atomic_load(reason) != 0);
    EXPECT_CODE(atomic_load(reason), broken_code());
}

/* Graceful: marked, the owner is told, then the next is granted. */
static void graceful(void)
{
    atomic_int reason = 0;
    waiter w;

    if (!open_both())
        return;
    hf_hold *hold =
        take_with(owner, "k",
                  (hf_lock_options){HF_LOCK_OPTIONS, .on_change = note_reason,
                                    .user = &reason});
    hf_hold *kept = take(owner, "kept");
    int fd = hf_hold_fd(hold);
    waiter_start(&w, operator_, "k", (hf_lock_options){HF_LOCK_OPTIONS});
    await_waiting(operator_, "k", 1);
    EXPECT_EQ(break_key("k", 0, false), 1);
    while (!waiter_answered(&w))
        sleep_ms(1);
    /* Granted: so the owner has been told before. */
    if (store_marks_breaks())
        EXPECT(hf_hold_check(hold, NULL) != 0);
    expect_forced(hold, fd, &reason);
    EXPECT_CODE(waiter_code(&w), 0);
    EXPECT_RISES(w.token, hf_hold_token(hold));
    EXPECT_CODE(hf_release(hold, NULL), broken_code());
    EXPECT_CODE(hf_release(hold, NULL), HF_ENOTHELD);
    EXPECT_CODE(hf_hold_check(kept, NULL), 0);
    EXPECT_CODE(waiter_finish(&w), 0);
    EXPECT_CODE(w.release_code, 0);
    give(kept);
    close_both();
}

/* Now: passed on at once; the old owner hears of it, its token is smaller. */
static void at_once(void)
{
    atomic_int reason = 0;
    waiter w;

    if (!open_both())
        return;
    hf_hold *hold =
        take_with(owner, "k",
                  (hf_lock_options){HF_LOCK_OPTIONS, .on_change = note_reason,
                                    .user = &reason});
    int fd = hf_hold_fd(hold);
    waiter_start(&w, operator_, "k", (hf_lock_options){HF_LOCK_OPTIONS});
    await_waiting(operator_, "k", 1);
    EXPECT_EQ(break_key("k", 0, true), 1);
    EXPECT_CODE(waiter_code(&w), 0);
    EXPECT_RISES(w.token, hf_hold_token(hold));
    expect_forced(hold, fd, &reason);
    EXPECT_CODE(hf_release(hold, NULL), broken_code());
    EXPECT_CODE(hf_hold_check(w.hold, NULL), 0);
    EXPECT_CODE(waiter_finish(&w), 0);
    EXPECT_CODE(w.release_code, 0);
    close_both();
}

/* Released before the news came: the release itself brings it. */
static void release_brings_news(void)
{
    if (!open_both())
        return;
    hf_hold *hold = take(owner, "k");
    EXPECT_EQ(break_key("k", 0, true), 1);
    int code = hf_release(hold, NULL);
    EXPECT_CODE(code, broken_code());
    EXPECT_CODE(probe(operator_, "k"), 0);
    close_both();
}

/* Renewing asks the store now, and it knows. */
static void renew_brings_news(void)
{
    if (!open_both())
        return;
    hf_hold *hold = take(owner, "k");
    EXPECT_EQ(break_key("k", 0, true), 1);
    EXPECT_CODE(hf_renew(hold, NULL), broken_code());
    EXPECT(hf_hold_state(hold) == HF_LOST);
    EXPECT_CODE(hf_release(hold, NULL), broken_code());
    close_both();
}

/* hf_lock answers the lost code until the broken hold is released. */
static void owner_must_release(void)
{
    hf_hold *again = NULL;

    if (!open_both())
        return;
    hf_hold *hold = take(owner, "k");
    EXPECT_EQ(break_key("k", 0, false), 1);
    AWAIT(hf_hold_state(hold) == HF_LOST);
    EXPECT_CODE(hf_try_lock(owner, "k", NULL, &again, NULL), broken_code());
    EXPECT_CODE(hf_release(hold, NULL), broken_code());
    give(take(owner, "k"));
    close_both();
}

/* Nobody holds it: 0, and that is success. */
static void nothing_to_break(void)
{
    if (!open_both())
        return;
    EXPECT_EQ(break_key("k", 0, false), 0);
    EXPECT_EQ(break_key("k", 0, true), 0);
    EXPECT_EQ(break_key("k", 12345, true), 0);
    EXPECT_CODE(hf_break(operator_, "k", NULL, NULL, NULL), 0);
    EXPECT_CODE(hf_break(operator_, "", NULL, NULL, NULL), HF_EINVAL);
    EXPECT_CODE(hf_break(operator_, NULL, NULL, NULL, NULL), HF_EINVAL);
    give(take(owner, "k"));
    close_both();
}

/* Only the hold with this token. */
static void by_token(void)
{
    hf_lock_options permit = {HF_LOCK_OPTIONS, .mode = HF_PERMIT, .places = 3};

    if (!open_both())
        return;
    hf_hold *a = take_with(owner, "k", permit);
    hf_hold *b = take_with(owner, "k", permit);
    hf_hold *c = take_with(operator_, "k", permit);
    EXPECT_EQ(break_key("k", hf_hold_token(c) + 1000000, true), 0);
    EXPECT_EQ(break_key("k", hf_hold_token(b), true), 1);
    AWAIT(hf_hold_state(b) == HF_LOST);
    EXPECT_CODE(hf_hold_check(b, NULL), broken_code());
    EXPECT_CODE(hf_hold_check(a, NULL), 0);
    EXPECT_CODE(hf_hold_check(c, NULL), 0);
    EXPECT_CODE(hf_release(b, NULL), broken_code());
    give(a);
    give(c);
    close_both();
}

/* Every holder: all that share it. */
static void all_sharers(void)
{
    hf_lock_options shared = {HF_LOCK_OPTIONS, .mode = HF_SHARED};

    if (!open_both())
        return;
    hf_session *third = open_leased(2000);
    hf_hold *a = take_with(owner, "k", shared);
    hf_hold *b = take_with(third, "k", shared);
    EXPECT_EQ(break_key("k", 0, true), 2);
    EXPECT_CODE(probe(operator_, "k"), 0);
    AWAIT(hf_hold_state(a) == HF_LOST && hf_hold_state(b) == HF_LOST);
    EXPECT_CODE(hf_release(a, NULL), broken_code());
    EXPECT_CODE(hf_release(b, NULL), broken_code());
    hf_close(third);
    close_both();
}

/* What at_least_ms or a fixed lease keeps without an owner can be broken. */
static void orphans(void)
{
    if (!open_both())
        return;
    give(take_with(owner, "k",
                   (hf_lock_options){HF_LOCK_OPTIONS, .at_least_ms = 60000}));
    EXPECT_CODE(probe(operator_, "k"), HF_EBUSY);
    EXPECT_EQ(break_key("k", 0, true), 1);
    EXPECT_CODE(probe(operator_, "k"), 0);
    close_both();
}

/* One's own lock, and from the same session. */
static void own_hold(void)
{
    if (!open_both())
        return;
    hf_hold *hold = take(operator_, "k");
    EXPECT_EQ(break_key("k", 0, true), 1);
    if (!store_marks_breaks()) /* the renewal, sooner than by itself */
        EXPECT_CODE(hf_renew(hold, NULL), broken_code());
    AWAIT(hf_hold_state(hold) == HF_LOST);
    EXPECT_CODE(hf_release(hold, NULL), broken_code());
    EXPECT_CODE(probe(owner, "k"), 0);
    close_both();
}

static const test_case cases[] = {
    TEST(graceful),
    TEST(at_once),
    TEST(release_brings_news),
    TEST(renew_brings_news),
    TEST(owner_must_release),
    TEST(nothing_to_break),
    TEST(by_token),
    TEST(all_sharers),
    TEST(orphans),
    TEST(own_hold),
};
RUN_ON_TARGET("break", cases)
