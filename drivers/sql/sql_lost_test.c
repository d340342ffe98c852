/* sql_lost_test.c - statements and answers that get lost on the way.
 *
 * Each scene is a short life of a lock, repeated with a cut at its first, its
 * second, its third ... statement, until a run has no such statement: once
 * before the server has seen it, once after it was done.  Whoever was cut off
 * asks again, as the core does.  In the end there was one place and not two, no
 * number came twice, and nothing stays behind.
 *
 * And the bytes that arrive late: a join that the server gets after its tomb
 * was written never makes an entry. */
#include "sql_fault_test.h"

/* ---- Scenes ------------------------------------------------------------- */

typedef struct scene {
    world *w;
    party *p, *q; /* by the relay, and not */
    relay_act act;
    unsigned nth;
    uint64_t top; /* the largest token that was seen */
} scene;

/* Until the store has answered. */
#define REPEAT(who, call)                                                      \
    do {                                                                       \
        int tries_ = 0;                                                        \
        while ((void)(call), (who)->outcome != HF_APPLIED) {                   \
            EXPECT((who)->err.code != 0 && (who)->err.text[0] != '\0');        \
            if (++tries_ == 30)                                                \
                FAIL_TEST("never answered: %s", (who)->err.text);              \
            test_sleep_ms(20);                                                 \
        }                                                                      \
    } while (0)

static void strike(scene *c)
{
    relay_rule(c->w->r, c->act, "", c->nth);
}

static void expect_above(scene *c, uint64_t token)
{
    EXPECT(token > c->top);
    c->top = token;
}

/* Q takes it and gives it back: nobody is in the way. */
static void expect_free(scene *c, const char *key)
{
    hf_place place = make_place(key, HF_EXCLUSIVE);

    must_hold(c->q, &place);
    expect_above(c, place.token);
    must_leave(c->q, &place);
}

/* A key in use, or one that is new. */
static void lock_and_leave(scene *c, const char *key)
{
    hf_place place = make_place(key, HF_EXCLUSIVE);

    strike(c);
    REPEAT(c->p, join(c->p, &place));
    EXPECT_CODE(c->p->err.code, 0);
    EXPECT_EQ(place.verdict, HF_GRANTED);
    expect_above(c, place.token);
    EXPECT_EQ(sql_server_number(
                  c->w->s, "SELECT counter FROM hf_queue WHERE k = '%s'", key),
              place.num);
    REPEAT(c->p, leave(c->p, &place, false));
    EXPECT_CODE(c->p->err.code, 0);
    EXPECT(place.verdict == HF_GRANTED ||
           (place.verdict == HF_GONE && place.reason == HF_ENOTHELD));
    expect_free(c, key);
}

static void scene_known(scene *c)
{
    lock_and_leave(c, "known");
}

static void scene_first(scene *c)
{
    char key[30];

    snprintf(key, sizeof key, "first%d.%u", (int)c->act, c->nth);
    c->top = 0; /* of another key */
    lock_and_leave(c, key);
}

static void scene_try(scene *c)
{
    hf_place place = make_place("known", HF_EXCLUSIVE);
    hf_place other = make_place("known", HF_EXCLUSIVE);

    strike(c);
    REPEAT(c->p, try_join(c->p, &place));
    EXPECT_CODE(c->p->err.code, 0);
    EXPECT_EQ(place.verdict, HF_GRANTED);
    expect_above(c, place.token);
    EXPECT_CODE(try_join(c->q, &other), HF_EBUSY);
    REPEAT(c->p, leave(c->p, &place, true));
    expect_free(c, "known");
    /* What was left behind is dead for ever. */
    REPEAT(c->p, join(c->p, &place));
    EXPECT_EQ(place.verdict, HF_GONE);
    EXPECT_EQ(entries_of(c->w->s, "known"), 0);
}

static void scene_fixed(scene *c)
{
    hf_place place = make_place("known", HF_EXCLUSIVE);
    hf_op op = {.kind = HF_OP_CONFIRM, .place = &place};

    place.lease = HF_MS(LONG_MS);
    strike(c);
    REPEAT(c->p, join(c->p, &place));
    EXPECT_EQ(place.verdict, HF_GRANTED);
    expect_above(c, place.token);
    REPEAT(c->p, run_op(c->p, &op));
    EXPECT_EQ(place.verdict, HF_GRANTED);
    EXPECT(place.remaining > 0 && place.remaining <= HF_MS(LONG_MS));
    REPEAT(c->p, leave(c->p, &place, false));
    expect_free(c, "known");
}

/* P waits for Q, and is granted once Q has left. */
static void scene_wait(scene *c)
{
    hf_place held = make_place("known", HF_EXCLUSIVE);
    hf_place waits = make_place("known", HF_EXCLUSIVE);

    must_hold(c->q, &held);
    expect_above(c, held.token);
    strike(c);
    REPEAT(c->p, join(c->p, &waits));
    EXPECT_EQ(waits.verdict, HF_WAITS);
    EXPECT_EQ(entries_of(c->w->s, "known"), 2);
    must_leave(c->q, &held);
    REPEAT(c->p, recheck(c->p, &waits));
    EXPECT_EQ(waits.verdict, HF_GRANTED);
    expect_above(c, waits.token);
    REPEAT(c->p, leave(c->p, &waits, false));
    expect_free(c, "known");
}

static void scene_session(scene *c)
{
    hf_id sid;
    char text[SQL_ID_LEN + 1];

    hfd_random(&sid, sizeof sid);
    sql_id_text(&sid, text);
    REPEAT(c->p, party_detach(c->p));
    strike(c);
    REPEAT(c->p, party_attach_as(c->p, &sid, LONG_MS));
    EXPECT_CODE(c->p->err.code, 0);
    EXPECT(c->p->remaining > 0 && c->p->remaining <= HF_MS(LONG_MS));
    REPEAT(c->p, party_renew(c->p, LONG_MS));
    EXPECT_CODE(c->p->err.code, 0);
    EXPECT(c->p->remaining > 0 && c->p->remaining <= HF_MS(LONG_MS));
    EXPECT_EQ(sql_server_number(c->w->s,
                                "SELECT count(*) FROM hf_session"
                                " WHERE sid = '%s'",
                                text),
              1);
}

/* Detach with an entry that holds, and Q behind it. */
static void scene_detach(scene *c)
{
    hf_place held = make_place("known", HF_EXCLUSIVE);
    hf_place waits = make_place("known", HF_EXCLUSIVE);

    must_hold(c->p, &held);
    expect_above(c, held.token);
    must_wait(c->q, &waits);
    strike(c);
    REPEAT(c->p, party_detach(c->p));
    EXPECT_CODE(c->p->err.code, 0);
    EXPECT_OK(recheck(c->q, &waits), c->q->err);
    EXPECT_EQ(waits.verdict, HF_GRANTED);
    EXPECT_EQ(entries_of(c->w->s, "known"), 1);
    expect_above(c, waits.token);
    must_leave(c->q, &waits);
    REPEAT(c->p, party_renew(c->p, LONG_MS));
    EXPECT_CODE(c->p->err.code, HF_EEXPIRED);
}

/* A third one died with the lock; P finds out and throws it out. */
static void scene_evict(scene *c)
{
    party *dead = party_open(c->w->direct, 300);
    hf_place held = make_place("known", HF_EXCLUSIVE);
    hf_place place = make_place("known", HF_EXCLUSIVE);

    must_hold(dead, &held);
    expect_above(c, held.token);
    test_sleep_ms(350);
    strike(c);
    REPEAT(c->p, try_join(c->p, &place));
    EXPECT_CODE(c->p->err.code, 0);
    EXPECT_EQ(place.verdict, HF_GRANTED);
    expect_above(c, place.token);
    EXPECT_CODE(party_renew(dead, 300), HF_EEXPIRED);
    EXPECT_OK(leave(dead, &held, false), dead->err);
    EXPECT_EQ(held.verdict, HF_GONE);
    EXPECT_EQ(held.reason, HF_EEXPIRED);
    EXPECT_EQ(entries_of(c->w->s, "known"), 1);
    REPEAT(c->p, leave(c->p, &place, false));
    expect_free(c, "known");
    party_close(dead);
}

static void scene_break(scene *c)
{
    hf_place held = make_place("known", HF_EXCLUSIVE);
    hf_op op = {.kind = HF_OP_EVICT,
                .text = "known",
                .text_len = 5,
                .now = true,
                .ttl = HF_MS(1000)};

    must_hold(c->q, &held);
    expect_above(c, held.token);
    strike(c);
    REPEAT(c->p, run_op(c->p, &op));
    EXPECT_OK(leave(c->q, &held, false), c->q->err);
    EXPECT_EQ(held.verdict, HF_GONE);
    EXPECT_EQ(held.reason, HF_EFORCED);
    expect_free(c, "known");
}

/* ---- Each at each statement --------------------------------------------- */

static void sweep(void (*run)(scene *c), unsigned at_least)
{
    world w = world_begin(NULL, "");
    scene c = {.w = &w};

    for (int act = RELAY_CUT_BEFORE; act <= RELAY_CUT_REPLY; act++) {
        bool struck = true;

        c.act = (relay_act)act;
        for (c.nth = 1; struck; c.nth++) {
            EXPECT(c.nth < 40);
            fprintf(stderr, "act %d, statement %u\n", act, c.nth);
            c.p = party_open(w.through, LONG_MS);
            c.q = party_open(w.direct, LONG_MS);
            expect_free(&c, "known");
            run(&c);
            struck = relay_struck(w.r) > 0;
            relay_rule(w.r, RELAY_PASS, "", 1);
            REPEAT(c.p, party_detach(c.p));
            party_drop(c.p);
            party_close(c.q);
            EXPECT_EQ(count_left(&w), 0);
        }
        EXPECT(c.nth > at_least); /* the scene has so many statements */
    }
    expect_clean(&w);
}

static void join_of_a_known_key(void)
{
    sweep(scene_known, 2);
}

static void join_of_a_new_key(void)
{
    sweep(scene_first, 4);
}

static void try_and_tomb(void)
{
    sweep(scene_try, 3);
}

static void fixed_lease(void)
{
    sweep(scene_fixed, 5);
}

static void wait_and_grant(void)
{
    sweep(scene_wait, 4);
}

static void attach_and_renew(void)
{
    sweep(scene_session, 2);
}

static void detach(void)
{
    sweep(scene_detach, 3);
}

static void evict_the_dead(void)
{
    sweep(scene_evict, 4);
}

static void break_at_once(void)
{
    sweep(scene_break, 4);
}

/* An attach that is asked again lives as long as the first one, not longer. */
static void attach_again(void)
{
    world w = world_begin(NULL, "");
    party *p = party_open(w.through, LONG_MS);
    hf_id sid;
    char text[SQL_ID_LEN + 1];

    hfd_random(&sid, sizeof sid);
    sql_id_text(&sid, text);
    EXPECT_OK(party_detach(p), p->err);
    relay_rule(w.r, RELAY_CUT_REPLY, text, 1);
    EXPECT(party_attach_as(p, &sid, LONG_MS) != 0);
    EXPECT_EQ(p->outcome, HF_UNKNOWN);
    test_sleep_ms(500);
    REPEAT(p, party_attach_as(p, &sid, LONG_MS));
    EXPECT_CODE(p->err.code, 0);
    EXPECT(p->remaining > 0 && p->remaining < HF_MS(LONG_MS - 400));
    party_close(p);
    expect_clean(&w);
}

/* ---- Late bytes --------------------------------------------------------- */

/* P sends a join that is held back, at its nth statement with the rid. */
static hf_place send_late(world *w, party *p, const char *key, unsigned nth)
{
    hf_place place = make_place(key, HF_EXCLUSIVE);
    char rid[SQL_ID_LEN + 1];

    sql_id_text(&place.rid, rid);
    relay_rule(w->r, RELAY_HOLD, rid, nth);
    EXPECT(join(p, &place) != 0);
    EXPECT_EQ(p->outcome, HF_UNKNOWN);
    EXPECT_EQ(relay_struck(w->r), 1);
    return place;
}

/* The first use of a key is its second statement with the rid. */
static void late_join_on(const char *key, bool used, bool tomb)
{
    world w = world_begin(NULL, "");
    party *p = party_open(w.through, LONG_MS);
    party *q = party_open(w.direct, LONG_MS);
    hf_place place;

    if (used) {
        hf_place before = make_place(key, HF_EXCLUSIVE);

        must_hold(p, &before);
        must_leave(p, &before);
    }
    place = send_late(&w, p, key, used ? 1 : 2);
    if (tomb) {
        REPEAT(p, leave(p, &place, true));
        EXPECT_EQ(place.verdict, HF_GONE);
    }
    relay_release(w.r);
    if (tomb) {
        test_sleep_ms(500);
        EXPECT_EQ(entries_of(w.s, key), 0);
        REPEAT(p, join(p, &place));
        EXPECT_EQ(place.verdict, HF_GONE);
        EXPECT_EQ(entries_of(w.s, key), 0);
        place = make_place(key, HF_EXCLUSIVE);
        must_hold(q, &place);
        must_leave(q, &place);
    } else {
        AWAIT(entries_of(w.s, key) == 1); /* so they do arrive */
    }
    REPEAT(p, party_detach(p));
    party_drop(p);
    party_close(q);
    expect_clean(&w);
}

static void late_join(void)
{
    late_join_on("k", true, false);
    late_join_on("k", true, true);
}

static void late_first_join(void)
{
    late_join_on("k", false, false);
    late_join_on("k", false, true);
}

/* Its session is over by then: nothing comes of it, or an entry that the next
 * who looks throws out. */
static void join_after_its_session(void)
{
    world w = world_begin(NULL, "");
    party *p = party_open(w.through, LONG_MS);
    party *q = party_open(w.direct, LONG_MS);
    hf_place place = make_place("k", HF_EXCLUSIVE);

    must_hold(p, &place);
    must_leave(p, &place);
    place = send_late(&w, p, "k", 1);
    REPEAT(p, party_detach(p));
    relay_release(w.r);
    test_sleep_ms(500);
    EXPECT_EQ(entries_of(w.s, "k"), 0);
    place = make_place("k", HF_EXCLUSIVE);
    EXPECT_OK(try_join(q, &place), q->err);
    must_leave(q, &place);
    party_drop(p);
    party_close(q);
    expect_clean(&w);
}

/* ---- The core ----------------------------------------------------------- */

static void through_the_core(void)
{
    world w = world_begin(NULL, "");
    hf_session *s = open_at(w.through, 0), *rival = open_at(w.direct, 0);
    uint64_t top = 0;

    give(take(s, "k"));
    for (int act = RELAY_CUT_BEFORE; act <= RELAY_CUT_REPLY; act++) {
        hf_error err;
        hf_hold *hold, *none = NULL;
        int code;

        relay_rule(w.r, (relay_act)act, "|X", 1);
        hold = take(s, "k");
        EXPECT_EQ(relay_struck(w.r), 1);
        EXPECT(hf_hold_token(hold) > top);
        top = hf_hold_token(hold);
        EXPECT_EQ(entries_of(w.s, "k"), 1);
        EXPECT_CODE(hf_try_lock(rival, "k", NULL, &none, &err), HF_EBUSY);
        relay_rule(w.r, (relay_act)act, "|X", 1);
        code = hf_release(hold, &err);
        EXPECT(code == 0 || code == HF_EUNKNOWN);
        EXPECT_EQ(relay_struck(w.r), 1);
        hold = take(rival, "k");
        EXPECT(hf_hold_token(hold) > top);
        top = hf_hold_token(hold);
        EXPECT_EQ(entries_of(w.s, "k"), 1);
        give(hold);
    }
    hf_close(s);
    hf_close(rival);
    expect_clean(&w);
}

static const test_case cases[] = {TEST_LIMIT(join_of_a_known_key, 120),
                                  TEST_LIMIT(join_of_a_new_key, 120),
                                  TEST_LIMIT(try_and_tomb, 120),
                                  TEST_LIMIT(fixed_lease, 120),
                                  TEST_LIMIT(wait_and_grant, 120),
                                  TEST_LIMIT(attach_and_renew, 120),
                                  TEST(attach_again),
                                  TEST_LIMIT(detach, 120),
                                  TEST_LIMIT(evict_the_dead, 120),
                                  TEST_LIMIT(break_at_once, 120),
                                  TEST(late_join),
                                  TEST(late_first_join),
                                  TEST(join_after_its_session),
                                  TEST(through_the_core)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "sql_lost", cases,
                     sizeof cases / sizeof *cases);
}
