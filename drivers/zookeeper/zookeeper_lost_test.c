/* zookeeper_lost_test.c - answers that never come.
 *
 * A relay between us and a real server lets a request through, throws its
 * answer away and cuts the connection.  Whatever was asked: one node and not
 * two, no ghost, no lost lock, and the session goes on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <holdfast/holdfast.h>

#include "harness/expect.h"
#include "harness/quorum_url.h"
#include "harness/relay.h"
#include "harness/runner.h"
#include "harness/strike.h"
#include "wire_world.h"

enum { ROUNDS = 5 };

typedef struct scene {
    relay r;
    char root[64];
    hf_session *s;
    world w; /* looks past the relay */
} scene;

static void begin_scene(scene *sc)
{
    char *url = quorum_test_url("zookeeper", "a", "", "");
    const char *path = strchr(strstr(url, "//") + 2, '/');
    hf_open_options opt = {HF_OPEN_OPTIONS, .lease_ms = 20000};
    char through[300];
    hf_hold *hold = NULL;
    hf_error err;

    memset(sc, 0, sizeof *sc);
    relay_start(&sc->r, port_of("HOLDFAST_TEST_ZOOKEEPER"));
    snprintf(sc->root, sizeof sc->root, "%.*s", (int)strcspn(path, "?"), path);
    snprintf(through, sizeof through, "zookeeper://127.0.0.1:%d%s", sc->r.port,
             path);
    free(url);
    EXPECT_OK(hf_open(&sc->s, through, &opt, &err), err);
    open_world(&sc->w);
    /* The session stands, and the queue is there. */
    EXPECT_OK(hf_lock(sc->s, "k", NULL, &hold, &err), err);
    EXPECT_CODE(hf_release(hold, NULL), 0);
}

static void end_scene(scene *sc)
{
    hf_close(sc->s);
    close_world(&sc->w);
    relay_stop(&sc->r);
}

/* How many entries the queue has. */
static size_t count_nodes(scene *sc)
{
    ask a = make_ask(&sc->w, 0, true, LONG_MS);
    char path[100];
    size_t n = 0;

    snprintf(path, sizeof path, "%s/k", sc->root);
    add(&a, ZK_SYNC, "/");
    add(&a, ZK_GET_CHILDREN, path);
    EXPECT_EQ(drive(&a), HF_APPLIED);
    for (const char *at = a.names; *at; at++)
        n += *at == ' ';
    return n;
}

/* The next answer is lost, with its connection. */
static void lose_next(scene *sc)
{
    atomic_store(&sc->r.lost, 0);
    atomic_store(&sc->r.cut, true);
    atomic_store(&sc->r.mute, true);
}

static void await_loss(scene *sc)
{
    EXPECT(WAIT_FOR(atomic_load(&sc->r.lost) > 0, LONG_MS));
    atomic_store(&sc->r.mute, false);
    atomic_store(&sc->r.cut, false);
}

static void collect_one(scene *sc, hf_result *ret)
{
    EXPECT(WAIT_FOR(hf_collect(sc->s, ret) == 1, LONG_MS));
}

static void creation(void)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = LONG_MS};
    uint64_t last = 0;
    hf_error err;
    scene sc;

    begin_scene(&sc);
    for (int i = 0; i < ROUNDS; i++) {
        hf_request *request = NULL;
        hf_result result;

        lose_next(&sc);
        EXPECT_OK(hf_lock_start(sc.s, "k", &opt, NULL, &request, &err), err);
        await_loss(&sc);
        do {
            collect_one(&sc, &result);
        } while (result.kind != HF_RESULT_LOCK);
        EXPECT_OK(result.error.code, result.error);
        EXPECT_EQ(count_nodes(&sc), 1);
        EXPECT(hf_hold_token(result.hold) > last);
        last = hf_hold_token(result.hold);
        EXPECT_CODE(hf_hold_check(result.hold, NULL), 0);
        EXPECT_CODE(hf_release(result.hold, NULL), 0);
        EXPECT_EQ(count_nodes(&sc), 0);
    }
    end_scene(&sc);
}

/* No answer for so long that whole attempts find no connection: whoever comes
 * after them still looks for what the first one may have created. */
static void creation_and_no_way_back(void)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = LONG_MS};
    hf_request *request = NULL;
    hf_result result;
    hf_error err;
    scene sc;

    begin_scene(&sc);
    lose_next(&sc);
    EXPECT_OK(hf_lock_start(sc.s, "k", &opt, NULL, &request, &err), err);
    EXPECT(WAIT_FOR(atomic_load(&sc.r.lost) > 0, LONG_MS));
    test_sleep_ms(7000); /* an attempt takes two seconds */
    await_loss(&sc);
    do {
        collect_one(&sc, &result);
    } while (result.kind != HF_RESULT_LOCK);
    EXPECT_OK(result.error.code, result.error);
    EXPECT_EQ(count_nodes(&sc), 1);
    EXPECT_CODE(hf_release(result.hold, NULL), 0);
    EXPECT_EQ(count_nodes(&sc), 0);
    end_scene(&sc);
}

static void deletion(void)
{
    hf_error err;
    scene sc;

    begin_scene(&sc);
    for (int i = 0; i < ROUNDS; i++) {
        hf_request *request = NULL;
        hf_hold *hold = NULL;
        hf_lock_options opt = {HF_LOCK_OPTIONS, .owner = 7, .wait_ms = LONG_MS};
        hf_result result;

        EXPECT_OK(hf_lock(sc.s, "k", &opt, &hold, &err), err);
        lose_next(&sc);
        EXPECT_OK(hf_release_start(hold, NULL, &request, &err), err);
        await_loss(&sc);
        do {
            collect_one(&sc, &result);
        } while (result.kind != HF_RESULT_RELEASE);
        EXPECT_OK(result.error.code, result.error);
        EXPECT_EQ(count_nodes(&sc), 0);
    }
    end_scene(&sc);
}

/* Given up while nobody knows whether it was created: nothing stays. */
static void creation_given_up(void)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = LONG_MS};
    hf_error err;
    scene sc;

    begin_scene(&sc);
    for (int i = 0; i < ROUNDS; i++) {
        hf_request *request = NULL;
        hf_result result;

        lose_next(&sc);
        EXPECT_OK(hf_lock_start(sc.s, "k", &opt, NULL, &request, &err), err);
        EXPECT(WAIT_FOR(atomic_load(&sc.r.lost) > 0, LONG_MS));
        hf_cancel(request, NULL);
        await_loss(&sc);
        do {
            collect_one(&sc, &result);
        } while (result.kind != HF_RESULT_LOCK);
        if (result.error.code == 0)
            EXPECT_CODE(hf_release(result.hold, NULL), 0);
        else
            EXPECT_CODE(result.error.code, HF_ECANCELED);
        EXPECT(WAIT_FOR(count_nodes(&sc) == 0, LONG_MS));
    }
    end_scene(&sc);
}

/* A watch goes with its connection: who waits looks again, and hears. */
static void waiter_hears_after_a_cut(void)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = 2 * LONG_MS};
    hf_error err;
    scene sc;

    begin_scene(&sc);
    for (int i = 0; i < ROUNDS; i++) {
        ask a = make_ask(&sc.w, 0, true, LONG_MS);
        hf_request *request = NULL;
        zk_request *theirs;
        hf_result result;
        char path[200];

        snprintf(path, sizeof path,
                 "%s/k/_c_1e6f2d3c-0a1b-4c2d-9e8f-00112233aabb-lock-", sc.root);
        theirs = add(&a, ZK_CREATE, path);
        theirs->flags = ZK_EPHEMERAL | ZK_SEQUENCE;
        EXPECT_EQ(drive(&a), HF_APPLIED);
        EXPECT_OK(hf_lock_start(sc.s, "k", &opt, NULL, &request, &err), err);
        EXPECT(WAIT_FOR(count_nodes(&sc) == 2, LONG_MS));
        /* What comes next, a ping's answer or an event, is lost. */
        lose_next(&sc);
        EXPECT_EQ(ask_one(&sc.w, 0, ZK_DELETE, a.path), 0);
        await_loss(&sc);
        do {
            collect_one(&sc, &result);
        } while (result.kind != HF_RESULT_LOCK);
        EXPECT_OK(result.error.code, result.error);
        EXPECT_CODE(hf_release(result.hold, NULL), 0);
    }
    end_scene(&sc);
}

/* ---- One answer of several ---------------------------------------------- */

/* A session whose n-th request can be struck (harness/strike.h). */
static hf_session *open_struck(scene *sc, striker *x)
{
    hf_open_options opt = {HF_OPEN_OPTIONS, .lease_ms = 40000};
    hf_session *s = NULL;
    char through[300];
    hf_error err;

    strike_start(x, STRIKE_ZOOKEEPER, port_of("HOLDFAST_TEST_ZOOKEEPER"));
    snprintf(through, sizeof through, "zookeeper://127.0.0.1:%d%s", x->port,
             sc->root);
    EXPECT_OK(hf_open(&s, through, &opt, &err), err);
    EXPECT_CODE(hf_break(s, "k", NULL, NULL, NULL), 0); /* it is connected */
    return s;
}

/* As Curator does; behind the id stands what it is. */
static void make_other(scene *sc, int i, const char *kind)
{
    ask a = make_ask(&sc->w, 0, true, LONG_MS);
    char path[200];

    snprintf(path, sizeof path,
             "%s/k/_c_1e6f2d3c-0a1b-4c2d-9e8f-00112233aab%d-%s", sc->root, i,
             kind);
    add(&a, ZK_CREATE, path)->flags = ZK_EPHEMERAL | ZK_SEQUENCE;
    EXPECT_EQ(drive(&a), HF_APPLIED);
    EXPECT_EQ(a.replies[0].error, 0);
}

/* Curator's read/write lock does not see ours: whoever comes leaves again, also
 * if its creation was answered and the list behind it was not. */
static void another_layout(void)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = LONG_MS / 10};
    int struck = 1;
    hf_session *s;
    hf_error err;
    striker x;
    scene sc;

    begin_scene(&sc);
    s = open_struck(&sc, &x);
    make_other(&sc, 0, "__WRIT__");
    for (int nth = 1; struck > 0; nth++) {
        EXPECT(nth < 20);
        struck = 0;
        for (int when = STRIKE_BEFORE; when <= STRIKE_ANSWER; when++) {
            hf_hold *hold = NULL;
            int code;

            strike_set(&x, nth, (strike_when)when, 1);
            code = hf_lock(s, "k", &opt, &hold, &err);
            if (code != HF_EKIND)
                FAIL_TEST("request %d, %d: %s (%s)", nth, when,
                          hf_error_name(code), err.text);
            struck += strike_set(&x, 0, STRIKE_ANSWER, 0);
            EXPECT(WAIT_FOR(count_nodes(&sc) == 1, LONG_MS));
        }
        EXPECT(struck > 0 || nth > 2); /* a creation and its list at least */
    }
    hf_close(s);
    strike_stop(&x);
    end_scene(&sc);
}

/* Two readers of another program hold; they are asked to leave, and do not. */
static uint32_t break_two(scene *sc, hf_session *s, striker *x, bool now)
{
    hf_break_options opt = {HF_BREAK_OPTIONS, .now = now};
    uint32_t count = 0;
    hf_error err;

    for (int i = 0; i < 2; i++)
        make_other(sc, i, "__READ__");
    /* A sync and two lists; then read, change, read, change. */
    strike_set(x, 7, STRIKE_ANSWER, 1);
    EXPECT_OK(hf_break(s, "k", &opt, &count, &err), err);
    EXPECT_EQ(strike_set(x, 0, STRIKE_ANSWER, 0), 1);
    return count;
}

/* The answer to the second is lost and all is done again: nobody is counted
 * twice.  Who was deleted is not there the second time, and counts as far as
 * it was answered. */
static void break_of_two(void)
{
    hf_break_options now = {HF_BREAK_OPTIONS, .now = true};
    hf_session *s;
    striker x;
    scene sc;

    begin_scene(&sc);
    s = open_struck(&sc, &x);
    EXPECT_EQ(break_two(&sc, s, &x, false), 2);
    EXPECT_CODE(hf_break(s, "k", &now, NULL, NULL), 0);
    EXPECT_EQ(break_two(&sc, s, &x, true), 1);
    EXPECT_EQ(count_nodes(&sc), 0);
    hf_close(s);
    strike_stop(&x);
    end_scene(&sc);
}

static const test_case cases[] = {
    TEST_LIMIT(creation, 120),
    TEST_LIMIT(creation_and_no_way_back, 120),
    TEST_LIMIT(deletion, 120),
    TEST_LIMIT(creation_given_up, 120),
    TEST_LIMIT(waiter_hears_after_a_cut, 120),
    TEST_LIMIT(another_layout, 120),
    TEST_LIMIT(break_of_two, 120),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "zookeeper lost", cases,
                     sizeof cases / sizeof *cases);
}
