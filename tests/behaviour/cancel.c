/* cancel.c - ending a wait.
 *
 * Checks hf_cancel, hf_cancel_owner and cancel_fd on every store.  The heart
 * is the race: a cancel and a grant at the same instant give exactly one of
 * the hold and HF_ECANCELED, and whatever was given, the store has no entry
 * afterwards that nobody knows (a ghost would block the key for a lease). */
#include "support.h"

#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

static const hf_lock_options plain = {HF_LOCK_OPTIONS};

/* The one result of a request, waited for at the session's descriptor. */
static hf_result collect_one(hf_session *s)
{
    hf_result result;

    EXPECT(is_readable(hf_session_fd(s), PATIENCE_MS));
    EXPECT_EQ(hf_collect(s, &result), 1);
    return result;
}

static hf_request *start_lock(hf_session *s, const char *key, void *user)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = HF_FOREVER};
    hf_request *request = NULL;
    hf_error err;

    EXPECT_OK(hf_lock_start(s, key, &opt, user, &request, &err), err);
    EXPECT(request != NULL);
    return request;
}

/* hf_cancel: collected once, with HF_ECANCELED, and gone from the queue. */
static void cancel_request(void)
{
    hf_session *a = open_store(), *b = open_store();
    hf_hold *hold = take(a, "k");
    int tag;
    hf_request *request = start_lock(b, "k", &tag);

    await_waiting(a, "k", 1);
    EXPECT_CODE(hf_cancel(request, NULL), 0);
    hf_result result = collect_one(b);
    EXPECT(result.kind == HF_RESULT_LOCK && result.request == request);
    EXPECT(result.user == &tag && result.hold == NULL);
    EXPECT_CODE(result.error.code, HF_ECANCELED);
    EXPECT_EQ(hf_collect(b, &result), 0);
    await_waiting(a, "k", 0);
    /* Collected is spent. */
    int code = hf_cancel(request, NULL);
    EXPECT(code == HF_EINVAL || code == HF_ENOTHELD);
    give(hold);
    hf_close(a);
    hf_close(b);
}

/* A grant that came first is collected with its hold, cancel or not. */
static void cancel_after_grant(void)
{
    hf_session *s = open_store();
    hf_request *request = start_lock(s, "k", NULL);

    EXPECT(is_readable(hf_session_fd(s), PATIENCE_MS));
    hf_cancel(request, NULL);
    hf_result result = collect_one(s);
    EXPECT_CODE(result.error.code, 0);
    EXPECT(result.hold != NULL);
    EXPECT_CODE(hf_hold_check(result.hold, NULL), 0);
    give(result.hold);
    EXPECT_EQ(hf_collect(s, &result), 0);
    hf_close(s);
}

/* hf_cancel_owner ends the waits of a thread, named by its hf_owner_self. */
static void cancel_thread(void)
{
    hf_session *a = open_store(), *b = open_store();
    hf_session *both[] = {a, b};

    for (int i = 0; i < 2; i++) { /* waiting here, and waiting in the store */
        hf_hold *hold = take(a, "k");
        waiter w;

        waiter_start(&w, both[i], "k", plain);
        await_waiters(both[i], 1);
        EXPECT_EQ(hf_cancel_owner(both[i], hf_owner_self()), 0);
        EXPECT(!waiter_answered(&w));
        EXPECT_EQ(hf_cancel_owner(both[i], atomic_load(&w.self)), 1);
        EXPECT_CODE(waiter_finish(&w), HF_ECANCELED);
        EXPECT(w.error.code == HF_ECANCELED);
        EXPECT_EQ(hf_cancel_owner(both[i], atomic_load(&w.self)), 0);
        EXPECT_CODE(hf_hold_check(hold, NULL), 0);
        await_waiting(a, "k", 0);
        give(hold);
    }
    hf_close(a);
    hf_close(b);
}

/* All waits of one number, on several keys, and of no other number. */
static void cancel_number(void)
{
    hf_session *a = open_store(), *b = open_store();
    hf_hold *h1 = take(a, "k1"), *h2 = take(a, "k2");
    hf_lock_options seven = {HF_LOCK_OPTIONS, .owner = 7};
    hf_lock_options eight = {HF_LOCK_OPTIONS, .owner = 8};
    waiter w[3];

    waiter_start(&w[0], b, "k1", seven);
    waiter_start(&w[1], b, "k2", seven);
    waiter_start(&w[2], b, "k1", eight);
    await_waiters(b, 3);
    EXPECT_EQ(hf_cancel_owner(b, 7), 2);
    EXPECT_CODE(waiter_finish(&w[0]), HF_ECANCELED);
    EXPECT_CODE(waiter_finish(&w[1]), HF_ECANCELED);
    EXPECT(!waiter_answered(&w[2]));
    give(h1);
    EXPECT_CODE(waiter_finish(&w[2]), 0);
    give(h2);
    await_empty(a);
    hf_close(a);
    hf_close(b);
}

/* The first in a local queue goes; the next takes its place. */
static void cancel_local_head(void)
{
    hf_session *a = open_store(), *b = open_store();
    hf_hold *hold = take(a, "k");
    waiter head, next;

    waiter_start(&head, b, "k", plain);
    await_waiting(a, "k", 1);
    waiter_start(&next, b, "k", plain);
    await_waiters(b, 2);
    EXPECT_EQ(hf_cancel_owner(b, atomic_load(&head.self)), 1);
    EXPECT_CODE(waiter_finish(&head), HF_ECANCELED);
    EXPECT(!waiter_answered(&next));
    give(hold);
    EXPECT_CODE(waiter_finish(&next), 0);
    await_empty(a);
    hf_close(a);
    hf_close(b);
}

/* cancel_fd: readable ends the wait; nobody reads it for you. */
static void cancel_by_fd(void)
{
    hf_session *a = open_store(), *b = open_store();
    hf_session *both[] = {a, b};

    for (int i = 0; i < 2; i++) {
        int fd = eventfd(0, EFD_CLOEXEC);
        hf_lock_options opt = {HF_LOCK_OPTIONS, .cancel_fd = fd};
        hf_hold *hold = take(a, "k");
        waiter w;

        waiter_start(&w, both[i], "k", opt);
        await_waiters(both[i], 1);
        sleep_ms(20);
        EXPECT(!waiter_answered(&w));
        EXPECT(eventfd_write(fd, 1) == 0);
        EXPECT_CODE(waiter_finish(&w), HF_ECANCELED);
        EXPECT(is_readable(fd, 0));
        /* Readable before the call is as good. */
        waiter_start(&w, both[i], "k", opt);
        EXPECT_CODE(waiter_finish(&w), HF_ECANCELED);
        await_waiting(a, "k", 0);
        give(hold);
        close(fd);
    }
    hf_close(a);
    hf_close(b);
}

/* A quiet cancel_fd changes nothing. */
static void quiet_fd(void)
{
    hf_session *a = open_store(), *b = open_store();
    int fd = eventfd(0, EFD_CLOEXEC);
    hf_lock_options opt = {HF_LOCK_OPTIONS, .cancel_fd = fd};
    hf_hold *hold = take_with(a, "k", opt);
    waiter w;

    waiter_start(&w, b, "k", opt);
    await_waiting(a, "k", 1);
    give(hold);
    EXPECT_CODE(waiter_finish(&w), 0);
    opt.wait_ms = 30;
    hold = take(a, "k");
    hf_hold *other = NULL;
    EXPECT_CODE(hf_lock(b, "k", &opt, &other, NULL), HF_ETIMEDOUT);
    give(hold);
    close(fd);
    hf_close(a);
    hf_close(b);
}

/* Many waits on one descriptor: a whole request is called off. */
static void fd_ends_many(void)
{
    hf_session *a = open_store(), *b = open_store();
    int fd = eventfd(0, EFD_CLOEXEC);
    hf_lock_options opt = {HF_LOCK_OPTIONS, .cancel_fd = fd};
    hf_hold *hold = take(a, "k");
    waiter w[4];

    for (int i = 0; i < 4; i++)
        waiter_start(&w[i], i < 2 ? a : b, "k", opt);
    await_waiters(a, 2);
    await_waiters(b, 2);
    EXPECT(eventfd_write(fd, 1) == 0);
    for (int i = 0; i < 4; i++)
        EXPECT_CODE(waiter_finish(&w[i]), HF_ECANCELED);
    give(hold);
    await_empty(a);
    close(fd);
    hf_close(a);
    hf_close(b);
}

/* Too few descriptors is not the caller's mistake; a wrong one is. */
static void no_descriptor_left(void)
{
    hf_session *a = open_store();
    int fd = eventfd(0, EFD_CLOEXEC), next = dup(fd);
    hf_lock_options opt = {HF_LOCK_OPTIONS, .cancel_fd = fd};
    hf_hold *hold = take_with(a, "k", opt);
    struct rlimit was, none;

    give(hold);
    EXPECT(fd > 0 && next > fd && getrlimit(RLIMIT_NOFILE, &was) == 0);
    close(next);
    none = was;
    none.rlim_cur = (rlim_t)next; /* the lowest that is free */
    EXPECT(setrlimit(RLIMIT_NOFILE, &none) == 0);
    EXPECT_CODE(hf_lock(a, "k", &opt, &hold, NULL), HF_ENOMEM);
    EXPECT(setrlimit(RLIMIT_NOFILE, &was) == 0);
    close(fd);
    EXPECT_CODE(hf_lock(a, "k", &opt, &hold, NULL), HF_EINVAL);
    opt.cancel_fd = 0;
    give(take_with(a, "k", opt));
    hf_close(a);
}

/* ---- The race ---------------------------------------------------------- */

static pthread_barrier_t barrier;

static void *cancel_now(void *arg)
{
    waiter *w = arg;

    pthread_barrier_wait(&barrier);
    w->place = hf_cancel_owner(w->s, atomic_load(&w->self));
    return NULL;
}

/* A wait that was granted at the same instant returns its hold: one of the
 * two, never both, never neither, and the count says which. */
static void race_with_grant(void)
{
    hf_session *a = open_store(), *b = open_store();

    EXPECT(pthread_barrier_init(&barrier, NULL, 2) == 0);
    for (int round = 0; round < 300; round++) {
        hf_session *waits = round % 2 == 0 ? b : a;
        hf_hold *hold = take(a, "k");
        waiter w;
        pthread_t canceller;

        waiter_start(&w, waits, "k", plain);
        await_waiters(waits, 1);
        EXPECT(pthread_create(&canceller, NULL, cancel_now, &w) == 0);
        pthread_barrier_wait(&barrier);
        for (volatile int spin = 0; spin < (round % 50) * 200; spin++)
            ;
        give(hold);
        EXPECT(pthread_join(canceller, NULL) == 0);
        int code = waiter_code(&w);
        EXPECT(code == 0 || code == HF_ECANCELED);
        EXPECT_EQ(w.place, code == HF_ECANCELED ? 1 : 0);
        if (code == 0)
            EXPECT_CODE(probe(waits == a ? b : a, "k"), HF_EBUSY);
        waiter_finish(&w);
        await_empty(a);
    }
    hf_close(a);
    hf_close(b);
}

/* The same in the form for event loops. */
static void race_with_grant_async(void)
{
    hf_session *a = open_store(), *b = open_store();

    for (int round = 0; round < 300; round++) {
        hf_hold *hold = take(a, "k");
        hf_request *request = start_lock(b, "k", NULL);
        waiter w = {.hold = hold};

        if (round % 3 != 0)
            await_waiting(a, "k", 1);
        EXPECT_CODE(hf_release(w.hold, NULL), 0);
        hf_cancel(request, NULL);
        hf_result result = collect_one(b);
        EXPECT(result.request == request);
        EXPECT((result.hold != NULL) == (result.error.code == 0));
        if (result.hold != NULL)
            give(result.hold);
        else
            EXPECT_CODE(result.error.code, HF_ECANCELED);
        EXPECT_EQ(hf_collect(b, &result), 0);
        await_empty(a);
    }
    hf_close(a);
    hf_close(b);
}

/* A timeout races with the grant in the same way. */
static void race_with_timeout(void)
{
    hf_session *a = open_store(), *b = open_store();

    for (int round = 0; round < 60; round++) {
        hf_hold *hold = take(a, "k");
        waiter w;

        waiter_start(&w, b, "k",
                     (hf_lock_options){HF_LOCK_OPTIONS, .wait_ms = 5});
        sleep_ms(3 + round % 4);
        give(hold);
        int code = waiter_finish(&w);
        EXPECT(code == 0 || code == HF_ETIMEDOUT);
        await_empty(a);
        EXPECT_CODE(probe(a, "k"), 0);
    }
    hf_close(a);
    hf_close(b);
}

/* ---- pthread_cancel ---------------------------------------------------- */

struct victim {
    hf_session *s;
    int code;
    atomic_bool returned;
};

/* Cancelled before it begins: at the first call that can be. */
static void *lock_cancelled(void *arg)
{
    struct victim *v = arg;
    hf_hold *hold = NULL;

    pthread_cancel(pthread_self());
    v->code = hf_lock(v->s, "k", NULL, &hold, NULL);
    atomic_store(&v->returned, true);
    pthread_testcancel();
    return NULL;
}

static void *close_cancelled(void *arg)
{
    struct victim *v = arg;

    pthread_cancel(pthread_self());
    hf_close(v->s);
    atomic_store(&v->returned, true);
    pthread_testcancel();
    return NULL;
}

static void cancel_inside(void *(*work)(void *), struct victim *v)
{
    pthread_t thread;
    void *end = NULL;

    EXPECT(pthread_create(&thread, NULL, work, v) == 0);
    EXPECT(pthread_join(thread, &end) == 0);
    EXPECT(atomic_load(&v->returned));
    EXPECT(end == PTHREAD_CANCELED);
}

/* A thread that is cancelled comes out of the call first: it leaves no mutex
 * behind, and what it held is given back when it ends. */
static void cancelled_thread(void)
{
    struct victim v = {.s = open_store()}, w = {.s = v.s};
    hf_stats stats;

    cancel_inside(lock_cancelled, &v);
    EXPECT_CODE(v.code, 0);
    EXPECT_CODE(hf_session_stats(v.s, &stats), 0);
    give(take(v.s, "k"));
    cancel_inside(close_cancelled, &w);
}

static const test_case cases[] = {
    TEST(cancel_request),
    TEST(cancel_after_grant),
    TEST(cancel_thread),
    TEST(cancel_number),
    TEST(cancel_local_head),
    TEST(cancel_by_fd),
    TEST(quiet_fd),
    TEST(fd_ends_many),
    TEST(no_descriptor_left),
    TEST(race_with_grant),
    TEST(race_with_grant_async),
    TEST(race_with_timeout),
    TEST(cancelled_thread),
};
RUN_ON_TARGET("cancel", cases)
