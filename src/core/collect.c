/* collect.c - results for event loops.
 *
 * Finished requests and changed holds stand in one list; one descriptor of the
 * session is readable exactly while the list is not empty.  A hold that
 * changes twice before it is collected is reported once, with its latest
 * state. */
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "core/internal.h"

static void signal_results(hf__session *s)
{
    uint64_t one = 1;

    if (s->result_fd >= 0 && write(s->result_fd, &one, sizeof one) < 0 &&
        errno != EAGAIN)
        hfd_log(HF_LOG_ERROR, "the session's descriptor failed: %s",
                strerror(errno));
}

void hf__result_post(hf__session *s, hf__result *result)
{
    bool first = hf__list_empty(&s->results);

    if (hf__list_linked(&result->node))
        return;
    hf__list_append(&s->results, &result->node);
    if (first)
        signal_results(s);
}

void hf__result_drop(hf__session *s, hf__result *result)
{
    uint64_t count;

    if (!hf__list_linked(&result->node))
        return;
    hf__list_remove(&result->node);
    if (hf__list_empty(&s->results) && s->result_fd >= 0 &&
        read(s->result_fd, &count, sizeof count) < 0 && errno != EAGAIN)
        hfd_log(HF_LOG_ERROR, "the session's descriptor failed: %s",
                strerror(errno));
}

void hf__req_post(hf__req *req)
{
    hf__result_post(req->s, &req->result);
}

int hf_session_fd(hf_session *handle)
{
    hf__session *s;
    int fd;
    int code = hf__session_enter(handle, &s, NULL);

    if (code)
        return code;
    if (s->result_fd < 0) {
        s->result_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (!hf__list_empty(&s->results))
            signal_results(s);
    }
    fd = s->result_fd >= 0 ? s->result_fd : HF_EFULL;
    hf__session_leave(s);
    return fd;
}

static void fill_request(hf_result *ret, hf__req *req)
{
    ret->kind = req->result.kind;
    ret->request = HF_HANDLE(hf_request, req->id);
    ret->hold = req->code == 0 || req->kind != HF_OP_JOIN
                    ? HF_HANDLE(hf_hold, req->hold_id)
                    : NULL;
    ret->user = req->user;
    if (req->error)
        ret->error = *req->error;
    else if (req->code)
        hf__error(&ret->error, req->code, "%s", hf_strerror(req->code));
    ret->error.code = req->code;
    hf__req_free(req);
}

static void fill_change(hf_result *ret, hf__hold *hold)
{
    ret->kind = HF_RESULT_CHANGE;
    ret->hold = HF_HANDLE(hf_hold, hold->id);
    ret->state = hold->state;
    ret->user = hold->request_user;
    if (hold->reason)
        hf__error(&ret->error, hold->reason, "%s", hf_strerror(hold->reason));
}

int hf_collect(hf_session *handle, hf_result *ret)
{
    hf__session *s;
    hf__node *node;
    hf__result *result;
    int code = ret ? hf__session_enter(handle, &s, NULL) : HF_EINVAL;

    if (code)
        return code;
    node = hf__list_first(&s->results);
    if (node) {
        memset(ret, 0, sizeof *ret);
        result = HF_CONTAINER(node, hf__result, node);
        hf__result_drop(s, result);
        if (result->kind == HF_RESULT_CHANGE)
            fill_change(ret, HF_CONTAINER(result, hf__hold, result));
        else
            fill_request(ret, HF_CONTAINER(result, hf__req, result));
    }
    hf__session_leave(s);
    return node != NULL;
}

/* The request may be collected and freed as soon as the table is unlocked; the
 * session stays, since the call is counted. */
static void *take_session_of(void *object)
{
    hf__session *s = ((hf__req *)object)->s;

    atomic_fetch_add(&s->calls, 1);
    return s;
}

/* With the session's mutex held it stays. */
static void *look_at_request(void *object)
{
    return object;
}

int hf_cancel(hf_request *request, hf_error *err)
{
    void *object;
    hf__session *s;
    int code;

    hf__api_enter();
    code = hf__handle_find(request, HF__REQUEST, &object, take_session_of);
    if (code)
        hf__api_leave(code);
    if (code == HF_EFORKED)
        return hf__error(err, code, "the request belongs to the parent");
    if (code)
        return hf__error(err, HF_EINVAL, "no such request: it was collected");
    s = object;
    hf__session_lock(s);
    /* It may have been collected between the two locks: ask again. */
    if (hf__handle_find(request, HF__REQUEST, &object, look_at_request) == 0)
        hf__req_stop(object, HF_ECANCELED);
    else
        code = hf__error(err, HF_EINVAL, "no such request: it was collected");
    hf__session_leave(s);
    return code;
}

int hf_cancel_owner(hf_session *handle, uint64_t owner)
{
    hf__session *s;
    int count = 0;
    int code = hf__session_enter(handle, &s, NULL);

    if (code)
        return code;
    if (owner == HF_OWNER_THREAD || owner == HF_OWNER_DEFAULT)
        owner = hf__thread_serial();
    HF_LIST_EACH(node, &s->reqs) {
        hf__req *req = HF_CONTAINER(node, hf__req, all);

        if (req->kind == HF_OP_JOIN && req->want.owner == owner &&
            req->state != HF_REQ_DONE) {
            hf__req_stop(req, HF_ECANCELED);
            count++;
        }
    }
    hf__session_leave(s);
    return count;
}
