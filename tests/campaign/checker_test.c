/* checker_test.c - the checker convicts what is planted, and nothing else.
 *
 * Each history is a handful of records on a clock of milliseconds.  A good one
 * is told first, then the same with one thing wrong: an instrument that cannot
 * say no proves nothing. */
#include "plot.h"

#include "harness/expect.h"
#include "harness/runner.h"

static void act(uint32_t life, uint32_t task, int at, uint64_t token, int no)
{
    camp_record *r = put(CAMP_ACT, life, task, at);

    r->token = token;
    r->code = no;
}

/* ---- I1 ----------------------------------------------------------------- */

static void one_after_the_other(void)
{
    in_turn(100, 5, 101, 6);
    EXPECT_EQ(judged(), 0);
}

static void two_holders(void)
{
    in_turn(100, 5, 99, 6);
    EXPECT_EQ(judged(), 1);
}

static void sharers_and_one_alone(void)
{
    begin(CAMP_TOKENS);
    grant(1, 1, 0, 10, 5);
    grant(2, 1, 5, 20, 6);
    for (size_t i = 1; i < lines; i++)
        plot[i].mode = HF_SHARED;
    give(1, 1, 100, 0);
    EXPECT_EQ(judged(), 0);
    grant(3, 1, 50, 101, 7);
    EXPECT_EQ(judged(), 1);
}

/* A stopped holder believes to its deadline; a killed one does not. */
static void rival_before_the_deadline(void)
{
    begin(CAMP_TOKENS);
    grant(1, 1, 0, 10, 5);
    put(CAMP_STOP, 0, 1, 20);
    grant(2, 1, 5, 1000, 6);
    give(2, 1, 1100, 0);
    put(CAMP_CONTINUE, 0, 1, 4000);
    give(1, 1, 4001, HF_EEXPIRED);
    EXPECT_EQ(judged(), 1);
    begin(CAMP_TOKENS);
    grant(1, 1, 0, 10, 5);
    put(CAMP_KILL, 0, 1, 20);
    grant(2, 1, 5, 21, 6);
    give(2, 1, 1100, 0);
    EXPECT_EQ(judged(), 0);
}

static void loss_ends_the_belief(void)
{
    camp_record *r;

    begin(CAMP_TOKENS);
    strike(11, 0, 400);
    grant(1, 1, 0, 10, 5);
    lose(1, 1, 500);
    grant(2, 1, 5, 501, 6);
    give(2, 1, 600, 0);
    give(1, 1, 700, HF_EEXPIRED);
    EXPECT_EQ(judged(), 0);
    r = put(CAMP_CHECK, 1, 1, 650); /* and one that believes again */
    r->until = ms(1000);
    EXPECT_EQ(judged(), 5);
}

/* ---- I2, I3 ------------------------------------------------------------- */

static void tokens_that_fall(void)
{
    in_turn(20, 15, 30, 5);
    EXPECT_EQ(judged(), 2); /* twice the same */
    in_turn(20, 30, 40, 4);
    EXPECT_EQ(judged(), 2); /* asked later, got less */
    begin(0);
    grant(1, 1, 0, 10, 0);
    give(1, 1, 20, 0);
    grant(2, 1, 30, 40, 0);
    give(2, 1, 50, 0);
    EXPECT_EQ(judged(), 0); /* it promises none */
}

static void taken_again(void)
{
    begin(CAMP_TOKENS);
    grant(1, 1, 0, 10, 5);
    grant(1, 2, 15, 16, 5);
    for (size_t i = 4; i < 7; i++) {
        plot[i].flags = CAMP_AGAIN;
        plot[i].number = 1;
    }
    give(1, 2, 17, 0);
    give(1, 1, 20, 0);
    EXPECT_EQ(judged(), 0);
    plot[5].token = 6;
    EXPECT_EQ(judged(), 2);
}

static void fenced(void)
{
    begin(CAMP_TOKENS);
    strike(3, 20, 2150);
    grant(1, 1, 0, 10, 5);
    put(CAMP_STOP, 0, 1, 20);
    grant(2, 1, 5, 2100, 6);
    act(2, 1, 2110, 6, 0);
    give(2, 1, 2120, 0);
    act(1, 1, 2200, 5, 1); /* stale, and refused: as it should be */
    give(1, 1, 2300, HF_EEXPIRED);
    EXPECT_EQ(judged(), 0);
    plot[lines - 3].code = 0; /* stale, and taken */
    EXPECT_EQ(judged(), 3);
    begin(CAMP_TOKENS);
    grant(1, 1, 0, 10, 5);
    act(1, 1, 50, 5, 1); /* refused while it holds */
    give(1, 1, 100, 0);
    EXPECT_EQ(judged(), 3);
}

/* ---- I4, I5 ------------------------------------------------------------- */

static void answers(void)
{
    begin(0);
    refuse(1, 1, 0, 1, HF_EBUSY, CAMP_TRY);
    EXPECT_EQ(judged(), 4); /* nobody was there */
    begin(0);
    grant(2, 1, 0, 10, 5);
    refuse(1, 1, 20, 21, HF_EBUSY, CAMP_TRY);
    give(2, 1, 30, 0);
    EXPECT_EQ(judged(), 0);
    refuse(1, 2, 32, 33, HF_EBUSY, CAMP_TRY);
    EXPECT_EQ(judged(), 4); /* it was given back before */
    begin(0);
    refuse(1, 1, 0, 101, HF_ETIMEDOUT, 0);
    EXPECT_EQ(judged(), 0);
    refuse(1, 2, 200, 250, HF_ETIMEDOUT, 0);
    EXPECT_EQ(judged(), 4); /* before its time */
    begin(0);
    refuse(1, 1, 0, 1, HF_EINTERNAL, 0);
    EXPECT_EQ(judged(), 4);
    begin(0);
    put(CAMP_FORKED, 1, 0, 5)->code = HF_EFORKED;
    EXPECT_EQ(judged(), 0);
    put(CAMP_FORKED, 1, 0, 6)->code = 0;
    EXPECT_EQ(judged(), 4);
}

static void lost_and_held_all_the_time(void)
{
    begin(CAMP_TOKENS);
    grant(1, 1, 0, 10, 5);
    strike(11, 0, 400);
    put(CAMP_CHANGE, 1, 1, 500)->number = HF_LOST;
    give(1, 1, 600, 0);
    EXPECT_EQ(judged(), 4);
}

static void told_late(void)
{
    camp_record *r;

    begin(CAMP_TOKENS);
    strike(11, 0, 400);
    grant(1, 1, 0, 10, 5);
    put(CAMP_CHECK, 1, 1, 2100)->code = HF_EEXPIRED;
    put(CAMP_CHANGE, 1, 1, 5000)->number = HF_LOST;
    EXPECT_EQ(judged(), 5);
    r = put(CAMP_STALL, 1, 0, 4990); /* it stood still all that time */
    r->called = ms(2200);
    EXPECT_EQ(judged(), 0);
    begin(CAMP_TOKENS);
    strike(11, 0, 400);
    grant(1, 1, 0, 10, 5);
    put(CAMP_CHECK, 1, 1, 2100)->code = HF_EEXPIRED;
    give(1, 1, 3000, HF_EEXPIRED); /* before a notice was due */
    EXPECT_EQ(judged(), 0);
    plot[lines - 2].at = plot[lines - 2].called = ms(4500);
    plot[lines - 1].at = ms(4501);
    EXPECT_EQ(judged(), 5);
}

/* ---- I7, I8, I9 --------------------------------------------------------- */

static void see(uint64_t number, int called, int at)
{
    camp_record *r = put(CAMP_SEEN, 9, 0, at);

    r->called = ms(called);
    r->number = number;
}

static void overtaken(void)
{
    begin(CAMP_TOKENS | CAMP_FIFO);
    see(7, 0, 2);
    grant(1, 1, 10, 50, 8);
    give(1, 1, 60, 0);
    see(7, 70, 71);
    EXPECT_EQ(judged(), 7);
    plot[0].number = CAMP_TOKENS; /* it promises no order */
    EXPECT_EQ(judged(), 0);
    plot[0].number = CAMP_TOKENS | CAMP_FIFO_CALM;
    EXPECT_EQ(judged(), 7);
    put(CAMP_FAULT, 0, 0, 20)->code = 13; /* it promises it in peace */
    EXPECT_EQ(judged(), 0);
    begin(CAMP_TOKENS | CAMP_FIFO);
    grant(1, 1, 1, 5, 8); /* its process was there before */
    see(7, 10, 12);
    grant(1, 2, 15, 50, 9);
    give(1, 1, 49, 0);
    give(1, 2, 60, 0);
    see(7, 70, 71);
    EXPECT_EQ(judged(), 0);
}

static void left_behind(void)
{
    camp_record *r;

    begin(0);
    put(CAMP_BEGIN, 1, 0, 0);
    r = put(CAMP_END, 1, 0, 10);
    r->token = r->number = 5;
    EXPECT_EQ(judged(), 0);
    r->number = 6;
    EXPECT_EQ(judged(), 8);
}

static void never_answered(void)
{
    begin(0);
    put(CAMP_ASK, 1, 1, 0)->until = INT64_MAX;
    EXPECT_EQ(judged(), 9);
    put(CAMP_KILL, 0, 1, 50); /* it was killed */
    EXPECT_EQ(judged(), 0);
    begin(0);
    put(CAMP_FINISH, 0, 0, 100);
    refuse(1, 1, 0, 20000, HF_ETIMEDOUT, 0);
    EXPECT_EQ(judged(), 9); /* far too late */
}

/* ---- I6, I10, and what the page allows ---------------------------------- */

static void slept_beside_a_free_lock(void)
{
    in_turn(100, 50, 7000, 6); /* a push was lost, and it looked by itself */
    EXPECT_EQ(judged(), 0);
    in_turn(100, 50, 9000, 6);
    EXPECT_EQ(judged(), 6);
    put(CAMP_FAULT, 0, 0, 60)->code = 11; /* there was no peace */
    put(CAMP_HEALED, 0, 0, 1000)->code = 11;
    EXPECT_EQ(judged(), 0);
    in_turn(100, 50, 9000, 6);
    put(CAMP_STALL, 2, 0, 8900)->called = ms(200); /* it stood still */
    EXPECT_EQ(judged(), 0);
    in_turn(8900, 50, 9000, 6); /* it has it all the time */
    EXPECT_EQ(judged(), 0);
}

static void ended_without_a_word(void)
{
    begin(0);
    put(CAMP_BEGIN, 1, 0, 0);
    put(CAMP_FINISH, 0, 0, 100);
    EXPECT_EQ(judged(), 10);
    put(CAMP_KILL, 0, 1, 50);
    EXPECT_EQ(judged(), 0);
    begin(0);
    put(CAMP_BEGIN, 1, 0, 0);
    put(CAMP_END, 1, 0, 10);
    put(CAMP_FINISH, 0, 0, 100);
    EXPECT_EQ(judged(), 0);
}

static void allowed_by_the_page(void)
{
    in_turn(100, 5, 99, 6);
    put(CAMP_FAULT, 0, 0, 50)->code = 9;
    EXPECT_EQ(judged(), 1);
    plot[0].token = 1 << 9; /* the page says that this fault may do it */
    EXPECT_EQ(judged(), 0);
    put(CAMP_HEALED, 0, 0, 51)->code = 9;
    EXPECT_EQ(judged(), 0);
    plot[lines - 1].number = 1; /* it was not done */
    EXPECT_EQ(judged(), 1);
    plot[lines - 1].number = 0;
    plot[0].token = 1 << 8; /* another one */
    EXPECT_EQ(judged(), 1);
    plot[0].token = 1 << 9;
    plot[2].token = 6; /* but no token is granted twice all the same */
    EXPECT_EQ(plot[2].kind, CAMP_GRANT);
    EXPECT_EQ(judged(), 2);
}

static void credentials(void)
{
    begin(0);
    refuse(1, 1, 0, 1, HF_EAUTH, 0);
    EXPECT_EQ(judged(), 4);
    put(CAMP_FAULT, 0, 0, 0)->code = 23;
    EXPECT_EQ(judged(), 0);
}

static void no_beginning(void)
{
    lines = 0;
    grant(1, 1, 0, 10, 5);
    give(1, 1, 20, 0);
    EXPECT_EQ(judged(), 10);
}

static void damage_is_counted(void)
{
    static camp_case c;

    begin(CAMP_TOKENS);
    grant(1, 1, 0, 10, 5);
    for (size_t i = 0; i < lines; i++)
        plot[i].sum = camp_sum(&plot[i]);
    plot[2].token ^= 1;
    EXPECT(camp_add(&c, plot, lines * sizeof *plot - 5));
    EXPECT(camp_build(&c));
    EXPECT_EQ(c.counts.damaged, 2);
    EXPECT_EQ(c.counts.records, lines - 2);
    camp_free(&c);
}

static const test_case cases[] = {
    TEST(one_after_the_other),
    TEST(two_holders),
    TEST(sharers_and_one_alone),
    TEST(rival_before_the_deadline),
    TEST(loss_ends_the_belief),
    TEST(tokens_that_fall),
    TEST(taken_again),
    TEST(fenced),
    TEST(answers),
    TEST(lost_and_held_all_the_time),
    TEST(told_late),
    TEST(overtaken),
    TEST(left_behind),
    TEST(never_answered),
    TEST(slept_beside_a_free_lock),
    TEST(ended_without_a_word),
    TEST(allowed_by_the_page),
    TEST(credentials),
    TEST(no_beginning),
    TEST(damage_is_counted),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "campaign_checker", cases,
                     sizeof cases / sizeof *cases);
}
