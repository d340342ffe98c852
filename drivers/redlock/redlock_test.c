/* redlock_test.c - locks on a majority of five real servers.
 *
 * What lies in the servers is what the published algorithm puts there, so that
 * a peer, played by plain commands, and we exclude each other; a vote without a
 * majority leaves nothing behind; tokens rise although the servers count
 * differently, and whichever of them are lost in between. */
#include "redlock_test.h"

static void expect_on_all(five *f, const char *owner)
{
    for (int i = 0; i < FIVE; i++) {
        long long left = server_number(f->s[i], "PTTL k");

        EXPECT_STR(server_ask(f->s[i], "GET k"), owner);
        EXPECT(left > 0 && left <= 30000);
    }
}

static void layout_is_the_published_one(void)
{
    five f = five_begin("");
    hf_session *s = open_at(f.url, 30000);
    hf_hold *hold = take(s, "k");
    char owner[64];

    snprintf(owner, sizeof owner, "%s", server_ask(f.s[0], "GET k"));
    EXPECT_EQ(strlen(owner), 32);
    EXPECT_EQ(strspn(owner, "0123456789abcdef"), 32);
    expect_on_all(&f, owner);
    EXPECT_CODE(hf_renew(hold, NULL), 0);
    expect_on_all(&f, owner);
    give(hold);
    AWAIT(five_have(&f, "k", 0, FIVE) == 0);
    /* The number beside it ends, too. */
    for (int i = 0; i < FIVE; i++)
        EXPECT(server_number(f.s[i], "PTTL holdfast:token:k") > 0);
    hf_close(s);
    five_end(&f);
}

/* A peer on a majority keeps us out, and our votes on the rest are taken back;
 * one on a minority does not. */
static void a_peer_excludes_us(void)
{
    five f = five_begin("");
    hf_session *s = open_at(f.url, 30000);
    hf_error err;

    for (int i = 0; i < MAJORITY; i++)
        EXPECT_STR(server_ask(f.s[i], "SET k peer NX PX 60000"), "OK");
    EXPECT_CODE(probe(s, "k", &err), HF_EBUSY);
    AWAIT(five_have(&f, "k", MAJORITY, FIVE) == 0);
    EXPECT_EQ(count_entries(s), 1);
    EXPECT_EQ(server_number(f.s[0], "DEL k"), 1);
    hf_hold *hold = take(s, "k");
    EXPECT_STR(server_ask(f.s[1], "GET k"), "peer");
    EXPECT_EQ(count_entries(s), 1);
    give(hold);
    AWAIT(five_have(&f, "k", 0, FIVE) == 2);
    EXPECT_STR(server_ask(f.s[2], "GET k"), "peer");
    hf_close(s);
    five_end(&f);
}

/* Neither touches a record that is no lock. */
static void another_kind_is_refused(void)
{
    five f = five_begin("");
    hf_session *s = open_at(f.url, 30000);
    hf_error err;

    for (int i = 0; i < MAJORITY; i++)
        EXPECT_EQ(server_number(f.s[i], "HSET k a b"), 1);
    EXPECT_CODE(probe(s, "k", &err), HF_EKIND);
    AWAIT(five_have(&f, "k", MAJORITY, FIVE) == 0);
    EXPECT_EQ(five_have(&f, "k", 0, FIVE), MAJORITY);
    hf_close(s);
    five_end(&f);
}

/* There is no order, but who waits is told (wake_test.c). */
static void a_waiter_gets_it(void)
{
    five f = five_begin("");
    hf_session *a = open_at(f.url, 30000), *b = open_at(f.url, 30000);
    hf_hold *hold = take(a, "k");
    uint64_t token = hf_hold_token(hold);
    waiter w;

    EXPECT((hf_session_caps(a) & HF_CAP_FIFO) == 0);
    EXPECT((hf_session_caps(a) & HF_CAP_PUSH) != 0);
    EXPECT((hf_session_caps(a) & HF_CAP_TOKEN) != 0);
    waiter_start(&w, b);
    give(hold);
    AWAIT(atomic_load(&w.done));
    EXPECT(w.token > token);
    waiter_end(&w);
    hf_close(a);
    hf_close(b);
    five_end(&f);
}

/* ---- Tokens ---- */

/* One server is far ahead in counting.  Whoever has a majority without it
 * counts on from there. */
static void a_server_ahead_raises_the_others(void)
{
    five f = five_begin("");
    hf_session *s = open_at(f.url, 30000);
    hf_hold *hold = take(s, "k");
    uint64_t token = hf_hold_token(hold), ahead = token + 90000000;
    int level = 0;

    give(hold);
    AWAIT(five_have(&f, "k", 0, FIVE) == 0);
    EXPECT_STR(server_ask(f.s[0], "SET holdfast:token:k %llu",
                          (unsigned long long)ahead),
               "OK");
    hold = take(s, "k");
    EXPECT(hf_hold_token(hold) > ahead);
    for (int i = 0; i < FIVE; i++)
        level += server_number(f.s[i], "GET holdfast:token:k") ==
                 (long long)hf_hold_token(hold);
    EXPECT(level >= MAJORITY);
    token = hf_hold_token(hold);
    give(hold);
    server_kill(f.s[0]);
    server_kill(f.s[1]);
    hold = take(s, "k");
    EXPECT(hf_hold_token(hold) > token);
    give(hold);
    hf_close(s);
    five_end(&f);
}

/* Numbers grow without a look at the clock, but not for ever: then the end of
 * their key is set anew. */
static void numbers_meet_the_clock(void)
{
    five f = five_begin("");
    hf_session *s = open_at(f.url, 30000);
    uint64_t turn = UINT64_C(1048576), near = 1700000000 * turn - 24, last;
    hf_hold *hold;

    for (int i = 0; i < FIVE; i++)
        EXPECT_STR(server_ask(f.s[i], "SET holdfast:token:k %llu PX 60000",
                              (unsigned long long)near),
                   "OK");
    hold = take(s, "k");
    last = hf_hold_token(hold);
    EXPECT_EQ(last, near + 16);
    give(hold);
    AWAIT(five_have(&f, "k", 0, FIVE) == 0);
    for (int i = 0; i < FIVE; i++)
        EXPECT(server_number(f.s[i], "PTTL holdfast:token:k") <= 60000);
    hold = take(s, "k");
    EXPECT(hf_hold_token(hold) > last);
    for (int i = 0; i < FIVE; i++)
        EXPECT(server_number(f.s[i], "PTTL holdfast:token:k") > 3500000);
    give(hold);
    /* Not a number: as if there were none. */
    for (int i = 0; i < FIVE; i++)
        EXPECT_STR(server_ask(f.s[i], "SET holdfast:token:k x"), "OK");
    hold = take(s, "k");
    EXPECT(hf_hold_token(hold) > last);
    give(hold);
    hf_close(s);
    five_end(&f);
}

static uint32_t break_it(hf_session *s, uint64_t token)
{
    hf_break_options opt = {HF_BREAK_OPTIONS, .token = token, .now = true};
    uint32_t broken = 0;
    hf_error err;

    EXPECT_OK(hf_break(s, "k", &opt, &broken, &err), err);
    return broken;
}

/* Threads of one process follow each other on one vote, with numbers of their
 * own, and whoever has the next vote is above them all. */
static void passed_on_in_one_process(void)
{
    enum { THREADS = 4 };
    five f = five_begin("");
    hf_session *s = open_at(f.url, 30000), *other = open_at(f.url, 30000);
    hf_hold *hold = take(s, "k");
    uint64_t last = hf_hold_token(hold);
    waiter w[THREADS];
    hf_stats stats;

    for (uint64_t i = 0; i < THREADS; i++) {
        w[i] = (waiter){.s = s};
        EXPECT(pthread_create(&w[i].thread, NULL, run_waiter, &w[i]) == 0);
        AWAIT(hf_session_stats(s, &stats) == 0 && stats.waiters == i + 1);
    }
    give(hold);
    for (int i = 0; i < THREADS; i++) {
        AWAIT(atomic_load(&w[i].done));
        EXPECT(w[i].token > last);
        last = w[i].token;
        if (i == THREADS - 1) {
            /* All of its numbers are its name for an operator. */
            EXPECT_EQ(break_it(other, w[0].token - 1), 0);
            EXPECT_EQ(break_it(other, w[0].token + 16), 0);
            EXPECT_EQ(break_it(other, last), 1);
        }
        atomic_store(&w[i].let_go, true);
        pthread_join(w[i].thread, NULL);
    }
    EXPECT(hf_session_stats(s, &stats) == 0 && stats.handovers == THREADS - 1);
    EXPECT_EQ(hf_error_class(w[THREADS - 1].release_code), HF_CLASS_LOST);
    hold = take(other, "k");
    EXPECT(hf_hold_token(hold) > last);
    give(hold);
    hf_close(s);
    hf_close(other);
    five_end(&f);
}

/* A server whose clock is absurd does not vote; the others do. */
static void a_number_past_all_bounds_is_no_vote(void)
{
    five f = five_begin("");
    hf_session *s = open_at(f.url, 30000);

    EXPECT_STR(server_ask(f.s[0], "SET holdfast:token:k 9007199254740991"),
               "OK");
    hf_hold *hold = take(s, "k");
    EXPECT(hf_hold_token(hold) < UINT64_C(9007199254740000));
    EXPECT_EQ(five_have(&f, "k", 0, 1), 0);
    give(hold);
    hf_close(s);
    five_end(&f);
}

static void without_tokens(void)
{
    five f = five_begin("token=no");
    hf_session *s = open_at(f.url, 30000);
    hf_hold *hold = take(s, "k");

    EXPECT_EQ(hf_hold_token(hold), 0);
    EXPECT_EQ(hf_session_caps(s) & HF_CAP_TOKEN, 0);
    EXPECT_EQ(five_have(&f, "holdfast:token:k", 0, FIVE), 0);
    give(hold);
    hf_close(s);
    five_end(&f);
}

/* ---- Opening ---- */

static void expect_no_open(const char *url, int code, const char *has)
{
    hf_session *s = NULL;
    hf_error err;

    EXPECT_CODE(try_open(&s, url, 0, &err), code);
    EXPECT_HAS(err.text, has);
    EXPECT_STR(err.driver, "redlock");
}

static void urls_that_are_refused(void)
{
    expect_no_open("redlock://127.0.0.1:1", HF_EURL, "3, 5, 7 or 9");
    expect_no_open("redlock://a,b,c,d", HF_EURL, "4 servers");
    expect_no_open("redlock://a,b,a", HF_EURL, "named twice");
    expect_no_open("redlock://a,b,c/x", HF_EURL, "number of a database");
    expect_no_open("redlock://a,b,c?max_lease_ms=2000", HF_EURL, "strict=yes");
    expect_no_open("redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", HF_EQUORUM,
                   "0 of 3 servers answered, 2 are needed: 127.0.0.1:1:");
}

/* Each has a password, and the wrong one is told as such. */
static void passwords(void)
{
    server_options opt = {.password = "secret"};
    server *s[3];
    char right[200], wrong[200];
    int at[3];

    for (int i = 0; i < 3; i++) {
        s[i] = server_start(&opt);
        at[i] = s[i]->port;
    }
    snprintf(right, sizeof right,
             "redlock://:secret@127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/3",
             at[0], at[1], at[2]);
    snprintf(wrong, sizeof wrong,
             "redlock://:guess@127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", at[0],
             at[1], at[2]);
    hf_session *session = open_at(right, 0);
    hf_hold *hold = take(session, "k");
    give(hold);
    hf_close(session);
    expect_no_open(wrong, HF_EAUTH, "refused");
    for (int i = 0; i < 3; i++)
        server_stop(s[i]);
}

static const test_case cases[] = {
    TEST(layout_is_the_published_one),
    TEST(a_peer_excludes_us),
    TEST(another_kind_is_refused),
    TEST(a_waiter_gets_it),
    TEST(a_server_ahead_raises_the_others),
    TEST(numbers_meet_the_clock),
    TEST(passed_on_in_one_process),
    TEST(a_number_past_all_bounds_is_no_vote),
    TEST(without_tokens),
    TEST(urls_that_are_refused),
    TEST(passwords),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "redlock", cases,
                     sizeof cases / sizeof *cases);
}
