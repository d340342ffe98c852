/* native.c - the format with queues, sessions and tokens of our own.
 *
 * Spreads the operations over native_session.c, native_entry.c and
 * native_list.c, and hears what the scripts publish to this session.  A push is
 * told on as it came; the core believes it only for an entry that waits in
 * this very session.  The channel is opened when the first entry has to wait,
 * so a lock that is free costs one connection; what was told before the
 * channel stood is found by the look that follows (`listening` in redis.c). */
#include <string.h>

#include "native.h"

typedef struct native {
    pthread_mutex_t mu;
    bool listens;
    hf_id sid;  /* whose channel is listened to */
    hf_id last; /* who attached last */
} native;

/* ---- Being told --------------------------------------------------------- */

void redis_native_begins(hf_store *store, const hf_id *sid)
{
    native *data = store->format_data;

    pthread_mutex_lock(&data->mu);
    data->last = *sid;
    pthread_mutex_unlock(&data->mu);
}

/* Hear what is told to this session; what was told before is looked up when
 * the channel stands (`listening`).  Not for an operation of an old session
 * that comes late: the channel is another's by now. */
void redis_native_listen(hf_store *store, const hf_id *sid)
{
    native *data = store->format_data;
    char channel[sizeof store->prefix + 2 + REDIS_ID];
    size_t at = store->prefix_len;
    hf_id old;
    bool had;

    pthread_mutex_lock(&data->mu);
    had = data->listens;
    old = data->sid;
    if ((had && memcmp(&old, sid, sizeof old) == 0) ||
        memcmp(&data->last, sid, sizeof old) != 0) {
        pthread_mutex_unlock(&data->mu);
        return;
    }
    data->listens = true;
    data->sid = *sid;
    pthread_mutex_unlock(&data->mu);

    memcpy(channel, store->prefix, at);
    memcpy(channel + at, "c:", 2);
    redis_id_text(channel + at + 2, sid);
    if (redis_wire_listen(store->wire, channel, at + 2 + REDIS_ID, false) !=
        0) {
        hfd_log(HF_LOG_WARN, "redis: no memory to listen with; waiters look "
                             "by the clock");
        pthread_mutex_lock(&data->mu);
        data->listens = false;
        pthread_mutex_unlock(&data->mu);
    }
    if (had) {
        redis_id_text(channel + at + 2, &old);
        redis_wire_unlisten(store->wire, channel, at + 2 + REDIS_ID, false);
    }
}

static uint64_t number_at(const char **at, const char *end)
{
    uint64_t n = 0;

    while (*at < end && **at >= '0' && **at <= '9' && n < UINT64_MAX / 16)
        n = n * 10 + (uint64_t)(*(*at)++ - '0');
    if (*at < end)
        (*at)++;
    return n;
}

/* "G rid token run" or "N rid -reason". */
static void native_message(hf_store *store, const char *channel,
                           size_t channel_len, const char *text, size_t len)
{
    const char *end = text + len, *at = text + 3 + REDIS_ID;
    hf_place fresh = {.verdict = HF_GRANTED};

    (void)channel;
    (void)channel_len;
    if (len < 4 + REDIS_ID || !redis_id_from(&fresh.rid, text + 2, REDIS_ID))
        return;
    if (text[0] == 'G') {
        fresh.token = number_at(&at, end);
        fresh.run = (uint32_t)number_at(&at, end);
        if (fresh.token == 0 || fresh.run == 0)
            return;
        redis_note_token(store, &fresh);
        redis_ring(store, &fresh.rid);
        /* Where replicas have to confirm it the grantee asks them himself. */
        store->host.changed(store->host.ctx, &fresh.rid,
                            store->replicas > 0 ? NULL : &fresh);
    } else if (text[0] == 'N' && *at == '-') {
        at++;
        redis_ring(store, &fresh.rid);
        store->host.news(store->host.ctx, &fresh.rid,
                         -(int)number_at(&at, end));
    }
}

/* ---- The format --------------------------------------------------------- */

static int native_open(hf_store *store, const hf_url *url, hf_error *err)
{
    native *data = hfd_alloc(sizeof *data);

    (void)url;
    if (!data)
        return hfd_error(err, HF_ENOMEM, "redis", 0, "out of memory");
    pthread_mutex_init(&data->mu, NULL);
    store->format_data = data;
    redis_scripts_ready();
    return 0;
}

static void native_close(hf_store *store)
{
    native *data = store->format_data;

    pthread_mutex_destroy(&data->mu);
    hfd_free(data);
}

static void native_start(hf_store *store, hf_op *op)
{
    switch (op->kind) {
    case HF_OP_ATTACH:
        redis_native_attach(store, op);
        return;
    case HF_OP_RENEW:
        redis_native_renew(store, op);
        return;
    case HF_OP_DETACH:
        redis_native_detach(store, op);
        return;
    case HF_OP_JOIN:
        redis_native_join(store, op);
        return;
    case HF_OP_LEAVE:
        redis_native_leave(store, op);
        return;
    case HF_OP_RECHECK:
        redis_native_recheck(store, op);
        return;
    case HF_OP_CONFIRM:
    case HF_OP_PUBLISH:
        redis_native_place(store, op);
        return;
    case HF_OP_EVICT:
        redis_native_evict(store, op);
        return;
    case HF_OP_LIST:
        redis_list_start(store, op);
        return;
    case HF_OP_PROBE:
        redis_probe_start(store, op);
        return;
    default:
        redis_op_refuse(op, HF_ENOTSUP, "an operation that is not known here");
    }
}

static const char *const native_options[] = {
    "ns", "strict", "max_lease_ms", "lag_ms", "replicas", NULL};

const redis_format redis_native = {
    .name = "native",
    .caps = HF_CAP_FIFO | HF_CAP_TOKEN | HF_CAP_PUSH | HF_CAP_SHARED |
            HF_CAP_PERMIT | HF_CAP_FIXED_LEASE | HF_CAP_VALUE | HF_CAP_BREAK |
            HF_CAP_MARKS | HF_CAP_RUN | HF_CAP_CLOCK,
    .options = native_options,
    .open = native_open,
    .close = native_close,
    .start = native_start,
    .message = native_message,
};
