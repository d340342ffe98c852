/* call.c - an operation on its way through its requests.
 *
 * Answers: how does an operation ask, what becomes of it without an answer, and
 * where does it keep what it needs between two requests?  Knows nothing of what
 * is asked.  An operation is a chain of steps; each is called with the answer
 * of one request and sends the next or finishes.
 *
 * Reply lost: what went out and was not answered is UNKNOWN, whatever step it
 * was, and the core asks again by rid; every chain begins by looking for what
 * an earlier attempt may have left.  A refusal that says "later" (no leader,
 * too many requests, no space) did nothing: NOT APPLIED, so that the core tries
 * again.  `sent` is that of the first request: nothing was promised before.
 *
 * A member that takes requests and answers none in time, or has no leader, may
 * be the one that is cut off: the channel is told to go to another.  One answer
 * that is late is no such sign, if another that needed a majority came since.
 *
 * Two threads: a work belongs to one operation; the spare ones are under mu.
 * The call itself lives in the op, since its driver still looks at it when the
 * work has been given back. */
#include <string.h>

#include "store.h"

enum { SPARE_MAX = 16, REQUEST_KEPT = 16384 };

/* ---- Works -------------------------------------------------------------- */

void etcd_work_free(etcd_work *work)
{
    hf__buf_done(&work->out);
    hf__buf_done(&work->value);
    hfd_free(work->view.entries);
    hfd_free(work->view.seats);
    hfd_free(work);
}

static etcd_work *take_work(hf_store *store)
{
    etcd_work *work;

    pthread_mutex_lock(&store->mu);
    work = store->spare;
    if (work) {
        store->spare = work->next;
        store->spare_count--;
    }
    pthread_mutex_unlock(&store->mu);
    return work ? work : hfd_alloc(sizeof *work);
}

static void empty_buf(hf__buf *buf)
{
    if (buf->room > REQUEST_KEPT || buf->failed)
        hf__buf_done(buf);
    buf->start = buf->end = 0;
    buf->failed = false;
}

static void give_back(hf_op *op)
{
    etcd_work *work = etcd_own_of(op)->work;
    hf_store *store = work->store;
    bool keep;

    etcd_own_of(op)->work = NULL;
    if (work->free_more)
        work->free_more(work->more);
    empty_buf(&work->out);
    empty_buf(&work->value);
    etcd_view_done(&work->view);
    memset((char *)work + offsetof(etcd_work, store), 0,
           sizeof *work - offsetof(etcd_work, store));
    pthread_mutex_lock(&store->mu);
    keep = store->spare_count < SPARE_MAX;
    if (keep) {
        work->next = store->spare;
        store->spare = work;
        store->spare_count++;
    }
    pthread_mutex_unlock(&store->mu);
    if (!keep)
        etcd_work_free(work);
}

etcd_work *etcd_begin(hf_store *store, hf_op *op)
{
    etcd_work *work = take_work(store);

    if (!work) {
        if (etcd_own_of(op)->counted)
            hf__line_ended(&store->line);
        op->sent = hfd_now();
        hfd_error(&op->error, HF_ENOMEM, "etcd", 0, "out of memory");
        hfd_finish(op, HF_NOT_APPLIED, HF_ENOMEM);
        return NULL;
    }
    work->store = store;
    work->lease = etcd_lease_of(&op->sid);
    etcd_own_of(op)->work = work;
    return work;
}

hf__buf *etcd_new_request(etcd_work *work)
{
    empty_buf(&work->out);
    return &work->out;
}

/* ---- Ends --------------------------------------------------------------- */

/* A chain that has had an answer may have done something already: whatever
 * ends it then is not "nothing was done". */
static void finish(hf_op *op, hf_outcome outcome, int code)
{
    hf_store *store;

    if (outcome == HF_NOT_APPLIED && etcd_own_of(op)->work->answers > 0)
        outcome = HF_UNKNOWN;
    if (op->sent == 0)
        op->sent = hfd_now(); /* nothing had to be sent */
    store = etcd_own_of(op)->work->store;
    etcd_claim_end(etcd_own_of(op)->work);
    give_back(op);
    if (etcd_own_of(op)->counted)
        hf__line_ended(&store->line);
    hfd_finish(op, outcome, code);
}

void etcd_done(hf_op *op)
{
    finish(op, HF_APPLIED, 0);
}

void etcd_refuse(hf_op *op, int code, const char *text)
{
    hfd_error(&op->error, code, "etcd", 0, "%s", text);
    finish(op, HF_APPLIED, code);
}

void etcd_refused(hf_op *op, const hf_error *why)
{
    int code = why->code ? why->code : HF_EUNAVAIL;

    op->error = *why;
    finish(op,
           hf_error_class(code) == HF_CLASS_RETRY ? HF_NOT_APPLIED : HF_APPLIED,
           code);
}

void etcd_bad_reply(hf_op *op)
{
    hfd_error(&op->error, HF_EPROTO, "etcd", 0,
              "a reply that etcd does not give: is this an etcd of version 3.4 "
              "or newer?");
    finish(op, HF_UNKNOWN, HF_EPROTO);
}

void etcd_unsure(hf_op *op, const char *text)
{
    hfd_error(&op->error, HF_EUNAVAIL, "etcd", 0, "%s", text);
    finish(op, HF_UNKNOWN, HF_EUNAVAIL);
}

void etcd_no_memory(hf_op *op)
{
    hfd_error(&op->error, HF_ENOMEM, "etcd", 0, "out of memory");
    /* A request may have gone before. */
    finish(op, etcd_own_of(op)->under_way ? HF_UNKNOWN : HF_NOT_APPLIED,
           HF_ENOMEM);
}

bool etcd_answered(hf_op *op, grpc_code code, const hf_error *why)
{
    if (code == GRPC_NOT_FOUND)
        etcd_refuse(op, HF_EEXPIRED, "the session's lease ran out");
    else if (code != GRPC_OK)
        etcd_refused(op, why);
    return code == GRPC_OK;
}

/* ---- Requests ----------------------------------------------------------- */

static bool is_stuck(hf_store *store, const grpc_call *call, hf_outcome outcome,
                     grpc_code code)
{
    hf_nsec now = hfd_now();

    if (outcome == HF_UNKNOWN)
        return now >= call->deadline && now - call->sent > HF_MS(300) &&
               atomic_load(&store->heard) < call->sent;
    return outcome == HF_APPLIED && code == GRPC_UNAVAILABLE;
}

/* What needs a majority; a keepalive is the leader's word alone. */
static const char kv[] = "/etcdserverpb.KV/";

static void call_landed(grpc_call *call, hf_outcome outcome, grpc_code code,
                        const void *reply, size_t len, const hf_error *why)
{
    hf_op *op = etcd_op_from(call);
    etcd_work *work = etcd_own_of(op)->work;
    hf_store *store = work->store;

    if (op->sent == 0)
        op->sent = call->sent;
    if (store->member_count > 1 && is_stuck(store, call, outcome, code))
        grpc_move(store->channel, why->text);
    if (outcome != HF_UNKNOWN) /* done, or refused and never done */
        work->pending = false;
    if (outcome != HF_APPLIED) {
        op->error = *why;
        finish(op, outcome, why->code ? why->code : HF_EUNAVAIL);
        return;
    }
    if (code == GRPC_OK) {
        work->answers++;
        if (strncmp(call->method, kv, sizeof kv - 1) == 0)
            atomic_store(&store->heard, hfd_now());
    }
    work->step(op, work, code, (etcd_text){reply ? reply : "", len}, why);
}

void etcd_send(hf_op *op, const char *method, etcd_step *step)
{
    etcd_own *own = etcd_own_of(op);
    etcd_work *work = own->work;

    if (work->out.failed || work->value.failed) {
        etcd_no_memory(op);
        return;
    }
    if (!own->under_way) {
        /* Not again when it is sent on from `landed`: the thread that drives
         * it may be reading them. */
        own->under_way = true;
        own->call.deadline = op->deadline;
        own->call.driven = op->driven;
        own->call.landed = call_landed;
    }
    own->call.method = method;
    own->call.request = work->out.data + work->out.start;
    own->call.request_len = hf__buf_len(&work->out);
    work->step = step;
    grpc_start(work->store->channel, &own->call);
}

/* ---- Verdicts ----------------------------------------------------------- */

void etcd_granted(hf_place *place, int64_t created)
{
    place->verdict = HF_GRANTED;
    place->reason = 0;
    place->num = place->token = (uint64_t)created;
    place->run = 1;
    place->remaining = place->look_in = 0;
}

void etcd_is_gone(hf_place *place, int reason)
{
    place->verdict = HF_GONE;
    place->reason = reason;
    place->token = 0;
    place->remaining = place->look_in = 0;
}

void etcd_waits(const etcd_work *work, hf_place *place, int64_t created,
                const etcd_ahead *ahead, int64_t seen)
{
    place->verdict = HF_WAITS;
    place->reason = 0;
    place->num = (uint64_t)created;
    place->token = 0;
    place->run = 1;
    place->remaining = 0;
    place->look_in = ahead->look_in;
    etcd_watch_add(work->store->watcher, place, work->lease, ahead, seen);
}
