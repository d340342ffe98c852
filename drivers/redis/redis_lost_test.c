/* redis_lost_test.c - requests and replies that get lost on the way.
 *
 * Between the session and a real server stands a proxy that cuts, swallows,
 * delays or falsifies exactly one command, or all, or goes on at another
 * connection.  Whatever happens: one entry and no second one, a hold only if
 * the server granted it, a token above all before, and nothing left behind when
 * the session has gone. */
#include "redis_fault_test.h"

#include <string.h>

/* The formats, and how many keys each leaves behind for ever. */
static const struct {
    const char *query;
    int keys;
} layouts[] = {{"ns=t", 1},
               {"format=simple", 0},
               {"format=spring&registry_key=t", 0},
               {"format=redisson", 0},
               {"format=redisson&fenced=yes", 1}};
enum { LAYOUTS = sizeof layouts / sizeof *layouts, FENCED = LAYOUTS - 1 };

static uint64_t top; /* the largest token that was seen */

static void expect_above(hf_session *s, hf_hold *hold)
{
    if (hf_session_caps(s) & HF_CAP_TOKEN) {
        EXPECT(hf_hold_token(hold) > top);
        top = hf_hold_token(hold);
    }
}

/* One act on the next script that session s sends: a lock is taken all the
 * same, once. */
static void lock_through(world *w, proxy_rule rule)
{
    hf_session *s = open_at(w->through, 0), *rival = open_at(w->direct, 0);
    hf_error err;

    top = 0;
    for (int i = 0; i < 2;
         i++) { /* attach and scripts are done the first time */
        hf_hold *hold = take(s, "k");

        expect_above(s, hold);
        give(hold);
    }
    rule.command = "EVALSHA";
    rule.nth = 1;
    proxy_set(w->p, &rule);
    hf_hold *hold = take(s, "k");
    EXPECT_EQ(proxy_struck(w->p), 1);
    proxy_set(w->p, NULL);
    expect_above(s, hold);
    EXPECT_EQ(count_entries(rival), 1);
    EXPECT_CODE(probe(rival, "k", &err), HF_EBUSY);
    give(hold);
    hold = take(rival, "k");
    expect_above(rival, hold);
    give(hold);
    EXPECT_EQ(count_entries(rival), 0);
    hf_close(s);
    hf_close(rival);
}

static void lock_everywhere(proxy_rule rule)
{
    for (int i = 0; i < LAYOUTS; i++) {
        world w = world_begin(NULL, layouts[i].query);

        fprintf(stderr, "%s\n", layouts[i].query);
        lock_through(&w, rule);
        expect_clean(&w, layouts[i].keys);
    }
}

static void join_reply_lost(void)
{
    lock_everywhere((proxy_rule){.act = PROXY_CUT_REPLY});
}

static void join_never_arrives(void)
{
    lock_everywhere((proxy_rule){.act = PROXY_CUT_BEFORE});
}

static void join_reply_truncated(void)
{
    lock_everywhere((proxy_rule){.act = PROXY_TRUNCATE});
}

/* A try is repeated, too: what it got the first time is its own. */
static void try_reply_lost(void)
{
    for (int i = 0; i < LAYOUTS; i++) {
        world w = world_begin(NULL, layouts[i].query);
        hf_session *s = open_at(w.through, 0), *rival = open_at(w.direct, 0);
        hf_hold *hold = NULL;
        hf_error err;

        fprintf(stderr, "%s\n", layouts[i].query);
        give(take(s, "k"));
        proxy_set(w.p, &(proxy_rule){.command = "EVALSHA",
                                     .nth = 1,
                                     .act = PROXY_CUT_REPLY});
        EXPECT_OK(hf_try_lock(s, "k", NULL, &hold, &err), err);
        EXPECT_EQ(proxy_struck(w.p), 1);
        EXPECT_EQ(count_entries(rival), 1);
        EXPECT_CODE(probe(rival, "k", &err), HF_EBUSY);
        give(hold);
        EXPECT_CODE(probe(rival, "k", &err), 0);
        hf_close(s);
        hf_close(rival);
        expect_clean(&w, layouts[i].keys);
    }
}

static void join_is_swallowed(void)
{
    lock_everywhere((proxy_rule){.act = PROXY_SWALLOW});
}

static void join_reply_late(void)
{
    lock_everywhere((proxy_rule){.act = PROXY_DELAY, .ms = 300});
}

/* The same for a release: 0, or "nobody can say"; then it is free. */
static void release_through(world *w, proxy_act act)
{
    hf_session *s = open_at(w->through, 0), *rival = open_at(w->direct, 0);
    hf_error err;

    top = 0;
    give(take(s, "k"));
    hf_hold *hold = take(s, "k");
    expect_above(s, hold);
    proxy_set(w->p, &(proxy_rule){.command = "EVALSHA", .nth = 1, .act = act});
    int code = hf_release(hold, &err);
    EXPECT_EQ(proxy_struck(w->p), 1);
    proxy_set(w->p, NULL);
    if (code != 0)
        EXPECT_CODE(code, HF_EUNKNOWN);
    hold = take(rival, "k");
    expect_above(rival, hold);
    EXPECT_EQ(count_entries(rival), 1);
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    give(hold);
    hold = take(s, "k"); /* and the session goes on */
    expect_above(s, hold);
    give(hold);
    hf_close(s);
    hf_close(rival);
}

static void leave_is_lost(void)
{
    static const proxy_act acts[] = {PROXY_CUT_REPLY, PROXY_CUT_BEFORE,
                                     PROXY_SWALLOW, PROXY_TRUNCATE};

    for (int i = 0; i < LAYOUTS; i++) {
        for (size_t k = 0; k < sizeof acts / sizeof *acts; k++) {
            world w = world_begin(NULL, layouts[i].query);

            fprintf(stderr, "%s, act %d\n", layouts[i].query, acts[k]);
            release_through(&w, acts[k]);
            expect_clean(&w, layouts[i].keys);
        }
    }
}

static void renew_is_lost(void)
{
    static const proxy_act acts[] = {PROXY_CUT_REPLY, PROXY_CUT_BEFORE,
                                     PROXY_SWALLOW};

    for (int i = 0; i < LAYOUTS; i++) {
        for (size_t k = 0; k < sizeof acts / sizeof *acts; k++) {
            world w = world_begin(NULL, layouts[i].query);
            hf_session *s = open_at(w.through, 6000);
            hf_hold *hold = take(s, "k");

            fprintf(stderr, "%s, act %d\n", layouts[i].query, acts[k]);
            proxy_set(w.p, &(proxy_rule){
                               .command = "EVALSHA", .nth = 1, .act = acts[k]});
            int code = hf_renew(hold, NULL);
            EXPECT_EQ(proxy_struck(w.p), 1);
            EXPECT(code == 0 || code == HF_EUNKNOWN || code == HF_EUNAVAIL);
            AWAIT(hf_hold_state(hold) == HF_HELD &&
                  hf_hold_remaining_ms(hold) > 3000);
            give(hold);
            hf_close(s);
            expect_clean(&w, layouts[i].keys);
        }
    }
}

/* What the server says is left: of the session, or of the lock. */
static long long rest_at(server *s, bool native)
{
    char key[128] = "k";

    if (native) {
        const char *found = strstr(server_ask(s, "KEYS *:l:*"), "hf:");
        size_t len = found ? strcspn(found, "\r") : 0;

        EXPECT(len > 0 && len < sizeof key);
        memcpy(key, found, len);
        key[len] = '\0';
    }
    return server_number(s, "PTTL %s", key);
}

/* However late the answer, the lease counts from the question: the server has
 * at least as much left, whenever it is asked. */
static void renew_reply_late(void)
{
    for (int i = 0; i < 2; i++) { /* a session's lease, and a hold's own */
        world w = world_begin(NULL, layouts[i].query);
        hf_session *s = open_at(w.through, 6000);
        hf_lock_options opt = {HF_LOCK_OPTIONS, .lease_ms = i ? 6000 : 0};
        hf_hold *hold = NULL;
        long long asked, left, rest;
        hf_error err;
        int code;

        fprintf(stderr, "%s\n", layouts[i].query);
        EXPECT_OK(hf_lock(s, "k", &opt, &hold, &err), err);
        EXPECT_OK(hf_renew(hold, &err), err); /* the script is known now */
        proxy_set(w.p, &(proxy_rule){.command = "EVALSHA",
                                     .nth = 1,
                                     .act = PROXY_DELAY,
                                     .ms = 900}); /* of 1000 */
        code = hf_renew(hold, NULL);
        EXPECT(code == 0 || code == HF_EUNKNOWN || code == HF_EUNAVAIL);
        asked = test_now_ms();
        left = hf_hold_remaining_ms(hold);
        rest = rest_at(w.s, i == 0);
        fprintf(stderr, "%lld ms here, %lld there\n", left, rest);
        EXPECT(left > 0 && left <= rest + (test_now_ms() - asked) + 1);
        EXPECT_EQ(proxy_struck(w.p), 1);
        proxy_set(w.p, NULL);
        give(hold);
        hf_close(s);
        expect_clean(&w, layouts[i].keys);
    }
}

/* A grant that is pushed and does not arrive: found by the timed look. */
static void push_is_lost(void)
{
    world w = world_begin(NULL, "ns=t");
    hf_session *s = open_at(w.through, 0), *rival = open_at(w.direct, 0);
    waiter first, second;

    hf_hold *hold = take(rival, "k");
    waiter_start(&first, s); /* the channel stands from here on */
    AWAIT(count_entries(rival) == 2);
    AWAIT(server_number(w.s, "PUBLISH hf:{t}:none x") == 0 &&
          proxy_count(w.p, "SUBSCRIBE") > 0);
    give(hold);
    waiter_end(&first);
    hold = take(rival, "k");
    waiter_start(&second, s);
    AWAIT(count_entries(rival) == 2);
    proxy_set(w.p,
              &(proxy_rule){.command = "message", .act = PROXY_DROP_REPLY});
    uint64_t token = hf_hold_token(hold);
    give(hold);
    waiter_end(&second);
    EXPECT(second.token > token);
    EXPECT(proxy_struck(w.p) > 0);
    hf_close(s);
    hf_close(rival);
    expect_clean(&w, 1);
}

static long long count_channels(const world *w)
{
    return server_number(w->s, "EVAL return(#redis.call('pubsub','channels')) "
                               "0");
}

/* All connections go on at others of the server's, and nobody is told: who
 * waits listens again by himself, and nobody behind him is served first. */
static void pushes_at_another(void)
{
    world w = world_begin(NULL, "ns=t");
    hf_session *s = open_at(w.through, 10000), *rival = open_at(w.direct, 0),
               *late = open_at(w.direct, 0);
    hf_hold *hold = take(rival, "k");
    waiter first, second;
    unsigned before;

    waiter_start(&first, s);
    AWAIT(count_channels(&w) == 1);
    before = proxy_count(w.p, "SUBSCRIBE");
    proxy_swap(w.p);
    AWAIT(proxy_count(w.p, "SUBSCRIBE") > before && count_channels(&w) == 1);
    waiter_start(&second, late);
    AWAIT(count_entries(rival) == 3 && count_channels(&w) == 2);
    give(hold);
    waiter_end(&first);
    waiter_end(&second);
    EXPECT(first.token < second.token);
    hf_close(s);
    hf_close(rival);
    hf_close(late);
    expect_clean(&w, 1);
}

/* The connections go on at others, which begin in another database: nobody is
 * let in beside a holder, who goes on. */
static void another_database(void)
{
    static const char *const queries[] = {"ns=t&db=1", "format=simple&db=1"};

    for (int i = 0; i < 2; i++) {
        world w = world_begin(NULL, queries[i]);
        hf_session *s = open_at(w.through, 10000),
                   *rival = open_at(w.direct, 10000);
        hf_hold *mine = take(s, "mine"), *theirs = take(rival, "k");
        hf_error err;

        proxy_swap(w.p);
        EXPECT_CODE(probe(s, "k", &err), HF_EBUSY);
        EXPECT_OK(hf_renew(mine, &err), err);
        EXPECT_CODE(probe(rival, "mine", &err), HF_EBUSY);
        EXPECT_EQ(server_number(w.s, "DBSIZE"), 0); /* of database 0 */
        give(mine);
        give(theirs);
        hf_close(s);
        hf_close(rival);
        world_end(&w);
    }
}

/* All connections end at once: who holds goes on, who waits is granted. */
static void all_connections_cut(void)
{
    for (int i = 0; i < LAYOUTS; i++) {
        world w = world_begin(NULL, layouts[i].query);
        hf_session *s = open_at(w.through, 10000),
                   *rival = open_at(w.direct, 0);
        waiter waits;

        fprintf(stderr, "%s\n", layouts[i].query);
        hf_hold *mine = take(s, "mine"), *theirs = take(rival, "k");
        waiter_start(&waits, s);
        test_sleep_ms(50);
        proxy_cut_all(w.p);
        test_sleep_ms(50);
        proxy_cut_all(w.p);
        give(theirs);
        waiter_end(&waits);
        EXPECT_CODE(hf_renew(mine, NULL), 0);
        EXPECT_CODE(hf_hold_check(mine, NULL), 0);
        give(mine);
        hf_close(s);
        hf_close(rival);
        expect_clean(&w, i == FENCED ? 2 : layouts[i].keys); /* one a key */
    }
}

/* Nothing comes and nothing ends: LOST in time, and well again afterwards. */
static void black_hole(void)
{
    for (int i = 0; i < LAYOUTS; i++) {
        world w = world_begin(NULL, layouts[i].query);
        hf_session *s = open_at(w.through, 2000), *rival = open_at(w.direct, 0);

        fprintf(stderr, "%s\n", layouts[i].query);
        hf_hold *hold = take(s, "k");
        uint64_t token = hf_hold_token(hold);
        proxy_black_hole(w.p, true);
        hf_hold *theirs = take(rival, "k"); /* when the lease is over */
        EXPECT_CODE(hf_hold_check(hold, NULL), HF_EEXPIRED);
        EXPECT(hf_hold_state(hold) == HF_LOST);
        EXPECT(token == 0 || hf_hold_token(theirs) > token);
        proxy_black_hole(w.p, false);
        EXPECT_CODE(hf_release(hold, NULL), HF_EEXPIRED);
        EXPECT_CODE(hf_hold_check(theirs, NULL), 0);
        give(theirs);
        give(take(s, "k"));
        hf_close(s);
        hf_close(rival);
        expect_clean(&w, layouts[i].keys);
    }
}

/* ---- Nonsense ----------------------------------------------------------- */

static const char *const nonsense[] = {
    "+OK\r\n",
    ":0\r\n",
    ":-7\r\n",
    "$-1\r\n",
    "*0\r\n",
    "*-1\r\n",
    "*1\r\n:1\r\n",
    "*2\r\n:1\r\n:0\r\n",
    "*8\r\n:9\r\n:9\r\n:9\r\n:9\r\n:9\r\n:9\r\n:9\r\n:9\r\n",
    "*8\r\n:1\r\n:-5\r\n:1\r\n:0\r\n:-5\r\n:0\r\n:30000000\r\n:1\r\n",
    "*8\r\n+a\r\n+b\r\n+c\r\n+d\r\n+e\r\n+f\r\n+g\r\n+h\r\n",
    "*4\r\n$1\r\nx\r\n*0\r\n$-1\r\n:7\r\n",
    "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
    "$99999999999\r\nx\r\n",
    "*99999999\r\n:1\r\n",
    "HTTP/1.1 400 Bad Request\r\n\r\n",
    "-ERR something new\r\n",
    "-\r\n",
    ":18446744073709551616\r\n",
};

/* Every answer to a script is this: no hold, whatever is asked, and when the
 * server speaks sense again nothing of it is left. */
static void never_a_hold_from(world *w, const char *text)
{
    hf_session *s = open_at(w->through, 0), *rival = open_at(w->direct, 0);
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = 300};
    hf_hold *hold = NULL;
    hf_error err = {0};

    give(take(s, "k"));
    proxy_set(w->p, &(proxy_rule){.command = "EVALSHA",
                                  .act = PROXY_REPLACE,
                                  .text = text});
    int code = hf_lock(s, "k", &opt, &hold, &err);
    if (code == 0)
        FAIL_TEST("a hold from %s", text);
    EXPECT(hold == NULL && err.text[0] != '\0');
    EXPECT(strchr(err.text, '\n') == NULL);
    code = hf_try_lock(s, "k", NULL, &hold, &err);
    if (code == 0)
        FAIL_TEST("a hold by a try from %s", text);
    proxy_set(w->p, NULL);
    AWAIT(count_entries(rival) == 0); /* no ghost */
    give(take(rival, "k"));
    give(take(s, "k"));
    hf_close(s);
    hf_close(rival);
}

static void nonsense_is_no_hold(void)
{
    for (int i = 0; i < LAYOUTS; i++) {
        world w = world_begin(NULL, layouts[i].query);

        for (size_t k = 0; k < sizeof nonsense / sizeof *nonsense; k++) {
            fprintf(stderr, "%s: %s\n", layouts[i].query, nonsense[k]);
            never_a_hold_from(&w, nonsense[k]);
        }
        expect_clean(&w, layouts[i].keys);
    }
}

/* A server that is no Redis is told apart at the opening. */
static void nonsense_at_open(void)
{
    world w = world_begin(NULL, "ns=t");

    for (size_t k = 0; k < sizeof nonsense / sizeof *nonsense; k++) {
        hf_session *s = NULL;
        hf_error err = {0};

        fprintf(stderr, "%s\n", nonsense[k]);
        proxy_set(w.p,
                  &(proxy_rule){.act = PROXY_REPLACE, .text = nonsense[k]});
        int code = try_open(&s, w.through, 0, &err);
        EXPECT(code == HF_EPROTO || code == HF_EUNAVAIL);
        EXPECT(s == NULL && err.text[0] != '\0');
        EXPECT(strchr(err.text, '\n') == NULL);
    }
    proxy_set(w.p, NULL);
    expect_clean(&w, 0);
}

static const test_case cases[] = {TEST(join_reply_lost),
                                  TEST(try_reply_lost),
                                  TEST(join_never_arrives),
                                  TEST(join_reply_truncated),
                                  TEST_LIMIT(join_is_swallowed, 90),
                                  TEST(join_reply_late),
                                  TEST_LIMIT(leave_is_lost, 120),
                                  TEST_LIMIT(renew_is_lost, 120),
                                  TEST(renew_reply_late),
                                  TEST(push_is_lost),
                                  TEST(pushes_at_another),
                                  TEST(another_database),
                                  TEST_LIMIT(all_connections_cut, 90),
                                  TEST_LIMIT(black_hole, 90),
                                  TEST_LIMIT(nonsense_is_no_hold, 120),
                                  TEST(nonsense_at_open)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "redis_lost", cases,
                     sizeof cases / sizeof *cases);
}
