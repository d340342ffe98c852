/* lease_test.c - the lease as its owner believes in it: every arrow of the
 * drawing in lease.c, and the arithmetic of safety.md 2.0.4 (G1, G5). */
#include "harness/expect.h"
#include "harness/runner.h"

#include "core/fake_clock_test.h"
#include "core/lease.h"

static hf__lease begun(void)
{
    hf__lease lease;

    hf__clock_set(&fake_clock);
    EXPECT_EQ(hf__lease_init(&lease, 30000, NULL), 0);
    hf__lease_began(&lease, now_ns, HF_MS(30000));
    return lease;
}

static void limits(void)
{
    hf__lease lease;

    EXPECT_EQ(hf__lease_init(&lease, 1000, NULL), 0);
    EXPECT_EQ(hf__lease_init(&lease, 86400000, NULL), 0);
    EXPECT_EQ(hf__lease_init(&lease, 999, NULL), HF_EINVAL);
    EXPECT_EQ(hf__lease_init(&lease, 86400001, NULL), HF_EINVAL);
    EXPECT_EQ(hf__lease_init(&lease, -5, NULL), HF_EINVAL);
}

static void counts_from_the_send_instant(void)
{
    hf__lease lease;
    hf_nsec sent;

    hf__clock_set(&fake_clock);
    hf__lease_init(&lease, 30000, NULL);
    sent = now_ns;
    pass(5000); /* the reply took five seconds */
    hf__lease_began(&lease, sent, HF_MS(30000));
    EXPECT_EQ(lease.deadline, sent + HF_MS(30000 - 310));
    EXPECT_EQ(hf__lease_lost_at(&lease), lease.deadline - HF_MS(3000));
}

static void the_end_is_lost_before_the_store_can_know(void)
{
    hf__lease lease = begun();

    EXPECT_EQ(hf__lease_state(&lease, now_ns), HF_HELD);
    pass(26689);
    EXPECT_EQ(hf__lease_state(&lease, now_ns), HF_HELD);
    pass(1);
    EXPECT_EQ(hf__lease_state(&lease, now_ns), HF_LOST);
    EXPECT_EQ(lease.reason, HF_EEXPIRED);
    EXPECT_EQ(hf__lease_next(&lease), HF_NEVER);
}

static void lost_is_a_one_way_door(void)
{
    hf__lease lease = begun();

    hf__lease_lost(&lease, HF_EFORCED);
    hf__lease_renewed(&lease, now_ns, HF_MS(30000));
    EXPECT_EQ(hf__lease_state(&lease, now_ns), HF_LOST);
    EXPECT_EQ(lease.reason, HF_EFORCED);
    hf__lease_doubt(&lease, now_ns, HF_EUNAVAIL);
    EXPECT_EQ(lease.state, HF_LOST);
    hf__lease_lost(&lease, HF_EEXPIRED);
    EXPECT_EQ(lease.reason, HF_EFORCED);
}

static void doubt_and_relief(void)
{
    hf__lease lease = begun();
    hf_nsec before = now_ns;

    pass(10000);
    EXPECT_EQ(hf__lease_next(&lease), now_ns);
    hf__lease_doubt(&lease, now_ns, HF_EUNAVAIL);
    EXPECT_EQ(hf__lease_state(&lease, now_ns), HF_DOUBTFUL);
    EXPECT_EQ(lease.next_renew, now_ns); /* the first retry goes at once */
    hf__lease_renewed(&lease, before + 1, HF_MS(30000));
    EXPECT_EQ(lease.state, HF_DOUBTFUL); /* sent before the doubt arose */
    pass(10);
    hf__lease_renewed(&lease, now_ns, HF_MS(30000));
    EXPECT_EQ(lease.state, HF_HELD);
    EXPECT_EQ(lease.next_renew, now_ns + HF_MS(10000));
}

static void a_shorter_answer_takes_nothing_back(void)
{
    hf__lease lease = begun();
    hf_nsec deadline = lease.deadline;

    hf__lease_renewed(&lease, now_ns, HF_MS(1000));
    EXPECT_EQ(lease.deadline, deadline);
}

static void retries_back_off_but_stay_frequent(void)
{
    hf__lease lease = begun();

    for (int i = 0; i < 20; i++) {
        hf__lease_doubt(&lease, now_ns, HF_EUNAVAIL);
        EXPECT(lease.next_renew - now_ns <= HF_MS(500));
        pass(1);
    }
}

static void a_wall_clock_that_runs_ahead_is_doubt(void)
{
    hf__lease lease = begun();

    real_us += 200000; /* within the guard */
    hf__lease_look_at_clocks(&lease);
    EXPECT(!lease.clock_doubt);
    real_us += 400000;
    hf__lease_look_at_clocks(&lease);
    EXPECT(lease.clock_doubt);
    EXPECT_EQ(lease.state, HF_DOUBTFUL);
    EXPECT_EQ(lease.next_renew, now_ns);
    pass(5);
    hf__lease_renewed(&lease, now_ns, HF_MS(30000));
    EXPECT(!lease.clock_doubt);
    EXPECT_EQ(lease.state, HF_HELD);
    hf__lease_look_at_clocks(&lease); /* the new offset is the base */
    EXPECT(!lease.clock_doubt);
}

static void a_wall_clock_set_back_means_nothing(void)
{
    hf__lease lease = begun();

    real_us -= 3600 * INT64_C(1000000);
    hf__lease_look_at_clocks(&lease);
    EXPECT(!lease.clock_doubt);
    EXPECT_EQ(lease.state, HF_HELD);
}

static int64_t store_us(hf_nsec ahead)
{
    return (now_ns + ahead) / 1000;
}

static void a_store_set_forward_shortens(void)
{
    hf__lease lease = begun();
    hf_nsec deadline = lease.deadline, sent;

    EXPECT_EQ(hf__lease_store_clock(&lease, now_ns, now_ns, store_us(0)), 0);
    pass(1000);
    /* Within the guard, and within what the two trips leave open. */
    EXPECT_EQ(
        hf__lease_store_clock(&lease, now_ns, now_ns, store_us(HF_MS(310))), 0);
    sent = now_ns;
    pass(100);
    EXPECT_EQ(hf__lease_store_clock(&lease, sent, now_ns, store_us(HF_MS(670))),
              0);
    EXPECT_EQ(lease.state, HF_HELD);
    sent = now_ns;
    pass(100);
    EXPECT_EQ(
        hf__lease_store_clock(&lease, sent, now_ns, store_us(HF_MS(5670))),
        HF_MS(5000));
    EXPECT_EQ(lease.deadline, deadline - HF_MS(5000));
    EXPECT_EQ(lease.state, HF_DOUBTFUL);
    EXPECT(lease.clock_doubt);
    EXPECT_EQ(lease.next_renew, now_ns);
    hf__lease_renewed(&lease, sent, HF_MS(30000)); /* the one that showed it */
    EXPECT(lease.clock_doubt);
    EXPECT_EQ(lease.deadline, sent + HF_MS(30000 - 310));
    pass(1);
    EXPECT_EQ(
        hf__lease_store_clock(&lease, now_ns, now_ns, store_us(HF_MS(5720))),
        0); /* once per jump */
    hf__lease_renewed(&lease, now_ns, HF_MS(30000));
    EXPECT(!lease.clock_doubt);
    EXPECT_EQ(lease.state, HF_HELD);
}

static void an_answer_from_before_the_step_counts_less(void)
{
    hf__lease lease = begun();
    hf_nsec before;

    hf__lease_store_clock(&lease, now_ns, now_ns, store_us(0));
    pass(1000);
    before = now_ns;
    pass(10);
    EXPECT_EQ(
        hf__lease_store_clock(&lease, now_ns, now_ns, store_us(HF_MS(60000))),
        HF_MS(60000));
    EXPECT_EQ(lease.deadline, now_ns); /* never earlier */
    EXPECT_EQ(hf__lease_store_clock(&lease, before, now_ns, store_us(0)), 0);
    hf__lease_renewed(&lease, before, HF_MS(30000));
    EXPECT_EQ(lease.deadline, now_ns);
    EXPECT_EQ(hf__lease_state(&lease, now_ns), HF_LOST);
}

static void a_store_set_back_means_nothing(void)
{
    hf__lease lease = begun();
    hf_nsec deadline = lease.deadline;

    hf__lease_store_clock(&lease, now_ns, now_ns, store_us(HF_MS(9000)));
    pass(1000);
    EXPECT_EQ(hf__lease_store_clock(&lease, now_ns, now_ns, store_us(0)),
              -HF_MS(9000));
    EXPECT_EQ(lease.deadline, deadline);
    EXPECT_EQ(lease.state, HF_HELD);
    EXPECT_EQ(hf__lease_store_clock(&lease, now_ns, now_ns, store_us(0)), 0);
}

static void a_store_without_a_clock_says_nothing(void)
{
    static const int64_t odd[] = {0, -1, INT64_MIN, INT64_MAX};
    hf__lease lease = begun();

    hf__lease_store_clock(&lease, now_ns, now_ns, store_us(0));
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        EXPECT_EQ(hf__lease_store_clock(&lease, now_ns, now_ns, odd[i]), 0);
    EXPECT_EQ(lease.state, HF_HELD);
}

static void another_memory_is_doubt_until_it_was_looked_at(void)
{
    hf__lease lease = begun();

    hf__lease_memory_doubt(&lease, now_ns, HF_EUNAVAIL);
    hf__lease_renewed(&lease, now_ns, HF_MS(30000));
    EXPECT_EQ(lease.state, HF_DOUBTFUL);
    hf__lease_audited(&lease);
    EXPECT_EQ(lease.state, HF_HELD);
    pass(10);
    hf__lease_memory_doubt(&lease, now_ns, HF_EUNAVAIL);
    hf__lease_audited(&lease); /* a renewal is missing */
    EXPECT_EQ(lease.state, HF_DOUBTFUL);
    hf__lease_renewed(&lease, now_ns, HF_MS(30000));
    EXPECT_EQ(lease.state, HF_HELD);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        TEST(limits),
        TEST(counts_from_the_send_instant),
        TEST(the_end_is_lost_before_the_store_can_know),
        TEST(lost_is_a_one_way_door),
        TEST(doubt_and_relief),
        TEST(a_shorter_answer_takes_nothing_back),
        TEST(retries_back_off_but_stay_frequent),
        TEST(a_wall_clock_that_runs_ahead_is_doubt),
        TEST(a_wall_clock_set_back_means_nothing),
        TEST(a_store_set_forward_shortens),
        TEST(an_answer_from_before_the_step_counts_less),
        TEST(a_store_set_back_means_nothing),
        TEST(a_store_without_a_clock_says_nothing),
        TEST(another_memory_is_doubt_until_it_was_looked_at),
    };

    return run_tests(argc, argv, "lease", cases, sizeof cases / sizeof *cases);
}
