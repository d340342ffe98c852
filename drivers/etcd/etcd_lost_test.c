/* etcd_lost_test.c - every request to etcd is lost once, through the public
 * API.
 *
 * The scenes and what must hold in them are in harness/lost_sweep.h. */
#include "harness/lost_sweep.h"

#include "etcd_other.h"

static void sweep(lost_scene *scene, hf_mode mode, int times_most)
{
    lost_world *w = lost_begin(ON_ETCD, "/lost/");

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
    lost_world *w = lost_begin(ON_ETCD, "/lost/");

    give(take(w, w->s));
    sleep_over_a_cut(w);
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

/* The name of this hold's key, the only one: has it one of its own? */
static bool has_own_name(other *o, hf_hold *hold)
{
    etcd_suffix name;
    etcd_kv kv = {.created = 0};

    EXPECT_EQ(other_count(o, &kv), 1);
    EXPECT_EQ(kv.created, hf_hold_token(hold));
    EXPECT(kv.key.len > 7 && memcmp(kv.key.at, "lost/k/", 7) == 0);
    EXPECT(etcd_read_suffix(&name, (etcd_text){kv.key.at + 7, kv.key.len - 7}));
    return name.has_rid;
}

/* A release that was not answered may still arrive, and deletes by name: the
 * next lock of the session has another one.  (What is struck may be a renewal
 * that came in between; then once more.) */
static void unanswered_release(void)
{
    for (int when = STRIKE_BEFORE; when <= STRIKE_ANSWER; when++) {
        lost_world *w = lost_begin(ON_ETCD, "/lost/");
        other *o = other_open(w->e);
        hf_hold *hold = take(w, w->s);
        bool own = false;

        EXPECT(!has_own_name(o, hold));
        for (int i = 0; i < 5 && !own; i++) {
            strike_set(&w->x, 1, (strike_when)when, 1);
            give(hold);
            strike_set(&w->x, 0, (strike_when)when, 0);
            AWAIT(count_entries(w) == 0);
            hold = take(w, w->s);
            own = has_own_name(o, hold);
        }
        EXPECT(own);
        give(hold);
        other_close(o);
        lost_end(w);
    }
}

static const test_case cases[] = {
    TEST_LIMIT(lock, 250),        TEST_LIMIT(lock_shared, 250),
    TEST_LIMIT(try, 250),         TEST_LIMIT(try_busy, 250),
    TEST_LIMIT(wait_for_it, 250), TEST_LIMIT(sleep_for_it, 250),
    TEST_LIMIT(cancel, 250),      TEST_LIMIT(cut_while_it_sleeps, 250),
    TEST_LIMIT(renew, 250),       TEST_LIMIT(publish, 250),
    TEST_LIMIT(break_it, 250),    TEST_LIMIT(unanswered_release, 250),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "etcd_lost", cases,
                     sizeof cases / sizeof *cases);
}
