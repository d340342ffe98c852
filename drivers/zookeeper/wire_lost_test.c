/* wire_lost_test.c - the wire when its server breaks: cut, silent, killed.
 *
 * Each test has servers of its own (harness/ensemble.h) and several steps on
 * them, because a Java machine is dear.  What is promised: the session stays
 * the same over every connection; what was answered is there, what is there
 * was answered or is UNKNOWN; silence ends no session, the server's word
 * does. */
#include "harness/ensemble.h"
#include "harness/expect.h"
#include "harness/runner.h"

#include "wire_world.h"

enum { SILENT_MS = 1200 }; /* not answered for so long: cut (wire_late.c) */

static void open_ensemble(world *w, ensemble *e)
{
    int ports[ENSEMBLE_MOST];

    for (int i = 0; i < e->count; i++)
        ports[i] = e->between ? links_port(e->between, e->members[i].front)
                              : e->members[i].port;
    open_ports(w, ports, (size_t)e->count);
    start_keeper(w);
}

/* The member that the session is connected to; -1: none. */
static int member_of(world *w, ensemble *e)
{
    zk_standing now;
    int port;

    zk_wire_standing(w->wire, &now);
    if (!now.connected)
        return -1;
    port = (int)strtol(strrchr(now.member, ':') + 1, NULL, 10);
    for (int i = 0; i < e->count; i++) {
        if (e->members[i].port == port)
            return i;
    }
    FAIL_TEST("no member %s", now.member);
}

static hf_outcome sync_in(world *w, int64_t session, bool driven, int ms)
{
    ask a = make_ask(w, session, driven, ms);

    add(&a, ZK_SYNC, "/");
    drive(&a);
    if (a.outcome != HF_APPLIED)
        EXPECT_EQ(a.error.code, HF_EUNAVAIL);
    else
        EXPECT_EQ(a.replies[0].error, 0);
    return a.outcome;
}

static void make_node(world *w, int64_t session, const char *path)
{
    ask a = make_ask(w, session, true, LONG_MS);

    add(&a, ZK_CREATE, path)->flags = ZK_EPHEMERAL;
    EXPECT_EQ(drive(&a), HF_APPLIED);
    EXPECT_EQ(a.replies[0].error, 0);
}

/* The same session stands again, and its node is there. */
static void expect_again(world *w, int64_t session, const char *path)
{
    zk_standing now;

    EXPECT(WAIT_FOR(sync_in(w, session, true, 10000) == HF_APPLIED, LONG_MS));
    EXPECT_EQ(ask_one(w, session, ZK_EXISTS, path), 0);
    EXPECT(WAIT_FOR(atomic_load(&w->agains) > 0, LONG_MS));
    EXPECT(WAIT_FOR(atomic_load(&w->doubts) > 0, LONG_MS));
    EXPECT_EQ(atomic_load(&w->last_again), session);
    EXPECT_EQ(atomic_load(&w->overs), 0);
    zk_wire_standing(w->wire, &now);
    EXPECT_EQ(now.session, session);
    atomic_store(&w->agains, 0);
    atomic_store(&w->doubts, 0);
}

/* ---- One server ---- */

static void cut_off(world *w, ensemble *e, int64_t session, const char *path)
{
    ensemble_cut_clients(e, 0);
    /* Nobody has to call: it is noticed, and the session comes back. */
    EXPECT(WAIT_FOR(atomic_load(&w->agains) == 1, LONG_MS));
    expect_again(w, session, path);
}

/* Sent just before its deadline: late alone, and the reply that comes is
 * nobody's.  false: this machine stood still, and the connection was cut. */
static bool give_up_one(world *w, ensemble *e, int64_t session, bool driven)
{
    ask late = make_ask(w, session, driven, 20), next;

    ensemble_hold_clients(e, 0, true);
    add(&late, ZK_SYNC, "/");
    add(&late, ZK_EXISTS, "/nowhere");
    drive(&late);
    next = make_ask(w, session, !driven, LONG_MS);
    add(&next, ZK_EXISTS, "/");
    zk_wire_start(w->wire, &next.call);
    ensemble_hold_clients(e, 0, false);
    if (next.call.driven)
        zk_wire_drive(w->wire, &next.call);
    EXPECT(WAIT_FOR(atomic_load(&next.landed) == 1, LONG_MS));
    if (atomic_load(&w->doubts) > 0)
        return false;
    EXPECT_EQ(late.outcome, HF_UNKNOWN);
    EXPECT_EQ(late.error.code, HF_EUNAVAIL);
    EXPECT_HAS(late.error.text, " ms");
    EXPECT_EQ(late.answers, 0);
    EXPECT_EQ(next.outcome, HF_APPLIED);
    EXPECT_EQ(next.replies[0].error, 0); /* its own, not that of /nowhere */
    EXPECT_EQ(atomic_load(&w->agains), 0);
    return true;
}

static void late_alone(world *w, ensemble *e, int64_t session, const char *path)
{
    int good = 0;

    for (int i = 0; i < 20 && good < 4; i++) {
        if (give_up_one(w, e, session, good % 2 == 0))
            good++;
        else
            expect_again(w, session, path);
    }
    EXPECT_EQ(good, 4);
    EXPECT_EQ(ask_one(w, session, ZK_EXISTS, path), 0);
}

static void held(world *w, ensemble *e, int64_t session, const char *path)
{
    ask late, other;

    ensemble_hold_clients(e, 0, true);
    other = make_ask(w, session, false, LONG_MS);
    add(&other, ZK_SYNC, "/");
    zk_wire_start(w->wire, &other.call);
    late = make_ask(w, session, true, SILENT_MS);
    add(&late, ZK_SYNC, "/");
    EXPECT_EQ(drive(&late), HF_UNKNOWN);
    EXPECT_EQ(late.error.code, HF_EUNAVAIL);
    EXPECT_HAS(late.error.text, " ms");
    EXPECT_HAS(late.error.text, "127.0.0.1:");
    /* Its replies would have come on the same connection. */
    EXPECT(WAIT_FOR(atomic_load(&other.landed) == 1, LONG_MS));
    EXPECT_EQ(other.outcome, HF_UNKNOWN);
    /* Now there is no connection, and nobody shakes hands: not applied. */
    EXPECT_EQ(sync_in(w, session, true, 200), HF_NOT_APPLIED);
    EXPECT_EQ(sync_in(w, session, false, 200), HF_NOT_APPLIED);
    ensemble_hold_clients(e, 0, false);
    expect_again(w, session, path);
    /* One that nobody drives: the timer sees that it is late. */
    ensemble_hold_clients(e, 0, true);
    EXPECT_EQ(sync_in(w, session, false, SILENT_MS), HF_UNKNOWN);
    ensemble_hold_clients(e, 0, false);
    expect_again(w, session, path);
}

static void killed(world *w, ensemble *e, int64_t session, const char *path)
{
    ask a;

    ensemble_kill(e, 0);
    EXPECT(WAIT_FOR(atomic_load(&w->doubts) == 1, LONG_MS));
    EXPECT_EQ(sync_in(w, session, true, 200), HF_NOT_APPLIED);
    /* This one waits until the server is back. */
    a = make_ask(w, session, false, LONG_MS);
    add(&a, ZK_SYNC, "/");
    zk_wire_start(w->wire, &a.call);
    ensemble_restart(e, 0);
    EXPECT(WAIT_FOR(atomic_load(&a.landed) == 1, 2 * LONG_MS));
    EXPECT_EQ(a.outcome, HF_APPLIED);
    expect_again(w, session, path);
}

static void one_server(void)
{
    ensemble_options options = {.links = true};
    ensemble *e = ensemble_start(ON_ZOOKEEPER, &options);
    char path[100];
    int64_t session;
    world w;

    open_ensemble(&w, e);
    session = begin(&w, 60000);
    make_node(&w, session, own_path(path, sizeof path, ""));
    cut_off(&w, e, session, path);
    late_alone(&w, e, session, path);
    held(&w, e, session, path);
    killed(&w, e, session, path);
    end(&w, session);
    close_world(&w);
    ensemble_stop(e);
}

/* Silence for longer than the timeout: nothing is told until the server can be
 * asked, and then the truth. */
static void expired_behind_a_wall(void)
{
    ensemble_options options = {.links = true};
    ensemble *e = ensemble_start(ON_ZOOKEEPER, &options);
    int64_t session;
    world w, other;
    char path[100];

    open_ensemble(&w, e);
    open_ports(&other, &e->members[0].port, 1); /* past the links */
    start_keeper(&other);
    begin(&other, 60000);
    session = begin(&w, 1000);
    make_node(&w, session, own_path(path, sizeof path, ""));
    EXPECT_EQ(ask_one(&other, 0, ZK_EXISTS, path), 0);
    ensemble_hold_clients(e, 0, true);
    /* The unanswered ping is noticed without a call. */
    EXPECT(WAIT_FOR(atomic_load(&w.doubts) == 1, LONG_MS));
    EXPECT(
        WAIT_FOR(ask_one(&other, 0, ZK_EXISTS, path) == ZK_NO_NODE, LONG_MS));
    EXPECT_EQ(atomic_load(&w.overs), 0);
    ensemble_hold_clients(e, 0, false);
    EXPECT(WAIT_FOR(atomic_load(&w.overs) == 1, LONG_MS));
    EXPECT_EQ(atomic_load(&w.last_over), session);
    EXPECT_EQ(atomic_load(&w.agains), 0);
    EXPECT(begin(&w, 60000) != session);
    close_world(&w);
    close_world(&other);
    ensemble_stop(e);
}

/* ---- Nothing is lost that was answered ---- */

enum { CALLERS = 6 };

typedef struct caller {
    world *w;
    const char *path;
    pthread_t thread;
    int applied, unknown;
} caller;

static void *create_through_cuts(void *arg)
{
    caller *c = arg;

    while (!atomic_load(&c->w->stop)) {
        ask a = make_ask(c->w, 0, true, 5000);

        add(&a, ZK_CREATE, c->path)->flags = ZK_SEQUENCE;
        drive(&a);
        if (a.outcome == HF_APPLIED)
            EXPECT_EQ(a.replies[0].error, 0);
        c->applied += a.outcome == HF_APPLIED;
        c->unknown += a.outcome == HF_UNKNOWN;
    }
    return NULL;
}

static void connections_cut(void)
{
    ensemble_options options = {.links = true};
    ensemble *e = ensemble_start(ON_ZOOKEEPER, &options);
    caller callers[CALLERS] = {0};
    int applied = 0, unknown = 0, there;
    char top[100], path[120];
    world w, other;
    ask a;

    open_ensemble(&w, e);
    open_ports(&other, &e->members[0].port, 1);
    start_keeper(&other);
    begin(&w, 60000);
    own_path(top, sizeof top, "");
    own_path(path, sizeof path, "/n");
    EXPECT_EQ(ask_one(&other, 0, ZK_CREATE, top), 0);
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (caller){.w = &w, .path = path};
        EXPECT_EQ(pthread_create(&callers[i].thread, NULL, create_through_cuts,
                                 &callers[i]),
                  0);
    }
    for (int i = 0; i < 25; i++) {
        test_sleep_ms(40);
        ensemble_cut_clients(e, 0);
    }
    stop_keeper(&w);
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(callers[i].thread, NULL);
        applied += callers[i].applied;
        unknown += callers[i].unknown;
    }
    a = make_ask(&other, 0, true, LONG_MS);
    add(&a, ZK_SYNC, "/");
    add(&a, ZK_EXISTS, top);
    EXPECT_EQ(drive(&a), HF_APPLIED);
    there = a.replies[1].stat.children;
    if (there < applied || there > applied + unknown)
        FAIL_TEST("%d there, %d applied, %d unknown", there, applied, unknown);
    EXPECT(applied > 0 && unknown > 0);
    EXPECT_EQ(atomic_load(&w.overs), 0);
    close_world(&w);
    close_world(&other);
    ensemble_stop(e);
}

/* ---- Three ---- */

static void three_members(void)
{
    ensemble_options options = {.members = 3};
    ensemble *e = ensemble_start(ON_ZOOKEEPER, &options);
    char path[100];
    int64_t session;
    int first, leader;
    world w;

    open_ensemble(&w, e);
    session = begin(&w, 20000);
    make_node(&w, session, own_path(path, sizeof path, ""));
    /* Killed: the same session on another member. */
    first = member_of(&w, e);
    ensemble_kill(e, first);
    expect_again(&w, session, path);
    EXPECT(member_of(&w, e) != first);
    ensemble_restart(e, first);
    ensemble_await(e);
    /* Silent while a call is under way: its deadline ends the connection. */
    first = member_of(&w, e);
    ensemble_pause(e, first);
    EXPECT(
        WAIT_FOR(sync_in(&w, session, true, SILENT_MS) == HF_UNKNOWN, LONG_MS));
    expect_again(&w, session, path);
    EXPECT(member_of(&w, e) != first);
    /* One that led when it was stopped still says so when it goes on. */
    leader = ensemble_await_leader(e);
    ensemble_continue(e, first);
    ensemble_await(e);
    /* Without a leader nobody serves; then there is a new one. */
    ensemble_kill(e, leader);
    EXPECT(WAIT_FOR(atomic_load(&w.agains) > 0, LONG_MS));
    expect_again(&w, session, path);
    EXPECT(member_of(&w, e) != leader);
    end(&w, session);
    close_world(&w);
    ensemble_stop(e);
}

static const test_case cases[] = {
    TEST_LIMIT(one_server, 200),
    TEST_LIMIT(expired_behind_a_wall, 150),
    TEST_LIMIT(connections_cut, 150),
    TEST_LIMIT(three_members, 250),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "wire_lost", cases,
                     sizeof cases / sizeof *cases);
}
