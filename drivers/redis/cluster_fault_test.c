/* cluster_fault_test.c - slots that move, and nodes that go, under load.
 *
 * A real cluster, the public API, and a judge who looks for two holders at
 * once.  What a script does with half of its keys is in cluster_move_test.c. */
#include "cluster_fault_test.h"
#include "harness/contest.h"
#include "redis_fault_test.h"

enum { MOVES = 12, LEASE_MS = 1500 };

/* ---- Moving ---- */

/* Rivals hold for a few milliseconds each while the slot goes to and fro. */
static void moves_under_load(void)
{
    cluster_world w;
    contest c;

    cluster_begin(&w, 2, 0, "&strict=no");
    contest_begin(&c, "k", 3);
    for (int i = 0; i < 4; i++)
        contest_enter(&c, w.url, 30000);
    contest_progress(&c, 20, CLUSTER_MS);
    for (unsigned turn = 0; turn < MOVES; turn++) {
        move_slot(&w, turn % 2 ? w.other : w.owner,
                  turn % 2 ? w.owner : w.other, turn * 7, 3);
        contest_progress(&c, 10, CLUSTER_MS);
    }
    EXPECT_EQ(atomic_load(&c.lost), 0); /* what moves is not lost */
    contest_end(&c);
    cluster_end(&w);
}

/* Do all who wait for "k" listen at this node?  Their records begin with the
 * session's id. */
static bool all_listen(server *s, int count)
{
    char records[4096];
    const char *said = server_ask(s, "HGETALL hf:{t}:d:k");
    int found = 0;

    if (!said || *said != '*')
        return false;
    snprintf(records, sizeof records, "%s", said);
    for (const char *at = strstr(records, " 0 0 "); at;
         at = strstr(at + 5, " 0 0 ")) {
        said = server_ask(s, "PUBSUB SHARDNUMSUB hf:{t}:c:%.32s", at - 32);
        found += said && strstr(said, ":1\r\n") ? 1 : 0;
    }
    return found == count;
}

/* Three who wait keep their places, and hear of their turn at the new node
 * (who does not listen yet is passed over, so that is waited for). */
static void waiters_move_along(void)
{
    cluster_world w;
    hf_session *s[4];
    waiter waits[4];
    uint64_t before;
    hf_hold *hold;

    cluster_begin(&w, 2, 0, "&strict=no");
    for (int i = 0; i < 4; i++)
        s[i] = open_at(w.url, 30000);
    hold = take(s[0], "k");
    before = hf_hold_token(hold);
    for (int i = 1; i < 4; i++) {
        waiter_start(&waits[i], s[i]);
        /* It has its place, before the next one asks for his. */
        AWAIT(server_number(w.node[w.owner], "ZCARD hf:{t}:w:k") == i);
    }
    move_slot(&w, w.owner, w.other, 0, 0);
    AWAIT(all_listen(w.node[w.other], 3));
    give(hold);
    for (int i = 1; i < 4; i++) {
        AWAIT(atomic_load(&waits[i].done));
        EXPECT(waits[i].token > before);
        before = waits[i].token;
        for (int j = i + 1; j < 4; j++)
            EXPECT(!atomic_load(&waits[j].done));
        waiter_end(&waits[i]);
    }
    for (int i = 0; i < 4; i++)
        hf_close(s[i]);
    cluster_end(&w);
}

/* A move that takes longer than a lease: its holders renew all the same, at
 * the node that has the sessions. */
static void renewals_go_on(void)
{
    static const char sessions[] = "hf:{t}:s";
    cluster_world w;
    hf_session *s, *rival;
    hf_hold *hold;
    key_list keys;
    hf_error err;

    cluster_begin(&w, 2, 0, "&strict=no");
    s = open_at(w.url, LEASE_MS);
    rival = open_at(w.url, LEASE_MS);
    hold = take(s, "k");
    move_open(&w, w.owner, w.other);
    for (int there = 0; there < 2; there++) {
        long long until = test_now_ms() + 2 * LEASE_MS;

        if (there)
            move_key(&w, w.owner, w.other, sessions);
        while (test_now_ms() < until) {
            EXPECT_CODE(hf_hold_check(hold, NULL), 0);
            test_sleep_ms(20);
        }
    }
    EXPECT(probe(rival, "k", &err) != 0);
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    list_keys(&w, w.owner, &keys);
    for (int i = 0; i < keys.count; i++)
        move_key(&w, w.owner, w.other, keys.name[i]);
    move_close(&w, w.owner, w.other);
    AWAIT(probe(rival, "k", &err) == HF_EBUSY);
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    give(hold);
    AWAIT(probe(rival, "k", &err) == 0);
    hf_close(s);
    hf_close(rival);
    cluster_end(&w);
}

/* A strict namespace grants nothing for a while at its new node; who holds
 * goes on holding. */
static void strict_waits_once(void)
{
    cluster_world w;
    hf_session *s, *rival;
    hf_hold *hold;
    hf_error err;

    cluster_begin(&w, 2, 0, "&max_lease_ms=2000&lag_ms=500");
    s = open_at(w.url, LEASE_MS);
    rival = open_at(w.url, LEASE_MS);
    hold = take(s, "k"); /* the first quarantine is over */
    move_slot(&w, w.owner, w.other, 0, 0);
    AWAIT(probe(rival, "other", &err) == HF_EQUARANTINE);
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    give(take(rival, "other"));
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    EXPECT_CODE(probe(rival, "k", &err), HF_EBUSY);
    give(hold);
    give(take(rival, "k"));
    hf_close(s);
    hf_close(rival);
    cluster_end(&w);
}

/* ---- Nodes that go ---- */

static bool is_primary(server *s)
{
    return node_says(s, "INFO replication", "role:master");
}

static bool is_in_step(server *s)
{
    return node_says(s, "INFO replication", "master_link_status:up");
}

/* Given up by the server itself when the two do not come into step in time. */
static void fail_over_to(server *s)
{
    AWAIT_CLUSTER(is_in_step(s));
    for (int tries = 0; tries < 8 && !is_primary(s); tries++) {
        node_do(s, "CLUSTER FAILOVER");
        if (WAIT_FOR(is_primary(s), 6000))
            break;
    }
    EXPECT(is_primary(s));
}

/* An operator makes the replica the primary: MOVED, then as before. */
static void manual_failover(void)
{
    cluster_world w;
    hf_session *s;
    contest c;

    cluster_begin(&w, 3, 3, "&strict=no");
    s = open_at(w.url, 30000);
    give(take(s, "k"));
    contest_begin(&c, "c", 2);
    contest_enter(&c, w.url, 30000);
    contest_enter(&c, w.url, 30000);
    contest_progress(&c, 5, CLUSTER_MS);
    for (int turn = 0; turn < 2; turn++) {
        fail_over_to(w.node[turn == 0 ? w.owner + 3 : w.owner]);
        give(take(s, "k"));
        contest_progress(&c, 5, CLUSTER_MS);
    }
    contest_end(&c);
    hf_close(s);
    cluster_end(&w);
}

/* The owner dies; its replica takes over after the node timeout.  With strict
 * nobody is granted before all that was forgotten has ended. */
static void primary_killed(void)
{
    cluster_world w;
    int owner;
    contest c;

    cluster_begin(&w, 3, 3, "&max_lease_ms=2000&lag_ms=500");
    owner = w.owner;
    contest_begin(&c, "k", 20);
    for (int i = 0; i < 3; i++)
        contest_enter(&c, w.url, LEASE_MS);
    contest_progress(&c, 5, CLUSTER_MS);
    server_kill(w.node[owner]);
    AWAIT_CLUSTER(is_primary(w.node[owner + 3]));
    contest_progress(&c, 5, CLUSTER_MS);
    server_restart(w.node[owner], true); /* as a replica of the other */
    AWAIT_CLUSTER(is_in_step(w.node[owner]));
    contest_progress(&c, 5, CLUSTER_MS);
    contest_end(&c);
    cluster_end(&w);
}

/* The owner stands still for longer than the node timeout and goes on when
 * another has its place. */
static void primary_paused(void)
{
    cluster_world w;
    int owner;
    contest c;

    cluster_begin(&w, 3, 3, "&max_lease_ms=2000&lag_ms=500");
    owner = w.owner;
    contest_begin(&c, "k", 20);
    for (int i = 0; i < 3; i++)
        contest_enter(&c, w.url, LEASE_MS);
    contest_progress(&c, 5, CLUSTER_MS);
    server_pause(w.node[owner]);
    AWAIT_CLUSTER(is_primary(w.node[owner + 3]));
    contest_progress(&c, 3, CLUSTER_MS);
    server_continue(w.node[owner]);
    AWAIT_CLUSTER(!is_primary(w.node[owner]));
    contest_progress(&c, 5, CLUSTER_MS);
    contest_end(&c);
    cluster_end(&w);
}

/* Without a replica the slots of a dead node have no owner: refused with a
 * reason, and all is well when it is back. */
static void cluster_down(void)
{
    cluster_world w;
    hf_session *s;
    hf_error err;
    int other;

    cluster_begin(&w, 3, 0, "&strict=no");
    other = w.other;
    s = open_at(w.url, 30000);
    give(take(s, "k"));
    server_kill(w.node[other]);
    AWAIT_CLUSTER(node_says(w.node[w.owner], "CLUSTER INFO", "state:fail"));
    EXPECT_CODE(probe(s, "k", &err), HF_EUNAVAIL);
    /* On a slow machine a call's time may end before anybody answered. */
    AWAIT(probe(s, "k", &err) == HF_EUNAVAIL && strstr(err.text, "luster"));
    server_restart(w.node[other], true);
    AWAIT_CLUSTER(cluster_stands(&w));
    AWAIT(probe(s, "k", &err) == 0);
    hf_close(s);
    cluster_end(&w);
}

/* Of three nodes in the URL two are gone, also from the network; the third
 * knows who has the slot. */
static void one_node_answers(void)
{
    char url[200];
    cluster_world w;
    hf_session *s;
    int i;

    cluster_begin(&w, 2, 0, "&strict=no");
    i = child_port();
    snprintf(url, sizeof url,
             "redis+cluster://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d?ns=t"
             "&strict=no",
             i, w.node[w.other]->port, child_port());
    s = open_at(url, 30000);
    give(take(s, "k"));
    hf_close(s);
    cluster_end(&w);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        TEST(moves_under_load), TEST(waiters_move_along),
        TEST(renewals_go_on),   TEST(strict_waits_once),
        TEST(manual_failover),  TEST(primary_killed),
        TEST(primary_paused),   TEST(cluster_down),
        TEST(one_node_answers),
    };

    return run_tests(argc, argv, "cluster", cases,
                     sizeof cases / sizeof *cases);
}
