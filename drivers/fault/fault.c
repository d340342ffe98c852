/* fault.c - fault+X: a store that fails as it is told to.
 *
 * Three ways to fail: before (the store never heard of it: not applied, or
 * nobody knows), after (the store did it and the answer is lost) and slow.
 * Which operation meets which is plan.c's.  A lost answer is a lost answer:
 * what the inner driver wrote into the operation and its places is taken back,
 * so that no caller can profit from what it cannot know.
 *
 * Each injected fault is one line in the log, `fault: ...` at HF_LOG_INFO, so
 * that a sweep knows when it has passed the last operation. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "../trace/shim.h"
#include "plan.h"

struct hf_store {
    shim base; /* first: shim.c casts */
    pthread_mutex_t mutex;
    fault_source source;
};

/* What an operation looked like before its answer. */
typedef struct lost_op {
    void (*done)(hf_op *op);
    void *core;
    int (*emit_row)(const hf_row *row, void *user);
    hf_doctor_fn *emit_finding;
    hf_place single;   /* of op->place */
    hf_place places[]; /* of a recheck */
} lost_op;

/* ---- An answer that is lost --------------------------------------------- */

static int swallow_row(const hf_row *row, void *user)
{
    (void)row;
    (void)user;
    return 0;
}

static void swallow_finding(hf_level level, const char *name, const char *text,
                            void *user)
{
    (void)level;
    (void)name;
    (void)text;
    (void)user;
}

/* The driver's own notes stay: they say where the entry is, not how it is. */
static void take_back(hf_place *place, const hf_place *before)
{
    hf_place kept = *before;

    if (place->seats != before->seats)
        hfd_free(place->seats);
    memcpy(kept.own, place->own, sizeof kept.own);
    *place = kept;
}

static void finish_lost(hf_op *op)
{
    lost_op *lost = op->core;

    op->done = lost->done;
    op->core = lost->core;
    op->emit_row = lost->emit_row;
    op->emit_finding = lost->emit_finding;
    if (op->place)
        take_back(op->place, &lost->single);
    for (size_t i = 0; op->kind == HF_OP_RECHECK && i < op->place_count; i++)
        take_back(op->places[i], &lost->places[i]);
    hfd_free(lost);
    op->remaining = 0;
    op->store_us = 0;
    op->count = 0;
    hfd_error(&op->error, HF_EUNKNOWN, "fault", 0,
              "the answer was lost, as fault_kind=after asked for");
    hfd_finish(op, HF_UNKNOWN, HF_EUNKNOWN);
}

static void start_lost(shim *self, hf_op *op)
{
    size_t n = op->kind == HF_OP_RECHECK ? op->place_count : 0;
    lost_op *lost = hfd_alloc(sizeof *lost + n * sizeof(hf_place));

    if (!lost) {
        hfd_error(&op->error, HF_ENOMEM, "fault", 0, "out of memory");
        hfd_finish(op, HF_NOT_APPLIED, HF_ENOMEM);
        return;
    }
    lost->done = op->done;
    lost->core = op->core;
    lost->emit_row = op->emit_row;
    lost->emit_finding = op->emit_finding;
    if (op->place)
        lost->single = *op->place;
    for (size_t i = 0; i < n; i++)
        lost->places[i] = *op->places[i];
    op->done = finish_lost;
    op->core = lost;
    op->emit_row = swallow_row;
    op->emit_finding = swallow_finding;
    self->inner->start(self->store, op);
}

/* ---- Operations --------------------------------------------------------- */

static void refuse_op(hf_op *op, bool unknown)
{
    op->sent = hfd_now();
    if (unknown) {
        hfd_error(&op->error, HF_EUNKNOWN, "fault", 0,
                  "no answer, as fault_kind=before asked for");
        hfd_finish(op, HF_UNKNOWN, HF_EUNKNOWN);
    } else {
        hfd_error(&op->error, HF_EUNAVAIL, "fault", 0,
                  "not executed, as fault_kind=before asked for");
        hfd_finish(op, HF_NOT_APPLIED, HF_EUNAVAIL);
    }
}

static void wait_delay(int64_t ms)
{
    struct timespec left = {.tv_sec = (time_t)(ms / 1000),
                            .tv_nsec = (long)(ms % 1000) * 1000000};

    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
        ;
}

static void fault_start(hf_store *store, hf_op *op)
{
    bool unknown = false;
    int64_t delay_ms;
    uint64_t count;
    fault_kind kind;

    shim_note_op(&store->base, op);
    pthread_mutex_lock(&store->mutex);
    kind = fault_source_draw(&store->source, op->kind, &unknown);
    delay_ms = store->source.plan.delay_ms;
    count = store->source.count;
    pthread_mutex_unlock(&store->mutex);
    if (kind != FAULT_NONE)
        hfd_log(HF_LOG_INFO, "fault: %s %s, operation %llu",
                shim_op_name(op->kind),
                kind == FAULT_AFTER  ? "answer lost"
                : kind == FAULT_SLOW ? "delayed"
                : unknown            ? "unanswered"
                                     : "refused",
                (unsigned long long)count);
    switch (kind) {
    case FAULT_BEFORE:
        refuse_op(op, unknown);
        break;
    case FAULT_AFTER:
        start_lost(&store->base, op);
        break;
    case FAULT_SLOW:
        wait_delay(delay_ms);
        store->base.inner->start(store->base.store, op);
        break;
    case FAULT_NONE:
    case FAULT_BOTH:
    default:
        store->base.inner->start(store->base.store, op);
        break;
    }
}

/* ---- Pushes ------------------------------------------------------------- */

static bool is_dropped(hf_store *store)
{
    bool dropped;

    pthread_mutex_lock(&store->mutex);
    dropped = fault_source_drop_push(&store->source);
    pthread_mutex_unlock(&store->mutex);
    if (dropped)
        hfd_log(HF_LOG_INFO, "fault: push dropped");
    return dropped;
}

static void fault_changed(void *ctx, const hf_id *rid, const hf_place *fresh)
{
    hf_store *store = ctx;

    if (!is_dropped(store))
        shim_tell_changed(&store->base, rid, fresh);
}

static void fault_news(void *ctx, const hf_id *rid, int reason)
{
    hf_store *store = ctx;

    if (!is_dropped(store))
        shim_tell_news(&store->base, rid, reason);
}

static void fault_doubt(void *ctx, int reason, const char *text)
{
    hf_store *store = ctx;

    shim_tell_doubt(&store->base, reason, text);
}

/* ---- Opening ------------------------------------------------------------ */

static int fault_open(hf_store **ret, const hf_url *url, const hf_host *host,
                      uint32_t *ret_caps, hf_error *err)
{
    hf_store *store = hfd_alloc(sizeof *store);
    hf_host told = {.ctx = store,
                    .changed = fault_changed,
                    .news = fault_news,
                    .doubt = fault_doubt};
    int code;

    if (!store)
        return hfd_error(err, HF_ENOMEM, "fault", 0, "out of memory");
    pthread_mutex_init(&store->mutex, NULL);
    code = fault_source_init(&store->source, url, err);
    if (code == 0)
        code = shim_open(&store->base, url, host, &told, ret_caps, err);
    if (code != 0) {
        pthread_mutex_destroy(&store->mutex);
        hfd_free(store);
        return code;
    }
    *ret = store;
    return 0;
}

static void fault_close(hf_store *store)
{
    shim_close(&store->base);
    pthread_mutex_destroy(&store->mutex);
    hfd_free(store);
}

static const hf_driver fault_driver = {HF_DRIVER_HEAD,
                                       .name = "fault",
                                       .schemes = "fault",
                                       .options = fault_options,
                                       .open = fault_open,
                                       .close = fault_close,
                                       .abandon = shim_abandon,
                                       .start = fault_start,
                                       .drive = shim_drive,
                                       .fd = shim_fd,
                                       .dispatch = shim_dispatch,
                                       .park = shim_park,
                                       .unpark = shim_unpark,
                                       .life_fd = shim_life_fd};

HF_DRIVER_EXPORT(fault_driver);
