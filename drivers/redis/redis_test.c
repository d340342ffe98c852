/* redis_test.c - the moods of a real server.
 *
 * It is restarted with and without its memory, stands still, wants a password,
 * is full of clients, loads, becomes a replica, is busy, has no memory left.
 * Each time: the code says what happened, no hold is believed in that the
 * server does not know, tokens rise, and after the close nothing is left.
 * Thrown out and cut off: redis_out_test.c, redis_lost_test.c. */
#include "redis_fault_test.h"

/* The code of a try on a key that was never used: what became of an earlier
 * one on the same key may still be open. */
static int try_fresh(hf_session *s, hf_error *err)
{
    static int serial;
    hf_hold *hold = NULL;
    char key[32];

    snprintf(key, sizeof key, "fresh %d", serial++);
    int code = hf_try_lock(s, key, NULL, &hold, err);
    if (code == 0) {
        int release = hf_release(hold, NULL);
        EXPECT(release == 0 || release == HF_EUNKNOWN);
    }
    return code;
}

/* ---- Restarts ----------------------------------------------------------- */

/* With its log on disk the server knows everything again: nothing is lost. */
static void restart_with_memory(void)
{
    world w = world_begin(&(server_options){.aof = true}, "ns=t");
    hf_session *s = open_at(w.direct, 8000), *rival = open_at(w.direct, 8000);
    hf_hold *hold = take(s, "k");
    uint64_t token = hf_hold_token(hold);
    waiter waits;
    hf_error err;
    int listed = 0;

    waiter_start(&waits, rival);
    AWAIT(count_entries(s) == 2);
    server_kill(w.s);
    server_restart(w.s, false);
    AWAIT(hf_renew(hold, NULL) == 0);
    AWAIT(hf_hold_state(hold) == HF_HELD); /* the doubt is lifted */
    EXPECT(hf_hold_token(hold) == token);
    EXPECT_EQ(count_entries(s), 2);
    /* What it is told comes by another connection: until this one is back, a
     * release could not say what became of it. */
    AWAIT(hf_list(rival, NULL, count_row, &listed, NULL) == 0);
    EXPECT(!atomic_load(&waits.done));
    EXPECT_OK(hf_release(hold, &err), err);
    waiter_end(&waits);
    EXPECT(waits.token > token);
    hf_close(s);
    hf_close(rival);
    expect_clean(&w, 1);
}

/* Without: the owner is told as soon as it asks, and the next token is larger
 * although the counter is gone. */
static void restart_without_memory(void)
{
    world w = world_begin(NULL, "ns=t");
    hf_session *s = open_at(w.direct, 6000), *rival = open_at(w.direct, 6000);
    hf_hold *hold = take(s, "k");
    uint64_t token = hf_hold_token(hold);

    server_kill(w.s);
    server_restart(w.s, true);
    AWAIT(hf_hold_state(hold) == HF_LOST);
    EXPECT_CODE(hf_hold_check(hold, NULL), HF_EEXPIRED);
    hf_hold *theirs = take(rival, "k");
    EXPECT(hf_hold_token(theirs) > token);
    EXPECT_CODE(hf_release(hold, NULL), HF_EEXPIRED);
    EXPECT_CODE(hf_hold_check(theirs, NULL), 0);
    token = hf_hold_token(theirs);
    give(theirs);
    hold = take(s, "k"); /* the session serves again */
    EXPECT(hf_hold_token(hold) > token);
    give(hold);
    hf_close(s);
    hf_close(rival);
    expect_clean(&w, 1);
}

static void flushed(void)
{
    world w = world_begin(NULL, "ns=t");
    hf_session *s = open_at(w.direct, 4000);
    hf_hold *hold = take(s, "k");
    uint64_t token = hf_hold_token(hold);

    EXPECT_STR(server_ask(w.s, "FLUSHALL"), "OK");
    AWAIT(hf_hold_state(hold) == HF_LOST);
    EXPECT_CODE(hf_release(hold, NULL), HF_EEXPIRED);
    hold = take(s, "k");
    EXPECT(hf_hold_token(hold) > token);
    give(hold);
    hf_close(s);
    expect_clean(&w, 1);
}

static void set_counter_back(const world *w, uint64_t token)
{
    EXPECT_STR(server_ask(w->s, "SET hf:{t}:c %llu",
                          (unsigned long long)(token - 3600000000U)),
               "OK");
}

/* A counter of an hour ago, as in an old snapshot: no token comes twice, by a
 * free lock nor by a hand-over. */
static void counter_set_back(void)
{
    world w = world_begin(NULL, "ns=t");
    hf_session *s = open_at(w.direct, 4000), *rival = open_at(w.direct, 4000);
    uint64_t last = 0;

    for (int i = 0; i < 6; i++) {
        hf_hold *hold = take(s, "k");
        waiter next;

        EXPECT(hf_hold_token(hold) > last);
        last = hf_hold_token(hold);
        waiter_start(&next, rival);
        AWAIT(count_entries(s) == 2);
        set_counter_back(&w, last);
        give(hold);
        AWAIT(atomic_load(&next.done));
        EXPECT(next.token > last);
        last = next.token;
        waiter_end(&next);
        set_counter_back(&w, last);
    }
    hf_close(s);
    hf_close(rival);
    expect_clean(&w, 1);
}

/* A counter that is ahead of every clock: the next number is above it. */
static void counter_set_ahead(void)
{
    world w = world_begin(NULL, "ns=t");
    hf_session *s = open_at(w.direct, 4000);
    hf_hold *hold = take(s, "k");
    uint64_t ahead = hf_hold_token(hold) + 3600000000U;

    give(hold);
    EXPECT_STR(server_ask(w.s, "SET hf:{t}:c %llu", (unsigned long long)ahead),
               "OK");
    for (int i = 0; i < 3; i++) {
        hold = take(s, "k");
        EXPECT(hf_hold_token(hold) > ahead);
        ahead = hf_hold_token(hold);
        give(hold);
    }
    hf_close(s);
    expect_clean(&w, 1);
}

/* Strict: nothing is granted before every forgotten hold has ended. */
static void strict_waits(void)
{
    enum { MAX_MS = 3000 };
    world w = world_begin(NULL, "ns=t&strict=yes&max_lease_ms=3000");
    long long begin = test_now_ms();
    hf_session *s = open_at(w.direct, 2500), *rival = open_at(w.direct, 2500);
    hf_error err = {0};

    EXPECT_CODE(probe(s, "k", &err), HF_EQUARANTINE);
    EXPECT_HAS(err.text, "forgotten");
    hf_hold *hold = take(s, "k");
    EXPECT(test_now_ms() - begin >= MAX_MS);
    uint64_t token = hf_hold_token(hold);
    give(take(rival, "other")); /* both are there before the fall */

    server_kill(w.s);
    begin = test_now_ms();
    server_restart(w.s, true);
    AWAIT(probe(rival, "k", &err) == HF_EQUARANTINE);
    hf_hold *theirs = take(rival, "k");
    EXPECT(test_now_ms() - begin >= MAX_MS);
    EXPECT(hf_hold_state(hold) == HF_LOST);
    EXPECT(hf_hold_token(theirs) > token);
    EXPECT_CODE(hf_release(hold, NULL), HF_EEXPIRED);
    EXPECT_CODE(hf_hold_check(theirs, NULL), 0);
    give(theirs);
    hf_close(s);
    hf_close(rival);
    expect_clean(&w, 2);
}

/* A primary that was cut off may go on granting for lag_ms: what it granted
 * last has ended, too, before anything is granted here. */
static void strict_waits_for_the_lag(void)
{
    enum { MAX_MS = 1000, LAG_MS = 1500 };
    world w =
        world_begin(NULL, "ns=t&strict=yes&max_lease_ms=1000&lag_ms=1500");
    long long begin = test_now_ms();
    hf_session *s = open_at(w.direct, MAX_MS);

    give(take(s, "k"));
    EXPECT(test_now_ms() - begin >= MAX_MS + LAG_MS);
    hf_close(s);
    expect_clean(&w, 2);
}

static void strict_limits_leases(void)
{
    world w = world_begin(NULL, "ns=t&strict=yes&max_lease_ms=3000");
    hf_session *s = NULL;
    hf_hold *hold = NULL;
    hf_error err = {0};
    char plain[300];
    int code = try_open(&s, w.direct, 5000, &err);

    if (code == 0) { /* a session attaches when it first needs to */
        code = hf_try_lock(s, "k", NULL, &hold, &err);
        hf_close(s);
    }
    EXPECT(hf_error_class(code) == HF_CLASS_SETUP ||
           hf_error_class(code) == HF_CLASS_CALLER);
    EXPECT_HAS(err.text, "3000");
    s = open_at(w.direct, 2000);
    EXPECT_CODE(probe(s, "k", &err), HF_EQUARANTINE);
    /* One who does not say strict is no member of this namespace. */
    hf_session *other = NULL;
    snprintf(plain, sizeof plain, "redis://127.0.0.1:%d/?ns=t", w.s->port);
    code = try_open(&other, plain, 2000, &err);
    if (code == 0) {
        code = hf_try_lock(other, "k", NULL, &hold, &err);
        hf_close(other);
    }
    EXPECT_CODE(code, HF_EURL);
    EXPECT_HAS(err.text, "strict");
    hf_close(s);
    world_end(&w);
}

/* ---- Standing still ----------------------------------------------------- */

static void paused_past_an_attempt(void)
{
    world w = world_begin(NULL, "ns=t");
    hf_session *s = open_at(w.direct, 0), *rival = open_at(w.direct, 0);
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = 300};
    hf_hold *hold = NULL;
    hf_error err = {0};

    give(take(s, "k"));
    server_pause(w.s);
    int code = hf_lock(s, "k", &opt, &hold, &err);
    EXPECT(code != 0 && hold == NULL);
    hf_class class_ = hf_error_class(code);
    EXPECT(code == HF_ETIMEDOUT || class_ == HF_CLASS_RETRY ||
           class_ == HF_CLASS_UNKNOWN);
    server_continue(w.s);
    AWAIT(count_entries(rival) == 0); /* what arrived late has gone again */
    test_sleep_ms(100);
    EXPECT_EQ(count_entries(rival), 0);
    give(take(rival, "k"));
    give(take(s, "k"));
    hf_close(s);
    hf_close(rival);
    expect_clean(&w, 1);
}

static void paused_past_the_lease(void)
{
    world w = world_begin(NULL, "ns=t");
    hf_session *s = open_at(w.direct, 1500), *rival = open_at(w.direct, 0);
    hf_hold *hold = take(s, "k");
    uint64_t token = hf_hold_token(hold);

    give(take(rival, "other"));
    server_pause(w.s);
    AWAIT(hf_hold_state(hold) == HF_LOST); /* by our own clock */
    EXPECT_CODE(hf_hold_check(hold, NULL), HF_EEXPIRED);
    test_sleep_ms(1500);
    server_continue(w.s);
    hf_hold *theirs = take(rival, "k");
    EXPECT(hf_hold_token(theirs) > token);
    EXPECT_CODE(hf_release(hold, NULL), HF_EEXPIRED);
    EXPECT_CODE(hf_hold_check(theirs, NULL), 0);
    give(theirs);
    give(take(s, "k"));
    hf_close(s);
    hf_close(rival);
    expect_clean(&w, 1);
}

/* ---- Refusals ----------------------------------------------------------- */

static void passwords(void)
{
    world w = world_begin(&(server_options){.password = "right"}, "ns=t");
    hf_session *s = NULL;
    hf_error err = {0};
    char url[300];

    EXPECT_CODE(try_open(&s, w.direct, 0, &err), HF_EAUTH);
    EXPECT_HAS(err.text, "password");
    snprintf(url, sizeof url, "redis://:wrong-secret@127.0.0.1:%d/?ns=t",
             w.s->port);
    EXPECT_CODE(try_open(&s, url, 0, &err), HF_EAUTH);
    EXPECT(strstr(err.text, "wrong-secret") == NULL);
    snprintf(url, sizeof url, "redis://:right@127.0.0.1:%d/?ns=t", w.s->port);
    s = open_at(url, 0);
    EXPECT(strstr(hf_session_url(s), "right") == NULL);
    give(take(s, "k"));
    hf_close(s);
    expect_clean(&w, 1);
}

/* The user is taken away in mid-flight, comes back with fewer rights, and then
 * with all of them. */
static void rights_change(void)
{
    world w = world_begin(NULL, "ns=t");
    hf_error err = {0};
    char url[300];

    server_ask(w.s, "ACL SETUSER app on >pw ~* &* +@all");
    snprintf(url, sizeof url, "redis://app:pw@127.0.0.1:%d/?ns=t", w.s->port);
    hf_session *s = open_at(url, 6000);
    hf_hold *hold = take(s, "k");
    EXPECT_EQ(server_number(w.s, "ACL DELUSER app"), 1);
    EXPECT_CODE(try_fresh(s, &err), HF_EAUTH);
    server_ask(w.s, "ACL SETUSER app on >pw ~* &* +@all -evalsha -eval");
    AWAIT(try_fresh(s, &err) == HF_EPERM);
    EXPECT_HAS(err.text, "eval");
    EXPECT_STR(server_ask(w.s, "ACL SETUSER app +@all"), "OK");
    AWAIT(hf_renew(hold, NULL) == 0);
    give(hold);
    EXPECT_CODE(try_fresh(s, &err), 0);
    hf_close(s);
    expect_clean(&w, 1);
}

static void too_many_clients(void)
{
    world w = world_begin(NULL, "ns=t");
    hf_session *s = open_at(w.direct, 0), *other = NULL;
    hf_error err = {0};

    give(take(s, "k"));
    EXPECT_STR(server_ask(w.s, "CONFIG SET maxclients 1"), "OK");
    AWAIT(try_open(&other, w.direct, 0, &err) == HF_EUNAVAIL);
    EXPECT_HAS(err.text, "maxclients");
    give(take(s, "k")); /* who is in stays in */
    hf_close(s);
    AWAIT(try_open(&other, w.direct, 0, &err) == 0);
    give(take(other, "k"));
    hf_close(other);
    AWAIT(server_ask(w.s, "CONFIG SET maxclients 100")[0] == 'O');
    expect_clean(&w, 1);
}

typedef struct ask {
    server *s;
    const char *words;
    pthread_t thread;
} ask;

static void *ask_slowly(void *arg)
{
    ask *a = arg;

    server_ask(a->s, "%s", a->words);
    return NULL;
}

/* Longer than a call is repeated; a shorter one is waited out. */
static void loading(void)
{
    world w = world_begin(NULL, "ns=t");
    hf_session *s = open_at(w.direct, 0);
    hf_hold *hold = take(s, "k");
    ask reload = {.s = w.s, .words = "DEBUG RELOAD"};
    hf_error err = {0};

    EXPECT_STR(server_ask(w.s, "DEBUG POPULATE 3500 x 100"), "OK");
    EXPECT_STR(server_ask(w.s, "CONFIG SET key-load-delay 2500"), "OK");
    EXPECT_STR(server_ask(w.s, "CONFIG SET "
                               "loading-process-events-interval-bytes 1024"),
               "OK");
    pthread_create(&reload.thread, NULL, ask_slowly, &reload);
    AWAIT(try_fresh(s, &err) == HF_EUNAVAIL);
    EXPECT_HAS(err.text, "loading");
    pthread_join(reload.thread, NULL);
    AWAIT(hf_renew(hold, NULL) == 0);
    AWAIT(hf_hold_state(hold) == HF_HELD); /* the doubt is lifted */
    give(hold);
    EXPECT_CODE(try_fresh(s, &err), 0);
    hf_close(s);
    expect_clean(&w, 3501);
}

static void becomes_a_replica(void)
{
    world w = world_begin(NULL, "ns=t");
    hf_session *s = open_at(w.direct, 8000), *other = NULL;
    hf_hold *hold = take(s, "k");
    hf_error err = {0};

    EXPECT_STR(server_ask(w.s, "REPLICAOF 127.0.0.1 1"), "OK");
    EXPECT_CODE(try_fresh(s, &err), HF_EUNAVAIL);
    EXPECT_HAS(err.text, "replica");
    EXPECT_CODE(try_open(&other, w.direct, 0, &err), HF_EUNAVAIL);
    EXPECT_HAS(err.text, "replica");
    EXPECT_STR(server_ask(w.s, "REPLICAOF NO ONE"), "OK");
    AWAIT(hf_renew(hold, NULL) == 0);
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    give(hold);
    EXPECT_CODE(try_fresh(s, &err), 0);
    hf_close(s);
    expect_clean(&w, 1);
}

static void busy_in(const char *query, long long keys_in_0)
{
    world w = world_begin(NULL, query);
    hf_session *s = open_at(w.direct, 20000);
    hf_hold *hold = take(s, "k");
    ask busy = {.s = w.s,
                .words = "EVAL while(true)do(redis.sha1hex)('')end 0"};
    hf_error err = {0};

    EXPECT_STR(server_ask(w.s, "CONFIG SET busy-reply-threshold 50"), "OK");
    pthread_create(&busy.thread, NULL, ask_slowly, &busy);
    AWAIT(try_fresh(s, &err) == HF_EUNAVAIL);
    EXPECT_HAS(err.text, "busy");
    for (int i = 0; i < 5; i++)
        EXPECT_CODE(hf_renew(hold, NULL), HF_EUNAVAIL);
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    EXPECT_STR(server_ask(w.s, "SCRIPT KILL"), "OK");
    pthread_join(busy.thread, NULL);
    give(hold);
    EXPECT_CODE(try_fresh(s, &err), 0);
    hf_close(s);
    expect_clean(&w, keys_in_0);
}

static void busy_with_a_script(void)
{
    busy_in("ns=t", 1);
    busy_in("ns=t&db=1", 0);
}

/* No memory: nothing new, but what is held can be renewed and given back. */
static void out_of_memory(void)
{
    world w = world_begin(NULL, "ns=t");
    hf_session *s = open_at(w.direct, 6000);
    hf_hold *hold = take(s, "k");
    hf_error err = {0};

    EXPECT_STR(server_ask(w.s, "CONFIG SET maxmemory 1"), "OK");
    EXPECT_CODE(try_fresh(s, &err), HF_EUNAVAIL);
    EXPECT_HAS(err.text, "memory");
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    int code = hf_release(hold, &err);
    EXPECT(code == 0 || code == HF_EUNKNOWN);
    EXPECT_STR(server_ask(w.s, "CONFIG SET maxmemory 0"), "OK");
    AWAIT(count_entries(s) == 0);
    EXPECT_CODE(probe(s, "k", &err), 0);
    hf_close(s);
    expect_clean(&w, 1);
}

static const test_case cases[] = {TEST(restart_with_memory),
                                  TEST(restart_without_memory),
                                  TEST(flushed),
                                  TEST(counter_set_back),
                                  TEST(counter_set_ahead),
                                  TEST(strict_waits),
                                  TEST(strict_waits_for_the_lag),
                                  TEST(strict_limits_leases),
                                  TEST(paused_past_an_attempt),
                                  TEST(paused_past_the_lease),
                                  TEST(passwords),
                                  TEST(rights_change),
                                  TEST(too_many_clients),
                                  TEST(loading),
                                  TEST(becomes_a_replica),
                                  TEST(busy_with_a_script),
                                  TEST(out_of_memory)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "redis", cases, sizeof cases / sizeof *cases);
}
