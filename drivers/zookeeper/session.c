/* session.c - attach, renew, detach: one ZooKeeper session for one of ours.
 *
 * A session of the server is begun for each attach and never used for another,
 * so an entry of yesterday is never adopted.  The end that the core counts with
 * comes from questions that the *leader* answers: `sync`.  Pings are answered
 * by whatever member we are connected to, even while the leader has long ended
 * the session.  But the leader does not count from its answer either: it counts
 * from what our member has reported to it, and an answer proves only that all
 * reports before it have come.  So the timeout is counted from the sending of
 * what was answered a tick before the sync was sent (wire_conn.c); a ping a
 * tick keeps that young.  A member that stands still may report late: but the
 * leader asks for a report twice a tick, in order with its answers, so when a
 * sync was answered the report is under way, and a second sync behind it proves
 * that it has come (models/tick.pml).  One tick more comes off because a leader
 * that has lost its followers answers for a moment beside a new one;
 * heartbeat=write asks a quorum, by a write to a node of our own, and does not
 * need it.
 *
 * Reply lost: a renewal is asked again, and counts from its own sending.
 * Paused here: the answer carries an old instant, and lengthens nothing.
 * Expired: every operation says so from then on; only an attach begins anew. */
#include <stdio.h>
#include <string.h>

#include "store.h"

bool zk_session_is(const hf_store *store, const hf_id *sid)
{
    return store->attached && !store->over && !store->ending &&
           memcmp(&store->sid, sid, sizeof *sid) == 0;
}

/* ---- How long is it ours ------------------------------------------------- */

/* age: how old the leader's knowledge of us may be, at the sending. */
static hf_nsec remaining_of(const hf_store *store, hf_nsec timeout, hf_nsec ttl,
                            hf_nsec age)
{
    hf_nsec left = timeout - age - (store->write_beats ? 0 : store->tick);

    return left < ttl ? left : ttl;
}

/* With a ping a tick: one that was answered a tick ago. */
static hf_nsec usual_age(const hf_store *store)
{
    return store->tick * 5 / 2;
}

/* The core renews after a third of the lease, tries twice, and stops a tenth
 * before the end: is there time for that? */
static bool is_enough(hf_nsec remaining, hf_nsec ttl)
{
    hf_nsec attempt = ttl / 6 < HF_MS(2000) ? ttl / 6 : HF_MS(2000);
    hf_nsec margin = ttl / 10 > HF_MS(250) ? ttl / 10 : HF_MS(250);

    return remaining - margin - remaining / 100 - HF_MS(10) >=
           ttl / 3 + 2 * attempt;
}

/* The shortest lease that leaves time, in steps of half a second. */
static long long least_lease_ms(const hf_store *store)
{
    long long ms = 1000;

    while (ms < 86400000 && !is_enough(remaining_of(store, HF_MS(ms), HF_MS(ms),
                                                    usual_age(store)),
                                       HF_MS(ms)))
        ms += 500;
    return ms;
}

static void refuse_short(zk_job *job)
{
    const hf_store *store = job->store;
    long long least = least_lease_ms(store), asked = job->op->ttl / 1000000;
    long long tick = store->tick / 1000000, most = store->timeout / 1000000;
    char text[200];

    if (asked <= most)
        snprintf(text, sizeof text,
                 "a lease of %lld ms with ticks of %lld ms leaves no time to "
                 "renew: one of %lld ms or more, or tick_ms as the servers "
                 "have it",
                 asked, tick, least);
    else if (least <= most)
        snprintf(text, sizeof text,
                 "the servers allow %lld ms, too little for a lease of %lld: "
                 "one of %lld to %lld ms, or a larger maxSessionTimeout there",
                 most, asked, least, most);
    else
        snprintf(text, sizeof text,
                 "the servers allow %lld ms, too little with ticks of %lld: a "
                 "larger maxSessionTimeout there, or tick_ms as they have it",
                 most, tick);
    zk_job_refuse(job, HF_EINVAL, text);
}

/* The core may believe in it until then, and no doubt needs to be told after
 * it: it has counted it as lost by itself, and the wire gives it up. */
static void note_lease(zk_job *job, hf_nsec touched)
{
    hf_store *store = job->store;
    hf_op *op = job->op;
    int64_t session;
    hf_nsec end;

    op->sent = job->call.sent;
    zk_store_lock(store);
    op->remaining =
        remaining_of(store, store->timeout, op->ttl, op->sent - touched);
    end = op->sent + op->remaining;
    if (op->kind == HF_OP_ATTACH || end > store->lease_end)
        store->lease_end = end;
    end = store->lease_end;
    session = store->session;
    zk_store_unlock(store);
    zk_wire_keep(store->wire, session, end);
}

/* ---- Attach ------------------------------------------------------------- */

static void attach_take(zk_job *job, unsigned i, const zk_reply *reply)
{
    hf_store *store = job->store;
    hf_op *op = job->op;
    size_t n = op->text_len < ZK_NAME_MAX - 1 ? op->text_len : ZK_NAME_MAX - 1;

    (void)i;
    job->error = reply->error;
    if (reply->error)
        return;
    zk_store_lock(store);
    zk_table_clear(store);
    store->sid = op->sid;
    store->session = reply->session;
    store->timeout = HF_MS(reply->timeout_ms);
    store->attached = true;
    store->over = store->ending = false;
    store->started_ms = hfd_realtime_us() / 1000;
    if (n)
        memcpy(store->name, op->text, n);
    store->name[n] = '\0';
    zk_store_unlock(store);
}

static void no_take(zk_job *job, unsigned i, const zk_reply *reply)
{
    (void)job;
    (void)i;
    (void)reply;
}

static void attach_done(zk_job *job)
{
    hf_store *store = job->store;

    if (job->error) {
        zk_job_refused(job, job->error, "session");
        return;
    }
    note_lease(job, job->call.touched);
    if (is_enough(
            remaining_of(store, store->timeout, job->op->ttl, usual_age(store)),
            job->op->ttl)) {
        zk_job_ok(job);
        return;
    }
    /* It is of no use: the server need not keep it. */
    zk_store_lock(store);
    store->attached = false;
    zk_store_unlock(store);
    job->take = no_take;
    job->done = refuse_short;
    job->call.session = 0;
    zk_job_ask(job, 0, ZK_CLOSE, "", 0);
    zk_job_send(job, 1);
}

void zk_attach(hf_store *store, hf_op *op)
{
    bool same;
    zk_job *job;

    zk_store_lock(store);
    same = zk_session_is(store, &op->sid);
    zk_store_unlock(store);
    if (same) {
        zk_renew(store, op); /* its answer was lost */
        return;
    }
    job = zk_job_new(store, op);
    if (!job)
        return;
    job->take = attach_take;
    job->done = attach_done;
    zk_job_ask(job, 0, ZK_BEGIN, "", 0)->version =
        (int32_t)(op->ttl / 1000000 < INT32_MAX ? op->ttl / 1000000
                                                : INT32_MAX);
    zk_job_send(job, 1);
}

/* ---- Renew -------------------------------------------------------------- */

enum { BEATS = 0, CREATES = 1 };

static void renew_send(zk_job *job);

static void renew_take(zk_job *job, unsigned i, const zk_reply *reply)
{
    if (i > 0)
        zk_patrol_take(job, i, reply);
    else
        job->error = reply->error;
}

static void prove_take(zk_job *job, unsigned i, const zk_reply *reply)
{
    (void)i;
    job->error = reply->error;
}

/* What the first one counted from is proved by the second.  On another
 * connection, too: its handshake is later than that, and the leader's. */
static void prove_done(zk_job *job)
{
    hf_store *store = job->store;

    if (job->error) {
        zk_job_refused(job, job->error, "/");
        return;
    }
    note_lease(job, job->touched);
    zk_job_ok(job);
    zk_patrol_go(store);
}

static void renew_done(zk_job *job)
{
    hf_store *store = job->store;

    zk_patrol_undone(job);
    if (job->error == ZK_NO_NODE && store->write_beats && job->step == BEATS) {
        job->step = CREATES;
        zk_parents_go(job, job->path.data, job->path.len, renew_send);
    } else if (job->error && job->error != ZK_NODE_EXISTS) {
        zk_job_refused(job, job->error, job->path.data ? job->path.data : "/");
    } else {
        job->touched = job->call.touched;
        job->take = prove_take;
        job->done = prove_done;
        zk_job_ask(job, 0, ZK_SYNC, "/", 1);
        zk_job_send(job, 1);
    }
}

/* The node that a heartbeat=write writes to: no key is written like this. */
static bool name_beat(zk_job *job)
{
    hf_store *store = job->store;
    const hf_id *sid = &job->op->sid;
    int n;

    if (!zk_text_reserve(&job->path, store->root_len + 64))
        return false;
    n = snprintf(job->path.data, job->path.room, "%s/%%beat-",
                 store->root_len ? store->root : ZK_PATH_HOME);
    for (size_t i = 0; i < sizeof sid->bytes; i++)
        n += snprintf(job->path.data + n, job->path.room - (size_t)n, "%02x",
                      sid->bytes[i]);
    job->path.len = (size_t)n;
    return true;
}

static void renew_send(zk_job *job)
{
    job->take = renew_take;
    job->done = renew_done;
    if (!job->store->write_beats)
        zk_job_ask(job, 0, ZK_SYNC, "/", 1);
    else if (job->step == BEATS)
        zk_job_ask(job, 0, ZK_SET_DATA, job->path.data, job->path.len);
    else
        zk_job_ask(job, 0, ZK_CREATE, job->path.data, job->path.len)->flags =
            ZK_EPHEMERAL;
    zk_job_send(job, zk_patrol_fill(job, 1));
}

static void renew_redo(zk_job *job)
{
    zk_patrol_undone(job);
    renew_send(job);
}

void zk_renew(hf_store *store, hf_op *op)
{
    zk_job *job = zk_job_new(store, op);

    if (!job)
        return;
    zk_store_lock(store);
    job->expired = !zk_session_is(store, &op->sid);
    job->call.session = store->session;
    zk_store_unlock(store);
    job->redo = renew_redo;
    job->end = zk_patrol_undone;
    if (job->expired)
        zk_job_expired(job);
    else if (store->write_beats && !name_beat(job))
        zk_job_no_memory(job);
    else
        renew_send(job);
}

/* ---- Detach ------------------------------------------------------------- */

static void detach_done(zk_job *job)
{
    hf_store *store = job->store;

    zk_store_lock(store);
    if (store->session == job->call.session)
        store->attached = false;
    zk_store_unlock(store);
    zk_job_ok(job);
}

static void detach_send(zk_job *job)
{
    zk_job_ask(job, 0, ZK_CLOSE, "", 0);
    zk_job_send(job, 1);
}

void zk_detach(hf_store *store, hf_op *op)
{
    int64_t session;
    bool mine;
    zk_job *job;

    zk_store_lock(store);
    session = store->session;
    mine =
        store->attached && memcmp(&store->sid, &op->sid, sizeof op->sid) == 0;
    if (mine) {
        /* First of all: a node that goes with its session is no grant for
         * another one of it, and no break. */
        store->ending = true;
        zk_table_clear(store);
    }
    zk_store_unlock(store);
    if (!mine) {
        zk_op_ok(op);
        return;
    }
    job = zk_job_new(store, op);
    if (!job)
        return;
    job->take = no_take;
    job->done = detach_done;
    job->redo = detach_send;
    job->call.session = session;
    detach_send(job);
}
