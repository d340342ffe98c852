/* vote_test.c - counting, on small tables: who has it, for how long, and which
 * number may be told.  What order messages come in is model_test.c's. */
#include "harness/expect.h"
#include "harness/runner.h"

#include "vote.h"

#define MINE(left, n) ((vote){true, VOTE_MINE, (left), (n)})
#define OTHER(left) ((vote){true, VOTE_OTHER, (left), 0})
#define SILENT ((vote){0})

static vote_tally count(vote a, vote b, vote c, vote d, vote e)
{
    vote votes[] = {a, b, c, d, e};

    return vote_count(votes, 1, 5);
}

static void majorities(void)
{
    EXPECT_EQ(vote_majority(3), 2);
    EXPECT_EQ(vote_majority(5), 3);
    EXPECT_EQ(vote_majority(9), 5);
    EXPECT_EQ(count(MINE(9, 1), MINE(9, 1), SILENT, SILENT, SILENT).verdict,
              VOTE_OPEN);
    EXPECT_EQ(count(MINE(9, 1), MINE(9, 1), OTHER(9), OTHER(9), SILENT).verdict,
              VOTE_OPEN);
    EXPECT_EQ(
        count(MINE(9, 1), MINE(9, 1), OTHER(9), OTHER(9), OTHER(9)).verdict,
        VOTE_NO);
    EXPECT_EQ(count(SILENT, MINE(9, 1), MINE(9, 1), SILENT, MINE(9, 1)).verdict,
              VOTE_YES);
}

/* The best majority counts, and its weakest. */
static void what_is_left(void)
{
    EXPECT_EQ(
        count(MINE(100, 1), MINE(300, 1), MINE(200, 1), SILENT, SILENT).left_ms,
        100);
    EXPECT_EQ(count(MINE(100, 1), MINE(300, 1), MINE(200, 1), MINE(250, 1),
                    MINE(1, 1))
                  .left_ms,
              200);
    EXPECT_EQ(
        count(MINE(7, 1), MINE(7, 1), MINE(7, 1), MINE(7, 1), SILENT).left_ms,
        7);
    EXPECT_EQ(count(OTHER(500), OTHER(-1), OTHER(90), SILENT, SILENT).left_ms,
              90);
    EXPECT_EQ(count(OTHER(-1), OTHER(-2), OTHER(-2), SILENT, SILENT).left_ms,
              -1);
}

static void which_number(void)
{
    vote_tally even =
        count(MINE(9, 4), MINE(9, 4), MINE(9, 4), MINE(9, 2), SILENT);
    vote_tally ahead =
        count(MINE(9, 4), MINE(9, 5), MINE(9, 4), MINE(9, 5), SILENT);
    vote_tally few = count(MINE(9, 4), MINE(9, 4), OTHER(9), SILENT, SILENT);

    EXPECT_EQ(even.number, 4);
    EXPECT(vote_is_level(&even, 5));
    EXPECT_EQ(ahead.number, 5);
    EXPECT_EQ(ahead.level, 2);
    EXPECT(!vote_is_level(&ahead, 5));
    EXPECT(!vote_is_level(&few, 5));
}

/* A batch: the votes of one lock lie apart. */
static void a_stride(void)
{
    vote votes[] = {MINE(9, 1), OTHER(5), MINE(8, 1),
                    OTHER(5),   SILENT,   MINE(9, 3)};

    EXPECT_EQ(vote_count(votes, 2, 3).verdict, VOTE_YES);
    EXPECT_EQ(vote_count(votes, 2, 3).left_ms, 8);
    EXPECT_EQ(vote_count(votes + 1, 2, 3).verdict, VOTE_NO);
}

static const test_case cases[] = {TEST(majorities), TEST(what_is_left),
                                  TEST(which_number), TEST(a_stride)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "vote", cases, sizeof cases / sizeof *cases);
}
