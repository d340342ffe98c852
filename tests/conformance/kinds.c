/* kinds.c - HF_EKIND: one key, one kind of lock, as long as it is in use.
 *
 * Exclusive and shared mix; permits mix with permits of as many places; all
 * else is refused, whoever stands in the queue: holder, waiter or what `keep`
 * left there. */
#include "suite.h"

/* With `first` in the queue, `second` is refused, waiting or trying. */
static void expect_apart(hf_place first, hf_place second)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);

    first.rid = make_rid();
    second.rid = make_rid();
    must_hold(a, &first);
    EXPECT_CODE(join(b, &second), HF_EKIND);
    EXPECT_CODE(try_join(b, &second), HF_EKIND);
    EXPECT_EQ(count_entries(a), 1);
    must_leave(a, &first);
    must_hold(b, &second); /* free: the kind is free, too */
    must_leave(b, &second);
    party_close(a);
    party_close(b);
}

static void kinds_that_do_not_mix(void)
{
    expect_apart(make_place("k", HF_EXCLUSIVE), make_permit("k", 2));
    expect_apart(make_permit("k", 2), make_place("k", HF_EXCLUSIVE));
    expect_apart(make_place("k", HF_SHARED), make_permit("k", 2));
    expect_apart(make_permit("k", 2), make_place("k", HF_SHARED));
    expect_apart(make_permit("k", 2), make_permit("k", 3));
    expect_apart(make_permit("k", 1), make_permit("k", 2));
}

static void kinds_that_mix(void)
{
    party *a = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place two = make_place("k", HF_SHARED);
    hf_place permit = make_permit("p", 2), more = make_permit("p", 2);

    must_hold(a, &one);
    must_wait(a, &two);
    must_hold(a, &permit);
    must_hold(a, &more);
    party_close(a);
}

/* A waiter alone decides the kind, too; and what `keep` still holds. */
static void kind_of_those_who_are_left(void)
{
    party *a = party_open(LONG_MS);
    hf_place held = make_place("k", HF_EXCLUSIVE);
    hf_place reader = make_place("k", HF_SHARED);
    hf_place permit = make_permit("k", 2);

    must_hold(a, &held);
    must_wait(a, &reader);
    must_leave(a, &held);
    EXPECT_CODE(join(a, &permit), HF_EKIND);
    await_verdict(a, &reader, HF_GRANTED);
    EXPECT_EQ(leave_keep(a, &reader, LONG_MS), HF_GRANTED);
    permit.rid = make_rid();
    EXPECT_CODE(join(a, &permit), HF_EKIND);
    party_close(a);
}

static void permit_of_one_and_of_many(void)
{
    enum { MANY = 1000 };
    party *a = party_open(LONG_MS);
    hf_place one = make_permit("one", 1), next = make_permit("one", 1);
    hf_place places[5];

    must_hold(a, &one);
    must_wait(a, &next);
    must_leave(a, &one);
    await_verdict(a, &next, HF_GRANTED);
    for (int i = 0; i < 5; i++) {
        places[i] = make_permit("many", MANY);
        must_hold(a, &places[i]);
    }
    party_close(a);
}

const test_case kind_tests[] = {TEST(kinds_that_do_not_mix),
                                TEST(kinds_that_mix),
                                TEST(kind_of_those_who_are_left),
                                TEST(permit_of_one_and_of_many),
                                {NULL, NULL, 0}};
