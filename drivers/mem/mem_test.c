/* mem_test.c - the model of the mem store, by a clock on paper.
 *
 * What the conformance suite cannot reach through a driver: instants to the
 * nanosecond, a dead sid that attaches again, forgetting, who is told of what,
 * and every allocation failing in turn.  Runs the model alone, so that nothing
 * here waits. */
#include <string.h>

#include "harness/expect.h"
#include "harness/runner.h"
#include "model.h"

typedef struct told {
    int changed, news, reason;
    hf_id sid, rid;
    uint64_t token; /* 0: nothing fresh */
} told;

static void note_changed(void *ctx, const hf_id *sid, const hf_id *rid,
                         const hf_place *fresh)
{
    told *t = ctx;

    t->changed++;
    t->sid = *sid;
    t->rid = *rid;
    t->token = fresh ? fresh->token : 0;
}

static void note_news(void *ctx, const hf_id *sid, const hf_id *rid, int reason)
{
    told *t = ctx;

    t->news++;
    t->sid = *sid;
    t->rid = *rid;
    t->reason = reason;
}

static hf__mem_store *make_model(told *t)
{
    hf__mem_store *model = hf__mem_model_new();
    hf__mem_tell tell = {.ctx = t, .changed = note_changed, .news = note_news};

    EXPECT(model != NULL);
    *t = (told){.changed = 0};
    hf__mem_model_tell(model, &tell);
    return model;
}

static hf_id make_id(uint8_t n)
{
    return (hf_id){{n}};
}

static hf_place make_place(uint8_t rid, const char *key, hf_mode mode)
{
    return (hf_place){.rid = make_id(rid),
                      .key = key,
                      .key_len = (uint16_t)strlen(key),
                      .mode = (uint8_t)mode,
                      .run = 1};
}

static hf_op run_plain(hf__mem_store *model, hf_op_kind kind, uint8_t sid,
                       hf_nsec ttl, hf_nsec now)
{
    hf_op op = {.kind = kind, .sid = make_id(sid), .ttl = ttl};

    hf__mem_model_run(model, &op, now);
    return op;
}

static hf_op run_place(hf__mem_store *model, hf_op_kind kind, uint8_t sid,
                       hf_place *place, hf_nsec now)
{
    hf_op op = {.kind = kind, .sid = make_id(sid), .place = place};

    op.places = &place;
    op.place_count = 1;
    hf__mem_model_run(model, &op, now);
    return op;
}

/* A lease of 10 that began at 5 is alive at 14 and over at 15. */
static void lease_ends_to_the_nanosecond(void)
{
    told t;
    hf__mem_store *model = make_model(&t);
    hf_op op = run_plain(model, HF_OP_ATTACH, 1, 10, 5);

    EXPECT_EQ(op.error.code, 0);
    EXPECT_EQ(op.remaining, 10);
    op = run_plain(model, HF_OP_RENEW, 1, 1, 14); /* never shortens */
    EXPECT_EQ(op.error.code, 0);
    EXPECT_EQ(op.remaining, 1);
    op = run_plain(model, HF_OP_RENEW, 1, 10, 15);
    EXPECT_CODE(op.error.code, HF_EEXPIRED);
    EXPECT_EQ(op.outcome, HF_APPLIED);
    EXPECT_EQ(op.remaining, 0);
    hf__mem_model_free(model);
}

/* A late copy of the attach must not bring the session back to life, or the
 * renewal behind it would prolong holds that are gone. */
static void dead_sid_stays_dead(void)
{
    told t;
    hf__mem_store *model = make_model(&t);

    run_plain(model, HF_OP_ATTACH, 1, 10, 0);
    EXPECT_CODE(run_plain(model, HF_OP_ATTACH, 1, 10, 10).error.code,
                HF_EEXPIRED);
    EXPECT_CODE(run_plain(model, HF_OP_RENEW, 1, 10, 11).error.code,
                HF_EEXPIRED);
    run_plain(model, HF_OP_ATTACH, 2, 10, 12);
    run_plain(model, HF_OP_DETACH, 2, 0, 13);
    EXPECT_CODE(run_plain(model, HF_OP_ATTACH, 2, 10, 14).error.code,
                HF_EEXPIRED);
    EXPECT_EQ(hf__mem_model_sessions(model), 0);
    hf__mem_model_free(model);
}

static void grant_is_told_to_its_session(void)
{
    told t;
    hf__mem_store *model = make_model(&t);
    hf_place one = make_place(1, "k", HF_EXCLUSIVE);
    hf_place two = make_place(2, "k", HF_EXCLUSIVE);

    one.run = 5;
    run_plain(model, HF_OP_ATTACH, 1, 100, 0);
    run_plain(model, HF_OP_ATTACH, 2, 100, 0);
    run_place(model, HF_OP_JOIN, 1, &one, 1);
    run_place(model, HF_OP_JOIN, 2, &two, 2);
    EXPECT_EQ(t.changed, 0);
    EXPECT_EQ(two.look_in, 98);
    run_place(model, HF_OP_LEAVE, 1, &one, 3);
    EXPECT_EQ(t.changed, 1);
    EXPECT(t.sid.bytes[0] == 2 && t.rid.bytes[0] == 2);
    EXPECT_EQ(one.token, 1); /* 1 to 5 are its own, 6 is a place */
    EXPECT_EQ(two.num, 6);
    EXPECT_EQ(t.token, 7);
    hf__mem_model_free(model);
}

/* The holder dies: whoever asks anything makes the store notice. */
static void expiry_is_told_by_any_operation(void)
{
    told t;
    hf__mem_store *model = make_model(&t);
    hf_place one = make_place(1, "k", HF_EXCLUSIVE);
    hf_place own = make_place(2, "k", HF_EXCLUSIVE);
    hf_place two = make_place(3, "k", HF_EXCLUSIVE);

    run_plain(model, HF_OP_ATTACH, 1, 10, 0);
    run_plain(model, HF_OP_ATTACH, 2, 100, 0);
    run_place(model, HF_OP_JOIN, 1, &one, 0);
    run_place(model, HF_OP_JOIN, 1, &own, 0);
    run_place(model, HF_OP_JOIN, 2, &two, 0);
    run_plain(model, HF_OP_RENEW, 2, 100, 10);
    EXPECT_EQ(t.changed, 1); /* and none for the dead one's own waiter */
    EXPECT_EQ(t.rid.bytes[0], 3);
    EXPECT_EQ(hf__mem_model_entries(model), 1);
    run_place(model, HF_OP_LEAVE, 1, &one, 11);
    EXPECT_EQ(one.verdict, HF_GONE);
    EXPECT_CODE(one.reason, HF_EEXPIRED);
    hf__mem_model_free(model);
}

/* Without marks: the next in line hears of each change, and judges. */
static void without_marks(void)
{
    told t;
    hf__mem_store *model = make_model(&t);
    hf_place places[3];

    hf__mem_model_set_marks(model, false);
    run_plain(model, HF_OP_ATTACH, 1, 100, 0);
    for (uint8_t i = 0; i < 3; i++) {
        places[i] = make_place(i, "k", HF_EXCLUSIVE);
        places[i].run = 4;
        run_place(model, HF_OP_JOIN, 1, &places[i], 0);
        EXPECT_EQ(places[i].verdict, HF_JUDGE);
        EXPECT_EQ(places[i].seat_count, i + 1);
        EXPECT_EQ(places[i].seats[i].num, i + 1);
        EXPECT_EQ(places[i].token, i + 1);
        EXPECT_EQ(places[i].run, 1);
        hfd_free(places[i].seats);
        places[i].seats = NULL;
    }
    run_place(model, HF_OP_LEAVE, 1, &places[1], 1);
    EXPECT_EQ(t.changed, 1);
    EXPECT_EQ(t.rid.bytes[0], 2);
    EXPECT_EQ(t.token, 0);
    run_place(model, HF_OP_LEAVE, 1, &places[0], 1);
    EXPECT_EQ(t.changed, 2);
    hf__mem_model_free(model);
}

/* News comes at once, and again with each renewal, until the owner leaves. */
static hf_op run_each(hf__mem_store *model, hf_op_kind kind, hf_place *place,
                      hf_nsec now)
{
    hf_op op = {.kind = kind, .sid = make_id(1), .ttl = 10};

    op.place = kind == HF_OP_RENEW || kind == HF_OP_RECHECK ? NULL : place;
    op.places = &place;
    op.place_count = op.place ? 0 : 1;
    hf__mem_model_run(model, &op, now);
    return op;
}

/* Holds that end one by one: a renewal is about those that it names, and what
 * is over stays over. */
static void one_by_one(void)
{
    told t;
    hf__mem_store *model = make_model(&t);
    hf_place a = make_place(1, "a", HF_EXCLUSIVE);
    hf_place b = make_place(2, "b", HF_EXCLUSIVE);
    hf_place other = make_place(3, "a", HF_EXCLUSIVE);

    hf__mem_model_set_each(model, true);
    EXPECT_EQ(run_each(model, HF_OP_JOIN, &a, 0).error.code, 0);
    EXPECT_EQ(a.verdict, HF_GRANTED);
    EXPECT_EQ(a.remaining, 10);
    run_each(model, HF_OP_JOIN, &b, 0);
    run_each(model, HF_OP_JOIN, &other, 1);
    EXPECT_EQ(other.verdict, HF_WAITS);
    EXPECT_EQ(hf__mem_model_entries(model), 2); /* who waits is not stored */
    EXPECT_EQ(run_each(model, HF_OP_RENEW, &a, 9).remaining, 10);
    EXPECT_EQ(a.verdict, HF_GRANTED);
    EXPECT_EQ(a.remaining, 10);
    EXPECT_EQ(run_each(model, HF_OP_RENEW, &b, 10).error.code, 0);
    EXPECT_EQ(b.verdict, HF_GONE);
    EXPECT_EQ(b.reason, HF_ENOTHELD);
    run_each(model, HF_OP_RECHECK, &other, 19);
    EXPECT_EQ(other.verdict, HF_GRANTED);
    EXPECT(other.token > a.token);
    run_each(model, HF_OP_RENEW, &a, 20);
    EXPECT_EQ(a.verdict, HF_GONE);
    run_each(model, HF_OP_DETACH, &a, 21);
    EXPECT_EQ(hf__mem_model_entries(model), 0);
    EXPECT_EQ(hf__mem_model_sessions(model), 0);
    hf__mem_model_free(model);
}

static void news_until_heard(void)
{
    told t;
    hf__mem_store *model = make_model(&t);
    hf_place one = make_place(1, "k", HF_EXCLUSIVE);
    hf_op evict = {.kind = HF_OP_EVICT, .text = "k", .text_len = 1, .ttl = 50};

    run_plain(model, HF_OP_ATTACH, 1, 100, 0);
    run_place(model, HF_OP_JOIN, 1, &one, 0);
    hf__mem_model_run(model, &evict, 10);
    EXPECT_EQ(evict.count, 1);
    EXPECT_EQ(t.news, 1);
    EXPECT_CODE(t.reason, HF_EFORCED);
    run_plain(model, HF_OP_RENEW, 1, 100, 20);
    run_plain(model, HF_OP_RENEW, 1, 100, 109);
    EXPECT_EQ(t.news, 3);
    EXPECT_EQ(hf__mem_model_entries(model), 1); /* the owner's lease is 100 */
    run_plain(model, HF_OP_RENEW, 1, 100, 110);
    EXPECT_EQ(hf__mem_model_entries(model), 0);
    EXPECT_EQ(t.news, 5); /* when it went, and with the renewal */
    run_place(model, HF_OP_LEAVE, 1, &one, 111);
    EXPECT_EQ(one.verdict, HF_GONE);
    EXPECT_CODE(one.reason, HF_EFORCED);
    run_plain(model, HF_OP_RENEW, 1, 100, 112);
    EXPECT_EQ(t.news, 5);
    run_place(model, HF_OP_LEAVE, 1, &one, 113); /* its answer was lost */
    EXPECT_CODE(one.reason, HF_EFORCED);
    hf__mem_model_free(model);
}

/* A broken hold must not lengthen its fixed lease. */
static void broken_is_not_confirmed(void)
{
    told t;
    hf__mem_store *model = make_model(&t);
    hf_place one = make_place(1, "k", HF_EXCLUSIVE);
    hf_op evict = {.kind = HF_OP_EVICT, .text = "k", .text_len = 1, .ttl = 50};

    one.lease = 1000;
    run_plain(model, HF_OP_ATTACH, 1, 100, 0);
    run_place(model, HF_OP_JOIN, 1, &one, 0);
    EXPECT_EQ(one.remaining, 1000);
    run_plain(model, HF_OP_DETACH, 1, 0, 1);
    run_place(model, HF_OP_CONFIRM, 1, &one, 2);
    EXPECT_EQ(one.remaining, 1000);
    hf__mem_model_run(model, &evict, 10);
    run_place(model, HF_OP_CONFIRM, 1, &one, 11);
    EXPECT_EQ(one.verdict, HF_GONE);
    EXPECT_CODE(one.reason, HF_EFORCED);
    EXPECT_EQ(hf__mem_model_entries(model), 1);
    run_plain(model, HF_OP_DETACH, 1, 0, 60);
    /* Its owner may believe in it to the end, with or without a session. */
    EXPECT_EQ(hf__mem_model_entries(model), 1);
    run_plain(model, HF_OP_DETACH, 1, 0, 1002);
    EXPECT_EQ(hf__mem_model_entries(model), 0);
    hf__mem_model_free(model);
}

static void forgetting_keeps_the_counter(void)
{
    told t;
    hf__mem_store *model = make_model(&t);
    hf_place one = make_place(1, "k", HF_EXCLUSIVE);
    hf_place two = make_place(2, "k", HF_EXCLUSIVE);

    run_plain(model, HF_OP_ATTACH, 1, 100, 0);
    run_place(model, HF_OP_JOIN, 1, &one, 0);
    hf__mem_model_forget(model);
    EXPECT_EQ(hf__mem_model_entries(model), 0);
    EXPECT_CODE(run_plain(model, HF_OP_RENEW, 1, 100, 1).error.code,
                HF_EEXPIRED);
    run_plain(model, HF_OP_ATTACH, 2, 100, 1);
    run_place(model, HF_OP_JOIN, 2, &two, 1);
    EXPECT_EQ(two.verdict, HF_GRANTED);
    EXPECT(two.token > one.token);
    hf__mem_model_free(model);
}

static void malformed_places_are_refused(void)
{
    told t;
    hf__mem_store *model = make_model(&t);
    static char key[HF_KEY_MAX + 2];
    hf_place place;
    hf_op op;

    memset(key, 'k', sizeof key - 1);
    run_plain(model, HF_OP_ATTACH, 1, 100, 0);
    place = make_place(1, "", HF_EXCLUSIVE);
    EXPECT_CODE(run_place(model, HF_OP_JOIN, 1, &place, 0).error.code,
                HF_EINVAL);
    place = make_place(1, key, HF_EXCLUSIVE);
    EXPECT_CODE(run_place(model, HF_OP_JOIN, 1, &place, 0).error.code,
                HF_EINVAL);
    place = make_place(1, "k", HF_PERMIT);
    EXPECT_CODE(run_place(model, HF_OP_JOIN, 1, &place, 0).error.code,
                HF_EINVAL);
    place = make_place(1, "k", HF_EXCLUSIVE);
    op = (hf_op){.kind = HF_OP_JOIN,
                 .sid = make_id(1),
                 .place = &place,
                 .value = key,
                 .value_len = HF_VALUE_MAX + 1};
    hf__mem_model_run(model, &op, 0);
    EXPECT_CODE(op.error.code, HF_EINVAL);
    EXPECT_EQ(op.outcome, HF_NOT_APPLIED);
    EXPECT_CODE(run_plain(model, HF_OP_ATTACH, 2, 0, 0).error.code, HF_EINVAL);
    EXPECT_EQ(hf__mem_model_entries(model), 0);
    hf__mem_model_free(model);
}

/* ---- Every allocation fails once ---------------------------------------- */

static long fail_at = -1, allocations;

static void *failing_realloc(void *p, size_t size, void *user)
{
    (void)user;
    if (size == 0) {
        free(p);
        return NULL;
    }
    return allocations++ == fail_at ? NULL : realloc(p, size);
}

static int ignore_row(const hf_row *row, void *user)
{
    (void)row;
    (void)user;
    return 0;
}

/* Out of memory is not applied: once there is some again the same request
 * succeeds, and the queue is as if nothing had been. */
static void settle_op(hf__mem_store *model, hf_op *op, int *failures)
{
    for (int i = 0; i < 3; i++) {
        hf__mem_model_run(model, op, 1);
        if (op->error.code == 0)
            return;
        EXPECT_CODE(op->error.code, HF_ENOMEM);
        EXPECT_EQ(op->outcome, HF_NOT_APPLIED);
        ++*failures;
    }
    FAIL_TEST("out of memory three times for one failure");
}

static int play_short_of_memory(bool marks)
{
    hf__mem_store *model = hf__mem_model_new();
    hf_place places[20];
    int failures = 0;

    if (!model)
        return 1;
    hf__mem_model_set_marks(model, marks);
    settle_op(model, &(hf_op){.kind = HF_OP_ATTACH, .ttl = 100}, &failures);
    for (uint8_t i = 0; i < 20; i++) {
        places[i] = make_place(i, i % 2 ? "odd" : "even", HF_EXCLUSIVE);
        settle_op(model,
                  &(hf_op){.kind = HF_OP_JOIN,
                           .place = &places[i],
                           .value = "value",
                           .value_len = 5},
                  &failures);
        EXPECT_EQ(hf__mem_model_entries(model), i + 1);
        EXPECT_EQ(places[i].verdict, !marks  ? HF_JUDGE
                                     : i < 2 ? HF_GRANTED
                                             : HF_WAITS);
        hfd_free(places[i].seats);
        places[i].seats = NULL;
    }
    settle_op(model, &(hf_op){.kind = HF_OP_LIST, .emit_row = ignore_row},
              &failures);
    for (uint8_t i = 0; i < 20; i++)
        settle_op(model,
                  &(hf_op){.kind = HF_OP_LEAVE,
                           .place = &places[i],
                           .tomb = i % 3 == 0},
                  &failures);
    places[0].rid = make_id(77);
    settle_op(model,
              &(hf_op){.kind = HF_OP_LEAVE, .place = &places[0], .tomb = true},
              &failures);
    EXPECT_EQ(hf__mem_model_entries(model), 0);
    hf__mem_model_free(model);
    return failures;
}

static void every_allocation_fails(void)
{
    hf_set_alloc(failing_realloc, NULL);
    for (int marks = 0; marks < 2; marks++) {
        int met = 0;

        for (fail_at = 0;; fail_at++) {
            allocations = 0;
            met += play_short_of_memory(marks);
            if (allocations <= fail_at)
                break;
        }
        EXPECT(met > 40); /* growing a table may fail unnoticed */
    }
}

static const test_case cases[] = {TEST(lease_ends_to_the_nanosecond),
                                  TEST(dead_sid_stays_dead),
                                  TEST(grant_is_told_to_its_session),
                                  TEST(expiry_is_told_by_any_operation),
                                  TEST(without_marks),
                                  TEST(one_by_one),
                                  TEST(news_until_heard),
                                  TEST(broken_is_not_confirmed),
                                  TEST(forgetting_keeps_the_counter),
                                  TEST(malformed_places_are_refused),
                                  TEST(every_allocation_fails)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "mem", cases, sizeof cases / sizeof *cases);
}
