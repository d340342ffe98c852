/* redis_forget_test.c - a server that remembers the session and not the lock.
 *
 * It was restarted from a snapshot, or another one was promoted, which had
 * heard of the session already.  A renewal finds the session alive there: that
 * must not do.  Whoever answers now is another memory, and the holder is told
 * what that one has forgotten, also where a proxy hides the change; and a
 * strict namespace comes out of its quarantine for everybody. */
#include "redis_fault_test.h"

enum { LEASE_MS = 9000 };

/* It was forgotten by the server, and is told as lost while the session
 * lives. */
static void expect_forgotten(hf_session *s, hf_hold *hold)
{
    AWAIT(hf_hold_state(hold) == HF_LOST);
    EXPECT(hf_release(hold, NULL) != 0);
    EXPECT_EQ(count_entries(s), 0);
}

/* A server and its replica, which has heard of the session and is promoted
 * before the lock is taken. */
typedef struct pair {
    server *a, *b;
    hf_session *s;
    hf_hold *hold;
} pair;

static pair pair_begin(const char *hosts, const char *query)
{
    pair p = {.a = server_start(NULL), .b = server_start(NULL)};
    char url[300], host[100];

    snprintf(host, sizeof host, hosts, p.a->port, p.b->port);
    snprintf(url, sizeof url, "redis://%s/?ns=t%s", host, query);
    EXPECT_STR(server_ask(p.b, "CONFIG SET repl-diskless-sync-delay 0"), "OK");
    EXPECT_STR(server_ask(p.b, "REPLICAOF 127.0.0.1 %d", p.a->port), "OK");
    AWAIT(strcmp(server_info(p.b, "master_link_status"), "up") == 0);
    p.s = open_at(url, LEASE_MS);
    give(take(p.s, "first"));
    AWAIT(server_number(p.b, "ZCARD hf:{t}:s") == 1);
    EXPECT_STR(server_ask(p.b, "REPLICAOF NO ONE"), "OK");
    p.hold = take(p.s, "k");
    EXPECT_STR(server_ask(p.a, "REPLICAOF 127.0.0.1 %d", p.b->port), "OK");
    return p;
}

static void pair_end(pair *p)
{
    expect_forgotten(p->s, p->hold);
    hf_close(p->s);
    server_stop(p->a);
    server_stop(p->b);
}

/* Two addresses of the URL: the second was promoted by hand, and the first
 * follows it now. */
static void promoted_by_hand(void)
{
    pair p = pair_begin("127.0.0.1:%d,127.0.0.1:%d", "");

    pair_end(&p);
}

/* One address: its server follows another for a while, and leads again. */
static void lead_again(const pair *p)
{
    AWAIT(strcmp(server_info(p->a, "master_link_status"), "up") == 0);
    EXPECT_STR(server_ask(p->a, "REPLICAOF NO ONE"), "OK");
}

static void followed_for_a_while(void)
{
    pair p = pair_begin("127.0.0.1:%d", "");

    EXPECT(hf_renew(p.hold, NULL) != 0); /* it was seen not to lead */
    lead_again(&p);
    pair_end(&p);
}

/* Nobody saw it, but the marker of the strict namespace tells. */
static void followed_unseen(void)
{
    pair p = pair_begin("127.0.0.1:%d", "&strict=yes&max_lease_ms=9000");

    lead_again(&p);
    pair_end(&p);
}

/* A hold that the snapshot from which the server is restarted lacks. */
static hf_hold *take_behind_a_snapshot(world *w, hf_session *s)
{
    hf_hold *hold;

    give(take(s, "first"));
    EXPECT_STR(server_ask(w->s, "SAVE"), "OK");
    hold = take(s, "k");
    server_kill(w->s);
    server_restart(w->s, false);
    return hold;
}

static void restarted_from_a_snapshot(void)
{
    world w = world_begin(NULL, "ns=t");
    hf_session *s = open_at(w.direct, LEASE_MS);
    hf_hold *hold = take_behind_a_snapshot(&w, s);

    expect_forgotten(s, hold);
    hf_close(s);
    expect_clean(&w, 1);
}

/* The same behind a proxy that dials again and says nothing: the marker of the
 * strict namespace tells it. */
static void restarted_behind_a_proxy(void)
{
    world w = world_begin(NULL, "ns=t&strict=yes&max_lease_ms=9000");
    hf_session *s = open_at(w.through, LEASE_MS);
    hf_hold *hold;

    give(take(s, "first"));
    EXPECT_STR(server_ask(w.s, "SAVE"), "OK");
    hold = take(s, "k");
    proxy_black_hole(w.p, true);
    server_kill(w.s);
    server_restart(w.s, false);
    proxy_swap(w.p);
    proxy_black_hole(w.p, false);
    expect_forgotten(s, hold);
    hf_close(s);
    expect_clean(&w, 2);
}

/* A proxy shook hands before a restart, or answers itself: what it said about
 * the server is not so.  The quarantine ends for those behind it, too. */
static void introduced_by_another(void)
{
    static const char info[] = "redis_version:7.0.15\r\n"
                               "run_id:"
                               "0123456789012345678901234567890123456789\r\n";
    world w = world_begin(NULL, "ns=t&strict=yes&max_lease_ms=3000");
    hf_session *s, *rival = open_at(w.direct, 2500);
    hf_error err = {0};
    char text[200];

    snprintf(text, sizeof text, "$%zu\r\n%s\r\n", sizeof info - 1, info);
    proxy_set(w.p, &(proxy_rule){
                       .command = "INFO", .act = PROXY_REPLACE, .text = text});
    s = open_at(w.through, 2500);
    EXPECT_CODE(probe(s, "k", &err), HF_EQUARANTINE);
    AWAIT(({
        int first = probe(rival, "k", &err), second = probe(s, "k", &err);

        first == 0 && second == 0;
    }));
    EXPECT(proxy_struck(w.p) > 0);
    hf_close(s);
    hf_close(rival);
    expect_clean(&w, 2);
}

/* How much longer a quarantine is belongs to the namespace as well as the
 * longest lease: not only their sum. */
static void one_lag_for_all(void)
{
    world w = world_begin(NULL, "ns=t&strict=yes&max_lease_ms=3000&lag_ms=900");
    static const char *const others[] = {"max_lease_ms=2900&lag_ms=1000",
                                         "max_lease_ms=3000",
                                         "max_lease_ms=3900&lag_ms=0"};
    hf_session *s = open_at(w.direct, 2500), *other;
    hf_error err = {0};
    char url[300];
    int code;

    EXPECT_CODE(probe(s, "k", &err), HF_EQUARANTINE);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(url, sizeof url, "redis://127.0.0.1:%d/?ns=t&strict=yes&%s",
                 w.s->port, others[i]);
        code = try_open(&other, url, 2500, &err);
        if (code == 0) { /* a session attaches when it first needs to */
            code = probe(other, "k", &err);
            hf_close(other);
        }
        EXPECT_CODE(code, HF_EINVAL);
        EXPECT_HAS(err.text, "max_lease_ms=3000");
        EXPECT_HAS(err.text, "lag_ms=900");
    }
    hf_close(s);
    world_end(&w);
}

/* The only replica that was heard is silent, and one more has asked for a copy
 * and waits for it, for which INFO shows no silence at all: nothing is granted
 * or extended, and a try says why. */
static void copying_is_not_hearing(void)
{
    world w = world_begin(
        &(server_options){.more = {"--min-replicas-to-write", "1",
                                   "--min-replicas-max-lag", "60",
                                   "--repl-diskless-sync-delay", "0"}},
        "ns=t&strict=yes&max_lease_ms=2000&lag_ms=4000");
    server *heard = server_start(NULL), *copies = server_start(NULL);
    hf_session *s;
    hf_hold *hold;
    hf_error err = {0};

    server_ask(heard, "REPLICAOF 127.0.0.1 %d", w.s->port);
    AWAIT(strcmp(server_info(heard, "master_link_status"), "up") == 0);
    s = open_at(w.direct, 2000);
    hold = take(s, "k");
    server_ask(w.s, "CONFIG SET repl-diskless-sync-delay 1000");
    server_pause(heard);
    server_ask(copies, "REPLICAOF 127.0.0.1 %d", w.s->port);
    AWAIT(strstr(server_info(w.s, "slave1"), "wait_bgsave"));
    AWAIT(hf_hold_state(hold) == HF_LOST);
    EXPECT(strstr(server_info(w.s, "slave1"), "wait_bgsave"));
    AWAIT(probe(s, "other", &err) == HF_EUNAVAIL);
    EXPECT_HAS(err.text, "replicas");
    EXPECT_CODE(hf_release(hold, NULL), HF_EEXPIRED);
    hf_close(s);
    server_stop(copies);
    server_stop(heard);
    world_end(&w);
}

static const test_case cases[] = {
    TEST(promoted_by_hand),         TEST(followed_for_a_while),
    TEST(followed_unseen),          TEST(restarted_from_a_snapshot),
    TEST(restarted_behind_a_proxy), TEST(introduced_by_another),
    TEST(one_lag_for_all),          TEST(copying_is_not_hearing),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "redis_forget", cases,
                     sizeof cases / sizeof *cases);
}
