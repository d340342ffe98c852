/* turn_test.c - a request whose turn has come, and a session that ends before
 * its thread runs: a process that was stopped between the two.  The store is a
 * script of this test, the clock its own, and the keeper is stepped by hand, so
 * the thread is as slow as the test wants.  Knows nothing of leases but that
 * they end. */
#include "harness/expect.h"
#include "harness/runner.h"

#include "core/fake_clock_test.h"
#include "core/internal.h"
#include "core/registry.h"

enum { LEASE_MS = 30000, OTHER = 4711 };

static hf_id attached; /* the session that is there */
static unsigned attaches, joins;

/* ---- the store ---- */

static int stage_open(hf_store **ret, const hf_url *url, const hf_host *host,
                      uint32_t *ret_caps, hf_error *err)
{
    (void)url;
    (void)host;
    (void)err;
    *ret = (hf_store *)(void *)&attached;
    *ret_caps = HF_CAP_BLOCKING | HF_CAP_TOKEN | HF_CAP_MARKS;
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
    (void)store;
    op->sent = hfd_now();
    op->remaining = op->ttl;
    if (op->kind == HF_OP_ATTACH) {
        attached = op->sid;
        attaches++;
    } else if (op->kind == HF_OP_JOIN) {
        /* Else it stands in a queue where nobody will look for it. */
        EXPECT(memcmp(&op->sid, &attached, sizeof attached) == 0);
        EXPECT_EQ(attaches, joins + 1);
        op->place->num = op->place->token = ++joins;
        op->place->verdict = HF_GRANTED;
    } else if (op->kind == HF_OP_LEAVE) {
        op->place->verdict = HF_GRANTED;
    }
    hfd_finish(op, HF_APPLIED, 0);
}

static const char *const no_options[] = {NULL};
static const hf_driver driver = {
    HF_DRIVER_HEAD,          .name = "stage",      .schemes = "stage",
    .options = no_options,   .open = stage_open,   .close = stage_close,
    .abandon = stage_close,  .start = stage_start, .fd = stage_fd,
    .dispatch = stage_close,
};

/* ---- the request of another thread ---- */

static hf__req *ask(hf_session *session, hf__bell *bell)
{
    hf__session *s;
    hf__want want;
    hf__manner manner;
    hf_lock_options opt;
    hf__req *req = NULL;
    hf_error err;

    EXPECT_EQ(hf__session_enter(session, &s, NULL), 0);
    EXPECT_EQ(hf__lock_options(&opt, NULL, &err), 0);
    EXPECT_EQ(hf__want_from(&want, &manner, &opt, true, s->caps, &err), 0);
    want.owner = OTHER;
    EXPECT_OK(hf__req_new(&req, s, &want, &manner, &err), err);
    req->bell = bell;
    EXPECT_OK(hf__req_submit(req, "k", &manner, &err), err);
    hf__session_leave(s);
    return req;
}

static hf_hold *wait_for(hf_session *session, hf__req *req)
{
    hf__session *s;
    hf_hold *hold;

    EXPECT_EQ(hf__session_enter(session, &s, NULL), 0);
    hf__req_wait(req);
    EXPECT_CODE(req->code, 0);
    hold = HF_HANDLE(hf_hold, req->hold_id);
    hf__req_free(req);
    hf__session_leave(s);
    return hold;
}

static void keep(hf_session *session)
{
    hf__session *s;

    EXPECT_EQ(hf__session_enter(session, &s, NULL), 0);
    hf__keeper_step(s);
    hf__session_leave(s);
}

/* The turn comes with a release; then the process stands still for longer than
 * the lease, and the keeper is the first who runs. */
static void a_turn_that_a_pause_outlasts(void)
{
    hf_open_options opt = {HF_OPEN_OPTIONS, .lease_ms = LEASE_MS};
    hf_session *session;
    hf__bell bell = {0};
    hf_hold *hold;
    hf__req *req;
    hf_error err;

    hf__clock_set(&fake_clock);
    hf__registry_add(&driver);
    EXPECT_OK(hf_open(&session, "stage:x", &opt, &err), err);
    EXPECT_OK(hf_lock(session, "k", NULL, &hold, &err), err);
    req = ask(session, &bell);
    EXPECT_EQ(req->state, HF_REQ_LINE);
    EXPECT_CODE(hf_release(hold, NULL), 0);
    EXPECT_EQ(req->state, HF_REQ_DUE);
    pass(2 * LEASE_MS);
    keep(session);
    EXPECT_CODE(hf_release(wait_for(session, req), NULL), 0);
    EXPECT_EQ(attaches, 2);
    EXPECT_EQ(joins, 2);
    hf_close(session);
}

/* Whoever of those in line runs first attaches.  The first of them may give up
 * instead, so a bell for him alone would leave the others asleep. */
static void all_in_line_are_woken(void)
{
    hf_open_options opt = {HF_OPEN_OPTIONS, .lease_ms = LEASE_MS};
    hf__bell bells[2] = {{0}};
    hf_session *session;
    hf__req *first, *second;
    hf_error err;

    hf__clock_set(&fake_clock);
    hf__registry_add(&driver);
    EXPECT_OK(hf_open(&session, "stage:x", &opt, &err), err);
    first = ask(session, &bells[0]);
    second = ask(session, &bells[1]);
    EXPECT(hf__bell_count(&bells[0]) > 0);
    EXPECT(hf__bell_count(&bells[1]) > 0);
    EXPECT_EQ(hf_cancel_owner(session, OTHER), 2);
    EXPECT_EQ(first->state, HF_REQ_DONE);
    EXPECT_EQ(second->state, HF_REQ_DONE);
    hf_close(session);
}

static const test_case cases[] = {TEST(a_turn_that_a_pause_outlasts),
                                  TEST(all_in_line_are_woken)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "turn", cases, sizeof cases / sizeof *cases);
}
