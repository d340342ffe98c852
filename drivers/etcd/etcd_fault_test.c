/* etcd_fault_test.c - what may befall a real cluster of three, through the
 * public API.
 *
 * A leader that is cut off from the majority does not know it for a while, and
 * goes on answering those who speak to it alone: what it says must not keep a
 * lock that the majority has passed on. */
#include "harness/ensemble_faults.h"

static const stage here = {.kind = ON_ETCD, .path = "/f/"};

static void killed_and_paused(void)
{
    members_come_and_go(&here);
}

static void order_over_a_new_leader(void)
{
    waiters_keep_their_order(&here);
}

static void leader_in_the_minority(void)
{
    ensemble *e = stage_begin(&here);
    int leader = ensemble_await_leader(e);

    holder_with(e, &here, leader, (leader + 1) % e->count, false);
    ensemble_stop(e);
}

/* When it goes on it still takes itself for the leader, for a moment. */
static void leader_stands_still(void)
{
    ensemble *e = stage_begin(&here);
    int leader = ensemble_await_leader(e);

    holder_with(e, &here, leader, (leader + 1) % e->count, true);
    ensemble_stop(e);
}

static void follower_in_the_minority(void)
{
    ensemble *e = stage_begin(&here);
    int leader = ensemble_await_leader(e);

    holder_with(e, &here, (leader + 1) % e->count, leader, false);
    ensemble_stop(e);
}

static void moves_to_another_member(void)
{
    session_moves(&here);
}

static void cut_off_from_all(void)
{
    everybody_is_cut_off(&here);
}

static void without_a_majority(void)
{
    quorum_is_lost_and_back(&here);
}

static const test_case cases[] = {
    TEST_LIMIT(leader_in_the_minority, 250),
    TEST_LIMIT(follower_in_the_minority, 250),
    TEST_LIMIT(leader_stands_still, 250),
    TEST_LIMIT(killed_and_paused, 280),
    TEST_LIMIT(order_over_a_new_leader, 250),
    TEST_LIMIT(moves_to_another_member, 250),
    TEST_LIMIT(cut_off_from_all, 250),
    TEST_LIMIT(without_a_majority, 250),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "etcd_fault", cases,
                     sizeof cases / sizeof *cases);
}
