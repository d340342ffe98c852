/* lock.c - the public verbs that take a lock.
 *
 * Each checks its options, makes a request to the core, and waits for it on
 * the caller's own thread, or leaves it to fly and be collected.  The verbs
 * differ only in what they say of the mode and of waiting. */
#include <string.h>

#include "base/error.h"
#include "core/internal.h"

typedef struct lock_call {
    const hf_session *session;
    const char *key;
    const hf_lock_options *opt;
    hf_mode mode;
    uint32_t places;
    bool any_mode, try_only;
} lock_call;

/* The options, checked, with what the verb itself says. */
static int make_want(hf__session *s, hf__want *want, hf__manner *manner,
                     const lock_call *call, bool blocking, hf_error *err)
{
    hf_lock_options o;
    size_t len;
    int code = hf__key_check(call->key, &len, err);

    if (code == 0)
        code = hf__lock_options(&o, call->opt, err);
    if (code)
        return code;
    if (!call->any_mode) {
        if (o.mode != HF_EXCLUSIVE && o.mode != call->mode)
            return hf__error(err, HF_EINVAL,
                             "opt->mode contradicts the function called");
        o.mode = call->mode;
        o.places = call->places;
    }
    if (call->try_only)
        o.wait_ms = 0;
    return hf__want_from(want, manner, &o, blocking, s->caps, err);
}

static int take_lock(const lock_call *call, hf_hold **ret, hf_error *err)
{
    hf__bell bell = {0};
    hf__session *s;
    hf__want want;
    hf__manner manner;
    hf__req *req;
    int code = hf__session_enter(call->session, &s, err);

    if (code)
        return code;
    code = ret ? make_want(s, &want, &manner, call, true, err)
               : hf__error(err, HF_EINVAL, "nowhere to put the hold");
    if (code == 0)
        code = hf__req_new(&req, s, &want, &manner, err);
    if (code == 0) {
        req->bell = &bell;
        code = hf__req_submit(req, call->key, &manner, err);
        if (code == 0) {
            hf__req_wait(req);
            code = req->code;
            if (code == 0)
                *ret = HF_HANDLE(hf_hold, req->hold_id);
            else
                hf__req_error(req, call->key, err);
            if (code == 0 && want.owner == hf__thread_serial())
                hf__thread_count_hold(1);
        }
        hf__req_free(req);
    }
    hf__session_leave(s);
    return code;
}

int hf_lock(hf_session *s, const char *key, const hf_lock_options *opt,
            hf_hold **ret, hf_error *err)
{
    lock_call call = {.session = s, .key = key, .opt = opt, .any_mode = true};

    return take_lock(&call, ret, err);
}

int hf_try_lock(hf_session *s, const char *key, const hf_lock_options *opt,
                hf_hold **ret, hf_error *err)
{
    lock_call call = {.session = s,
                      .key = key,
                      .opt = opt,
                      .any_mode = true,
                      .try_only = true};

    return take_lock(&call, ret, err);
}

int hf_lock_shared(hf_session *s, const char *key, const hf_lock_options *opt,
                   hf_hold **ret, hf_error *err)
{
    lock_call call = {.session = s, .key = key, .opt = opt, .mode = HF_SHARED};

    return take_lock(&call, ret, err);
}

int hf_lock_permit(hf_session *s, const char *key, uint32_t places,
                   const hf_lock_options *opt, hf_hold **ret, hf_error *err)
{
    lock_call call = {.session = s,
                      .key = key,
                      .opt = opt,
                      .mode = HF_PERMIT,
                      .places = places};

    return take_lock(&call, ret, err);
}

int hf_lock_start(hf_session *session, const char *key,
                  const hf_lock_options *opt, void *user, hf_request **ret,
                  hf_error *err)
{
    lock_call call = {
        .session = session, .key = key, .opt = opt, .any_mode = true};
    hf__session *s;
    hf__want want;
    hf__manner manner;
    hf__req *req;
    hf_error why = {0};
    int code = hf__session_enter(session, &s, err);

    if (code)
        return code;
    code = make_want(s, &want, &manner, &call, false, err);
    if (code == 0)
        code = hf__req_new(&req, s, &want, &manner, err);
    if (code == 0) {
        req->user = user;
        req->result.kind = HF_RESULT_LOCK;
        req->hold->collected = true;
        req->hold->request_user = user;
        if (hf__handle_new(HF__REQUEST, req, &req->id) != 0)
            code = hf__error(err, HF_ENOMEM, "out of memory");
        if (code == 0 && ret)
            *ret = HF_HANDLE(hf_request, req->id);
        if (code == 0)
            code = hf__req_submit(req, key, &manner, &why);
        /* An answer that the line knew at once is a result like any other. */
        if (hf_error_class(code) == HF_CLASS_NO ||
            hf_error_class(code) == HF_CLASS_LOST) {
            hf__req_refuse(req, code, &why);
            code = 0;
        }
        if (code) {
            if (err && why.code)
                *err = why;
            hf__req_free(req);
        }
    }
    hf__session_leave(s);
    return code;
}
