/* leave.c - HF_OP_LEAVE and HF_OP_DETACH: going, once, and who comes next.
 *
 * A leave repeated says that it was gone; a tomb keeps a late join from coming
 * to life; a detach takes all entries of its session and nobody else's. */
#include "suite.h"

static void leave_again_says_gone(void)
{
    party *a = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE);

    must_hold(a, &one);
    must_leave(a, &one);
    EXPECT_EQ(leave(a, &one), HF_GONE);
    EXPECT_CODE(one.reason, HF_ENOTHELD);
    EXPECT_EQ(leave(a, &one), HF_GONE);
    party_close(a);
}

/* It was gone when its session came again: that one stays. */
static void leave_again_beside_the_next(void)
{
    party *a = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place two = make_place("k", HF_EXCLUSIVE);

    must_hold(a, &one);
    must_leave(a, &one);
    must_hold(a, &two);
    EXPECT_EQ(leave(a, &one), HF_GONE);
    EXPECT_CODE(recheck(a, &two), 0);
    EXPECT_EQ(two.verdict, HF_GRANTED);
    must_leave(a, &two);
    party_close(a);
}

static void leave_of_an_unknown_rid(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place held = make_place("k", HF_EXCLUSIVE);
    hf_place stranger = make_place("k", HF_EXCLUSIVE);

    must_hold(a, &held);
    EXPECT_EQ(leave(b, &stranger), HF_GONE);
    EXPECT_CODE(stranger.reason, HF_ENOTHELD);
    EXPECT_CODE(recheck(b, &stranger), 0);
    EXPECT_EQ(stranger.verdict, HF_GONE);
    EXPECT_CODE(recheck(a, &held), 0);
    EXPECT_EQ(held.verdict, HF_GRANTED);
    must_leave(a, &held);
    party_close(a);
    party_close(b);
}

/* A waiter gives up in the middle: nobody is granted, nobody is skipped. */
static void leave_from_the_middle(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS),
          *c = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place two = make_place("k", HF_EXCLUSIVE);
    hf_place three = make_place("k", HF_EXCLUSIVE);

    must_hold(a, &one);
    must_wait(b, &two);
    must_wait(c, &three);
    EXPECT_EQ(leave(b, &two), HF_WAITS);
    EXPECT_CODE(recheck(c, &three), 0);
    EXPECT_EQ(three.verdict, HF_WAITS);
    must_leave(a, &one);
    await_verdict(c, &three, HF_GRANTED);
    must_leave(c, &three);
    party_close(a);
    party_close(b);
    party_close(c);
}

/* The leave of a join whose answer was lost: if the join arrives later, it
 * must not come to life. */
static void tomb_before_the_join(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place late = make_place("k", HF_EXCLUSIVE);
    hf_place other = make_place("k", HF_EXCLUSIVE);

    EXPECT_EQ(leave_tomb(a, &late), HF_GONE);
    EXPECT_CODE(join(a, &late), 0);
    EXPECT_EQ(late.verdict, HF_GONE);
    EXPECT_CODE(try_join(a, &late), 0);
    EXPECT_EQ(late.verdict, HF_GONE);
    EXPECT_EQ(count_entries(a), 0);
    must_hold(b, &other);
    must_leave(b, &other);
    party_close(a);
    party_close(b);
}

static void tomb_after_the_join(void)
{
    party *a = party_open(LONG_MS);
    hf_place held = make_place("k", HF_EXCLUSIVE);
    hf_place waiting = make_place("k", HF_EXCLUSIVE);

    must_hold(a, &held);
    must_wait(a, &waiting);
    EXPECT_EQ(leave_tomb(a, &waiting), HF_WAITS);
    EXPECT_EQ(leave_tomb(a, &held), HF_GRANTED);
    EXPECT_EQ(leave_tomb(a, &held), HF_GONE);
    EXPECT_CODE(join(a, &held), 0);
    EXPECT_EQ(held.verdict, HF_GONE);
    EXPECT_CODE(join(a, &waiting), 0);
    EXPECT_EQ(waiting.verdict, HF_GONE);
    EXPECT_EQ(count_entries(a), 0);
    party_close(a);
}

/* All entries of the session go, those of others stay, and the next are
 * granted. */
static void detach_leaves_everything(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place held = make_place("k1", HF_EXCLUSIVE);
    hf_place other = make_place("k2", HF_EXCLUSIVE);
    hf_place waits = make_place("k3", HF_EXCLUSIVE);
    hf_place b1 = make_place("k1", HF_EXCLUSIVE);
    hf_place b3 = make_place("k3", HF_EXCLUSIVE);

    must_hold(b, &b3);
    must_hold(a, &held);
    must_hold(a, &other);
    must_wait(a, &waits);
    must_wait(b, &b1);
    party_detach(a);
    party_detach(a); /* gone already is success */
    await_verdict(b, &b1, HF_GRANTED);
    EXPECT(b1.token > held.token);
    EXPECT_EQ(count_entries(b), 2);
    EXPECT_EQ(leave(a, &held), HF_GONE);
    EXPECT_CODE(party_renew(a, LONG_MS), HF_EEXPIRED);
    party_drop(a);
    must_leave(b, &b1);
    must_leave(b, &b3);
    party_close(b);
}

/* The dying session's own waiter must not be granted on the way out. */
static void detach_grants_nobody_of_its_own(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place two = make_place("k", HF_EXCLUSIVE);
    hf_place three = make_place("k", HF_EXCLUSIVE);

    must_hold(a, &one);
    must_wait(a, &two);
    must_wait(b, &three);
    party_detach(a);
    wait_changed(a, &two.rid, 30);
    EXPECT(!told_granted(a, &two.rid, NULL));
    await_verdict(b, &three, HF_GRANTED);
    EXPECT_EQ(count_entries(b), 1);
    party_drop(a);
    must_leave(b, &three);
    party_close(b);
}

static void detach_of_a_stranger(void)
{
    party *a = party_open(LONG_MS);
    hf_op op = make_op(a, HF_OP_DETACH);

    op.sid = make_rid();
    run_op(a, &op);
    EXPECT_CODE(op.error.code, 0);
    party_close(a);
}

const test_case leave_tests[] = {
    TEST(leave_again_says_gone),    TEST(leave_of_an_unknown_rid),
    TEST(leave_from_the_middle),    TEST(leave_again_beside_the_next),
    TEST(tomb_before_the_join),     TEST(tomb_after_the_join),
    TEST(detach_leaves_everything), TEST(detach_grants_nobody_of_its_own),
    TEST(detach_of_a_stranger),     {NULL, NULL, 0}};
