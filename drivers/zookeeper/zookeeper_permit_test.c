/* zookeeper_permit_test.c - permits in the store, and Curator's beside them.
 *
 * As zookeeper_test.c does it for locks: nodes are looked at, and written as
 * Curator's InterProcessSemaphoreV2 writes them.  So: the layout is theirs,
 * they are counted, locks and permits of one key refuse each other, and a
 * holder that was broken and does not leave is passed over. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <holdfast/holdfast.h>

#include "harness/expect.h"
#include "harness/quorum_url.h"
#include "harness/runner.h"
#include "name.h"
#include "zookeeper_scene_test.h"

#define UUID8 "1e6f2d3c-0a1b-8c2d-9e8f-00112233aabb"
#define HEX8 "1e6f2d3c0a1b8c2d9e8f00112233aabb"

static hf_lock_options permit(uint32_t places)
{
    return (hf_lock_options){HF_LOCK_OPTIONS, .wait_ms = LONG_MS,
                             .mode = HF_PERMIT, .places = places};
}

static int try_permit(hf_session *s, uint32_t places, hf_error *err)
{
    hf_hold *hold = NULL;
    hf_lock_options opt = permit(places);
    int code = hf_try_lock(s, "k", &opt, &hold, err);

    if (code == 0)
        EXPECT_CODE(hf_release(hold, NULL), 0);
    return code;
}

/* The folders of a semaphore, as Curator makes them. */
static void make_semaphore(scene *sc)
{
    create(sc, "", 0, "");
    create(sc, "/k", 0, "");
    create(sc, "/k/locks", 0, "");
    create(sc, "/k/leases", 0, "");
}

static hf_request *start_wait(scene *sc, uint32_t places, const char *value)
{
    hf_lock_options opt = permit(places);
    hf_request *request = NULL;
    hf_error err;

    opt.value = value;
    opt.value_len = strlen(value);
    EXPECT_OK(hf_lock_start(sc->s, "k", &opt, NULL, &request, &err), err);
    EXPECT(WAIT_FOR(children(sc, "/k/locks")[0] != '\0', LONG_MS));
    return request;
}

static hf_hold *collect_hold(scene *sc)
{
    hf_result result = {.kind = 0};

    while (result.kind != HF_RESULT_LOCK)
        EXPECT(WAIT_FOR(hf_collect(sc->s, &result) == 1, LONG_MS));
    EXPECT_OK(result.error.code, result.error);
    return result.hold;
}

/* ---- What we write ------------------------------------------------------ */

static void layout_is_theirs(void)
{
    hf_lock_options opt = permit(2);
    hf_hold *hold = NULL;
    char path[400], number[40];
    zk_name name;
    hf_error err;
    scene sc;
    ask a;

    begin_scene(&sc, "", 20000);
    EXPECT_OK(hf_lock(sc.s, "k", &opt, &hold, &err), err);
    EXPECT_STR(children(&sc, "/k/locks"), "");
    snprintf(path, sizeof path, "%s/%s", path_of(&sc, "/k/leases"),
             children(&sc, "/k/leases"));
    path[strlen(path) - 1] = '\0'; /* one child alone */
    EXPECT(zk_name_parse(&name, strrchr(path, '/') + 1,
                         strlen(strrchr(path, '/') + 1)));
    EXPECT(name.maker == ZK_OURS && name.kind == ZK_KIND_LEASE);
    EXPECT_EQ(name.seq, 0);
    a = make_ask(&sc.w, 0, true, LONG_MS);
    add(&a, ZK_GET_DATA, path);
    EXPECT_EQ(drive(&a), HF_APPLIED);
    EXPECT(a.replies[0].stat.ephemeral_owner != 0);
    snprintf(number, sizeof number, " places=2 number=%llu ",
             (unsigned long long)hf_hold_token(hold));
    EXPECT_HAS(a.data, number);
    /* In order with whatever else the server has done. */
    EXPECT(hf_hold_token(hold) < (uint64_t)a.replies[0].stat.czxid);
    EXPECT_CODE(hf_release(hold, NULL), 0);
    EXPECT_STR(children(&sc, "/k/leases"), "");
    end_scene(&sc);
}

/* It was written when the wait began, and is read when it holds. */
static int note_value(const hf_entry_info *info, void *user)
{
    snprintf(user, 20, "%.*s", (int)info->value_len, (const char *)info->value);
    EXPECT(info->granted && info->mode == HF_PERMIT && info->places == 1);
    return 0;
}

static void value_goes_along(void)
{
    char theirs[200], value[20] = "";
    hf_hold *hold;
    hf_error err;
    scene sc;

    begin_scene(&sc, "", 20000);
    make_semaphore(&sc);
    snprintf(theirs, sizeof theirs, "%s",
             create(&sc, "/k/leases/_c_" UUID4 "-lease-",
                    ZK_EPHEMERAL | ZK_SEQUENCE, "10.0.0.7"));
    start_wait(&sc, 1, "a value");
    remove_node(&sc, theirs);
    hold = collect_hold(&sc);
    EXPECT_OK(hf_list(sc.s, NULL, note_value, value, &err), err);
    EXPECT_STR(value, "a value");
    EXPECT_OK(hf_publish(hold, "another", 7, &err), err);
    EXPECT_OK(hf_list(sc.s, NULL, note_value, value, &err), err);
    EXPECT_STR(value, "another");
    EXPECT_CODE(hf_release(hold, NULL), 0);
    end_scene(&sc);
}

/* ---- What others write -------------------------------------------------- */

/* A lease of theirs is a place that is taken; one of theirs that waits is ahead
 * of us, even where there is a place. */
static void curator_is_counted(void)
{
    char lease[200], lock[200];
    hf_result result;
    hf_error err;
    scene sc;

    begin_scene(&sc, "", 20000);
    make_semaphore(&sc);
    snprintf(lease, sizeof lease, "%s",
             create(&sc, "/k/leases/_c_" UUID4 "-lease-",
                    ZK_EPHEMERAL | ZK_SEQUENCE, "10.0.0.7"));
    EXPECT_CODE(try_permit(sc.s, 1, &err), HF_EBUSY);
    EXPECT_OK(try_permit(sc.s, 2, &err), err);
    snprintf(lock, sizeof lock, "%s",
             create(&sc, "/k/locks/_c_" UUID4 "-lock-",
                    ZK_EPHEMERAL | ZK_SEQUENCE, "10.0.0.7"));
    EXPECT_CODE(try_permit(sc.s, 2, &err), HF_EBUSY);
    start_wait(&sc, 1, "");
    remove_node(&sc, lock);
    EXPECT_EQ(hf_collect(sc.s, &result), 0);
    EXPECT_HAS(children(&sc, "/k/leases"), UUID4);
    remove_node(&sc, lease);
    EXPECT_CODE(hf_release(collect_hold(&sc), NULL), 0);
    EXPECT_STR(children(&sc, "/k/locks"), "");
    EXPECT_STR(children(&sc, "/k/leases"), "");
    end_scene(&sc);
}

/* Locks and permits of one key do not see each other: who comes is refused,
 * trying or waiting, and nothing of it stays. */
static void one_key_one_kind(void)
{
    static const char *const inside[] = {"/k/leases/_c_" UUID4 "-lease-",
                                         "/k/locks/_c_" UUID4 "-lock-"};
    hf_lock_options opt = permit(2);
    hf_hold *hold = NULL;
    hf_error err;
    scene sc;
    char node[200];

    begin_scene(&sc, "", 20000);
    make_semaphore(&sc);
    EXPECT_CODE(try_key(sc.s, "k", HF_EXCLUSIVE), 0); /* nobody is inside */
    for (int i = 0; i < 2; i++) {
        snprintf(node, sizeof node, "%s",
                 create(&sc, inside[i], ZK_EPHEMERAL | ZK_SEQUENCE, ""));
        EXPECT_CODE(try_key(sc.s, "k", HF_EXCLUSIVE), HF_EKIND);
        EXPECT_CODE(try_key(sc.s, "k", HF_SHARED), HF_EKIND);
        EXPECT_CODE(hf_lock(sc.s, "k", NULL, &hold, &err), HF_EKIND);
        EXPECT_HAS(err.text, "another kind");
        remove_node(&sc, node);
    }
    snprintf(
        node, sizeof node, "%s",
        create(&sc, "/k/_c_" UUID4 "-lock-", ZK_EPHEMERAL | ZK_SEQUENCE, ""));
    EXPECT_CODE(try_permit(sc.s, 2, &err), HF_EKIND);
    EXPECT_CODE(hf_lock(sc.s, "k", &opt, &hold, &err), HF_EKIND);
    EXPECT_STR(children(&sc, "/k/locks"), "");
    remove_node(&sc, node);
    EXPECT_OK(try_permit(sc.s, 2, &err), err);
    end_scene(&sc);
}

static void kazoo_has_none(void)
{
    hf_lock_options opt = permit(2);
    hf_hold *hold = NULL;
    scene sc;

    begin_scene(&sc, "format=kazoo", 20000);
    EXPECT_EQ(hf_session_caps(sc.s) & HF_CAP_PERMIT, 0);
    EXPECT_CODE(hf_lock(sc.s, "k", &opt, &hold, NULL), HF_ENOTSUP);
    end_scene(&sc);
}

/* ---- A break ------------------------------------------------------------ */

/* A holder whose program stands still, but whose session lives: it is marked,
 * and whoever waits deletes it when its time is up; not before. */
static void broken_and_does_not_leave(void)
{
    uint32_t count = 0;
    long long marked;
    hf_hold *hold;
    hf_error err;
    scene sc;

    begin_scene(&sc, "", 3000);
    make_semaphore(&sc);
    create(&sc, "/k/leases/_c_" UUID8 "-lease-", ZK_EPHEMERAL | ZK_SEQUENCE,
           "holdfast rid=" HEX8 " sid=" HEX8 " mode=2 places=1 ttl=2000 \n");
    start_wait(&sc, 1, "");
    marked = test_now_ms();
    EXPECT_OK(hf_break(sc.s, "k", NULL, &count, &err), err);
    EXPECT_EQ(count, 1);
    hold = collect_hold(&sc);
    EXPECT(test_now_ms() >= marked + 2000);
    EXPECT(strstr(children(&sc, "/k/leases"), UUID8) == NULL);
    EXPECT_CODE(hf_release(hold, NULL), 0);
    end_scene(&sc);
}

static const test_case cases[] = {
    TEST(layout_is_theirs),   TEST(value_goes_along),
    TEST(curator_is_counted), TEST(one_key_one_kind),
    TEST(kazoo_has_none),     TEST_LIMIT(broken_and_does_not_leave, 120)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "zookeeper_permit", cases,
                     sizeof cases / sizeof *cases);
}
