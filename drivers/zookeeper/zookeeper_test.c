/* zookeeper_test.c - what is in the store, and what others put there.
 *
 * Locks are taken through the public API; nodes are looked at, and written as
 * Curator and kazoo write them, over a wire of the test's own.  So: the layout
 * is theirs, they are respected, what cannot see us is refused, a node that
 * an operator deletes is a lost hold, and a parent that was removed does not
 * lower the next token. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <holdfast/holdfast.h>

#include "harness/expect.h"
#include "harness/quorum_url.h"
#include "harness/runner.h"
#include "name.h"
#include "zookeeper_scene_test.h"

/* ---- What we write ------------------------------------------------------ */

static void expect_node(const char *query, hf_mode mode, zk_kind kind)
{
    scene sc;
    hf_lock_options opt = {HF_LOCK_OPTIONS, .mode = mode};
    hf_hold *hold = NULL;
    ask a;
    char path[400], pid[32];
    zk_name name;
    hf_error err;

    begin_scene(&sc, query, 20000);
    EXPECT_OK(hf_lock(sc.s, "jobs/nightly", &opt, &hold, &err), err);
    snprintf(path, sizeof path, "%s/", path_of(&sc, "/jobs/nightly"));
    strncat(path, children(&sc, "/jobs/nightly"), 200);
    path[strlen(path) - 1] = '\0'; /* one child alone */
    EXPECT(zk_name_parse(&name, strrchr(path, '/') + 1,
                         strlen(strrchr(path, '/') + 1)));
    EXPECT_EQ(name.maker, ZK_OURS);
    EXPECT_EQ(name.kind, kind);
    EXPECT_EQ(name.seq, 0);
    a = make_ask(&sc.w, 0, true, LONG_MS);
    add(&a, ZK_GET_DATA, path);
    EXPECT_EQ(drive(&a), HF_APPLIED);
    EXPECT_EQ(a.replies[0].error, 0);
    EXPECT(a.replies[0].stat.ephemeral_owner != 0);
    EXPECT_EQ((uint64_t)a.replies[0].stat.czxid, hf_hold_token(hold));
    snprintf(pid, sizeof pid, " pid=%d ", (int)getpid());
    EXPECT_HAS(a.data, pid);
    EXPECT_CODE(hf_release(hold, NULL), 0);
    EXPECT_STR(children(&sc, "/jobs/nightly"), "");
    end_scene(&sc);
}

static void layout_is_theirs(void)
{
    expect_node("", HF_EXCLUSIVE, ZK_KIND_LOCK);
}

static void layout_of_readers(void)
{
    expect_node("", HF_SHARED, ZK_KIND_READ);
}

static void layout_of_writers(void)
{
    expect_node("layout=rw", HF_EXCLUSIVE, ZK_KIND_WRITE);
}

static void layout_of_kazoo(void)
{
    expect_node("format=kazoo", HF_EXCLUSIVE, ZK_KIND_KAZOO);
}

/* ---- What others write -------------------------------------------------- */

static int note_row(const hf_entry_info *info, void *user)
{
    hf_entry_info *found = user;

    if (found->key_len++ == 0) { /* counts the rows */
        found->granted = info->granted;
        found->mine = info->mine;
        EXPECT_STR(info->key, "k");
        EXPECT_STR(info->name, "curator");
        EXPECT_STR(info->host, "10.0.0.7");
    }
    return 0;
}

/* It holds, we wait; it leaves, and we are woken. */
static void curator_is_respected(void)
{
    hf_entry_info first = {.key_len = 0};
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = LONG_MS};
    char theirs[200];
    hf_request *request;
    hf_result result;
    hf_error err;
    scene sc;

    begin_scene(&sc, "", 20000);
    create(&sc, "", 0, "");
    create(&sc, "/k", 0, "");
    snprintf(theirs, sizeof theirs, "%s",
             create(&sc, "/k/_c_" UUID4 "-lock-", ZK_EPHEMERAL | ZK_SEQUENCE,
                    "10.0.0.7"));
    EXPECT_CODE(try_key(sc.s, "k", HF_EXCLUSIVE), HF_EBUSY);
    EXPECT_OK(hf_lock_start(sc.s, "k", &opt, NULL, &request, &err), err);
    EXPECT(WAIT_FOR(strchr(children(&sc, "/k"), ' ')[1] != '\0', LONG_MS));
    EXPECT_OK(hf_list(sc.s, NULL, note_row, &first, &err), err);
    EXPECT_EQ(first.key_len, 2);
    EXPECT(first.granted && !first.mine);
    EXPECT_EQ(hf_collect(sc.s, &result), 0);
    remove_node(&sc, theirs);
    EXPECT(WAIT_FOR(hf_collect(sc.s, &result) == 1, LONG_MS));
    EXPECT_CODE(result.error.code, 0);
    EXPECT_CODE(hf_release(result.hold, NULL), 0);
    end_scene(&sc);
}

static void expect_refused(const char *query, const char *node, hf_mode mode,
                           int wanted)
{
    scene sc;

    begin_scene(&sc, query, 20000);
    create(&sc, "", 0, "");
    create(&sc, "/k", 0, "");
    create(&sc, node, ZK_EPHEMERAL | ZK_SEQUENCE, "");
    EXPECT_CODE(try_key(sc.s, "k", mode), wanted);
    if (wanted == HF_EKIND) { /* one that would wait is refused, too */
        hf_lock_options opt = {HF_LOCK_OPTIONS, .mode = mode,
                               .wait_ms = LONG_MS};
        hf_hold *hold = NULL;
        hf_error err;

        EXPECT_CODE(hf_lock(sc.s, "k", &opt, &hold, &err), HF_EKIND);
        EXPECT_HAS(err.text, "layout=rw");
    }
    EXPECT(strchr(children(&sc, "/k"), ' ')[1] == '\0'); /* theirs alone */
    end_scene(&sc);
}

static void reader_of_theirs_and_our_mutex(void)
{
    expect_refused("", "/k/_c_" UUID4 "-__READ__", HF_EXCLUSIVE, HF_EKIND);
}

static void mutex_of_theirs_and_our_reader(void)
{
    expect_refused("", "/k/_c_" UUID4 "-lock-", HF_SHARED, HF_EKIND);
}

static void reader_of_theirs_and_our_writer(void)
{
    expect_refused("layout=rw", "/k/_c_" UUID4 "-__READ__", HF_EXCLUSIVE,
                   HF_EBUSY);
}

static void mutex_of_theirs_and_our_writer(void)
{
    expect_refused("layout=rw", "/k/_c_" UUID4 "-lock-", HF_EXCLUSIVE,
                   HF_EKIND);
}

static void reader_of_theirs_and_our_reader(void)
{
    expect_refused("", "/k/_c_" UUID4 "-__READ__", HF_SHARED, 0);
}

static void kazoo_and_ours(void)
{
    expect_refused("", "/k/" HEX4 "__lock__", HF_EXCLUSIVE, HF_EKIND);
}

static void kazoo_and_our_kazoo(void)
{
    expect_refused("format=kazoo", "/k/" HEX4 "__lock__", HF_EXCLUSIVE,
                   HF_EBUSY);
}

/* Keys below one another, and a stranger's child, hold up nobody. */
static void what_is_no_entry_counts_for_nothing(void)
{
    hf_hold *outer, *inner;
    scene sc;

    begin_scene(&sc, "", 20000);
    inner = take(sc.s, "a/b");
    create(&sc, "/a/other", 0, "");
    outer = take(sc.s, "a");
    EXPECT_CODE(hf_release(outer, NULL), 0);
    EXPECT_CODE(hf_release(inner, NULL), 0);
    end_scene(&sc);
}

/* ---- What befalls ours -------------------------------------------------- */

/* Removed when it was empty, the parent counts from 0 again; tokens do not. */
static void token_outlives_the_parent(void)
{
    uint64_t token;
    hf_hold *hold;
    scene sc;

    begin_scene(&sc, "", 20000);
    hold = take(sc.s, "k");
    token = hf_hold_token(hold);
    EXPECT_CODE(hf_release(hold, NULL), 0);
    /* The server may have been quicker. */
    ask_one(&sc.w, 0, ZK_DELETE, path_of(&sc, "/k"));
    hold = take(sc.s, "k");
    EXPECT_HAS(children(&sc, "/k"), "-lock-0000000000");
    EXPECT(hf_hold_token(hold) > token);
    EXPECT_CODE(hf_release(hold, NULL), 0);
    end_scene(&sc);
}

/* Somebody deletes our node: that is a break, and it is told. */
static void deleted_node_is_a_lost_hold(void)
{
    char path[400];
    hf_hold *hold;
    scene sc;

    begin_scene(&sc, "", 3000);
    hold = take(sc.s, "k");
    snprintf(path, sizeof path, "%s/%s", path_of(&sc, "/k"),
             children(&sc, "/k"));
    path[strlen(path) - 1] = '\0';
    remove_node(&sc, path);
    EXPECT(WAIT_FOR(hf_hold_state(hold) == HF_LOST, LONG_MS));
    EXPECT_CODE(hf_release(hold, NULL), HF_EFORCED);
    end_scene(&sc);
}

/* A holder of Curator's is asked in its own words, and not removed. */
static void break_of_theirs(void)
{
    hf_break_options at_once = {HF_BREAK_OPTIONS, .now = true};
    char theirs[200];
    uint32_t count = 0;
    hf_error err;
    scene sc;
    ask a;

    begin_scene(&sc, "", 20000);
    create(&sc, "", 0, "");
    create(&sc, "/k", 0, "");
    snprintf(theirs, sizeof theirs, "%s",
             create(&sc, "/k/_c_" UUID4 "-lock-", ZK_EPHEMERAL | ZK_SEQUENCE,
                    "10.0.0.7"));
    EXPECT_OK(hf_break(sc.s, "k", NULL, &count, &err), err);
    EXPECT_EQ(count, 1);
    a = make_ask(&sc.w, 0, true, LONG_MS);
    add(&a, ZK_GET_DATA, theirs);
    EXPECT_EQ(drive(&a), HF_APPLIED);
    EXPECT_STR(a.data, "__REVOKE__");
    EXPECT_CODE(try_key(sc.s, "k", HF_EXCLUSIVE), HF_EBUSY);
    EXPECT_OK(hf_break(sc.s, "k", &at_once, &count, &err), err);
    EXPECT_EQ(count, 1);
    EXPECT_CODE(try_key(sc.s, "k", HF_EXCLUSIVE), 0);
    end_scene(&sc);
}

/* ---- Opening ------------------------------------------------------------ */

/* Two ticks come off a lease, and the servers may allow less than was asked
 * for; what is left must be worth renewing. */
static void short_lease_is_refused(void)
{
    hf_hold *hold = NULL;
    hf_session *s;
    hf_error err;
    scene sc;
    char *at;

    begin_scene(&sc, "", 20000);
    at = strstr(sc.url, "tick_ms=");
    snprintf(at, sizeof sc.url - (size_t)(at - sc.url), "tick_ms=2000");
    s = open_session(sc.url, 10000);
    EXPECT_CODE(hf_lock(s, "k", NULL, &hold, &err), HF_EINVAL);
    EXPECT_HAS(err.text, "tick_ms");
    hf_close(s);
    s = open_session(sc.url, 900000); /* they allow two minutes */
    EXPECT_CODE(hf_lock(s, "k", NULL, &hold, &err), HF_EINVAL);
    EXPECT_HAS(err.text, "to 120000 ms, or a larger maxSessionTimeout");
    hf_close(s);
    s = open_session(sc.url, 20000);
    hold = take(s, "k");
    EXPECT_CODE(hf_release(hold, NULL), 0);
    hf_close(s);
    end_scene(&sc);
}

/* heartbeat=write holds a lock over several renewals, through a node that is
 * gone with the session. */
static void write_beats(void)
{
    hf_error err;
    hf_hold *hold;
    scene sc;

    begin_scene(&sc, "heartbeat=write", 3000);
    hold = take(sc.s, "k");
    EXPECT_OK(hf_renew(hold, &err), err);
    EXPECT_HAS(children(&sc, ""), "%beat-");
    EXPECT_OK(hf_renew(hold, &err), err);
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    EXPECT_CODE(hf_release(hold, NULL), 0);
    hf_close(sc.s);
    EXPECT(strstr(children(&sc, ""), "%beat-") == NULL);
    sc.s = NULL;
    end_scene(&sc);
}

static void bad_urls(void)
{
    static const char *const urls[] = {
        "zookeeper://127.0.0.1/a?layout=both",
        "zookeeper://127.0.0.1/a?format=other",
        "zookeeper://127.0.0.1/a?heartbeat=ping",
        "zookeeper://127.0.0.1/a?format=kazoo&layout=rw",
        "zookeeper://127.0.0.1/a?acl=creator",
        "zookeeper://127.0.0.1/a?tick_ms=0",
        "zookeeper://127.0.0.1/a?ca_file=x",
        "zookeeper://127.0.0.1/zookeeper",
        "zookeeper://127.0.0.1/a//b"};

    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        hf_session *s = NULL;
        hf_error err = {.code = 0};

        if (hf_open(&s, urls[i], NULL, &err) != HF_EURL)
            FAIL_TEST("'%s': %d (%s)", urls[i], err.code, err.text);
    }
}

static const test_case cases[] = {TEST(layout_is_theirs),
                                  TEST(layout_of_readers),
                                  TEST(layout_of_writers),
                                  TEST(layout_of_kazoo),
                                  TEST(curator_is_respected),
                                  TEST(reader_of_theirs_and_our_mutex),
                                  TEST(mutex_of_theirs_and_our_reader),
                                  TEST(reader_of_theirs_and_our_writer),
                                  TEST(mutex_of_theirs_and_our_writer),
                                  TEST(reader_of_theirs_and_our_reader),
                                  TEST(kazoo_and_ours),
                                  TEST(kazoo_and_our_kazoo),
                                  TEST(what_is_no_entry_counts_for_nothing),
                                  TEST(token_outlives_the_parent),
                                  TEST(deleted_node_is_a_lost_hold),
                                  TEST(break_of_theirs),
                                  TEST(short_lease_is_refused),
                                  TEST(write_beats),
                                  TEST(bad_urls)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "zookeeper", cases,
                     sizeof cases / sizeof *cases);
}
