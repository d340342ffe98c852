/* checker_reason_test.c - an answer that blames the store, a loss, two holders:
 * the checker wants a reason, and one that can have caused it; and a wake-up
 * that comes late is counted.
 *
 * As in checker_test.c: what is good is told first, then the same with one
 * thing wrong. */
#include "plot.h"

#include "harness/expect.h"
#include "harness/runner.h"

enum { LATER = 60000 }; /* the beginning is long ago */

/* ---- I4: refusals ------------------------------------------------------- */

static void blames_the_store(void)
{
    begin(0);
    strike(11, LATER, LATER + 500);
    refuse(1, 1, LATER + 100, LATER + 400, HF_EUNAVAIL, 0);
    refuse(1, 2, LATER + 9000, LATER + 9100, HF_EUNAVAIL, 0);
    EXPECT_EQ(judged(), 0); /* the last word of a server */
    refuse(1, 3, LATER + 10000, LATER + 10100, HF_EUNAVAIL, 0);
    EXPECT_EQ(judged(), 4); /* for ever after */
    begin(0);
    refuse(1, 1, LATER, LATER + 100, HF_EQUORUM, 0);
    EXPECT_EQ(judged(), 4);
    strike(13, LATER + 200, LATER + 300);
    EXPECT_EQ(judged(), 4); /* it came later */
    begin(0);
    refuse(1, 1, 1000, 1100, HF_EQUARANTINE, 0);
    EXPECT_EQ(judged(), 0); /* the store is new */
    refuse(1, 2, LATER, LATER + 1, HF_EQUARANTINE, CAMP_TRY);
    EXPECT_EQ(judged(), 4);
}

static void reaches_nobody(void)
{
    static const int faults[] = {18, 25, 28};

    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        begin(0);
        strike(faults[i], LATER, 0);
        refuse(1, 1, LATER + 100, LATER + 400, HF_EUNAVAIL, 0);
        EXPECT_EQ(judged(), 4);
    }
    begin(0);
    strike(27, LATER, LATER + 100);
    refuse(1, 1, LATER + 50, LATER + 80, HF_EUNAVAIL, 0);
    EXPECT_EQ(judged(), 0);
    begin(0);
    grant(1, 1, LATER, LATER + 1, 5);
    put(CAMP_CHECK, 1, 1, LATER + 20)->code = HF_EUNKNOWN;
    give(1, 1, LATER + 50, 0);
    EXPECT_EQ(judged(), 4);
    strike(18, LATER + 10, 0); /* the clock was in doubt */
    EXPECT_EQ(judged(), 0);
}

static void released_into_the_void(void)
{
    begin(0);
    grant(1, 1, LATER, LATER + 1, 5);
    give(1, 1, LATER + 50, HF_EUNKNOWN);
    EXPECT_EQ(judged(), 4);
    strike(16, LATER + 40, LATER + 60);
    EXPECT_EQ(judged(), 0);
}

static void no_room(void)
{
    begin(0);
    refuse(1, 1, LATER, LATER + 1, HF_EFULL, 0);
    EXPECT_EQ(judged(), 4);
    strike(30, LATER - 10, 0);
    EXPECT_EQ(judged(), 0);
    begin(0);
    strike(30, LATER - 10, 0);
    refuse(1, 1, LATER, LATER + 1, HF_ECLOSED, 0);
    EXPECT_EQ(judged(), 4); /* nobody closes what is in use */
}

/* ---- I4: losses --------------------------------------------------------- */

static void hold_and_lose(void)
{
    begin(0);
    grant(1, 1, LATER, LATER + 1, 5);
    lose(1, 1, LATER + 1500);
    give(1, 1, LATER + 1600, HF_EEXPIRED);
}

static void lost_for_nothing(void)
{
    static const int harmless[] = {1, 2, 18, 25, 28};

    hold_and_lose();
    EXPECT_EQ(judged(), 4);
    strike(11, LATER + 100, LATER + 1400);
    EXPECT_EQ(judged(), 0);
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        hold_and_lose();
        strike(harmless[i], LATER + 100, LATER + 1400);
        EXPECT_EQ(judged(), 4);
    }
    hold_and_lose();
    strike(11, LATER + 100, LATER + 1400);
    plot[lines - 1].number = 1; /* it was not done */
    EXPECT_EQ(judged(), 4);
    begin(0); /* by its release alone */
    grant(1, 1, LATER, LATER + 1, 5);
    give(1, 1, LATER + 50, HF_ETAKEN);
    EXPECT_EQ(judged(), 4);
    strike(8, LATER, LATER + 10);
    EXPECT_EQ(judged(), 0);
}

static void lost_while_it_was_tidied_up(void)
{
    hold_and_lose();
    strike(27, LATER + 100, LATER + 500);
    EXPECT_EQ(judged(), 4);
    hold_and_lose();
    strike(27, LATER + 100, LATER + 1400); /* nobody could renew */
    EXPECT_EQ(judged(), 0);
}

static void lost_on_a_busy_machine(void)
{
    camp_record *r;

    hold_and_lose();
    r = put(CAMP_STALL, 2, 0, LATER + 900);
    r->called = ms(LATER + 300);
    EXPECT_EQ(judged(), 0);
    r->called = ms(LATER + 600); /* not long enough */
    EXPECT_EQ(judged(), 4);
    hold_and_lose();
    grant(2, 1, LATER - 500, LATER - 400, 4);
    give(2, 1, LATER - 300, 0);
    r = &plot[lines - 1]; /* the store had no time for anybody */
    plot[lines - 2].at = plot[lines - 2].called = ms(LATER - 300);
    r->called = ms(LATER - 300);
    r->at = ms(LATER - 200);
    EXPECT_EQ(judged(), 4);
    r->called = plot[lines - 2].at = plot[lines - 2].called = ms(LATER - 990);
    r->at = ms(LATER - 10);
    plot[lines - 5].at = plot[lines - 5].called = ms(LATER - 1500);
    plot[lines - 4].at = plot[lines - 4].called = ms(LATER - 1400);
    plot[lines - 3].at = plot[lines - 3].called = ms(LATER - 1300);
    plot[lines - 3].until = ms(LATER);
    EXPECT_EQ(judged(), 0);
}

static void ends_by_itself(void)
{
    begin(0);
    grant(1, 1, LATER, LATER + 1, 5);
    EXPECT_EQ(plot[1].kind, CAMP_ASK);
    plot[1].flags = CAMP_ENDS;
    plot[1].token = 1000 * 1000000;
    plot[3].until = ms(LATER + 800);
    lose(1, 1, LATER + 800);
    give(1, 1, LATER + 1200, HF_EEXPIRED);
    EXPECT_EQ(judged(), 0);
    plot[4].at = plot[4].called = ms(LATER + 500); /* long before its end */
    EXPECT_EQ(judged(), 4);
}

/* ---- I5 ----------------------------------------------------------------- */

static void told_after_the_rival(void)
{
    begin(CAMP_TOKENS);
    strike(11, LATER + 100, LATER + 1500);
    grant(1, 1, LATER, LATER + 1, 5);
    grant(2, 1, LATER + 50, LATER + 2100, 6);
    give(2, 1, LATER + 2200, 0);
    lose(1, 1, LATER + 2300);
    give(1, 1, LATER + 3500, HF_EEXPIRED);
    EXPECT_EQ(judged(), 0);
    plot[lines - 3].at = plot[lines - 3].called = ms(LATER + 2700);
    EXPECT_EQ(judged(), 5);
    put(CAMP_STALL, 1, 0, LATER + 2600)->called = ms(LATER + 1800);
    EXPECT_EQ(judged(), 0);
    lines--;
    put(CAMP_KILL, 0, 1, LATER + 2150);
    EXPECT_EQ(judged(), 0);
    lines--;
    plot[0].token = 1 << 11; /* the page says that there may be two */
    EXPECT_EQ(judged(), 0);
}

static void never_told(void)
{
    begin(CAMP_TOKENS);
    strike(11, LATER + 100, LATER + 1500);
    grant(1, 1, LATER, LATER + 1, 5);
    grant(2, 1, LATER + 50, LATER + 2100, 6);
    give(2, 1, LATER + 2200, 0);
    give(1, 1, LATER + 2500, HF_EEXPIRED);
    EXPECT_EQ(judged(), 0);
    plot[lines - 2].at = plot[lines - 2].called = ms(LATER + 2700);
    plot[lines - 1].at = ms(LATER + 2701);
    EXPECT_EQ(judged(), 5);
}

/* ---- I9 ----------------------------------------------------------------- */

static void refused_in_peace(void)
{
    begin(0);
    strike(11, LATER, LATER + 500);
    put(CAMP_CALM, 0, 0, LATER + 600);
    refuse(1, 1, LATER + 3000, LATER + 3100, HF_EUNAVAIL, 0);
    EXPECT_EQ(judged(), 0); /* it had no time to find its store again */
    refuse(1, 2, LATER + 4000, LATER + 4100, HF_EUNAVAIL, 0);
    EXPECT_EQ(judged(), 9);
    plot[lines - 1].code = HF_EQUARANTINE;
    EXPECT_EQ(judged(), 0);
    plot[lines - 2].at = plot[lines - 2].called = ms(LATER + 7000);
    plot[lines - 1].at = ms(LATER + 7001);
    plot[lines - 1].called = ms(LATER + 7000);
    EXPECT_EQ(judged(), 9);
    strike(13, LATER + 6900, 0); /* somebody struck again */
    EXPECT_EQ(judged(), 0);
    begin(0);
    strike(11, LATER, LATER + 500);
    put(CAMP_CALM, 0, 0, LATER + 600);
    refuse(1, 1, LATER + 100, LATER + 5000, HF_EUNAVAIL, 0);
    EXPECT_EQ(judged(), 0); /* it had waited, and bore with it for a lease */
    plot[lines - 1].at = ms(LATER + 6000);
    EXPECT_EQ(judged(), 9);
}

/* The servers needed longer to be whole again than a fault is a reason: what
 * is felt then counts from when they were. */
static void whole_long_after_it_was_healed(void)
{
    begin(0);
    strike(12, LATER, LATER + 500);
    refuse(1, 1, LATER + 21000, LATER + 21100, HF_EQUARANTINE, 0);
    EXPECT_EQ(judged(), 4);
    put(CAMP_CALM, 0, 0, LATER + 20000);
    EXPECT_EQ(judged(), 0);
}

/* ---- I6 ----------------------------------------------------------------- */

static void waited_till_it_was_killed(void)
{
    begin(0);
    grant(1, 1, LATER, LATER + 1, 5);
    give(1, 1, LATER + 100, 0);
    put(CAMP_ASK, 2, 1, LATER + 50)->until = INT64_MAX;
    put(CAMP_KILL, 0, 2, LATER + 5000);
    EXPECT_EQ(judged(), 0);
    plot[lines - 1].at = plot[lines - 1].called = ms(LATER + 9000);
    EXPECT_EQ(judged(), 6);
}

/* So many hand-overs, each after this many ms. */
static void hand_over(int late, int times, int wait)
{
    for (int i = 0; i < times; i++) {
        uint32_t n = (uint32_t)i + 1;
        int from = LATER + i * 10000;

        grant(2, n, from, from + 1, 2 * n);
        put(CAMP_ASK, 1, n, from + 2)->until = INT64_MAX;
        give(2, n, from + 10, 0);
        put(CAMP_GRANT, 1, n, from + 11 + (i < late ? wait : 5))->token =
            2 * n + 1;
        give(1, n, from + 5000, 0);
    }
}

static void pushes_that_nobody_hears(void)
{
    begin(CAMP_TOKENS | CAMP_PUSH);
    hand_over(5, 20, 3000);
    EXPECT_EQ(judged(), 0); /* bad luck */
    EXPECT_EQ(counted.wakes, 20);
    EXPECT_EQ(counted.late_wakes, 5);
    begin(CAMP_TOKENS | CAMP_PUSH);
    hand_over(6, 20, 3000);
    EXPECT_EQ(judged(), 6);
    plot[0].number = CAMP_TOKENS; /* it promises to poll, no more */
    EXPECT_EQ(judged(), 0);
    plot[0].number |= CAMP_PUSH;
    strike(11, LATER, 0); /* there was no peace, and nothing is judged */
    EXPECT_EQ(judged(), 0);
    EXPECT_EQ(counted.wakes, 0);
    begin(CAMP_TOKENS | CAMP_PUSH);
    hand_over(20, 20, 900);
    EXPECT_EQ(judged(), 0);
}

/* ---- Two holders, as the page allows ------------------------------------ */

/* While a server stands still nobody is granted anything. */
static void still_stands(int fault)
{
    begin(CAMP_TOKENS);
    plot[0].token = UINT64_C(1) << fault;
    strike(fault, LATER, LATER + 2000);
    grant(1, 1, LATER - 100, LATER - 50, 5);
    grant(2, 1, LATER - 90, LATER + 100, 6);
    give(2, 1, LATER + 150, 0);
    give(1, 1, LATER + 200, 0);
}

static void two_while_it_stands_still(void)
{
    still_stands(6);
    EXPECT_EQ(judged(), 1);
    still_stands(19);
    EXPECT_EQ(judged(), 1);
    still_stands(20);
    EXPECT_EQ(judged(), 0);
    still_stands(6);
    plot[1].at = plot[1].called = ms(LATER - 3000);
    plot[2].at = plot[2].called = ms(LATER + 90); /* it goes on */
    EXPECT_EQ(judged(), 0);
    plot[1].at = plot[1].called = ms(LATER - 9000);
    plot[2].at = plot[2].called = ms(LATER - 5000); /* long ago */
    EXPECT_EQ(judged(), 1);
    still_stands(6);
    plot[2].kind = CAMP_SEEN; /* it still stands still */
    EXPECT_EQ(judged(), 1);
}

static void places(void)
{
    begin(CAMP_TOKENS);
    grant(1, 1, LATER, LATER + 10, 5);
    grant(2, 1, LATER, LATER + 20, 6);
    grant(3, 1, LATER, LATER + 41, 7);
    give(1, 1, LATER + 40, 0);
    give(2, 1, LATER + 50, 0);
    give(3, 1, LATER + 60, 0);
    for (size_t i = 1; i < lines; i++) {
        plot[i].mode = HF_PERMIT;
        plot[i].key = CAMP_PERMITS;
    }
    EXPECT_EQ(judged(), 0);
    plot[8].at = ms(LATER + 39);
    EXPECT_EQ(plot[8].kind, CAMP_GRANT);
    EXPECT_EQ(judged(), 1);
    plot[8].at = ms(LATER + 41);
    for (size_t i = 4; i < 7; i++)
        plot[i].mode = HF_SHARED; /* not a place */
    EXPECT_EQ(judged(), 1);
}

/* One of two places is taken: there is room. */
static void busy_places(void)
{
    begin(0);
    grant(1, 1, LATER, LATER + 10, 5);
    grant(2, 1, LATER, LATER + 20, 6);
    refuse(3, 1, LATER + 25, LATER + 26, HF_EBUSY, CAMP_TRY);
    give(1, 1, LATER + 40, 0);
    give(2, 1, LATER + 50, 0);
    for (size_t i = 1; i < lines; i++) {
        plot[i].mode = HF_PERMIT;
        plot[i].key = CAMP_PERMITS;
    }
    EXPECT_EQ(judged(), 0);
    EXPECT_EQ(plot[4].kind, CAMP_ASK);
    for (size_t i = 4; i < 7; i++)
        plot[i].key = 0; /* the other is elsewhere */
    plot[lines - 2].key = plot[lines - 1].key = 0;
    EXPECT_EQ(judged(), 4);
}

/* Its thread ended: whoever was inside cannot say that it was held all the
 * time, and the library gives it back soon. */
static void left_by_its_thread(void)
{
    in_turn(2500, 5, 2400, 6); /* told "held all the time", and that is a lie */
    EXPECT_EQ(judged(), 1);
    plot[5].flags = CAMP_LEAVES;
    EXPECT_EQ(plot[5].kind, CAMP_RELEASED);
    EXPECT_EQ(judged(), 0);
}

static const test_case cases[] = {
    TEST(blames_the_store),
    TEST(reaches_nobody),
    TEST(released_into_the_void),
    TEST(no_room),
    TEST(lost_for_nothing),
    TEST(lost_while_it_was_tidied_up),
    TEST(lost_on_a_busy_machine),
    TEST(ends_by_itself),
    TEST(told_after_the_rival),
    TEST(never_told),
    TEST(refused_in_peace),
    TEST(whole_long_after_it_was_healed),
    TEST(waited_till_it_was_killed),
    TEST(pushes_that_nobody_hears),
    TEST(two_while_it_stands_still),
    TEST(places),
    TEST(busy_places),
    TEST(left_by_its_thread),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "campaign_reasons", cases,
                     sizeof cases / sizeof *cases);
}
