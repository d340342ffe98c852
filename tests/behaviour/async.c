/* async.c - the form for event loops.
 *
 * Checks hf_lock_start and its kin on every store: nothing blocks, the session
 * descriptor is readable exactly while something is to be collected, every
 * started request is collected once and brings its user pointer back, and ten
 * thousand waiters cost neither a thread nor a descriptor.
 *
 * The loop here is poll on one descriptor, as a program's would be. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hf_request *start_with(hf_session *s, const char *key,
                              hf_lock_options opt, void *user)
{
    hf_request *request = NULL;
    hf_error err;

    EXPECT_OK(hf_lock_start(s, key, &opt, user, &request, &err), err);
    EXPECT(request != NULL);
    return request;
}

static hf_request *start(hf_session *s, const char *key, void *user)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = HF_FOREVER};

    return start_with(s, key, opt, user);
}

static hf_result collect_one(hf_session *s)
{
    hf_result result;

    EXPECT(is_readable(hf_session_fd(s), PATIENCE_MS));
    EXPECT_EQ(hf_collect(s, &result), 1);
    return result;
}

static void expect_nothing(hf_session *s)
{
    hf_result result;

    EXPECT(!is_readable(hf_session_fd(s), 0));
    EXPECT_EQ(hf_collect(s, &result), 0);
}

static hf_hold *collect_hold(hf_session *s, hf_request *request, void *user)
{
    hf_result result = collect_one(s);

    EXPECT(result.kind == HF_RESULT_LOCK);
    EXPECT(result.request == request && result.user == user);
    EXPECT_CODE(result.error.code, 0);
    EXPECT(result.hold != NULL);
    EXPECT_CODE(hf_hold_check(result.hold, NULL), 0);
    return result.hold;
}

/* A free lock: granted, collected once, then quiet. */
static void free_lock(void)
{
    hf_session *a = open_store(), *b = open_store();
    int tag;

    int fd = hf_session_fd(a);
    EXPECT(fd >= 0 && hf_session_fd(a) == fd);
    expect_nothing(a);
    hf_request *request = start(a, "k", &tag);
    hf_hold *hold = collect_hold(a, request, &tag);
    expect_nothing(a);
    EXPECT_RISES(hf_hold_token(hold), 0);
    EXPECT_CODE(probe(b, "k"), HF_EBUSY);
    give(hold);
    hf_close(a);
    hf_close(b);
}

/* A busy one: quiet until the release, then readable. */
static void busy_lock(void)
{
    hf_session *a = open_store(), *b = open_store();
    hf_session *holders[] = {a, b};
    int tag;

    for (int i = 0; i < 2; i++) { /* held elsewhere, held in this session */
        hf_hold *hold = take(holders[i], "k");
        uint64_t token = hf_hold_token(hold);
        hf_request *request = start(b, "k", &tag);
        await_waiters(b, 1);
        EXPECT(!is_readable(hf_session_fd(b), 50));
        give(hold);
        hold = collect_hold(b, request, &tag);
        EXPECT_RISES(hf_hold_token(hold), token);
        give(hold);
        expect_nothing(b);
    }
    hf_close(a);
    hf_close(b);
}

/* Refusals come as results too: time, no wait, and the wrong kind. */
static void refusals(void)
{
    hf_session *a = open_store(), *b = open_store();
    hf_hold *hold = take(a, "k");
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = 60};
    int64_t begin = now_ms();

    hf_request *request = start_with(b, "k", opt, NULL);
    hf_result result = collect_one(b);
    EXPECT(result.request == request && result.hold == NULL);
    EXPECT_CODE(result.error.code, HF_ETIMEDOUT);
    EXPECT(now_ms() - begin >= 59);
    opt.wait_ms = 0;
    start_with(b, "k", opt, NULL);
    EXPECT_CODE(collect_one(b).error.code, HF_EBUSY);
    opt.mode = HF_PERMIT;
    opt.places = 2;
    if (store_has(HF_CAP_PERMIT)) {
        hf_hold *other = take(a, "other");
        start_with(b, "other", opt, NULL);
        EXPECT_CODE(collect_one(b).error.code, HF_EKIND);
        give(other);
    } else { /* known without asking: refused by the call */
        hf_request *none = NULL;
        EXPECT_CODE(hf_lock_start(b, "other", &opt, NULL, &none, NULL),
                    HF_ENOTSUP);
        EXPECT(none == NULL);
    }
    expect_nothing(b);
    await_waiting(a, "k", 0);
    give(hold);
    hf_close(a);
    hf_close(b);
}

/* HF_OWNER_THREAD is refused; the default is HF_OWNER_HOLD. */
static void owners(void)
{
    hf_session *s = open_store();
    hf_lock_options opt = {HF_LOCK_OPTIONS, .owner = HF_OWNER_THREAD};
    hf_request *request = NULL;
    hf_error err;

    EXPECT_CODE(hf_lock_start(s, "k", &opt, NULL, &request, &err), HF_EINVAL);
    EXPECT(request == NULL && err.code == HF_EINVAL);
    /* opt NULL waits for ever, for the hold alone. */
    EXPECT_CODE(hf_lock_start(s, "k", NULL, NULL, &request, NULL), 0);
    hf_hold *hold = collect_hold(s, request, NULL);
    opt.owner = HF_OWNER_DEFAULT;
    start_with(s, "k", opt, NULL);
    EXPECT_CODE(collect_one(s).error.code, HF_EBUSY);
    give(hold);
    /* A number is re-entrant here as well: same token. */
    opt.owner = 77;
    hold = collect_hold(s, start_with(s, "k", opt, NULL), NULL);
    hf_hold *again = collect_hold(s, start_with(s, "k", opt, NULL), NULL);
    EXPECT(again != hold && hf_hold_token(again) == hf_hold_token(hold));
    give(hold);
    give(again);
    hf_close(s);
}

/* Wrong arguments are refused by the call, not by a result. */
static void wrong_arguments(void)
{
    hf_session *s = open_store();
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = -1};
    hf_request *request = NULL;

    EXPECT_CODE(hf_lock_start(s, "", NULL, NULL, &request, NULL), HF_EINVAL);
    EXPECT_CODE(hf_lock_start(s, "k", &opt, NULL, &request, NULL), HF_EINVAL);
    EXPECT(request == NULL);
    expect_nothing(s);
    hf_close(s);
}

static void expect_publish(hf_session *s, hf_hold *hold)
{
    hf_request *request = NULL;
    char buf[8];
    size_t len = 0;
    int tag;

    if (!store_has(HF_CAP_VALUE)) {
        EXPECT_CODE(hf_publish_start(hold, "seen", 4, &tag, &request, NULL),
                    HF_ENOTSUP);
        EXPECT(request == NULL);
        return;
    }
    EXPECT_CODE(hf_publish_start(hold, "seen", 4, &tag, &request, NULL), 0);
    hf_result result = collect_one(s);
    EXPECT(result.kind == HF_RESULT_PUBLISH && result.request == request);
    EXPECT(result.user == &tag);
    EXPECT_CODE(result.error.code, 0);
    EXPECT_CODE(hf_hold_value(hold, buf, sizeof(buf), &len), 0);
    EXPECT(len == 4 && memcmp(buf, "seen", 4) == 0);
}

/* Release, renew and publish: each has its result, with its user pointer. */
static void other_operations(void)
{
    hf_session *s = open_store(), *rival = open_store();
    hf_hold *hold = collect_hold(s, start(s, "k", NULL), NULL);
    hf_request *request = NULL;
    int tag;

    EXPECT_CODE(hf_renew_start(hold, &tag, &request, NULL), 0);
    hf_result result = collect_one(s);
    EXPECT(result.kind == HF_RESULT_RENEW && result.request == request);
    EXPECT(result.user == &tag && result.hold == hold);
    EXPECT_CODE(result.error.code, 0);

    expect_publish(s, hold);
    EXPECT_CODE(hf_release_start(hold, &tag, &request, NULL), 0);
    result = collect_one(s);
    EXPECT(result.kind == HF_RESULT_RELEASE && result.request == request);
    EXPECT(result.user == &tag);
    EXPECT_CODE(result.error.code, 0);
    expect_nothing(s);
    EXPECT_CODE(hf_hold_check(hold, NULL), HF_ENOTHELD);
    EXPECT_CODE(hf_release(hold, NULL), HF_ENOTHELD);
    EXPECT_CODE(probe(rival, "k"), 0);
    hf_close(s);
    hf_close(rival);
}

/* ---- Ten thousand ------------------------------------------------------ */

enum { MANY = 10000 };

/* Collect n results of requests; seen[] counts them by user pointer. */
static int collect_many(hf_session *s, int n, unsigned char *seen, int code,
                        hf_hold **holds)
{
    int64_t until = now_ms() + PATIENCE_MS; /* without a result */
    int got = 0;

    while (got < n && now_ms() < until) {
        hf_result result;
        if (hf_collect(s, &result) != 1) {
            is_readable(hf_session_fd(s), 100);
            continue;
        }
        size_t i = (size_t)(uintptr_t)result.user;
        EXPECT(result.kind == HF_RESULT_LOCK && i < MANY);
        EXPECT_CODE(result.error.code, code);
        EXPECT_EQ(seen[i], 0);
        seen[i] = 1;
        EXPECT((result.hold != NULL) == (code == 0));
        if (holds != NULL)
            holds[i] = result.hold;
        got++;
        until = now_ms() + PATIENCE_MS;
    }
    return got;
}

/* Waiters on one key: one result each, no thread, no descriptor more. */
static void many_waiters(void)
{
    hf_session *a = open_store(), *b = open_store();
    hf_hold *hold = take(a, "k");
    hf_request **requests = calloc(MANY, sizeof(*requests));
    unsigned char *seen = calloc(MANY, 1);

    EXPECT(requests != NULL && seen != NULL && hf_session_fd(b) >= 0);
    hf_request *first = start(b, "k", NULL); /* whatever is made once is made */
    await_waiting(a, "k", 1);
    EXPECT_CODE(hf_cancel(first, NULL), 0);
    EXPECT_CODE(collect_one(b).error.code, HF_ECANCELED);
    int fds = count_fds(), threads = count_threads();
    for (size_t i = 0; i < MANY; i++)
        requests[i] = start(b, "k", (void *)i);
    await_waiters(b, MANY);
    /* The connection for what a server pushes, and the descriptor that wakes
     * who sleeps in it, may have come only now. */
    EXPECT(count_fds() <= fds + 2 * store_is_remote());
    /* Where calls block, the pool may have grown to its four. */
    EXPECT_THREADS(threads + 3 * store_is_database());
    expect_nothing(b);
    for (size_t i = 0; i < MANY; i++)
        EXPECT_CODE(hf_cancel(requests[i], NULL), 0);
    EXPECT_EQ(collect_many(b, MANY, seen, HF_ECANCELED, NULL), MANY);
    expect_nothing(b);
    give(hold);
    await_empty(a);
    free(requests);
    free(seen);
    hf_close(a);
    hf_close(b);
}

/* Holds and then waiters on many keys; every release wakes its one waiter. */
static void many_keys(void)
{
    enum { KEYS = 1000 };
    hf_session *a = open_store(), *b = open_store();
    hf_hold **holds = calloc(MANY, sizeof(*holds));
    unsigned char *seen = calloc(MANY, 1);
    char key[32];

    EXPECT(holds != NULL && seen != NULL);
    for (size_t i = 0; i < KEYS; i++) {
        snprintf(key, sizeof(key), "key/%zu", i);
        start(a, key, (void *)i);
    }
    EXPECT_EQ(collect_many(a, KEYS, seen, 0, holds), KEYS);
    for (size_t i = 0; i < KEYS; i++) {
        snprintf(key, sizeof(key), "key/%zu", i);
        start(b, key, (void *)i);
    }
    await_waiting(a, "key/", KEYS);
    await_waiters(b, KEYS);
    expect_nothing(b);
    for (size_t i = 0; i < KEYS; i++)
        give(holds[i]);
    memset(seen, 0, MANY);
    EXPECT_EQ(collect_many(b, KEYS, seen, 0, holds), KEYS);
    expect_nothing(b);
    EXPECT(count_entries(a, NULL).granted == KEYS);
    hf_close(b); /* releases them all */
    await_empty(a);
    free(holds);
    free(seen);
    hf_close(a);
}

/* A chain through one key: each grant is collected, then released. */
static void chain(void)
{
    enum { LINKS = 500 };
    hf_session *s = open_store();
    uint64_t last = 0;

    for (size_t i = 0; i < LINKS; i++)
        start(s, "k", (void *)i);
    for (size_t i = 0; i < LINKS; i++) {
        hf_result result = collect_one(s);
        EXPECT_CODE(result.error.code, 0);
        EXPECT_EQ((uintptr_t)result.user, i); /* in their order */
        EXPECT_RISES(hf_hold_token(result.hold), last);
        last = hf_hold_token(result.hold);
        give(result.hold);
    }
    expect_nothing(s);
    hf_close(s);
}

/* ---- Several collectors, and the end ----------------------------------- */

struct collector {
    hf_session *s;
    atomic_int *left;
    unsigned char *seen;
};

static void *collect_until_none(void *arg)
{
    struct collector *c = arg;

    while (atomic_load(c->left) > 0) {
        hf_result result;
        int n = hf_collect(c->s, &result);
        EXPECT(n >= 0);
        if (n == 0) {
            is_readable(hf_session_fd(c->s), 20);
            continue;
        }
        EXPECT_EQ(__atomic_add_fetch(&c->seen[(uintptr_t)result.user], 1,
                                     __ATOMIC_RELAXED),
                  1);
        EXPECT_CODE(result.error.code, 0);
        give(result.hold);
        atomic_fetch_sub(c->left, 1);
    }
    return NULL;
}

/* Every started request is collected once, by whichever thread. */
static void two_collectors(void)
{
    enum { N = 600 };
    hf_session *s = open_store();
    unsigned char seen[N] = {0};
    atomic_int left = N;
    struct collector c = {s, &left, seen};
    pthread_t threads[2];
    char key[16];

    for (int i = 0; i < 2; i++)
        EXPECT(pthread_create(&threads[i], NULL, collect_until_none, &c) == 0);
    for (size_t i = 0; i < N; i++) {
        snprintf(key, sizeof(key), "k%zu", i % 7);
        start(s, key, (void *)i);
    }
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    for (size_t i = 0; i < N; i++)
        EXPECT_EQ(seen[i], 1);
    expect_nothing(s);
    hf_close(s);
}

/* ---- Cancelled by one thread, collected by another ---------------------- */

static _Atomic(hf_request *) latest;

static void *cancel_latest(void *arg)
{
    atomic_bool *done = arg;

    while (!atomic_load(done)) {
        int code = hf_cancel(atomic_load(&latest), NULL);
        EXPECT(code == 0 || code == HF_EINVAL);
    }
    return NULL;
}

/* The request may go while the call that cancels it is under way. */
static void cancel_beside_collect(void)
{
    hf_session *s = open_store();
    hf_hold *hold = take(s, "k");
    atomic_bool done = false;
    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        EXPECT(pthread_create(&threads[i], NULL, cancel_latest, &done) == 0);
    for (int i = 0; i < 3000; i++) {
        atomic_store(&latest, start(s, "k", NULL));
        EXPECT_CODE(collect_one(s).error.code, HF_ECANCELED);
    }
    atomic_store(&done, true);
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    expect_nothing(s);
    give(hold);
    hf_close(s);
}

/* A change that nobody collected goes with its hold: the descriptor says so. */
static void change_of_a_released_hold(void)
{
    hf_session *s = open_store();
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = HF_FOREVER,
                           .at_most_ms = 100};
    hf_hold *hold = collect_hold(s, start_with(s, "k", opt, NULL), NULL);

    EXPECT(is_readable(hf_session_fd(s), PATIENCE_MS));
    EXPECT_CODE(hf_release(hold, NULL), HF_EEXPIRED);
    expect_nothing(s);
    hf_close(s);
}

/* hf_close with uncollected results and waiting requests: all are freed in the
 * store, and hf_collect says that the session is closed. */
static void close_with_requests(void)
{
    hf_session *a = open_store(), *b = open_store();
    hf_hold *hold = take(a, "busy");
    hf_result result;

    hf_request *granted = start(b, "free", NULL);
    hf_request *waiting = start(b, "busy", NULL);
    await_waiting(a, "busy", 1);
    EXPECT(is_readable(hf_session_fd(b), PATIENCE_MS));
    hf_close(b);
    EXPECT(hf_collect(b, &result) < 0);
    EXPECT(hf_cancel(granted, NULL) != 0 && hf_cancel(waiting, NULL) != 0);
    EXPECT_CODE(probe(a, "free"), 0);
    await_waiting(a, "busy", 0);
    give(hold);
    hf_close(a);
}

static const test_case cases[] = {
    TEST(free_lock),
    TEST(busy_lock),
    TEST(refusals),
    TEST(owners),
    TEST(wrong_arguments),
    TEST(other_operations),
    TEST_LIMIT(many_waiters, 120),
    TEST_LIMIT(many_keys, 120),
    TEST(chain),
    TEST(two_collectors),
    TEST(cancel_beside_collect),
    TEST(change_of_a_released_hold),
    TEST(close_with_requests),
};
RUN_ON_TARGET("async", cases)
