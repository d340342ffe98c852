/* acquire.c - one request for a lock, from the line to the hold.
 *
 *      LINE --turn--> DUE --sent--> JOINING --.--waits--> WAITING --.
 *       ^                                     |                     |
 *       '--- no answer, or session lost ------+---------------------+
 *                                             v                     v
 *                         (fixed lease: CONFIRM, CONFIRMING)      granted
 *
 * The same steps serve a blocking caller and an event loop: a step that needs
 * the store is run by the caller's own thread, or flies by itself.
 *
 * Reply lost: the join is repeated with the same rid, so it finds its own
 * place.  Given up: the place is left until the store has answered (leave.c).
 * Paused here for a minute: a grant is taken only while the session's lease,
 * read from the clock at that instant, is good; a push is believed only for an
 * entry that waits in this very session; a fixed lease that was granted by a
 * push starts with a request of our own (confirm), never with the push. */
#include <string.h>

#include "base/clock.h"
#include "core/internal.h"

/* The store did not answer, or could not do it. */
static void join_failed(hf__req *req, const hf_op *op)
{
    hf__session *s = req->s;
    hf__entry *entry = req->entry;
    hf_nsec now = hfd_now();
    int code = op->error.code;
    bool retry =
        op->outcome == HF_UNKNOWN || hf_error_class(code) == HF_CLASS_RETRY;

    /* A quarantine lasts as long as the longest lease: that is an answer to
     * one who does not wait. */
    if (code == HF_EQUARANTINE && req->want.try_only &&
        op->outcome == HF_NOT_APPLIED)
        retry = false;

    if (HF_MUTANT(UNKNOWN_IS_FAILURE) && op->outcome == HF_UNKNOWN) {
        hf__entry_gone(entry);
        hf__req_finish(req, HF_EUNAVAIL, &op->error);
        return;
    }
    if (op->outcome == HF_UNKNOWN)
        entry->stray = true;
    if (retry && !req->stop && now < req->give_up && now < req->deadline) {
        hf_nsec pause = HF_MS(50) << (req->failures < 3 ? req->failures : 3);

        req->failures++;
        req->retry_at = now + (hf_nsec)hf__random_below((uint64_t)pause) + 1;
        hf__req_back_in_line(req);
        hf__heap_set(&s->timers, &req->timer,
                     req->retry_at < req->deadline ? req->retry_at
                                                   : req->deadline);
        hf__session_wake_keeper(s, req->retry_at);
        if (HF_MUTANT(RETRY_NEW_RID)) {
            req->entry = NULL;
            hf__entry_gone(entry);
            hf__entry_unref(entry);
        }
        return;
    }
    if (req->stop)
        code = req->stop;
    else if (code == 0 || op->outcome == HF_UNKNOWN)
        code = HF_EUNAVAIL;
    hf__req_finish(req, code, &op->error);
}

/* Never hand out what is over, by its own end or by the session's. */
static bool is_dying(hf__entry *entry, hf_nsec now)
{
    bool over = entry->own_deadline != HF_NEVER && now >= hf__entry_end(entry);

    if (entry->place.lease > 0 || HF_MUTANT(PUSH_BELIEVED_ALWAYS))
        return over;
    return !hf__session_judge(entry->s, now) || over;
}

/* The store says that the entry is granted; `sent` is when we asked. */
static void grant(hf__req *req, hf_nsec sent)
{
    hf__session *s = req->s;
    hf__entry *entry = req->entry;
    hf_nsec now = hfd_now();
    bool fixed = entry->place.lease > 0;

    if (req->stop) {
        hf__req_finish(req, req->stop, NULL);
        return;
    }
    hf__lease_look_at_clocks(&s->lease);
    if (fixed && !HF_MUTANT(FIXED_FROM_PUSH) &&
        (entry->place.remaining == 0 || s->lease.jump_at > sent)) {
        req->state = HF_REQ_CONFIRM;
        req->failures = 0;
        hf__req_advance(req);
        return;
    }
    if (fixed) {
        hf_nsec left = entry->place.remaining ? entry->place.remaining
                                              : entry->place.lease;

        if (HF_MUTANT(CONFIRM_FROM_REPLY))
            sent = now;
        hf__entry_extend(entry, sent, left);
    } else if (hf__entry_each(entry)) {
        hf__entry_extend(entry, sent, entry->place.remaining);
    }
    if (req->want.at_most)
        entry->cap = hf__add_ns(sent, req->want.at_most);
    if (is_dying(entry, now)) {
        /* Dying already.  The session's own end has put us back in line. */
        if (req->entry == entry && entry->state != HF_ENTRY_GONE)
            hf__req_rejoin(req);
        return;
    }
    entry->token = s->caps & HF_CAP_TOKEN ? entry->place.token : 0;
    entry->spare =
        s->caps & HF_CAP_RUN && entry->place.run ? entry->place.run - 1 : 0;
    entry->run_since = now;
    hf__req_granted(req, entry, now);
}

/* Where the store has no marks the core's rule decides. */
void hf__judge_seats(hf_place *place)
{
    size_t whom;

    if (place->verdict == HF_JUDGE) {
        place->verdict = place->seats && place->seat_count
                             ? hfd_admit(place->seats, place->seat_count,
                                         place->seat_count - 1, &whom)
                             : HF_GONE;
        place->token = place->num;
        hfd_free(place->seats);
        place->seats = NULL;
        place->seat_count = 0;
    }
}

void hf__look_at(hf__entry *entry, hf_nsec at)
{
    hf__session *s = entry->s;

    /* A look that was asked for while another is under way stays asked for:
     * that one may have been answered before the change. */
    if (at < entry->look_at) {
        entry->look_at = at;
        entry->look_timed = false;
    }
    if (at < s->recheck_at) {
        s->recheck_at = at;
        hf__session_wake_keeper(s, at);
    }
}

static void look_later(hf__entry *entry, hf_nsec now)
{
    hf_nsec in = entry->place.look_in;

    in = in > 0 && in < HF_MS(4900) ? in + HF_MS(100) : HF_MS(5000);
    in += (hf_nsec)hf__random_below((uint64_t)in / 16 + 1);
    if (now + in < entry->look_at) {
        hf__look_at(entry, now + in);
        entry->look_timed = true;
    }
}

void hf__req_verdict(hf__entry *entry, const hf_place *fresh, hf_nsec sent)
{
    hf__session *s = entry->s;
    hf__req *req = entry->req;
    hf_nsec now = hfd_now();

    if (!req || req->state != HF_REQ_WAITING ||
        (entry->gen != s->gen && !HF_MUTANT(PUSH_BELIEVED_ALWAYS)))
        return;
    switch (fresh->verdict) {
    case HF_GRANTED:
        entry->place.token = fresh->token;
        entry->place.run = fresh->run;
        entry->place.remaining = sent ? fresh->remaining : 0;
        grant(req, sent ? sent : now);
        break;
    case HF_GONE:
        if (fresh->reason == HF_EEXPIRED && entry->place.lease == 0 &&
            !hf__entry_each(entry) && entry->gen == s->gen) {
            hf__session_lost(s, HF_EEXPIRED);
            break;
        }
        if (fresh->reason == HF_EFORCED) {
            /* Broken before it was ours; the store may still have it. */
            hf__req_finish(req, HF_EFORCED, NULL);
            break;
        }
        if (!entry->stray)
            hf__entry_gone(entry);
        hf__req_rejoin(req);
        break;
    default:
        entry->place.look_in = fresh->look_in;
        look_later(entry, now);
    }
}

static void join_applied(hf__req *req, hf_op *op)
{
    hf__session *s = req->s;
    hf__entry *entry = req->entry;

    if (op->error.code == HF_EEXPIRED) {
        hf__session_lost(s, HF_EEXPIRED);
        hf__req_rejoin(req);
        return;
    }
    entry->place = *op->place;
    if (op->error.code) {
        hf__req_finish(req, req->stop ? req->stop : op->error.code, &op->error);
        return;
    }
    hf__judge_seats(&entry->place);
    req->key->joining = NULL;
    req->state = HF_REQ_WAITING;
    entry->state = HF_ENTRY_WAITING;
    if (entry->place.verdict == HF_GRANTED) {
        grant(req, op->sent);
    } else if (entry->place.verdict == HF_GONE) {
        hf__req_verdict(entry, &entry->place, op->sent);
    } else if (req->stop) {
        hf__req_stop(req, req->stop);
    } else {
        hf__key *key = req->key;
        hf_place early = {.verdict = HF_GRANTED,
                          .token = entry->early_token,
                          .run = entry->early_run};

        if (early.token && !HF_MUTANT(WAKE_DROPPED)) {
            hf__req_verdict(entry, &early, 0);
        } else {
            look_later(entry, hfd_now());
            if (entry->pushed && !HF_MUTANT(WAKE_DROPPED))
                hf__look_at(entry, 0);
        }
        hf__line_pump(s, key);
    }
}

/* The session ended while it was under way.  What the store has of it went
 * with the session, but for a fixed lease: that is to be left. */
static void join_outlived(hf__req *req, hf_op *op)
{
    hf__entry *entry = req->entry;

    hfd_free(op->place->seats);
    op->place->seats = NULL;
    op->place->seat_count = 0;
    if (op->outcome == HF_UNKNOWN) {
        entry->stray = true;
    } else if (op->outcome == HF_APPLIED && op->error.code == 0) {
        entry->place = *op->place;
        entry->state = HF_ENTRY_WAITING;
    }
    hf__req_rejoin(req);
}

void hf__join_landed(hf__req *req, hf_op *op)
{
    hf__session *s = req->s;
    hf__entry *entry = req->entry;

    if (entry->gen != s->gen) {
        join_outlived(req, op);
        return;
    }
    hf__session_clock(s, op);
    if (op->outcome == HF_APPLIED)
        join_applied(req, op);
    else
        join_failed(req, op);
}

/* Fill the join of req into op; false: no memory, and req is finished. */
bool hf__join_prepare(hf__req *req, hf_op *op, hf_place *copy)
{
    hf__session *s = req->s;

    if (req->entry && req->entry->gen != s->gen)
        hf__req_drop_entry(req); /* of a session that is no more */
    if (!req->entry) {
        req->entry = hf__entry_new(s, req->key, req);
        if (!req->entry) {
            hf__req_finish(req, HF_ENOMEM, NULL);
            return false;
        }
        hf__entry_ref(req->entry);
        req->entry->req = req;
        if (req->want.mode == HF_EXCLUSIVE)
            req->key->exclusive = req->entry;
        if (!req->bell)
            req->entry->place.own[1] |= HF_PLACE_PUSH;
    }
    req->state = HF_REQ_JOINING;
    req->entry->pushed = false;
    req->entry->early_token = 0;
    *copy = req->entry->place;
    hf__op_init(s, op, HF_OP_JOIN);
    op->place = copy;
    op->only_if_granted = req->want.try_only;
    op->value = req->want.value;
    op->value_len = req->want.value_len;
    s->stats.joins++;
    return true;
}

void hf__confirm_landed(hf__req *req, const hf_op *op)
{
    hf__entry *entry = req->entry;

    req->state = HF_REQ_WAITING;
    hf__session_clock(req->s, op);
    if (entry->gen != req->s->gen) {
        hf__req_rejoin(req);
    } else if (op->outcome == HF_APPLIED && op->error.code == 0) {
        if (op->place->verdict == HF_GRANTED) {
            entry->place.remaining = op->place->remaining;
            grant(req, op->sent);
        } else {
            entry->place.reason = op->place->reason;
            entry->place.verdict = HF_GONE;
            hf__req_verdict(entry, &entry->place, op->sent);
        }
    } else if (req->stop || req->failures++ == 3) {
        hf__req_stop(req, req->stop ? req->stop : HF_EUNAVAIL);
    } else {
        req->state = HF_REQ_CONFIRM;
        hf__req_advance(req);
    }
}

void hf__confirm_prepare(hf__req *req, hf_op *op, hf_place *copy)
{
    req->state = HF_REQ_CONFIRMING;
    *copy = req->entry->place;
    hf__op_init(req->s, op, HF_OP_CONFIRM);
    op->place = copy;
}

static void join_flight_landed(hf__flight *flight)
{
    hf__join_landed(flight->req, &flight->op);
}

static void confirm_flight_landed(hf__flight *flight)
{
    hf__confirm_landed(flight->req, &flight->op);
}

void hf__req_advance(hf__req *req)
{
    hf__session *s = req->s;
    hf__flight *flight;

    if (req->bell) {
        hf__req_wake(req);
        return;
    }
    flight = hf__flight_new(s, HF_OP_JOIN, NULL,
                            req->state == HF_REQ_DUE ? join_flight_landed
                                                     : confirm_flight_landed);
    if (!flight) {
        hf__req_stop(req, HF_ENOMEM);
        return;
    }
    if (req->state == HF_REQ_DUE) {
        if (!hf__join_prepare(req, &flight->op, &flight->place)) {
            hfd_free(flight);
            return;
        }
    } else {
        hf__confirm_prepare(req, &flight->op, &flight->place);
    }
    flight->req = req;
    flight->entry = req->entry;
    hf__entry_ref(flight->entry);
    hf__flight_submit(flight);
}

/* ---- looks for all who are not parked ---- */

void hf__recheck_landed(hf__flight *flight)
{
    hf__session *s = flight->s;
    bool good = flight->op.outcome == HF_APPLIED && flight->op.error.code == 0;

    s->rechecking = false;
    hf__session_clock(s, &flight->op);
    if (flight->gen == s->gen && flight->op.outcome == HF_APPLIED &&
        flight->op.error.code == HF_EEXPIRED)
        hf__session_lost(s, HF_EEXPIRED);
    for (size_t i = 0; i < flight->batch.count; i++) {
        hf_place *copy = &flight->batch.copies[i];
        hf__entry *entry = flight->batch.entries[i];

        if (!good || entry->state != HF_ENTRY_WAITING) {
            hfd_free(copy->seats);
            if (!HF_MUTANT(LOOK_NOT_REPEATED))
                hf__look_at(entry, hfd_now() + HF_MS(200));
            continue;
        }
        hf__judge_seats(copy);
        memcpy(entry->place.own, copy->own, sizeof copy->own);
        hf__req_verdict(entry, copy, flight->op.sent);
    }
    hf__session_wake_keeper(s, s->recheck_at);
}
