/* expiry.c - the store's clock ends sessions, and what is ended stays so.
 *
 * Sleeps are real and as short as the target's shortest lease allows. */
#include "suite.h"

static int lease_ms(void)
{
    return the_target->quirks.lease_min_ms;
}

/* Until a lease that began before this call is over for certain. */
static void outlive_lease(void)
{
    test_sleep_ms(lease_ms() + lease_ms() / 10 + 20 +
                  the_target->quirks.late_ms);
}

static void dead_holder_is_passed_over(void)
{
    party *b = party_open(LONG_MS), *a = party_open(lease_ms());
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place two = make_place("k", HF_EXCLUSIVE);

    must_hold(a, &one);
    must_wait(b, &two);
    EXPECT(two.look_in > 0 && two.look_in <= HF_MS(lease_ms()));
    outlive_lease();
    EXPECT_CODE(recheck(b, &two), 0);
    EXPECT_EQ(two.verdict, HF_GRANTED);
    EXPECT_RISES(b, two.token, one.token);
    EXPECT_EQ(leave(a, &one), HF_GONE);
    EXPECT_CODE(one.reason, HF_EEXPIRED);
    must_leave(b, &two);
    party_drop(a);
    party_close(b);
}

/* Nobody wanted its lock, and still it is over: renew, join and a second
 * renew all say so. */
static void expired_is_final(void)
{
    party *a = party_open(lease_ms()), *b = party_open(lease_ms());
    hf_place held = make_place("k", HF_EXCLUSIVE);
    hf_place next = make_place("k2", HF_EXCLUSIVE);
    hf_place late = make_place("k3", HF_EXCLUSIVE);

    must_hold(a, &held);
    outlive_lease();
    /* One is told by its renewal, the other has asked nothing before. */
    EXPECT_CODE(try_join(b, &late), HF_EEXPIRED);
    EXPECT_CODE(join(b, &late), HF_EEXPIRED);
    EXPECT_CODE(party_renew(a, LONG_MS), HF_EEXPIRED);
    EXPECT_CODE(join(a, &next), HF_EEXPIRED);
    EXPECT_CODE(try_join(a, &next), HF_EEXPIRED);
    EXPECT_CODE(party_renew(a, LONG_MS), HF_EEXPIRED);
    EXPECT_EQ(leave(a, &held), HF_GONE);
    EXPECT_CODE(held.reason, HF_EEXPIRED);
    party_attach(a, LONG_MS);
    next.rid = make_rid();
    must_hold(a, &next);
    must_leave(a, &next);
    EXPECT_EQ(count_entries(a), 0);
    party_close(a);
    party_drop(b);
}

/* What an attach that is asked again says is left is left: nobody else is
 * granted before that is over. */
static void attach_again_promises_no_more(void)
{
    party *b = party_open(LONG_MS), *a = party_open(lease_ms());
    hf_place held = make_place("k", HF_EXCLUSIVE);
    hf_op op = make_op(a, HF_OP_ATTACH);
    bool granted = false;
    hf_nsec until;

    must_hold(a, &held);
    test_sleep_ms(lease_ms() / 2);
    op.ttl = HF_MS(lease_ms());
    run_op(a, &op);
    /* On a slow machine it may be over by now. */
    until = op.error.code == 0 ? op.sent + op.remaining : 0;
    while (hfd_now() < until && !granted) {
        hf_place next = make_place("k", HF_EXCLUSIVE);

        granted = try_join(b, &next) == 0;
        EXPECT(!granted || hfd_now() >= until);
        if (granted)
            must_leave(b, &next);
        test_sleep_ms(50);
    }
    party_drop(a);
    party_close(b);
}

static void newcomer_drops_the_dead(void)
{
    party *b = party_open(LONG_MS), *a = party_open(lease_ms());
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place other = make_place("k2", HF_SHARED);
    hf_place two = make_place("k", HF_EXCLUSIVE);
    hf_place three = make_place("k2", HF_EXCLUSIVE);

    must_hold(a, &one);
    must_hold(a, &other);
    outlive_lease();
    must_hold(b, &two);
    EXPECT_RISES(b, two.token, one.token);
    EXPECT_CODE(try_join(b, &three), 0);
    EXPECT_EQ(three.verdict, HF_GRANTED);
    EXPECT_EQ(count_entries(b), 2);
    must_leave(b, &two);
    must_leave(b, &three);
    party_drop(a);
    party_close(b);
}

/* A crashed waiter in the middle is passed over when its turn comes. */
static void dead_waiter_is_passed_over(void)
{
    party *a = party_open(LONG_MS), *c = party_open(LONG_MS),
          *b = party_open(lease_ms());
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place dead[3];
    hf_place last = make_place("k", HF_EXCLUSIVE);

    must_hold(a, &one);
    for (int i = 0; i < 3; i++) {
        dead[i] = make_place("k", i == 1 ? HF_SHARED : HF_EXCLUSIVE);
        must_wait(b, &dead[i]);
    }
    must_wait(c, &last);
    outlive_lease();
    must_leave(a, &one);
    await_verdict(c, &last, HF_GRANTED);
    EXPECT_EQ(count_entries(c), 1);
    must_leave(c, &last);
    party_close(a);
    party_drop(b);
    party_close(c);
}

/* Granted by a leave while alive, but it never heard of it and died. */
static void dead_grantee_is_passed_over(void)
{
    party *a = party_open(LONG_MS), *c = party_open(LONG_MS),
          *b = party_open(lease_ms());
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place two = make_place("k", HF_EXCLUSIVE);
    hf_place three = make_place("k", HF_EXCLUSIVE);

    must_hold(a, &one);
    must_wait(b, &two);
    must_wait(c, &three);
    must_leave(a, &one);
    EXPECT_CODE(recheck(c, &three), 0);
    EXPECT_EQ(three.verdict, HF_WAITS);
    outlive_lease();
    EXPECT_CODE(recheck(c, &three), 0);
    EXPECT_EQ(three.verdict, HF_GRANTED);
    EXPECT(three.token > one.token);
    must_leave(c, &three);
    party_close(a);
    party_drop(b);
    party_close(c);
}

/* One of several readers dies: the writer waits for the other still. */
static void dead_reader_among_others(void)
{
    party *b = party_open(LONG_MS), *a = party_open(lease_ms());
    hf_place one = make_place("k", HF_SHARED);
    hf_place two = make_place("k", HF_SHARED);
    hf_place writer = make_place("k", HF_EXCLUSIVE);

    must_hold(a, &one);
    must_hold(b, &two);
    must_wait(b, &writer);
    EXPECT(writer.look_in <= HF_MS(lease_ms()));
    outlive_lease();
    EXPECT_CODE(recheck(b, &writer), 0);
    EXPECT_EQ(writer.verdict, HF_WAITS);
    EXPECT_EQ(count_entries(b), 2);
    must_leave(b, &two);
    await_verdict(b, &writer, HF_GRANTED);
    must_leave(b, &writer);
    party_drop(a);
    party_close(b);
}

/* A permit's place is free again when its holder's lease is over. */
static void dead_permit_frees_its_place(void)
{
    party *b = party_open(LONG_MS), *a = party_open(lease_ms());
    hf_place one = make_permit("k", 2), two = make_permit("k", 2);
    hf_place three = make_permit("k", 2);

    must_hold(a, &one);
    must_hold(b, &two);
    must_wait(b, &three);
    outlive_lease();
    EXPECT_CODE(recheck(b, &three), 0);
    EXPECT_EQ(three.verdict, HF_GRANTED);
    must_leave(b, &two);
    must_leave(b, &three);
    party_drop(a);
    party_close(b);
}

const test_case expiry_tests[] = {TEST(dead_holder_is_passed_over),
                                  TEST(expired_is_final),
                                  TEST(newcomer_drops_the_dead),
                                  TEST(dead_waiter_is_passed_over),
                                  TEST(dead_grantee_is_passed_over),
                                  TEST(dead_reader_among_others),
                                  TEST(dead_permit_frees_its_place),
                                  TEST(attach_again_promises_no_more),
                                  {NULL, NULL, 0}};
