/* inspect.c - for operators: who holds, who waits, take it away, is the store
 * fit?  These run on the caller's thread and need no session in the store: an
 * operator's look leaves no trace. */
#include <string.h>

#include "base/error.h"
#include "core/internal.h"

typedef struct listing {
    hf_list_fn *fn;
    void *user;
    int answer;
} listing;

static int emit_row(const hf_row *row, void *user)
{
    listing *list = user;

    list->answer = list->fn(&row->info, list->user);
    return list->answer;
}

static int op_answer(const hf_op *op, const char *what, hf_error *err)
{
    hf_error from = op->error;

    if (op->outcome == HF_UNKNOWN && from.code == 0)
        from.code = HF_EUNAVAIL;
    return from.code ? hf__error_wrap(err, &from, "%s", what) : 0;
}

int hf_list(hf_session *handle, const char *prefix, hf_list_fn *fn, void *user,
            hf_error *err)
{
    listing list = {.fn = fn, .user = user};
    hf_op op;
    hf__session *s;
    int code = hf__session_enter(handle, &s, err);

    if (code)
        return code;
    if (!fn || (prefix && strlen(prefix) > HF_KEY_MAX)) {
        code = hf__error(err, HF_EINVAL,
                         fn ? "the prefix is longer than %d bytes"
                            : "no function to call",
                         HF_KEY_MAX);
    } else {
        hf__op_init(s, &op, HF_OP_LIST);
        op.deadline += HF_MS(10000);
        op.text = prefix ? prefix : "";
        op.text_len = strlen(op.text);
        op.emit_row = emit_row;
        op.user = &list;
        hf__op_run(s, &op);
        code = list.answer ? list.answer : op_answer(&op, "list", err);
    }
    hf__session_leave(s);
    return code;
}

int hf_break(hf_session *handle, const char *key, const hf_break_options *opt,
             uint32_t *ret_broken, hf_error *err)
{
    hf_break_options o;
    hf_op op;
    size_t len;
    hf__session *s;
    int code = hf__session_enter(handle, &s, err);

    if (code)
        return code;
    code = hf__key_check(key, &len, err);
    if (code == 0)
        code = hf__break_options(&o, opt, err);
    if (code == 0 && !(s->caps & HF_CAP_BREAK))
        code = hf__error(err, HF_ENOTSUP, "this store cannot break a lock");
    if (code == 0) {
        hf__op_init(s, &op, HF_OP_EVICT);
        op.text = key;
        op.text_len = len;
        op.token = o.token;
        op.now = o.now;
        hf__op_run(s, &op);
        code = op_answer(&op, "break", err);
        if (code == 0 && ret_broken)
            *ret_broken = op.count;
    }
    hf__session_leave(s);
    return code;
}

int hf_doctor(hf_session *handle, hf_doctor_fn *fn, void *user, hf_error *err)
{
    hf_op op;
    hf__session *s;
    int code = hf__session_enter(handle, &s, err);

    if (code)
        return code;
    if (!fn) {
        code = hf__error(err, HF_EINVAL, "no function to call");
    } else {
        hf__op_init(s, &op, HF_OP_PROBE);
        op.deadline += HF_MS(10000);
        op.emit_finding = fn;
        op.user = user;
        hf__op_run(s, &op);
        code = op_answer(&op, "doctor", err);
    }
    hf__session_leave(s);
    return code;
}
