/* wait.c - how a waiter hears that its turn has come.
 *
 * Two ways: fd and dispatch, for places joined with HF_PLACE_PUSH, and park,
 * for a thread that sleeps in the driver.  A wake-up may come for nothing; it
 * must not fail to come.  Where the store pushes (HF_CAP_PUSH) the bound is
 * the patience of the test; a recheck then answers the truth. */
#include "suite.h"

static hf_place make_pushed(hf_mode mode)
{
    hf_place place = make_place("k", mode);

    place.own[1] = HF_PLACE_PUSH;
    return place;
}

static void push_tells_the_next(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place one = make_pushed(HF_EXCLUSIVE);
    hf_place two = make_pushed(HF_EXCLUSIVE);
    uint64_t token = 0;

    if (!HAS_CAP(a, HF_CAP_PUSH))
        skip_test("this store does not push");
    for (int i = 0; i < 20; i++) {
        one.rid = make_rid();
        two.rid = make_rid();
        must_hold(a, &one);
        must_wait(b, &two);
        forget_events(b);
        must_leave(a, &one);
        EXPECT(wait_changed(b, &two.rid, PATIENCE_MS));
        EXPECT_CODE(recheck(b, &two), 0);
        EXPECT_EQ(two.verdict, HF_GRANTED);
        EXPECT_RISES(b, two.token, one.token);
        if (told_granted(b, &two.rid, &token))
            EXPECT_EQ(token, two.token);
        must_leave(b, &two);
    }
    party_close(a);
    party_close(b);
}

/* All readers up to the next writer are told; the writer is not granted. */
static void push_tells_exactly_those(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS),
          *c = party_open(LONG_MS);
    hf_place held = make_pushed(HF_EXCLUSIVE);
    hf_place readers[4], writer = make_pushed(HF_EXCLUSIVE);

    if (!HAS_CAP(a, HF_CAP_PUSH))
        skip_test("this store does not push");
    must_hold(a, &held);
    for (int i = 0; i < 4; i++) {
        readers[i] = make_pushed(HF_SHARED);
        must_wait(i % 2 ? b : a, &readers[i]);
    }
    must_wait(c, &writer);
    forget_events(a);
    must_leave(a, &held);
    for (int i = 0; i < 4; i++)
        EXPECT(wait_changed(i % 2 ? b : a, &readers[i].rid, PATIENCE_MS));
    wait_changed(c, &writer.rid, 50);
    EXPECT(!told_granted(c, &writer.rid, NULL));
    for (int i = 0; i < 4; i++) {
        forget_events(c);
        EXPECT_CODE(recheck(c, &writer), 0);
        EXPECT_EQ(writer.verdict, HF_WAITS);
        must_leave(i % 2 ? b : a, &readers[i]);
    }
    EXPECT(wait_changed(c, &writer.rid, PATIENCE_MS));
    await_verdict(c, &writer, HF_GRANTED);
    must_leave(c, &writer);
    party_close(a);
    party_close(b);
    party_close(c);
}

/* A detach and an eviction hand over as a leave does. */
static void push_after_detach_and_evict(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS),
          *c = party_open(LONG_MS);
    hf_place one = make_pushed(HF_EXCLUSIVE);
    hf_place two = make_pushed(HF_EXCLUSIVE);
    hf_place three = make_pushed(HF_EXCLUSIVE);

    if (!HAS_CAP(a, HF_CAP_PUSH))
        skip_test("this store does not push");
    must_hold(a, &one);
    must_wait(b, &two);
    must_wait(c, &three);
    party_detach(a);
    EXPECT(wait_changed(b, &two.rid, PATIENCE_MS));
    await_verdict(b, &two, HF_GRANTED);
    forget_events(c);
    if (HAS_CAP(a, HF_CAP_BREAK)) {
        EXPECT_EQ(evict(a, "k", 0, true, LONG_MS), 1);
        EXPECT(wait_changed(c, &three.rid, PATIENCE_MS));
        await_verdict(c, &three, HF_GRANTED);
    }
    party_drop(a);
    party_close(b);
    party_close(c);
}

/* ---- Park --------------------------------------------------------------- */

typedef struct sleeper {
    party *p;
    hf_place *place;
    hf_nsec until;
    atomic_bool awake, ended;
    pthread_t thread;
} sleeper;

/* As the core's blocking caller: park, look, park again. */
static void *sleep_until_granted(void *arg)
{
    sleeper *s = arg;

    while (s->place->verdict != HF_GRANTED && hfd_now() < s->until) {
        s->p->driver->park(s->p->store, s->place, s->until);
        EXPECT_CODE(recheck(s->p, s->place), 0);
    }
    atomic_store(&s->ended, true);
    return NULL;
}

static void *sleep_once(void *arg)
{
    sleeper *s = arg;

    s->p->driver->park(s->p->store, s->place, s->until);
    atomic_store(&s->ended, true);
    return NULL;
}

static bool has_park(party *p)
{
    EXPECT((p->driver->park == NULL) == (p->driver->unpark == NULL));
    return p->driver->park != NULL;
}

static void park_ends_with_the_grant(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place two = make_place("k", HF_EXCLUSIVE);

    party_serve(b);
    for (int i = 0; has_park(b) && i < 20; i++) {
        sleeper s = {.p = b, .place = &two};

        one.rid = make_rid();
        two.rid = make_rid();
        s.until = hfd_now() + HF_MS(2 * PATIENCE_MS);
        must_hold(a, &one);
        must_wait(b, &two);
        EXPECT_EQ(pthread_create(&s.thread, NULL, sleep_until_granted, &s), 0);
        if (i % 2) /* once asleep, once perhaps not yet */
            test_sleep_ms(5);
        must_leave(a, &one);
        EXPECT(WAIT_FOR(atomic_load(&s.ended), PATIENCE_MS));
        pthread_join(s.thread, NULL);
        EXPECT_EQ(two.verdict, HF_GRANTED);
        must_leave(b, &two);
    }
    party_close(a);
    party_close(b);
}

/* unpark ends a sleep, and one that has not begun yet. */
static void unpark_ends_a_sleep(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place two = make_place("k", HF_EXCLUSIVE);

    must_hold(a, &one);
    must_wait(b, &two);
    for (int i = 0; has_park(b) && i < 10; i++) {
        sleeper s = {.p = b, .place = &two};

        s.until = hfd_now() + HF_MS(2 * PATIENCE_MS);
        if (i % 2)
            b->driver->unpark(b->store, &two);
        EXPECT_EQ(pthread_create(&s.thread, NULL, sleep_once, &s), 0);
        if (i % 2 == 0) {
            test_sleep_ms(5);
            b->driver->unpark(b->store, &two);
        }
        EXPECT(WAIT_FOR(atomic_load(&s.ended), PATIENCE_MS));
        pthread_join(s.thread, NULL);
        EXPECT_CODE(recheck(b, &two), 0);
        EXPECT_EQ(two.verdict, HF_WAITS);
    }
    EXPECT_EQ(leave(b, &two), HF_WAITS);
    must_leave(a, &one);
    party_close(a);
    party_close(b);
}

static void park_ends_in_time(void)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place two = make_place("k", HF_EXCLUSIVE);

    must_hold(a, &one);
    must_wait(b, &two);
    if (has_park(b)) {
        sleeper s = {.p = b, .place = &two};

        s.until = hfd_now() + HF_MS(50);
        EXPECT_EQ(pthread_create(&s.thread, NULL, sleep_once, &s), 0);
        EXPECT(WAIT_FOR(atomic_load(&s.ended), PATIENCE_MS));
        pthread_join(s.thread, NULL);
        b->driver->park(b->store, &two, hfd_now() - 1); /* long past */
    }
    EXPECT_EQ(leave(b, &two), HF_WAITS);
    must_leave(a, &one);
    party_close(a);
    party_close(b);
}

/* Many threads of one store asleep on many places: each is woken. */
static void many_sleepers(void)
{
    enum { N = 32 };
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place held = make_place("k", HF_EXCLUSIVE), places[N];
    sleeper sleepers[N];

    party_serve(b);
    must_hold(a, &held);
    for (int i = 0; has_park(b) && i < N; i++) {
        places[i] = make_place("k", HF_SHARED);
        must_wait(b, &places[i]);
        sleepers[i] = (sleeper){.p = b,
                                .place = &places[i],
                                .until = hfd_now() + HF_MS(2 * PATIENCE_MS)};
        EXPECT_EQ(pthread_create(&sleepers[i].thread, NULL, sleep_until_granted,
                                 &sleepers[i]),
                  0);
    }
    must_leave(a, &held);
    for (int i = 0; has_park(b) && i < N; i++) {
        EXPECT(WAIT_FOR(atomic_load(&sleepers[i].ended), PATIENCE_MS));
        pthread_join(sleepers[i].thread, NULL);
        EXPECT_EQ(places[i].verdict, HF_GRANTED);
        must_leave(b, &places[i]);
    }
    party_close(a);
    party_close(b);
}

const test_case wait_tests[] = {TEST(push_tells_the_next),
                                TEST(push_tells_exactly_those),
                                TEST(push_after_detach_and_evict),
                                TEST(park_ends_with_the_grant),
                                TEST(unpark_ends_a_sleep),
                                TEST(park_ends_in_time),
                                TEST(many_sleepers),
                                {NULL, NULL, 0}};
