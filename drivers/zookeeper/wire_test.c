/* wire_test.c - the wire against a real server: requests, sessions, threads.
 *
 * All tests share one server (harness/with-zookeeper tls), each with a wire and
 * nodes of its own; nothing here breaks it.  What happens when it breaks is in
 * wire_lost_test.c, what a server may never say in wire_fake_test.c. */
#include "harness/expect.h"
#include "harness/runner.h"

#include "wire_world.h"

/* ---- Requests ---- */

static void every_request(void)
{
    char top[100], child[120];
    world w;
    ask a;
    int64_t session;

    open_world(&w);
    session = begin(&w, 10000);
    own_path(top, sizeof top, "");
    own_path(child, sizeof child, "/n-");
    EXPECT_EQ(ask_one(&w, session, ZK_CREATE, child), ZK_NO_NODE);
    EXPECT_EQ(ask_one(&w, session, ZK_CREATE_CONTAINER, top), 0);
    EXPECT_EQ(ask_one(&w, session, ZK_CREATE, top), ZK_NODE_EXISTS);
    /* One flight: the list behind the create shows it. */
    a = make_ask(&w, session, true, LONG_MS);
    add(&a, ZK_CREATE, child)->flags = ZK_EPHEMERAL | ZK_SEQUENCE;
    a.call.requests[0].data = "hello";
    a.call.requests[0].data_len = 5;
    add(&a, ZK_GET_CHILDREN, top);
    EXPECT_EQ(drive(&a), HF_APPLIED);
    EXPECT_EQ(a.replies[0].error, 0);
    EXPECT_EQ(a.replies[0].stat.ephemeral_owner, session);
    EXPECT(a.replies[0].stat.czxid > 0);
    EXPECT_EQ(a.replies[0].stat.czxid, a.replies[0].zxid);
    EXPECT_EQ(a.replies[1].name_count, 1);
    EXPECT_STR(a.names, "n-0000000000 ");
    snprintf(child, sizeof child, "%.110s", a.path);
    a = make_ask(&w, session, true, LONG_MS);
    add(&a, ZK_SET_DATA, child)->data = "bye";
    a.call.requests[0].data_len = 3;
    add(&a, ZK_GET_DATA, child);
    add(&a, ZK_EXISTS, child);
    EXPECT_EQ(drive(&a), HF_APPLIED);
    EXPECT_EQ(a.answers, 3);
    EXPECT_STR(a.data, "bye");
    EXPECT_EQ(a.replies[2].stat.version, 1);
    a = make_ask(&w, session, true, LONG_MS);
    add(&a, ZK_SYNC, "/");
    add(&a, ZK_GET_ACL, child);
    add(&a, ZK_WHO, "");
    EXPECT_EQ(drive(&a), HF_APPLIED);
    EXPECT_EQ(a.replies[0].error, 0);
    EXPECT_EQ(a.replies[1].world, 31);
    EXPECT_HAS(a.names, "ip 127.0.0.1 ");
    EXPECT_EQ(ask_one(&w, session, ZK_DELETE, top), ZK_NOT_EMPTY);
    EXPECT_EQ(ask_one(&w, session, ZK_DELETE, child), 0);
    EXPECT_EQ(ask_one(&w, session, ZK_DELETE, child), ZK_NO_NODE);
    EXPECT_EQ(ask_one(&w, session, ZK_DELETE, top), 0);
    end(&w, session);
    EXPECT_EQ(atomic_load(&w.overs) + atomic_load(&w.doubts), 0);
    close_world(&w);
}

static void parts(void)
{
    char one[100], two[120];
    zk_request requests[2] = {{.op = ZK_CREATE}, {.op = ZK_CREATE_CONTAINER}};
    world w;
    ask a;
    int64_t session;

    open_world(&w);
    session = begin(&w, 10000);
    requests[0].path = own_path(one, sizeof one, "-a");
    requests[1].path = own_path(two, sizeof two, "-b");
    for (int i = 0; i < 4; i++) {
        static const int32_t want[] = {0, ZK_NODE_EXISTS, 0, ZK_NO_NODE};

        for (int k = 0; k < 2; k++) {
            requests[k].path_len = strlen(requests[k].path);
            requests[k].version = -1;
            if (i == 2)
                requests[k].op = ZK_DELETE;
        }
        a = make_ask(&w, session, true, LONG_MS);
        add(&a, ZK_MULTI, "")->parts = requests;
        a.call.requests[0].part_count = 2;
        add(&a, ZK_EXISTS, two);
        EXPECT_EQ(drive(&a), HF_APPLIED);
        EXPECT_EQ(a.replies[0].error, want[i]);
        EXPECT_EQ(a.replies[1].error, i < 2 ? 0 : ZK_NO_NODE);
        if (i == 0)
            EXPECT_STR(a.path, one);
    }
    close_world(&w);
}

static void error_texts(void)
{
    hf_error err = {0};

    EXPECT_EQ(zk_error_of(0, "/x", &err), 0);
    EXPECT_EQ(zk_error_of(ZK_NO_AUTH, "/x", &err), HF_EPERM);
    EXPECT_HAS(err.text, "'/x'");
    EXPECT_EQ(err.native, ZK_NO_AUTH);
    EXPECT_EQ(zk_error_of(ZK_SESSION_EXPIRED, NULL, &err), HF_EEXPIRED);
    EXPECT(err.text[0] != '\'');
    EXPECT_EQ(zk_error_of(ZK_SESSION_MOVED, "", &err), HF_EEXPIRED);
    EXPECT_EQ(zk_error_of(-4711, "/x", &err), HF_EPROTO);
    EXPECT_HAS(err.text, "-4711");
}

/* ---- Sessions ---- */

static void sessions(void)
{
    char path[100];
    world w;
    ask a;
    int64_t first, second;

    open_world(&w);
    own_path(path, sizeof path, "");
    first = begin(&w, 10000);
    a = make_ask(&w, first, true, LONG_MS);
    add(&a, ZK_CREATE, path)->flags = ZK_EPHEMERAL;
    EXPECT_EQ(drive(&a), HF_APPLIED);
    EXPECT_EQ(a.replies[0].error, 0);
    /* Closing deletes what is ephemeral, at once. */
    end(&w, first);
    a = make_ask(&w, first, true, LONG_MS);
    add(&a, ZK_SYNC, "/");
    EXPECT_EQ(drive(&a), HF_NOT_APPLIED);
    EXPECT_EQ(a.error.code, HF_EEXPIRED);
    second = begin(&w, 10000);
    EXPECT(second != first);
    EXPECT_EQ(ask_one(&w, second, ZK_EXISTS, path), ZK_NO_NODE);
    /* Of the old one nothing is taken, driven or not. */
    for (int driven = 0; driven < 2; driven++) {
        a = make_ask(&w, first, driven, LONG_MS);
        add(&a, ZK_CREATE, path);
        EXPECT_EQ(drive(&a), HF_NOT_APPLIED);
        EXPECT_EQ(a.error.code, HF_EEXPIRED);
    }
    EXPECT_EQ(ask_one(&w, 0, ZK_EXISTS, path), ZK_NO_NODE);
    /* A beginning gives up what stands, without a word. */
    EXPECT_EQ(try_begin(&a, &w, 10000, false, LONG_MS), HF_APPLIED);
    EXPECT(a.replies[0].session != second);
    a = make_ask(&w, second, true, LONG_MS);
    add(&a, ZK_SYNC, "/");
    EXPECT_EQ(drive(&a), HF_NOT_APPLIED);
    EXPECT_EQ(a.error.code, HF_EEXPIRED);
    EXPECT_EQ(atomic_load(&w.overs) + atomic_load(&w.doubts), 0);
    EXPECT_EQ(atomic_load(&w.agains), 0);
    close_world(&w);
}

/* Without a session a call begins one; nothing is told of it. */
static void casual(void)
{
    zk_standing now;
    world w;
    ask a;

    open_world(&w);
    zk_wire_standing(w.wire, &now);
    EXPECT_EQ(now.session, 0);
    EXPECT_EQ(ask_one(&w, 0, ZK_EXISTS, "/"), 0);
    zk_wire_standing(w.wire, &now);
    EXPECT(now.session != 0 && now.connected && !now.read_only);
    EXPECT_HAS(now.member, "127.0.0.1:");
    EXPECT_EQ(now.timeout_ms, 6000);
    EXPECT_EQ(ask_one(&w, 0, ZK_SYNC, "/"), 0);
    begin(&w, 10000);
    EXPECT_EQ(ask_one(&w, 0, ZK_SYNC, "/"), 0);
    close_world(&w);
    open_world(&w);
    a = make_ask(&w, 0, false, LONG_MS);
    add(&a, ZK_EXISTS, "/");
    EXPECT_EQ(drive(&a), HF_APPLIED);
    EXPECT_EQ(atomic_load(&w.overs) + atomic_load(&w.doubts), 0);
    close_world(&w);
}

/* Idle for several timeouts: pings alone keep it. */
static void pings_keep_it(void)
{
    world w;
    int64_t session;

    open_world(&w);
    session = begin(&w, 2000);
    test_sleep_ms(6000);
    EXPECT_EQ(ask_one(&w, session, ZK_SYNC, "/"), 0);
    EXPECT_EQ(atomic_load(&w.overs), 0);
    close_world(&w);
}

/* Without them it ends, and the end is told when somebody comes again. */
static void expired(void)
{
    world w;
    ask a;
    int64_t session;

    open_world(&w);
    session = begin(&w, 1000);
    stop_keeper(&w);
    test_sleep_ms(3500);
    atomic_store(&w.stop, false);
    start_keeper(&w);
    EXPECT(WAIT_FOR(atomic_load(&w.overs) == 1, LONG_MS));
    EXPECT_EQ(atomic_load(&w.last_over), session);
    EXPECT_HAS(w.last_text, "expired");
    a = make_ask(&w, session, true, LONG_MS);
    add(&a, ZK_SYNC, "/");
    EXPECT_EQ(drive(&a), HF_NOT_APPLIED);
    EXPECT_EQ(a.error.code, HF_EEXPIRED);
    EXPECT(begin(&w, 10000) != session);
    close_world(&w);
}

/* ---- Watches ---- */

static void watch(world *w, zk_op op, const char *path)
{
    ask a = make_ask(w, 0, true, LONG_MS);

    add(&a, op, path)->watch = true;
    EXPECT_EQ(drive(&a), HF_APPLIED);
}

static void watches(void)
{
    char path[100], below[120];
    hf__waiter waiter = {0};
    world w, other;

    open_world(&w);
    open_world(&other);
    begin(&w, 30000);
    begin(&other, 30000);
    own_path(path, sizeof path, "");
    own_path(below, sizeof below, "/below");
    watch(&w, ZK_EXISTS, path);
    EXPECT_EQ(ask_one(&other, 0, ZK_CREATE, path), 0);
    EXPECT(WAIT_FOR(atomic_load(&w.events) == 1, LONG_MS));
    EXPECT_EQ(atomic_load(&w.last_type), ZK_EVENT_CREATED);
    EXPECT_STR(w.last_path, path);
    watch(&w, ZK_GET_CHILDREN, path);
    EXPECT_EQ(ask_one(&other, 0, ZK_CREATE, below), 0);
    EXPECT(WAIT_FOR(atomic_load(&w.events) == 2, LONG_MS));
    EXPECT_EQ(atomic_load(&w.last_type), ZK_EVENT_CHILD);
    watch(&w, ZK_GET_DATA, below);
    EXPECT_EQ(ask_one(&other, 0, ZK_SET_DATA, below), 0);
    EXPECT(WAIT_FOR(atomic_load(&w.events) == 3, LONG_MS));
    EXPECT_EQ(atomic_load(&w.last_type), ZK_EVENT_CHANGED);
    /* A parked thread reads it by itself: there is no keeper now. */
    stop_keeper(&w);
    w.wake = &waiter;
    watch(&w, ZK_EXISTS, below);
    EXPECT_EQ(ask_one(&other, 0, ZK_DELETE, below), 0);
    zk_wire_park(w.wire, &waiter, hfd_now() + HF_MS(LONG_MS));
    EXPECT(hf__waiter_woken(&waiter));
    EXPECT_EQ(atomic_load(&w.last_type), ZK_EVENT_DELETED);
    EXPECT_STR(w.last_path, below);
    EXPECT_EQ(ask_one(&other, 0, ZK_DELETE, path), 0);
    close_world(&w);
    close_world(&other);
}

/* Woken from outside, and by the clock. */
static void *wake_later(void *arg)
{
    world *w = arg;

    test_sleep_ms(50);
    zk_wire_wake(w->wire, w->wake);
    return NULL;
}

static void parked(void)
{
    hf__waiter waiter = {0}, late = {0};
    pthread_t thread;
    world w;
    hf_nsec until;

    open_world(&w);
    begin(&w, 30000);
    w.wake = &waiter;
    EXPECT_EQ(pthread_create(&thread, NULL, wake_later, &w), 0);
    zk_wire_park(w.wire, &waiter, hfd_now() + HF_MS(LONG_MS));
    EXPECT(hf__waiter_woken(&waiter));
    pthread_join(thread, NULL);
    until = hfd_now() + HF_MS(100);
    zk_wire_park(w.wire, &late, until);
    EXPECT(hfd_now() >= until && !hf__waiter_woken(&late));
    close_world(&w);
}

/* ---- Many ---- */

enum { THREADS = 16, ROUNDS = 100 };

typedef struct caller {
    world *w;
    pthread_t thread;
    int number;
} caller;

static void *call_often(void *arg)
{
    caller *c = arg;
    char path[100], more[20];

    snprintf(more, sizeof more, "-%d", c->number);
    own_path(path, sizeof path, more);
    for (int i = 0; i < ROUNDS; i++) {
        ask a = make_ask(c->w, 0, true, LONG_MS);
        int64_t czxid;

        add(&a, ZK_CREATE, path)->flags = ZK_EPHEMERAL;
        add(&a, ZK_EXISTS, path);
        EXPECT_EQ(drive(&a), HF_APPLIED);
        czxid = a.replies[0].stat.czxid;
        EXPECT_EQ(a.replies[0].error, 0);
        EXPECT_EQ(a.replies[1].stat.czxid, czxid);
        EXPECT_EQ(ask_one(c->w, 0, ZK_DELETE, path), 0);
    }
    return NULL;
}

static void sixteen_threads(void)
{
    caller callers[THREADS];
    world w;

    open_world(&w);
    begin(&w, 30000);
    for (int i = 0; i < THREADS; i++) {
        callers[i] = (caller){.w = &w, .number = i};
        EXPECT_EQ(
            pthread_create(&callers[i].thread, NULL, call_often, &callers[i]),
            0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(callers[i].thread, NULL);
    EXPECT_EQ(atomic_load(&w.doubts), 0);
    close_world(&w);
}

/* Calls that nobody drives, and calls that start themselves again. */
static void undriven(void)
{
    enum { ASKS = 200 };
    static ask asks[ASKS];
    world w;
    ask a;

    open_world(&w);
    begin(&w, 30000);
    for (int i = 0; i < ASKS; i++) {
        asks[i] = make_ask(&w, 0, false, LONG_MS);
        add(&asks[i], ZK_EXISTS, "/");
        asks[i].again = 2;
        zk_wire_start(w.wire, &asks[i].call);
    }
    for (int i = 0; i < ASKS; i++) {
        EXPECT(WAIT_FOR(atomic_load(&asks[i].landed) == 1, LONG_MS));
        EXPECT_EQ(asks[i].outcome, HF_APPLIED);
        EXPECT_EQ(asks[i].again, 0);
    }
    a = make_ask(&w, 0, true, LONG_MS);
    add(&a, ZK_SYNC, "/");
    a.again = 5;
    EXPECT_EQ(drive(&a), HF_APPLIED);
    EXPECT_EQ(a.again, 0);
    close_world(&w);
}

/* Sessions begin and end under those who call: every call lands, in the session
 * that it asked for or in none. */
typedef struct bystander {
    world *w;
    pthread_t thread;
    bool driven;
    int applied;
} bystander;

static atomic_llong current;
static atomic_bool enough;

static void *call_on(void *arg)
{
    bystander *b = arg;

    for (int i = 0; !atomic_load(&enough); i++) {
        int64_t session = i % 3 ? atomic_load(&current) : 0;
        ask a = make_ask(b->w, session, b->driven, LONG_MS);

        add(&a, ZK_SYNC, "/");
        drive(&a);
        b->applied += a.outcome == HF_APPLIED;
        if (a.outcome == HF_NOT_APPLIED && session != 0)
            EXPECT_EQ(a.error.code, HF_EEXPIRED);
    }
    return NULL;
}

/* The server hangs up behind its answer, and that is lost if others still send
 * then: the kernel throws away what was not read.  Nobody is told of that. */
static void say_goodbye(world *w, int64_t session)
{
    ask a = make_ask(w, session, true, LONG_MS);

    add(&a, ZK_CLOSE, "");
    EXPECT(drive(&a) != HF_NOT_APPLIED);
}

static void sessions_under_calls(void)
{
    bystander all[6] = {0};
    int applied = 0;
    world w;

    open_world(&w);
    for (int i = 0; i < 6; i++) {
        all[i].w = &w;
        all[i].driven = i % 2;
        EXPECT_EQ(pthread_create(&all[i].thread, NULL, call_on, &all[i]), 0);
    }
    for (int i = 0; i < 25; i++) {
        ask a;

        EXPECT_EQ(try_begin(&a, &w, 10000, i % 2, LONG_MS), HF_APPLIED);
        atomic_store(&current, a.replies[0].session);
        test_sleep_ms(10);
        if (i % 3 == 0)
            say_goodbye(&w, a.replies[0].session);
    }
    atomic_store(&enough, true);
    for (int i = 0; i < 6; i++) {
        pthread_join(all[i].thread, NULL);
        applied += all[i].applied;
    }
    EXPECT(applied > 0);
    EXPECT_EQ(atomic_load(&w.overs) + atomic_load(&w.doubts), 0);
    close_world(&w);
}

static const test_case cases[] = {
    TEST(every_request), TEST(parts),
    TEST(error_texts),   TEST(sessions),
    TEST(casual),        TEST(pings_keep_it),
    TEST(expired),       TEST(watches),
    TEST(parked),        TEST_LIMIT(sixteen_threads, 200),
    TEST(undriven),      TEST_LIMIT(sessions_under_calls, 120),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "wire", cases, sizeof cases / sizeof *cases);
}
