/* memory.c - what locks cost the process.
 *
 * Checks on every store: a key that is neither held nor waited for costs
 * nothing (a million different keys in turn leave memory flat, counted both in
 * live allocations and in resident pages), everything is given back at the
 * close, and ten thousand holds or waiters cost at most 1 KiB each.
 *
 * Counts through hf_set_alloc, which is exact; the resident size only guards
 * against what does not come from there. */
#include "support.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static atomic_long live_bytes, live_blocks;

static void *count_realloc(void *p, size_t size, void *user)
{
    long before = p != NULL ? (long)malloc_usable_size(p) : 0;
    bool had = p != NULL;

    (void)user;
    if (size == 0) {
        free(p);
        atomic_fetch_sub(&live_bytes, before);
        atomic_fetch_sub(&live_blocks, had);
        return NULL;
    }
    void *q = realloc(p, size);
    EXPECT(q != NULL);
    atomic_fetch_add(&live_bytes, (long)malloc_usable_size(q) - before);
    atomic_fetch_add(&live_blocks, !had);
    return q;
}

static bool is_sqlite(void)
{
    return strcmp(test_target(), "sqlite") == 0;
}

/* Another key each time; the modes take turns. */
static void take_keys(hf_session *s, int from, int to)
{
    char key[64];

    for (int i = from; i < to; i++) {
        hf_lock_options opt = options_of((hf_mode)(i % 3), 3);

        snprintf(key, sizeof(key), "/some/longer/name/of/a/thing/%d", i);
        give(take_with(s, key, opt));
    }
}

/* Whatever a session makes once is made: it waited for another, on a thread
 * and in the event-loop form, and it renewed (a store that is reached through
 * connections has one more for what it is told). */
static void use_all(hf_session *s)
{
    hf_session *rival = open_store();
    hf_hold *hold = take(rival, "k");
    hf_request *request = NULL;
    hf_result result;
    waiter w;

    waiter_start(&w, s, "k", (hf_lock_options){HF_LOCK_OPTIONS});
    await_waiting(rival, "k", 1);
    give(hold);
    EXPECT_CODE(waiter_finish(&w), 0);
    hold = take(rival, "k");
    EXPECT_CODE(hf_lock_start(s, "k", NULL, NULL, &request, NULL), 0);
    await_waiting(rival, "k", 1);
    give(hold);
    EXPECT(is_readable(hf_session_fd(s), PATIENCE_MS));
    EXPECT_EQ(hf_collect(s, &result), 1);
    EXPECT_CODE(result.error.code, 0);
    EXPECT_CODE(hf_renew(result.hold, NULL), 0);
    give(result.hold);
    hf_close(rival);
}

static void a_million_keys(void)
{
    /* A database makes a row for each, a quorum commits each. */
    int keys = store_is_quorum()     ? 8000
               : store_is_database() ? 30000
               : store_is_shared()   ? 200000
                                     : 1000000;
    int warm = store_is_quorum() ? 2000 : store_is_database() ? 5000 : 20000;

    hf_set_alloc(count_realloc, NULL);
    hf_session *s = open_store();
    use_all(s);
    take_keys(s, 0, warm);
    long bytes = atomic_load(&live_bytes), blocks = atomic_load(&live_blocks);
    int64_t resident = resident_kb();
    take_keys(s, warm, keys);
    /* A byte a key would be seen; a connection that the first renewal opens,
     * with its statements, is not one. */
    EXPECT(atomic_load(&live_bytes) <=
           bytes + (store_is_database() ? 24 * 1024 : 4096));
    EXPECT(atomic_load(&live_blocks) <=
           blocks + (store_is_database() ? 200 : 16));
    EXPECT(resident_kb() <= resident + 2048);
    await_empty(s);
    hf_close(s);
}

/* Nothing stays behind in the file either. */
static void file_stays_small(void)
{
    char path[600];
    struct stat before, after;

    if (!is_sqlite())
        skip_test("this store is not a file");
    hf_session *s = open_store();
    take_keys(s, 0, 5000);
    scratch_path("store.db", path, sizeof(path));
    EXPECT(stat(path, &before) == 0);
    take_keys(s, 5000, 30000);
    EXPECT(stat(path, &after) == 0);
    EXPECT(after.st_size <= before.st_size + 65536);
    hf_close(s);
}

/* The close gives everything back, however much was in flight. */
static void close_gives_back(void)
{
    hf_set_alloc(count_realloc, NULL);
    hf_close(open_store());
    long blocks = atomic_load(&live_blocks);

    for (int round = 0; round < 3; round++) {
        hf_session *s = open_store(), *rival = open_store();
        char key[32];

        for (int i = 0; i < 100; i++) {
            hf_request *request;
            snprintf(key, sizeof(key), "k%d", i);
            take_with(s, key,
                      (hf_lock_options){HF_LOCK_OPTIONS, .value = "v",
                                        .value_len = 1});
            EXPECT_CODE(hf_lock_start(rival, key, NULL, NULL, &request, NULL),
                        0);
        }
        hf_close(rival);
        hf_close(s);
        EXPECT_EQ(atomic_load(&live_blocks), blocks);
    }
}

/* ---- Ten thousand ------------------------------------------------------ */

/* Bytes.  Where a hold is a node that is watched, or a wait a watch, the driver
 * keeps its name, too. */
static long each(void)
{
    return store_is_quorum() ? 2048 : 1024;
}

/* Ten thousand, where the server is not the bottleneck. */
static int many(void)
{
    return store_is_quorum() ? 2000 : 10000;
}

static void start_many(hf_session *s)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = HF_FOREVER};
    char key[32];

    for (int i = 0; i < many(); i++) {
        hf_request *request;
        snprintf(key, sizeof(key), "key/%d", i);
        EXPECT_CODE(hf_lock_start(s, key, &opt, NULL, &request, NULL), 0);
    }
}

/* However long it takes, as long as there are more of them each time: to list
 * so many costs as much as to add some. */
static void await_many_waiting(hf_session *s)
{
    int64_t until = now_ms() + PATIENCE_MS;
    int seen = 0, now;

    while ((now = count_entries(s, NULL).waiting) < many()) {
        if (now > seen)
            until = now_ms() + PATIENCE_MS;
        seen = now;
        EXPECT(now_ms() < until);
        test_sleep_ms(200);
    }
}

/* At most 1 KiB (ZooKeeper, etcd: 2) for each hold and each waiter, each on a
 * key of its own, and one renewal for all.  (mem: keeps the store itself in the
 * process.) */
static void cost_of_each(void)
{
    hf_set_alloc(count_realloc, NULL);
    hf_session *holder = open_store(), *waits = open_store();
    hf_result result;
    long bytes = atomic_load(&live_bytes);
    int threads;

    start_many(holder);
    for (int i = 0; i < many(); i++) {
        EXPECT(is_readable(hf_session_fd(holder), PATIENCE_MS));
        EXPECT_EQ(hf_collect(holder, &result), 1);
        EXPECT_CODE(result.error.code, 0);
    }
    AWAIT(atomic_load(&live_bytes) - bytes <= many() * each());
    threads = count_threads();
    bytes = atomic_load(&live_bytes);
    start_many(waits);
    await_many_waiting(holder);
    /* When the last joins have landed. */
    AWAIT(atomic_load(&live_bytes) - bytes <= many() * each());
    /* The session's own threads: the keeper, a pool of four and three that
     * renew, listen and tell; none of them is a waiter's. */
    EXPECT(count_threads() <= threads + 8);
    hf_stats stats;
    EXPECT_CODE(hf_session_stats(waits, &stats), 0);
    EXPECT_EQ(stats.waiters, many());
    hf_close(waits);
    hf_close(holder);
}

static const test_case cases[] = {
    TEST_LIMIT(a_million_keys, 300),
    TEST(close_gives_back),
    TEST_LIMIT(file_stays_small, 120),
    TEST_LIMIT(cost_of_each, 300),
};
RUN_ON_TARGET_SHARED("memory", cases, 2)
