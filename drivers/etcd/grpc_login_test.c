/* grpc_login_test.c - who is there: users, tokens, certificates.
 *
 * Logins that are refused, tokens that etcd forgets while the connection stands
 * and calls are under way, passwords that change for good; TLS with client
 * certificates, right ones, wrong ones and none. */
#include "harness/expect.h"
#include "harness/runner.h"

#include "harness/ensemble.h"
#include "harness/server.h"

#include "grpc_player.h"

/* ---- Logins ---- */

/* A new password, even the same one, ends every token of the user; connections
 * stay. */
static void forget_tokens(const world *w)
{
    way_in way = {.user = "root", .password = "s3cret", .dial_ms = 20000};
    world other = {.cluster = w->cluster};
    hf_error err = {0};
    ask a = {0};

    EXPECT_OK(open_cluster(&other, way, &err), err);
    pb_bytes(&a.request, 1, "keeper", 6);
    pb_bytes(&a.request, 2, "s3cret", 6);
    drive(set_ask(&a, other.channel, "/etcdserverpb.Auth/UserChangePassword",
                  true, 20000));
    if (!was_done(&a))
        FAIL_TEST("a new password: %s", a.error.text);
    grpc_close(other.channel);
}

static void forgotten_token(void)
{
    ensemble_options options = {.auth = true};
    way_in way = {.user = "keeper", .password = "s3cret", .dial_ms = 20000};
    world w = {0};
    ask a, many[20];
    hf_error err = {0};

    w.cluster = ensemble_start(ON_ETCD, &options);
    EXPECT_CODE(
        open_cluster(
            &w,
            (way_in){.user = "keeper", .password = "wrong", .dial_ms = 20000},
            &err),
        HF_EAUTH);
    EXPECT_HAS(err.text, "password");
    EXPECT_OK(open_cluster(&w, (way_in){0}, &err), err);
    drive(set_put(&a, w.channel, "a", true, 20000));
    EXPECT_EQ(a.error.code, HF_EAUTH);
    EXPECT_HAS(a.error.text, "user");
    grpc_close(w.channel);
    EXPECT_OK(open_cluster(&w, way, &err), err);
    start_keeper(&w);
    EXPECT_EQ(put(w.channel, "a", 20000), HF_APPLIED);
    forget_tokens(&w);
    EXPECT_EQ(put(w.channel, "b", 20000), HF_APPLIED);
    forget_tokens(&w);
    for (int i = 0; i < 20; i++) {
        set_put(&many[i], w.channel, "c", false, 20000);
        grpc_start(w.channel, &many[i].call);
    }
    EXPECT_EQ(put(w.channel, "d", 20000), HF_APPLIED);
    for (int i = 0; i < 20; i++) {
        EXPECT(WAIT_FOR(atomic_load(&many[i].landed) == 1, 20000));
        EXPECT(was_done(&many[i]));
    }
    EXPECT_EQ(atomic_load(&w.doubts), 0);
    EXPECT_EQ(count_keys(w.channel, "a", "z"), 4);
    stop_keeper(&w);
    close_world(&w);
}

/* The password changed for good: those who wait for a token hear it. */
static void no_new_token(void)
{
    ensemble_options options = {.auth = true};
    way_in way = {.user = "keeper", .password = "s3cret", .dial_ms = 20000};
    way_in root = {.user = "root", .password = "s3cret", .dial_ms = 20000};
    world w = {0}, other = {0};
    hf_error err = {0};
    ask a = {0};

    w.cluster = other.cluster = ensemble_start(ON_ETCD, &options);
    EXPECT_OK(open_cluster(&w, way, &err), err);
    EXPECT_OK(open_cluster(&other, root, &err), err);
    pb_bytes(&a.request, 1, "keeper", 6);
    pb_bytes(&a.request, 2, "another", 7);
    drive(set_ask(&a, other.channel, "/etcdserverpb.Auth/UserChangePassword",
                  true, 20000));
    EXPECT(was_done(&a));
    drive(set_put(&a, w.channel, "a", true, 20000));
    EXPECT_EQ(a.outcome, HF_NOT_APPLIED);
    EXPECT_EQ(a.error.code, HF_EAUTH);
    EXPECT_HAS(a.error.text, "password");
    grpc_close(other.channel);
    close_world(&w);
}

static void login_where_none_is_wanted(void)
{
    way_in way = {.user = "keeper", .password = "s3cret", .dial_ms = 20000};
    world w;
    hf_error err = {0};

    open_world(&w, 1);
    grpc_close(w.channel);
    EXPECT_CODE(open_cluster(&w, way, &err), HF_EAUTH);
    EXPECT_HAS(err.text, "take it out");
    w.channel = NULL;
    close_world(&w);
}

/* ---- TLS ---- */

static hf__tls *make_tls(const char *ca, bool with_client)
{
    static char paths[3][512];
    hf__tls_options options = {.ca_file = paths[0], .alpn = "h2"};
    hf_error err = {0};
    hf__tls *tls = NULL;

    snprintf(paths[0], sizeof paths[0], "%s/%s.pem", test_certificates(), ca);
    snprintf(paths[1], sizeof paths[1], "%s/client.pem", test_certificates());
    snprintf(paths[2], sizeof paths[2], "%s/client.key", test_certificates());
    if (with_client) {
        options.cert_file = paths[1];
        options.key_file = paths[2];
    }
    EXPECT_OK(hf__tls_new(&tls, &options, &err), err);
    return tls;
}

static void client_certificates(void)
{
    ensemble_options options = {.tls = true};
    way_in way = {.host = "localhost", .dial_ms = 20000};
    world w = {0};
    hf_error err = {0};

    w.cluster = ensemble_start(ON_ETCD, &options);
    w.tls = make_tls("other-ca", true);
    EXPECT_CODE(open_cluster(&w, way, &err), HF_EAUTH);
    hf__tls_free(w.tls);
    /* With TLS 1.3 the refusal comes behind the handshake. */
    w.tls = make_tls("ca", false);
    EXPECT(open_cluster(&w, way, &err) != 0);
    EXPECT(err.code == HF_EAUTH || err.code == HF_EUNAVAIL);
    hf__tls_free(w.tls);
    w.tls = NULL;
    EXPECT(open_cluster(&w, way, &err) != 0);
    w.tls = make_tls("ca", true);
    EXPECT_OK(open_cluster(&w, way, &err), err);
    for (int i = 0; i < 100; i++)
        EXPECT_EQ(put(w.channel, "a", 20000), HF_APPLIED);
    ensemble_kill(w.cluster, 0);
    ensemble_restart(w.cluster, 0);
    EXPECT(WAIT_FOR(put(w.channel, "b", 5000) == HF_APPLIED, 30000));
    close_world(&w);
}

/* ---- A login that takes its time ---- */

/* Each connection begins with one; from the second on it is slow. */
static bool answer_slowly(player *p, uint32_t stream)
{
    hf__buf out = {.data = NULL};

    if (p->seen > 1) {
        say_well(p, stream);
        return true;
    }
    if (atomic_load(&p->connections) > 1)
        test_sleep_ms(1500);
    pb_bytes(&out, 2, "token", 5);
    say_headers(p, stream, "200", "application/grpc");
    say_message(p, stream, &out);
    say_trailers(p, stream, "0", NULL);
    hf__buf_done(&out);
    return true;
}

/* A call whose time is over before the login is answered was not sent; the
 * login goes on, and whoever comes next finds it. */
static void login_outlives_a_call(void)
{
    way_in way = {.user = "keeper", .password = "s3cret", .dial_ms = 30000};
    world w = {0};
    hf_error err = {0};
    player p;
    ask a;

    start_player(&p, answer_slowly, NULL);
    EXPECT_OK(open_ports(&w, &p.port, 1, way, &err), err);
    start_keeper(&w);
    EXPECT_EQ(put(w.channel, "a", 20000), HF_APPLIED);
    grpc_move(w.channel, "another one is wanted");
    drive(set_put(&a, w.channel, "b", true, 200));
    EXPECT_EQ(a.outcome, HF_NOT_APPLIED);
    EXPECT_EQ(put(w.channel, "c", 30000), HF_APPLIED);
    EXPECT_EQ(atomic_load(&p.connections), 2);
    stop_keeper(&w);
    grpc_close(w.channel);
    stop_player(&p);
}

static const test_case cases[] = {
    TEST_LIMIT(login_outlives_a_call, 120),
    TEST_LIMIT(forgotten_token, 120),
    TEST(no_new_token),
    TEST(login_where_none_is_wanted),
    TEST(client_certificates),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "grpc_login", cases,
                     sizeof cases / sizeof *cases);
}
