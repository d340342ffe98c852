/* rwlock.c - shared locks: many together, or one alone.
 *
 * Checks hf_lock_shared on every store: readers of several sessions and of
 * several threads hold at once, a writer waits for all of them, and readers
 * that come after a waiting writer stand behind it.  A shared entry of one
 * session may let in a bounded number of its own threads; that bound is in
 * order.c, not here. */
#include "support.h"

#include <string.h>

enum { READERS = 6 };

static const hf_lock_options shared = {HF_LOCK_OPTIONS, .mode = HF_SHARED};
static const hf_lock_options alone = {HF_LOCK_OPTIONS, .mode = HF_EXCLUSIVE};

/* Shared together with other shared holders, across sessions. */
static void sessions_share(void)
{
    hf_session *s[READERS];
    hf_hold *holds[READERS];

    for (int i = 0; i < READERS; i++) {
        s[i] = open_store();
        holds[i] = take_with(s[i], "k", shared);
    }
    EXPECT(count_entries(s[0], "k").granted == READERS);
    for (int i = 0; i < READERS; i++) {
        EXPECT_CODE(hf_hold_check(holds[i], NULL), 0);
        for (int j = 0; j < i; j++)
            EXPECT(hf_hold_token(holds[i]) != hf_hold_token(holds[j]));
    }
    for (int i = 0; i < READERS; i++) {
        EXPECT_CODE(probe_with(s[(i + 1) % READERS], "other", alone), 0);
        give(holds[i]);
    }
    for (int i = 0; i < READERS; i++)
        hf_close(s[i]);
}

/* And across the threads of one session: all are inside at once. */
static void threads_share(void)
{
    hf_session *s = open_store(), *rival = open_store();
    waiter w[READERS];

    for (int i = 0; i < READERS; i++)
        waiter_start(&w[i], s, "k", shared);
    for (int i = 0; i < READERS; i++)
        EXPECT_CODE(waiter_code(&w[i]), 0);
    for (int i = 0; i < READERS; i++) {
        for (int j = 0; j < i; j++)
            EXPECT(w[i].token != w[j].token);
        EXPECT_CODE(probe_with(rival, "k", alone), HF_EBUSY);
        EXPECT_CODE(waiter_finish(&w[i]), 0);
        EXPECT_CODE(w[i].release_code, 0);
    }
    EXPECT_CODE(probe_with(rival, "k", alone), 0);
    hf_close(s);
    hf_close(rival);
}

/* hf_lock_shared sets the mode, whatever the options say. */
static void verb_sets_mode(void)
{
    hf_session *a = open_store(), *b = open_store();
    hf_hold *one = NULL, *two = NULL;

    EXPECT_CODE(hf_lock_shared(a, "k", &alone, &one, NULL), 0);
    EXPECT_CODE(hf_lock_shared(b, "k", NULL, &two, NULL), 0);
    EXPECT_CODE(probe_with(b, "k", alone), HF_EDEADLK);
    give(two);
    EXPECT_CODE(probe_with(b, "k", alone), HF_EBUSY);
    give(one);
    hf_close(a);
    hf_close(b);
}

/* A writer waits for the last reader, in whatever order they go. */
static void writer_waits_for_all(void)
{
    hf_session *r[3], *ws = open_store();
    static const int orders[2][3] = {{0, 1, 2}, {1, 2, 0}};

    for (int i = 0; i < 3; i++)
        r[i] = open_store();
    for (int o = 0; o < 2; o++) {
        hf_hold *holds[3];
        uint64_t largest = 0;
        waiter w;

        for (int i = 0; i < 3; i++) {
            holds[i] = take_with(r[i], "k", shared);
            if (hf_hold_token(holds[i]) > largest)
                largest = hf_hold_token(holds[i]);
        }
        waiter_start(&w, ws, "k", alone);
        await_waiting(ws, "k", 1);
        for (int i = 0; i < 3; i++) {
            sleep_ms(10);
            EXPECT(!waiter_answered(&w));
            give(holds[orders[o][i]]);
        }
        EXPECT_CODE(waiter_code(&w), 0);
        EXPECT(w.token > largest);
        for (int i = 0; i < 3; i++)
            EXPECT_CODE(probe_with(r[i], "k", shared), HF_EBUSY);
        EXPECT_CODE(waiter_finish(&w), 0);
    }
    for (int i = 0; i < 3; i++)
        hf_close(r[i]);
    hf_close(ws);
}

/* First come, first served: a reader does not overtake a waiting writer. */
static void reader_behind_writer(void)
{
    hf_session *a = open_store(), *b = open_store(), *c = open_store();
    hf_hold *reading = take_with(a, "k", shared);
    waiter writer, reader;

    waiter_start(&writer, b, "k", alone);
    await_waiting(a, "k", 1);
    EXPECT_CODE(probe_with(c, "k", shared), HF_EBUSY);
    waiter_start(&reader, c, "k", shared);
    await_waiting(a, "k", 2);
    sleep_ms(30);
    EXPECT(!waiter_answered(&reader) && !waiter_answered(&writer));
    give(reading);
    EXPECT_CODE(waiter_code(&writer), 0);
    sleep_ms(30);
    EXPECT(!waiter_answered(&reader));
    EXPECT_CODE(waiter_finish(&writer), 0);
    EXPECT_CODE(waiter_code(&reader), 0);
    EXPECT(reader.token > writer.token);
    EXPECT_CODE(waiter_finish(&reader), 0);
    hf_close(a);
    hf_close(b);
    hf_close(c);
}

/* All readers that stand next to each other get in together. */
static void readers_enter_together(void)
{
    hf_session *s[READERS], *ws = open_store();
    hf_hold *writing = take(ws, "k");
    waiter w[READERS];

    for (int i = 0; i < READERS; i++) {
        s[i] = open_store();
        waiter_start(&w[i], s[i], "k", shared);
        await_waiting(ws, "k", i + 1);
    }
    give(writing);
    /* Nobody lets go before all have answered. */
    for (int i = 0; i < READERS; i++)
        EXPECT_CODE(waiter_code(&w[i]), 0);
    for (int i = 0; i < READERS; i++) {
        EXPECT_CODE(waiter_finish(&w[i]), 0);
        hf_close(s[i]);
    }
    hf_close(ws);
}

/* A writer that gives up no longer holds back the readers behind it. */
static void writer_gives_up(void)
{
    hf_session *a = open_store(), *b = open_store(), *c = open_store();
    hf_hold *reading = take_with(a, "k", shared);
    waiter writer, reader;

    waiter_start(&writer, b, "k",
                 (hf_lock_options){HF_LOCK_OPTIONS, .owner = 5});
    await_waiting(a, "k", 1);
    waiter_start(&reader, c, "k", shared);
    await_waiting(a, "k", 2);
    EXPECT(hf_cancel_owner(b, 5) == 1);
    EXPECT_CODE(waiter_finish(&writer), HF_ECANCELED);
    EXPECT_CODE(waiter_code(&reader), 0);
    EXPECT_CODE(hf_hold_check(reading, NULL), 0);
    EXPECT_CODE(waiter_finish(&reader), 0);
    give(reading);
    hf_close(a);
    hf_close(b);
    hf_close(c);
}

/* Shared again by its owner: same token, counted, no round trip. */
static void shared_reentry(void)
{
    hf_session *a = open_store(), *b = open_store();
    hf_hold *outer = take_with(a, "k", shared);
    hf_stats before, after;

    EXPECT_CODE(hf_session_stats(a, &before), 0);
    hf_hold *inner = take_with(a, "k", shared);
    EXPECT_CODE(hf_session_stats(a, &after), 0);
    EXPECT(before.joins == after.joins);
    EXPECT(hf_hold_token(inner) == hf_hold_token(outer));
    give(outer);
    EXPECT_CODE(probe_with(b, "k", alone), HF_EBUSY);
    give(inner);
    EXPECT_CODE(probe_with(b, "k", alone), 0);
    hf_close(a);
    hf_close(b);
}

/* A reader already inside takes it again although a writer waits: else it
 * would wait for itself. */
static void reentry_passes_writer(void)
{
    hf_session *a = open_store(), *b = open_store();
    hf_hold *outer = take_with(a, "k", shared);
    waiter writer;

    waiter_start(&writer, b, "k", alone);
    await_waiting(a, "k", 1);
    hf_hold *inner = take_with(a, "k", shared);
    EXPECT(!waiter_answered(&writer));
    give(outer);
    give(inner);
    EXPECT_CODE(waiter_finish(&writer), 0);
    hf_close(a);
    hf_close(b);
}

/* A thread that writes and one that reads, of one session. */
static void local_writer_and_reader(void)
{
    hf_session *s = open_store();
    hf_hold *reading = take_with(s, "k", shared);
    waiter writer, reader;

    waiter_start(&writer, s, "k", alone);
    await_waiters(s, 1);
    sleep_ms(30);
    EXPECT(!waiter_answered(&writer));
    give(reading);
    EXPECT_CODE(waiter_code(&writer), 0);
    waiter_start(&reader, s, "k", shared);
    await_waiters(s, 1);
    sleep_ms(30);
    EXPECT(!waiter_answered(&reader));
    EXPECT_CODE(waiter_finish(&writer), 0);
    EXPECT_CODE(waiter_finish(&reader), 0);
    EXPECT(reader.token > writer.token);
    hf_close(s);
}

static const test_case cases[] = {
    TEST(sessions_share),        TEST(threads_share),
    TEST(verb_sets_mode),        TEST(writer_waits_for_all),
    TEST(reader_behind_writer),  TEST(readers_enter_together),
    TEST(writer_gives_up),       TEST(shared_reentry),
    TEST(reentry_passes_writer), TEST(local_writer_and_reader),
};
RUN_ON_TARGET("rwlock", cases)
