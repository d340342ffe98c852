/* bad_input.c - wrong calls get a clear answer and do no harm.
 *
 * Checks on every store: keys, times, option structs and arguments that are
 * wrong are refused with HF_EINVAL and a sentence, those at the very limit
 * work, limits that are exceeded answer HF_EFULL, and after each refusal
 * nothing is held, queued or left behind.  URLs and files are bad_store.c. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

static hf_session *s;

/* Refused, with a sentence; nothing written, nothing in the store. */
static void expect_refused(const char *key, const hf_lock_options *opt)
{
    hf_hold *hold = (hf_hold *)(uintptr_t)3;
    hf_request *request = (hf_request *)(uintptr_t)3;
    hf_error err = {0};

    EXPECT_CODE(hf_lock(s, key, opt, &hold, &err), HF_EINVAL);
    EXPECT_EQ(err.code, HF_EINVAL);
    EXPECT(err.text[0] != '\0' && strchr(err.text, '\n') == NULL);
    EXPECT(memchr(err.text, '\0', sizeof(err.text)) != NULL);
    hf_lock_options start = {HF_LOCK_OPTIONS};
    EXPECT_CODE(
        hf_lock_start(s, key, opt != NULL ? opt : &start, NULL, &request, NULL),
        HF_EINVAL);
    EXPECT(hold == (hf_hold *)(uintptr_t)3);
    EXPECT(request == (hf_request *)(uintptr_t)3);
    census c = count_entries(s, NULL);
    EXPECT_EQ(c.granted + c.waiting, 0);
}

/* ---- Keys -------------------------------------------------------------- */

/* Empty, one byte too long, none at all. */
static void bad_keys(void)
{
    char key[HF_KEY_MAX + 2];

    s = open_store();
    memset(key, 'k', sizeof(key));
    key[HF_KEY_MAX + 1] = '\0';
    expect_refused("", NULL);
    expect_refused(key, NULL);
    expect_refused(NULL, NULL);
    hf_hold *hold = NULL;
    EXPECT_CODE(hf_try_lock(s, "", NULL, &hold, NULL), HF_EINVAL);
    EXPECT_CODE(hf_lock_shared(s, key, NULL, &hold, NULL), HF_EINVAL);
    EXPECT_CODE(hf_lock_permit(s, NULL, 2, NULL, &hold, NULL), HF_EINVAL);
    EXPECT(hold == NULL);
    hf_close(s);
}

/* 1 to 1000 bytes work, and a key is not cut at 999. */
static void longest_keys(void)
{
    char key[HF_KEY_MAX + 1], near[HF_KEY_MAX + 1];

    s = open_store();
    memset(key, 'k', sizeof(key));
    key[HF_KEY_MAX] = '\0';
    memcpy(near, key, sizeof(near));
    near[HF_KEY_MAX - 1] = 'x';
    hf_session *rival = open_store();
    hf_hold *hold = take(s, key), *one = take(s, "1");
    EXPECT_CODE(probe(rival, key), HF_EBUSY);
    EXPECT_CODE(probe(rival, near), 0);
    near[HF_KEY_MAX - 1] = '\0';
    EXPECT_CODE(probe(rival, near), 0);
    give(hold);
    give(one);
    hf_close(s);
    hf_close(rival);
}

static int same_key(const hf_entry_info *entry, void *user)
{
    const char *key = user;

    return entry->key_len == strlen(key) && strcmp(entry->key, key) == 0 ? 0
                                                                         : 5;
}

/* Any byte but NUL. */
static void binary_keys(void)
{
    char all[256], one[2] = "";
    hf_session *rival = open_store();

    s = open_store();
    for (int i = 1; i < 256; i++)
        all[i - 1] = (char)i;
    all[255] = '\0';
    hf_hold *hold = take(s, all);
    EXPECT_CODE(probe(rival, all), HF_EBUSY);
    EXPECT_EQ(hf_list(rival, all, same_key, all, NULL), 0);
    EXPECT_EQ(count_entries(rival, all).granted, 1);
    give(hold);
    for (int i = 1; i < 256; i++) {
        one[0] = (char)i;
        hold = take(s, one);
        EXPECT_CODE(probe(rival, one), HF_EBUSY);
        give(hold);
    }
    await_empty(rival);
    hf_close(s);
    hf_close(rival);
}

/* ---- Times ------------------------------------------------------------- */

static const int64_t absurd[] = {-1,
                                 INT64_MIN,
                                 INT64_MIN + 1,
                                 HF_MS_MAX + 1,
                                 INT64_MAX - 1,
                                 INT64_MAX / 1000000 + 1};
enum { ABSURD = sizeof(absurd) / sizeof(absurd[0]) };

/* A negative or absurd time is HF_EINVAL, in each place. */
static void bad_times(void)
{
    s = open_store();
    for (int i = 0; i < ABSURD; i++) {
        expect_refused(
            "k", &(hf_lock_options){HF_LOCK_OPTIONS, .wait_ms = absurd[i]});
        expect_refused(
            "k", &(hf_lock_options){HF_LOCK_OPTIONS, .lease_ms = absurd[i]});
        expect_refused(
            "k", &(hf_lock_options){HF_LOCK_OPTIONS, .at_most_ms = absurd[i]});
        expect_refused(
            "k", &(hf_lock_options){HF_LOCK_OPTIONS, .at_least_ms = absurd[i]});
    }
    /* For ever is a wait; it is not a lease. */
    expect_refused("k",
                   &(hf_lock_options){HF_LOCK_OPTIONS, .lease_ms = HF_FOREVER});
    expect_refused(
        "k", &(hf_lock_options){HF_LOCK_OPTIONS, .at_least_ms = HF_FOREVER});
    give(take(s, "k"));
    hf_close(s);
}

/* The longest times are no overflow. */
static void longest_times(void)
{
    s = open_store();
    give(take_with(s, "k",
                   (hf_lock_options){HF_LOCK_OPTIONS, .wait_ms = HF_MS_MAX}));
    give(take_with(s, "k",
                   (hf_lock_options){HF_LOCK_OPTIONS, .wait_ms = HF_FOREVER,
                                     .at_most_ms = HF_MS_MAX}));
    hf_session *rival = open_store();
    hf_hold *hold = take(s, "k");
    waiter w;
    waiter_start(&w, rival, "k",
                 (hf_lock_options){HF_LOCK_OPTIONS, .wait_ms = HF_MS_MAX});
    await_waiting(s, "k", 1);
    sleep_ms(30);
    EXPECT(!waiter_answered(&w));
    give(hold);
    EXPECT_CODE(waiter_finish(&w), 0);
    hf_close(s);
    hf_close(rival);
}

/* The session's lease: also too short to be renewed in time. */
static void bad_session_lease(void)
{
    static const int64_t more[] = {1, 50, HF_FOREVER};
    hf_session *ret = NULL;

    for (int i = 0; i < ABSURD + 3; i++) {
        hf_open_options opt = {HF_OPEN_OPTIONS,
                               .lease_ms =
                                   i < ABSURD ? absurd[i] : more[i - ABSURD]};
        hf_error err = {0};
        EXPECT_CODE(hf_open(&ret, store_url(), &opt, &err), HF_EINVAL);
        EXPECT(err.code == HF_EINVAL && err.text[0] != '\0');
    }
    EXPECT(ret == NULL);
}

/* ---- Option structs ---------------------------------------------------- */

/* Unknown modes, owners and sizes. */
static void bad_options(void)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS};

    s = open_store();
    opt.mode = (hf_mode)3;
    expect_refused("k", &opt);
    opt.mode = (hf_mode)-1;
    expect_refused("k", &opt);
    opt = (hf_lock_options){HF_LOCK_OPTIONS, .owner = UINT64_C(1) << 63};
    expect_refused("k", &opt);
    opt = (hf_lock_options){.size = 0, .wait_ms = 10};
    expect_refused("k", &opt);
    opt.size = 4;
    expect_refused("k", &opt);
    hf_close(s);
}

/* A caller built against an older, shorter struct; and against a newer one,
 * whose extra fields must be zero for us to be able to ignore them. */
static void other_versions(void)
{
    struct {
        hf_lock_options known;
        uint64_t later[2];
    } newer = {.known = {.size = sizeof(newer), .wait_ms = PATIENCE_MS}};
    hf_lock_options older = {.size = offsetof(hf_lock_options, mode),
                             .wait_ms = PATIENCE_MS,
                             .mode = (hf_mode)77,
                             .lease_ms = -1};
    hf_hold *hold = NULL;

    s = open_store();
    EXPECT_CODE(hf_lock(s, "k", &older, &hold, NULL), 0);
    give(hold);
    EXPECT_CODE(hf_lock(s, "k", &newer.known, &hold, NULL), 0);
    give(hold);
    newer.later[1] = 1;
    int code = hf_lock(s, "k", &newer.known, &hold, NULL);
    EXPECT(hf_error_class(code) == HF_CLASS_CALLER);
    hf_close(s);

    hf_session *other = NULL;
    hf_open_options open = {.size = 0};
    EXPECT_CODE(hf_open(&other, store_url(), &open, NULL), HF_EINVAL);
    open = (hf_open_options){.size = offsetof(hf_open_options, name),
                             .name = (const char *)(uintptr_t)1};
    EXPECT_CODE(hf_open(&other, store_url(), &open, NULL), 0);
    hf_close(other);
}

/* ---- Missing arguments ------------------------------------------------- */

static int ignore_row(const hf_entry_info *entry, void *user)
{
    (void)entry;
    (void)user;
    return 0;
}

static void missing_arguments(void)
{
    hf_hold *hold = NULL;
    hf_request *request = NULL;
    hf_result result;
    hf_stats stats;

    s = open_store();
    EXPECT_CODE(hf_open(NULL, store_url(), NULL, NULL), HF_EINVAL);
    EXPECT_CODE(hf_lock(s, "k", NULL, NULL, NULL), HF_EINVAL);
    EXPECT_CODE(hf_lock(NULL, "k", NULL, &hold, NULL), HF_EINVAL);
    EXPECT_CODE(hf_try_lock(NULL, "k", NULL, &hold, NULL), HF_EINVAL);
    EXPECT_CODE(hf_lock_start(NULL, "k", NULL, NULL, &request, NULL),
                HF_EINVAL);
    EXPECT_CODE(hf_list(NULL, NULL, ignore_row, NULL, NULL), HF_EINVAL);
    EXPECT_CODE(hf_break(NULL, "k", NULL, NULL, NULL), HF_EINVAL);
    EXPECT_CODE(hf_cancel_owner(NULL, 7), HF_EINVAL);
    EXPECT_CODE(hf_session_stats(s, NULL), HF_EINVAL);
    EXPECT_CODE(hf_session_stats(NULL, &stats), HF_EINVAL);
    EXPECT_CODE(hf_collect(s, NULL), HF_EINVAL);
    EXPECT(hf_collect(NULL, &result) < 0);
    EXPECT(hf_session_fd(NULL) < 0);
    EXPECT(hold == NULL && request == NULL);
    census c = count_entries(s, NULL);
    EXPECT_EQ(c.granted + c.waiting, 0);

    hold = take(s, "k");
    EXPECT_CODE(hf_publish(hold, NULL, 4, NULL), HF_EINVAL);
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    give(hold);
    hf_close(s);
}

/* ---- Limits ------------------------------------------------------------ */

/* max_waiters: more requests at once are HF_EFULL, in both forms; what was
 * already waiting goes on. */
static void too_many_waiters(void)
{
    hf_open_options opt = {HF_OPEN_OPTIONS, .max_waiters = 3};
    hf_lock_options for_ever = {HF_LOCK_OPTIONS, .wait_ms = HF_FOREVER};
    hf_session *rival = open_store();
    hf_hold *busy = take(rival, "k"), *hold = NULL;
    hf_request *request[3], *extra = NULL;
    hf_result result;
    hf_error err = {0};

    EXPECT_CODE(hf_open(&s, store_url(), &opt, NULL), 0);
    for (int i = 0; i < 3; i++)
        EXPECT_CODE(hf_lock_start(s, "k", &for_ever, NULL, &request[i], NULL),
                    0);
    await_waiters(s, 3);
    EXPECT_CODE(hf_lock(s, "k", &for_ever, &hold, &err), HF_EFULL);
    EXPECT(err.code == HF_EFULL && err.text[0] != '\0');
    int code = hf_lock_start(s, "k", &for_ever, NULL, &extra, NULL);
    if (code == 0) { /* or as its result */
        EXPECT(is_readable(hf_session_fd(s), PATIENCE_MS));
        EXPECT_EQ(hf_collect(s, &result), 1);
        EXPECT(result.request == extra);
        code = result.error.code;
    }
    EXPECT_CODE(code, HF_EFULL);
    EXPECT_CODE(hf_cancel(request[1], NULL), 0);
    EXPECT(is_readable(hf_session_fd(s), PATIENCE_MS));
    EXPECT_EQ(hf_collect(s, &result), 1);
    EXPECT_CODE(result.error.code, HF_ECANCELED);
    EXPECT_CODE(hf_lock_start(s, "k", &for_ever, NULL, &request[1], NULL), 0);
    give(busy);
    for (int i = 0; i < 3; i++) {
        EXPECT(is_readable(hf_session_fd(s), PATIENCE_MS));
        EXPECT_EQ(hf_collect(s, &result), 1);
        EXPECT_CODE(result.error.code, 0);
        give(result.hold);
    }
    hf_close(s);
    await_empty(rival);
    hf_close(rival);
}

static const test_case cases[] = {
    TEST(bad_keys),         TEST(longest_keys),   TEST(binary_keys),
    TEST(bad_times),        TEST(longest_times),  TEST(bad_session_lease),
    TEST(bad_options),      TEST(other_versions), TEST(missing_arguments),
    TEST(too_many_waiters),
};
RUN_ON_TARGET("bad_input", cases)
