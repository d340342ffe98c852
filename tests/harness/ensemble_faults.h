/* ensemble_faults.h - what may befall an ensemble of three, and what must hold
 * all the same: never two at once, tokens that rise, losses told in time,
 * waiters in their order.
 *
 * Written once for the stores that run on consensus; their tests name the
 * servers and what is particular.  Everything goes through the public API. */
#ifndef HF_TEST_ENSEMBLE_FAULTS_H
#define HF_TEST_ENSEMBLE_FAULTS_H

#include "harness/contest.h"
#include "harness/ensemble.h"

enum { LONG_WAIT_MS = 90000 };

typedef struct stage {
    ensemble_kind kind;
    const char *path;     /* of the URLs, with options */
    const char *more[12]; /* for the servers */
} stage;

static inline ensemble *stage_begin(const stage *st)
{
    ensemble_options opt = {.members = 3, .links = true};

    memcpy(opt.more, st->more, sizeof opt.more);
    return ensemble_start(st->kind, &opt);
}

static inline int leader_but(ensemble *e, int old)
{
    int leader = ensemble_leader(e);

    return leader >= 0 && leader != old;
}

/* What was held is lost, was told, and nobody had it meanwhile. */
static inline void expect_lost_before(guarded *g, const waiting *next)
{
    EXPECT(WAIT_FOR(atomic_load(&g->lost), LONG_WAIT_MS));
    EXPECT(WAIT_FOR(atomic_load(&g->losses) == 1, LONG_WAIT_MS));
    if (atomic_load(&g->last) > next->got)
        FAIL_TEST("unsafe: two holders for %lld ms",
                  atomic_load(&g->last) - next->got);
    EXPECT(next->token > g->token);
    EXPECT_EQ(hf_error_class(guarded_end(g)), HF_CLASS_LOST);
}

/* The session can still lock, with a larger token than ever. */
static inline void expect_works(hf_session *s, const char *key, uint64_t above)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = LONG_WAIT_MS};
    hf_hold *hold = NULL;
    hf_error err;
    int code = HF_EUNAVAIL;

    /* What has just come back may say no for a moment. */
    EXPECT(WAIT_FOR((code = hf_lock(s, key, &opt, &hold, &err)) == 0 ||
                        !is_excused(code),
                    LONG_WAIT_MS));
    EXPECT_OK(code, err);
    EXPECT(hf_hold_token(hold) > above);
    EXPECT_OK(hf_release(hold, &err), err);
}

/* ---- Members die, stand still, and come back ---------------------------- */

static inline void members_come_and_go(const stage *st)
{
    ensemble *e = stage_begin(st);
    contest c;
    int who;

    contest_begin(&c, "k", 5);
    for (int i = 0; i < 4; i++)
        contest_enter(&c, ensemble_url(e, st->path), 10000);
    contest_progress(&c, 50, LONG_WAIT_MS);

    who = ensemble_follower(e);
    ensemble_kill(e, who);
    contest_progress(&c, 50, LONG_WAIT_MS);
    ensemble_restart(e, who);
    ensemble_await(e);

    who = ensemble_await_leader(e);
    ensemble_kill(e, who);
    EXPECT(WAIT_FOR(leader_but(e, who), LONG_WAIT_MS));
    contest_progress(&c, 50, LONG_WAIT_MS);
    ensemble_restart(e, who);
    ensemble_await(e);

    who = ensemble_follower(e);
    ensemble_pause(e, who);
    contest_progress(&c, 50, LONG_WAIT_MS);
    ensemble_continue(e, who);
    ensemble_await(e);

    who = ensemble_await_leader(e);
    ensemble_pause(e, who);
    EXPECT(WAIT_FOR(leader_but(e, who), LONG_WAIT_MS));
    contest_progress(&c, 50, LONG_WAIT_MS);
    ensemble_continue(e, who); /* the old leader wakes up and is one no more */
    contest_progress(&c, 50, LONG_WAIT_MS);

    EXPECT(contest_end(&c) >= 300);
    ensemble_stop(e);
}

/* ---- Waiters keep their order ------------------------------------------- */

enum { IN_LINE = 4 };

static inline void line_up(waiting *line, hf_session **sessions,
                           hf_session *look, atomic_int *turn)
{
    for (int i = 0; i < IN_LINE; i++)
        waiting_begin(&line[i], sessions[i], "k", turn, look, i + 1);
}

static inline void expect_order(waiting *line, uint64_t above)
{
    for (int i = 0; i < IN_LINE; i++) {
        EXPECT_CODE(waiting_end(&line[i]), 0);
        EXPECT_EQ(line[i].place, i);
        EXPECT(line[i].token > above);
        above = line[i].token;
    }
}

/* Over a change of leaders, and over a cut of every connection. */
static inline void waiters_keep_their_order(const stage *st)
{
    ensemble *e = stage_begin(st);
    hf_session *first = open_session(ensemble_url(e, st->path), 40000);
    hf_session *look = open_session(ensemble_direct_url(e, st->path), 40000);
    hf_session *sessions[IN_LINE];
    waiting line[IN_LINE];
    atomic_int turn;
    guarded g;
    int who;

    for (int i = 0; i < IN_LINE; i++)
        sessions[i] = open_session(ensemble_url(e, st->path), 40000);
    for (int round = 0; round < 2; round++) {
        atomic_store(&turn, 0);
        guarded_begin(&g, first, "k");
        line_up(line, sessions, look, &turn);
        who = ensemble_await_leader(e);
        if (round == 0) {
            ensemble_kill(e, who);
            EXPECT(WAIT_FOR(leader_but(e, who), LONG_WAIT_MS));
        } else {
            for (int i = 0; i < e->count; i++)
                ensemble_cut_clients(e, i);
        }
        EXPECT_EQ(atomic_load(&turn), 0);
        EXPECT_EQ(guarded_end(&g), 0);
        expect_order(line, g.token);
        if (round == 0) {
            ensemble_restart(e, who);
            ensemble_await(e);
        }
    }
    for (int i = 0; i < IN_LINE; i++)
        hf_close(sessions[i]);
    hf_close(first);
    hf_close(look);
    ensemble_stop(e);
}

/* ---- A holder whose member is cut off from the others ------------------- */

/* The holder speaks to member `who` alone, over a link that stays whole, while
 * that member hears nothing of the others, or stands still (then what it was
 * asked meanwhile is answered when it goes on); the rival speaks to `other`. */
static inline void holder_with(ensemble *e, const stage *st, int who, int other,
                               bool still)
{
    hf_session *s = open_session(ensemble_member_url(e, who, st->path), 4000);
    hf_session *r =
        open_session(ensemble_member_url(e, other, st->path), 40000);
    hf_session *look = open_session(ensemble_direct_url(e, st->path), 40000);
    atomic_int turn = 0;
    waiting next;
    guarded g;

    guarded_begin(&g, s, "k");
    waiting_begin(&next, r, "k", &turn, look, 1);
    if (still)
        ensemble_pause(e, who);
    else
        ensemble_isolate(e, who, true);
    EXPECT_CODE(waiting_end(&next), 0);
    /* ZooKeeper: the trap is real only if that member went on serving. */
    if (st->kind == ON_ZOOKEEPER && !still)
        EXPECT(ensemble_serves(e, who));
    if (still)
        ensemble_continue(e, who);
    expect_lost_before(&g, &next);
    if (!still)
        ensemble_isolate(e, who, false);
    ensemble_await(e);
    expect_works(s, "k", next.token);
    hf_close(s);
    hf_close(r);
    hf_close(look);
}

/* ---- Clients that are cut off ------------------------------------------- */

/* From one member: the session moves to another, and keeps what it has. */
static inline void session_moves(const stage *st)
{
    ensemble *e = stage_begin(st);
    hf_session *s = open_session(ensemble_url(e, st->path), 12000);
    guarded g;
    int on = 0;

    guarded_begin(&g, s, "k");
    for (int round = 0; round < 2; round++) {
        on = 0;
        while (on < e->count &&
               links_open(e->between, e->members[on].front) == 0)
            on++;
        EXPECT(on < e->count);
        ensemble_hold_clients(e, on, true);
        /* Somewhere else, and sure of what it has. */
        for (int other = (on + 1) % e->count; other != on;
             other = (other + 1) % e->count) {
            if (WAIT_FOR(links_open(e->between, e->members[other].front) > 0,
                         6000))
                break;
        }
        EXPECT(WAIT_FOR(hf_hold_state(g.hold) == HF_HELD &&
                            hf_hold_remaining_ms(g.hold) > 6000,
                        LONG_WAIT_MS));
        /* What the old member still had to say comes now. */
        ensemble_hold_clients(e, on, false);
        EXPECT(!atomic_load(&g.lost));
    }
    for (int i = 0; i < e->count; i++)
        ensemble_cut_clients(e, i);
    EXPECT(WAIT_FOR(hf_renew(g.hold, NULL) == 0, LONG_WAIT_MS));
    EXPECT(!atomic_load(&g.lost));
    EXPECT_EQ(guarded_end(&g), 0);
    expect_works(s, "k", g.token);
    hf_close(s);
    ensemble_stop(e);
}

/* From all: lost by its own clock before another has it, and told. */
static inline void everybody_is_cut_off(const stage *st)
{
    ensemble *e = stage_begin(st);
    hf_session *s = open_session(ensemble_url(e, st->path), 4000);
    hf_session *r = open_session(ensemble_direct_url(e, st->path), 40000);
    hf_session *look = open_session(ensemble_direct_url(e, st->path), 40000);
    atomic_int turn = 0;
    waiting next;
    guarded g;

    guarded_begin(&g, s, "k");
    waiting_begin(&next, r, "k", &turn, look, 1);
    for (int i = 0; i < e->count; i++)
        ensemble_hold_clients(e, i, true);
    EXPECT_CODE(waiting_end(&next), 0);
    expect_lost_before(&g, &next);
    for (int i = 0; i < e->count; i++)
        ensemble_hold_clients(e, i, false);
    expect_works(s, "k", next.token);
    hf_close(s);
    hf_close(r);
    hf_close(look);
    ensemble_stop(e);
}

/* ---- No majority -------------------------------------------------------- */

/* Two of three stand still: nobody can say that it is held, so after a lease it
 * is lost; when they are back the others go on, in their order. */
static inline void quorum_is_lost_and_back(const stage *st)
{
    ensemble *e = stage_begin(st);
    hf_session *s = open_session(ensemble_url(e, st->path), 4000);
    hf_session *r = open_session(ensemble_url(e, st->path), 40000);
    hf_session *look = open_session(ensemble_url(e, st->path), 40000);
    atomic_int turn = 0;
    waiting next;
    guarded g;

    guarded_begin(&g, s, "k");
    waiting_begin(&next, r, "k", &turn, look, 1);
    for (int i = 0; i < 2; i++)
        ensemble_pause(e, i);
    EXPECT(WAIT_FOR(atomic_load(&g.lost), LONG_WAIT_MS));
    EXPECT(WAIT_FOR(atomic_load(&g.losses) == 1, LONG_WAIT_MS));
    EXPECT(!atomic_load(&next.answered));
    for (int i = 0; i < 2; i++)
        ensemble_continue(e, i);
    ensemble_await(e);
    EXPECT_CODE(waiting_end(&next), 0);
    expect_lost_before(&g, &next);
    expect_works(s, "k", next.token);
    hf_close(s);
    hf_close(r);
    hf_close(look);
    ensemble_stop(e);
}

#endif
