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

static vote_leaving leave(unsigned given, bool content, const vote votes[5])
{
    return vote_leave(votes, 1, 5, given, content);
}

/* What an earlier attempt took away is not lost. */
static void a_leave_is_repeated(void)
{
    const vote first[] = {MINE(9, 1), OTHER(9), SILENT, SILENT, SILENT};
    const vote again[] = {OTHER(9), OTHER(9), OTHER(9), SILENT, SILENT};
    const vote whole[] = {OTHER(9), OTHER(9), OTHER(9), MINE(9, 1), MINE(9, 1)};
    vote_leaving sum = leave(0, false, first);

    EXPECT_EQ(sum.verdict, VOTE_OPEN);
    EXPECT_EQ(sum.given, 1);
    /* Three have answered, and it is open: the round has to go on. */
    EXPECT_EQ(leave(sum.given, false, again).verdict, VOTE_OPEN);
    EXPECT_EQ(leave(sum.given, false, whole).verdict, VOTE_YES);
    EXPECT_EQ(leave(sum.given, true, again).verdict, VOTE_NO);
    EXPECT_EQ(leave(0, false, again).verdict, VOTE_NO);
}

/* Whatever came before: with all answers, and for the content with those of a
 * majority, it is over. */
static void a_leave_ends(void)
{
    for (unsigned draw = 0; draw < 243 * 32; draw++) {
        unsigned given = draw % 32, rest = draw / 32, heard = 0;
        vote votes[5];

        for (int i = 0; i < 5; i++, rest /= 3) {
            votes[i] = rest % 3 == 0   ? SILENT
                       : rest % 3 == 1 ? MINE(9, 1)
                                       : OTHER(9);
            heard += votes[i].heard;
        }
        EXPECT(heard < 5 || leave(given, false, votes).verdict != VOTE_OPEN);
        EXPECT(heard < 3 || leave(given, true, votes).verdict != VOTE_OPEN);
    }
}

static const test_case cases[] = {
    TEST(majorities), TEST(what_is_left),        TEST(which_number),
    TEST(a_stride),   TEST(a_leave_is_repeated), TEST(a_leave_ends),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "vote", cases, sizeof cases / sizeof *cases);
}
