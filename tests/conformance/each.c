/* each.c - HF_CAP_EACH: holds that expire one by one.
 *
 * Such a store is another library's layout: a key per lock, no session, no
 * queue.  What other clauses ask of queues and sessions is asked here of single
 * holds: a renewal extends those that it names and says which are gone; nothing
 * else keeps a hold alive, and nothing of a waiter is in the store. */
#include "suite.h"

static int lease_ms(void)
{
    return the_target->quirks.lease_min_ms;
}

enum { SILENCE_MS = 2600 }; /* more than what a connection is asked for */

static void outlive_lease(void)
{
    test_sleep_ms(lease_ms() + lease_ms() / 10 + 20);
}

static void each_join_again(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE), again = one;
    hf_place two = make_place("k", HF_EXCLUSIVE), two_again = two;

    must_hold(a, &one);
    EXPECT(one.remaining > 0 && one.remaining <= HF_MS(LONG_MS));
    must_hold(a, &again);
    EXPECT_EQ(again.token, one.token);
    /* Some keep whole milliseconds. */
    EXPECT(again.remaining > 0 && again.remaining <= one.remaining + HF_MS(1));
    must_wait(b, &two);
    must_wait(b, &two_again);
    EXPECT_EQ(count_entries(a), 1);
    must_leave(a, &one);
    await_verdict(b, &two, HF_GRANTED);
    EXPECT_EQ(leave(a, &again), HF_GONE); /* and it does not touch b's */
    EXPECT_CODE(recheck(b, &two), 0);
    EXPECT_EQ(two.verdict, HF_GRANTED);
    must_leave(b, &two);
    EXPECT_EQ(count_entries(a), 0);
    party_close(a);
    party_close(b);
}

static void each_renewal_extends(void)
{
    party *b = party_open(LONG_MS), *a = party_open(lease_ms());
    hf_place kept = make_place("kept", HF_EXCLUSIVE);
    hf_place left = make_place("left", HF_EXCLUSIVE);
    hf_place rival = make_place("kept", HF_EXCLUSIVE);
    long long end = test_now_ms() + 2 * lease_ms();

    must_hold(a, &left);
    a->held_count = 0; /* this one is not named in the renewals */
    must_hold(a, &kept);
    while (test_now_ms() < end) {
        test_sleep_ms(lease_ms() / 4);
        EXPECT_CODE(party_renew(a, lease_ms()), 0);
        EXPECT_EQ(kept.verdict, HF_GRANTED);
        EXPECT(kept.remaining > HF_MS(lease_ms() / 2));
        EXPECT(kept.remaining <= HF_MS(lease_ms()));
    }
    EXPECT_CODE(try_join(b, &rival), HF_EBUSY);
    rival = make_place("left", HF_EXCLUSIVE);
    must_hold(b, &rival);
    must_leave(b, &rival);
    must_leave(a, &kept);
    party_close(a);
    party_close(b);
}

static void each_renewal_says_what_is_gone(void)
{
    party *b = party_open(LONG_MS), *a = party_open(lease_ms());
    hf_place one = make_place("k1", HF_EXCLUSIVE);
    hf_place two = make_place("k2", HF_EXCLUSIVE);
    hf_place rival = make_place("k1", HF_EXCLUSIVE);

    must_hold(a, &one);
    outlive_lease();
    must_hold(b, &rival);
    must_hold(a, &two);
    EXPECT_CODE(party_renew(a, lease_ms()), 0);
    EXPECT_EQ(one.verdict, HF_GONE);
    EXPECT_EQ(two.verdict, HF_GRANTED);
    EXPECT_CODE(recheck(b, &rival), 0);
    EXPECT_EQ(rival.verdict, HF_GRANTED);
    must_leave(a, &two);
    must_leave(b, &rival);
    party_close(a);
    party_close(b);
}

/* More than fit into one request, one of them gone. */
static void each_of_many(void)
{
    /* A hold that is a connection is one of few. */
    const int n = the_target->quirks.few_holds ? 20 : 700, lost = n * 3 / 5;
    party *a = party_open(LONG_MS);
    hf_place *places = calloc((size_t)n, sizeof *places);
    hf_place **all = calloc((size_t)n, sizeof *all);
    char(*keys)[16] = calloc((size_t)n, sizeof *keys);
    hf_op op;

    EXPECT(places && all && keys);
    for (int i = 0; i < n; i++) {
        snprintf(keys[i], sizeof keys[i], "k%05d", i);
        places[i] = make_place(keys[i], HF_EXCLUSIVE);
        must_hold(a, &places[i]);
        all[i] = &places[i];
    }
    must_leave(a, &places[lost]);
    op = make_op(a, HF_OP_RENEW); /* not earlier: it has a deadline */
    op.ttl = HF_MS(LONG_MS);
    op.places = all;
    op.place_count = (size_t)n;
    run_op(a, &op);
    EXPECT_CODE(op.error.code, 0);
    for (int i = 0; i < n; i++)
        EXPECT_EQ(places[i].verdict, i == lost ? HF_GONE : HF_GRANTED);
    EXPECT_EQ(count_entries(a), n - 1);
    party_detach(a); /* which frees all that this store took */
    EXPECT_EQ(count_entries(a), 0);
    party_drop(a);
    free(places);
    free(all);
    free(keys);
}

/* Nothing but the lease ends a hold whose owner is silent: no patience of the
 * server or of a connection that is shorter. */
static void each_lasts_in_silence(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place two = make_place("k", HF_EXCLUSIVE);

    must_hold(a, &one);
    test_sleep_ms(SILENCE_MS);
    EXPECT_CODE(try_join(b, &two), HF_EBUSY);
    must_leave(a, &one);
    party_close(a);
    party_close(b);
}

static void each_expires_alone(void)
{
    party *b = party_open(LONG_MS), *a = party_open(lease_ms());
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place two = make_place("k", HF_EXCLUSIVE);

    must_hold(a, &one);
    outlive_lease();
    EXPECT_EQ(count_entries(b), 0);
    EXPECT_EQ(leave(a, &one), HF_GONE);
    EXPECT_CODE(one.reason, HF_EEXPIRED);
    must_hold(b, &two);
    EXPECT_RISES(b, two.token, one.token);
    EXPECT_EQ(leave(a, &one), HF_GONE); /* not b's */
    EXPECT_EQ(count_entries(b), 1);
    must_leave(b, &two);
    party_close(a);
    party_close(b);
}

static void each_break_passes_on(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place two = make_place("k", HF_EXCLUSIVE);

    for (int now = 0; now < 2; now++) {
        one.rid = make_rid();
        two.rid = make_rid();
        must_hold(a, &one);
        must_wait(b, &two);
        EXPECT_EQ(evict(b, "other", 0, now, LONG_MS), 0);
        EXPECT_EQ(evict(b, "k", 0, now, LONG_MS), 1);
        await_verdict(b, &two, HF_GRANTED);
        EXPECT_CODE(party_renew(a, LONG_MS), 0);
        EXPECT_EQ(one.verdict, HF_GONE); /* how the owner learns it */
        EXPECT_EQ(leave(a, &one), HF_GONE);
        EXPECT_EQ(count_entries(b), 1);
        must_leave(b, &two);
    }
    party_close(a);
    party_close(b);
}

static void each_keep(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place two = make_place("k", HF_EXCLUSIVE);

    must_hold(a, &one);
    EXPECT_EQ(leave_keep(a, &one, lease_ms()), HF_GRANTED);
    party_detach(a); /* does not shorten it */
    EXPECT_CODE(try_join(b, &two), HF_EBUSY);
    EXPECT(two.look_in <= HF_MS(lease_ms()));
    outlive_lease();
    must_hold(b, &two);
    must_leave(b, &two);
    party_drop(a);
    party_close(b);
}

static void each_list(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place two = make_place("k/b", HF_EXCLUSIVE);
    hf_place waits = make_place("k", HF_EXCLUSIVE);
    listing *list;

    must_hold(a, &one);
    must_hold(b, &two);
    must_wait(b, &waits);
    list = list_entries(a, "k", 1, false);
    EXPECT_EQ(list->count, 2);
    EXPECT_STR(list->rows[0].info.key, "k");
    EXPECT_STR(list->rows[1].info.key, "k/b");
    for (size_t i = 0; i < 2; i++) {
        const hf_entry_info *info = &list->rows[i].info;

        EXPECT(info->granted && info->mode == HF_EXCLUSIVE && !info->closed);
        EXPECT(info->remaining_ms > 0 && info->remaining_ms <= LONG_MS);
        EXPECT_EQ(info->mine, i == 0);
    }
    free_listing(list);
    EXPECT_EQ(leave(b, &waits), HF_WAITS);
    must_leave(a, &one);
    must_leave(b, &two);
    EXPECT_EQ(count_entries(a), 0);
    party_close(a);
    party_close(b);
}

const test_case each_tests[] = {TEST(each_join_again),
                                TEST(each_renewal_extends),
                                TEST(each_renewal_says_what_is_gone),
                                TEST(each_of_many),
                                TEST(each_lasts_in_silence),
                                TEST(each_expires_alone),
                                TEST(each_break_passes_on),
                                TEST(each_keep),
                                TEST(each_list),
                                {NULL, NULL, 0}};
