/* trace.c - trace+X: tells the log what is asked of a store and answered.
 *
 * One line at HF_LOG_INFO for each operation when it is done, and for each
 * push: what, of which key, outcome, verdict, token, and how long it took.
 * Changes nothing: an operation goes through with the same memory, only its
 * `done` is held back for the line to be written first.  If there is no memory
 * for that, the operation runs untold. */
#include <stdio.h>
#include <string.h>

#include "shim.h"

typedef struct trace_op {
    void (*done)(hf_op *op);
    void *core;
    hf_nsec began;
} trace_op;

struct hf_store {
    shim base; /* first: shim.c casts */
};

static const char *outcome_name(hf_outcome outcome)
{
    return outcome == HF_APPLIED       ? "applied"
           : outcome == HF_NOT_APPLIED ? "not applied"
                                       : "unknown";
}

static const char *verdict_name(hf_verdict verdict)
{
    switch (verdict) {
    case HF_GRANTED:
        return "granted";
    case HF_WAITS:
        return "waits";
    case HF_GONE:
        return "gone";
    case HF_JUDGE:
        return "to be judged";
    default:
        return "no verdict";
    }
}

/* The key for people: what could upset a terminal becomes '?'. */
static const char *show_key(char buf[64], const char *key, size_t len)
{
    size_t shown = len < 60 ? len : 60;

    for (size_t i = 0; i < shown; i++) {
        unsigned char c = (unsigned char)key[i];

        buf[i] = c < 0x20 || c == 0x7f || c == '\'' ? '?' : (char)c;
    }
    memcpy(buf + shown, len > shown ? "..." : "", len > shown ? 4 : 1);
    return buf;
}

static void log_op(const hf_op *op, hf_nsec took)
{
    const hf_place *place = op->place;
    long long us = (long long)(took / 1000);
    char text[96] = "", key[64];

    if (op->kind == HF_OP_RECHECK)
        snprintf(text, sizeof text, " of %zu", op->place_count);
    else if (place)
        snprintf(text, sizeof text, " '%s'",
                 show_key(key, place->key, place->key_len));
    else if (op->kind == HF_OP_EVICT && op->text)
        snprintf(text, sizeof text, " '%s'",
                 show_key(key, op->text, op->text_len));
    if (op->outcome != HF_APPLIED || op->error.code != 0)
        hfd_log(HF_LOG_INFO, "trace: %s%s: %s, %s, %lld us",
                shim_op_name(op->kind), text, outcome_name(op->outcome),
                hf_error_name(op->error.code), us);
    else if (place)
        hfd_log(HF_LOG_INFO,
                "trace: %s%s: applied, %s, num %llu, token %llu, %lld us",
                shim_op_name(op->kind), text, verdict_name(place->verdict),
                (unsigned long long)place->num,
                (unsigned long long)place->token, us);
    else
        hfd_log(HF_LOG_INFO, "trace: %s%s: applied, %lld us",
                shim_op_name(op->kind), text, us);
}

static void finish_traced(hf_op *op)
{
    trace_op *traced = op->core;

    op->done = traced->done;
    op->core = traced->core;
    log_op(op, hfd_now() - traced->began);
    hfd_free(traced);
    op->done(op);
}

static void trace_start(hf_store *store, hf_op *op)
{
    shim *self = &store->base;
    trace_op *traced = hfd_alloc(sizeof *traced);

    shim_note_op(self, op);
    if (traced) {
        *traced =
            (trace_op){.done = op->done, .core = op->core, .began = hfd_now()};
        op->core = traced;
        op->done = finish_traced;
    }
    self->inner->start(self->store, op);
}

static void trace_changed(void *ctx, const hf_id *rid, const hf_place *fresh)
{
    hf_store *store = ctx;

    if (fresh)
        hfd_log(HF_LOG_INFO, "trace: pushed: %s, token %llu",
                verdict_name(fresh->verdict), (unsigned long long)fresh->token);
    else
        hfd_log(HF_LOG_INFO, "trace: pushed: %s",
                rid ? "the queue changed" : "some queue changed");
    shim_tell_changed(&store->base, rid, fresh);
}

static void trace_news(void *ctx, const hf_id *rid, int reason)
{
    hf_store *store = ctx;

    hfd_log(HF_LOG_INFO, "trace: news: %s", hf_error_name(reason));
    shim_tell_news(&store->base, rid, reason);
}

static void trace_doubt(void *ctx, int reason, const char *text)
{
    hf_store *store = ctx;

    hfd_log(HF_LOG_INFO, "trace: doubt: %s, %s", hf_error_name(reason),
            text ? text : "");
    shim_tell_doubt(&store->base, reason, text);
}

static int trace_open(hf_store **ret, const hf_url *url, const hf_host *host,
                      uint32_t *ret_caps, hf_error *err)
{
    hf_store *store = hfd_alloc(sizeof *store);
    hf_host told = {.ctx = store,
                    .changed = trace_changed,
                    .news = trace_news,
                    .doubt = trace_doubt};
    int code;

    if (!store)
        return hfd_error(err, HF_ENOMEM, "trace", 0, "out of memory");
    code = shim_open(&store->base, url, host, &told, ret_caps, err);
    if (code != 0) {
        hfd_free(store);
        return code;
    }
    *ret = store;
    return 0;
}

static void trace_close(hf_store *store)
{
    shim_close(&store->base);
    hfd_free(store);
}

static const char *const trace_options[] = {NULL};

static const hf_driver trace_driver = {HF_DRIVER_HEAD,
                                       .name = "trace",
                                       .schemes = "trace",
                                       .options = trace_options,
                                       .open = trace_open,
                                       .close = trace_close,
                                       .abandon = shim_abandon,
                                       .start = trace_start,
                                       .drive = shim_drive,
                                       .fd = shim_fd,
                                       .dispatch = shim_dispatch,
                                       .park = shim_park,
                                       .unpark = shim_unpark,
                                       .life_fd = shim_life_fd};

HF_DRIVER_EXPORT(trace_driver);
