/* redis.c - the redis driver: URL in, store out; operations to the format.
 *
 *     redis://[user[:password]@]host[:port][,host2...][/db]?options
 *     rediss://...                      the same over TLS
 *     redis+unix:///path?db=N           a Unix socket
 *     redis+sentinel://host,.../NAME    whom the sentinels name (sentinel.c)
 *     rediss+sentinel://...             the same over TLS
 *     redis+cluster://host,...          the owner of our slot (cluster.c)
 *     rediss+cluster://...              the same over TLS
 *
 * Everything that a lock is, is in the format (native.c, format_*.c); all that
 * is sent goes through wire.c; options are read by url.c.  Here: the thread
 * that waits (park), and operations of more than one round trip.
 *
 * Parking: a push is told to the core by whichever thread reads it, and the
 * core unparks the thread it concerns.  An unpark that comes before the thread
 * has gone to sleep must not be lost: it rings the bell of the rid, whose
 * count was noted before the join or recheck that said "wait". */
#include <string.h>
#include <unistd.h>

#include "cluster.h"

/* ---- Operations --------------------------------------------------------- */

void redis_op_send(hf_store *store, hf_op *op,
                   void (*encode)(redis_call *call, hf__buf *out,
                                  const redis_server *server),
                   void (*landed)(redis_call *call, hf_outcome outcome,
                                  const resp *reply, const hf_error *why))
{
    redis_op *own = redis_op_of(op);

    own->store = store;
    if (!own->under_way) {
        /* Not again when it is sent on from `landed`: the thread that drives
         * it may be reading them. */
        own->under_way = true;
        own->call.deadline = op->deadline;
        own->call.driven = op->driven;
    }
    own->call.encode = encode;
    own->call.landed = landed;
    redis_wire_start(store->wire, &own->call);
}

void redis_note_sent(hf_op *op)
{
    if (op->sent == 0)
        op->sent = redis_op_of(op)->call.sent;
}

void redis_op_failed(hf_op *op, hf_outcome outcome, const hf_error *why)
{
    redis_note_sent(op);
    op->error = *why;
    hfd_finish(op, outcome, why->code ? why->code : HF_EUNAVAIL);
}

void redis_op_refuse(hf_op *op, int code, const char *text)
{
    redis_note_sent(op);
    hfd_error(&op->error, code, "redis", 0, "%s", text);
    hfd_finish(op, HF_APPLIED, code);
}

static void redis_start(hf_store *store, hf_op *op)
{
    memset(op->own, 0, sizeof(redis_op));
    op->sent = 0; /* it may be started a second time */
    store->format->start(store, op);
}

static void redis_drive(hf_store *store, hf_op *op)
{
    redis_op *own = redis_op_of(op);

    if (own->under_way) /* else it was answered without a round trip */
        redis_wire_drive(store->wire, &own->call);
}

static int redis_fd(hf_store *store)
{
    return redis_wire_fd(store->wire);
}

static void redis_dispatch(hf_store *store)
{
    redis_wire_dispatch(store->wire);
    if (store->cluster)
        redis_cluster_dispatch(store->cluster);
}

/* ---- Parking ------------------------------------------------------------ */

static atomic_uint *bell_of(hf_store *store, const hf_id *rid)
{
    return &store->bells[rid->bytes[0] ^ rid->bytes[8]];
}

void redis_note_bell(hf_store *store, hf_place *place)
{
    place->own[0] = atomic_load(bell_of(store, &place->rid));
}

static void redis_park(hf_store *store, const hf_place *place, hf_nsec until)
{
    redis_parked me = {.rid = place->rid};
    redis_parked **at;
    bool rung;

    pthread_mutex_lock(&store->park_mu);
    rung = atomic_load(bell_of(store, &place->rid)) != (unsigned)place->own[0];
    if (!rung) {
        me.next = store->parked;
        store->parked = &me;
    }
    pthread_mutex_unlock(&store->park_mu);
    if (rung)
        return;
    redis_wire_park(store->wire, &me.waiter, until);
    pthread_mutex_lock(&store->park_mu);
    for (at = &store->parked; *at != &me; at = &(*at)->next)
        ;
    *at = me.next;
    pthread_mutex_unlock(&store->park_mu);
}

void redis_ring(hf_store *store, const hf_id *rid)
{
    pthread_mutex_lock(&store->park_mu);
    atomic_fetch_add(bell_of(store, rid), 1);
    for (redis_parked *p = store->parked; p; p = p->next) {
        if (memcmp(&p->rid, rid, sizeof p->rid) == 0)
            redis_wire_wake(store->wire, &p->waiter);
    }
    pthread_mutex_unlock(&store->park_mu);
}

int redis_hear(hf_store *store, const char *channel, size_t len, bool on)
{
    if (on)
        return redis_wire_listen(store->wire, channel, len, false);
    redis_wire_unlisten(store->wire, channel, len, false);
    return 0;
}

/* Anybody's grant may have been told while nobody listened. */
static void ring_all(hf_store *store)
{
    pthread_mutex_lock(&store->park_mu);
    for (size_t i = 0; i < REDIS_BELLS; i++)
        atomic_fetch_add(&store->bells[i], 1);
    for (redis_parked *p = store->parked; p; p = p->next)
        redis_wire_wake(store->wire, &p->waiter);
    pthread_mutex_unlock(&store->park_mu);
}

static void redis_unpark(hf_store *store, const hf_place *place)
{
    redis_ring(store, &place->rid);
}

/* ---- What the wire tells ------------------------------------------------ */

static void on_message(void *ctx, const char *channel, size_t channel_len,
                       const char *text, size_t len)
{
    hf_store *store = ctx;

    store->format->message(store, channel, channel_len, text, len);
}

static void on_listening(void *ctx)
{
    hf_store *store = ctx;

    ring_all(store);
    store->host.changed(store->host.ctx, NULL, NULL);
}

static void on_doubt(void *ctx, int code, const char *text)
{
    hf_store *store = ctx;

    store->host.doubt(store->host.ctx, code, text);
}

/* ---- Opening ------------------------------------------------------------ */

static void free_store(hf_store *store)
{
    if (store->wire)
        redis_wire_close(store->wire);
    if (store->format_data)
        store->format->close(store);
    if (store->finder_close)
        store->finder_close(store->finder.ctx);
    hf__tls_free(store->tls);
    pthread_mutex_destroy(&store->park_mu);
    hfd_free(store);
}

static int redis_open(hf_store **ret, const hf_url *url, const hf_host *host,
                      uint32_t *ret_caps, hf_error *err)
{
    hf_store *store = hfd_alloc(sizeof *store);
    redis_listener listener = {.ctx = store,
                               .message = on_message,
                               .listening = on_listening,
                               .doubt = on_doubt};
    int code;

    if (!store)
        return hfd_error(err, HF_ENOMEM, "redis", 0, "out of memory");
    store->host = *host;
    pthread_mutex_init(&store->park_mu, NULL);
    if (gethostname(store->host_name, sizeof store->host_name - 1) != 0)
        store->host_name[0] = '\0';
    code = redis_url_read(store, url, err);
    if (code == 0)
        code = store->format->open(store, url, err);
    if (code == 0)
        code = redis_url_dial(store, url, &listener, err);
    if (code) {
        free_store(store);
        return code;
    }
    *ret_caps = store->format->caps | store->more_caps;
    *ret = store;
    return 0;
}

static void redis_abandon(hf_store *store)
{
    redis_wire_abandon(store->wire);
    if (store->cluster)
        redis_cluster_abandon(store->cluster);
}

static const hf_driver redis_driver = {
    HF_DRIVER_HEAD,
    .name = "redis",
    .schemes = "redis rediss redis+unix redis+sentinel rediss+sentinel "
               "redis+cluster rediss+cluster",
    .options = redis_url_options,
    .open = redis_open,
    .close = free_store,
    .abandon = redis_abandon,
    .start = redis_start,
    .drive = redis_drive,
    .fd = redis_fd,
    .dispatch = redis_dispatch,
    .park = redis_park,
    .unpark = redis_unpark,
};
HF_DRIVER_EXPORT(redis_driver);
