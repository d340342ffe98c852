/* zk_lost_test.c - what is lost on the way to ZooKeeper, by the public API.
 *
 * Every request, and every answer: the scenes and what must hold in them are in
 * harness/lost_sweep.h.  And what a member has heard and its leader has not: a
 * leader that answers a sync has not thereby heard that the session lives; that
 * comes with the member's next report, which may never come. */
#include "harness/ensemble_faults.h"
#include "harness/lost_sweep.h"

static void sweep(lost_scene *scene, hf_mode mode, int times_most)
{
    lost_world *w = lost_begin(ON_ZOOKEEPER, "/lost?tick_ms=100");

    w->mode = (int)mode;
    lose_each(w, scene, times_most);
    lost_end(w);
}

static void lock(void)
{
    sweep(scene_lock, HF_EXCLUSIVE, 3);
}

static void lock_shared(void)
{
    sweep(scene_lock, HF_SHARED, 1);
}

static void try(void)
{
    sweep(scene_try, HF_EXCLUSIVE, 3);
}

static void try_busy(void)
{
    sweep(scene_try_busy, HF_EXCLUSIVE, 3);
}

/* A lock does not go with permits: it comes, sees and leaves. */
static void scene_other_kind(lost_world *w)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .mode = HF_PERMIT, .places = 2};
    hf_lock_options alone = {HF_LOCK_OPTIONS, .wait_ms = PATIENCE_MS};
    hf_hold *held = NULL, *hold = NULL;
    hf_error err;
    int code;

    EXPECT_OK(hf_lock(w->rival, "k", &opt, &held, &err), err);
    note_token(w, held);
    code = hf_lock(w->s, "k", &alone, &hold, &err);
    if (code != HF_EKIND)
        FAIL_TEST("where permits are: %s (%s)", hf_error_name(code), err.text);
    AWAIT(count_entries(w) == 1);
    EXPECT_CODE(hf_hold_check(held, NULL), 0);
    give(held);
}

/* Whoever is refused when his node is in the queue: it goes again, whatever is
 * lost, and nobody calls that a break.  A try asks for a sync and a list, then
 * for a creation, which is too late here. */
static void withdrawal(void)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .mode = HF_EXCLUSIVE};
    lost_world *w = lost_begin(ON_ZOOKEEPER, "/lost?tick_ms=100");

    give(take(w, w->s));
    lose_each_withdrawal(w, &opt, 3, 3);
    lose_each(w, scene_other_kind, 3);
    lost_end(w);
}

static void wait_for_it(void)
{
    sweep(scene_wait, HF_EXCLUSIVE, 2);
}

static void sleep_for_it(void)
{
    sweep(scene_sleep, HF_EXCLUSIVE, 2);
}

static void cut_while_it_sleeps(void)
{
    lost_world *w = lost_begin(ON_ZOOKEEPER, "/lost?tick_ms=100");

    give(take(w, w->s));
    sleep_over_a_cut(w);
    lost_end(w);
}

/* Nothing has been answered for a while: whoever waits has said all that it
 * has to say (pings do not count). */
static void await_calm(lost_world *w)
{
    int answers = strike_answers(&w->x), calm = 0;

    while (calm < 4) {
        int now;

        test_sleep_ms(50);
        now = strike_answers(&w->x);
        calm = now == answers ? calm + 1 : 0;
        answers = now;
    }
}

/* How many looks there were between the end of a hold and the grant to one
 * who slept over a cut. */
static uint64_t looks_after_a_cut(lost_world *w)
{
    hf_hold *held = take(w, w->rival);
    sleeper sleeps = {.w = w};
    hf_stats before, after;

    EXPECT(pthread_create(&sleeps.thread, NULL, run_sleeper, &sleeps) == 0);
    AWAIT(count_entries(w) == 2);
    AWAIT(hf_session_stats(w->s, &before) == 0 && before.waiters == 1);
    await_calm(w);
    strike_cut_all(&w->x);
    AWAIT(hf_session_stats(w->s, &after) == 0 &&
          after.rechecks > before.rechecks && strike_answers(&w->x) > 0);
    await_calm(w);
    EXPECT_CODE(hf_session_stats(w->s, &before), 0);
    give(held);
    pthread_join(sleeps.thread, NULL);
    EXPECT_CODE(hf_session_stats(w->s, &after), 0);
    return after.rechecks - before.rechecks;
}

/* Its watch was set anew: the server's event is the grant, and no look is
 * needed.  (One that the clock brings may come in between, now and then.) */
static void hears_by_its_watch_after_a_cut(void)
{
    lost_world *w = lost_begin(ON_ZOOKEEPER, "/lost?tick_ms=100");
    int tries = 0;

    give(take(w, w->s));
    while (looks_after_a_cut(w) > 0) {
        if (++tries == 5)
            FAIL_TEST("nobody hears of an end without looking");
    }
    lost_end(w);
}

static void cancel(void)
{
    sweep(scene_cancel, HF_EXCLUSIVE, 2);
}

static void renew(void)
{
    sweep(scene_renew, HF_EXCLUSIVE, 2);
}

static void publish(void)
{
    sweep(scene_publish, HF_EXCLUSIVE, 2);
}

static void break_it(void)
{
    sweep(scene_break, HF_EXCLUSIVE, 2);
}

/* Whom it waits for goes between the list that showed it and the watch on it:
 * the same operation looks again, and nobody needs the clock. */
static void leaves_before_it_is_watched(void)
{
    lost_world *w = lost_begin(ON_ZOOKEEPER, "/lost?tick_ms=100");
    hf_hold *held;
    hf_stats before, after;
    pthread_t thread;
    sleeper sleeps = {.w = w};

    give(take(w, w->s));
    held = take(w, w->rival);
    EXPECT_CODE(hf_session_stats(w->s, &before), 0);
    strike_set(&w->x, 3, STRIKE_HOLD, 1); /* create, list, watch */
    EXPECT(pthread_create(&thread, NULL, run_sleeper, &sleeps) == 0);
    AWAIT(strike_holds(&w->x));
    give(held);
    AWAIT(count_entries(w) == 1);
    strike_no_more(&w->x);
    pthread_join(thread, NULL);
    EXPECT_CODE(hf_session_stats(w->s, &after), 0);
    EXPECT_EQ(after.rechecks, before.rechecks);
    lost_end(w);
}

/* The follower stands still right after it has answered a renewal, before it
 * could report to the leader that it has heard of us. */
static void follower_stops_after_a_beat(void)
{
    static const stage st = {
        .kind = ON_ZOOKEEPER,
        .path = "/f?tick_ms=400",
        .more = {"tickTime=400", "syncLimit=50", "initLimit=60"}};
    ensemble *e = stage_begin(&st);
    int leader = ensemble_await_leader(e), who = (leader + 1) % e->count;
    hf_session *s = open_session(ensemble_member_url(e, who, st.path), 12000);
    hf_session *r =
        open_session(ensemble_member_url(e, leader, st.path), LEASE_MS);
    hf_session *look = open_session(ensemble_direct_url(e, st.path), LEASE_MS);
    atomic_int turn = 0;
    long long begun;
    waiting next;
    guarded g;

    guarded_begin(&g, s, "k");
    begun = test_now_ms();
    waiting_begin(&next, r, "k", &turn, look, 1);
    while (test_now_ms() < begun + 3700) /* a renewal comes after 4000 */
        test_sleep_ms(1);
    EXPECT_CODE(hf_renew(g.hold, NULL), 0);
    ensemble_pause(e, who);
    EXPECT_CODE(waiting_end(&next), 0);
    EXPECT(WAIT_FOR(atomic_load(&g.lost), LONG_WAIT_MS));
    ensemble_continue(e, who);
    expect_lost_before(&g, &next);
    hf_close(s);
    hf_close(r);
    hf_close(look);
    ensemble_stop(e);
}

/* An owner that cannot be told: the lock moves on when its lease is over, not
 * when that of the session is which asked for the break. */
static void break_of_an_owner_that_is_cut_off(void)
{
    static const char path[] = "/f?tick_ms=100";
    ensemble_options opt = {.links = true};
    ensemble *e = ensemble_start(ON_ZOOKEEPER, &opt);
    hf_session *s = open_session(ensemble_url(e, path), 12000);
    hf_session *r = open_session(ensemble_direct_url(e, path), LEASE_MS);
    hf_session *operator= open_session(ensemble_direct_url(e, path), 2000);
    atomic_int turn = 0;
    uint32_t count = 0;
    waiting next;
    hf_error err;
    guarded g;

    guarded_begin(&g, s, "k");
    waiting_begin(&next, r, "k", &turn, operator, 1);
    EXPECT_CODE(hf_renew(g.hold, NULL), 0);
    ensemble_hold_clients(e, 0, true);
    EXPECT_OK(hf_break(operator, "k", NULL, &count, &err), err);
    EXPECT_EQ(count, 1);
    EXPECT_CODE(waiting_end(&next), 0);
    EXPECT(WAIT_FOR(atomic_load(&g.lost), LONG_WAIT_MS));
    ensemble_hold_clients(e, 0, false);
    expect_lost_before(&g, &next);
    hf_close(s);
    hf_close(r);
    hf_close(operator);
    ensemble_stop(e);
}

static const test_case cases[] = {
    TEST_LIMIT(lock, 250),
    TEST_LIMIT(lock_shared, 250),
    TEST_LIMIT(try, 250),
    TEST_LIMIT(try_busy, 250),
    TEST_LIMIT(withdrawal, 250),
    TEST_LIMIT(wait_for_it, 250),
    TEST_LIMIT(sleep_for_it, 250),
    TEST_LIMIT(cancel, 250),
    TEST_LIMIT(cut_while_it_sleeps, 250),
    TEST_LIMIT(hears_by_its_watch_after_a_cut, 250),
    TEST_LIMIT(renew, 250),
    TEST_LIMIT(leaves_before_it_is_watched, 250),
    TEST_LIMIT(follower_stops_after_a_beat, 250),
    TEST_LIMIT(break_of_an_owner_that_is_cut_off, 250),
    TEST_LIMIT(publish, 250),
    TEST_LIMIT(break_it, 250),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "zk_lost", cases,
                     sizeof cases / sizeof *cases);
}
