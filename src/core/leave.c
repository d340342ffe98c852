/* leave.c - giving places back, until the store has answered (the resolver).
 *
 * Whatever ends a place of ours - release, cancel, timeout, a cap - comes
 * here.  The store's answer may be missing: then the leave is repeated, with
 * back-off, until it is answered or the session is over, and until then the
 * key stays busy for this process.  So an abandoned join never stays in a
 * queue as a ghost that others wait for.  A join whose own answer is missing
 * is left with `tomb`: its bytes may still arrive after the leave. */
#include "base/clock.h"
#include "core/internal.h"

static bool is_dead(const hf__entry *entry)
{
    return entry->place.lease == 0 && entry->gen != entry->s->gen;
}

static void prepare_leave(hf__entry *entry, hf_op *op, hf_place *copy)
{
    hf__leave_begin(entry);
    *copy = entry->place;
    hf__op_init(entry->s, op, HF_OP_LEAVE);
    op->place = copy;
    op->tomb = entry->stray && !HF_MUTANT(TOMB_FORGOTTEN);
    if (entry->at_least && entry->granted_at && entry->told != HF_LOST) {
        hf_nsec end = hf__add_ns(entry->granted_at, entry->at_least);

        op->keep = end > hfd_now() ? end - hfd_now() : 0;
    }
    entry->leave_tries++;
    entry->s->stats.leaves++;
}

/* The store's answer; true: settled, *ret_code is what hf_release says. */
static bool judge_answer(hf__entry *entry, const hf_op *op, int *ret_code)
{
    *ret_code = HF_EUNKNOWN;
    if (entry->state == HF_ENTRY_GONE)
        return true; /* the session ended meanwhile */
    if (op->outcome != HF_APPLIED)
        return false;
    if (op->error.code) {
        if (hf_error_class(op->error.code) != HF_CLASS_LOST)
            return false; /* refused: it is still there */
        *ret_code = op->error.code;
    } else if (op->place->verdict == HF_GONE) {
        /* Gone after an attempt without an answer: that one did it, unless
         * the store says another reason. */
        if (op->place->reason == HF_ENOTHELD && entry->leave_tries > 1)
            *ret_code = 0;
        else
            *ret_code = op->place->reason == HF_ENOTHELD ? HF_EEXPIRED
                                                         : op->place->reason;
    } else {
        *ret_code = 0;
    }
    return true;
}

static void end_leave(hf__entry *entry)
{
    hf__session *s = entry->s;
    hf__key *key = entry->key;

    key->refs++;
    hf__entry_gone(entry);
    hf__line_pump(s, key);
    hf__key_put(s, key);
}

static void try_again(hf__entry *entry)
{
    hf_nsec pause = HF_MS(50)
                    << (entry->leave_tries < 4 ? entry->leave_tries : 4);
    hf_nsec at = hfd_now() + (hf_nsec)hf__random_below((uint64_t)pause) + 1;

    hf__heap_set(&entry->s->timers, &entry->timer, at);
    hf__session_wake_keeper(entry->s, at);
}

static void flight_landed(hf__flight *flight)
{
    hf__entry *entry = flight->entry;
    int code;

    if (judge_answer(entry, &flight->op, &code)) {
        if (entry->state != HF_ENTRY_GONE)
            end_leave(entry);
        if (flight->req)
            hf__req_finish(flight->req, code,
                           code == HF_EUNKNOWN ? &flight->op.error : NULL);
        return;
    }
    if (flight->req)
        hf__req_finish(flight->req, HF_EUNKNOWN, &flight->op.error);
    if (is_dead(entry))
        end_leave(entry);
    else
        try_again(entry);
}

static void send_leave(hf__entry *entry, hf__req *req)
{
    hf__session *s = entry->s;
    hf__flight *flight;

    if (HF_MUTANT(RESOLVER_OFF) && !req && entry->granted_at == 0) {
        end_leave(entry);
        return;
    }
    flight = hf__flight_new(s, HF_OP_LEAVE, entry, flight_landed);
    if (!flight) {
        if (req)
            hf__req_finish(req, HF_EUNKNOWN, NULL);
        try_again(entry);
        return;
    }
    prepare_leave(entry, &flight->op, &flight->place);
    flight->req = req;
    hf__flight_submit(flight);
}

void hf__leave_begin(hf__entry *entry)
{
    if (entry->state == HF_ENTRY_GRANTED)
        entry->s->holds--;
    entry->state = HF_ENTRY_LEAVING;
    hf__heap_remove(&entry->s->timers, &entry->timer);
}

void hf__leave_for(hf__entry *entry, hf__req *req)
{
    if (entry->state == HF_ENTRY_GONE) {
        if (req)
            hf__req_finish(req, entry->reason, NULL);
        return;
    }
    hf__leave_begin(entry);
    if (is_dead(entry)) {
        end_leave(entry);
        if (req)
            hf__req_finish(req, HF_EEXPIRED, NULL);
    } else {
        send_leave(entry, req);
    }
}

void hf__leave_later(hf__entry *entry)
{
    if (entry->state != HF_ENTRY_GONE && entry->state != HF_ENTRY_LEAVING)
        hf__leave_for(entry, NULL);
}

/* A driver may have several connections that a restart has broken and that
 * nobody has used since: each costs a try, and no time. */
enum { TRIES = 4, PAUSE_MS = 5, PAUSE_MAX_MS = 80 };

/* A driver that has just failed to connect refuses at once for a while. */
static void pause_here(hf__session *s, int tries, hf_nsec until)
{
    hf_nsec span = HF_MS(PAUSE_MS) << (tries < 8 ? tries : 8);
    hf_nsec due =
        hfd_now() + (span < HF_MS(PAUSE_MAX_MS) ? span : HF_MS(PAUSE_MAX_MS));
    hf__bell nobody_rings = {0};

    hf__session_sleep(s, &nobody_rings, due < until ? due : until);
}

int hf__leave_here(hf__entry *entry, hf_nsec until, bool patient)
{
    hf__session *s = entry->s;
    int code = HF_EUNKNOWN;

    for (int tries = 0; patient || tries < TRIES; tries++) {
        hf_place copy;
        hf_op op;

        if (entry->state == HF_ENTRY_GONE)
            return entry->told == HF_LOST ? entry->reason : HF_EUNKNOWN;
        if (is_dead(entry)) {
            hf__leave_begin(entry);
            end_leave(entry);
            return HF_EEXPIRED;
        }
        prepare_leave(entry, &op, &copy);
        if (op.deadline > until)
            op.deadline = until;
        hf__op_run(s, &op);
        if (judge_answer(entry, &op, &code)) {
            if (entry->state != HF_ENTRY_GONE)
                end_leave(entry);
            return code;
        }
        if (hfd_now() >= until)
            break;
        if (patient)
            pause_here(s, tries, until);
    }
    try_again(entry);
    return HF_EUNKNOWN;
}

void hf__leave_timer(hf__timer *timer, hf_nsec now)
{
    hf__entry *entry = HF_CONTAINER(timer, hf__entry, timer);

    (void)now;
    hf__entry_ref(entry);
    if (entry->state == HF_ENTRY_GRANTED && entry->told == HF_LOST) {
        hf__leave_later(entry); /* it had its time to stop */
    } else if (entry->state == HF_ENTRY_GRANTED) {
        hf__key *key = entry->key;
        hf_nsec linger = entry->s->lease.stop_margin;

        key->refs++;
        hf__entry_lost(entry, HF_EEXPIRED);
        if (entry->place.lease) {
            /* The lease was promised to its end; the store knows when. */
            entry->s->holds--;
            hf__entry_gone(entry);
        } else {
            hf_nsec span = entry->cap - entry->granted_at;

            /* Its own deadline was earlier than the cap: the margin is left. */
            if (hf__entry_each(entry) && entry->own_deadline < entry->cap)
                span = HF_NEVER;
            hf__entry_linger(entry, span / 10 < linger ? span / 10 : linger);
        }
        hf__line_pump(entry->s, key);
        hf__key_put(entry->s, key);
    } else if (entry->state == HF_ENTRY_LEAVING) {
        if (is_dead(entry))
            end_leave(entry);
        else
            send_leave(entry, NULL);
    }
    hf__entry_unref(entry);
}
