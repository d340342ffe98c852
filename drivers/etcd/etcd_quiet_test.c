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
#include <sys/socket.h>
#include <unistd.h>

#include "etcd_waiter.h"

enum { LEASE_MS = 30000, WATCHED_MS = 11500 };

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
    hf_session *s = open_at(e, NULL, LEASE_MS), *t = open_at(e, NULL, LEASE_MS),
               *u = open_at(e, NULL, LEASE_MS);
    hf_lock_options opt = waits_for(HF_EXCLUSIVE, 2 * PATIENCE_MS);
    hf_hold *first = take(s, "k", HF_EXCLUSIVE),
            *second = take(s, "r", HF_EXCLUSIVE), *third;
    waiter alone, reader;
    hf_request *request = NULL;
    received before = {0}, after = {.watch = -1};
    hf_error err;

    waiter_start(&alone, t, "k", HF_EXCLUSIVE);
    waiter_start(&reader, t, "r", HF_SHARED);
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
