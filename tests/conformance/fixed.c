/* fixed.c - fixed leases, HF_OP_CONFIRM and `keep`: ends of an entry's own.
 *
 * A fixed lease counts from the owner's own request: a join that was granted,
 * or a confirm.  Once it runs it outlives the session; before that the entry
 * lives and dies with it. */
#include "suite.h"

enum { FIXED_MS = 1200, SLACK_MS = 100, CLOCK_MS = 2 }; /* as fine as any */

static hf_place make_fixed(int lease_ms)
{
    hf_place place = make_place("k", HF_EXCLUSIVE);

    place.lease = HF_MS(lease_ms);
    return place;
}

static void fixed_lease_outlives_its_session(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place one = make_fixed(FIXED_MS);
    hf_place two = make_place("k", HF_EXCLUSIVE);
    hf_place tried = make_place("k", HF_EXCLUSIVE);

    EXPECT(HAS_CAP(a, HF_CAP_FIXED_LEASE));
    must_hold(a, &one);
    EXPECT(one.remaining > 0 && one.remaining <= HF_MS(FIXED_MS));
    party_detach(a);
    EXPECT_CODE(try_join(b, &tried), HF_EBUSY);
    EXPECT(tried.look_in > 0 && tried.look_in <= HF_MS(FIXED_MS + CLOCK_MS));
    must_wait(b, &two);
    EXPECT(two.look_in > 0 && two.look_in <= HF_MS(FIXED_MS + CLOCK_MS));
    test_sleep_ms(FIXED_MS + SLACK_MS);
    EXPECT_CODE(recheck(b, &two), 0);
    EXPECT_EQ(two.verdict, HF_GRANTED);
    EXPECT_RISES(b, two.token, one.token);
    must_leave(b, &two);
    party_drop(a);
    party_close(b);
}

/* It ends although its session lives and renews. */
static void fixed_lease_is_not_renewed(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place one = make_fixed(FIXED_MS);
    hf_place two = make_place("k", HF_EXCLUSIVE);

    must_hold(a, &one);
    must_wait(b, &two);
    EXPECT_CODE(party_renew(a, LONG_MS), 0);
    test_sleep_ms(FIXED_MS + SLACK_MS);
    EXPECT_CODE(party_renew(a, LONG_MS), 0);
    EXPECT_CODE(recheck(b, &two), 0);
    EXPECT_EQ(two.verdict, HF_GRANTED);
    EXPECT_CODE(confirm(a, &one), 0);
    EXPECT_EQ(one.verdict, HF_GONE);
    EXPECT_EQ(leave(a, &one), HF_GONE);
    EXPECT_CODE(recheck(b, &two), 0);
    EXPECT_EQ(two.verdict, HF_GRANTED);
    must_leave(b, &two);
    party_close(a);
    party_close(b);
}

/* Asked again, the join starts no new lease. */
static void join_again_does_not_lengthen(void)
{
    party *a = party_open(LONG_MS);
    hf_place one = make_fixed(FIXED_MS), again = one;
    hf_nsec first;

    must_hold(a, &one);
    first = one.remaining;
    test_sleep_ms(60);
    must_hold(a, &again);
    EXPECT(again.remaining > 0 && again.remaining <= first - HF_MS(50));
    must_leave(a, &one);
    party_close(a);
}

static void confirm_starts_and_lengthens(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS),
          *c = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place two = make_fixed(FIXED_MS);
    hf_place three = make_place("k", HF_EXCLUSIVE);

    must_hold(a, &one);
    must_wait(b, &two);
    must_wait(c, &three);
    EXPECT_CODE(confirm(b, &two), 0); /* too early: it waits */
    EXPECT_EQ(two.verdict, HF_WAITS);
    must_leave(a, &one);
    await_verdict(b, &two, HF_GRANTED);
    EXPECT_EQ(two.remaining, 0); /* granted by push: not begun */
    test_sleep_ms(50);
    EXPECT_CODE(confirm(b, &two), 0);
    EXPECT_EQ(two.verdict, HF_GRANTED);
    EXPECT(two.remaining > HF_MS(FIXED_MS / 2));
    EXPECT(two.remaining <= HF_MS(FIXED_MS));
    for (int i = 0; i < 3; i++) {
        test_sleep_ms(FIXED_MS / 2);
        EXPECT_CODE(confirm(b, &two), 0);
        EXPECT_EQ(two.verdict, HF_GRANTED);
        EXPECT_CODE(recheck(c, &three), 0);
        EXPECT_EQ(three.verdict, HF_WAITS);
    }
    test_sleep_ms(FIXED_MS + SLACK_MS);
    EXPECT_CODE(recheck(c, &three), 0);
    EXPECT_EQ(three.verdict, HF_GRANTED);
    must_leave(c, &three);
    party_close(a);
    party_close(b);
    party_close(c);
}

/* Granted, but never confirmed: it goes with its session. */
static void unconfirmed_dies_with_its_session(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS),
          *c = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place two = make_fixed(LONG_MS);
    hf_place three = make_place("k", HF_EXCLUSIVE);

    must_hold(a, &one);
    must_wait(b, &two);
    must_wait(c, &three);
    must_leave(a, &one);
    await_verdict(b, &two, HF_GRANTED);
    party_detach(b);
    await_verdict(c, &three, HF_GRANTED);
    must_leave(c, &three);
    party_close(a);
    party_drop(b);
    party_close(c);
}

/* Its owner may give it back after its session ended, from the next one. */
static void fixed_is_left_by_the_next_session(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place one = make_fixed(LONG_MS);
    hf_place two = make_place("k", HF_EXCLUSIVE);

    must_hold(a, &one);
    must_wait(b, &two);
    party_detach(a);
    party_attach(a, LONG_MS);
    EXPECT_EQ(leave(a, &one), HF_GRANTED);
    await_verdict(b, &two, HF_GRANTED);
    must_leave(b, &two);
    party_close(a);
    party_close(b);
}

/* keep: left, and yet taken for a while; nobody's any more. */
static void keep_holds_after_the_leave(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place two = make_place("k", HF_EXCLUSIVE);
    listing *list;

    must_hold(a, &one);
    must_wait(b, &two);
    EXPECT_EQ(leave_keep(a, &one, FIXED_MS), HF_GRANTED);
    EXPECT_EQ(leave(a, &one), HF_GONE);
    list = list_entries(b, "k", 1, false);
    EXPECT_EQ(list->count, 2);
    EXPECT(list->rows[0].info.closed && list->rows[0].info.granted);
    EXPECT(!list->rows[1].info.closed);
    free_listing(list);
    party_detach(a);
    EXPECT_CODE(recheck(b, &two), 0);
    EXPECT_EQ(two.verdict, HF_WAITS);
    EXPECT(two.look_in > 0 && two.look_in <= HF_MS(FIXED_MS + CLOCK_MS));
    test_sleep_ms(FIXED_MS + SLACK_MS);
    EXPECT_CODE(recheck(b, &two), 0);
    EXPECT_EQ(two.verdict, HF_GRANTED);
    EXPECT(two.token > one.token);
    must_leave(b, &two);
    EXPECT_EQ(count_entries(b), 0);
    party_drop(a);
    party_close(b);
}

/* keep is of holds: a waiter that leaves is gone. */
static void keep_of_a_waiter_is_a_leave(void)
{
    party *a = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place two = make_place("k", HF_EXCLUSIVE);

    must_hold(a, &one);
    must_wait(a, &two);
    EXPECT_EQ(leave_keep(a, &two, LONG_MS), HF_WAITS);
    EXPECT_EQ(count_entries(a), 1);
    must_leave(a, &one);
    EXPECT_EQ(count_entries(a), 0);
    party_close(a);
}

const test_case fixed_tests[] = {TEST(fixed_lease_outlives_its_session),
                                 TEST(fixed_lease_is_not_renewed),
                                 TEST(join_again_does_not_lengthen),
                                 TEST(confirm_starts_and_lengthens),
                                 TEST(unconfirmed_dies_with_its_session),
                                 TEST(fixed_is_left_by_the_next_session),
                                 TEST(keep_holds_after_the_leave),
                                 TEST(keep_of_a_waiter_is_a_leave),
                                 {NULL, NULL, 0}};
