/* zk_permit_lost_test.c - what is lost on the way while permits are taken.
 *
 * The scenes of harness/lost_sweep.h for permits: a permit goes from the queue
 * to its lease in a step of its own, and that step, its answer and every list
 * before it are lost in turn.  One node and not two, never more holders than
 * places, nothing left behind. */
#include "harness/lost_sweep.h"

enum { PLACES = 2 };

static hf_lock_options permit(void)
{
    return (hf_lock_options){HF_LOCK_OPTIONS, .wait_ms = PATIENCE_MS,
                             .mode = HF_PERMIT, .places = PLACES};
}

static hf_hold *take_permit(lost_world *w, hf_session *s)
{
    hf_lock_options opt = permit();
    hf_hold *hold = NULL;
    hf_error err;

    EXPECT_OK(hf_lock(s, "k", &opt, &hold, &err), err);
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    note_token(w, hold);
    return hold;
}

static void expect_full(lost_world *w)
{
    hf_lock_options opt = permit();
    hf_hold *other = NULL;

    EXPECT_EQ(count_entries(w), PLACES);
    EXPECT_CODE(hf_try_lock(w->rival, "k", &opt, &other, NULL), HF_EBUSY);
}

/* One is there already, so that the number of places is compared, too. */
static void scene_permit(lost_world *w)
{
    hf_hold *first = take_permit(w, w->rival), *hold = take_permit(w, w->s);

    expect_full(w);
    give(hold);
    give(first);
}

static void scene_try_permit(lost_world *w)
{
    hf_hold *first = take_permit(w, w->rival), *hold = NULL;
    hf_lock_options opt = permit();
    hf_error err = {0};
    int code = hf_try_lock(w->s, "k", &opt, &hold, &err);

    if (code == 0) {
        note_token(w, hold);
        expect_full(w);
        give(hold);
    } else if (hf_error_class(code) != HF_CLASS_RETRY &&
               hf_error_class(code) != HF_CLASS_UNKNOWN) {
        FAIL_TEST("a try of what is free: %s (%s)", hf_error_name(code),
                  err.text);
    }
    give(first);
}

/* Both are taken; it waits, first in line. */
static void scene_wait_permit(lost_world *w)
{
    hf_hold *first = take_permit(w, w->rival);
    hf_hold *second = take_permit(w, w->rival);
    hf_lock_options opt = permit();
    hf_request *request = NULL;
    hf_result result;
    hf_error err;

    EXPECT_OK(hf_lock_start(w->s, "k", &opt, NULL, &request, &err), err);
    AWAIT(count_entries(w) == 3);
    EXPECT_CODE(hf_hold_check(second, NULL), 0);
    give(second);
    result = collect(w->s, HF_RESULT_LOCK);
    EXPECT_OK(result.error.code, result.error);
    note_token(w, result.hold);
    expect_full(w);
    give(result.hold);
    give(first);
}

/* It is given up while a place comes free: at whatever point it is. */
static void scene_cancel_permit(lost_world *w)
{
    hf_hold *first = take_permit(w, w->rival);
    hf_hold *second = take_permit(w, w->rival);
    hf_lock_options opt = permit();
    hf_request *request = NULL;
    hf_result result;
    hf_error err;

    EXPECT_OK(hf_lock_start(w->s, "k", &opt, NULL, &request, &err), err);
    AWAIT(count_entries(w) == 3);
    give(second);
    hf_cancel(request, NULL);
    result = collect(w->s, HF_RESULT_LOCK);
    if (result.error.code == 0) {
        note_token(w, result.hold);
        give(result.hold);
    } else {
        EXPECT_CODE(result.error.code, HF_ECANCELED);
    }
    AWAIT(count_entries(w) == 1);
    give(first);
}

/* One server for all of them: it is dear. */
static void every_request_is_lost(void)
{
    lost_world *w = lost_begin(ON_ZOOKEEPER, "/lost?tick_ms=100");
    hf_lock_options opt = permit();

    lose_each(w, scene_permit, 1);
    lose_each(w, scene_try_permit, 1);
    lose_each(w, scene_wait_permit, 2);
    lose_each(w, scene_cancel_permit, 1);
    /* A sync and three lists; then the creation. */
    opt.places = 1;
    lose_each_withdrawal(w, &opt, 5, 2);
    lost_end(w);
}

/* The leave overtakes nothing, but comes while the step to the lease is on its
 * way: the place in the queue is gone then, and the lease must go, too. */
static void cancel_behind_the_step(void)
{
    lost_world *w = lost_begin(ON_ZOOKEEPER, "/lost?tick_ms=100");
    hf_lock_options opt = permit();
    hf_hold *first, *second;
    hf_request *request = NULL;
    hf_result result;
    hf_error err;
    int answers;

    give(take_permit(w, w->s));
    first = take_permit(w, w->rival);
    second = take_permit(w, w->rival);
    answers = strike_answers(&w->x);
    EXPECT_OK(hf_lock_start(w->s, "k", &opt, NULL, &request, &err), err);
    /* A creation, three lists, a witness, the leases again: it waits. */
    AWAIT(strike_answers(&w->x) >= answers + 6);
    test_sleep_ms(50);
    strike_set(&w->x, 2, STRIKE_HOLD, 1); /* a list, the step */
    give(second);
    AWAIT(strike_holds(&w->x));
    hf_cancel(request, NULL);
    test_sleep_ms(100); /* for the leave to be sent behind it */
    strike_no_more(&w->x);
    result = collect(w->s, HF_RESULT_LOCK);
    if (result.error.code == 0)
        give(result.hold);
    AWAIT(count_entries(w) == 1);
    give(first);
    lost_end(w);
}

static const test_case cases[] = {
    TEST_LIMIT(every_request_is_lost, 250),
    TEST_LIMIT(cancel_behind_the_step, 250),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "zk_permit_lost", cases,
                     sizeof cases / sizeof *cases);
}
