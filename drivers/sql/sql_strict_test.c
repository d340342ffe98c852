/* sql_strict_test.c - a server that has forgotten: failover, and strict=yes.
 *
 * PostgreSQL with a standby that is cut off: a lock is taken on the primary,
 * which dies, and the standby that never heard of it is promoted.
 * Without strict a second holder may be granted at once (the page says so, and
 * this shows it); with strict nobody is, until every lease of before is over,
 * and the old holder has been told that it lost.  MariaDB tells another server
 * by its name, port and number: it is restarted under another number. */
#include "sql_fault_test.h"

enum { LEASE_MS = 2000, MAX_LEASE_MS = 3000 };
#define STRICT "strict=yes&max_lease_ms=3000"
/* Longer than a failover takes: the session lives on at the new server. */
enum { PAIR_LEASE_MS = 7000, PAIR_MAX_MS = 8000 };
#define PAIR_STRICT "strict=yes&max_lease_ms=8000"

static void only_postgres(void)
{
    if (!on_postgres())
        skip_test("this store has no standby in the tests");
}

/* The quarantine of a store's first use is over. */
static void settle(sql_server *s)
{
    sql_server_ask(s, "UPDATE hf_meta SET quarantine_us = 0");
}

/* ---- A standby ---------------------------------------------------------- */

typedef struct pair {
    sql_server *primary, *standby;
    relay *r; /* clients come this way; the test turns it round */
    char url[400];
} pair;

static pair pair_begin(const char *query)
{
    pair two = {.primary = sql_server_start(ON_POSTGRES, NULL)};
    sql_server_options opt = {.copies = two.primary};

    two.standby = sql_server_start(ON_POSTGRES, &opt);
    two.r = relay_start(two.primary->port);
    write_url(two.url, two.r->port, query);
    return two;
}

/* The tables, the session and a used key are at the standby; from then on it
 * receives nothing, and the lock is taken more often than it knows. */
static hf_hold *take_unseen(pair *two, hf_session *s)
{
    settle(two->primary);
    give(take(s, "k"));
    AWAIT(sql_server_number(two->standby,
                            "SELECT CASE WHEN to_regclass('hf_queue') IS NULL"
                            " THEN 0 ELSE 1 END") == 1);
    AWAIT(sql_server_number(two->standby,
                            "SELECT count(*) FROM hf_queue WHERE body = ''"
                            " AND counter > 0") == 1);
    sql_server_ask(two->standby, "ALTER SYSTEM SET primary_conninfo = ''");
    sql_server_ask(two->standby, "SELECT pg_reload_conf()");
    AWAIT(sql_server_number(two->standby, "SELECT count(*) FROM"
                                          " pg_stat_wal_receiver") == 0);
    for (int i = 0; i < 50; i++)
        give(take(s, "k"));
    return take(s, "k");
}

/* Clients meet the other server from now on, without a gap: a pooler would
 * tell of one. */
static void fail_over(pair *two)
{
    bool cut = true;

    sql_server_ask(two->standby, "SELECT pg_promote(true, 10)");
    AWAIT(sql_server_number(two->standby,
                            "SELECT CASE WHEN pg_is_in_recovery() THEN 1"
                            " ELSE 0 END") == 0);
    pthread_mutex_lock(&two->r->mutex);
    two->r->server_port = two->standby->port;
    two->r->cut_all = true;
    pthread_mutex_unlock(&two->r->mutex);
    while (cut) {
        test_sleep_ms(1);
        pthread_mutex_lock(&two->r->mutex);
        cut = two->r->cut_all;
        pthread_mutex_unlock(&two->r->mutex);
    }
    sql_server_kill(two->primary);
}

static void pair_end(pair *two)
{
    relay_stop(two->r);
    sql_server_stop(two->standby);
    sql_server_stop(two->primary);
}

static void without_strict(void)
{
    pair two;
    hf_session *s, *rival;
    hf_hold *hold, *theirs;

    only_postgres();
    two = pair_begin("");
    s = open_at(two.url, PAIR_LEASE_MS);
    hold = take_unseen(&two, s);
    fail_over(&two);
    rival = open_at(two.url, PAIR_LEASE_MS);
    theirs = take(rival, "k");
    /* Two holders, for the rest of the first one's lease or until it looks:
     * what the page says of a failover without strict. */
    EXPECT_EQ(entries_of(two.standby, "k"), 1);
    AWAIT(hf_hold_state(hold) == HF_LOST);
    EXPECT_CODE(hf_hold_check(theirs, NULL), 0);
    EXPECT(hf_release(hold, NULL) != 0);
    EXPECT_CODE(hf_hold_check(theirs, NULL), 0);
    give(theirs);
    hf_close(s);
    hf_close(rival);
    pair_end(&two);
}

static void with_strict(void)
{
    pair two;
    hf_session *s, *rival;
    hf_hold *hold, *theirs, *none = NULL;
    hf_error err;
    uint64_t token;
    long long began;

    only_postgres();
    two = pair_begin(PAIR_STRICT);
    s = open_at(two.url, PAIR_LEASE_MS);
    hold = take_unseen(&two, s);
    token = hf_hold_token(hold);
    EXPECT(token > 0);
    fail_over(&two);
    rival = open_at(two.url, PAIR_LEASE_MS);
    began = test_now_ms();
    EXPECT_CODE(hf_try_lock(rival, "k", NULL, &none, &err), HF_EQUARANTINE);
    theirs = take(rival, "k");
    EXPECT(test_now_ms() - began > PAIR_MAX_MS - 500);
    EXPECT_EQ(hf_hold_state(hold), HF_LOST);
    EXPECT(hf_hold_check(hold, NULL) != 0);
    EXPECT_CODE(hf_hold_check(theirs, NULL), 0);
    EXPECT(hf_hold_token(theirs) > token);
    give(theirs);
    hf_close(s);
    hf_close(rival);
    pair_end(&two);
}

/* Behind PgBouncer the failover breaks no connection of ours. */
static void hidden_by_a_pooler(void)
{
    pair two;
    sql_server *pooler;
    sql_server_options opt = {0};
    char url[400];
    hf_session *s, *rival;
    hf_hold *hold, *theirs;

    only_postgres();
    two = pair_begin(PAIR_STRICT);
    opt.behind = &(sql_server){.port = two.r->port};
    pooler = sql_server_start(ON_PGBOUNCER, &opt);
    write_url(url, pooler->port, PAIR_STRICT);
    s = open_at(url, PAIR_LEASE_MS);
    hold = take_unseen(&two, s);
    fail_over(&two);
    rival = open_at(url, PAIR_LEASE_MS);
    theirs = take(rival, "k");
    EXPECT(hf_hold_state(hold) == HF_LOST);
    EXPECT_CODE(hf_hold_check(theirs, NULL), 0);
    give(theirs);
    hf_close(s);
    hf_close(rival);
    sql_server_stop(pooler);
    pair_end(&two);
}

/* ---- Another epoch ------------------------------------------------------ */

/* The server says that it is another one. */
static void change_epoch(world *w)
{
    static const char *other = "--server-id=77";

    if (on_postgres()) {
        sql_server_ask(w->s, "UPDATE hf_meta SET epoch = 'before'");
        return;
    }
    sql_server_terminate(w->s);
    w->s->options.more[0] = other;
    sql_server_restart(w->s);
}

static void another_server(void)
{
    world w = world_begin(NULL, STRICT);
    hf_session *s = open_at(w.direct, LEASE_MS);
    hf_session *rival = open_at(w.direct, LEASE_MS);
    hf_hold *hold, *none = NULL;
    waiter waits;
    uint64_t token;
    long long began;

    settle(w.s);
    hold = take(s, "k");
    token = hf_hold_token(hold);
    waiter_start(&waits, rival, "k");
    AWAIT(entries_of(w.s, "k") == 2);
    began = test_now_ms();
    change_epoch(&w);
    hf_release(hold, NULL);
    EXPECT_CODE(hf_try_lock(s, "other", NULL, &none, NULL), HF_EQUARANTINE);
    EXPECT(none == NULL);
    waiter_end(&waits);
    EXPECT(test_now_ms() - began > MAX_LEASE_MS - 500);
    EXPECT(waits.token > token);
    EXPECT_EQ(entries_of(w.s, "other"), 0); /* a try leaves nothing behind */
    give(take(s, "k"));                     /* and once is enough */
    hf_close(s);
    hf_close(rival);
    expect_clean(&w);
}

/* A strict store allows no lease that the quarantine would not cover. */
static void leases_are_bounded(void)
{
    world w = world_begin(NULL, STRICT);
    hf_error err = {0};
    party *p = NULL;
    hf_place place = make_place("k", HF_EXCLUSIVE);
    hf_id sid = {{1}};

    EXPECT_OK(try_party(&p, w.direct, &err), err);
    EXPECT(p != NULL);
    EXPECT_CODE(party_attach_as(p, &sid, MAX_LEASE_MS + 1000), HF_EINVAL);
    party_attach(p, LEASE_MS);
    EXPECT_CODE(party_renew(p, MAX_LEASE_MS + 1000), HF_EINVAL);
    place.lease = HF_MS(MAX_LEASE_MS + 1000);
    EXPECT_CODE(join(p, &place), HF_EINVAL);
    party_close(p);
    /* Everybody goes by the same rule. */
    write_url(w.direct, w.s->port, "");
    EXPECT_CODE(try_party(&p, w.direct, &err), HF_EURL);
    EXPECT_HAS(err.text, "strict=yes");
    write_url(w.direct, w.s->port, "strict=yes&max_lease_ms=9000");
    EXPECT_CODE(try_party(&p, w.direct, &err), HF_EURL);
    expect_clean(&w);
}

/* Tables that were made just now may stand on a server that has forgotten older
 * ones: nobody is granted at once there, and numbers do not begin anew. */
static void tables_are_gone(void)
{
    world w = world_begin(NULL, STRICT);
    hf_session *s = open_at(w.direct, LEASE_MS), *rival;
    hf_hold *hold, *theirs;
    uint64_t token;
    long long began;

    settle(w.s);
    hold = take(s, "k");
    token = hf_hold_token(hold);
    began = test_now_ms();
    sql_server_ask(w.s, "DROP TABLE hf_queue, hf_session, hf_meta, hf_value");
    rival = open_at(w.direct, LEASE_MS);
    theirs = take(rival, "k");
    EXPECT(test_now_ms() - began > MAX_LEASE_MS - 500);
    EXPECT_EQ(hf_hold_state(hold), HF_LOST);
    EXPECT(hf_hold_token(theirs) > token);
    give(theirs);
    hf_close(s);
    hf_close(rival);
    world_end(&w);
}

/* A quarantine has an end by the server's clock, which an observer does not
 * read: who wants both is told. */
static void strict_and_observer(void)
{
    world w = world_begin(NULL, STRICT "&clock=observer");
    hf_error err = {0};
    party *p = NULL;

    EXPECT_CODE(try_party(&p, w.direct, &err), HF_EURL);
    EXPECT_HAS(err.text, "observer");
    world_end(&w);
}

static const test_case cases[] = {
    TEST_LIMIT(without_strict, 90),     TEST_LIMIT(with_strict, 90),
    TEST_LIMIT(hidden_by_a_pooler, 90), TEST_LIMIT(another_server, 90),
    TEST(leases_are_bounded),           TEST(tables_are_gone),
    TEST(strict_and_observer)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "sql_strict", cases,
                     sizeof cases / sizeof *cases);
}
