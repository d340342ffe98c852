/* checker_test.c - histories written by hand: the good pass, and each broken
 * invariant is convicted by its own number.
 *
 * A checker that convicts nobody looks like a correct program; so every rule
 * has a history here that differs from a good one by one event. */
#include "harness/expect.h"
#include "harness/runner.h"
#include "sim/checker.h"

#define MS(n) ((int64_t)(n)*1000000)

static sim_history history;

static sim_event *add(sim_event_kind kind, int at_ms, int life, uint32_t task)
{
    sim_event *e = sim_record(&history, kind, MS(at_ms));

    e->life = (uint8_t)life;
    e->task = task;
    return e;
}

static void ask(int at, int life, uint32_t task)
{
    add(SIM_ASK, at, life, task)->until = INT64_MAX;
}

static void store_grant(int at, int life, uint64_t token)
{
    sim_event *e = add(SIM_STORE_GRANT, at, life, 0);

    e->token = e->num = token;
    e->count = 1;
}

static sim_event *told(int at, int life, uint32_t task, uint64_t token,
                       int until)
{
    sim_event *e = add(SIM_GRANT, at, life, task);

    e->token = token;
    e->until = MS(until);
    return e;
}

static void release(int at, int life, uint32_t task, int code)
{
    add(SIM_RELEASE, at, life, task);
    add(SIM_RELEASED, at + 1, life, task)->code = code;
}

/* Asked, granted by the store, told, all of it at once. */
static void take(int at, int life, uint32_t task, uint64_t token, int until)
{
    ask(at, life, task);
    store_grant(at + 1, life, token);
    told(at + 2, life, task, token, until);
}

static void end(int at)
{
    add(SIM_SERVED, at, 0, 0);
    add(SIM_END, at, 0, 0);
}

static void expect_verdict(int invariant)
{
    sim_verdict verdict;

    sim_check(&history, &verdict);
    if (verdict.invariant != invariant)
        FAIL_TEST("expected I%d, the checker says I%d: %s", invariant,
                  verdict.invariant, verdict.text);
    sim_history_free(&history);
}

static void good_one_after_the_other(void)
{
    take(0, 1, 1, 5, 1000);
    ask(10, 2, 2);
    release(100, 1, 1, 0);
    store_grant(101, 2, 6);
    told(102, 2, 2, 6, 1000);
    release(200, 2, 2, 0);
    end(300);
    expect_verdict(0);
}

static void good_after_the_deadline(void)
{
    take(0, 1, 1, 5, 100);
    take(150, 2, 2, 6, 1000);
    release(160, 1, 1, HF_EEXPIRED);
    release(170, 2, 2, 0);
    end(300);
    expect_verdict(0);
}

static void good_again(void)
{
    take(0, 1, 1, 5, 1000);
    add(SIM_ASK, 3, 1, 2)->flags = SIM_OWNED;
    told(4, 1, 2, 5, 1000)->flags = SIM_AGAIN;
    release(10, 1, 2, 0);
    release(20, 1, 1, 0);
    end(300);
    expect_verdict(0);
}

static void i1_two_believe(void)
{
    take(0, 1, 1, 5, 1000);
    history.events[1].count = 2; /* a run, handed on before the release */
    ask(10, 1, 2);
    told(13, 1, 2, 6, 1000);
    end(300);
    expect_verdict(1);
}

static void i1_extended_too_far(void)
{
    take(0, 1, 1, 5, 100);
    take(150, 2, 2, 6, 1000);
    add(SIM_BELIEF, 160, 1, 1)->until = MS(400);
    end(300);
    expect_verdict(1);
}

static void i1_too_many_permits(void)
{
    for (uint32_t i = 1; i <= 3; i++) {
        sim_event *e = add(SIM_ASK, (int)i, (int)i, i);

        e->mode = HF_PERMIT;
        e->count = 2;
        e->until = INT64_MAX;
        store_grant(10 + (int)i, 1, 4 + i);
        history.events[history.count - 1].mode = HF_PERMIT;
        history.events[history.count - 1].life = (uint8_t)i;
    }
    for (uint32_t i = 1; i <= 3; i++)
        told(20 + (int)i, (int)i, i, 4 + i, 900)->mode = HF_PERMIT;
    end(300);
    expect_verdict(1);
}

static void i2_same_token_twice(void)
{
    take(0, 1, 1, 5, 1000);
    release(10, 1, 1, 0);
    ask(20, 1, 2);
    told(21, 1, 2, 5, 1000);
    end(300);
    expect_verdict(2);
}

static void i2_token_falls(void)
{
    store_grant(1, 1, 7);
    history.events[0].count = 8; /* a run: 7 to 14 */
    ask(2, 1, 1);
    told(3, 1, 1, 9, 1000);
    release(10, 1, 1, 0);
    ask(20, 1, 2);
    told(21, 1, 2, 8, 1000);
    end(300);
    expect_verdict(2);
}

static void i2_store_token_falls(void)
{
    take(0, 1, 1, 5, 100);
    release(10, 1, 1, 0);
    store_grant(20, 2, 4);
    end(300);
    expect_verdict(2);
}

static void i3_holder_is_refused(void)
{
    take(0, 1, 1, 5, 1000);
    add(SIM_ACT, 10, 1, 1)->token = 9; /* somebody wrote with a later one */
    add(SIM_ACT, 11, 1, 1)->token = 5;
    end(300);
    expect_verdict(3);
}

static void i4_grant_out_of_nothing(void)
{
    ask(0, 1, 1);
    told(1, 1, 1, 5, 1000);
    end(300);
    expect_verdict(4);
}

static void i4_release_was_not_held(void)
{
    take(0, 1, 1, 5, 100);
    take(150, 2, 2, 6, 1000);
    release(160, 1, 1, 0);
    end(300);
    expect_verdict(4);
}

static void i4_lost_without_reason(void)
{
    sim_event *e;

    take(0, 1, 1, 5, 1000);
    e = add(SIM_GONE, 50, 1, 1);
    e->flags = SIM_STANDING;
    e->code = HF_EEXPIRED;
    end(300);
    expect_verdict(4);
}

static void i4_forced_by_nobody(void)
{
    take(0, 1, 1, 5, 1000);
    add(SIM_GONE, 50, 1, 1)->code = HF_EFORCED;
    end(300);
    expect_verdict(4);
}

static void good_forced(void)
{
    take(0, 1, 1, 5, 1000);
    add(SIM_BREAK, 20, 0, 0);
    add(SIM_GONE, 50, 1, 1)->code = HF_EFORCED;
    release(60, 1, 1, HF_EFORCED);
    end(300);
    expect_verdict(0);
}

static void i4_lost_then_held(void)
{
    take(0, 1, 1, 5, 100);
    add(SIM_GONE, 100, 1, 1)->code = HF_EEXPIRED;
    add(SIM_BELIEF, 110, 1, 1)->until = MS(500);
    end(300);
    expect_verdict(4);
}

static void i4_lost_is_handed_on(void)
{
    take(0, 1, 1, 5, 100);
    history.events[1].count = 2;
    ask(10, 1, 2);
    add(SIM_GONE, 100, 1, 1)->code = HF_EEXPIRED;
    release(150, 1, 1, HF_EEXPIRED);
    told(151, 1, 2, 6, 151);
    end(300);
    expect_verdict(4);
}

static void i4_granted_after_the_end(void)
{
    ask(0, 1, 1);
    store_grant(1, 1, 5);
    told(2, 1, 1, 5, 2)->flags = SIM_OVER;
    end(300);
    expect_verdict(4);
}

static void i4_busy_though_it_waits(void)
{
    ask(0, 1, 1);
    add(SIM_REFUSED, 5, 1, 1)->code = HF_EBUSY;
    end(300);
    expect_verdict(4);
}

static void i4_timed_out_too_early(void)
{
    add(SIM_ASK, 0, 1, 1)->until = MS(100);
    add(SIM_REFUSED, 5, 1, 1)->code = HF_ETIMEDOUT;
    end(300);
    expect_verdict(4);
}

static void good_refused_by_the_weather(void)
{
    ask(0, 1, 1);
    add(SIM_CALM, 1, 0, 0);
    add(SIM_REFUSED, 5, 1, 1)->code = HF_EUNAVAIL;
    end(300);
    expect_verdict(0);
}

static void i4_come_again_in_calm(void)
{
    static const int codes[] = {HF_EUNAVAIL, HF_ENOMEM, HF_EFULL};

    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        add(SIM_CALM, 1, 0, 0);
        ask(1, 1, 1);
        add(SIM_REFUSED, 5, 1, 1)->code = codes[i];
        end(300);
        expect_verdict(4);
    }
}

static void i4_unknown_release_in_calm(void)
{
    add(SIM_CALM, 1, 0, 0);
    take(1, 1, 1, 5, 1000);
    release(10, 1, 1, HF_EUNKNOWN);
    end(300);
    expect_verdict(4);
}

static void i4_answered_twice(void)
{
    take(0, 1, 1, 5, 100);
    add(SIM_REFUSED, 5, 1, 1)->code = HF_ENOMEM;
    end(300);
    expect_verdict(4);
}

static void i5_granted_under_a_belief(void)
{
    take(0, 1, 1, 5, 100);
    store_grant(50, 2, 6);
    end(300);
    expect_verdict(5);
}

static void i6_told_late(void)
{
    add(SIM_CALM, 1, 0, 0);
    ask(1, 1, 1);
    store_grant(2, 1, 5);
    told(900, 1, 1, 5, 2000);
    end(3000);
    expect_verdict(6);
}

static void i7_store_overtakes(void)
{
    take(0, 1, 1, 5, 100);
    release(10, 1, 1, 0);
    store_grant(20, 2, 6);
    history.events[history.count - 1].num = 4;
    end(300);
    expect_verdict(7);
}

static void i7_line_overtakes(void)
{
    ask(0, 1, 1);
    ask(1, 1, 2);
    history.events[0].num = history.events[1].num = 1;
    store_grant(2, 1, 5);
    told(3, 1, 2, 5, 100)->num = 1;
    end(300);
    expect_verdict(7);
}

static void i8_entry_left(void)
{
    end(300);
    history.events[1].count = 1;
    expect_verdict(8);
}

static void i8_memory_left(void)
{
    end(300);
    history.events[1].num = 1;
    expect_verdict(8);
}

static void i9_never_answered(void)
{
    ask(0, 1, 1);
    end(30000);
    expect_verdict(9);
}

static void i9_release_never_answered(void)
{
    take(0, 1, 1, 5, 100);
    add(SIM_RELEASE, 10, 1, 1);
    end(30000);
    expect_verdict(9);
}

static void i10_record_is_full(void)
{
    take(0, 1, 1, 5, 1000);
    release(10, 1, 1, 0);
    history.full = true;
    expect_verdict(10);
}

static void good_crash_ends_everything(void)
{
    take(0, 1, 1, 5, 1000);
    ask(5, 1, 2);
    add(SIM_CRASH, 10, 1, 0);
    take(20, 2, 3, 6, 1000);
    release(30, 2, 3, 0);
    end(300);
    expect_verdict(0);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        TEST(good_one_after_the_other),
        TEST(good_after_the_deadline),
        TEST(good_again),
        TEST(good_crash_ends_everything),
        TEST(i1_two_believe),
        TEST(i1_extended_too_far),
        TEST(i1_too_many_permits),
        TEST(i2_same_token_twice),
        TEST(i2_token_falls),
        TEST(i2_store_token_falls),
        TEST(i3_holder_is_refused),
        TEST(i4_grant_out_of_nothing),
        TEST(i4_release_was_not_held),
        TEST(i4_lost_without_reason),
        TEST(i4_forced_by_nobody),
        TEST(good_forced),
        TEST(i4_lost_then_held),
        TEST(i4_lost_is_handed_on),
        TEST(i4_granted_after_the_end),
        TEST(i4_busy_though_it_waits),
        TEST(i4_timed_out_too_early),
        TEST(good_refused_by_the_weather),
        TEST(i4_come_again_in_calm),
        TEST(i4_unknown_release_in_calm),
        TEST(i4_answered_twice),
        TEST(i5_granted_under_a_belief),
        TEST(i6_told_late),
        TEST(i7_store_overtakes),
        TEST(i7_line_overtakes),
        TEST(i8_entry_left),
        TEST(i8_memory_left),
        TEST(i9_never_answered),
        TEST(i9_release_never_answered),
        TEST(i10_record_is_full),
    };

    return run_tests(argc, argv, "sim_checker", cases,
                     sizeof cases / sizeof *cases);
}
