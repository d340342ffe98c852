/* sql_observer_test.c - clocks that cannot be trusted.
 *
 * A server's clock that is set forward makes every session look expired.  With
 * clock=observer that costs nobody his lock: a session is over when somebody
 * has seen it silent for its whole lease, on his own clock.  Without it the
 * lock is lost, and the holder is told.
 *
 * Here the clock is not touched: what it would make of the instants in the
 * tables is written there by hand; or (PostgreSQL) a function that stands
 * before the server's own in the search path is the clock. */
#include "sql_fault_test.h"

enum { TTL_MS = 3000, MANY = 150 };

/* As all sessions look after a long step forward. */
static void step_forward(sql_server *s)
{
    sql_server_ask(s, "UPDATE hf_session SET exp_us = 1");
}

static void step_costs_nothing(void)
{
    world w = world_begin(NULL, "clock=observer");
    party *p = party_open(w.direct, TTL_MS), *q = party_open(w.direct, LONG_MS);
    hf_place held = make_place("k", HF_EXCLUSIVE);
    hf_place place = make_place("k", HF_EXCLUSIVE);
    hf_place waits = make_place("k", HF_EXCLUSIVE);

    EXPECT(!(p->caps & (HF_CAP_CLOCK | HF_CAP_LINEARIZABLE)));
    must_hold(p, &held);
    for (int i = 0; i < 8; i++) { /* twice its lease */
        step_forward(w.s);
        EXPECT_CODE(try_join(q, &place), HF_EBUSY);
        if (i == 0)
            must_wait(q, &waits);
        EXPECT_OK(recheck(q, &waits), q->err);
        EXPECT_EQ(waits.verdict, HF_WAITS);
        EXPECT_OK(party_renew(p, TTL_MS), p->err);
        test_sleep_ms(TTL_MS / 4);
    }
    must_leave(p, &held);
    EXPECT_OK(recheck(q, &waits), q->err);
    EXPECT_EQ(waits.verdict, HF_GRANTED);
    EXPECT(waits.token > held.token);
    must_leave(q, &waits);
    party_close(p);
    party_close(q);
    expect_clean(&w);
}

/* The same without it: the lock is lost, the holder hears of it, and what he
 * sends late changes nothing. */
static void step_of_a_trusted_clock(void)
{
    world w = world_begin(NULL, "");
    party *p = party_open(w.direct, LONG_MS);
    party *q = party_open(w.direct, LONG_MS);
    hf_place held = make_place("k", HF_EXCLUSIVE);
    hf_place late = make_place("k", HF_EXCLUSIVE);
    hf_place place = make_place("k", HF_EXCLUSIVE);

    must_hold(p, &held);
    step_forward(w.s);
    party_attach(q, LONG_MS); /* since then */
    EXPECT_OK(try_join(q, &place), q->err);
    EXPECT(place.token > held.token);
    EXPECT_CODE(join(p, &late), HF_EEXPIRED);
    EXPECT_CODE(party_renew(p, LONG_MS), HF_EEXPIRED);
    EXPECT_OK(leave(p, &held, false), p->err);
    EXPECT_EQ(held.verdict, HF_GONE);
    EXPECT_EQ(held.reason, HF_EEXPIRED);
    EXPECT_EQ(entries_of(w.s, "k"), 1);
    must_leave(q, &place);
    party_close(p);
    party_close(q);
    sql_server_ask(w.s, "DELETE FROM hf_session"); /* q's first */
    expect_clean(&w);
}

/* Seen silent for the whole lease, from the first look on; not earlier. */
static void silence_is_death(void)
{
    world w = world_begin(NULL, "clock=observer");
    party *p = party_open(w.direct, TTL_MS), *q;
    hf_place held = make_place("k", HF_EXCLUSIVE);
    hf_place place = make_place("k", HF_EXCLUSIVE);
    long long began;

    must_hold(p, &held);
    test_sleep_ms(2 * TTL_MS); /* nobody looked: nobody knows */
    began = test_now_ms();
    q = party_open(w.direct, LONG_MS);
    must_wait(q, &place);
    EXPECT(place.look_in > 0 && place.look_in < HF_MS(2 * TTL_MS));
    while (place.verdict != HF_GRANTED) {
        EXPECT(test_now_ms() - began < PATIENCE_MS);
        test_sleep_ms(20);
        EXPECT_OK(recheck(q, &place), q->err);
    }
    EXPECT(test_now_ms() - began >= TTL_MS);
    EXPECT_CODE(party_renew(p, TTL_MS), HF_EEXPIRED);
    EXPECT_OK(leave(p, &held, false), p->err);
    EXPECT_EQ(held.verdict, HF_GONE);
    EXPECT_EQ(entries_of(w.s, "k"), 1);
    must_leave(q, &place);
    party_close(p);
    party_close(q);
    expect_clean(&w);
}

/* A fixed lease that is confirmed again in time is not over for who watches. */
static void watched_lease(void)
{
    world w = world_begin(NULL, "clock=observer");
    party *p = party_open(w.direct, LONG_MS),
          *q = party_open(w.direct, LONG_MS);
    hf_place held = make_place("k", HF_EXCLUSIVE);
    hf_place place = make_place("k", HF_EXCLUSIVE);
    hf_op op = {.kind = HF_OP_CONFIRM, .place = &held};
    long long began;

    held.lease = HF_MS(TTL_MS);
    must_hold(p, &held);
    must_wait(q, &place);
    for (int i = 0; i < 6; i++) {
        EXPECT_OK(run_op(p, &op), p->err);
        EXPECT_EQ(held.verdict, HF_GRANTED);
        EXPECT_OK(recheck(q, &place), q->err);
        EXPECT_EQ(place.verdict, HF_WAITS);
        test_sleep_ms(TTL_MS / 3);
    }
    EXPECT_OK(run_op(p, &op), p->err);
    began = test_now_ms();
    while (place.verdict != HF_GRANTED) {
        EXPECT(test_now_ms() - began < PATIENCE_MS);
        test_sleep_ms(20);
        EXPECT_OK(recheck(q, &place), q->err);
    }
    EXPECT(test_now_ms() - began >= TTL_MS);
    EXPECT(place.token > held.token);
    must_leave(q, &place);
    party_close(p);
    party_close(q);
    expect_clean(&w);
}

/* Behind more sessions than are looked at in one piece: who died without a
 * lock, so that nobody else looks at it, is found by the tidying. */
static void silent_behind_many(void)
{
    world w = world_begin(NULL, "clock=observer");
    party *p = party_open(w.direct, LONG_MS);
    char sid[SQL_ID_LEN + 1];
    hf_id id;

    for (int i = 0; i <= MANY; i++) {
        for (size_t at = 0; at < sizeof id.bytes; at++)
            id.bytes[at] = (uint8_t[]){0xcf, 0x3c, 0xf3}[at % 3]; /* "zzzz" */
        if (i < MANY)
            id = (hf_id){.bytes = {(uint8_t)i, 1}};
        sql_id_text(&id, sid);
        EXPECT_STR(sql_server_ask(w.s,
                                  "INSERT INTO hf_session(sid, ttl_us, exp_us,"
                                  " renewals, pid, host, name, bell, news)"
                                  " VALUES ('%s', %lld, 1, 0, 1, '', '', '',"
                                  " '')",
                                  sid, i < MANY ? 3600000000LL : 1000LL),
                   "");
    }
    for (int i = 0; i < 6 * 20; i++) {
        if (i % 20 == 0)
            test_sleep_ms(20); /* longer than that lease */
        EXPECT_OK(party_renew(p, LONG_MS), p->err);
    }
    EXPECT_EQ(sql_server_number(w.s, "SELECT count(*) FROM hf_session"),
              MANY + 1);
    EXPECT_EQ(sql_server_number(w.s,
                                "SELECT count(*) FROM hf_session"
                                " WHERE sid = '%s'",
                                sid),
              0);
    sql_server_ask(w.s, "DELETE FROM hf_session WHERE host = ''");
    party_close(p);
    expect_clean(&w);
}

/* Whoever differs is told: an observer writes no instants. */
static void all_say_the_same(void)
{
    world w = world_begin(NULL, "clock=observer");
    party *p = party_open(w.direct, LONG_MS), *q = NULL;
    hf_error err = {0};

    write_url(w.direct, w.s->port, "");
    EXPECT_CODE(try_party(&q, w.direct, &err), HF_EURL);
    EXPECT_HAS(err.text, "observer");
    party_close(p);
    expect_clean(&w);
}

/* ---- A clock that is stepped -------------------------------------------- */

static atomic_int doubts;

static void note_change(hf_hold *hold, hf_state state, int reason, void *user)
{
    (void)hold;
    (void)reason;
    (void)user;
    if (state == HF_DOUBTFUL)
        atomic_fetch_add(&doubts, 1);
}

/* The server's clock jumps by half a lease: the next answer tells of it. */
static void step_is_noticed(void)
{
    world w;
    hf_session *s;
    hf_lock_options opt = {HF_LOCK_OPTIONS, .on_change = note_change};
    hf_hold *hold = NULL;

    if (!on_postgres())
        skip_test("this store has no clock that a test can move");
    w = world_begin(NULL, "");
    EXPECT_STR(sql_server_ask(
                   w.s,
                   "CREATE SCHEMA shim; CREATE TABLE shim.step(by interval);"
                   " INSERT INTO shim.step VALUES ('0');"
                   "CREATE FUNCTION shim.clock_timestamp() RETURNS timestamptz"
                   " LANGUAGE sql VOLATILE AS 'SELECT"
                   " pg_catalog.clock_timestamp() + by FROM shim.step';"
                   "ALTER DATABASE holdfast SET search_path ="
                   " shim, pg_catalog, public"),
               "");
    /* Tables are made in the first schema that is not the system's. */
    s = open_at(w.direct, 6000);
    EXPECT_CODE(hf_lock(s, "k", &opt, &hold, NULL), 0);
    EXPECT_CODE(hf_renew(hold, NULL), 0);
    EXPECT_EQ(atomic_load(&doubts), 0);
    /* An answer that took as long as the step hides it, and may: what it renews
     * is counted anew.  So there are several steps. */
    for (int i = 1; i <= 5 && atomic_load(&doubts) == 0; i++) {
        EXPECT_STR(
            sql_server_ask(w.s, "UPDATE shim.step SET by = '%d s'", 3 * i), "");
        hf_renew(hold, NULL);
        WAIT_FOR(atomic_load(&doubts) > 0, 3000);
    }
    EXPECT(atomic_load(&doubts) > 0);
    hf_release(hold, NULL);
    hf_close(s);
    world_end(&w);
}

static const test_case cases[] = {
    TEST(step_costs_nothing), TEST(step_of_a_trusted_clock),
    TEST(silence_is_death),   TEST(watched_lease),
    TEST(silent_behind_many), TEST(all_say_the_same),
    TEST(step_is_noticed)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "sql_observer", cases,
                     sizeof cases / sizeof *cases);
}
