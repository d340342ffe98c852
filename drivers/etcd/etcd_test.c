/* etcd_test.c - what only etcd has: Go's keys, hands that delete, alarms.
 *
 * Beside the sessions of the public API stands a second client that writes
 * what Go's clients write, deletes keys, ends leases, raises the alarm for
 * space and compacts history.  Each time: nobody is let in beside somebody
 * else, whoever lost something is told, whoever waits gets on, and after the
 * close nothing is left. */
#include "harness/ensemble.h"
#include "harness/expect.h"
#include "harness/runner.h"

#include "etcd_other.h"
#include "etcd_waiter.h"

enum { LEASE_MS = 6000 };

/* ---- Sessions ----------------------------------------------------------- */

static int try_take(hf_session *s, const char *key, hf_mode mode)
{
    hf_lock_options opt = waits_for(mode, 0);
    hf_hold *hold = NULL;
    int code = hf_try_lock(s, key, &opt, &hold, NULL);

    if (code == 0)
        hf_release(hold, NULL);
    return code;
}

/* ---- Go's clients ------------------------------------------------------- */

/* One that holds keeps out every kind, and is waited for; one that waits is
 * behind us. */
static void go_key_is_respected(void)
{
    ensemble *e = ensemble_start(ON_ETCD, NULL);
    hf_session *s = open_at(e, NULL, LEASE_MS), *t = open_at(e, NULL, LEASE_MS);
    other *o = other_open(e);
    waiter alone, shared;

    other_join(o, "k/7b", 0x7b);
    EXPECT_CODE(try_take(s, "k", HF_EXCLUSIVE), HF_EBUSY);
    EXPECT_CODE(try_take(s, "k", HF_SHARED), HF_EBUSY);
    EXPECT_CODE(try_take(s, "k", HF_PERMIT), HF_EKIND);
    waiter_start(&alone, s, "k", HF_EXCLUSIVE);
    AWAIT(count_rows(t) == 2);
    waiter_start(&shared, t, "k", HF_SHARED);
    AWAIT(count_rows(t) == 3);
    EXPECT(!atomic_load(&alone.done) && !atomic_load(&shared.done));
    other_delete(o, "k/7b");
    waiter_end(&alone);
    waiter_end(&shared);
    /* Its session ends instead. */
    other_join(o, "k/7c", 0x7c);
    waiter_start(&alone, s, "k", HF_EXCLUSIVE);
    AWAIT(count_rows(t) == 2);
    other_revoke(o, 0x7c);
    waiter_end(&alone);
    hf_close(s);
    hf_close(t);
    EXPECT_EQ(other_count(o, NULL), 0);
    other_close(o);
    ensemble_stop(e);
}

/* It waits for what is older than itself alone: who comes later waits for it,
 * though there are places left. */
static void permits_wait_behind_go(void)
{
    ensemble *e = ensemble_start(ON_ETCD, NULL);
    hf_session *s = open_at(e, NULL, LEASE_MS);
    other *o = other_open(e);
    hf_hold *one = take(s, "k", HF_PERMIT);
    waiter two;

    other_join(o, "k/7b", 0x7b);
    EXPECT_CODE(try_take(s, "k", HF_PERMIT), HF_EBUSY);
    waiter_start(&two, s, "k", HF_PERMIT);
    AWAIT(count_rows(s) == 3);
    EXPECT_EQ(hf_release(one, NULL), 0);
    AWAIT(count_rows(s) == 2); /* now it is Go's turn */
    EXPECT(!atomic_load(&two.done));
    other_delete(o, "k/7b");
    waiter_end(&two);
    hf_close(s);
    other_close(o);
    ensemble_stop(e);
}

/* Our key is Go's, letter by letter; a nested lock's is nobody's business. */
static void names_are_go_names(void)
{
    ensemble *e = ensemble_start(ON_ETCD, NULL);
    hf_session *s = open_at(e, ensemble_direct_url(e, "/app/"), LEASE_MS);
    other *o = other_open(e);
    hf_hold *nested, *hold = take(s, "a", HF_EXCLUSIVE);
    char wanted[64];
    etcd_kv kv;

    EXPECT_EQ(other_count(o, &kv), 1);
    snprintf(wanted, sizeof wanted, "app/a/%llx", (unsigned long long)kv.lease);
    EXPECT(etcd_same_text(kv.key, text_of(wanted)));
    EXPECT_EQ(hf_hold_token(hold), kv.created);
    EXPECT_EQ(hf_release(hold, NULL), 0);
    nested = take(s, "a/b", HF_EXCLUSIVE);
    other_join(o, "app/a/b/c/7b", 0x7b);
    EXPECT_CODE(try_take(s, "a", HF_EXCLUSIVE), 0);
    EXPECT_CODE(try_take(s, "a", HF_SHARED), 0);
    hold = take(s, "a", HF_EXCLUSIVE);
    EXPECT_EQ(hf_release(hold, NULL), 0);
    EXPECT_EQ(hf_release(nested, NULL), 0);
    hf_close(s);
    other_close(o);
    ensemble_stop(e);
}

/* Broken with patience it goes one lease later, by itself. */
static void break_of_a_go_key(void)
{
    ensemble *e = ensemble_start(ON_ETCD, NULL);
    hf_session *s = open_at(e, NULL, LEASE_MS);
    hf_break_options now = {HF_BREAK_OPTIONS, .now = true};
    other *o = other_open(e);
    uint32_t broken = 0;
    etcd_kv kv;

    other_join(o, "k/7b", 0x7b);
    EXPECT_EQ(hf_break(s, "k", NULL, &broken, NULL), 0);
    EXPECT_EQ(broken, 1);
    EXPECT_EQ(other_count(o, &kv), 1);
    EXPECT(kv.lease != 0x7b && kv.lease != 0);
    EXPECT_CODE(try_take(s, "k", HF_EXCLUSIVE), HF_EBUSY);
    other_revoke(o, kv.lease); /* as its time would */
    EXPECT_CODE(try_take(s, "k", HF_EXCLUSIVE), 0);
    other_join(o, "k/7d", 0x7d);
    EXPECT_EQ(hf_break(s, "k", &now, &broken, NULL), 0);
    EXPECT_EQ(broken, 1);
    EXPECT_CODE(try_take(s, "k", HF_EXCLUSIVE), 0);
    hf_close(s);
    EXPECT_EQ(other_count(o, NULL), 0);
    other_close(o);
    ensemble_stop(e);
}

/* ---- Hands -------------------------------------------------------------- */

/* It was broken with patience, and then its owner's lease ended: the entry has
 * one of its own, and goes at once when that is wanted. */
static void break_of_what_was_marked(void)
{
    ensemble_options options = {.links = true};
    ensemble *e = ensemble_start(ON_ETCD, &options);
    hf_session *s = open_at(e, ensemble_url(e, ""), LEASE_MS),
               *t = open_at(e, NULL, LEASE_MS);
    hf_hold *hold = take(s, "k", HF_EXCLUSIVE);
    hf_break_options now = {HF_BREAK_OPTIONS, .now = true};
    other *o = other_open(e);
    uint32_t broken = 0;
    etcd_kv kv;

    EXPECT_EQ(other_count(o, &kv), 1);
    ensemble_hold_clients(e, 0, true); /* it does not hear of it */
    EXPECT_CODE(hf_break(t, "k", NULL, &broken, NULL), 0);
    EXPECT_EQ(broken, 1);
    other_revoke(o, kv.lease);
    EXPECT_EQ(count_rows(t), 1);
    EXPECT_CODE(hf_break(t, "k", &now, &broken, NULL), 0);
    EXPECT_EQ(broken, 1);
    EXPECT_EQ(count_rows(t), 0);
    ensemble_hold_clients(e, 0, false);
    EXPECT_EQ(hf_error_class(hf_release(hold, NULL)), HF_CLASS_LOST);
    hf_close(s);
    hf_close(t);
    EXPECT_EQ(other_count(o, NULL), 0);
    other_close(o);
    ensemble_stop(e);
}

/* The key of a holder is deleted: the release says that it was not ours. */
static void deleted_by_hand(void)
{
    ensemble *e = ensemble_start(ON_ETCD, NULL);
    hf_session *s = open_at(e, NULL, LEASE_MS);
    other *o = other_open(e);
    hf_hold *hold = take(s, "k", HF_EXCLUSIVE);
    char key[64] = "";
    etcd_kv kv;

    EXPECT_EQ(other_count(o, &kv), 1);
    memcpy(key, kv.key.at, kv.key.len < 63 ? kv.key.len : 63);
    other_delete(o, key);
    EXPECT_EQ(hf_error_class(hf_release(hold, NULL)), HF_CLASS_LOST);
    EXPECT_CODE(try_take(s, "k", HF_EXCLUSIVE), 0);
    hf_close(s);
    other_close(o);
    ensemble_stop(e);
}

/* The lease is ended from outside: told at the next renewal, and the session
 * goes on under another one. */
static void lease_ended_by_hand(void)
{
    ensemble *e = ensemble_start(ON_ETCD, NULL);
    hf_session *s = open_at(e, NULL, LEASE_MS);
    other *o = other_open(e);
    hf_hold *hold = take(s, "k", HF_EXCLUSIVE);
    uint64_t token = hf_hold_token(hold);
    etcd_kv kv;

    EXPECT_EQ(other_count(o, &kv), 1);
    other_revoke(o, kv.lease);
    AWAIT(hf_hold_state(hold) == HF_LOST);
    EXPECT_CODE(hf_release(hold, NULL), HF_EEXPIRED);
    hold = take(s, "k", HF_EXCLUSIVE);
    EXPECT(hf_hold_token(hold) > token);
    EXPECT_EQ(hf_release(hold, NULL), 0);
    hf_close(s);
    EXPECT_EQ(other_count(o, NULL), 0);
    other_close(o);
    ensemble_stop(e);
}

/* The key of one that waits is deleted: it stands at the tail again, and what
 * it is granted in the end is in the store.  (A look that asks only whether
 * somebody is before it would find nobody.) */
static void deleted_while_it_waits(void)
{
    ensemble *e = ensemble_start(ON_ETCD, NULL);
    hf_session *s = open_at(e, NULL, LEASE_MS), *t = open_at(e, NULL, LEASE_MS);
    hf_hold *hold = take(s, "k", HF_EXCLUSIVE);
    int64_t first = (int64_t)hf_hold_token(hold);
    other *o = other_open(e);
    char key[64] = "";
    etcd_kv kv;
    waiter w;

    waiter_start(&w, t, "k", HF_EXCLUSIVE);
    AWAIT(count_rows(s) == 2);
    EXPECT(other_newest(o, &kv) && kv.created > first);
    first = kv.created;
    memcpy(key, kv.key.at, kv.key.len < 63 ? kv.key.len : 63);
    other_delete(o, key);
    AWAIT(other_newest(o, &kv) && kv.created > first);
    EXPECT(!atomic_load(&w.done));
    EXPECT_EQ(hf_release(hold, NULL), 0);
    AWAIT(atomic_load(&w.done));
    EXPECT_EQ(other_count(o, &kv), 1);
    EXPECT_EQ(hf_hold_token(w.hold), kv.created);
    waiter_end(&w);
    hf_close(s);
    hf_close(t);
    other_close(o);
    ensemble_stop(e);
}

/* ---- Moods -------------------------------------------------------------- */

static void set_alarm(other *o, int action)
{
    etcd_status status;

    other_ask(o, ETCD_STATUS);
    EXPECT(etcd_read_status(&status, o->reply, o->len));
    pb_int(&o->out, 1, action); /* 1 raises, 2 disarms */
    pb_int(&o->out, 2, (int64_t)status.member);
    pb_int(&o->out, 3, 1); /* no space */
    other_ask(o, ETCD_ALARM);
    EXPECT_EQ(o->code, GRPC_OK);
}

/* Nothing new, and nothing lost: what is held is renewed and released. */
static void no_space(void)
{
    ensemble *e = ensemble_start(ON_ETCD, NULL);
    hf_session *s = open_at(e, NULL, LEASE_MS);
    other *o = other_open(e);
    hf_hold *hold = take(s, "k", HF_EXCLUSIVE);
    hf_error err;

    set_alarm(o, 1);
    EXPECT_CODE(try_take(s, "other", HF_EXCLUSIVE), HF_EUNAVAIL);
    EXPECT_OK(hf_renew(hold, &err), err);
    EXPECT_OK(hf_release(hold, &err), err);
    set_alarm(o, 2);
    EXPECT_CODE(try_take(s, "other", HF_EXCLUSIVE), 0);
    hf_close(s);
    EXPECT_EQ(other_count(o, NULL), 0);
    other_close(o);
    ensemble_stop(e);
}

/* The connection of a waiter breaks, and history behind it is thrown away
 * before it is back: it is its turn all the same. */
static void compacted_under_a_watch(void)
{
    ensemble_options options = {.links = true};
    ensemble *e = ensemble_start(ON_ETCD, &options);
    hf_session *s = open_at(e, NULL, LEASE_MS),
               *t = open_at(e, ensemble_url(e, ""), LEASE_MS);
    hf_hold *hold = take(s, "k", HF_EXCLUSIVE);
    other *o = other_open(e);
    etcd_page page;
    waiter w;

    waiter_start(&w, t, "k", HF_EXCLUSIVE);
    AWAIT(count_rows(s) == 2);
    for (int i = 0; i < 3; i++) {
        ensemble_hold_clients(e, 0, true);
        ensemble_cut_clients(e, 0);
        for (int n = 0; n < 10; n++)
            EXPECT_CODE(try_take(s, "other", HF_EXCLUSIVE), 0);
        etcd_ask_range(&o->out, &(etcd_range){.key = {"k", 1}});
        other_ask(o, ETCD_RANGE);
        EXPECT(etcd_read_page(&page, o->reply, o->len));
        pb_int(&o->out, 1, page.revision);
        other_ask(o, "/etcdserverpb.KV/Compact");
        EXPECT_EQ(o->code, GRPC_OK);
        ensemble_hold_clients(e, 0, false);
    }
    EXPECT(!atomic_load(&w.done));
    EXPECT_EQ(hf_release(hold, NULL), 0);
    waiter_end(&w);
    hf_close(s);
    hf_close(t);
    EXPECT_EQ(other_count(o, NULL), 0);
    other_close(o);
    ensemble_stop(e);
}

static const test_case cases[] = {
    TEST_LIMIT(go_key_is_respected, 200),
    TEST_LIMIT(permits_wait_behind_go, 200),
    TEST_LIMIT(names_are_go_names, 120),
    TEST_LIMIT(break_of_a_go_key, 120),
    TEST_LIMIT(break_of_what_was_marked, 120),
    TEST_LIMIT(deleted_by_hand, 120),
    TEST_LIMIT(deleted_while_it_waits, 200),
    TEST_LIMIT(lease_ended_by_hand, 200),
    TEST_LIMIT(no_space, 120),
    TEST_LIMIT(compacted_under_a_watch, 200),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "etcd", cases, sizeof cases / sizeof *cases);
}
