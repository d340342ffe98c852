/* evict.c - HF_OP_EVICT: an operator takes a lock away.
 *
 * `now` passes it on at once; without it the owner is told first, and the
 * queue moves when it has left or a lease later.  Either way the news reaches
 * the owner: pushed, or with its next renewal. */
#include "suite.h"

/* Pushed or renewed, whichever the store does. */
static void expect_news(party *p, const hf_id *rid, int ttl_ms)
{
    long long end = test_now_ms() + PATIENCE_MS;

    while (!wait_news(p, rid, HF_EFORCED, 20)) {
        EXPECT(test_now_ms() < end);
        EXPECT_CODE(party_renew(p, ttl_ms), 0);
    }
}

static void now_passes_on(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS),
          *c = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place two = make_place("k", HF_EXCLUSIVE);

    must_hold(a, &one);
    must_wait(b, &two);
    EXPECT_EQ(evict(c, "k", 0, true, LONG_MS), 1);
    EXPECT_CODE(recheck(b, &two), 0);
    EXPECT_EQ(two.verdict, HF_GRANTED);
    EXPECT(two.token > one.token);
    expect_news(a, &one.rid, LONG_MS);
    EXPECT_CODE(recheck(a, &one), 0);
    EXPECT_EQ(one.verdict, HF_GONE);
    EXPECT_CODE(one.reason, HF_EFORCED);
    EXPECT_EQ(leave(a, &one), HF_GONE);
    EXPECT_CODE(one.reason, HF_EFORCED);
    EXPECT_CODE(recheck(b, &two), 0);
    EXPECT_EQ(two.verdict, HF_GRANTED);
    must_leave(b, &two);
    party_close(a);
    party_close(b);
    party_close(c);
}

static void graceful_waits_for_the_leave(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS),
          *c = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place two = make_place("k", HF_EXCLUSIVE);
    listing *list;

    must_hold(a, &one);
    must_wait(b, &two);
    EXPECT_EQ(evict(c, "k", 0, false, LONG_MS), 1);
    expect_news(a, &one.rid, LONG_MS);
    EXPECT_CODE(recheck(b, &two), 0);
    if (the_target->quirks.break_at_once) {
        EXPECT_EQ(two.verdict, HF_GRANTED);
    } else {
        EXPECT_EQ(two.verdict, HF_WAITS);
        list = list_entries(c, "k", 1, false);
        EXPECT(list->count == 2 && list->rows[0].info.broken);
        EXPECT(!list->rows[1].info.broken);
        free_listing(list);
        leave(a, &one);
        await_verdict(b, &two, HF_GRANTED);
    }
    EXPECT(two.token > one.token);
    must_leave(b, &two);
    EXPECT_EQ(count_entries(c), 0);
    party_close(a);
    party_close(b);
    party_close(c);
}

/* The owner renews but never leaves: a lease later the queue moves on. */
static void graceful_moves_on_after_a_lease(void)
{
    int lease = the_target->quirks.lease_min_ms;
    party *a = party_open(lease), *b = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place two = make_place("k", HF_EXCLUSIVE);
    long long end;

    must_hold(a, &one);
    must_wait(b, &two);
    end = test_now_ms() + lease + PATIENCE_MS;
    EXPECT_EQ(evict(b, "k", 0, false, lease), 1);
    do {
        EXPECT(test_now_ms() < end);
        EXPECT_CODE(party_renew(a, lease), 0);
        test_sleep_ms(lease / 8);
        EXPECT_CODE(recheck(b, &two), 0);
    } while (two.verdict != HF_GRANTED);
    EXPECT(two.token > one.token);
    EXPECT_EQ(leave(a, &one), HF_GONE);
    EXPECT_CODE(one.reason, HF_EFORCED);
    must_leave(b, &two);
    party_close(a);
    party_close(b);
}

static void only_the_token_named(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place one = make_place("k", HF_SHARED);
    hf_place two = make_place("k", HF_SHARED);
    hf_place waits = make_place("k", HF_EXCLUSIVE);

    must_hold(a, &one);
    must_hold(a, &two);
    must_wait(b, &waits);
    EXPECT_EQ(evict(b, "k", two.token + 1000, true, LONG_MS), 0);
    EXPECT_EQ(evict(b, "k", one.token, true, LONG_MS), 1);
    EXPECT_CODE(recheck(a, &one), 0);
    EXPECT_EQ(one.verdict, HF_GONE);
    EXPECT_CODE(recheck(a, &two), 0);
    EXPECT_EQ(two.verdict, HF_GRANTED);
    EXPECT_CODE(recheck(b, &waits), 0);
    EXPECT_EQ(waits.verdict, HF_WAITS);
    must_leave(a, &two);
    await_verdict(b, &waits, HF_GRANTED);
    must_leave(b, &waits);
    party_close(a);
    party_close(b);
}

/* Every holder, no waiter, no other key. */
static void all_holders_of_the_key(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place readers[3], writer = make_place("k", HF_EXCLUSIVE);
    hf_place other = make_place("kk", HF_EXCLUSIVE);

    for (int i = 0; i < 3; i++) {
        readers[i] = make_place("k", HF_SHARED);
        must_hold(a, &readers[i]);
    }
    must_wait(b, &writer);
    must_hold(b, &other);
    EXPECT_EQ(evict(b, "k", 0, true, LONG_MS), 3);
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(leave(a, &readers[i]), HF_GONE);
        EXPECT_CODE(readers[i].reason, HF_EFORCED);
    }
    await_verdict(b, &writer, HF_GRANTED);
    EXPECT_EQ(evict(a, "free", 0, true, LONG_MS), 0);
    EXPECT_EQ(evict(a, "free", 0, false, LONG_MS), 0);
    must_leave(b, &writer);
    must_leave(b, &other);
    party_close(a);
    party_close(b);
}

/* An operator frees what `keep` and a fixed lease still hold. */
static void evict_of_the_ownerless(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place kept = make_place("k1", HF_EXCLUSIVE);
    hf_place fixed = make_place("k2", HF_EXCLUSIVE);
    hf_place one = make_place("k1", HF_EXCLUSIVE);
    hf_place two = make_place("k2", HF_EXCLUSIVE);

    fixed.lease = HF_MS(LONG_MS);
    must_hold(a, &kept);
    must_hold(a, &fixed);
    EXPECT_EQ(leave_keep(a, &kept, LONG_MS), HF_GRANTED);
    party_detach(a);
    must_wait(b, &one);
    must_wait(b, &two);
    EXPECT_EQ(evict(b, "k1", 0, true, LONG_MS), 1);
    EXPECT_EQ(evict(b, "k2", 0, true, LONG_MS), 1);
    await_verdict(b, &one, HF_GRANTED);
    await_verdict(b, &two, HF_GRANTED);
    must_leave(b, &one);
    must_leave(b, &two);
    party_drop(a);
    party_close(b);
}

const test_case evict_tests[] = {TEST(now_passes_on),
                                 TEST(graceful_waits_for_the_leave),
                                 TEST(graceful_moves_on_after_a_lease),
                                 TEST(only_the_token_named),
                                 TEST(all_holders_of_the_key),
                                 TEST(evict_of_the_ownerless),
                                 {NULL, NULL, 0}};
