/* semaphore.c - locks with places.
 *
 * Checks hf_lock_permit on every store: never more holders than places, not
 * even for an instant and with many threads and sessions; permits are never
 * re-entrant; the number of places is the same for all users of a key
 * (HF_EKIND), and free again when nobody uses the key. */
#include "support.h"

#include <string.h>

static hf_lock_options permit(uint32_t places)
{
    return (hf_lock_options){HF_LOCK_OPTIONS, .mode = HF_PERMIT,
                             .places = places};
}

/* N places, and the one too many is told so. */
static void n_places(void)
{
    hf_session *a = open_store(), *b = open_store();
    hf_hold *h[3], *extra = NULL;

    h[0] = take_with(a, "k", permit(3));
    h[1] = take_with(b, "k", permit(3));
    EXPECT_CODE(hf_lock_permit(b, "k", 3, NULL, &h[2], NULL), 0);
    EXPECT_CODE(probe_with(a, "k", permit(3)), HF_EBUSY);
    EXPECT_CODE(probe_with(b, "k", permit(3)), HF_EBUSY);
    hf_lock_options soon = {HF_LOCK_OPTIONS, .wait_ms = 50};
    EXPECT_CODE(hf_lock_permit(a, "k", 3, &soon, &extra, NULL), HF_ETIMEDOUT);
    EXPECT(extra == NULL);
    for (int i = 0; i < 3; i++) {
        give(h[i]);
        h[i] = take_with(i == 0 ? b : a, "k", permit(3));
        EXPECT_CODE(probe_with(a, "k", permit(3)), HF_EBUSY);
    }
    for (int i = 0; i < 3; i++)
        give(h[i]);
    await_empty(a);
    hf_close(a);
    hf_close(b);
}

/* Permits are never re-entrant: one thread may use up all places. */
static void not_reentrant(void)
{
    hf_session *s = open_store();
    hf_lock_options opt = permit(2);

    opt.owner = 9;
    hf_hold *one = take_with(s, "k", opt), *two = take_with(s, "k", opt);
    EXPECT(hf_hold_token(one) != hf_hold_token(two));
    EXPECT(hf_hold_token(one) != 0 && hf_hold_token(two) != 0);
    EXPECT_CODE(probe_with(s, "k", opt), HF_EBUSY);
    EXPECT(count_entries(s, "k").granted == 2);
    give(one);
    EXPECT_CODE(probe_with(s, "k", opt), 0);
    give(two);
    hf_close(s);
}

/* A released place goes to who waited longest. */
static void waiter_gets_place(void)
{
    hf_session *a = open_store(), *b = open_store(), *c = open_store();
    hf_hold *one = take_with(a, "k", permit(2));
    hf_hold *two = take_with(a, "k", permit(2));
    waiter first, second;

    waiter_start(&first, b, "k", permit(2));
    await_waiting(a, "k", 1);
    waiter_start(&second, c, "k", permit(2));
    await_waiting(a, "k", 2);
    give(two);
    EXPECT_CODE(waiter_code(&first), 0);
    sleep_ms(30);
    EXPECT(!waiter_answered(&second));
    give(one);
    EXPECT_CODE(waiter_code(&second), 0);
    EXPECT_CODE(waiter_finish(&first), 0);
    EXPECT_CODE(waiter_finish(&second), 0);
    hf_close(a);
    hf_close(b);
    hf_close(c);
}

/* A try does not take a free place in front of one who waits for it.  With
 * one place the queue is as strict as a lock's. */
static void single_place(void)
{
    hf_session *a = open_store(), *b = open_store();
    hf_hold *hold = take_with(a, "k", permit(1));
    waiter w;

    EXPECT_CODE(probe_with(b, "k", permit(1)), HF_EBUSY);
    EXPECT_CODE(probe_with(a, "k", permit(1)), HF_EBUSY);
    waiter_start(&w, b, "k", permit(1));
    await_waiting(a, "k", 1);
    give(hold);
    EXPECT_CODE(waiter_code(&w), 0);
    EXPECT_CODE(probe_with(a, "k", permit(1)), HF_EBUSY);
    EXPECT_CODE(waiter_finish(&w), 0);
    hf_close(a);
    hf_close(b);
}

/* HF_EKIND: in use as another kind of lock, here and elsewhere. */
static void other_kind(void)
{
    hf_session *a = open_store(), *b = open_store();
    hf_lock_options lock = {HF_LOCK_OPTIONS};
    hf_lock_options shared = {HF_LOCK_OPTIONS, .mode = HF_SHARED};
    hf_session *both[] = {a, b};

    hf_hold *hold = take_with(a, "k", permit(3));
    for (int i = 0; i < 2; i++) {
        lock.owner = shared.owner = (uint64_t)i + 100;
        EXPECT_CODE(probe_with(both[i], "k", permit(4)), HF_EKIND);
        EXPECT_CODE(probe_with(both[i], "k", lock), HF_EKIND);
        EXPECT_CODE(probe_with(both[i], "k", shared), HF_EKIND);
    }
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    give(hold);
    for (int mode = 0; mode < 2; mode++) {
        lock.mode = (hf_mode)mode;
        lock.owner = 1;
        hold = take_with(a, "k", lock);
        EXPECT_CODE(probe_with(a, "k", permit(3)), HF_EKIND);
        EXPECT_CODE(probe_with(b, "k", permit(3)), HF_EKIND);
        give(hold);
    }
    hf_close(a);
    hf_close(b);
}

/* The kind lasts as long as the key is in use, and no longer. */
static void kind_is_forgotten(void)
{
    hf_session *a = open_store(), *b = open_store();

    give(take_with(a, "k", permit(3)));
    give(take_with(b, "k", permit(5)));
    give(take(a, "k"));
    give(take_with(b, "k", permit(1)));
    hf_close(a);
    hf_close(b);
}

/* A refused kind is refused at once also to who would wait. */
static void waiter_of_other_kind(void)
{
    hf_session *a = open_store(), *b = open_store();
    hf_hold *hold = take_with(a, "k", permit(2)), *other = NULL;
    hf_lock_options lock = {HF_LOCK_OPTIONS, .wait_ms = HF_FOREVER};
    hf_error err;

    EXPECT_CODE(hf_lock(b, "k", &lock, &other, &err), HF_EKIND);
    EXPECT(err.code == HF_EKIND && err.text[0] != '\0');
    EXPECT_CODE(hf_lock_permit(b, "k", 7, &lock, &other, NULL), HF_EKIND);
    EXPECT(count_entries(a, "k").waiting == 0);
    give(hold);
    hf_close(a);
    hf_close(b);
}

/* Places: zero is no number of places. */
static void zero_places(void)
{
    hf_session *s = open_store();
    hf_hold *hold = NULL;
    hf_lock_options opt = permit(0);

    EXPECT_CODE(hf_lock_permit(s, "k", 0, NULL, &hold, NULL), HF_EINVAL);
    EXPECT_CODE(hf_lock(s, "k", &opt, &hold, NULL), HF_EINVAL);
    EXPECT(hold == NULL);
    hf_close(s);
}

/* Never more than `places`, seen from inside, with everything at once. */
enum { PLACES = 3, CROWD = 8, ROUNDS = 60 };

struct crowd {
    hf_session *s;
    atomic_int *inside, *most;
};

static void *visit(void *arg)
{
    struct crowd *c = arg;

    for (int i = 0; i < ROUNDS; i++) {
        hf_hold *hold = take_with(c->s, "k", permit(PLACES));
        int now = atomic_fetch_add(c->inside, 1) + 1;
        int most = atomic_load(c->most);
        while (now > most && !atomic_compare_exchange_weak(c->most, &most, now))
            ;
        if (i % 8 == 0)
            sleep_ms(1);
        atomic_fetch_sub(c->inside, 1);
        give(hold);
    }
    return NULL;
}

static void never_more(void)
{
    hf_session *s[2] = {open_store(), open_store()};
    atomic_int inside = 0, most = 0;
    struct crowd crowd[CROWD];
    pthread_t threads[CROWD];

    for (int i = 0; i < CROWD; i++) {
        crowd[i] = (struct crowd){s[i % 2], &inside, &most};
        EXPECT(pthread_create(&threads[i], NULL, visit, &crowd[i]) == 0);
    }
    for (int i = 0; i < CROWD; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    EXPECT(atomic_load(&inside) == 0);
    EXPECT_SAFE(atomic_load(&most) <= PLACES);
    EXPECT(atomic_load(&most) >= 2); /* else it is only a lock */
    await_empty(s[0]);
    hf_close(s[0]);
    hf_close(s[1]);
}

static const test_case cases[] = {
    TEST(n_places),
    TEST(not_reentrant),
    TEST(waiter_gets_place),
    TEST(single_place),
    TEST(other_kind),
    TEST(kind_is_forgotten),
    TEST(waiter_of_other_kind),
    TEST(zero_places),
    TEST_LIMIT(never_more, 120),
};
RUN_ON_TARGET("semaphore", cases)
