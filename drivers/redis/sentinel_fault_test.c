/* sentinel_fault_test.c - primaries that are replaced, and what is held then.
 *
 * A real primary with two replicas and three sentinels, killed, stopped, cut
 * off and made to forget.  Whatever happens: with strict nobody has a lock that
 * another still believes in, tokens rise, waiters are served.  The story of the
 * lock that is lost at a failover is told to its end: that it happens without
 * strict and replicas=, that it is told, and that each of the two prevents it.
 *
 * He who believes is a process of his own, stopped while the servers change:
 * what he was not told he goes on believing, until his own deadline. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/contest.h"
#include "harness/sentinels.h"

enum { LONG_MS = 120000 };

/* ---- A process that holds ---- */

typedef struct belief { /* shared with it */
    atomic_int code;    /* of its hf_lock; 1: not answered yet */
    atomic_ullong token;
    atomic_llong deadline, last; /* in milliseconds; `last`: it was held then */
    atomic_bool lost, release;
    atomic_int release_code;
} belief;

typedef struct believer {
    pid_t pid;
    belief *b;
} believer;

static void believe(belief *b, const char *url, int lease_ms)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = LONG_MS};
    hf_session *s = open_session(url, lease_ms);
    hf_hold *hold = NULL;
    hf_error err;
    int code = hf_lock(s, "k", &opt, &hold, &err);

    if (code != 0)
        fprintf(stderr, "the believer: %s\n", err.text);
    else
        atomic_store(&b->token, hf_hold_token(hold));
    atomic_store(&b->code, code);
    while (code == 0 && !atomic_load(&b->release)) {
        long long now = test_now_ms();

        if (hf_hold_check(hold, NULL) == 0) {
            atomic_store(&b->deadline, now + hf_hold_remaining_ms(hold));
            atomic_store(&b->last, now);
        } else {
            atomic_store(&b->lost, true);
        }
        test_sleep_ms(2);
    }
    if (code == 0)
        atomic_store(&b->release_code, hf_release(hold, NULL));
    hf_close(s);
}

static believer believer_start(const char *url, int lease_ms)
{
    believer me = {0};

    me.b = mmap(NULL, sizeof *me.b, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(me.b != MAP_FAILED);
    atomic_store(&me.b->code, 1);
    me.pid = fork();
    EXPECT(me.pid >= 0);
    if (me.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        believe(me.b, url, lease_ms);
        _Exit(0);
    }
    EXPECT(WAIT_FOR(atomic_load(&me.b->code) != 1, LONG_MS));
    EXPECT_CODE(atomic_load(&me.b->code), 0);
    EXPECT(WAIT_FOR(atomic_load(&me.b->deadline) != 0, LONG_MS));
    return me;
}

/* It stands still, and nothing can be told to it. */
static void believer_pause(const believer *me)
{
    int status;

    EXPECT(kill(me->pid, SIGSTOP) == 0);
    EXPECT(waitpid(me->pid, &status, WUNTRACED) == me->pid);
    EXPECT(WIFSTOPPED(status) && !atomic_load(&me->b->lost));
}

static int believer_end(believer *me)
{
    int status, code;

    atomic_store(&me->b->release, true);
    EXPECT(waitpid(me->pid, &status, 0) == me->pid);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    code = atomic_load(&me->b->release_code);
    munmap(me->b, sizeof *me->b);
    return code;
}

static hf_hold *take(hf_session *s, const char *key, hf_error *err)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = LONG_MS};
    hf_hold *hold = NULL;
    int code = HF_EUNAVAIL;

    /* During a failover there may be nobody to ask. */
    EXPECT(WAIT_FOR((code = hf_lock(s, key, &opt, &hold, err)) == 0 ||
                        !is_excused(code),
                    LONG_MS));
    EXPECT_OK(code, *err);
    return hold;
}

/* ---- The contest goes on ---- */

/* strict, with leases of two seconds: a failover costs that and a little. */
#define STRICT "max_lease_ms=2000&lag_ms=3000"

static void begin_contest(contest *c, sentinels *all, const char *query)
{
    contest_begin(c, "k", 5);
    for (int i = 0; i < 3; i++)
        contest_enter(c, sentinels_url(all, query), 2000);
    contest_progress(c, 30, LONG_MS);
}

static void replace_primary(sentinels *all, void (*strike)(server *s))
{
    int old = sentinels_primary(all);

    EXPECT(old >= 0);
    strike(all->servers[old]);
    sentinels_impatient(all);
    sentinels_await_other(all, old);
    sentinels_patient(all);
}

static void primary_is_killed(void)
{
    sentinels *all = sentinels_start(NULL);
    contest c;

    begin_contest(&c, all, STRICT);
    replace_primary(all, server_kill);
    contest_progress(&c, 30, LONG_MS);
    server_restart(all->servers[0], true); /* a primary, until it is told */
    contest_progress(&c, 30, LONG_MS);
    EXPECT(contest_end(&c) >= 90);
    sentinels_stop(all);
}

/* Two primaries for a while: the old one goes on where it stood, with a
 * connection that nobody has used meanwhile. */
static void primary_stands_still(void)
{
    sentinels *all = sentinels_start(&(sentinels_options){.guarded = true});
    hf_session *idle = open_session(sentinels_url(all, STRICT), 2000);
    hf_hold *hold = NULL;
    contest c;

    begin_contest(&c, all, STRICT);
    replace_primary(all, server_pause);
    contest_progress(&c, 30, LONG_MS);
    server_continue(all->servers[0]);
    for (int i = 0; i < 200; i++) {
        contest_section section = {.rival = RIVALS_MAX};

        if (hf_try_lock(idle, "k", NULL, &hold, NULL) == 0) {
            section.got = section.last = test_now_ms();
            section.token = hf_hold_token(hold);
            note_section(&c, &section);
            hf_release(hold, NULL);
        }
        test_sleep_ms(5);
    }
    contest_progress(&c, 30, LONG_MS);
    EXPECT(contest_end(&c) >= 90);
    hf_close(idle);
    sentinels_stop(all);
}

/* Every connection is cut, again and again. */
static void connections_are_cut(void)
{
    sentinels *all = sentinels_start(NULL);
    contest c;

    begin_contest(&c, all, "strict=no");
    for (int i = 0; i < 10; i++) {
        server_number(all->servers[0], "CLIENT KILL TYPE normal");
        server_number(all->servers[0], "CLIENT KILL TYPE pubsub");
        contest_progress(&c, 5, LONG_MS);
    }
    EXPECT_EQ(sentinels_primary(all), 0);
    contest_end(&c);
    sentinels_stop(all);
}

/* By an operator: the old one becomes a replica while we speak to it. */
static void primary_is_demoted(void)
{
    sentinels *all = sentinels_start(NULL);
    contest c;

    begin_contest(&c, all, STRICT);
    EXPECT_HAS(sentinels_ask(all->ports[0], NULL, "SENTINEL FAILOVER primary"),
               "+OK");
    sentinels_await_other(all, 0);
    contest_progress(&c, 30, LONG_MS);
    EXPECT(contest_end(&c) >= 60);
    sentinels_stop(all);
}

/* It is replaced, and goes on beside its successor: nobody can reach it to
 * demote it, but we have a connection.  Without replicas it grants nothing, and
 * that must lead to the one that does. */
static void primary_is_not_demoted(void)
{
    sentinels *all = sentinels_start(&(sentinels_options){.guarded = true});
    hf_session *s = open_session(sentinels_url(all, STRICT "&ns=t"), 2000);
    hf_error err;
    hf_hold *hold = take(s, "k", &err);
    uint64_t token = hf_hold_token(hold);

    EXPECT_OK(hf_release(hold, &err), err);
    server_ask(all->servers[1], "REPLICAOF NO ONE");
    server_ask(all->servers[2], "REPLICAOF 127.0.0.1 %d",
               all->servers[1]->port);
    sentinels_appoint(all, 1);
    hold = take(s, "k", &err);
    EXPECT(hf_hold_token(hold) > token);
    EXPECT(server_number(all->servers[1], "EXISTS hf:{t}:g:k") == 1);
    EXPECT_HAS(server_ask(all->servers[0], "ROLE"), "master");
    EXPECT_OK(hf_release(hold, &err), err);
    hf_close(s);
    sentinels_stop(all);
}

/* ---- The lock that is lost at a failover ---- */

/* A holder, replicas that do not hear of it, and a primary that dies; returns
 * with the next one in place and the holder stopped. */
static believer forget(sentinels *all, const char *query, int lease_ms)
{
    believer me;

    /* The replicas know the namespace, and then nothing more. */
    me = believer_start(sentinels_url(all, query), lease_ms);
    EXPECT_CODE(believer_end(&me), 0);
    sentinels_await_step(all);
    sentinels_cut_replicas(all);
    me = believer_start(sentinels_url(all, query), lease_ms);
    believer_pause(&me);
    replace_primary(all, server_kill);
    return me;
}

static void lock_is_forgotten(void)
{
    sentinels *all = sentinels_start(NULL);
    believer me = forget(all, "strict=no", 60000);
    hf_session *s = open_session(sentinels_url(all, "strict=no"), 60000);
    hf_error err;
    hf_hold *hold = take(s, "k", &err);

    /* Two holders: he was told nothing, and by his own clock it is his. */
    EXPECT(test_now_ms() < atomic_load(&me.b->deadline));
    EXPECT(!atomic_load(&me.b->lost));
    /* But the token tells them apart, and he hears of it. */
    EXPECT(hf_hold_token(hold) > atomic_load(&me.b->token));
    EXPECT(kill(me.pid, SIGCONT) == 0);
    EXPECT(WAIT_FOR(atomic_load(&me.b->lost), LONG_MS));
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    EXPECT_OK(hf_release(hold, &err), err);
    EXPECT_EQ(hf_error_class(believer_end(&me)), HF_CLASS_LOST);
    hf_close(s);
    sentinels_stop(all);
}

static void strict_waits_for_it(void)
{
    sentinels *all = sentinels_start(NULL);
    believer me = forget(all, "max_lease_ms=9000&lag_ms=0", 9000);
    hf_session *s =
        open_session(sentinels_url(all, "max_lease_ms=9000&lag_ms=0"), 9000);
    hf_error err;
    hf_hold *hold = take(s, "k", &err);

    EXPECT(test_now_ms() > atomic_load(&me.b->deadline));
    EXPECT(hf_hold_token(hold) > atomic_load(&me.b->token));
    EXPECT(kill(me.pid, SIGCONT) == 0);
    EXPECT(WAIT_FOR(atomic_load(&me.b->lost), LONG_MS));
    EXPECT_OK(hf_release(hold, &err), err);
    EXPECT_EQ(hf_error_class(believer_end(&me)), HF_CLASS_LOST);
    hf_close(s);
    sentinels_stop(all);
}

/* With replicas= a grant that they have not heard of is none, and is not left
 * behind either. */
static void replicas_must_confirm(void)
{
    sentinels *all = sentinels_start(NULL);
    const char *query = "strict=no&replicas=1&ns=r";
    hf_session *s = open_session(sentinels_url(all, query), 4000);
    hf_hold *hold = NULL;
    hf_error err;

    hold = take(s, "k", &err);
    EXPECT_OK(hf_release(hold, &err), err);
    sentinels_cut_replicas(all);
    EXPECT_CODE(hf_try_lock(s, "k", NULL, &hold, &err), HF_EUNAVAIL);
    EXPECT_HAS(err.text, "0 of the 1 replicas");
    EXPECT(WAIT_FOR(
        server_number(all->servers[0], "EXISTS hf:{r}:g:k hf:{r}:w:k") == 0,
        LONG_MS));
    /* The replicas are back: so are we. */
    for (int i = 1; i < SENTINELS_SERVERS; i++)
        server_ask(all->servers[i], "REPLICAOF 127.0.0.1 %d",
                   all->servers[0]->port);
    hold = take(s, "k", &err);
    EXPECT_OK(hf_release(hold, &err), err);
    hf_close(s);
    sentinels_stop(all);
}

/* What a replica has confirmed is still held when that one is promoted, and he
 * who waits keeps his place. */
static void hold_survives(void)
{
    sentinels *all = sentinels_start(NULL);
    const char *query = "strict=no&replicas=2";
    hf_session *s = open_session(sentinels_url(all, query), 60000);
    hf_session *w = open_session(sentinels_url(all, query), 60000);
    hf_session *look = open_session(sentinels_url(all, query), 60000);
    atomic_int turn = 0;
    waiting next;
    guarded g;

    guarded_begin(&g, s, "k");
    waiting_begin(&next, w, "k", &turn, look, 1);
    sentinels_await_step(all);
    replace_primary(all, server_kill);
    /* One replica is left, and that is not two: not renewed, and not lost. */
    EXPECT(WAIT_FOR(waiting_now(look, "k") == 1, LONG_MS));
    EXPECT(!atomic_load(&g.lost) && !atomic_load(&next.answered));
    server_restart(all->servers[0], true);
    EXPECT(WAIT_FOR(hf_renew(g.hold, NULL) == 0, LONG_MS));
    EXPECT(WAIT_FOR(hf_hold_state(g.hold) == HF_HELD, LONG_MS));
    EXPECT_EQ(guarded_end(&g), 0);
    EXPECT_CODE(waiting_end(&next), 0);
    EXPECT(next.token > g.token);
    hf_close(s);
    hf_close(w);
    hf_close(look);
    sentinels_stop(all);
}

static const test_case cases[] = {
    TEST_LIMIT(primary_is_killed, 300),
    TEST_LIMIT(primary_stands_still, 300),
    TEST_LIMIT(connections_are_cut, 300),
    TEST_LIMIT(primary_is_demoted, 300),
    TEST_LIMIT(primary_is_not_demoted, 300),
    TEST_LIMIT(lock_is_forgotten, 300),
    TEST_LIMIT(strict_waits_for_it, 300),
    TEST_LIMIT(replicas_must_confirm, 300),
    TEST_LIMIT(hold_survives, 300),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "sentinel_fault", cases,
                     sizeof cases / sizeof *cases);
}
