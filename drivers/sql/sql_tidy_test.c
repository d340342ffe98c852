/* sql_tidy_test.c - what stays behind, and what must not.
 *
 * Keys that nobody uses vanish and their tokens rise all the same, also while
 * somebody takes such a key for the first time.  A trigger of the database
 * makes every queue look idle, and the floor stands above the clock, so that it
 * is the floor alone that keeps numbers from coming twice.  And what sessions
 * leave when they end: nothing, whoever else uses the same store. */
#include "sql_fault_test.h"

/* Above every clock; far below the end of the numbers. */
#define FLOOR_TEXT "4000000000000000000"
#define FLOOR UINT64_C(4000000000000000000)
enum { TIDY_RENEWALS = 20, ROUNDS = 150, TAKERS = 3 };
enum { HELD = 110, VALUES = 40, SLOW_MS = 1500 };

/* Every queue has been idle for ages, always. */
static void make_idle(sql_server *s)
{
    static const char *const on_pg[] = {
        "CREATE FUNCTION age() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN NEW.used_us = 1; RETURN NEW; END'",
        "CREATE TRIGGER age BEFORE INSERT OR UPDATE ON hf_queue"
        " FOR EACH ROW EXECUTE FUNCTION age()",
        "UPDATE hf_meta SET floor = " FLOOR_TEXT, NULL};
    static const char *const on_my[] = {
        "CREATE TRIGGER born BEFORE INSERT ON hf_queue FOR EACH ROW"
        " SET NEW.used_us = 1",
        "CREATE TRIGGER aged BEFORE UPDATE ON hf_queue FOR EACH ROW"
        " SET NEW.used_us = 1",
        "UPDATE hf_meta SET floor = " FLOOR_TEXT, NULL};

    for (const char *const *at = on_postgres() ? on_pg : on_my; *at; at++)
        EXPECT_STR(sql_server_ask(s, "%s", *at), "");
}

/* So that it tidies. */
static void renew_often(party *p)
{
    for (int i = 0; i < TIDY_RENEWALS; i++)
        EXPECT_OK(party_renew(p, LONG_MS), p->err);
}

static void idle_keys_vanish(void)
{
    world w = world_begin(NULL, "");
    party *p = party_open(w.direct, LONG_MS),
          *q = party_open(w.direct, LONG_MS);
    uint64_t top = FLOOR;

    make_idle(w.s);
    for (int round = 0; round < 3; round++) {
        hf_place held = make_place("held", HF_EXCLUSIVE);

        for (int i = 0; i < 40; i++) {
            char key[20];
            hf_place place;

            snprintf(key, sizeof key, "k%d", i);
            place = make_place(key, HF_EXCLUSIVE);
            must_hold(p, &place);
            EXPECT(place.token > FLOOR);
            if (i == 7) {
                EXPECT(place.token > top);
                top = place.token;
            }
            must_leave(p, &place);
        }
        must_hold(p, &held);
        renew_often(q);
        EXPECT_EQ(sql_server_number(w.s, "SELECT count(*) FROM hf_queue"), 1);
        EXPECT_OK(recheck(p, &held), p->err);
        EXPECT_EQ(held.verdict, HF_GRANTED); /* in use is not idle */
        must_leave(p, &held);
    }
    party_close(p);
    party_close(q);
    expect_clean(&w);
}

/* More locks than are looked at in one piece are held for days, and more old
 * values than that are theirs. */
static void hold_many(world *w, party *p, hf_place *held, char keys[][20])
{
    for (int i = 0; i < HELD; i++) {
        char rid[SQL_ID_LEN + 1];

        snprintf(keys[i], 20, "held%03d", i);
        held[i] = make_place(keys[i], HF_EXCLUSIVE);
        must_hold(p, &held[i]);
        sql_id_text(&held[i].rid, rid);
        if (i < VALUES)
            EXPECT_STR(sql_server_ask(w->s,
                                      "INSERT INTO hf_value(rid, v, used_us)"
                                      " VALUES ('%s', '', %d)",
                                      rid, i),
                       "");
    }
}

static void leave_many(world *w, party *p, hf_place *held)
{
    for (int i = 0; i < HELD; i++)
        must_leave(p, &held[i]);
    sql_server_ask(w->s, "DELETE FROM hf_value");
}

/* Behind them idle keys vanish all the same, and what a dead one has left on
 * the last key of all, and a value of nobody, are found. */
static void held_keys_stand_in_nobodys_way(void)
{
    static hf_place held[HELD];
    static char keys[HELD][20];
    world w = world_begin(NULL, "");
    party *p = party_open(w.direct, LONG_MS),
          *q = party_open(w.direct, LONG_MS),
          *dead = party_open(w.direct, LONG_MS);
    hf_place left = make_place("z", HF_EXCLUSIVE);

    make_idle(w.s);
    hold_many(&w, p, held, keys);
    for (int i = 0; i < 40; i++) {
        hf_place place;
        char key[20];

        snprintf(key, sizeof key, "k%d", i);
        place = make_place(key, HF_EXCLUSIVE);
        must_hold(p, &place);
        must_leave(p, &place);
    }
    must_hold(dead, &left);
    sql_server_ask(w.s, "DELETE FROM hf_session WHERE sid = '%s'",
                   dead->sid_text);
    sql_server_ask(w.s, "INSERT INTO hf_value(rid, v, used_us)"
                        " VALUES ('zzzzzzzzzzzzzzzzzzzzzz', '', 1000)");
    renew_often(q);
    EXPECT_EQ(sql_server_number(w.s, "SELECT count(*) FROM hf_queue"
                                     " WHERE body = ''"),
              0);
    for (int i = 0; i < 3; i++)
        renew_often(q);
    EXPECT_EQ(sql_server_number(w.s, "SELECT count(*) FROM hf_queue"), HELD);
    EXPECT_EQ(sql_server_number(w.s, "SELECT count(*) FROM hf_value"), VALUES);
    leave_many(&w, p, held);
    party_drop(dead);
    party_close(p);
    party_close(q);
    expect_clean(&w);
}

/* A link so slow that a whole tidying does not fit into a renewal: it ends
 * before it costs the connection, and nobody doubts. */
static void tidying_on_a_slow_link(void)
{
    static hf_place held[HELD];
    static char keys[HELD][20];
    world w = world_begin(NULL, "");
    party *p = party_open(w.direct, LONG_MS),
          *q = party_open(w.through, LONG_MS);

    make_idle(w.s);
    hold_many(&w, p, held, keys);
    EXPECT_OK(party_renew(q, LONG_MS), q->err);
    q->op_ms = SLOW_MS;
    RELAY_SET(w.r, slow_ms, SLOW_MS / 50);
    renew_often(q);
    renew_often(q);
    EXPECT_EQ(atomic_load(&q->doubts), 0);
    RELAY_SET(w.r, slow_ms, 0);
    leave_many(&w, p, held);
    party_close(p);
    party_close(q);
    expect_clean(&w);
}

/* ---- Against a first join ----------------------------------------------- */

static struct {
    atomic_int inside, running;
    atomic_bool purged; /* at least once while keys were taken */
    atomic_ullong top;
    const char *url;
    long long end;
} race;

/* Purgers may have found it in use each time: give them a chance, then. */
static bool goes_on(int round)
{
    if (round < ROUNDS)
        return true;
    if (atomic_load(&race.purged) || test_now_ms() > race.end)
        return false;
    test_sleep_ms(5);
    return true;
}

static void *take_often(void *arg)
{
    party *p = party_open(race.url, LONG_MS);

    (void)arg;
    for (int i = 0; goes_on(i); i++) {
        hf_place place = make_place("k", HF_EXCLUSIVE);
        long long end = test_now_ms() + PATIENCE_MS;

        EXPECT_OK(join(p, &place), p->err);
        while (place.verdict != HF_GRANTED && test_now_ms() < end) {
            test_sleep_ms(1);
            EXPECT_OK(recheck(p, &place), p->err);
        }
        EXPECT_EQ(place.verdict, HF_GRANTED);
        EXPECT_SAFE(atomic_fetch_add(&race.inside, 1) == 0);
        EXPECT_SAFE(place.token > atomic_load(&race.top));
        atomic_store(&race.top, place.token);
        EXPECT_SAFE(atomic_fetch_sub(&race.inside, 1) == 1);
        must_leave(p, &place);
    }
    party_close(p);
    atomic_fetch_sub(&race.running, 1);
    return NULL;
}

static void *purge_often(void *arg)
{
    party *p = party_open(race.url, LONG_MS);

    (void)arg;
    while (atomic_load(&race.running) > 0)
        renew_often(p);
    party_close(p);
    return NULL;
}

static void purge_against_first_join(void)
{
    world w = world_begin(NULL, "");
    party *p = party_open(w.direct, LONG_MS);
    pthread_t takers[TAKERS], purgers[2];

    make_idle(w.s);
    race.url = w.direct;
    race.end = test_now_ms() + 4 * PATIENCE_MS;
    atomic_store(&race.purged, false);
    atomic_store(&race.running, TAKERS);
    atomic_store(&race.top, FLOOR);
    for (int i = 0; i < TAKERS; i++)
        EXPECT(pthread_create(&takers[i], NULL, take_often, NULL) == 0);
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_create(&purgers[i], NULL, purge_often, NULL) == 0);
    while (atomic_load(&race.running) > 0) {
        if (sql_server_number(w.s,
                              "SELECT floor - " FLOOR_TEXT " FROM hf_meta") > 0)
            atomic_store(&race.purged, true);
        test_sleep_ms(20);
    }
    for (int i = 0; i < TAKERS; i++)
        pthread_join(takers[i], NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(purgers[i], NULL);
    EXPECT(atomic_load(&race.purged));
    party_close(p);
    expect_clean(&w);
}

/* One first join takes long: it has read the floor, and inserts a second later.
 * Meanwhile another is faster, leaves, and the key is purged. */
static void make_slow(sql_server *s, const char *sid)
{
    if (on_postgres())
        EXPECT_STR(
            sql_server_ask(s,
                           "CREATE FUNCTION dawdle() RETURNS trigger"
                           " LANGUAGE plpgsql AS 'BEGIN IF strpos(NEW.body,"
                           " ''%s'') > 0 THEN PERFORM pg_sleep(1); END IF;"
                           " RETURN NEW; END'; CREATE TRIGGER dawdle BEFORE"
                           " INSERT ON hf_queue FOR EACH ROW EXECUTE FUNCTION"
                           " dawdle()",
                           sid),
            "");
    else
        EXPECT_STR(sql_server_ask(s,
                                  "CREATE TRIGGER dawdle BEFORE INSERT ON"
                                  " hf_queue FOR EACH ROW DO SLEEP(IF(LOCATE("
                                  "'%s', NEW.body) > 0, 1, 0))",
                                  sid),
                   "");
}

static struct {
    party *p;
    hf_place place;
} slow;

static void *join_slowly(void *arg)
{
    (void)arg;
    must_hold(slow.p, &slow.place);
    return NULL;
}

static void purge_against_a_slow_first_join(void)
{
    world w = world_begin(NULL, "");
    party *q = party_open(w.direct, LONG_MS),
          *r = party_open(w.direct, LONG_MS);
    hf_place place = make_place("k", HF_EXCLUSIVE);
    pthread_t thread;

    make_idle(w.s);
    slow.p = party_open(w.direct, LONG_MS);
    slow.place = make_place("k", HF_EXCLUSIVE);
    make_slow(w.s, slow.p->sid_text);
    EXPECT(pthread_create(&thread, NULL, join_slowly, NULL) == 0);
    test_sleep_ms(300);
    must_hold(q, &place);
    must_leave(q, &place);
    renew_often(r);
    pthread_join(thread, NULL);
    EXPECT(slow.place.token > place.token);
    must_leave(slow.p, &slow.place);
    party_close(slow.p);
    party_close(q);
    party_close(r);
    expect_clean(&w);
}

/* ---- What sessions leave ------------------------------------------------ */

/* Two sessions of one store, as after a loss: the old one goes when the new one
 * has a lock already. */
static void each_takes_its_own(void)
{
    world w = world_begin(NULL, "");
    party *p = party_open(w.direct, LONG_MS),
          *q = party_open(w.direct, LONG_MS);
    hf_place old_held = make_place("old", HF_EXCLUSIVE);
    hf_place new_held = make_place("new", HF_EXCLUSIVE);
    hf_place waits = make_place("new", HF_EXCLUSIVE);
    hf_id old_sid = p->sid, new_sid;

    must_hold(p, &old_held);
    party_attach(p, LONG_MS);
    new_sid = p->sid;
    must_hold(p, &new_held);
    must_wait(q, &waits);
    p->sid = old_sid;
    EXPECT_OK(party_detach(p), p->err);
    EXPECT_EQ(entries_of(w.s, "old"), 0);
    EXPECT_EQ(entries_of(w.s, "new"), 2);
    p->sid = new_sid;
    EXPECT_OK(party_detach(p), p->err);
    EXPECT_EQ(entries_of(w.s, "new"), 1);
    EXPECT_OK(recheck(q, &waits), q->err);
    EXPECT_EQ(waits.verdict, HF_GRANTED);
    party_drop(p);
    party_close(q);
    expect_clean(&w);
}

/* The row of a session is gone before its time (an operator, a clock): the next
 * join says so. */
static void session_row_is_gone(void)
{
    world w = world_begin(NULL, "");
    party *p = party_open(w.direct, LONG_MS),
          *q = party_open(w.direct, LONG_MS);
    hf_place place = make_place("k", HF_EXCLUSIVE);
    hf_place held = make_place("held", HF_EXCLUSIVE);

    must_hold(p, &place);
    must_leave(p, &place);
    must_hold(p, &held);
    sql_server_ask(w.s, "DELETE FROM hf_session WHERE sid = '%s'", p->sid_text);
    EXPECT_CODE(join(p, &place), HF_EEXPIRED);
    EXPECT_CODE(try_join(p, &place), HF_EEXPIRED);
    EXPECT_OK(leave(p, &held, false), p->err);
    EXPECT_EQ(held.verdict, HF_GONE);
    EXPECT_EQ(held.reason, HF_EEXPIRED);
    party_drop(p);
    party_close(q);
    expect_clean(&w);
}

/* Fixed leases that ran out are told once, and not kept for ever. */
static void news_do_not_pile_up(void)
{
    world w = world_begin(NULL, "");
    party *p = party_open(w.direct, LONG_MS),
          *q = party_open(w.direct, LONG_MS);
    hf_op op = {.kind = HF_OP_EVICT,
                .text = "k",
                .text_len = 1,
                .now = true,
                .ttl = HF_MS(1000)};

    for (int i = 0; i < 300; i++) {
        hf_place held = make_place("k", HF_EXCLUSIVE);

        must_hold(p, &held);
        EXPECT_OK(run_op(q, &op), q->err);
        EXPECT_EQ(op.count, 1);
        EXPECT_OK(party_renew(p, LONG_MS), p->err);
        EXPECT(atomic_load(&p->news) > i);
    }
    EXPECT(sql_server_number(w.s,
                             "SELECT length(news) FROM hf_session"
                             " WHERE sid = '%s'",
                             p->sid_text) < 5000);
    party_close(p);
    party_close(q);
    expect_clean(&w);
}

/* The same by a standard database, where news have a column of 4000 letters,
 * with leases that others see run out: a full column must not keep a dead
 * entry in its queue. */
static void news_that_fill_their_column(void)
{
    world w;
    party *p, *q;

    if (!on_odbc())
        skip_test("this store has news of any length");
    w = world_begin(NULL, "dialect=generic");
    p = party_open(w.direct, LONG_MS);
    q = party_open(w.direct, LONG_MS);
    for (int i = 0; i < 340; i++) {
        hf_place held = make_place("k", HF_EXCLUSIVE);
        hf_place waits = make_place("k", HF_EXCLUSIVE);
        hf_op confirm = {.kind = HF_OP_CONFIRM, .place = &held};
        long long end = test_now_ms() + PATIENCE_MS;

        held.lease = HF_MS(1);
        must_hold(p, &held);
        EXPECT_OK(run_op(p, &confirm), p->err);
        EXPECT_OK(join(q, &waits), q->err);
        while (waits.verdict != HF_GRANTED && test_now_ms() < end) {
            test_sleep_ms(1);
            EXPECT_OK(recheck(q, &waits), q->err);
        }
        EXPECT_EQ(waits.verdict, HF_GRANTED);
        must_leave(q, &waits);
        if (i == 160) /* it hears of those that found room, and goes on */
            EXPECT(atomic_load(&p->news) == 0);
        if (i >= 160)
            EXPECT_OK(party_renew(p, LONG_MS), p->err);
    }
    EXPECT(atomic_load(&p->news) > 300);
    party_close(p);
    party_close(q);
    expect_clean(&w);
}

static const test_case cases[] = {TEST(idle_keys_vanish),
                                  TEST(held_keys_stand_in_nobodys_way),
                                  TEST(tidying_on_a_slow_link),
                                  TEST_LIMIT(purge_against_first_join, 120),
                                  TEST(purge_against_a_slow_first_join),
                                  TEST(each_takes_its_own),
                                  TEST(session_row_is_gone),
                                  TEST(news_do_not_pile_up),
                                  TEST(news_that_fill_their_column)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "sql_tidy", cases,
                     sizeof cases / sizeof *cases);
}
