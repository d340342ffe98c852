/* doubt_test.c - what the core makes of a store that says strange things: a
 * memory that changed, a clock that was set, holds that end one by one, a
 * quarantine.  The store is a script of this test, the clock its own, and the
 * keeper is stepped by hand, so every step is the test's (G1, G5). */
#include "harness/expect.h"
#include "harness/runner.h"

#include "core/fake_clock_test.h"
#include "core/internal.h"
#include "core/registry.h"

enum { ROWS = 8 };

static struct {
    hf_host host;
    uint32_t caps;
    hf_nsec clock_ahead; /* of ours */
    int64_t trip_ms;     /* how long an answer takes */
    uint64_t token;
    hf_id joined[ROWS], left;
    unsigned joins, renews, lists, leaves;
    size_t covered;   /* places of the last renewal */
    int join_code;    /* not 0: refused with it */
    bool push_first;  /* the grant is pushed before the join is answered */
    bool break_first; /* and then broken */
    bool list_fails, renew_fails, join_driven, renew_driven, left_tomb;
    unsigned gone; /* bit i: the i-th place of a renewal is gone */
    hf_row rows[ROWS];
    size_t row_count;
    void (*in_renew)(void); /* runs before it is sent */
} stage;

/* ---- the store ---- */

static int stage_open(hf_store **ret, const hf_url *url, const hf_host *host,
                      uint32_t *ret_caps, hf_error *err)
{
    (void)url;
    (void)err;
    stage.host = *host;
    *ret = (hf_store *)(void *)&stage;
    *ret_caps = stage.caps | HF_CAP_BLOCKING | HF_CAP_TOKEN |
                HF_CAP_FIXED_LEASE | HF_CAP_MARKS;
    return 0;
}

static void stage_close(hf_store *store)
{
    (void)store;
}

static int stage_fd(hf_store *store)
{
    (void)store;
    return -1;
}

static void answer_join(hf_op *op)
{
    hf_place *place = op->place;

    stage.join_driven = op->driven;
    if (stage.join_code) {
        hfd_error(&op->error, stage.join_code, "stage", 0, "forgot a lock");
        op->outcome = HF_NOT_APPLIED;
        stage.joins++;
        return;
    }
    stage.joined[stage.joins++ % ROWS] = place->rid;
    place->verdict = HF_GRANTED;
    place->num = place->token = ++stage.token;
    if (stage.push_first) {
        hf_place fresh = {.verdict = HF_GRANTED, .token = 77, .run = 1};

        stage.host.changed(stage.host.ctx, &place->rid, &fresh);
        if (stage.break_first)
            stage.host.news(stage.host.ctx, &place->rid, HF_EFORCED);
        place->verdict = HF_WAITS; /* as it was before the grant */
        place->token = 0;
    }
    place->remaining = place->lease > 0             ? place->lease
                       : (stage.caps & HF_CAP_EACH) ? op->ttl
                                                    : 0;
}

static void answer_renew(hf_op *op)
{
    if (stage.in_renew)
        stage.in_renew();
    op->sent = hfd_now();
    stage.renews++;
    stage.renew_driven = op->driven;
    stage.covered = op->place_count;
    if (stage.renew_fails)
        op->outcome = HF_UNKNOWN;
    for (size_t i = 0; i < op->place_count; i++) {
        bool gone = stage.gone >> i & 1;

        op->places[i]->verdict = gone ? HF_GONE : HF_GRANTED;
        op->places[i]->reason = gone ? HF_ENOTHELD : 0;
        op->places[i]->remaining = op->ttl;
    }
}

static void answer_list(hf_op *op)
{
    stage.lists++;
    EXPECT(op->only_mine);
    if (stage.list_fails)
        op->outcome = HF_UNKNOWN;
    for (size_t i = 0; !stage.list_fails && i < stage.row_count; i++)
        EXPECT_EQ(op->emit_row(&stage.rows[i], op->user), 0);
}

static void stage_start(hf_store *store, hf_op *op)
{
    (void)store;
    op->sent = hfd_now();
    op->outcome = HF_APPLIED;
    op->remaining = op->ttl;
    if (op->kind == HF_OP_JOIN) {
        answer_join(op);
    } else if (op->kind == HF_OP_RENEW) {
        answer_renew(op);
    } else if (op->kind == HF_OP_LIST) {
        answer_list(op);
    } else if (op->kind == HF_OP_CONFIRM) {
        op->place->verdict = HF_GRANTED;
        op->place->remaining = op->place->lease;
    } else if (op->kind == HF_OP_LEAVE) {
        stage.left = op->place->rid;
        stage.left_tomb = op->tomb;
        stage.leaves++;
        op->place->verdict = HF_GRANTED;
    }
    op->store_us = (hfd_now() + stage.clock_ahead) / 1000;
    pass(stage.trip_ms);
    hfd_finish(op, op->outcome, op->error.code);
}

static const hf_driver driver = {
    HF_DRIVER_HEAD,          .name = "stage",      .schemes = "stage",
    .options = NULL,         .open = stage_open,   .close = stage_close,
    .abandon = stage_close,  .start = stage_start, .fd = stage_fd,
    .dispatch = stage_close,
};

/* ---- the usual steps ---- */

static hf_session *open_stage(uint32_t caps)
{
    static const char *const none[] = {NULL};
    static hf_driver copy;
    hf_session *session;
    hf_error err;

    hf__clock_set(&fake_clock);
    copy = driver;
    copy.options = none;
    stage.caps = caps;
    hf__registry_add(&copy);
    EXPECT_OK(hf_open(&session, "stage:x",
                      &(hf_open_options){HF_OPEN_OPTIONS, .lease_ms = 30000},
                      &err),
              err);
    return session;
}

static hf_hold *take(hf_session *session, const char *key, int64_t lease_ms)
{
    hf_hold *hold;
    hf_error err;

    EXPECT_OK(hf_lock(session, key,
                      &(hf_lock_options){HF_LOCK_OPTIONS, .lease_ms = lease_ms},
                      &hold, &err),
              err);
    return hold;
}

static void keep(hf_session *session)
{
    hf__session *s;

    EXPECT_EQ(hf__session_enter(session, &s, NULL), 0);
    hf__keeper_step(s);
    hf__session_leave(s);
}

static void show_row(const char *key, const hf_id *rid, bool granted)
{
    stage.rows[stage.row_count++] = (hf_row){
        .info = {.key = key, .key_len = 1, .granted = granted}, .rid = *rid};
}

static void doubt(void)
{
    stage.host.doubt(stage.host.ctx, HF_EUNAVAIL, "the connection broke");
}

/* ---- op.driven ---- */

static void a_caller_drives_its_own(void)
{
    hf_session *session = open_stage(0);

    take(session, "a", 0);
    EXPECT(stage.join_driven);
    stage.renew_driven = true;
    pass(10001);
    keep(session);
    EXPECT_EQ(stage.renews, 1);
    EXPECT(!stage.renew_driven);
    hf_close(session);
}

/* ---- HF_CAP_EACH ---- */

static void a_renewal_takes_all_holds_along(void)
{
    hf_session *session = open_stage(HF_CAP_EACH);
    hf_hold *a = take(session, "a", 0), *b = take(session, "b", 0);

    take(session, "c", 60000); /* a lease of its own: not asked for */
    pass(10001);
    keep(session);
    EXPECT_EQ(stage.covered, 2);
    EXPECT_EQ(hf_hold_remaining_ms(a), 30000 - 310 - 3000);
    stage.gone = 1;
    pass(10001);
    keep(session);
    EXPECT_CODE(hf_hold_check(a, NULL), HF_EEXPIRED);
    EXPECT_CODE(hf_hold_check(b, NULL), 0);
    EXPECT(memcmp(&stage.left, &stage.joined[0], sizeof stage.left) == 0);
    stage.gone = 0;
    EXPECT_CODE(hf_renew(b, NULL), 0);
    EXPECT_EQ(stage.covered, 1);
    EXPECT_CODE(hf_release(a, NULL), HF_EEXPIRED);
    hf_close(session);
}

static hf_session *the_session;
static hf_hold *late;

static void take_late(void)
{
    if (!late)
        late = take(the_session, "b", 0);
    pass(400);
}

static void a_hold_that_was_left_out_has_its_own_end(void)
{
    hf_hold *a;

    the_session = open_stage(HF_CAP_EACH);
    a = take(the_session, "a", 0);
    pass(10001);
    stage.in_renew = take_late;
    keep(the_session);
    EXPECT_EQ(stage.covered, 1);
    EXPECT_EQ(hf_hold_remaining_ms(a) - hf_hold_remaining_ms(late), 400);
    stage.in_renew = NULL;
    stage.renew_fails = true;
    pass(26690 - 400);
    EXPECT_CODE(hf_hold_check(late, NULL), HF_EEXPIRED);
    EXPECT_CODE(hf_hold_check(a, NULL), 0);
    pass(400);
    EXPECT_CODE(hf_hold_check(a, NULL), HF_EEXPIRED);
    hf_close(the_session);
}

static void a_renewal_that_comes_too_late_revives_nothing(void)
{
    hf_session *session = open_stage(HF_CAP_EACH);
    hf_hold *a = take(session, "a", 0);

    pass(26690);
    keep(session);
    EXPECT_CODE(hf_renew(a, NULL), HF_EEXPIRED);
    EXPECT_EQ(hf_hold_state(a), HF_LOST);
    hf_close(session);
}

/* ---- the audit ---- */

static void an_audit_finds_what_changed(void)
{
    hf_session *session = open_stage(0);
    hf_hold *kept = take(session, "a", 0), *gone = take(session, "b", 0);
    hf_hold *fixed = take(session, "c", 60000);
    hf_id ghost = {{1, 2, 3}};

    show_row("a", &stage.joined[0], true);
    show_row("c", &stage.joined[2], false);
    show_row("d", &ghost, true);
    pass(1000);
    doubt();
    EXPECT_EQ(hf_hold_state(kept), HF_DOUBTFUL);
    keep(session);
    EXPECT_EQ(stage.lists, 1);
    EXPECT_EQ(hf_hold_state(kept), HF_HELD);
    EXPECT_CODE(hf_hold_check(gone, NULL), HF_EEXPIRED);
    EXPECT_CODE(hf_hold_check(fixed, NULL), HF_EEXPIRED);
    EXPECT_EQ(stage.leaves, 3); /* the two that are lost, and the ghost */
    stage.leaves = 0;
    pass(100);
    keep(session);
    EXPECT_EQ(stage.lists, 1); /* once is enough */
    EXPECT_EQ(stage.leaves, 0);
    hf_close(session);
}

static void a_ghost_is_left_for_good(void)
{
    hf_session *session = open_stage(0);
    hf_hold *kept = take(session, "a", 0);
    hf_id ghost = {{9}};

    show_row("a", &stage.joined[0], true);
    show_row("a", &ghost, false);
    doubt();
    keep(session);
    EXPECT_EQ(stage.leaves, 1);
    EXPECT(memcmp(&stage.left, &ghost, sizeof ghost) == 0);
    EXPECT(stage.left_tomb);
    EXPECT_CODE(hf_release(kept, NULL), 0);
    hf_close(session);
}

static void held_is_not_said_before_the_audit(void)
{
    hf_session *session = open_stage(0);
    hf_hold *hold = take(session, "a", 0);

    show_row("a", &stage.joined[0], true);
    stage.list_fails = true;
    doubt();
    pass(1);
    keep(session);
    EXPECT_EQ(stage.renews, 1); /* the lease goes on meanwhile */
    EXPECT_EQ(hf_hold_state(hold), HF_DOUBTFUL);
    EXPECT_CODE(hf_hold_check(hold, NULL), 0); /* by arithmetic */
    stage.list_fails = false;
    pass(500);
    keep(session);
    EXPECT_EQ(stage.lists, 2);
    EXPECT_EQ(hf_hold_state(hold), HF_HELD);
    hf_close(session);
}

/* ---- the store's clock ---- */

static void a_store_set_forward_is_doubt(void)
{
    hf_session *session = open_stage(HF_CAP_CLOCK);
    hf_hold *hold = take(session, "a", 0), *fixed = take(session, "b", 60000);
    int64_t left = hf_hold_remaining_ms(fixed);

    stage.clock_ahead = HF_MS(5000);
    stage.trip_ms = 1;
    pass(10001);
    keep(session); /* its answer shows the step */
    EXPECT_EQ(hf_hold_remaining_ms(fixed), left - 10002 - 5000);
    EXPECT_CODE(hf_hold_check(hold, NULL), HF_EUNKNOWN);
    EXPECT_CODE(hf_hold_check(fixed, NULL), HF_EUNKNOWN);
    EXPECT_EQ(hf_hold_state(hold), HF_DOUBTFUL);
    pass(1);
    keep(session);
    EXPECT_EQ(hf_hold_state(hold), HF_HELD);
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    EXPECT_CODE(hf_renew(fixed, NULL), 0);
    EXPECT_CODE(hf_hold_check(fixed, NULL), 0);
    hf_close(session);
}

/* ---- a push that overtakes the answer of its join ---- */

static void an_early_grant_is_taken(void)
{
    hf_session *session = open_stage(0);
    hf_hold *hold;

    stage.push_first = true;
    hold = take(session, "a", 0);
    EXPECT_EQ(hf_hold_token(hold), 77);
    EXPECT_EQ(stage.joins, 1);
    EXPECT_CODE(hf_release(hold, NULL), 0);
    hf_close(session);
}

/* What was broken meanwhile is not ours: the wait goes on until it is over. */
static void an_early_grant_that_was_broken_is_not(void)
{
    hf_session *session = open_stage(0);
    hf_request *request;
    hf_result result;
    hf_error err;

    stage.push_first = stage.break_first = true;
    EXPECT_OK(hf_lock_start(session, "a", NULL, NULL, &request, &err), err);
    EXPECT_EQ(hf_collect(session, &result), 0);
    EXPECT_CODE(hf_cancel(request, NULL), 0);
    hf_close(session);
}

/* ---- quarantine ---- */

static void a_try_hears_of_the_quarantine(void)
{
    hf_session *session = open_stage(0);
    hf_hold *hold;
    hf_error err;

    stage.join_code = HF_EQUARANTINE;
    EXPECT_CODE(hf_try_lock(session, "a", NULL, &hold, &err), HF_EQUARANTINE);
    EXPECT_HAS(err.text, "forgot a lock");
    EXPECT_EQ(stage.joins, 1); /* at once */
    hf_close(session);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        TEST(a_caller_drives_its_own),
        TEST(a_renewal_takes_all_holds_along),
        TEST(a_hold_that_was_left_out_has_its_own_end),
        TEST(a_renewal_that_comes_too_late_revives_nothing),
        TEST(an_audit_finds_what_changed),
        TEST(a_ghost_is_left_for_good),
        TEST(held_is_not_said_before_the_audit),
        TEST(a_store_set_forward_is_doubt),
        TEST(an_early_grant_is_taken),
        TEST(an_early_grant_that_was_broken_is_not),
        TEST(a_try_hears_of_the_quarantine),
    };

    return run_tests(argc, argv, "doubt", cases, sizeof cases / sizeof *cases);
}
