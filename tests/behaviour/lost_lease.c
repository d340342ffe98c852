/* lost_lease.c - a lease that cannot be renewed.
 *
 * Renewals are made to fail by the fault shim, which obeys a file, so that a
 * test turns trouble on and off.  Checks on every store: HELD, DOUBTFUL, LOST
 * in this order; the descriptor, the callback and the codes all say the same;
 * LOST is a one-way door, doubt is not; and the owner is told before a rival
 * is granted.
 *
 * The rival sits in another session without faults and waits in the queue: its
 * grant is the instant at which the first owner must know. */
#include "support.h"

#include <string.h>

enum { LEASE_MS = 2500 }; /* ZooKeeper allows no less than 2000 here */
#define NO_RENEWALS "rate=100 kind=before ops=renew"

/* What a callback heard. */
struct heard {
    atomic_int doubt, relief, loss;
    atomic_int doubt_reason, relief_reason, loss_reason;
    _Atomic(hf_hold *) hold;
};

static void listen(hf_hold *hold, hf_state state, int reason, void *user)
{
    struct heard *h = user;

    atomic_store(&h->hold, hold);
    if (state == HF_DOUBTFUL) {
        atomic_store(&h->doubt_reason, reason);
        atomic_fetch_add(&h->doubt, 1);
    } else if (state == HF_HELD) {
        atomic_store(&h->relief_reason, reason);
        atomic_fetch_add(&h->relief, 1);
    } else if (state == HF_LOST) {
        atomic_store(&h->loss_reason, reason);
        atomic_fetch_add(&h->loss, 1);
    }
}

static hf_session *open_faulty(void)
{
    return open_url(store_url_switched(), LEASE_MS);
}

static hf_hold *take_heard(hf_session *s, struct heard *h)
{
    memset(h, 0, sizeof(*h));
    return take_with(
        s, "k",
        (hf_lock_options){HF_LOCK_OPTIONS, .on_change = listen, .user = h});
}

static void await_state(hf_hold *hold, hf_state state)
{
    AWAIT(hf_hold_state(hold) == state);
}

/* The whole way down, and what everybody is told. */
static void doubt_then_loss(void)
{
    hf_session *s = open_faulty(), *rival = open_store();
    struct heard h;
    hf_hold *hold = take_heard(s, &h);
    int fd = hf_hold_fd(hold);
    waiter w;

    waiter_start(&w, rival, "k", (hf_lock_options){HF_LOCK_OPTIONS});
    await_waiting(rival, "k", 1);
    faults_set(NO_RENEWALS);
    await_state(hold, HF_DOUBTFUL);
    /* Still yours by arithmetic. */
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    EXPECT(hf_hold_remaining_ms(hold) > 0);
    EXPECT(!is_readable(fd, 0));
    EXPECT(!waiter_answered(&w));
    AWAIT(atomic_load(&h.doubt) == 1);
    EXPECT(atomic_load(&h.doubt_reason) < 0);
    EXPECT(atomic_load(&h.hold) == hold);

    EXPECT(is_readable(fd, PATIENCE_MS));
    EXPECT(hf_hold_state(hold) == HF_LOST);
    hf_error err = {0};
    EXPECT_CODE(hf_hold_check(hold, &err), HF_EEXPIRED);
    EXPECT(err.code == HF_EEXPIRED && err.text[0] != '\0');
    EXPECT(hf_error_class(err.code) == HF_CLASS_LOST);
    EXPECT(hf_hold_remaining_ms(hold) == 0);
    EXPECT_RISES(hf_hold_token(hold), 0);
    AWAIT(atomic_load(&h.loss) == 1);
    EXPECT_CODE(atomic_load(&h.loss_reason), HF_EEXPIRED);
    EXPECT_CODE(waiter_code(&w), 0);
    EXPECT_RISES(w.token, hf_hold_token(hold));

    /* A one-way door: the store recovers, the hold does not. */
    faults_set(NULL);
    sleep_ms(LEASE_MS);
    EXPECT_CODE(hf_hold_check(hold, NULL), HF_EEXPIRED);
    EXPECT(is_readable(fd, 0));
    EXPECT_EQ(atomic_load(&h.loss), 1);
    EXPECT_CODE(hf_renew(hold, NULL), HF_EEXPIRED);
    EXPECT_CODE(hf_publish(hold, "v", 1, NULL),
                store_has(HF_CAP_VALUE) ? HF_EEXPIRED : HF_ENOTSUP);
    EXPECT_CODE(hf_release(hold, NULL), HF_EEXPIRED);
    EXPECT_CODE(hf_release(hold, NULL), HF_ENOTHELD);
    EXPECT_CODE(waiter_finish(&w), 0);
    EXPECT_CODE(w.release_code, 0);
    hf_close(s);
    hf_close(rival);
}

/* hf_hold_check never says 0 once another could have been granted. */
static void told_before_rival(void)
{
    hf_session *s = open_faulty(), *rival = open_store();
    hf_hold *hold = take(s, "k");
    waiter w;

    waiter_start(&w, rival, "k", (hf_lock_options){HF_LOCK_OPTIONS});
    await_waiting(rival, "k", 1);
    faults_set(NO_RENEWALS);
    int64_t until = now_ms() + PATIENCE_MS;
    for (bool granted = false; !granted;) {
        EXPECT(now_ms() < until);
        granted = waiter_answered(&w); /* asked first */
        if (granted)
            EXPECT(hf_hold_check(hold, NULL) != 0);
        else
            sleep_ms(1);
    }
    faults_set(NULL);
    EXPECT_CODE(hf_release(hold, NULL), HF_EEXPIRED);
    EXPECT_CODE(waiter_finish(&w), 0);
    hf_close(s);
    hf_close(rival);
}

/* Doubt is lifted by a renewal: held, and was all the time. */
static void doubt_is_lifted(void)
{
    hf_session *s = open_faulty(), *rival = open_store();
    struct heard h;
    hf_hold *hold = take_heard(s, &h);
    uint64_t token = hf_hold_token(hold);
    int fd = hf_hold_fd(hold);

    for (int round = 1; round <= 2; round++) {
        faults_set(NO_RENEWALS);
        await_state(hold, HF_DOUBTFUL);
        faults_set(NULL);
        await_state(hold, HF_HELD);
        EXPECT_CODE(hf_hold_check(hold, NULL), 0);
        EXPECT_CODE(probe(rival, "k"), HF_EBUSY);
        AWAIT(atomic_load(&h.relief) == round);
        EXPECT_EQ(atomic_load(&h.relief_reason), 0);
    }
    EXPECT(hf_hold_token(hold) == token);
    EXPECT(!is_readable(fd, 0));
    EXPECT_EQ(atomic_load(&h.loss), 0);
    give(hold);
    hf_close(s);
    hf_close(rival);
}

/* A renewal whose answer is lost is no renewal, but it does no harm. */
static void lost_answers(void)
{
    hf_session *s = open_faulty(), *rival = open_store();
    hf_hold *hold = take(s, "k");

    faults_set("rate=100 kind=after ops=renew");
    await_state(hold, HF_LOST);
    EXPECT_CODE(hf_hold_check(hold, NULL), HF_EEXPIRED);
    faults_set(NULL);
    hf_hold *other = take(rival, "k");
    EXPECT_RISES(hf_hold_token(other), hf_hold_token(hold));
    EXPECT_CODE(hf_release(hold, NULL), HF_EEXPIRED);
    EXPECT_CODE(hf_hold_check(other, NULL), 0);
    EXPECT_CODE(probe(s, "k"), HF_EBUSY);
    give(other);
    hf_close(s);
    hf_close(rival);
}

/* hf_lock answers the lost code while a hold of this owner is lost and not
 * yet released; after that the session serves again. */
static void lost_and_not_released(void)
{
    hf_session *s = open_faulty();
    hf_hold *hold = take(s, "k"), *again = NULL;
    uint64_t token = hf_hold_token(hold);

    faults_set(NO_RENEWALS);
    await_state(hold, HF_LOST);
    faults_set(NULL);
    EXPECT_CODE(hf_try_lock(s, "k", NULL, &again, NULL), HF_EEXPIRED);
    EXPECT_CODE(hf_lock(s, "k", NULL, &again, NULL), HF_EEXPIRED);
    EXPECT(again == NULL);
    EXPECT_CODE(hf_release(hold, NULL), HF_EEXPIRED);
    again = take(s, "k");
    EXPECT_RISES(hf_hold_token(again), token);
    EXPECT_CODE(hf_hold_check(again, NULL), 0);
    give(again);
    hf_close(s);
}

/* Every handle of a re-entered hold is lost, and each is released once. */
static void all_handles_are_lost(void)
{
    hf_session *s = open_faulty();
    hf_hold *a = take(s, "k"), *b = take(s, "k"), *other = take(s, "other");

    faults_set(NO_RENEWALS);
    await_state(a, HF_LOST);
    EXPECT(hf_hold_state(b) == HF_LOST);
    await_state(other, HF_LOST); /* it may have a deadline of its own */
    faults_set(NULL);
    EXPECT_CODE(hf_release(b, NULL), HF_EEXPIRED);
    EXPECT_CODE(hf_release(b, NULL), HF_ENOTHELD);
    EXPECT_CODE(hf_release(a, NULL), HF_EEXPIRED);
    EXPECT_CODE(hf_release(other, NULL), HF_EEXPIRED);
    give(take(s, "k"));
    hf_close(s);
}

/* The local place is free at once: the next thread of the session does not
 * wait for the loser's hf_release. */
static void local_waiter_goes_on(void)
{
    hf_session *s = open_faulty();
    hf_hold *hold = take(s, "k");
    waiter w;

    waiter_start(&w, s, "k", (hf_lock_options){HF_LOCK_OPTIONS});
    await_waiters(s, 1);
    faults_set(NO_RENEWALS);
    await_state(hold, HF_LOST);
    faults_set(NULL);
    EXPECT_CODE(waiter_code(&w), 0);
    EXPECT_RISES(w.token, hf_hold_token(hold));
    EXPECT_CODE(hf_hold_check(w.hold, NULL), 0);
    EXPECT_CODE(hf_release(hold, NULL), HF_EEXPIRED);
    EXPECT_CODE(waiter_finish(&w), 0);
    EXPECT_CODE(w.release_code, 0);
    hf_close(s);
}

/* A fixed lease has its own deadline and does not hang on renewals. */
static void fixed_lease_goes_on(void)
{
    hf_session *s = open_faulty(), *rival = open_store();
    hf_hold *fixed = take_with(
        s, "fixed", (hf_lock_options){HF_LOCK_OPTIONS, .lease_ms = 30000});
    hf_hold *bound = take(s, "k");

    faults_set(NO_RENEWALS);
    await_state(bound, HF_LOST);
    EXPECT_CODE(hf_hold_check(fixed, NULL), 0);
    give(take(rival, "k")); /* by now the store has dropped the session */
    EXPECT_CODE(hf_hold_check(fixed, NULL), 0);
    EXPECT_CODE(probe(rival, "fixed"), HF_EBUSY);
    faults_set(NULL);
    EXPECT_CODE(hf_release(bound, NULL), HF_EEXPIRED);
    EXPECT_CODE(hf_release(fixed, NULL), 0);
    EXPECT_CODE(probe(rival, "fixed"), 0);
    hf_close(s);
    hf_close(rival);
}

/* Readable from LOST on also when it is first asked for afterwards. */
static void late_descriptor(void)
{
    hf_session *s = open_faulty();
    hf_hold *hold = take(s, "k");

    faults_set(NO_RENEWALS);
    await_state(hold, HF_LOST);
    int fd = hf_hold_fd(hold);
    EXPECT(fd >= 0 && is_readable(fd, 0));
    faults_set(NULL);
    EXPECT_CODE(hf_release(hold, NULL), HF_EEXPIRED);
    hf_close(s);
}

/* Doubt, relief and loss of a hold taken by hf_lock_start are results. */
static hf_result collect_change(hf_session *s, hf_hold *hold)
{
    hf_result result;

    EXPECT(is_readable(hf_session_fd(s), PATIENCE_MS));
    EXPECT_EQ(hf_collect(s, &result), 1);
    EXPECT(result.kind == HF_RESULT_CHANGE && result.request == NULL);
    EXPECT(result.hold == hold);
    return result;
}

static void changes_are_collected(void)
{
    hf_session *s = open_faulty();
    hf_request *request;
    hf_result result;

    EXPECT_CODE(hf_lock_start(s, "k", NULL, NULL, &request, NULL), 0);
    EXPECT(is_readable(hf_session_fd(s), PATIENCE_MS));
    EXPECT_EQ(hf_collect(s, &result), 1);
    EXPECT_CODE(result.error.code, 0);
    hf_hold *hold = result.hold;

    faults_set(NO_RENEWALS);
    result = collect_change(s, hold);
    EXPECT(result.state == HF_DOUBTFUL && result.error.code < 0);
    faults_set(NULL);
    result = collect_change(s, hold);
    EXPECT(result.state == HF_HELD && result.error.code == 0);
    faults_set(NO_RENEWALS);
    result = collect_change(s, hold);
    EXPECT(result.state == HF_DOUBTFUL);
    result = collect_change(s, hold);
    EXPECT(result.state == HF_LOST);
    EXPECT_CODE(result.error.code, HF_EEXPIRED);
    faults_set(NULL);
    EXPECT_CODE(hf_release(hold, NULL), HF_EEXPIRED);
    EXPECT_EQ(hf_collect(s, &result), 0);
    hf_close(s);
}

/* ---- Callbacks --------------------------------------------------------- */

/* May call anything but hf_close. */
static void act_in_callback(hf_hold *hold, hf_state state, int reason,
                            void *user)
{
    if (state == HF_LOST)
        atomic_store((atomic_int *)user,
                     hf_release(hold, NULL) == reason ? 1 : 2);
}

static void callback_releases(void)
{
    hf_session *s = open_store(), *rival = open_store();
    atomic_int done = 0;
    hf_hold *hold = take_with(
        s, "k",
        (hf_lock_options){HF_LOCK_OPTIONS, .at_most_ms = 400, .owner = 9,
                          .on_change = act_in_callback, .user = &done});

    AWAIT(atomic_load(&done) != 0);
    EXPECT_EQ(atomic_load(&done), 1);
    EXPECT_CODE(hf_release(hold, NULL), HF_ENOTHELD);
    give(take(rival, "k"));
    hf_close(s);
    hf_close(rival);
}

/* The keeper never runs user code: a slow callback delays no renewal. */
static void dawdle(hf_hold *hold, hf_state state, int reason, void *user)
{
    (void)hold;
    (void)state;
    (void)reason;
    sleep_ms(3000);
    atomic_store((atomic_int *)user, 1);
}

static void slow_callback(void)
{
    hf_session *s = open_leased(brief_lease_ms()), *rival = open_store();
    atomic_int done = 0;
    hf_hold *kept = take(s, "kept");
    hf_hold *hold =
        take_with(s, "k",
                  (hf_lock_options){HF_LOCK_OPTIONS, .at_most_ms = 400,
                                    .on_change = dawdle, .user = &done});

    await_state(hold, HF_LOST);
    while (atomic_load(&done) == 0) {
        EXPECT_CODE(hf_hold_check(kept, NULL), 0);
        EXPECT_CODE(probe(rival, "kept"), HF_EBUSY);
        sleep_ms(20);
    }
    EXPECT_CODE(hf_release(hold, NULL), HF_EEXPIRED);
    give(kept);
    hf_close(s);
    hf_close(rival);
}

static const test_case cases[] = {
    TEST(doubt_then_loss),       TEST(told_before_rival),
    TEST(doubt_is_lifted),       TEST(lost_answers),
    TEST(lost_and_not_released), TEST(all_handles_are_lost),
    TEST(local_waiter_goes_on),  TEST(fixed_lease_goes_on),
    TEST(late_descriptor),       TEST(changes_are_collected),
    TEST(callback_releases),     TEST(slow_callback),
};
RUN_ON_TARGET("lost_lease", cases)
