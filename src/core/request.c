/* request.c - a request's life: made, put in line, stopped, finished.
 *
 * Everything that finishing needs is made at the start (the handle, room for
 * the timer), so that a grant or a refusal cannot fail for want of memory.  A
 * request whose operation is under way is never finished under it: it is told
 * to stop, and ends when the operation has landed. */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/internal.h"

static void run_timer(hf__timer *timer, hf_nsec now)
{
    hf__req *req = HF_CONTAINER(timer, hf__req, timer);

    if (now >= req->deadline) {
        hf__req_stop(req, HF_ETIMEDOUT);
        return;
    }
    if (req->deadline != HF_NEVER)
        hf__heap_set(&req->s->timers, timer, req->deadline);
    if (req->state == HF_REQ_LINE)
        hf__line_pump(req->s, req->key);
}

int hf__req_new(hf__req **ret, hf__session *s, const hf__want *want,
                const hf__manner *manner, hf_error *err)
{
    hf__req *req = hfd_alloc(sizeof *req);

    if (!req || hf__hold_new(&req->hold) != 0 ||
        hf__heap_reserve(&s->timers, s->timer_users + 1) != 0)
        goto no_memory;
    req->want = *want;
    req->want.value = NULL;
    if (want->value_len) {
        req->want.value = hf__alloc_text(want->value, want->value_len);
        if (!req->want.value)
            goto no_memory;
    }
    if (manner->on_change && hf__crew_ready(&s->teller) != 0)
        goto no_memory;
    s->timer_users++;
    req->s = s;
    req->kind = HF_OP_JOIN;
    req->cancel_dup = -1;
    req->timer.fire = run_timer;
    req->hold->on_change = manner->on_change;
    req->hold->user = manner->user;
    hf__list_append(&s->reqs, &req->all);
    *ret = req;
    return 0;
no_memory:
    if (req && req->hold)
        hf__hold_unref(req->hold);
    if (req)
        hfd_free((void *)(uintptr_t)req->want.value);
    hfd_free(req);
    return hf__error(err, HF_ENOMEM, "out of memory");
}

void hf__req_free(hf__req *req)
{
    hf__session *s = req->s;

    hf__heap_remove(&s->timers, &req->timer);
    s->timer_users--;
    hf__list_remove(&req->all);
    hf__list_remove(&req->result.node);
    if (req->hold)
        hf__hold_unref(req->hold);
    if (req->id)
        hf__handle_drop(req->id, HF__REQUEST);
    hfd_free((void *)(uintptr_t)req->want.value);
    hfd_free(req->error);
    hfd_free(req);
}

void hf__req_wake(hf__req *req)
{
    if (req->parked && req->entry)
        req->s->driver->unpark(req->s->store, &req->entry->place);
    if (req->bell)
        hf__bell_ring(&req->s->rung, req->bell);
}

void hf__req_finish(hf__req *req, int code, const hf_error *why)
{
    hf__session *s = req->s;
    hf__key *key = req->key;

    hf__heap_remove(&s->timers, &req->timer);
    hf__keeper_unwatch(s, req);
    hf__req_wake(req);
    if (hf__list_linked(&req->line)) {
        hf__list_remove(&req->line);
        key->line_count--;
    }
    hf__req_drop_entry(req); /* stays, if it is granted */
    req->state = HF_REQ_DONE;
    req->code = code;
    if (code && why && why->text[0]) {
        req->error = hfd_alloc(sizeof *why);
        if (req->error)
            *req->error = *why;
    }
    if (req->kind == HF_OP_JOIN)
        s->waiters--;
    if (!req->bell)
        hf__req_post(req);
    if (key) {
        req->key = NULL;
        if (key->joining == req)
            key->joining = NULL;
        hf__line_pump(s, key);
        hf__key_put(s, key);
    }
}

int hf__req_error(const hf__req *req, const char *key, hf_error *err)
{
    char shown[80];

    hf__error_key(shown, sizeof shown, key, strlen(key));
    if (req->error && req->error->text[0])
        hf__error_wrap(err, req->error, "'%s'", shown);
    else
        hf__error(err, req->code, "'%s': %s", shown, hf_strerror(req->code));
    if (err)
        err->code = req->code;
    return req->code;
}

void hf__req_refuse(hf__req *req, int code, const hf_error *why)
{
    req->s->waiters++; /* finish takes it off */
    hf__req_finish(req, code, why);
}

/* Taken again by its owner.  1: it was not; else the answer. */
static int take_again(hf__req *req, hf__key *key, hf_error *err)
{
    uint64_t owner = req->want.owner;
    hf__entry *entry =
        owner == HF_OWNER_HOLD ? NULL : hf__key_owned(key, owner);
    int code;

    if (!entry || req->want.mode == HF_PERMIT)
        return 1;
    code = hf__entry_check(entry, hfd_now());
    if (code)
        return hf__lost_error(entry, code, err);
    if (entry->place.mode == HF_SHARED && req->want.mode == HF_EXCLUSIVE)
        return hf__error(err, HF_EDEADLK,
                         "this owner holds it shared and wants it alone: "
                         "release the shared hold first");
    req->s->waiters++; /* finish takes it off */
    hf__req_granted(req, entry, hfd_now());
    return 0;
}

void hf__req_granted(hf__req *req, hf__entry *entry, hf_nsec now)
{
    req->hold_id = req->hold->id;
    hf__entry_granted(entry, req->hold, req->want.owner, now);
    req->hold = NULL;
    hf__req_finish(req, 0, NULL);
}

/* What this process has in the store must be of the same kind. */
static bool is_same_kind(const hf__key *key, const hf__want *want)
{
    HF_LIST_EACH(node, &key->entries) {
        const hf__entry *entry = HF_CONTAINER(node, hf__entry, of_key);
        hf_seat seat = {.mode = entry->place.mode,
                        .places = entry->place.places};

        if (entry->state < HF_ENTRY_LEAVING && entry->told != HF_LOST)
            return hfd_same_kind(&seat, want->mode, want->places);
    }
    return true;
}

/* Somebody of this process is before us: no need to ask the store.  Who wants
 * it shared or a place of several may well be granted beside others of his
 * kind: he stands in line behind their joins, and asks. */
static bool is_busy_here(const hf__key *key, hf_mode mode)
{
    if (mode == HF_EXCLUSIVE || key->exclusive)
        return key->joining || !hf__list_empty(&key->line) || key->exclusive;
    HF_LIST_EACH(node, &key->line)
        if (HF_CONTAINER(node, hf__req, line)->want.mode == HF_EXCLUSIVE)
            return true;
    return key->joining && key->joining->want.mode == HF_EXCLUSIVE;
}

/* 1: it goes on. */
static int watch_cancel(hf__req *req, int cancel_fd, hf_error *err)
{
    int code = hf__keeper_watch(req->s, req, cancel_fd);

    if (code == HF_ENOMEM)
        return hf__error(err, code, "no descriptor left to watch cancel_fd");
    if (code != 0)
        return hf__error(err, code, "cancel_fd %d cannot be polled", cancel_fd);
    return 1;
}

/* Patience with a store that does not answer is counted from the first question
 * to it, however long the turn was in coming. */
void hf__req_patience(hf__req *req)
{
    const hf__lease *lease = &req->s->lease;

    req->give_up =
        hfd_now() + (req->want.try_only ? 2 * lease->attempt : lease->ttl);
}

int hf__req_submit(hf__req *req, const char *text, const hf__manner *manner,
                   hf_error *err)
{
    hf__session *s = req->s;
    size_t len = strlen(text);
    hf_nsec now = hfd_now();
    hf__key *key;
    int code;

    if (s->waiters >= s->max_waiters)
        return hf__error(err, HF_EFULL,
                         "%u requests wait already: see max_waiters",
                         s->max_waiters);
    if (hf__keeper_start(s) != 0)
        return hf__error(err, HF_ENOMEM,
                         "no thread or descriptor left for the "
                         "session's keeper");
    key = hf__key_get(s, text, len);
    if (!key)
        return hf__error(err, HF_ENOMEM, "out of memory");
    code = take_again(req, key, err);
    if (code == 1 && !is_same_kind(key, &req->want))
        code = hf__error(err, HF_EKIND,
                         "this process uses it as another kind of lock, or "
                         "with other places");
    if (code == 1 && req->want.try_only && is_busy_here(key, req->want.mode))
        code = hf__error(err, HF_EBUSY, "held in this process");
    if (code == 1 && hf__line_deadlock(s, key, req->want.owner))
        code = hf__error(err, HF_EDEADLK,
                         "the threads of this process would wait for each "
                         "other for ever");
    if (code == 1 && manner->cancel_fd >= 0)
        code = watch_cancel(req, manner->cancel_fd, err);
    if (code <= 0) {
        hf__key_put(s, key);
        return code;
    }
    req->key = key;
    req->deadline = hf__add_ns(now, manner->wait);
    hf__req_patience(req); /* with the attach; see hf__line_pump */
    if (req->want.try_only)
        req->deadline = HF_NEVER; /* one answer of the store decides */
    s->waiters++;
    hf__list_append(&key->line, &req->line);
    key->line_count++;
    if (req->deadline != HF_NEVER) {
        hf__heap_set(&s->timers, &req->timer, req->deadline);
        hf__session_wake_keeper(s, req->deadline);
    }
    hf__line_pump(s, key);
    return 0;
}

void hf__req_back_in_line(hf__req *req)
{
    hf__key *key = req->key;

    if (key->joining == req)
        key->joining = NULL;
    req->state = HF_REQ_LINE;
    /* In front: it was there before those who wait behind it. */
    hf__list_append(key->line.next, &req->line);
    key->line_count++;
}

/* Give up an entry that a request had: by its thread before it returns, or by
 * a flight. */
static void leave_entry(hf__req *req, hf__entry *entry)
{
    entry->req = NULL;
    if (req->bell && !req->to_leave) {
        hf__leave_begin(entry);
        hf__entry_ref(entry);
        req->to_leave = entry;
    } else {
        hf__leave_later(entry);
    }
}

void hf__req_drop_entry(hf__req *req)
{
    hf__entry *entry = req->entry;
    bool lives; /* a fixed lease outlives the session that it was joined in */

    if (!entry)
        return;
    req->entry = NULL;
    entry->req = NULL;
    lives = entry->gen == entry->s->gen || entry->place.lease > 0;
    /* An attempt without an answer may still arrive: only a leave with a tomb
     * makes sure that it finds the door shut. */
    if (lives &&
        ((entry->state == HF_ENTRY_WAITING && !HF_MUTANT(CANCEL_STAYS)) ||
         (entry->stray && entry->state == HF_ENTRY_JOINING)))
        leave_entry(req, entry);
    else if (entry->state < HF_ENTRY_GRANTED)
        hf__entry_gone(entry);
    hf__entry_unref(entry);
}

void hf__req_requeue(hf__req *req)
{
    hf__req_wake(req);
    hf__req_drop_entry(req);
    if (req->stop || (req->want.try_only && req->failures++ > 0)) {
        hf__req_finish(req, req->stop ? req->stop : HF_EUNAVAIL, NULL);
        return;
    }
    hfd_log(HF_LOG_WARN,
            "the place in the queue of '%.*s' was lost with the "
            "session; joining again",
            (int)req->key->len, req->key->text);
    hf__req_patience(req);
    hf__req_back_in_line(req);
}

void hf__req_rejoin(hf__req *req)
{
    hf__session *s = req->s;
    hf__key *key = req->key;

    key->refs++;
    hf__req_requeue(req);
    hf__line_pump(s, key);
    hf__key_put(s, key);
}

void hf__req_stop(hf__req *req, int code)
{
    switch (req->state) {
    case HF_REQ_DONE:
    case HF_REQ_BUSY:
        return;
    case HF_REQ_JOINING:
    case HF_REQ_CONFIRMING:
        req->stop = code; /* when it has landed */
        return;
    default:
        break;
    }
    hf__req_finish(req, code, NULL);
}
