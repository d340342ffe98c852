/* zk_fault_test.c - what may befall a real ensemble of three, through the
 * public API.
 *
 * The worst of it: a follower that cannot reach its leader goes on answering
 * pings while the leader ends the session; whoever believed the pings would
 * hold what another has been given. */
#include "harness/ensemble_faults.h"

/* Quick to elect; a follower notices after two seconds that it is cut off. */
static const stage quick = {
    .kind = ON_ZOOKEEPER,
    .path = "/f?tick_ms=200",
    .more = {"tickTime=200", "syncLimit=10", "initLimit=60"}};
/* A follower that is cut off goes on for ten seconds. */
static const stage patient = {
    .kind = ON_ZOOKEEPER,
    .path = "/f?tick_ms=200",
    .more = {"tickTime=200", "syncLimit=50", "initLimit=60"}};

static void killed_and_paused(void)
{
    members_come_and_go(&quick);
}

static void order_over_a_new_leader(void)
{
    waiters_keep_their_order(&quick);
}

/* An operator whose member is behind: it does not know of the holder, and must
 * not say that nobody holds. */
static void break_by_one_who_is_behind(ensemble *e, int who, int other)
{
    hf_session *s =
        open_session(ensemble_member_url(e, who, patient.path), 40000);
    hf_session *r =
        open_session(ensemble_member_url(e, other, patient.path), 40000);
    hf_break_options now = {HF_BREAK_OPTIONS, .now = true};
    hf_hold *hold = NULL;
    uint32_t count = 0;
    hf_error err;
    int code;

    expect_works(s, "behind", 0);
    ensemble_isolate(e, who, true);
    EXPECT_OK(hf_lock(r, "behind", NULL, &hold, &err), err);
    code = hf_break(s, "behind", &now, &count, &err);
    if (code == 0 && count == 0)
        FAIL_TEST("a member that is behind says that nobody holds");
    ensemble_isolate(e, who, false);
    ensemble_await(e);
    hf_release(hold, NULL);
    hf_close(s);
    hf_close(r);
}

static void follower_without_its_leader(void)
{
    ensemble *e = stage_begin(&patient);
    int leader = ensemble_await_leader(e);

    break_by_one_who_is_behind(e, (leader + 1) % e->count, leader);
    leader = ensemble_await_leader(e);
    holder_with(e, &patient, (leader + 1) % e->count, leader, false);
    ensemble_stop(e);
}

static void leader_stands_still(void)
{
    ensemble *e = stage_begin(&quick);
    int leader = ensemble_await_leader(e);

    holder_with(e, &quick, leader, (leader + 1) % e->count, true);
    ensemble_stop(e);
}

static void moves_to_another_member(void)
{
    session_moves(&quick);
}

static void cut_off_from_all(void)
{
    everybody_is_cut_off(&quick);
}

static void without_a_majority(void)
{
    quorum_is_lost_and_back(&quick);
}

static const test_case cases[] = {
    TEST_LIMIT(follower_without_its_leader, 250),
    TEST_LIMIT(leader_stands_still, 250),
    TEST_LIMIT(killed_and_paused, 280),
    TEST_LIMIT(order_over_a_new_leader, 250),
    TEST_LIMIT(moves_to_another_member, 250),
    TEST_LIMIT(cut_off_from_all, 250),
    TEST_LIMIT(without_a_majority, 250),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "zk_fault", cases,
                     sizeof cases / sizeof *cases);
}
