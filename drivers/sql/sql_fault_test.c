/* sql_fault_test.c - servers and clients that are killed, stopped, or slow.
 *
 * A row that somebody else has locked, a server process that is ended, a server
 * that crashes or stands still, a client that is stopped past its lease, and
 * the moment in which a session is renewed and thrown out at once.  Whatever
 * happens: never two holders, never a session that lives while its entries are
 * gone, tokens that rise, and somebody is granted in the end. */
#include "sql_fault_test.h"

/* ---- Killed server processes -------------------------------------------- */

/* Ends server processes of ours whose statement is like this; how many. */
static int kill_like(world *w, const char *like)
{
    char ids[2000];
    int count = 0;

    if (on_postgres())
        return (int)sql_server_number(
            w->s,
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE application_name = 'holdfast' AND query LIKE '%s'",
            like);
    snprintf(ids, sizeof ids, "%s",
             sql_server_ask(w->s,
                            "SELECT id FROM information_schema.processlist"
                            " WHERE db = 'holdfast' AND id <> connection_id()"
                            " AND (coalesce(info, '') LIKE '%s')",
                            like));
    for (char *at = ids, *end; *at; at = end) {
        long long id = strtoll(at, &end, 10);

        if (end == at)
            break;
        if (sql_server_ask(w->s, "KILL %lld", id)[0] != '-')
            count++;
    }
    return count;
}

/* While it waits for the row, which somebody else has locked. */
static void killed_while_it_waits(void)
{
    world w = world_begin(NULL, "");
    hf_session *s = open_at(w.direct, 0), *rival = open_at(w.direct, 0);
    waiter waits;
    uint64_t token;
    pid_t pid;
    hf_hold *hold = take(s, "k");

    token = hf_hold_token(hold);
    give(hold);
    pid = hold_row(w.s, "UPDATE hf_queue SET used_us = used_us", 1.5);
    waiter_start(&waits, s, "k");
    AWAIT(kill_like(&w, on_postgres() ? "UPDATE %hf_queue%" : "%hf_queue%") >
          0);
    await_child(pid);
    waiter_end(&waits);
    EXPECT(waits.token > token);
    EXPECT_EQ(entries_of(w.s, "k"), 0);
    give(take(rival, "k"));
    hf_close(s);
    hf_close(rival);
    expect_clean(&w);
}

/* All that is idle, then the listener; who waits is granted. */
static void killed_while_it_is_idle(void)
{
    world w = world_begin(NULL, "");
    hf_session *s = open_at(w.direct, 0), *rival = open_at(w.direct, 0);
    hf_hold *hold;
    uint64_t top = 0;

    give(take(s, "k"));
    for (int i = 0; i < 3; i++) {
        waiter waits;
        int code;

        hold = take(s, "k");
        EXPECT(hf_hold_token(hold) > top);
        top = hf_hold_token(hold);
        waiter_start(&waits, rival, "k");
        AWAIT(entries_of(w.s, "k") == 2);
        EXPECT(kill_like(&w, "%") > 0);
        if (i > 0)
            test_sleep_ms(i * 100);
        EXPECT_CODE(hf_hold_check(hold, NULL), 0);
        /* Several connections die one after the other under it. */
        code = hf_release(hold, NULL);
        EXPECT(code == 0 || code == HF_EUNKNOWN);
        waiter_end(&waits);
        EXPECT(waits.token > top);
        top = waits.token;
    }
    hf_close(s);
    hf_close(rival);
    expect_clean(&w);
}

/* ---- The whole server --------------------------------------------------- */

/* A crash under a holder and a waiter: what was committed is there again. */
static void server_crashes(void)
{
    world w = world_begin(NULL, "");
    hf_session *s = open_at(w.direct, 10000), *rival = open_at(w.direct, 10000);
    hf_hold *hold = take(s, "k");
    uint64_t token = hf_hold_token(hold);
    waiter waits;

    waiter_start(&waits, rival, "k");
    AWAIT(entries_of(w.s, "k") == 2);
    sql_server_kill(w.s);
    test_sleep_ms(200);
    EXPECT(hf_hold_state(hold) != HF_LOST);
    sql_server_restart(w.s);
    EXPECT_EQ(entries_of(w.s, "k"), 2);
    AWAIT(hf_renew(hold, NULL) == 0);
    EXPECT(!atomic_load(&waits.done));
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    give(hold);
    waiter_end(&waits);
    EXPECT(waits.token > token);
    hf_close(s);
    hf_close(rival);
    expect_clean(&w);
}

/* A server that stands still for longer than the lease: the holder knows
 * before anybody can be granted. */
static void server_stands_still(void)
{
    world w = world_begin(NULL, "");
    hf_session *s = open_at(w.direct, 2000), *rival = open_at(w.direct, 0);
    hf_hold *hold = take(s, "k"), *theirs;
    uint64_t token = hf_hold_token(hold);
    long long stopped = test_now_ms();

    give(take(rival, "other"));
    sql_server_pause(w.s);
    AWAIT(hf_hold_state(hold) == HF_LOST);
    EXPECT(test_now_ms() - stopped < 2000);
    test_sleep_ms((int)(2200 - (test_now_ms() - stopped)));
    sql_server_continue(w.s);
    theirs = take(rival, "k");
    EXPECT(hf_hold_token(theirs) > token);
    EXPECT(hf_release(hold, NULL) != 0);
    EXPECT_CODE(hf_hold_check(theirs, NULL), 0);
    EXPECT_EQ(entries_of(w.s, "k"), 1);
    give(theirs);
    give(take(s, "k"));
    hf_close(s);
    hf_close(rival);
    expect_clean(&w);
}

/* ---- Rows that are locked for long -------------------------------------- */

/* Somebody has locked every queue (a careless transaction, a backup), and more
 * threads wait for them than there are connections: what is held is renewed
 * all the same. */
static void renewals_are_not_starved(void)
{
    static char keys[12][8];
    world w = world_begin(NULL, "");
    hf_session *s = open_at(w.direct, 3000);
    waiter waits[12];
    hf_hold *hold;
    pid_t pid;

    for (int i = 0; i < 12; i++) {
        snprintf(keys[i], sizeof keys[i], "k%d", i);
        give(take(s, keys[i]));
    }
    hold = take(s, "held");
    pid = hold_row(w.s, "UPDATE hf_queue SET used_us = used_us", 8.0);
    for (int i = 0; i < 12; i++)
        waiter_start(&waits[i], s, keys[i]);
    while (child_ended(pid) < 0) {
        EXPECT(hf_hold_state(hold) != HF_LOST);
        test_sleep_ms(20);
    }
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    for (int i = 0; i < 12; i++) {
        AWAIT(atomic_load(&waits[i].done));
        EXPECT(waits[i].code == 0 || waits[i].code == HF_EUNAVAIL);
        atomic_store(&waits[i].let_go, true);
        pthread_join(waits[i].thread, NULL);
    }
    give(hold);
    hf_close(s);
    expect_clean(&w);
}

/* ---- The renewal and the eviction --------------------------------------- */

/* Runs one operation of a party on a thread of its own. */
typedef struct running {
    pthread_t thread;
    party *p;
    hf_place *place; /* NULL: a renewal */
    int ttl_ms, code;
} running;

static void *run_running(void *arg)
{
    running *r = arg;

    r->code =
        r->place ? try_join(r->p, r->place) : party_renew(r->p, r->ttl_ms);
    return NULL;
}

static void start_running(running *r)
{
    EXPECT(pthread_create(&r->thread, NULL, run_running, r) == 0);
}

/* Until so long after that instant. */
static void sleep_until(long long began, int ms)
{
    long long left = began + ms - test_now_ms();

    if (left > 0)
        test_sleep_ms((int)left);
}

/* The row of the session is locked by somebody who gives up; a renewal waits
 * for it past the end of the lease, and so does an eviction.  Whoever comes
 * first: either the session lives and its entry stands, or neither.  A renewal
 * that was begun in time and is first in the line makes it live: the eviction
 * behind it, which saw it over, must look again. */
static void race_renewal(const char *query)
{
    enum { LEASE_MS = 2000 };
    world w = world_begin(NULL, query);
    int lived = 0, died = 0;

    /* On a slow machine more often, until both have been. */
    for (int i = 0; i < 20 && (lived == 0 || died == 0); i++) {
        party *q = party_open(w.direct, LONG_MS),
              *p = party_open(w.direct, LEASE_MS);
        hf_place held = make_place("k", HF_EXCLUSIVE);
        hf_place place = make_place("k", HF_EXCLUSIVE);
        running renews = {.p = p, .ttl_ms = 5000};
        running takes = {.p = q, .place = &place};
        long long began;
        pid_t pid;

        must_hold(p, &held);
        EXPECT_OK(party_renew(p, LEASE_MS), p->err);
        began = test_now_ms();
        EXPECT_CODE(try_join(q, &place), HF_EBUSY); /* an observer begins */
        pid = hold_row(w.s, "UPDATE hf_session SET name = 'x'", 2.4);
        if (i % 2 == 0) { /* before the end, and not so long that it gives up */
            sleep_until(began, LEASE_MS - 300);
            start_running(&renews);
        }
        sleep_until(began, LEASE_MS + 100);
        start_running(&takes);
        if (i % 2) {
            sleep_until(began, LEASE_MS + 300);
            start_running(&renews);
        }
        await_child(pid);
        pthread_join(renews.thread, NULL);
        pthread_join(takes.thread, NULL);
        if (renews.code == 0 && p->remaining > 0) {
            lived++;
            EXPECT_CODE(takes.code, HF_EBUSY);
            EXPECT_OK(recheck(p, &held), p->err);
            EXPECT_EQ(held.verdict, HF_GRANTED);
        } else {
            died++;
            EXPECT(takes.code == 0 || takes.code == HF_EBUSY);
            EXPECT(party_renew(p, LEASE_MS) != 0);
        }
        EXPECT_EQ(entries_of(w.s, "k"), 1);
        EXPECT_OK(party_detach(p), p->err);
        party_drop(p);
        party_close(q);
        EXPECT_EQ(count_left(&w), 0);
    }
    fprintf(stderr, "lived %d times, died %d times\n", lived, died);
    EXPECT(lived > 0 && died > 0);
    expect_clean(&w);
}

static void renewal_against_eviction(void)
{
    race_renewal("");
}

static void renewal_against_observer(void)
{
    race_renewal("clock=observer");
}

/* ---- The pooler --------------------------------------------------------- */

static void behind_a_pooler(void)
{
    sql_server_options opt = {0};
    sql_server *pooler;
    world w;
    char url[400];
    hf_session *s, *rival;
    waiter waits;
    hf_hold *hold;
    uint64_t token;

    if (!on_postgres())
        skip_test("this store has no PgBouncer");
    w = world_begin(NULL, "");
    opt.behind = w.s;
    pooler = sql_server_start(ON_PGBOUNCER, &opt);
    write_url(url, pooler->port, "");
    s = open_at(url, 5000);
    rival = open_at(url, 5000);
    EXPECT(!(hf_session_caps(s) & HF_CAP_PUSH)); /* it says so */
    for (int i = 0; i < 20; i++)
        give(take(s, "k"));
    hold = take(s, "k");
    token = hf_hold_token(hold);
    waiter_start(&waits, rival, "k");
    AWAIT(entries_of(w.s, "k") == 2);
    /* The pooler dies, and another comes. */
    sql_server_kill(pooler);
    test_sleep_ms(300);
    sql_server_restart(pooler);
    AWAIT(hf_renew(hold, NULL) == 0);
    give(hold);
    waiter_end(&waits);
    EXPECT(waits.token > token);
    hf_close(s);
    hf_close(rival);
    expect_nothing(&w);
    sql_server_stop(pooler);
    world_end(&w);
}

static const test_case cases[] = {TEST(killed_while_it_waits),
                                  TEST_LIMIT(killed_while_it_is_idle, 120),
                                  TEST_LIMIT(server_crashes, 90),
                                  TEST(server_stands_still),
                                  TEST_LIMIT(renewals_are_not_starved, 120),
                                  TEST_LIMIT(renewal_against_eviction, 120),
                                  TEST_LIMIT(renewal_against_observer, 120),
                                  TEST(behind_a_pooler)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "sql_fault", cases,
                     sizeof cases / sizeof *cases);
}
