/* join.c - HF_OP_JOIN: a place at the tail, the same one when asked again.
 *
 * Checks the law (numbers rise in the order of appearance, for ever), that a
 * repeated join finds its place, that a try appends nothing and overtakes
 * nobody, and that a run of tokens belongs to one entry. */
#include "suite.h"

static void join_is_granted_when_free(void)
{
    party *a = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE);

    must_hold(a, &one);
    EXPECT_EQ(one.run, 1);
    if (HAS_CAP(a, HF_CAP_TOKEN))
        EXPECT_EQ(one.token, one.num);
    must_leave(a, &one);
    EXPECT_EQ(count_entries(a), 0);
    party_close(a);
}

static void join_waits_behind_another(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place two = make_place("k", HF_EXCLUSIVE);

    must_hold(a, &one);
    must_wait(b, &two);
    EXPECT(two.num > one.num || !HAS_CAP(a, HF_CAP_FIFO));
    EXPECT(two.look_in >= 0 && two.look_in <= HF_MS(LONG_MS));
    must_leave(a, &one);
    await_verdict(b, &two, HF_GRANTED);
    EXPECT_RISES(b, two.token, one.token);
    must_leave(b, &two);
    party_close(a);
    party_close(b);
}

/* A reply that was lost is asked for again: same place, same token. */
static void join_again_is_the_same_place(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE), again = one;
    hf_place two = make_place("k", HF_EXCLUSIVE), two_again = two;

    must_hold(a, &one);
    must_hold(a, &again);
    EXPECT_EQ(again.num, one.num);
    EXPECT_EQ(again.token, one.token);
    must_wait(b, &two);
    must_wait(b, &two_again);
    EXPECT_EQ(two_again.num, two.num);
    EXPECT_EQ(count_entries(a), 2);
    must_leave(a, &one);
    await_verdict(b, &two, HF_GRANTED);
    two_again.rid = two.rid;
    EXPECT_CODE(join(b, &two_again), 0);
    EXPECT_EQ(two_again.verdict, HF_GRANTED);
    EXPECT_EQ(two_again.token, two.token);
    EXPECT_EQ(two_again.num, two.num);
    must_leave(b, &two);
    EXPECT_EQ(count_entries(a), 0);
    party_close(a);
    party_close(b);
}

static void try_appends_nothing_unless_granted(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place two = make_place("k", HF_EXCLUSIVE);
    hf_place three = make_place("k", HF_EXCLUSIVE);

    EXPECT_CODE(try_join(a, &one), 0);
    EXPECT_EQ(one.verdict, HF_GRANTED);
    EXPECT_CODE(try_join(b, &two), HF_EBUSY);
    EXPECT(two.look_in >= 0 && two.look_in <= HF_MS(LONG_MS));
    EXPECT_EQ(count_entries(a), 1);
    must_leave(a, &one);
    EXPECT_CODE(try_join(b, &three), 0);
    EXPECT_EQ(three.verdict, HF_GRANTED);
    EXPECT_RISES(b, three.token, one.token);
    must_leave(b, &three);
    party_close(a);
    party_close(b);
}

/* A try whose reply was lost is asked again: what it has is not "busy". */
static void try_again_is_the_same_place(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE), again = one;
    hf_place two = make_place("k", HF_EXCLUSIVE);

    EXPECT_CODE(try_join(a, &one), 0);
    EXPECT_CODE(try_join(a, &again), 0);
    EXPECT_EQ(again.verdict, HF_GRANTED);
    EXPECT_EQ(again.token, one.token);
    EXPECT_EQ(count_entries(b), 1);
    must_wait(b, &two); /* with somebody behind it, too */
    EXPECT_CODE(try_join(a, &again), 0);
    EXPECT_EQ(again.verdict, HF_GRANTED);
    EXPECT_EQ(again.token, one.token);
    must_leave(a, &one);
    await_verdict(b, &two, HF_GRANTED);
    must_leave(b, &two);
    EXPECT_EQ(count_entries(b), 0);
    party_close(a);
    party_close(b);
}

static void try_overtakes_nobody(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place reader = make_place("k", HF_SHARED);
    hf_place writer = make_place("k", HF_EXCLUSIVE);
    hf_place late = make_place("k", HF_SHARED);

    must_hold(a, &reader);
    must_wait(b, &writer);
    EXPECT_CODE(try_join(a, &late), HF_EBUSY);
    EXPECT_EQ(leave(b, &writer), HF_WAITS);
    late.rid = make_rid();
    EXPECT_CODE(try_join(a, &late), 0);
    must_leave(a, &late);
    must_leave(a, &reader);
    party_close(a);
    party_close(b);
}

/* The law: an entry that appears later has a larger number, over all keys, and
 * when the key was empty in between. */
static void numbers_rise_for_ever(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    uint64_t last = 0;

    for (int i = 0; i < 200; i++) {
        party *p = i % 2 ? a : b;
        hf_place place = make_place("k", i % 3 ? HF_EXCLUSIVE : HF_SHARED);

        must_hold(p, &place);
        EXPECT(place.num > last && place.token > last);
        last = place.token;
        must_leave(p, &place);
    }
    party_close(a);
    a = party_open(LONG_MS);
    hf_place place = make_place("k", HF_EXCLUSIVE);

    must_hold(a, &place);
    EXPECT(place.token > last);
    must_leave(a, &place);
    party_close(a);
    party_close(b);
}

/* HF_CAP_RUN: the tokens token .. token + run - 1 are this entry's alone. */
static void runs_are_disjoint(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place held = make_place("k", HF_EXCLUSIVE);
    hf_place places[8];
    uint64_t last;

    held.run = 16;
    must_hold(a, &held);
    EXPECT(held.run == 16 || (held.run == 1 && !HAS_CAP(a, HF_CAP_RUN)));
    last = held.token + held.run - 1;
    for (uint32_t i = 0; i < 8; i++) {
        places[i] = make_place("k", HF_EXCLUSIVE);
        places[i].run = 1 + i;
        must_wait(b, &places[i]);
    }
    must_leave(a, &held);
    for (uint32_t i = 0; i < 8; i++) {
        await_verdict(b, &places[i], HF_GRANTED);
        EXPECT(places[i].token > last);
        EXPECT_EQ(places[i].run, HAS_CAP(b, HF_CAP_RUN) ? 1 + i : 1);
        last = places[i].token + places[i].run - 1;
        must_leave(b, &places[i]);
    }
    party_close(a);
    party_close(b);
}

static void two_entries_of_one_session(void)
{
    party *a = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place two = make_place("k", HF_EXCLUSIVE), again;
    size_t entries;

    must_hold(a, &one);
    must_wait(a, &two);
    entries = count_entries(a); /* some layouts have no room for who waits */
    /* The first one's is repeated while another of its session waits, and is
     * no second entry. */
    again = one;
    EXPECT_CODE(join(a, &again), 0);
    EXPECT_EQ(again.verdict, HF_GRANTED);
    EXPECT_EQ(again.num, one.num);
    EXPECT_EQ(count_entries(a), entries);
    must_leave(a, &one);
    await_verdict(a, &two, HF_GRANTED);
    /* Its join is repeated where the first one's name is free by now. */
    again = two;
    EXPECT_CODE(join(a, &again), 0);
    EXPECT_EQ(again.verdict, HF_GRANTED);
    EXPECT_EQ(again.num, two.num);
    EXPECT_EQ(count_entries(a), 1);
    must_leave(a, &two);
    EXPECT_EQ(count_entries(a), 0);
    party_close(a);
}

const test_case join_tests[] = {TEST(join_is_granted_when_free),
                                TEST(join_waits_behind_another),
                                TEST(join_again_is_the_same_place),
                                TEST(try_appends_nothing_unless_granted),
                                TEST(try_again_is_the_same_place),
                                TEST(try_overtakes_nobody),
                                TEST(numbers_rise_for_ever),
                                TEST(runs_are_disjoint),
                                TEST(two_entries_of_one_session),
                                {NULL, NULL, 0}};
