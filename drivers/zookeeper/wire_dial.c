/* wire_dial.c - when a connection is opened, by whom, and to which member.
 *
 * Answers: who dials, and what happens to the others meanwhile?  A caller who
 * waits anyway dials on his own thread; for everything else there is a thread
 * that exists while something is to be dialled: for a session that stands and
 * has lost its connection, and for calls that nobody drives.  So the keeper
 * never waits for a name or a handshake.  Knows nothing of replies.
 *
 * An attempt goes once round the members, each with its share of the time, and
 * begins behind the one that failed last.  For a session that stands a member
 * gets no more than the timeout divided by the members: one that hangs must not
 * eat the session's life.  After a failed round nobody tries for a while,
 * longer each time and by chance.  One attempt at a time.
 *
 * Safety.  The member's word about the session counts: no id, another id, or a
 * shorter timeout than was promised (our user's deadlines stand on it) is the
 * end.  Silence is not.  Whatever an attempt brings is thrown away if `gen` has
 * changed meanwhile.  Paused here: the session may be over when we go on, and
 * the server says so. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "wire_inside.h"

enum {
    BACKOFF_MS = 50,
    BACKOFF_MAX_MS = 500,
    READY_MS = 2000, /* how long a connection without a session is good */
    SHARE_MIN_MS = 50
};

typedef struct attempt {
    zk_wire *wire;
    zk_call *begin;
    unsigned gen;
    size_t first;
    hf_nsec deadline, each;
    hf__link *ready;
    zk_hello hello;
    zk_conn *conn;
    hf_error why;
} attempt;

static void back_off(zk_backoff *backoff)
{
    hf_nsec most = HF_MS(BACKOFF_MS) << backoff->failures;
    uint32_t chance;

    if (backoff->failures < 10)
        backoff->failures++;
    if (most > HF_MS(BACKOFF_MAX_MS))
        most = HF_MS(BACKOFF_MAX_MS);
    hfd_random(&chance, sizeof chance);
    backoff->until = hfd_now() + HF_MS(1) + most * (chance >> 16) / 65536;
}

hf_nsec zk_dial_limit(const zk_wire *wire)
{
    return hfd_now() + wire->dial_time * (hf_nsec)wire->address_count;
}

/* ---- One attempt ---- */

/* What is asked for; with mu held. */
static void plan_attempt(attempt *a)
{
    zk_wire *wire = a->wire;
    zk_connect *ask = &a->hello.ask;
    hf_nsec share;

    a->gen = atomic_load(&wire->gen);
    a->first = wire->which;
    a->each = wire->dial_time;
    a->ready = wire->ready;
    wire->ready = NULL;
    if (a->begin) {
        ask->timeout_ms = a->begin->requests[0].version;
    } else if (wire->session == 0) {
        ask->timeout_ms = ZK_CASUAL_MS;
    } else {
        ask->session = wire->session;
        ask->timeout_ms = wire->timeout_ms;
        ask->zxid = wire->zxid;
        memcpy(ask->password, wire->password, sizeof ask->password);
        share = HF_MS(wire->timeout_ms) / (hf_nsec)wire->address_count;
        if (share < HF_MS(SHARE_MIN_MS))
            share = HF_MS(SHARE_MIN_MS);
        if (a->each > share)
            a->each = share;
    }
}

static bool is_stale(const attempt *a)
{
    return atomic_load(&a->wire->gen) != a->gen ||
           atomic_load(&a->wire->closing);
}

static int try_member(attempt *a, size_t which, hf_nsec deadline, hf_error *why)
{
    int code = HF_EUNAVAIL;

    a->hello.deadline = deadline;
    /* The one that zk_wire_open has made, if the server still has it. */
    if (a->ready) {
        hf__link *link = a->ready;

        a->ready = NULL;
        if (hfd_now() - a->wire->ready_since < HF_MS(READY_MS))
            code = zk_hello_say(a->wire, which, link, &a->hello, why);
        else
            hf__link_close(link, false);
    }
    if (code == HF_EUNAVAIL)
        code = zk_hello_say(a->wire, which, NULL, &a->hello, why);
    return code;
}

/* By ZooKeeper's own word; a certificate that is not believed says nothing of
 * user and session. */
static bool is_refused(const hf_error *why)
{
    return why->code == HF_EAUTH && why->native == ZK_AUTH_FAILED;
}

/* Once round.  Of several reasons the one that a user can do something about
 * is told. */
static int try_members(attempt *a, size_t *ret_which)
{
    size_t n = a->wire->address_count;
    int code = HF_EUNAVAIL;

    for (size_t i = 0; i < n && !is_stale(a); i++) {
        hf_nsec now = hfd_now(), share = (a->deadline - now) / (hf_nsec)(n - i);
        hf_error why = {0};

        if (share > a->each)
            share = a->each;
        *ret_which = (a->first + i) % n;
        code = try_member(a, *ret_which, now + share, &why);
        if (code == 0)
            return 0;
        if (a->why.code == 0 || a->why.code == HF_EUNAVAIL || is_refused(&why))
            a->why = why;
        if (is_refused(&why))
            return code;
    }
    if (a->why.code == 0)
        hfd_error(&a->why, HF_EUNAVAIL, "zookeeper", ECANCELED,
                  "the attempt to connect was given up");
    return a->why.code;
}

/* What the member's answer means for the session that stands; NULL: it goes
 * on. */
static const char *read_verdict(const attempt *a)
{
    const zk_connect *ask = &a->hello.ask;
    const zk_connected *got = &a->hello.got;

    if (ask->session == 0)
        return NULL;
    if (got->session == 0)
        return "the server says that it has expired";
    if (got->session != ask->session)
        return "the server gave a new session in its place";
    if (got->timeout_ms < ask->timeout_ms)
        return "the member grants a shorter timeout than the one before";
    return NULL;
}

static int make_conn(attempt *a, size_t which)
{
    hf__link *link = a->hello.link;
    int code;

    a->hello.link = NULL;
    if (a->hello.got.session == 0) {
        hf__link_close(link, false);
        return hfd_error(&a->why, HF_EUNAVAIL, "zookeeper", 0,
                         "%s: the server gave no session", a->hello.where);
    }
    code = zk_conn_new(&a->conn, a->wire, link, &a->why);
    if (code != 0)
        return code;
    a->conn->session = a->hello.got.session;
    a->conn->read_only = a->hello.got.read_only;
    a->conn->which = which;
    memcpy(a->conn->where, a->hello.where, sizeof a->conn->where);
    hf__pipe_attend(a->conn->pipe, 1); /* events, pings, and its end */
    return 0;
}

/* ---- What becomes of it ---- */

/* A new session: it is what stands now.  With mu held, which is unlocked. */
static void install(attempt *a)
{
    zk_wire *wire = a->wire;
    const zk_connected *got = &a->hello.got;
    zk_reply reply = {.session = got->session, .timeout_ms = got->timeout_ms};
    zk_call *begin = a->begin;
    bool again = a->hello.ask.session != 0;

    if (!again) {
        wire->session = got->session;
        wire->timeout_ms = got->timeout_ms;
        memcpy(wire->password, got->password, sizeof wire->password);
        wire->zxid = 0;
        wire->casual = !begin;
        atomic_fetch_add(&wire->gen, 1);
    }
    a->conn->began = a->hello.sent;
    zk_session_stands(wire, a->conn, again);
    if (begin) {
        begin->sent = begin->touched = a->hello.sent;
        begin->answered(begin, 0, &reply);
        zk_call_land(begin, HF_APPLIED, NULL, NULL);
    }
}

/* A session was ended or begun meanwhile, or the wire closes: what was brought
 * is nobody's.  With mu held, which is unlocked. */
static void throw_away(attempt *a)
{
    hf_error why = {0};

    if (zk_dial_wanted(a->wire))
        zk_dial_summon(a->wire);
    zk_unlock(a->wire);
    zk_futex_ring(&a->wire->turn);
    if (a->conn)
        zk_conn_drop(a->conn);
    if (a->begin) {
        zk_expired(a->hello.got.session, &why);
        zk_call_refuse(a->begin, &why);
    }
}

/* With mu held, which is unlocked. */
static void fail(attempt *a, bool whole)
{
    zk_wire *wire = a->wire;
    /* An attempt that ended only because its caller's time was short says
     * nothing about the members. */
    bool counts = whole || hfd_now() < a->deadline;

    wire->which = (a->first + 1) % wire->address_count;
    if (counts) {
        wire->failure = a->why;
        back_off(&wire->backoff);
    }
    if (zk_dial_wanted(wire))
        zk_dial_summon(wire);
    zk_unlock(wire);
    zk_futex_ring(&wire->turn);
    if (a->begin)
        zk_call_refuse(a->begin, &a->why);
    if (counts)
        zk_wire_move_line(wire, &a->why);
}

int zk_dial_attempt(zk_wire *wire, zk_call *begin, hf_nsec deadline,
                    hf_error *err)
{
    bool whole = deadline + HF_MS(1) >= zk_dial_limit(wire);
    attempt a = {.wire = wire, .begin = begin, .deadline = deadline};
    const char *over = NULL;
    size_t which = 0;
    int code;

    plan_attempt(&a);
    wire->dialing = true;
    zk_unlock(wire);
    code = try_members(&a, &which);
    if (code == 0)
        over = read_verdict(&a);
    else if (is_refused(&a.why) && a.hello.ask.session != 0)
        over = "the server refused user and password";
    if (code == 0 && over)
        hf__link_close(a.hello.link, false);
    else if (code == 0)
        code = make_conn(&a, which);
    hf__link_close(a.ready, false);
    zk_lock(wire);
    wire->dialing = false;
    if (is_stale(&a)) {
        throw_away(&a);
        code = 0;
    } else if (over) {
        zk_unlock(wire);
        zk_session_end(wire, a.hello.ask.session, over);
        code = 0;
    } else if (code == 0) {
        install(&a);
    } else {
        fail(&a, whole);
    }
    explicit_bzero(&a.hello.got, sizeof a.hello.got);
    explicit_bzero(&a.hello.ask, sizeof a.hello.ask);
    if (code != 0 && err)
        *err = a.why;
    return code;
}

/* ---- The thread ---- */

bool zk_dial_wanted(const zk_wire *wire)
{
    if (wire->closing || wire->dialing)
        return false;
    return (wire->session != 0 && !wire->casual && !wire->conn) ||
           zk_line_wants_session(wire);
}

static void *run_dialer(void *arg)
{
    zk_wire *wire = arg;

    zk_lock(wire);
    while (zk_dial_wanted(wire)) {
        unsigned seen = atomic_load(&wire->bell);
        hf_nsec now = hfd_now(), until = wire->backoff.until, deadline;
        zk_call *begin;

        if (now < until) {
            zk_unlock(wire);
            zk_futex_sleep(&wire->bell, seen, until);
            zk_lock(wire);
            continue;
        }
        deadline = zk_dial_limit(wire);
        begin = zk_line_take_begin(wire);
        if (begin && begin->deadline < deadline)
            deadline = begin->deadline;
        zk_dial_attempt(wire, begin, deadline, NULL);
        zk_lock(wire);
    }
    wire->dialer_runs = false;
    zk_unlock(wire);
    return NULL;
}

void zk_dial_summon(zk_wire *wire)
{
    sigset_t all, old;
    int code;

    if (wire->closing)
        return;
    if (wire->dialer_runs) {
        zk_futex_ring(&wire->bell);
        return;
    }
    /* The one before has said that it ends, and needs no lock for that. */
    if (wire->dialer_joinable)
        pthread_join(wire->dialer, NULL);
    wire->dialer_joinable = false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    code = pthread_create(&wire->dialer, NULL, run_dialer, wire);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (code != 0) {
        zk_wire_remind(wire, hfd_now() + HF_MS(BACKOFF_MAX_MS));
        return;
    }
    wire->dialer_runs = wire->dialer_joinable = true;
}

void zk_dial_stop(zk_wire *wire)
{
    bool joinable;

    zk_lock(wire);
    wire->closing = true;
    joinable = wire->dialer_joinable;
    wire->dialer_joinable = false;
    zk_unlock(wire);
    zk_futex_ring(&wire->bell);
    if (joinable)
        pthread_join(wire->dialer, NULL);
}
