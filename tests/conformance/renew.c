/* renew.c - HF_OP_ATTACH and HF_OP_RENEW: a session, and what is left of it.
 *
 * A renewal extends what lives and creates nothing; `remaining` is what the
 * store has left for the session, from which the core computes its own end. */
#include "suite.h"

static void renew_extends(void)
{
    int lease = the_target->quirks.lease_min_ms;
    party *a = party_open(lease);
    hf_place held = make_place("k", HF_EXCLUSIVE);
    long long end = test_now_ms() + 2 * lease;

    must_hold(a, &held);
    while (test_now_ms() < end) {
        test_sleep_ms(lease / 4);
        EXPECT_CODE(party_renew(a, lease), 0);
    }
    EXPECT_CODE(recheck(a, &held), 0);
    EXPECT_EQ(held.verdict, HF_GRANTED);
    must_leave(a, &held);
    party_close(a);
}

/* An answer that says what is left of the session never says more than there
 * is; that of a join may say nothing. */
static void remaining_counts_down(void)
{
    party *a = party_open(LONG_MS);
    hf_place held = make_place("k", HF_EXCLUSIVE);
    hf_op op = make_op(a, HF_OP_JOIN);
    hf_nsec first;

    op.place = &held;
    run_op(a, &op);
    EXPECT_CODE(op.error.code, 0);
    hfd_free(held.seats);
    held.seats = NULL;
    first = op.remaining;
    EXPECT(first >= 0 && first <= HF_MS(LONG_MS));
    test_sleep_ms(50);
    op = make_op(a, HF_OP_RENEW);
    op.ttl = HF_MS(LONG_MS);
    run_op(a, &op);
    EXPECT(op.remaining > first && op.remaining <= HF_MS(LONG_MS));
    must_leave(a, &held);
    party_close(a);
}

static void renew_of_a_stranger_creates_nothing(void)
{
    party *a = party_open(LONG_MS);
    hf_op op = make_op(a, HF_OP_RENEW);

    op.sid = make_rid();
    op.ttl = HF_MS(LONG_MS);
    run_op(a, &op);
    EXPECT_CODE(op.error.code, HF_EEXPIRED);
    run_op(a, &op);
    EXPECT_CODE(op.error.code, HF_EEXPIRED);
    party_close(a);
}

/* A lost answer: the same session again. */
static void attach_again_is_the_same_session(void)
{
    party *a = party_open(LONG_MS);
    hf_place held = make_place("k", HF_EXCLUSIVE);
    hf_op op = make_op(a, HF_OP_ATTACH);

    must_hold(a, &held);
    op.ttl = HF_MS(LONG_MS);
    op.text = "again";
    op.text_len = 5;
    run_op(a, &op);
    EXPECT_CODE(op.error.code, 0);
    EXPECT_CODE(recheck(a, &held), 0);
    EXPECT_EQ(held.verdict, HF_GRANTED);
    party_detach(a); /* it is one session: this ends all of it */
    EXPECT_EQ(count_entries(a), 0);
    party_drop(a);
}

/* One store may speak for one session after another. */
static void attach_anew_after_detach(void)
{
    party *a = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place two = make_place("k", HF_EXCLUSIVE);

    must_hold(a, &one);
    party_detach(a);
    party_attach(a, LONG_MS);
    EXPECT_CODE(recheck(a, &one), 0);
    EXPECT_EQ(one.verdict, HF_GONE);
    must_hold(a, &two);
    EXPECT_RISES(a, two.token, one.token);
    must_leave(a, &two);
    party_close(a);
}

const test_case renew_tests[] = {TEST(renew_extends),
                                 TEST(remaining_counts_down),
                                 TEST(renew_of_a_stranger_creates_nothing),
                                 TEST(attach_again_is_the_same_session),
                                 TEST(attach_anew_after_detach),
                                 {NULL, NULL, 0}};
