/* late_test.c - answers that come when nobody counts on them any more, and
 * instants between two steps of the core that a thread would have to be lucky
 * to meet.  The store is a script of this test: it keeps an operation as long
 * as it is told to, and can do something while one is under way.  The clock is
 * the test's own and the keeper is stepped by hand. */
#include "harness/expect.h"
#include "harness/runner.h"

#include "core/fake_clock_test.h"
#include "core/internal.h"
#include "core/registry.h"

enum { LEASE_MS = 30000, MARGIN_MS = 3000, KINDS = HF_OP_PROBE + 1 };

/* ---- the store ---- */

static unsigned seen[KINDS];       /* how many were asked for */
static bool kept_kind[KINDS];      /* these are not answered by themselves */
static hf_outcome outcomes[KINDS]; /* HF_UNKNOWN: as usual */
static int codes[KINDS], reason;   /* reason: the place is gone, for that */
static hf_nsec too_much;           /* is said to be left beyond the lease */
static hf_op *kept[8];
static unsigned kept_count;
static hf_id left_rid; /* of the last leave */
static hf_op_kind during;
static void (*meanwhile)(void); /* once, while one of that kind is under way */
static int stage;

static void answer(hf_op *op)
{
    static uint64_t tokens;
    hf_outcome outcome = outcomes[op->kind];

    op->remaining = op->ttl;
    if (op->place) {
        op->place->verdict = reason ? HF_GONE : HF_GRANTED;
        op->place->reason = reason;
        op->place->remaining = op->place->lease + too_much;
        if (op->kind == HF_OP_JOIN)
            op->place->num = op->place->token = ++tokens;
    }
    hfd_finish(op, outcome ? outcome : HF_APPLIED, codes[op->kind]);
}

static int stage_open(hf_store **ret, const hf_url *url, const hf_host *host,
                      uint32_t *ret_caps, hf_error *err)
{
    (void)url;
    (void)host;
    (void)err;
    *ret = (hf_store *)(void *)&stage;
    *ret_caps = HF_CAP_TOKEN | HF_CAP_MARKS | HF_CAP_SHARED | HF_CAP_VALUE |
                HF_CAP_FIXED_LEASE;
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

static void stage_start(hf_store *store, hf_op *op)
{
    void (*act)(void) = op->kind == during ? meanwhile : NULL;

    (void)store;
    op->sent = hfd_now();
    seen[op->kind]++;
    if (op->kind == HF_OP_LEAVE)
        left_rid = op->place->rid;
    if (act) {
        meanwhile = NULL;
        act();
    }
    if (kept_kind[op->kind] && !op->driven)
        kept[kept_count++] = op;
    else
        answer(op);
}

static void stage_drive(hf_store *store, hf_op *op)
{
    (void)store; /* it is done: what is driven is never kept */
    (void)op;
}

static const char *const no_options[] = {NULL};
static const hf_driver driver = {
    HF_DRIVER_HEAD,         .name = "stage",         .schemes = "stage",
    .options = no_options,  .open = stage_open,      .close = stage_close,
    .abandon = stage_close, .start = stage_start,    .drive = stage_drive,
    .fd = stage_fd,         .dispatch = stage_close,
};

/* The first that was kept is answered now. */
static void answer_kept(void)
{
    hf_op *op = kept[0];

    EXPECT(kept_count > 0);
    kept_count--;
    memmove(kept, kept + 1, kept_count * sizeof *kept);
    answer(op);
}

/* ---- the session ---- */

static hf__session *inside;

static hf_session *open_stage(void)
{
    hf_open_options opt = {HF_OPEN_OPTIONS, .lease_ms = LEASE_MS};
    hf_session *session;
    hf_error err;

    hf__clock_set(&fake_clock);
    hf__registry_add(&driver);
    EXPECT_OK(hf_open(&session, "stage:x", &opt, &err), err);
    EXPECT_EQ(hf__session_enter(session, &inside, NULL), 0);
    hf__session_leave(inside);
    return session;
}

static void keep(void)
{
    hf__session_lock(inside);
    hf__keeper_step(inside);
    hf__session_unlock(inside);
}

static hf_hold *take_with(hf_session *session, hf_lock_options opt)
{
    hf_hold *hold = NULL;
    hf_error err;

    EXPECT_OK(hf_lock(session, "k", &opt, &hold, &err), err);
    return hold;
}

static hf_hold *take(hf_session *session)
{
    return take_with(session, (hf_lock_options){HF_LOCK_OPTIONS});
}

static hf_request *start(hf_session *session, hf_lock_options opt)
{
    hf_request *request = NULL;
    hf_error err;

    EXPECT_OK(hf_lock_start(session, "k", &opt, NULL, &request, &err), err);
    return request;
}

static hf_result collect(hf_session *session)
{
    hf_result result;

    EXPECT_EQ(hf_collect(session, &result), 1);
    return result;
}

/* ---- a call and the session's end ---- */

static void expect_inside(void)
{
    EXPECT_EQ(atomic_load(&inside->calls), 1);
}

/* What a call has sent off may land, and another thread close the session,
 * before the call is back: it counts as inside until it needs the session no
 * more. */
static void a_call_is_inside_to_its_end(void)
{
    hf_session *session = open_stage();
    hf_hold *hold = take(session);

    during = HF_OP_LEAVE;
    meanwhile = expect_inside;
    EXPECT_CODE(hf_release_start(hold, NULL, NULL, NULL), 0);
    EXPECT(meanwhile == NULL);
    EXPECT_CODE(collect(session).error.code, 0);
    hf_close(session);
}

static void expect_two_flights(void)
{
    EXPECT_EQ(inside->flights, 2);
}

/* The same of a flight that has landed and sent off another one. */
static void a_flight_is_counted_to_its_end(void)
{
    hf_session *session = open_stage();
    hf_request *request;

    EXPECT_CODE(hf_release(take(session), NULL), 0);
    kept_kind[HF_OP_JOIN] = true;
    request = start(session, (hf_lock_options){HF_LOCK_OPTIONS});
    EXPECT_CODE(hf_cancel(request, NULL), 0);
    during = HF_OP_LEAVE;
    meanwhile = expect_two_flights;
    answer_kept();
    EXPECT(meanwhile == NULL);
    EXPECT_CODE(collect(session).error.code, HF_ECANCELED);
    hf_close(session);
}

/* ---- answers after the session's end ---- */

/* A fixed lease outlives its session: a join that was answered too late has
 * made one that nobody has, and is left. */
static void a_fixed_lease_after_the_session(void)
{
    hf_session *session = open_stage();
    hf_lock_options opt = {HF_LOCK_OPTIONS, .lease_ms = 10 * LEASE_MS,
                           .wait_ms = HF_FOREVER};
    hf_id rid;

    EXPECT_CODE(hf_release(take(session), NULL), 0);
    EXPECT_EQ(seen[HF_OP_LEAVE], 1);
    kept_kind[HF_OP_JOIN] = true;
    start(session, opt);
    EXPECT_EQ(kept_count, 1);
    rid = kept[0]->place->rid;
    pass(2 * LEASE_MS);
    keep();
    EXPECT_EQ(inside->told, HF_LOST);
    kept_kind[HF_OP_JOIN] = false;
    answer_kept();
    EXPECT_EQ(seen[HF_OP_LEAVE], 2);
    EXPECT(memcmp(&left_rid, &rid, sizeof rid) == 0);
    EXPECT_CODE(collect(session).error.code, 0);
    hf_close(session);
}

/* The renewal of a session that is over comes back when there is a new one:
 * the keeper, which waited for it, must see to the new one's. */
static void a_renewal_of_the_session_before(void)
{
    hf_session *session = open_stage();

    EXPECT_CODE(hf_release(take(session), NULL), 0);
    kept_kind[HF_OP_RENEW] = true;
    pass(LEASE_MS / 2);
    keep();
    EXPECT_EQ(kept_count, 1);
    pass(2 * LEASE_MS);
    keep();
    take(session);
    /* As if its thread slept until the end of the lease. */
    inside->keeper_runs = true;
    inside->keeper_due = hf__lease_lost_at(&inside->lease);
    answer_kept();
    EXPECT(inside->keeper_due <= inside->lease.next_renew);
    inside->keeper_runs = false;
    hf_close(session);
}

/* ---- patience ---- */

/* It counts from the first question to the store, not from the call: who has
 * waited here for long is not refused for one answer that was lost. */
static void patience_begins_with_the_turn(void)
{
    hf_session *session = open_stage();
    hf_hold *hold = take(session);
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = HF_FOREVER};

    start(session, opt);
    for (int i = 0; i < 8; i++) {
        pass(LEASE_MS / 3);
        keep();
    }
    outcomes[HF_OP_JOIN] = HF_NOT_APPLIED;
    codes[HF_OP_JOIN] = HF_EUNAVAIL;
    EXPECT_CODE(hf_release(hold, NULL), 0);
    EXPECT_EQ(seen[HF_OP_JOIN], 2);
    outcomes[HF_OP_JOIN] = HF_APPLIED;
    codes[HF_OP_JOIN] = 0;
    pass(1000);
    keep();
    EXPECT_CODE(collect(session).error.code, 0);
    hf_close(session);
}

/* Likewise when the session ends while it waits here. */
static void patience_begins_with_a_loss(void)
{
    hf_session *session = open_stage();
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = HF_FOREVER};
    hf_hold *hold = take(session);

    start(session, opt);
    outcomes[HF_OP_ATTACH] = HF_NOT_APPLIED;
    codes[HF_OP_ATTACH] = HF_EUNAVAIL;
    pass(2 * LEASE_MS);
    keep();
    EXPECT_EQ(seen[HF_OP_ATTACH], 2);
    outcomes[HF_OP_ATTACH] = HF_APPLIED;
    codes[HF_OP_ATTACH] = 0;
    pass(1000);
    keep();
    EXPECT_CODE(collect(session).error.code, 0);
    EXPECT_CODE(hf_release(hold, NULL), HF_EEXPIRED);
    hf_close(session);
}

/* ---- fixed leases that are lost while they are renewed ---- */

static void a_fixed_lease_lengthened_too_late(void)
{
    hf_session *session = open_stage();
    hf_lock_options opt = {HF_LOCK_OPTIONS, .lease_ms = 10000};
    hf_hold *hold = take_with(session, opt);

    kept_kind[HF_OP_CONFIRM] = true;
    EXPECT_CODE(hf_renew_start(hold, NULL, NULL, NULL), 0);
    pass(11000);
    keep();
    EXPECT_EQ(seen[HF_OP_LEAVE], 0);
    answer_kept();
    EXPECT_CODE(collect(session).error.code, HF_EEXPIRED);
    EXPECT_EQ(seen[HF_OP_LEAVE], 1);
    EXPECT_CODE(hf_release(hold, NULL), HF_EEXPIRED);
    hf_close(session);
}

static void a_lost_one_is_not_renewed(void)
{
    hf_session *session = open_stage();
    hf_lock_options opt = {HF_LOCK_OPTIONS, .lease_ms = 10000};
    hf_hold *hold = take_with(session, opt);
    hf_request *request = NULL;

    pass(11000);
    EXPECT_CODE(hf_renew_start(hold, NULL, &request, NULL), HF_EEXPIRED);
    EXPECT(request == NULL);
    EXPECT_EQ(seen[HF_OP_CONFIRM], 0);
    EXPECT_CODE(hf_release(hold, NULL), HF_EEXPIRED);
    hf_close(session);
}

/* A break that a publication tells of: the owner has its margin to stop in. */
static void a_break_told_by_an_answer(void)
{
    hf_session *session = open_stage();
    hf_hold *hold = take(session);

    reason = HF_EFORCED;
    EXPECT_CODE(hf_publish(hold, "v", 1, NULL), HF_EFORCED);
    reason = 0;
    EXPECT_EQ(seen[HF_OP_LEAVE], 0);
    pass(MARGIN_MS + 1);
    keep();
    EXPECT_EQ(seen[HF_OP_LEAVE], 1);
    EXPECT_CODE(hf_release(hold, NULL), HF_EFORCED);
    hf_close(session);
}

/* ---- refusals ---- */

/* What the store refused it has not done: a renewal is no success then, and a
 * place that was not left is left again. */
static void a_refusal_is_no_success(void)
{
    hf_session *session = open_stage();
    hf_hold *hold = take(session);

    codes[HF_OP_RENEW] = HF_EPERM;
    EXPECT_CODE(hf_renew(hold, NULL), HF_EPERM);
    codes[HF_OP_RENEW] = 0;
    codes[HF_OP_LEAVE] = HF_EPERM;
    EXPECT_CODE(hf_release_start(hold, NULL, NULL, NULL), 0);
    EXPECT_CODE(collect(session).error.code, HF_EUNKNOWN);
    codes[HF_OP_LEAVE] = 0;
    pass(1000);
    keep();
    EXPECT_EQ(seen[HF_OP_LEAVE], 2);
    hf_close(session);
}

/* Two who want it shared do not exclude each other: a try waits for the answer
 * of a join that this process has under way. */
static void a_shared_try_beside_a_join(void)
{
    hf_session *session = open_stage();
    hf_lock_options opt = {HF_LOCK_OPTIONS, .mode = HF_SHARED,
                           .wait_ms = HF_FOREVER};

    EXPECT_CODE(hf_release(take(session), NULL), 0);
    kept_kind[HF_OP_JOIN] = true;
    start(session, opt);
    opt.wait_ms = 0;
    start(session, opt);
    start(session, opt);
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(kept_count, 1);
        answer_kept();
        EXPECT_CODE(collect(session).error.code, 0);
    }
    opt.mode = HF_EXCLUSIVE; /* that one is refused without a question */
    start(session, opt);
    answer_kept();
    opt.mode = HF_SHARED;
    start(session, opt);
    EXPECT_CODE(collect(session).error.code, 0);
    EXPECT_CODE(collect(session).error.code, HF_EBUSY);
    hf_close(session);
}

/* Its clock was set back between the grant and the answer. */
static void no_more_than_was_asked_for(void)
{
    hf_session *s = open_stage();
    hf_lock_options opt = {HF_LOCK_OPTIONS, .lease_ms = 1000};
    hf_hold *hold;
    hf_error err;

    too_much = HF_MS(3600000);
    EXPECT_OK(hf_lock(s, "k", &opt, &hold, &err), err);
    EXPECT(hf_hold_remaining_ms(hold) <= 1000);
    EXPECT_OK(hf_renew(hold, &err), err);
    EXPECT(hf_hold_remaining_ms(hold) <= 1000);
    too_much = 0;
    EXPECT_OK(hf_release(hold, &err), err);
    hf_close(s);
}

static const test_case cases[] = {
    TEST(a_call_is_inside_to_its_end),
    TEST(a_flight_is_counted_to_its_end),
    TEST(a_fixed_lease_after_the_session),
    TEST(a_renewal_of_the_session_before),
    TEST(patience_begins_with_the_turn),
    TEST(patience_begins_with_a_loss),
    TEST(a_fixed_lease_lengthened_too_late),
    TEST(a_lost_one_is_not_renewed),
    TEST(a_break_told_by_an_answer),
    TEST(a_refusal_is_no_success),
    TEST(a_shared_try_beside_a_join),
    TEST(no_more_than_was_asked_for),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "late", cases, sizeof cases / sizeof *cases);
}
