/* renew.c - asking the store about one hold: renew it, publish a value, and the
 * same, and the release, for event loops.  The answer is judged under the
 * mutex, after the hold was checked against the clock once more: an answer
 * that comes too late revives nothing. */
#include "base/alloc.h"
#include "base/error.h"
#include "core/internal.h"

/* The answer of a renewal or a publication about one entry. */
static int answer_of(hf__entry *entry, const hf_op *op, hf_error *err)
{
    int code;

    if (op->outcome != HF_APPLIED) {
        code = op->outcome == HF_UNKNOWN ? HF_EUNKNOWN : op->error.code;
        hf__error_wrap(err, &op->error, "no answer from the store");
        if (err)
            err->code = code;
        return code;
    }
    code = op->error.code;
    if (code == 0 && op->place && op->place->verdict == HF_GONE)
        code =
            op->place->reason == HF_ENOTHELD ? HF_EEXPIRED : op->place->reason;
    if (hf_error_class(code) == HF_CLASS_LOST) {
        bool held = entry->state == HF_ENTRY_GRANTED && entry->told != HF_LOST;

        hf__entry_lost(entry, code);
        /* A broken one is still ours in the store: as after a push. */
        if (code != HF_EFORCED)
            hf__leave_later(entry);
        else if (held)
            hf__entry_linger(entry, entry->s->lease.stop_margin);
        hf__lost_error(entry, code, err);
    } else if (code) {
        hf__error_wrap(err, &op->error, "the store refused");
    }
    return code;
}

/* Fill op; false: no memory. */
static bool prepare_renew(hf__entry *entry, hf_op *op, hf_place *copy,
                          hf__batch *batch)
{
    bool fixed = entry->place.lease > 0;

    hf__op_init(entry->s, op, fixed ? HF_OP_CONFIRM : HF_OP_RENEW);
    *copy = entry->place;
    if (fixed)
        op->place = copy;
    return fixed || hf__each_fill(entry->s, batch, op);
}

/* Its end came while it was asked for: the store may have begun a lease that
 * nobody has. */
static void leave_revived(hf__entry *entry, const hf_op *op)
{
    hf__entry *again;

    if (entry->state != HF_ENTRY_GONE || op->outcome == HF_NOT_APPLIED ||
        (op->outcome == HF_APPLIED &&
         (op->error.code || op->place->verdict == HF_GONE)))
        return;
    again = hf__entry_adopt(entry->s, entry->key, &entry->place);
    if (again)
        hf__leave_later(again);
    else
        hfd_log(HF_LOG_WARN, "no memory to leave '%.*s': it ends by itself",
                (int)entry->key->len, entry->key->text);
}

static int end_renew(hf__entry *entry, hf_op *op, const hf__batch *batch,
                     uint64_t gen, hf_error *err)
{
    hf__session *s = entry->s;
    int code;

    if (entry->place.lease == 0) {
        hf__each_answered(s, batch, op);
        hf__session_renewed(s, op, gen);
        code = hf__entry_check(entry, hfd_now());
        if (code)
            return hf__lost_error(entry, code, err);
        code = answer_of(entry, op, err);
        /* Of several one may have no answer: then nothing lengthened it. */
        if (code == 0 && hf__entry_each(entry) && entry->sure_at < op->sent)
            code = hf__error(err, HF_EUNKNOWN,
                             "the store could not say whether it is held");
        return code;
    }
    code = hf__entry_check(entry, hfd_now());
    if (code && code != HF_EUNKNOWN) {
        leave_revived(entry, op);
        return hf__lost_error(entry, code, err);
    }
    code = answer_of(entry, op, err);
    if (code == 0) {
        hf__entry_extend(entry, op->sent, op->place->remaining);
        hf__entry_arm(entry);
        hf__session_clock(s, op);
    }
    return code;
}

int hf_renew(hf_hold *handle, hf_error *err)
{
    hf__hold *hold;
    int code = hf__hold_enter(handle, &hold, err);
    hf_place copy;
    hf_op op;

    if (code)
        return code;
    code = hf__entry_check(hold->entry, hfd_now());
    if (code && code != HF_EUNKNOWN) {
        hf__lost_error(hold->entry, code, err);
    } else {
        hf__session *s = hold->entry->s;
        uint64_t gen = s->gen;
        hf__batch batch = {.count = 0};

        if (prepare_renew(hold->entry, &op, &copy, &batch)) {
            hf__op_run(s, &op);
            code = end_renew(hold->entry, &op, &batch, gen, err);
        } else {
            code = hf__error(err, HF_ENOMEM, "out of memory");
        }
        hf__batch_done(&batch);
    }
    hf__hold_leave(hold);
    return code;
}

static int prepare_publish(hf__hold *hold, const void *value, size_t len,
                           void **ret_copy, hf_error *err)
{
    int code;

    if (len > HF_VALUE_MAX || (len && !value))
        return hf__error(err, HF_EINVAL, "a value has at most %d bytes",
                         HF_VALUE_MAX);
    if (!(hold->entry->s->caps & HF_CAP_VALUE))
        return hf__error(err, HF_ENOTSUP, "this store keeps no values");
    code = hf__entry_check(hold->entry, hfd_now());
    if (code)
        return hf__lost_error(hold->entry, code, err);
    *ret_copy = hf__alloc_text(len ? value : "", len);
    return *ret_copy ? 0 : hf__error(err, HF_ENOMEM, "out of memory");
}

static void init_publish(hf__entry *entry, hf_op *op, hf_place *copy,
                         const void *value, size_t len)
{
    hf__op_init(entry->s, op, HF_OP_PUBLISH);
    *copy = entry->place;
    op->place = copy;
    op->value = value;
    op->value_len = len;
}

static int end_publish(hf__entry *entry, const hf_op *op, hf_error *err)
{
    int code = answer_of(entry, op, err);

    if (code == 0) {
        hfd_free(entry->value);
        entry->value = (void *)(uintptr_t)op->value;
        entry->value_len = (uint16_t)op->value_len;
    } else {
        hfd_free((void *)(uintptr_t)op->value);
    }
    return code;
}

int hf_publish(hf_hold *handle, const void *value, size_t len, hf_error *err)
{
    hf__hold *hold;
    int code = hf__hold_enter(handle, &hold, err);
    void *copied = NULL;
    hf_place copy;
    hf_op op;

    if (code)
        return code;
    code = prepare_publish(hold, value, len, &copied, err);
    if (code == 0) {
        init_publish(hold->entry, &op, &copy, copied, len);
        hf__op_run(hold->entry->s, &op);
        code = end_publish(hold->entry, &op, err);
    }
    hf__hold_leave(hold);
    return code;
}

/* ---- the same for event loops ---- */

static int make_request(hf__hold *hold, hf_op_kind kind, hf_result_kind result,
                        void *user, hf__req **ret, hf_error *err)
{
    hf__session *s = hold->entry->s;
    hf__req *req = hfd_alloc(sizeof *req);

    if (!req || hf__heap_reserve(&s->timers, s->timer_users + 1) != 0 ||
        hf__handle_new(HF__REQUEST, req, &req->id) != 0) {
        hfd_free(req);
        return hf__error(err, HF_ENOMEM, "out of memory");
    }
    s->timer_users++;
    req->s = s;
    req->kind = kind;
    req->state = HF_REQ_BUSY;
    req->cancel_dup = -1;
    req->user = user;
    req->hold_id = kind == HF_OP_LEAVE ? 0 : hold->id;
    req->result.kind = result;
    hf__list_append(&s->reqs, &req->all);
    *ret = req;
    return 0;
}

int hf_release_start(hf_hold *handle, void *user, hf_request **ret,
                     hf_error *err)
{
    hf__hold *hold;
    int code = hf__hold_enter(handle, &hold, err);
    hf__req *req;

    if (code)
        return code;
    code = hf__hold_may_release(hold, err);
    if (code == 0)
        code =
            make_request(hold, HF_OP_LEAVE, HF_RESULT_RELEASE, user, &req, err);
    if (code == 0) {
        hf__entry *entry = hold->entry;

        if (ret)
            *ret = HF_HANDLE(hf_request, req->id);
        code = hf__release_locally(hold, hfd_now());
        if (code == 1)
            hf__leave_for(entry, req);
        else
            hf__req_finish(req, code, NULL);
        code = 0;
    }
    hf__hold_leave(hold);
    return code;
}

static void renew_landed(hf__flight *flight)
{
    hf_error err = {0};
    int code = end_renew(flight->entry, &flight->op, &flight->batch,
                         flight->gen, &err);

    hf__req_finish(flight->req, code, &err);
}

static void publish_landed(hf__flight *flight)
{
    hf_error err = {0};
    int code = end_publish(flight->entry, &flight->op, &err);

    hf__req_finish(flight->req, code, &err);
}

int hf_renew_start(hf_hold *handle, void *user, hf_request **ret, hf_error *err)
{
    hf__hold *hold;
    int code = hf__hold_enter(handle, &hold, err);
    hf__flight *flight = NULL;
    hf__req *req;

    if (code)
        return code;
    code = hf__entry_check(hold->entry, hfd_now());
    if (code && code != HF_EUNKNOWN)
        hf__lost_error(hold->entry, code, err);
    else
        code =
            make_request(hold, HF_OP_RENEW, HF_RESULT_RENEW, user, &req, err);
    if (code == 0) {
        flight = hf__flight_new(hold->entry->s, HF_OP_RENEW, hold->entry,
                                renew_landed);
        if (ret)
            *ret = HF_HANDLE(hf_request, req->id);
        if (flight && prepare_renew(hold->entry, &flight->op, &flight->place,
                                    &flight->batch)) {
            flight->req = req;
            hf__flight_submit(flight);
        } else {
            if (flight)
                hf__flight_free(flight);
            hf__req_finish(req, HF_ENOMEM, NULL);
        }
    }
    hf__hold_leave(hold);
    return code;
}

int hf_publish_start(hf_hold *handle, const void *value, size_t len, void *user,
                     hf_request **ret, hf_error *err)
{
    hf__hold *hold;
    int code = hf__hold_enter(handle, &hold, err);
    hf__flight *flight = NULL;
    void *copied = NULL;
    hf__req *req;

    if (code)
        return code;
    code = prepare_publish(hold, value, len, &copied, err);
    if (code == 0)
        code = make_request(hold, HF_OP_PUBLISH, HF_RESULT_PUBLISH, user, &req,
                            err);
    if (code == 0) {
        flight = hf__flight_new(hold->entry->s, HF_OP_PUBLISH, hold->entry,
                                publish_landed);
        if (ret)
            *ret = HF_HANDLE(hf_request, req->id);
        if (flight) {
            init_publish(hold->entry, &flight->op, &flight->place, copied, len);
            flight->req = req;
            copied = NULL;
            hf__flight_submit(flight);
        } else {
            hf__req_finish(req, HF_ENOMEM, NULL);
        }
    }
    hfd_free(copied);
    hf__hold_leave(hold);
    return code;
}
