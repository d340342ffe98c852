/* ensemble_test.c - do the throwaway servers and their links do as they say?
 *
 * A test that relies on "this follower cannot reach its leader" proves nothing
 * if the links only pretend; so the servers themselves are asked what they
 * noticed. */
#include <string.h>

#include "harness/ensemble.h"
#include "harness/expect.h"
#include "harness/runner.h"

static int another_leads(ensemble *e, int old)
{
    int leader = ensemble_leader(e);

    return leader >= 0 && leader != old;
}

/* Cut off, a member serves nobody, and a leader is replaced; let go, it comes
 * back; killed, the leader is replaced; started again, it serves. */
static void lives_through_it(ensemble_kind kind)
{
    ensemble *e =
        ensemble_start(kind, &(ensemble_options){.members = 3, .links = true});
    int first =
        kind == ON_ETCD ? ensemble_await_leader(e) : ensemble_follower(e);
    int second;

    ensemble_isolate(e, first, true);
    EXPECT(WAIT_FOR(!ensemble_serves(e, first), 60000));
    EXPECT(WAIT_FOR(another_leads(e, first), 60000));
    ensemble_isolate(e, first, false);
    ensemble_await(e);
    second = ensemble_await_leader(e);
    ensemble_kill(e, second);
    EXPECT(WAIT_FOR(another_leads(e, second), 60000));
    ensemble_restart(e, second);
    ensemble_await(e);
    ensemble_pause(e, first);
    EXPECT(!ensemble_serves(e, first));
    ensemble_continue(e, first);
    ensemble_await(e);
    ensemble_stop(e);
}

static void zookeeper_lives_through_it(void)
{
    lives_through_it(ON_ZOOKEEPER);
}

static void etcd_lives_through_it(void)
{
    lives_through_it(ON_ETCD);
}

static void one_member_with_all_options(void)
{
    ensemble *e = ensemble_start(ON_ETCD, &(ensemble_options){.auth = true});

    EXPECT_HAS(ensemble_url(e, "/x"), "etcd://keeper:s3cret@127.0.0.1:");
    ensemble_stop(e);
    e = ensemble_start(ON_ETCD, &(ensemble_options){.tls = true});
    EXPECT_HAS(ensemble_url(e, "/x"), "etcds://localhost:");
    ensemble_stop(e);
    e = ensemble_start(ON_ZOOKEEPER, &(ensemble_options){.tls = true});
    EXPECT_HAS(ensemble_url(e, "/x"), "zookeepers://localhost:");
    ensemble_stop(e);
}

static const test_case cases[] = {
    TEST_LIMIT(zookeeper_lives_through_it, 200),
    TEST_LIMIT(etcd_lives_through_it, 200),
    TEST_LIMIT(one_member_with_all_options, 120),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "ensemble", cases,
                     sizeof cases / sizeof *cases);
}
