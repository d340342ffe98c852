/* redlock_fault_test.c - servers that die, stop, forget and answer late.
 *
 * Two of five may: locks are taken, renewed and given back all the same, and
 * tokens rise.  With three gone nothing is granted, the reason of each is told,
 * and a holder loses its lock in time.  The hole of the algorithm is shown as
 * it is: servers that come back empty vote again for what is held, unless
 * `strict` keeps them from it until the longest lease is over. */
#include "redlock_test.h"

static uint64_t top;

static void lock_once(hf_session *s)
{
    hf_hold *hold = take(s, "k");

    EXPECT(hf_hold_token(hold) > top);
    top = hf_hold_token(hold);
    EXPECT_CODE(hf_renew(hold, NULL), 0);
    give(hold);
}

static void two_of_five_die(void)
{
    five f = five_begin("");
    hf_session *s = open_at(f.url, 30000), *later;
    hf_hold *hold = take(s, "held");
    hf_error err;

    top = 0;
    lock_once(s);
    for (int i = 0; i < 2; i++) {
        server_kill(f.s[i]);
        lock_once(s);
        lock_once(s);
    }
    EXPECT_CODE(hf_renew(hold, NULL), 0);
    later = open_at(f.url, 30000);
    EXPECT_CODE(probe(later, "held", &err), HF_EBUSY);
    lock_once(later);
    server_restart(f.s[0], true);
    server_restart(f.s[1], true);
    give(hold);
    /* They take part again. */
    AWAIT(({
        hf_hold *again = take(s, "k");
        int have = five_have(&f, "k", 0, 2);

        give(again);
        have == 2;
    }));
    hf_close(s);
    hf_close(later);
    five_end(&f);
}

static void three_of_five_die(void)
{
    five f = five_begin("");
    hf_session *s = open_at(f.url, 3000);
    hf_hold *hold = take(s, "k"), *other = NULL;
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = 1};
    hf_error err;
    char where[32];

    for (int i = 0; i < 3; i++)
        server_kill(f.s[i]);
    EXPECT(hf_lock(s, "other", &opt, &other, &err) != 0);
    EXPECT(hf_try_lock(s, "third", NULL, &other, &err) != 0);
    EXPECT_HAS(err.text, "2 of 5 servers answered, 3 are needed");
    for (int i = 0; i < 3; i++) {
        snprintf(where, sizeof where, "127.0.0.1:%d", f.s[i]->port);
        EXPECT_HAS(err.text, where);
    }
    AWAIT(hf_hold_state(hold) == HF_LOST);
    EXPECT_CODE(hf_release(hold, NULL), HF_EEXPIRED);
    for (int i = 0; i < 3; i++)
        server_restart(f.s[i], true);
    give(take(s, "k"));
    hf_close(s);
    five_end(&f);
}

/* Stopped, they take what is sent and say nothing. */
static void two_of_five_stop(void)
{
    five f = five_begin("");
    hf_session *s = open_at(f.url, 30000), *later;

    top = 0;
    lock_once(s);
    server_pause(f.s[1]);
    server_pause(f.s[3]);
    for (int i = 0; i < 5; i++)
        lock_once(s);
    later = open_at(f.url, 30000);
    lock_once(later);
    server_continue(f.s[1]);
    server_continue(f.s[3]);
    AWAIT(({
        hf_hold *again = take(s, "k");
        int have = five_have(&f, "k", 0, FIVE);

        give(again);
        have == FIVE;
    }));
    hf_close(s);
    hf_close(later);
    five_end(&f);
}

/* Two of the three that answer have given it back, one had lost it, and two say
 * nothing: nobody can say whether it was held to the end.  But a majority has
 * it no more, and so this process need not wait for the two. */
static void a_leave_that_two_do_not_hear(void)
{
    five f = five_begin("");
    hf_session *s = open_at(f.url, 6000);
    hf_hold *hold = take(s, "k");
    int code;

    AWAIT(five_have(&f, "k", 0, FIVE) == FIVE);
    EXPECT_EQ(server_number(f.s[2], "DEL k"), 1);
    server_pause(f.s[3]);
    server_pause(f.s[4]);
    code = hf_release(hold, NULL);
    EXPECT(code == HF_EUNKNOWN || code == HF_EEXPIRED);
    give(take(s, "k"));
    server_continue(f.s[3]);
    server_continue(f.s[4]);
    hf_close(s);
    five_end(&f);
}

/* All stop for longer than a lease: the holder is told before anybody else can
 * have it, and its lock is not there when they go on. */
static void all_stop(void)
{
    five f = five_begin("");
    hf_session *s = open_at(f.url, 2000);
    hf_hold *hold = take(s, "k");

    top = hf_hold_token(hold);
    for (int i = 0; i < FIVE; i++)
        server_pause(f.s[i]);
    AWAIT(hf_hold_state(hold) == HF_LOST);
    for (int i = 0; i < FIVE; i++)
        server_continue(f.s[i]);
    EXPECT_CODE(hf_release(hold, NULL), HF_EEXPIRED);
    lock_once(s);
    hf_close(s);
    five_end(&f);
}

/* Two that forget are borne, the third is a loss, which the renewal finds. */
static void servers_that_forget(void)
{
    five f = five_begin("");
    hf_session *s = open_at(f.url, 3000);
    hf_hold *hold = take(s, "k");

    for (int i = 0; i < 2; i++) {
        server_kill(f.s[i]);
        server_restart(f.s[i], true);
        AWAIT(hf_renew(hold, NULL) == 0);
    }
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    server_kill(f.s[2]);
    server_restart(f.s[2], true);
    AWAIT(hf_hold_state(hold) == HF_LOST);
    EXPECT_CODE(hf_release(hold, NULL), HF_EEXPIRED);
    hf_close(s);
    five_end(&f);
}

/* Of one lock nobody can say whether a majority has it: two do, one does not,
 * two are down.  That one ends by its own clock, and the others are renewed. */
static void one_that_is_open(void)
{
    five f = five_begin("");
    hf_session *s = open_at(f.url, 4000);
    hf_hold *open = take(s, "open"), *firm = NULL;

    server_kill(f.s[2]);
    server_restart(f.s[2], true);
    AWAIT(hf_renew(open, NULL) == 0);
    AWAIT(({ /* it takes part again */
             int have;

             firm = take(s, "firm");
             have = five_have(&f, "firm", 2, FIVE);
             if (have < 3)
                 give(firm);
             have == 3;
    }));
    EXPECT_EQ(five_have(&f, "open", 2, 3), 0);
    server_kill(f.s[0]);
    server_kill(f.s[1]);
    EXPECT_CODE(hf_renew(open, NULL), HF_EUNKNOWN);
    AWAIT(hf_hold_state(open) == HF_LOST);
    test_sleep_ms(4000); /* nobody holds anything without a renewal */
    EXPECT_CODE(hf_hold_check(firm, NULL), 0);
    give(firm);
    EXPECT_CODE(hf_release(open, NULL), HF_EEXPIRED);
    hf_close(s);
    five_end(&f);
}

/* Two are down while a lock is taken on the other three, one of which then
 * comes back empty with them. */
static void make_the_hole(five *f, hf_session *s, hf_hold **ret)
{
    server_kill(f->s[3]);
    server_kill(f->s[4]);
    *ret = take(s, "k");
    top = hf_hold_token(*ret);
    server_kill(f->s[2]);
    for (int i = 2; i < FIVE; i++)
        server_restart(f->s[i], true);
}

static void the_hole_of_those_who_come_back_at_once(void)
{
    five f = five_begin("");
    hf_session *s = open_at(f.url, 60000), *rival;
    hf_hold *hold, *second;
    int code;

    make_the_hole(&f, s, &hold);
    rival = open_at(f.url, 60000);
    second = take(rival, "k");
    /* As the page says: two believe in it, and only the token tells. */
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    EXPECT(hf_hold_token(second) > top);
    give(second);
    code = hf_release(hold, NULL);
    EXPECT(code == HF_EEXPIRED || code == HF_EUNKNOWN);
    hf_close(s);
    hf_close(rival);
    five_end(&f);
}

/* Nobody holds it, and nobody is told that somebody does. */
static void young_servers_are_no_rival(void)
{
    five f = five_begin("strict=yes&max_lease_ms=10000");
    hf_session *s = open_at(f.url, 3000);
    hf_error err;

    EXPECT_CODE(probe(s, "k", &err), HF_EQUARANTINE);
    EXPECT_HAS(err.text, "max_lease_ms");
    AWAIT(five_have(&f, "k", 0, FIVE) == 0);
    EXPECT(WAIT_FOR(probe(s, "k", &err) == 0, 2 * PATIENCE_MS));
    hf_close(s);
    five_end(&f);
}

static void strict_closes_the_hole(void)
{
    five f = five_begin("strict=yes&max_lease_ms=3000");
    hf_session *s = open_at(f.url, 3000), *rival;
    hf_hold *hold, *second;
    hf_error err;

    EXPECT(try_open(&rival, f.url, 3000, &err) == 0);
    give(take(s, "k")); /* when they have run for so long */
    make_the_hole(&f, s, &hold);
    second = take(rival, "k");
    EXPECT(hf_hold_check(hold, NULL) != 0);
    EXPECT(hf_hold_token(second) > top);
    give(second);
    hf_release(hold, NULL);
    hf_close(s);
    hf_close(rival);
    five_end(&f);
}

/* ---- On the way to one or all of them ---- */

typedef struct proxied {
    five f;
    proxy *p[FIVE];
} proxied;

static proxied proxied_begin(void)
{
    proxied w = {.f = five_begin("")};
    int ports[FIVE];

    for (int i = 0; i < FIVE; i++) {
        w.p[i] = proxy_start(w.f.s[i]->port);
        ports[i] = proxy_port(w.p[i]);
    }
    five_url(&w.f, ports, "");
    return w;
}

static void proxied_end(proxied *w)
{
    for (int i = 0; i < FIVE; i++)
        proxy_stop(w->p[i]);
    five_end(&w->f);
}

/* The next script to `many` of them meets this; the lock is taken all the same,
 * once, and nothing is left. */
static void lock_through(proxy_act act, int many)
{
    proxied w = proxied_begin();
    hf_session *s = open_at(w.f.url, 5000), *rival = open_at(w.f.url, 5000);
    hf_error err;

    top = 0;
    lock_once(s);
    lock_once(rival);
    for (int i = 0; i < many; i++)
        proxy_set(w.p[i], &(proxy_rule){.command = "EVALSHA",
                                        .nth = 1,
                                        .act = act,
                                        .ms = 400,
                                        .text = "*1\r\n:7\r\n"});
    hf_hold *hold = take(s, "k");
    for (int i = 0; i < many; i++) {
        EXPECT(proxy_struck(w.p[i]) == 1);
        proxy_set(w.p[i], NULL);
    }
    EXPECT(hf_hold_token(hold) > top);
    top = hf_hold_token(hold);
    EXPECT_CODE(probe(rival, "k", &err), HF_EBUSY);
    give(hold);
    lock_once(rival);
    hf_close(s);
    hf_close(rival);
    AWAIT(five_have(&w.f, "k", 0, FIVE) == 0);
    proxied_end(&w);
}

static void answers_get_lost(void)
{
    lock_through(PROXY_CUT_REPLY, 2);
    lock_through(PROXY_CUT_REPLY, FIVE);
}

static void votes_never_arrive(void)
{
    lock_through(PROXY_SWALLOW, 2);
    lock_through(PROXY_CUT_BEFORE, FIVE);
}

static void answers_are_late(void)
{
    lock_through(PROXY_DELAY, 2);
    lock_through(PROXY_DELAY, FIVE);
}

static void answers_are_nonsense(void)
{
    lock_through(PROXY_REPLACE, 2);
    lock_through(PROXY_TRUNCATE, 4);
}

/* Of three servers that have it one answers late, behind two that have it not:
 * it was a lock, and is counted. */
static void a_break_waits_for_those_that_are_late(void)
{
    proxied w = proxied_begin();
    hf_session *s = open_at(w.f.url, 12000);
    uint32_t broken = 0;
    hf_error err;

    for (int i = 0; i < MAJORITY; i++)
        EXPECT_STR(server_ask(w.f.s[i], "SET k peer NX PX 60000"), "OK");
    proxy_set(w.p[0], &(proxy_rule){.command = "EVALSHA",
                                    .nth = 1,
                                    .act = PROXY_DELAY,
                                    .ms = 200});
    EXPECT_OK(hf_break(s, "k", NULL, &broken, &err), err);
    EXPECT_EQ(proxy_struck(w.p[0]), 1);
    EXPECT_EQ(broken, 1);
    EXPECT_EQ(five_have(&w.f, "k", 0, FIVE), 0);
    hf_close(s);
    proxied_end(&w);
}

/* ---- The doctor ---- */

typedef struct findings {
    char text[4096];
    size_t len;
} findings;

static void note_finding(hf_level level, const char *name, const char *text,
                         void *user)
{
    findings *all = user;

    all->len +=
        (size_t)snprintf(all->text + all->len, sizeof all->text - all->len,
                         "%d %s %s\n", (int)level, name, text);
    EXPECT(all->len < sizeof all->text);
}

static void the_doctor_looks(void)
{
    five f = five_begin("");
    hf_session *s = open_at(f.url, 30000);
    findings all = {.len = 0};
    hf_error err;

    EXPECT_OK(hf_doctor(s, note_finding, &all, &err), err);
    EXPECT_HAS(all.text, "all 5 servers answer; 2 may fail");
    EXPECT_HAS(all.text, "was started less than a lease of 30.0 s ago");
    EXPECT_HAS(all.text, "keeps nothing over a restart");
    EXPECT_HAS(all.text, "each is a server of its own");
    server_kill(f.s[4]);
    EXPECT_STR(server_ask(f.s[1], "CONFIG SET maxmemory 100mb"), "OK");
    EXPECT_STR(server_ask(f.s[1], "CONFIG SET maxmemory-policy allkeys-lru"),
               "OK");
    all.len = 0;
    EXPECT_OK(hf_doctor(s, note_finding, &all, &err), err);
    EXPECT_HAS(all.text, "4 of 5 servers answer");
    EXPECT_HAS(all.text, "evicts keys");
    hf_close(s);
    five_end(&f);
}

static const test_case cases[] = {
    TEST(two_of_five_die),
    TEST(three_of_five_die),
    TEST(two_of_five_stop),
    TEST(a_leave_that_two_do_not_hear),
    TEST(all_stop),
    TEST(servers_that_forget),
    TEST(one_that_is_open),
    TEST(the_hole_of_those_who_come_back_at_once),
    TEST(young_servers_are_no_rival),
    TEST(strict_closes_the_hole),
    TEST(answers_get_lost),
    TEST(votes_never_arrive),
    TEST(answers_are_late),
    TEST(answers_are_nonsense),
    TEST(a_break_waits_for_those_that_are_late),
    TEST(the_doctor_looks),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "redlock_fault", cases,
                     sizeof cases / sizeof *cases);
}
