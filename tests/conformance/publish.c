/* publish.c - HF_OP_PUBLISH: a value on a place, for all to see.
 *
 * Given at the join or later, of a holder or of a waiter, any bytes up to
 * HF_VALUE_MAX; what is gone takes none. */
#include "suite.h"

static void expect_value(party *p, const hf_id *rid, const void *value,
                         size_t len)
{
    listing *list = list_entries(p, NULL, 0, false);
    size_t i = 0;

    while (i < list->count && !SAME_ID(list->rows[i].rid, *rid))
        i++;
    EXPECT(i < list->count);
    EXPECT_EQ(list->rows[i].info.value_len, len);
    EXPECT(memcmp(list->rows[i].info.value, value, len) == 0);
    free_listing(list);
}

static void value_of_a_join(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place two = make_place("k", HF_EXCLUSIVE);

    EXPECT(HAS_CAP(a, HF_CAP_VALUE));
    EXPECT_CODE(join_value(a, &one, "leader", 6), 0);
    EXPECT_CODE(join_value(b, &two, "next", 4), 0);
    expect_value(b, &one.rid, "leader", 6);
    expect_value(a, &two.rid, "next", 4);
    must_leave(a, &one);
    await_verdict(b, &two, HF_GRANTED);
    expect_value(a, &two.rid, "next", 4);
    must_leave(b, &two);
    party_close(a);
    party_close(b);
}

static void publish_replaces(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place two = make_place("k", HF_EXCLUSIVE);
    char most[HF_VALUE_MAX];

    for (size_t i = 0; i < sizeof most; i++)
        most[i] = (char)i; /* every byte, NUL too */
    EXPECT_CODE(join_value(a, &one, "old", 3), 0);
    must_wait(b, &two);
    EXPECT_CODE(publish(a, &one, most, sizeof most), 0);
    EXPECT_EQ(one.verdict, HF_GRANTED);
    expect_value(b, &one.rid, most, sizeof most);
    EXPECT_CODE(publish(b, &two, "waiting", 7), 0);
    EXPECT_EQ(two.verdict, HF_WAITS);
    expect_value(a, &two.rid, "waiting", 7);
    EXPECT_CODE(publish(a, &one, "", 0), 0);
    expect_value(b, &one.rid, "", 0);
    must_leave(a, &one);
    await_verdict(b, &two, HF_GRANTED);
    must_leave(b, &two);
    party_close(a);
    party_close(b);
}

static void publish_on_what_is_gone(void)
{
    party *a = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE);

    must_hold(a, &one);
    must_leave(a, &one);
    EXPECT_CODE(publish(a, &one, "late", 4), 0);
    EXPECT_EQ(one.verdict, HF_GONE);
    EXPECT_EQ(count_entries(a), 0);
    party_close(a);
}

const test_case publish_tests[] = {TEST(value_of_a_join),
                                   TEST(publish_replaces),
                                   TEST(publish_on_what_is_gone),
                                   {NULL, NULL, 0}};
