/* list.c - HF_OP_LIST: every entry, in order of key and number.
 *
 * What an operator sees must be what is there: mode, grant, token and owner of
 * each entry, under a prefix of bytes, not of patterns. */
#include "suite.h"

static void list_is_in_order(void)
{
    static const char *const keys[] = {"b", "a", "a/b", "ab", "a", "b", "B"};
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place places[7];
    listing *list;

    for (int i = 0; i < 7; i++) {
        places[i] = make_place(keys[i], HF_EXCLUSIVE);
        EXPECT_CODE(join(i % 2 ? a : b, &places[i]), 0);
    }
    list = list_entries(a, NULL, 0, false);
    EXPECT_EQ(list->count, 7);
    for (size_t i = 1; i < list->count; i++) {
        int order = strcmp(list->rows[i - 1].info.key, list->rows[i].info.key);

        EXPECT(order < 0 || (order == 0 && list->rows[i - 1].info.number <
                                               list->rows[i].info.number));
    }
    free_listing(list);
    party_close(a);
    party_close(b);
}

static const listed *find_row(const listing *list, const hf_id *rid)
{
    for (size_t i = 0; i < list->count; i++) {
        if (SAME_ID(list->rows[i].rid, *rid))
            return &list->rows[i];
    }
    FAIL_TEST("an entry is missing in the listing");
}

static void rows_tell_the_truth(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place two = make_place("k", HF_SHARED);
    hf_place permit = make_permit("p", 3);
    const listed *row;
    listing *list;

    must_hold(a, &one);
    must_wait(b, &two);
    must_hold(b, &permit);
    list = list_entries(a, NULL, 0, false);
    EXPECT_EQ(list->count, 3);
    row = find_row(list, &one.rid);
    EXPECT(row->info.granted && row->info.mine && !row->info.broken);
    EXPECT(!row->info.closed && row->info.mode == HF_EXCLUSIVE);
    EXPECT_EQ(row->info.number, one.num);
    EXPECT_EQ(row->info.token, one.token);
    EXPECT(SAME_ID(row->sid, a->sid));
    EXPECT_STR(row->info.name, "conformance");
    EXPECT(row->info.age_ms >= -1 && row->info.age_ms < 2 * PATIENCE_MS);
    EXPECT(row->info.remaining_ms >= -1 && row->info.remaining_ms <= LONG_MS);
    row = find_row(list, &two.rid);
    EXPECT(!row->info.mine && row->info.mode == HF_SHARED);
    EXPECT(!row->info.granted || !HAS_CAP(a, HF_CAP_MARKS));
    EXPECT_EQ(row->info.number, two.num);
    row = find_row(list, &permit.rid);
    EXPECT(row->info.granted && row->info.mode == HF_PERMIT);
    EXPECT_EQ(row->info.places, 3);
    free_listing(list);
    party_close(a);
    party_close(b);
}

static size_t count_prefix(party *p, const char *prefix, size_t len)
{
    listing *list = list_entries(p, prefix, len, false);
    size_t count = list->count;

    for (size_t i = 0; i < count; i++) {
        EXPECT(list->rows[i].info.key_len >= len);
        EXPECT(memcmp(list->rows[i].info.key, prefix, len) == 0);
    }
    free_listing(list);
    return count;
}

static void prefix_is_of_bytes(void)
{
    static const char *const keys[] = {"a",  "a%",   "a_b",      "ab",   "A",
                                       "a*", "\xff", "\xff\xff", "a\xff"};
    party *a = party_open(LONG_MS);
    hf_place places[9];

    for (int i = 0; i < 9; i++) {
        places[i] = make_place(keys[i], HF_EXCLUSIVE);
        must_hold(a, &places[i]);
    }
    EXPECT_EQ(count_prefix(a, "", 0), 9);
    EXPECT_EQ(count_prefix(a, "a", 1), 6);
    EXPECT_EQ(count_prefix(a, "A", 1), 1);
    EXPECT_EQ(count_prefix(a, "a%", 2), 1);
    EXPECT_EQ(count_prefix(a, "a_", 2), 1);
    EXPECT_EQ(count_prefix(a, "a*", 2), 1);
    EXPECT_EQ(count_prefix(a, "\xff", 1), 2);
    EXPECT_EQ(count_prefix(a, "\xff\xff", 2), 1);
    EXPECT_EQ(count_prefix(a, "a\xff", 2), 1);
    EXPECT_EQ(count_prefix(a, "b", 1), 0);
    party_close(a);
}

static void only_mine_is_only_mine(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place one = make_place("x", HF_EXCLUSIVE);
    hf_place two = make_place("x", HF_EXCLUSIVE);
    hf_place three = make_place("y", HF_EXCLUSIVE);
    listing *list;

    must_hold(a, &one);
    must_wait(b, &two);
    must_hold(b, &three);
    list = list_entries(b, NULL, 0, true);
    EXPECT_EQ(list->count, 2);
    EXPECT(SAME_ID(list->rows[0].rid, two.rid));
    EXPECT(SAME_ID(list->rows[1].rid, three.rid));
    EXPECT(list->rows[0].info.mine && list->rows[1].info.mine);
    free_listing(list);
    party_close(a);
    party_close(b);
}

static int stop_at_two(const hf_row *row, void *user)
{
    int *count = user;

    (void)row;
    return ++*count == 2;
}

static void callback_ends_the_listing(void)
{
    party *a = party_open(LONG_MS);
    hf_place places[5];
    int count = 0;
    hf_op op;

    for (int i = 0; i < 5; i++) {
        places[i] = make_place("k", HF_SHARED);
        must_hold(a, &places[i]);
    }
    op = make_op(a, HF_OP_LIST);
    op.emit_row = stop_at_two;
    op.user = &count;
    run_op(a, &op);
    EXPECT_CODE(op.error.code, 0);
    EXPECT_EQ(count, 2);
    party_close(a);
}

static void list_of_many(void)
{
    enum { N = 1500 };
    party *a = party_open(LONG_MS);
    listing *list;

    for (int i = 0; i < N; i++) {
        char key[16];
        hf_place place;

        snprintf(key, sizeof key, "k%05d", i / 3);
        place = make_place(key, HF_SHARED);
        must_hold(a, &place);
    }
    list = list_entries(a, "k", 1, true);
    EXPECT_EQ(list->count, N);
    for (int i = 0; i < N; i++) {
        char key[16];

        snprintf(key, sizeof key, "k%05d", i / 3);
        EXPECT_STR(list->rows[i].info.key, key);
    }
    free_listing(list);
    party_detach(a);
    EXPECT_EQ(count_entries(a), 0);
    party_drop(a);
}

const test_case list_tests[] = {TEST(list_is_in_order),
                                TEST(rows_tell_the_truth),
                                TEST(prefix_is_of_bytes),
                                TEST(only_mine_is_only_mine),
                                TEST(callback_ends_the_listing),
                                TEST(list_of_many),
                                {NULL, NULL, 0}};
