/* store_test.c - locks while PostgreSQL fails under them.
 *
 * Sessions of the public API on real servers: connections thrown out, a server
 * restarted, answers lost, a standby promoted that has forgotten.  In each the
 * old holder knows before the next one is granted, and tokens rise. */
#include <holdfast/holdfast.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "harness/expect.h"
#include "harness/runner.h"
#include "harness/sql_server.h"
#include "harness/relay.h"

enum { PATIENCE_MS = 15000 };

#define AWAIT(condition)                                                       \
    do {                                                                       \
        if (!WAIT_FOR(condition, PATIENCE_MS))                                 \
            FAIL_TEST("waited in vain for: %s", #condition);                   \
    } while (0)

static hf_session *open_at(const char *url, int64_t lease_ms)
{
    hf_open_options opt = {HF_OPEN_OPTIONS, .lease_ms = lease_ms};
    hf_session *s = NULL;
    hf_error err;

    EXPECT_OK(hf_open(&s, url, &opt, &err), err);
    return s;
}

static hf_hold *take(hf_session *s, const char *key)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = PATIENCE_MS};
    hf_hold *hold = NULL;
    hf_error err;

    EXPECT_OK(hf_lock(s, key, &opt, &hold, &err), err);
    return hold;
}

static void give(hf_hold *hold)
{
    hf_error err;

    EXPECT_OK(hf_release(hold, &err), err);
}

/* A thread that wants a lock, and keeps it until it is told. */
typedef struct waiter {
    hf_session *s;
    pthread_t thread;
    atomic_bool has, let_go;
    uint64_t token;
} waiter;

static void *run_waiter(void *arg)
{
    waiter *w = arg;
    hf_hold *hold = take(w->s, "k");

    w->token = hf_hold_token(hold);
    atomic_store(&w->has, true);
    while (!atomic_load(&w->let_go))
        test_sleep_ms(1);
    give(hold);
    return NULL;
}

static void waiter_start(waiter *w, hf_session *s)
{
    *w = (waiter){.s = s};
    EXPECT(pthread_create(&w->thread, NULL, run_waiter, w) == 0);
}

static void waiter_end(waiter *w)
{
    AWAIT(atomic_load(&w->has));
    atomic_store(&w->let_go, true);
    pthread_join(w->thread, NULL);
}

static int entries_of(sql_server *s)
{
    return (int)sql_server_number(
        s, "SELECT sum(length(body) - length(replace(body, '|', '')))"
           " FROM hf_queue");
}

static void throw_out(sql_server *s, const char *which)
{
    sql_server_ask(s,
                   "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                   " WHERE application_name = 'holdfast' AND query %s"
                   " 'UNLISTEN%%'",
                   which);
}

/* An operator ends our connections, again and again. */
static void connections_thrown_out(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    hf_session *one = open_at(sql_server_url(s, "", ""), 0);
    hf_session *two = open_at(sql_server_url(s, "", ""), 0);

    for (int i = 0; i < 3; i++) {
        hf_hold *hold = take(one, "k");
        uint64_t token = hf_hold_token(hold);
        waiter waits;
        int code;

        waiter_start(&waits, two);
        AWAIT(entries_of(s) == 2);
        throw_out(s, i == 1 ? "LIKE" : "NOT LIKE");
        code = hf_renew(hold, NULL);
        EXPECT(code == 0 || code == HF_EUNKNOWN || code == HF_EUNAVAIL);
        AWAIT(hf_renew(hold, NULL) == 0);
        give(hold);
        waiter_end(&waits);
        EXPECT(waits.token > token);
    }
    hf_close(one);
    hf_close(two);
    EXPECT_EQ(entries_of(s), 0);
    EXPECT_EQ(sql_server_number(s, "SELECT count(*) FROM hf_session"), 0);
    sql_server_stop(s);
}

/* The server is killed and comes back with what was committed. */
static void server_restarted(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    hf_session *one = open_at(sql_server_url(s, "", ""), 10000);
    hf_session *two = open_at(sql_server_url(s, "", ""), 10000);
    hf_hold *hold = take(one, "k"), *other = NULL;
    uint64_t token = hf_hold_token(hold);
    waiter waits;

    waiter_start(&waits, two);
    AWAIT(entries_of(s) == 2);
    sql_server_kill(s);
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    sql_server_restart(s);
    AWAIT(hf_renew(hold, NULL) == 0);
    EXPECT_CODE(hf_try_lock(two, "k", NULL, &other, NULL), HF_EBUSY);
    give(hold);
    waiter_end(&waits);
    EXPECT(waits.token > token);
    hf_close(one);
    hf_close(two);
    EXPECT_EQ(entries_of(s), 0);
    sql_server_stop(s);
}

/* Gone for longer than the lease: lost here before anybody is granted. */
static void server_paused_too_long(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    hf_session *one = open_at(sql_server_url(s, "", ""), 2000);
    hf_session *two = open_at(sql_server_url(s, "", ""), 2000);
    hf_hold *hold = take(one, "k"), *next;
    uint64_t token = hf_hold_token(hold);

    sql_server_pause(s);
    AWAIT(hf_hold_check(hold, NULL) != 0);
    EXPECT_EQ(hf_hold_state(hold), HF_LOST);
    sql_server_continue(s);
    EXPECT_EQ(hf_error_class(hf_release(hold, NULL)), HF_CLASS_LOST);
    next = take(two, "k");
    EXPECT(hf_hold_token(next) > token);
    give(next);
    hf_close(one);
    hf_close(two);
    sql_server_stop(s);
}

/* Every answer is lost for a while: asked again by id, one entry, one token. */
static void answers_lost(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    relay r;
    char url[200];
    hf_session *one, *two;
    uint64_t last = 0;

    relay_start(&r, s->port);
    snprintf(url, sizeof url, "postgres://postgres@127.0.0.1:%d/holdfast",
             r.port);
    one = open_at(url, 0);
    two = open_at(sql_server_url(s, "", ""), 0);
    give(take(one, "k"));
    for (int i = 0; i < 4; i++) {
        hf_hold *none = NULL;
        waiter taker;

        atomic_store(&r.cut, i % 2 == 0);
        atomic_store(&r.lost, 0);
        atomic_store(&r.mute, true);
        waiter_start(&taker, one);
        AWAIT(atomic_load(&r.lost) > 0);
        atomic_store(&r.mute, false);
        AWAIT(atomic_load(&taker.has));
        EXPECT(taker.token > last);
        last = taker.token;
        EXPECT_EQ(entries_of(s), 1);
        EXPECT_CODE(hf_try_lock(two, "k", NULL, &none, NULL), HF_EBUSY);
        waiter_end(&taker);
        AWAIT(entries_of(s) == 0);
    }
    hf_close(one);
    hf_close(two);
    relay_stop(&r);
    sql_server_stop(s);
}

/* A standby of this server that follows no more: what is done from now on it
 * will not have heard of. */
static sql_server *stale_copy(sql_server *s)
{
    sql_server *copy =
        sql_server_start(ON_POSTGRES, &(sql_server_options){.copies = s});

    AWAIT(sql_server_number(copy, "SELECT count(*) FROM hf_session") > 0);
    sql_server_ask(copy, "ALTER SYSTEM SET primary_conninfo = ''");
    sql_server_ask(copy, "SELECT pg_reload_conf()");
    AWAIT(sql_server_number(copy, "SELECT count(*) FROM pg_stat_wal_receiver"
                                  " WHERE pid IS NOT NULL") == 0);
    return copy;
}

/* Nothing is granted until the old holder has lost it by its arithmetic. */
static void forgetful_standby(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL), *copy;
    const char *query = "strict=yes&max_lease_ms=4000";
    hf_session *one = open_at(sql_server_url(s, "", query), 3000), *two;
    hf_hold *hold, *next = NULL;

    give(take(one, "k"));
    copy = stale_copy(s);
    hold = take(one, "k");
    sql_server_kill(s);
    sql_server_promote(copy);
    two = open_at(sql_server_url(copy, "", query), 3000);
    EXPECT_CODE(hf_try_lock(two, "k", NULL, &next, NULL), HF_EQUARANTINE);
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    next = take(two, "k");
    EXPECT_EQ(hf_hold_state(hold), HF_LOST);
    give(next);
    EXPECT_EQ(hf_error_class(hf_release(hold, NULL)), HF_CLASS_LOST);
    hf_close(two);
    hf_close(one);
    sql_server_stop(copy);
    sql_server_stop(s);
}

/* One that heard of everything: the session goes on there. */
static void faithful_standby(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    sql_server *copy =
        sql_server_start(ON_POSTGRES, &(sql_server_options){.copies = s});
    char url[200];
    hf_session *one, *two;
    hf_hold *hold, *none = NULL;
    uint64_t token;

    snprintf(url, sizeof url,
             "postgres://postgres@127.0.0.1:%d,127.0.0.1:%d/holdfast", s->port,
             copy->port);
    one = open_at(url, 10000);
    two = open_at(url, 10000);
    hold = take(one, "k");
    token = hf_hold_token(hold);
    AWAIT(sql_server_number(copy, "SELECT count(*) FROM pg_class WHERE"
                                  " relname = 'hf_queue'") == 1);
    AWAIT(entries_of(copy) == 1);
    sql_server_kill(s);
    sql_server_promote(copy);
    AWAIT(hf_renew(hold, NULL) == 0);
    EXPECT_CODE(hf_try_lock(two, "k", NULL, &none, NULL), HF_EBUSY);
    give(hold);
    hold = take(two, "k");
    EXPECT(hf_hold_token(hold) > token);
    give(hold);
    hf_close(one);
    hf_close(two);
    sql_server_stop(copy);
    sql_server_stop(s);
}

static const test_case cases[] = {
    TEST(connections_thrown_out), TEST(server_restarted),
    TEST(server_paused_too_long), TEST(answers_lost),
    TEST(forgetful_standby),      TEST(faithful_standby)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "store", cases, sizeof cases / sizeof *cases);
}
