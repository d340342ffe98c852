/* etcd_quiet_test.c - who waits sends nothing but renewals, and still hears.
 *
 * Asks the server what it received while a thread, a reader and a request of an
 * event loop wait, over more than two of the core's timed looks.  A renewal is
 * a keepalive and one read.  Then what a silent waiter must not miss: its turn,
 * and that somebody took its own key away. */
#include "harness/ensemble.h"
#include "harness/expect.h"
#include "harness/runner.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PATIENCE_MS = 60000, LEASE_MS = 30000, WATCHED_MS = 11500 };
#define AWAIT(condition) EXPECT(WAIT_FOR(condition, PATIENCE_MS))

static hf_session *open_at(ensemble *e)
{
    hf_open_options opt = {HF_OPEN_OPTIONS, .lease_ms = LEASE_MS};
    hf_session *s = NULL;
    hf_error err;

    EXPECT_OK(hf_open(&s, ensemble_direct_url(e, ""), &opt, &err), err);
    return s;
}

static hf_lock_options patient(hf_mode mode)
{
    return (hf_lock_options){HF_LOCK_OPTIONS, .wait_ms = 2 * PATIENCE_MS,
                             .mode = mode, .owner = HF_OWNER_HOLD};
}

typedef struct waiter {
    hf_session *s;
    const char *key;
    hf_mode mode;
    hf_hold *hold;
    atomic_bool done;
    pthread_t thread;
} waiter;

static void *run_waiter(void *arg)
{
    waiter *w = arg;
    hf_lock_options opt = patient(w->mode);
    hf_error err;

    EXPECT_OK(hf_lock(w->s, w->key, &opt, &w->hold, &err), err);
    atomic_store(&w->done, true);
    return NULL;
}

static void waiter_start(waiter *w)
{
    EXPECT_EQ(pthread_create(&w->thread, NULL, run_waiter, w), 0);
}

static void waiter_end(waiter *w)
{
    AWAIT(atomic_load(&w->done));
    pthread_join(w->thread, NULL);
    EXPECT_EQ(hf_release(w->hold, NULL), 0);
}

static int count_row(const hf_entry_info *row, void *user)
{
    (void)row;
    ++*(size_t *)user;
    return 0;
}

static size_t count_rows(hf_session *s)
{
    size_t n = 0;

    EXPECT_EQ(hf_list(s, NULL, count_row, &n, NULL), 0);
    return n;
}

/* ---- What the server received ------------------------------------------- */

typedef struct received {
    long txn, range, watch, keepalive;
} received;

static char said[1 << 20];

static void ask_metrics(ensemble *e)
{
    static const char question[] = "GET /metrics HTTP/1.0\r\n\r\n";
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port =
                                 htons((uint16_t)e->members[0].ask_port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t used = 0;
    ssize_t n;

    EXPECT(fd >= 0);
    EXPECT_EQ(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    EXPECT_EQ(send(fd, question, sizeof question - 1, MSG_NOSIGNAL),
              sizeof question - 1);
    while ((n = recv(fd, said + used, sizeof said - 1 - used, 0)) > 0)
        used += (size_t)n;
    EXPECT_EQ(n, 0);
    said[used] = '\0';
    close(fd);
}

/* Messages of one method that came by gRPC, by what was said last. */
static long count_of(const char *method)
{
    const char *at, *value;
    char name[120];

    snprintf(name, sizeof name,
             "\ngrpc_server_msg_received_total{grpc_method=\"%s\"", method);
    at = strstr(said, name);
    value = at ? strstr(at, "} ") : NULL;
    EXPECT(value != NULL);
    return (long)strtod(value + 2, NULL);
}

static received ask_received(ensemble *e)
{
    ask_metrics(e);
    return (received){.txn = count_of("Txn"),
                      .range = count_of("Range"),
                      .watch = count_of("Watch"),
                      .keepalive = count_of("LeaseKeepAlive")};
}

/* The first look follows the creation of the watch; then it is quiet. */
static received ask_settled(ensemble *e)
{
    received last = ask_received(e), now;

    for (int same = 0; same < 5;) {
        test_sleep_ms(100);
        now = ask_received(e);
        same = memcmp(&now, &last, sizeof now) == 0 ? same + 1 : 0;
        last = now;
    }
    return last;
}

static hf_hold *collect_lock(hf_session *s)
{
    struct pollfd ready = {.fd = hf_session_fd(s), .events = POLLIN};
    hf_result result = {0};

    EXPECT(ready.fd >= 0);
    EXPECT_EQ(poll(&ready, 1, PATIENCE_MS), 1);
    EXPECT_EQ(hf_collect(s, &result), 1);
    EXPECT_EQ(result.kind, HF_RESULT_LOCK);
    EXPECT_EQ(result.error.code, 0);
    return result.hold;
}

static void waiting_is_silent(void)
{
    ensemble *e = ensemble_start(ON_ETCD, NULL);
    hf_session *s = open_at(e), *t = open_at(e), *u = open_at(e);
    waiter alone = {.s = t, .key = "k", .mode = HF_EXCLUSIVE},
           reader = {.s = t, .key = "r", .mode = HF_SHARED};
    hf_lock_options opt = patient(HF_EXCLUSIVE);
    hf_hold *first = NULL, *second = NULL, *third;
    hf_request *request = NULL;
    received before = {0}, after = {.watch = -1};
    hf_error err;

    EXPECT_OK(hf_lock(s, "k", &opt, &first, &err), err);
    EXPECT_OK(hf_lock(s, "r", &opt, &second, &err), err);
    waiter_start(&alone);
    waiter_start(&reader);
    AWAIT(count_rows(s) == 4);
    EXPECT_OK(hf_lock_start(u, "k", &opt, NULL, &request, &err), err);
    AWAIT(count_rows(s) == 5);
    /* A connection that broke on a slow machine is watched once more. */
    for (int i = 0; i < 4; i++) {
        before = ask_settled(e);
        test_sleep_ms(WATCHED_MS);
        after = ask_received(e);
        if (after.watch == before.watch)
            break;
    }
    EXPECT_EQ(after.watch, before.watch);
    EXPECT_EQ(after.txn, before.txn);
    /* The news of a renewal that has just begun is still to come. */
    EXPECT(after.range - before.range <= after.keepalive - before.keepalive);
    EXPECT(!atomic_load(&alone.done) && !atomic_load(&reader.done));
    EXPECT_EQ(hf_release(first, NULL), 0);
    EXPECT_EQ(hf_release(second, NULL), 0);
    waiter_end(&alone);
    waiter_end(&reader);
    third = collect_lock(u);
    EXPECT_EQ(hf_release(third, NULL), 0);
    hf_close(s);
    hf_close(t);
    hf_close(u);
    ensemble_stop(e);
}

static const test_case cases[] = {
    TEST_LIMIT(waiting_is_silent, 200),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "etcd_quiet", cases,
                     sizeof cases / sizeof *cases);
}
