/* etcd.c - the etcd driver: URL in, store out; operations to their files.
 *
 *     etcd://[user:password@]host[:port][,host2...][/prefix]?options
 *     etcds://...                  the same over TLS
 *
 * What a lock is, is in the other files; all that is sent goes through grpc.h.
 * Here: options, who does which operation, and the thread that waits (park).
 *
 * Parking: a change is told to the core by whichever thread reads it, and the
 * core unparks the thread it concerns.  An unpark that comes before the thread
 * has gone to sleep must not be lost: it rings the bell of the rid, whose
 * count was noted before the join or recheck that said "wait". */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "store.h"

enum { PORT = 2379 };
enum { FLIGHTS_MAX = 128 }; /* of what nobody drives */
static const hf_nsec dial_time = HF_MS(5000);
static const hf_nsec login_time = HF_MS(15000); /* more, with a user */

static const char *const option_names[] = {"ca_file",  "cert_file",  "key_file",
                                           "tls_name", "tls_verify", NULL};

/* ---- Operations --------------------------------------------------------- */

static void refuse(hf_store *store, hf_op *op, int code, const char *text)
{
    if (etcd_own_of(op)->counted)
        hf__line_ended(&store->line);
    op->sent = hfd_now();
    hfd_error(&op->error, code, "etcd", 0, "%s", text);
    hfd_finish(op, code == HF_EINVAL ? HF_NOT_APPLIED : HF_APPLIED, code);
}

static void start_join(hf_store *store, hf_op *op)
{
    const hf_place *place = op->place;

    if (place->key_len == 0 || place->key_len > HF_KEY_MAX ||
        op->value_len > HF_VALUE_MAX || place->mode > HF_PERMIT ||
        (place->mode == HF_PERMIT && place->places == 0) || place->lease < 0)
        refuse(store, op, HF_EINVAL, "the place to join with is malformed");
    else if (place->lease > 0)
        refuse(store, op, HF_ENOTSUP,
               "etcd has no fixed leases here (lease_ms)");
    else if (op->only_if_granted)
        etcd_try(store, op);
    else
        etcd_join(store, op);
}

static void run(hf_store *store, hf_op *op)
{
    switch (op->kind) {
    case HF_OP_ATTACH:
        etcd_attach(store, op);
        return;
    case HF_OP_RENEW:
        etcd_renew(store, op);
        return;
    case HF_OP_DETACH:
        etcd_detach(store, op);
        return;
    case HF_OP_JOIN:
        start_join(store, op);
        return;
    case HF_OP_LEAVE:
        etcd_leave(store, op);
        return;
    case HF_OP_RECHECK:
        etcd_recheck(store, op);
        return;
    case HF_OP_PUBLISH:
        etcd_publish(store, op);
        return;
    case HF_OP_EVICT:
        etcd_evict(store, op);
        return;
    case HF_OP_LIST:
        etcd_list(store, op);
        return;
    case HF_OP_PROBE:
        etcd_probe(store, op);
        return;
    default:
        refuse(store, op, HF_ENOTSUP,
               "etcd has no fixed leases here (lease_ms)");
    }
}

static void begin(void *ctx, hf_op *op)
{
    etcd_own_of(op)->counted = true;
    run(ctx, op);
}

static hf_op **behind(hf_op *op)
{
    return &etcd_own_of(op)->next;
}

static void etcd_start(hf_store *store, hf_op *op)
{
    memset(op->own, 0, sizeof(etcd_own));
    op->sent = 0; /* it may be started a second time */
    if (!op->driven && (op->kind == HF_OP_JOIN || op->kind == HF_OP_LEAVE ||
                        op->kind == HF_OP_PUBLISH))
        hf__line_start(&store->line, op);
    else
        run(store, op);
}

static void etcd_drive(hf_store *store, hf_op *op)
{
    etcd_own *own = etcd_own_of(op);

    if (own->under_way) /* else it was answered without a request */
        grpc_drive(store->channel, &own->call);
}

static int etcd_fd(hf_store *store)
{
    return grpc_fd(store->channel);
}

static void etcd_dispatch(hf_store *store)
{
    grpc_dispatch(store->channel);
}

/* ---- Parking ------------------------------------------------------------ */

static atomic_uint *bell_of(hf_store *store, const hf_id *rid)
{
    return &store->bells[rid->bytes[0] ^ rid->bytes[8]];
}

void etcd_note_bell(hf_store *store, hf_place *place)
{
    place->own[0] = atomic_load(bell_of(store, &place->rid));
}

static void etcd_park(hf_store *store, const hf_place *place, hf_nsec until)
{
    etcd_parked me = {.rid = place->rid};
    etcd_parked **at;
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
    grpc_park(store->channel, &me.waiter, until);
    pthread_mutex_lock(&store->park_mu);
    for (at = &store->parked; *at != &me; at = &(*at)->next)
        ;
    *at = me.next;
    pthread_mutex_unlock(&store->park_mu);
}

static void ring(hf_store *store, const hf_id *rid)
{
    pthread_mutex_lock(&store->park_mu);
    atomic_fetch_add(bell_of(store, rid), 1);
    for (etcd_parked *p = store->parked; p; p = p->next) {
        if (memcmp(&p->rid, rid, sizeof p->rid) == 0)
            grpc_wake(store->channel, &p->waiter);
    }
    pthread_mutex_unlock(&store->park_mu);
}

static void etcd_unpark(hf_store *store, const hf_place *place)
{
    ring(store, &place->rid);
}

void etcd_tell(hf_store *store, const hf_id *rid)
{
    ring(store, rid);
    store->host.changed(store->host.ctx, rid, NULL);
}

/* ---- What the channel tells --------------------------------------------- */

static void on_standing(void *ctx)
{
    hf_store *store = ctx;

    etcd_watch_standing(store->watcher);
}

static void on_doubt(void *ctx, int code, const char *text)
{
    hf_store *store = ctx;

    store->host.doubt(store->host.ctx, code, text);
}

/* ---- Opening ------------------------------------------------------------ */

static int read_tls(hf_store *store, const hf_url *url, hf_error *err)
{
    hf__tls_asked asked = {.driver = "etcd",
                           .with = "etcds://",
                           .alpn = "h2",
                           .wanted = strcmp(hfd_url_scheme(url), "etcds") == 0};

    return hf__tls_of_url(&store->tls, url, &asked, err);
}

/* What stands behind the first slash, as it is: "app/" for "/app/". */
static int read_prefix(hf_store *store, const hf_url *url, hf_error *err)
{
    const char *path = hfd_url_path(url);

    if (*path == '/')
        path++;
    store->prefix_len = strlen(path);
    if (store->prefix_len > ETCD_PREFIX_MAX)
        return hfd_error(err, HF_EURL, "etcd", 0,
                         "the prefix (the URL's path) has at most %d bytes",
                         ETCD_PREFIX_MAX);
    memcpy(store->prefix, path, store->prefix_len + 1);
    return 0;
}

static bool is_local(const char *host)
{
    return strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0 ||
           strncmp(host, "127.", 4) == 0;
}

static int open_channel(hf_store *store, const hf_url *url, hf_error *err)
{
    grpc_listener listener = {
        .ctx = store, .standing = on_standing, .doubt = on_doubt};
    hf__address addresses[ETCD_HOSTS_MAX];
    grpc_settings settings = {.addresses = addresses,
                              .tls = store->tls,
                              .user = hfd_url_user(url),
                              .password = hfd_url_password(url),
                              .dial_time = dial_time};
    size_t n = hfd_url_host_count(url);

    if (n > ETCD_HOSTS_MAX)
        return hfd_error(err, HF_EURL, "etcd", 0, "at most %d members",
                         ETCD_HOSTS_MAX);
    for (size_t i = 0; i < n; i++) {
        uint16_t port = hfd_url_port(url, i);
        const char *host = hfd_url_host(url, i);

        addresses[i] = (hf__address){.host = *host ? host : "127.0.0.1",
                                     .port = port ? port : PORT};
        if (!store->tls && !is_local(addresses[i].host))
            store->exposed = true;
    }
    if (n == 0)
        addresses[n++] = (hf__address){.host = "127.0.0.1", .port = PORT};
    for (size_t i = 0; i < n; i++)
        snprintf(store->where[i], sizeof store->where[i], "%s:%u",
                 addresses[i].host, addresses[i].port);
    settings.address_count = store->member_count = n;
    store->has_user = settings.user && *settings.user;
    if (store->has_user)
        settings.dial_time += login_time;
    return grpc_open(&store->channel, &settings, &listener, err);
}

static void etcd_close(hf_store *store)
{
    if (store->channel) {
        etcd_watch_free(store->watcher);
        grpc_close(store->channel);
    } else {
        hfd_free(store->watcher); /* it has not begun */
    }
    while (store->spare) {
        etcd_work *work = store->spare;

        store->spare = work->next;
        etcd_work_free(work);
    }
    hf__tls_free(store->tls);
    pthread_mutex_destroy(&store->park_mu);
    pthread_mutex_destroy(&store->mu);
    hf__line_close(&store->line);
    hfd_free(store);
}

static int etcd_open(hf_store **ret, const hf_url *url, const hf_host *host,
                     uint32_t *ret_caps, hf_error *err)
{
    hf_store *store = hfd_alloc(sizeof *store);
    int code;

    if (!store)
        return hfd_error(err, HF_ENOMEM, "etcd", 0, "out of memory");
    store->host = *host;
    pthread_mutex_init(&store->mu, NULL);
    store->line = (hf__line){.driver = "etcd",
                             .ctx = store,
                             .most = FLIGHTS_MAX,
                             .begin = begin,
                             .behind = behind};
    hf__line_open(&store->line);
    pthread_mutex_init(&store->park_mu, NULL);
    if (gethostname(store->host_name, sizeof store->host_name - 1) != 0)
        store->host_name[0] = '\0';
    store->pid = getpid();
    store->watcher = etcd_watch_new(store);
    code = store->watcher
               ? read_prefix(store, url, err)
               : hfd_error(err, HF_ENOMEM, "etcd", 0, "out of memory");
    if (code == 0)
        code = read_tls(store, url, err);
    if (code == 0)
        code = open_channel(store, url, err);
    if (code) {
        etcd_close(store);
        return code;
    }
    *ret_caps = HF_CAP_FIFO | HF_CAP_TOKEN | HF_CAP_PUSH | HF_CAP_SHARED |
                HF_CAP_PERMIT | HF_CAP_VALUE | HF_CAP_BREAK |
                HF_CAP_LINEARIZABLE | HF_CAP_FAILOVER_SAFE;
    *ret = store;
    return 0;
}

static void etcd_abandon(hf_store *store)
{
    grpc_abandon(store->channel);
}

static const hf_driver etcd_driver = {
    HF_DRIVER_HEAD,
    .name = "etcd",
    .schemes = "etcd etcds",
    .options = option_names,
    .open = etcd_open,
    .close = etcd_close,
    .abandon = etcd_abandon,
    .start = etcd_start,
    .drive = etcd_drive,
    .fd = etcd_fd,
    .dispatch = etcd_dispatch,
    .park = etcd_park,
    .unpark = etcd_unpark,
};
HF_DRIVER_EXPORT(etcd_driver);
