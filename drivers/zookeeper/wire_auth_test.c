/* wire_auth_test.c - the wire against a real server: who we are, and over what.
 *
 * Digest, TLS, four-letter words, and a forked child, on the one server that
 * the tests of wire_test.c use, too (harness/with-zookeeper tls). */
#include "harness/expect.h"
#include "harness/relay.h"
#include "harness/runner.h"

#include <sys/wait.h>

#include "wire_world.h"

static void open_with_auth(world *w, const char *auth)
{
    hf__address address = {"127.0.0.1",
                           (uint16_t)port_of("HOLDFAST_TEST_ZOOKEEPER"), NULL};
    zk_settings settings = {.addresses = &address,
                            .address_count = 1,
                            .auth = auth,
                            .dial_time = HF_MS(5000)};
    hf_error err = {0};

    memset(w, 0, sizeof *w);
    EXPECT_OK(open_wire(w, &settings, &err), err);
    start_keeper(w);
}

static void digest(void)
{
    char path[100];
    world w, other;
    ask a;

    open_with_auth(&w, "bob:s3cret");
    open_with_auth(&other, "eve:guess");
    begin(&w, 30000);
    begin(&other, 30000);
    own_path(path, sizeof path, "");
    a = make_ask(&w, 0, true, LONG_MS);
    add(&a, ZK_CREATE, path)->closed_acl = true;
    add(&a, ZK_GET_ACL, path);
    add(&a, ZK_WHO, "");
    EXPECT_EQ(drive(&a), HF_APPLIED);
    EXPECT_EQ(a.replies[0].error, 0);
    EXPECT_EQ(a.replies[1].world, 0);
    EXPECT_HAS(a.names, "digest bob ");
    EXPECT_EQ(ask_one(&other, 0, ZK_GET_DATA, path), ZK_NO_AUTH);
    EXPECT_EQ(ask_one(&w, 0, ZK_GET_DATA, path), 0);
    EXPECT_EQ(ask_one(&w, 0, ZK_DELETE, path), 0);
    close_world(&w);
    close_world(&other);
    /* Nobody in particular cannot shut others out. */
    open_world(&w);
    begin(&w, 30000);
    a = make_ask(&w, 0, true, LONG_MS);
    add(&a, ZK_CREATE, path)->closed_acl = true;
    EXPECT_EQ(drive(&a), HF_APPLIED);
    EXPECT_EQ(a.replies[0].error, ZK_INVALID_ACL);
    close_world(&w);
}

static void tls(void)
{
    hf__address address = {"localhost",
                           (uint16_t)port_of("HOLDFAST_TEST_ZOOKEEPERS"), NULL};
    hf__tls_options options = {.ca_file = getenv("HOLDFAST_TEST_CA")};
    zk_settings settings = {
        .addresses = &address, .address_count = 1, .dial_time = HF_MS(10000)};
    hf_error err = {0};
    char text[2000];
    world w = {0};
    int64_t session;

    EXPECT_OK(hf__tls_new(&settings.tls, &options, &err), err);
    EXPECT_OK(open_wire(&w, &settings, &err), err);
    start_keeper(&w);
    session = begin(&w, 10000);
    EXPECT_EQ(ask_one(&w, session, ZK_SYNC, "/"), 0);
    EXPECT_OK(zk_wire_word(w.wire, 0, "srvr", text, sizeof text,
                           hfd_now() + HF_MS(LONG_MS), &err),
              err);
    EXPECT_HAS(text, "Mode: standalone");
    end(&w, session);
    close_world(&w);
    hf__tls_free(settings.tls);
    /* By the system's authorities it is a stranger. */
    options.ca_file = NULL;
    EXPECT_OK(hf__tls_new(&settings.tls, &options, &err), err);
    EXPECT_CODE(open_wire(&w, &settings, &err), HF_EAUTH);
    hf__tls_free(settings.tls);
}

/* What is said where no member is reached; "" if one is. */
static const char *reason_of(world *w, int64_t session)
{
    static char text[sizeof((hf_error *)0)->text];
    ask a = make_ask(w, session, true, LONG_MS / 10);

    add(&a, ZK_SYNC, "/");
    snprintf(text, sizeof text, "%s",
             drive(&a) == HF_APPLIED ? "" : a.error.text);
    return text;
}

/* One member cannot be reached and another one has a certificate that is not
 * believed (it has no name 127.1): that is no word about the session, which
 * goes on when there is a member again. */
static void a_certificate_ends_no_session(void)
{
    int port = port_of("HOLDFAST_TEST_ZOOKEEPERS");
    hf__address addresses[] = {{"localhost", 0, NULL},
                               {"127.1", (uint16_t)port, NULL}};
    hf__tls_options options = {.ca_file = getenv("HOLDFAST_TEST_CA")};
    zk_settings settings = {
        .addresses = addresses, .address_count = 2, .dial_time = HF_MS(10000)};
    hf_error err = {0};
    world w = {0};
    int64_t session;
    relay r;

    relay_start(&r, port);
    addresses[0].port = (uint16_t)r.port;
    EXPECT_OK(hf__tls_new(&settings.tls, &options, &err), err);
    EXPECT_OK(open_wire(&w, &settings, &err), err);
    start_keeper(&w);
    session = begin(&w, 40000);
    atomic_store(&r.cut, true);
    atomic_store(&r.mute, true);
    EXPECT(WAIT_FOR(strstr(reason_of(&w, session), "'127.1' refused") ||
                        atomic_load(&w.overs) > 0,
                    LONG_MS));
    EXPECT_EQ(atomic_load(&w.overs), 0);
    atomic_store(&r.mute, false);
    EXPECT(WAIT_FOR(!*reason_of(&w, session), LONG_MS));
    EXPECT_EQ(atomic_load(&w.last_again), session);
    EXPECT_EQ(atomic_load(&w.overs), 0);
    end(&w, session);
    close_world(&w);
    hf__tls_free(settings.tls);
    relay_stop(&r);
}

static void words(void)
{
    char text[4000], small[10];
    hf_error err = {0};
    world w;

    open_world(&w);
    EXPECT_OK(zk_wire_word(w.wire, 0, "conf", text, sizeof text,
                           hfd_now() + HF_MS(LONG_MS), &err),
              err);
    EXPECT_HAS(text, "tickTime=");
    EXPECT_OK(zk_wire_word(w.wire, 0, "srvr", small, sizeof small,
                           hfd_now() + HF_MS(LONG_MS), &err),
              err);
    EXPECT_STR(small, "Zookeeper");
    close_world(&w);
}

/* A child leaves it alone: the parent's session goes on. */
static void forked(void)
{
    world w;
    int64_t session;
    pid_t child;
    int status;

    open_world(&w);
    session = begin(&w, 30000);
    child = fork();
    if (child == 0) {
        zk_wire_abandon(w.wire);
        _exit(0);
    }
    EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    EXPECT_EQ(ask_one(&w, session, ZK_SYNC, "/"), 0);
    EXPECT_EQ(atomic_load(&w.doubts), 0);
    close_world(&w);
}

static const test_case cases[] = {
    TEST(digest), TEST(tls),    TEST_LIMIT(a_certificate_ends_no_session, 120),
    TEST(words),  TEST(forked),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "wire_auth", cases,
                     sizeof cases / sizeof *cases);
}
