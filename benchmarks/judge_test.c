/* judge_test.c - does the judge of contended runs see what it must see? */
#include "judge.h"

#include "harness/expect.h"
#include "harness/runner.h"

#define COUNT(log) (sizeof(log) / sizeof *(log))

static void one_after_the_other_is_no_overlap(void)
{
    struct grant log[] = {
        {.asked = 1, .got = 20, .gave = 30, .worker = 1},
        {.asked = 0, .got = 10, .gave = 20, .worker = 0},
    };
    struct verdict v = judge_grants(log, COUNT(log), 2);

    EXPECT_EQ(v.overlaps, 0);
    EXPECT_EQ(v.handovers, 1);
    EXPECT(v.fairness == 1.0);
}

static void two_holders_are_caught(void)
{
    struct grant log[] = {
        {.asked = 0, .got = 10, .gave = 20, .worker = 0},
        {.asked = 1, .got = 19, .gave = 30, .worker = 1},
    };

    EXPECT_EQ(judge_grants(log, COUNT(log), 2).overlaps, 1);
}

/* The long one overlaps both, although its neighbour in the log is only one
 * of them. */
static void a_long_holder_is_remembered(void)
{
    struct grant log[] = {
        {.asked = 0, .got = 10, .gave = 90, .worker = 0},
        {.asked = 1, .got = 20, .gave = 30, .worker = 1},
        {.asked = 2, .got = 40, .gave = 50, .worker = 1},
    };

    EXPECT_EQ(judge_grants(log, COUNT(log), 2).overlaps, 2);
}

static void snatching_it_again_is_no_handover(void)
{
    struct grant log[] = {
        {.asked = 0, .got = 10, .gave = 20, .worker = 0},
        {.asked = 21, .got = 22, .gave = 30, .worker = 0},
        {.asked = 5, .got = 40, .gave = 50, .worker = 1},
        /* Came when the lock was free already: nobody handed it over. */
        {.asked = 60, .got = 61, .gave = 70, .worker = 0},
    };
    struct verdict v = judge_grants(log, COUNT(log), 2);

    EXPECT_EQ(v.handovers, 1);
    EXPECT(v.fairness > 0.33 && v.fairness < 0.34);
    EXPECT_EQ(v.overlaps, 0);
}

static void one_who_gets_nothing_is_seen(void)
{
    struct grant log[] = {{.asked = 0, .got = 10, .gave = 20, .worker = 0}};

    EXPECT(judge_grants(log, 1, 2).fairness == 0);
    EXPECT(judge_grants(log, 0, 2).fairness == 0);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        TEST(one_after_the_other_is_no_overlap),
        TEST(two_holders_are_caught),
        TEST(a_long_holder_is_remembered),
        TEST(snatching_it_again_is_no_handover),
        TEST(one_who_gets_nothing_is_seen),
    };

    return run_tests(argc, argv, "judge", cases, COUNT(cases));
}
