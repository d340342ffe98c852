/* block.c - the blocking form: the caller's own thread does the work.
 *
 * It attaches, joins, confirms and looks by itself, so that an uncontended
 * lock never changes threads, and sleeps in the driver where the driver can
 * (park), else on its own bell.  What it gives up it leaves before it
 * returns: a caller that timed out finds no trace of itself in the queue. */
#include <string.h>

#include "core/internal.h"

static void join_here(hf__req *req)
{
    hf_place copy;
    hf_op op;

    if (hf__join_prepare(req, &op, &copy)) {
        hf__op_run(req->s, &op);
        hf__join_landed(req, &op);
    }
}

static void confirm_here(hf__req *req)
{
    hf_place copy;
    hf_op op;

    hf__confirm_prepare(req, &op, &copy);
    hf__op_run(req->s, &op);
    hf__confirm_landed(req, &op);
}

/* by_clock: nobody told anything. */
static void recheck_here(hf__req *req, bool by_clock)
{
    hf__session *s = req->s;
    hf__entry *entry = req->entry;
    hf_place copy = entry->place, *places[1] = {&copy};
    hf_op op;

    hf__op_init(s, &op, HF_OP_RECHECK);
    op.places = places;
    op.place_count = 1;
    op.by_clock = by_clock;
    s->stats.rechecks++;
    hf__entry_ref(entry);
    hf__op_run(s, &op);
    hf__session_clock(s, &op);
    if (op.outcome != HF_APPLIED || op.error.code)
        hfd_free(copy.seats);
    else
        hf__judge_seats(&copy);
    if (entry->state == HF_ENTRY_WAITING && op.outcome == HF_APPLIED) {
        memcpy(entry->place.own, copy.own, sizeof copy.own);
        if (op.error.code == HF_EEXPIRED && entry->gen == s->gen)
            hf__session_lost(s, HF_EEXPIRED);
        else if (op.error.code == 0)
            hf__req_verdict(entry, &copy, op.sent);
    }
    hf__entry_unref(entry);
}

static void park_here(hf__req *req)
{
    hf__session *s = req->s;
    hf__entry *entry = req->entry;
    hf_place copy = entry->place;
    hf_nsec look = copy.look_in > 0 && copy.look_in < HF_MS(4900)
                       ? copy.look_in + HF_MS(100)
                       : HF_MS(5000);
    hf_nsec until = hfd_now() + look;

    if (entry->pushed && !HF_MUTANT(WAKE_DROPPED)) {
        entry->pushed = false; /* it came before we could sleep on it */
        recheck_here(req, false);
        return;
    }
    if (until > req->deadline)
        until = req->deadline;
    req->parked = true;
    hf__entry_ref(entry); /* the copy points to its key */
    hf__session_unlock(s);
    s->driver->park(s->store, &copy, until);
    hf__session_lock(s);
    hf__entry_unref(entry);
    req->parked = false;
    if (req->state == HF_REQ_WAITING && hfd_now() >= req->deadline)
        hf__req_stop(req, HF_ETIMEDOUT);
    else if (req->state == HF_REQ_WAITING)
        recheck_here(req, hfd_now() >= until);
}

static void sleep_here(hf__req *req)
{
    hf_nsec due = req->retry_at && req->retry_at < req->deadline
                      ? req->retry_at
                      : req->deadline;
    hf_nsec now;

    hf__session_sleep(req->s, req->bell, due);
    now = hfd_now();
    if (now >= req->deadline) {
        hf__req_stop(req, HF_ETIMEDOUT);
    } else if (req->retry_at && now >= req->retry_at) {
        req->retry_at = 0;
        if (req->state == HF_REQ_LINE)
            hf__line_pump(req->s, req->key);
    }
}

/* Before anything else: while it stands in the queue we wait for ourselves. */
static void leave_here(hf__req *req)
{
    hf__entry *entry = req->to_leave;

    req->to_leave = NULL;
    hf__leave_here(entry, hfd_now() + req->s->lease.attempt, false);
    hf__entry_unref(entry);
}

void hf__req_wait(hf__req *req)
{
    hf__session *s = req->s;

    while (req->state != HF_REQ_DONE || req->to_leave) {
        if (req->to_leave)
            leave_here(req);
        else if (req->state == HF_REQ_LINE && s->attach == HF_ATTACH_NONE &&
                 s->attach_retry_at <= hfd_now())
            hf__session_want(s, true);
        else if (req->state == HF_REQ_DUE)
            join_here(req);
        else if (req->state == HF_REQ_CONFIRM)
            confirm_here(req);
        else if (req->state == HF_REQ_WAITING && s->driver->park)
            park_here(req);
        else
            sleep_here(req);
    }
}
