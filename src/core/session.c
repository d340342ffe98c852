/* session.c - membership in a store: calls, operations, attach, loss.
 *
 * Every call on a session passes hf__session_enter, which refuses forked and
 * closing ones and counts, so that hf_close can wait for those inside.  The
 * mutex is never held while a driver runs: flights are put into the outbox and
 * started by hf__session_unlock.
 *
 * The session attaches with the first request that needs it, and anew, under a
 * new sid, after a loss; `gen` counts that, so that entries, flights and
 * pushes of an earlier session are recognised wherever they arrive.  Entries
 * are made in a session alone: whoever is about to join when it ends goes back
 * in line, since what he would make belongs to none, and nobody would look for
 * it.  An attach without an answer is not repeated under the same sid: a
 * session id is never used twice (safety, trap 6). */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/url.h"
#include "core/internal.h"

static void *take_session(void *object)
{
    atomic_fetch_add(&((hf__session *)object)->calls, 1);
    return object;
}

int hf__session_enter(const hf_session *handle, hf__session **ret,
                      hf_error *err)
{
    void *object;
    int code;

    hf__api_enter();
    code = hf__handle_find(handle, HF__SESSION, &object, take_session);
    if (code)
        hf__api_leave(code);
    if (code == HF_EFORKED)
        return hf__error(err, code,
                         "the session belongs to the parent process (did you "
                         "fork or daemonize after hf_open?): open one here");
    if (code == HF_EINVAL)
        return hf__error(err, code, "the session is NULL");
    if (code)
        return hf__error(err, HF_ECLOSED, "the session is closed");
    *ret = object;
    hf__session_lock(*ret);
    if ((*ret)->closing) {
        hf__session_leave(*ret);
        return hf__error(err, HF_ECLOSED, "the session is being closed");
    }
    return 0;
}

void hf__session_lock(hf__session *s)
{
    pthread_mutex_lock(&s->mu);
}

static void run_flight_job(hf__job *job)
{
    hf__flight *flight = HF_CONTAINER(job, hf__flight, job);
    hf_nsec due = hfd_now() + flight->s->lease.attempt;

    /* Counted from here: it may have stood in line for a thread. */
    if (flight->op.deadline < due)
        flight->op.deadline = due;
    flight->s->driver->start(flight->s->store, &flight->op);
}

static void start_flight(hf__flight *flight)
{
    hf__session *s = flight->s;

    if ((s->caps & HF_CAP_BLOCKING) && hf__clock_threads()) {
        flight->job.run = run_flight_job;
        hf__crew_give(flight->op.kind == HF_OP_RENEW ? &s->renewer : &s->pool,
                      &flight->job);
    } else {
        s->driver->start(s->store, &flight->op);
    }
}

/* The session may be gone when the bells are heard. */
static void unlock_and_hear(hf__session *s)
{
    hf__rung rung = s->rung;

    s->rung.count = 0;
    pthread_mutex_unlock(&s->mu);
    hf__bell_hear(&rung);
}

/* The mutex is released meanwhile, and what was started may have landed: the
 * session lives on only for who is counted in `calls` or `flights`. */
static void start_outbox(hf__session *s)
{
    hf__node *node;

    while ((node = hf__list_first(&s->outbox)) != NULL) {
        hf__list_remove(node);
        unlock_and_hear(s);
        start_flight(HF_CONTAINER(node, hf__flight, job.node));
        pthread_mutex_lock(&s->mu);
    }
}

void hf__session_unlock(hf__session *s)
{
    start_outbox(s);
    unlock_and_hear(s);
}

void hf__session_leave(hf__session *s)
{
    start_outbox(s); /* while we are counted: hf_close waits for us */
    if (atomic_fetch_sub(&s->calls, 1) == 1 && s->closing)
        hf__bell_ring(&s->rung, &s->calm);
    unlock_and_hear(s);
    hf__api_leave(0);
}

void hf__session_sleep(hf__session *s, hf__bell *bell, hf_nsec due)
{
    unsigned count = hf__bell_begin(bell);
    bool busy = !hf__list_empty(&s->outbox);

    hf__session_unlock(s);
    if (!busy && (due == HF_NEVER || due > hfd_now()))
        hf__bell_sleep(bell, count, due);
    hf__session_lock(s);
    hf__bell_end(bell);
}

void hf__op_init(hf__session *s, hf_op *op, hf_op_kind kind)
{
    /* Not the error's text: half of the struct, and only a failure reads it. */
    memset(op, 0, offsetof(hf_op, error));
    memset((char *)op + offsetof(hf_op, error) + sizeof op->error, 0,
           sizeof *op - offsetof(hf_op, error) - sizeof op->error);
    op->error.code = op->error.native = 0;
    op->error.driver[0] = op->error.text[0] = '\0';
    op->kind = kind;
    op->sid = s->sid;
    op->ttl = s->lease.ttl;
    op->deadline = hfd_now() + s->lease.attempt;
}

static void note_done(hf_op *op)
{
    op->core = op; /* only the thread that started it looks */
}

void hf__op_run(hf__session *s, hf_op *op)
{
    op->done = note_done;
    op->core = NULL;
    op->driven = true; /* a flight's is not: nobody of ours drives it */
    hf__session_unlock(s);
    s->driver->start(s->store, op);
    if (!(s->caps & HF_CAP_BLOCKING))
        s->driver->drive(s->store, op);
    hf__session_lock(s);
}

void hf__flight_free(hf__flight *flight)
{
    hf__batch_done(&flight->batch);
    if (flight->entry)
        hf__entry_unref(flight->entry);
    hfd_free(flight);
}

static void flight_done(hf_op *op)
{
    hf__flight *flight = HF_CONTAINER(op, hf__flight, op);
    hf__session *s = flight->s;

    hf__session_lock(s);
    flight->landed(flight);
    hf__flight_free(flight);
    start_outbox(s); /* before this one is no more counted */
    s->flights--;
    if (s->closing)
        hf__bell_ring(&s->rung, &s->calm);
    unlock_and_hear(s);
}

hf__flight *hf__flight_new(hf__session *s, hf_op_kind kind, hf__entry *entry,
                           void (*landed)(hf__flight *flight))
{
    hf__flight *flight = hfd_alloc(sizeof *flight);

    if (!flight)
        return NULL;
    hf__op_init(s, &flight->op, kind);
    flight->s = s;
    flight->gen = s->gen;
    flight->landed = landed;
    flight->entry = entry;
    if (entry)
        hf__entry_ref(entry);
    return flight;
}

void hf__flight_submit(hf__flight *flight)
{
    flight->op.done = flight_done;
    flight->s->flights++;
    hf__list_append(&flight->s->outbox, &flight->job.node);
}

void hf__session_wake_keeper(hf__session *s, hf_nsec due)
{
    uint64_t one = 1;

    if (due >= s->keeper_due || !s->keeper_runs)
        return;
    s->keeper_due = due; /* once is enough */
    if (write(s->wake_fd, &one, sizeof one) < 0 && errno != EAGAIN)
        hfd_log(HF_LOG_ERROR, "the keeper cannot be woken: %s",
                strerror(errno));
}

/* ---- attach ---- */

static void fail_waiting(hf__session *s, int code, const hf_error *why)
{
    HF_LIST_EACH(node, &s->reqs) {
        hf__req *req = HF_CONTAINER(node, hf__req, all);

        if (req->kind == HF_OP_JOIN && req->state == HF_REQ_LINE &&
            (hf_error_class(code) != HF_CLASS_RETRY ||
             hfd_now() >= req->give_up))
            hf__req_finish(req, code, why);
    }
}

/* Is anybody there to do it on his own thread?  All are woken: the first of
 * them may be about to give up. */
static bool wake_waiting(hf__session *s)
{
    bool any = false;

    HF_LIST_EACH(node, &s->reqs) {
        hf__req *req = HF_CONTAINER(node, hf__req, all);

        if (req->bell && req->state == HF_REQ_LINE) {
            hf__bell_ring(&s->rung, req->bell);
            any = true;
        }
    }
    return any;
}

static void attach_landed(hf__session *s, const hf_op *op)
{
    hf__session_clock(s, op);
    if (op->outcome == HF_APPLIED && op->error.code == 0) {
        s->attach = HF_ATTACH_DONE;
        s->attach_failures = 0;
        s->attach_retry_at = 0;
        s->gen++;
        s->sid = op->sid;
        hf__lease_began(&s->lease, op->sent, op->remaining);
        s->audit_at = HF_NEVER; /* a new session has nothing there */
        s->told = HF_HELD;
        hf__session_wake_keeper(s, s->lease.next_renew);
        hf__line_pump_all(s);
    } else {
        hf_nsec pause = HF_MS(50)
                        << (s->attach_failures < 3 ? s->attach_failures : 3);
        int code = op->error.code;

        /* No answer, or one about an earlier session: again, under a new
         * sid. */
        if (op->outcome == HF_UNKNOWN || code == 0 ||
            hf_error_class(code) == HF_CLASS_LOST)
            code = HF_EUNAVAIL;
        s->attach = HF_ATTACH_NONE;
        s->attach_failures++;
        s->attach_retry_at =
            hfd_now() + (hf_nsec)hf__random_below((uint64_t)pause) + 1;
        fail_waiting(s, code, &op->error);
        hf__session_wake_keeper(s, s->attach_retry_at);
    }
    wake_waiting(s);
}

static void attach_flight_landed(hf__flight *flight)
{
    attach_landed(flight->s, &flight->op);
}

static void init_attach(hf__session *s, hf_op *op)
{
    hf__op_init(s, op, HF_OP_ATTACH);
    hfd_random(&op->sid, sizeof op->sid);
    op->text = s->name;
    op->text_len = strlen(s->name);
}

void hf__session_want(hf__session *s, bool here)
{
    hf_op op;

    if (s->attach != HF_ATTACH_NONE || s->closing ||
        hfd_now() < s->attach_retry_at)
        return;
    if (here) {
        s->attach = HF_ATTACH_RUNNING;
        init_attach(s, &op);
        hf__op_run(s, &op);
        attach_landed(s, &op);
    } else {
        hf__flight *flight;

        if (wake_waiting(s))
            return;
        flight = hf__flight_new(s, HF_OP_ATTACH, NULL, attach_flight_landed);
        if (!flight) {
            /* Later, and not here: others are in the middle of something. */
            s->attach_retry_at = hfd_now() + HF_MS(50);
            hf__session_wake_keeper(s, s->attach_retry_at);
            return;
        }
        s->attach = HF_ATTACH_RUNNING;
        init_attach(s, &flight->op);
        hf__flight_submit(flight);
    }
}

/* ---- the lease of the session ---- */

/* A store whose clock was set forward ends every lease that much earlier.  What
 * this answer, or a later question, brought is counted from after the step. */
static void shorten_holds(hf__session *s, const hf_op *op, hf_nsec by,
                          hf_nsec now)
{
    HF_LIST_EACH(node, &s->entries) {
        hf__entry *entry = HF_CONTAINER(node, hf__entry, of_session);

        if (entry->state != HF_ENTRY_GRANTED || entry->told == HF_LOST)
            continue;
        if (entry->own_deadline != HF_NEVER && entry->sure_at < op->sent) {
            entry->own_deadline -= by;
            if (entry->own_deadline < now)
                entry->own_deadline = now;
        }
        hf__entry_arm(entry);
    }
}

void hf__session_clock(hf__session *s, const hf_op *op)
{
    hf_nsec now, jump;

    if (!(s->caps & HF_CAP_CLOCK) || op->outcome != HF_APPLIED)
        return;
    now = hfd_now();
    jump = hf__lease_store_clock(&s->lease, op->sent, now, op->store_us);
    if (jump == 0)
        return;
    hfd_log(HF_LOG_WARN, "the store's clock was set %s by %lld ms",
            jump > 0 ? "forward" : "back",
            (long long)((jump > 0 ? jump : -jump) / 1000000));
    if (jump > 0) {
        shorten_holds(s, op, jump, now);
        hf__session_wake_keeper(s, 0);
    }
}

static void nothing_landed(hf__flight *flight)
{
    (void)flight;
}

/* Tell every hold that lives with the session. */
static void tell_holds(hf__session *s, hf_state state, int reason)
{
    HF_LIST_EACH(node, &s->entries) {
        hf__entry *entry = HF_CONTAINER(node, hf__entry, of_session);

        if (entry->state == HF_ENTRY_GRANTED && entry->place.lease == 0 &&
            entry->gen == s->gen)
            hf__entry_tell(entry, state, reason);
    }
    s->told = state;
}

/* Whose turn had come, and whose thread has not run since: back in line, or it
 * would join the session that is over, under a count that no session ever has,
 * and wait there for ever.  All in line wait for a new one from now on. */
static void recall_turns(hf__session *s)
{
    HF_LIST_EACH(node, &s->reqs) {
        hf__req *req = HF_CONTAINER(node, hf__req, all);

        if (req->state == HF_REQ_DUE)
            hf__req_back_in_line(req);
        if (req->state == HF_REQ_LINE)
            hf__req_patience(req);
    }
}

void hf__session_lost(hf__session *s, int reason)
{
    hf__flight *flight;
    uint64_t gen = s->gen;

    if (s->attach != HF_ATTACH_DONE)
        return;
    hf__lease_lost(&s->lease, reason);
    s->attach = HF_ATTACH_NONE;
    s->told = HF_LOST;
    recall_turns(s);
    /* The store may keep it a little longer; others need not wait for that. */
    flight = hf__flight_new(s, HF_OP_DETACH, NULL, nothing_landed);
    if (flight)
        hf__flight_submit(flight);
    s->gen++;
    HF_LIST_EACH(node, &s->entries) {
        hf__entry *entry = HF_CONTAINER(node, hf__entry, of_session);

        if (entry->gen != gen ||
            (entry->place.lease && entry->state >= HF_ENTRY_GRANTED))
            continue;
        hf__entry_ref(entry);
        if (entry->state == HF_ENTRY_GRANTED) {
            hf__entry_lost(entry, reason);
            s->holds--;
            hf__entry_gone(entry);
        } else if (entry->state == HF_ENTRY_LEAVING) {
            hf__entry_gone(entry);
        } else if (entry->state == HF_ENTRY_WAITING && entry->req &&
                   entry->req->state != HF_REQ_CONFIRMING) {
            hf__req_requeue(entry->req);
        }
        hf__entry_unref(entry);
    }
    hf__line_pump_all(s);
}

bool hf__session_judge(hf__session *s, hf_nsec now)
{
    hf_state state;

    if (s->attach != HF_ATTACH_DONE)
        return false;
    state = hf__lease_state(&s->lease, now);
    if (state == HF_LOST) {
        /* lease_lost has been called with the reason it keeps */
        hf__session_lost(s, s->lease.reason);
        return false;
    }
    if (state != s->told)
        tell_holds(s, state, s->lease.reason);
    return true;
}

static void rearm_holds(hf__session *s)
{
    HF_LIST_EACH(node, &s->entries) {
        hf__entry *entry = HF_CONTAINER(node, hf__entry, of_session);

        if (entry->fd >= 0)
            hf__entry_arm(entry);
    }
}

void hf__session_renewed(hf__session *s, hf_op *op, uint64_t gen)
{
    hf_nsec now = hfd_now();

    s->stats.renewals++;
    if (gen != s->gen && !HF_MUTANT(RENEW_AFTER_LOSS))
        return;
    if (op->outcome == HF_APPLIED && op->error.code == 0) {
        hf__session_judge(s, now); /* was it lost before the answer came? */
        if (gen != s->gen)
            return;
        /* First what a step took away, then what the answer gives. */
        hf__session_clock(s, op);
        hf__lease_renewed(&s->lease, op->sent, op->remaining);
        rearm_holds(s);
    } else if (op->outcome == HF_APPLIED &&
               hf_error_class(op->error.code) == HF_CLASS_LOST) {
        hf__session_lost(s, op->error.code);
        return;
    } else {
        hf__lease_doubt(&s->lease, now,
                        op->error.code ? op->error.code : HF_EUNAVAIL);
        hfd_log(HF_LOG_WARN, "renewal failed: %s", op->error.text);
    }
    hf__session_judge(s, hfd_now());
    hf__session_wake_keeper(s, s->lease.next_renew);
}
