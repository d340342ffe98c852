/* redis.c - the redis driver: URL in, store out; operations to the format.
 *
 *     redis://[user[:password]@]host[:port][,host2...][/db]?options
 *     rediss://...                 the same over TLS
 *     redis+unix:///path?db=N      a Unix socket
 *
 * Everything that a lock is, is in the format (native.c, format_*.c); all that
 * is sent goes through wire.c.  Here: options, the thread that waits (park),
 * and operations of more than one round trip.
 *
 * Parking: a push is told to the core by whichever thread reads it, and the
 * core unparks the thread it concerns.  An unpark that comes before the thread
 * has gone to sleep must not be lost: it rings the bell of the rid, whose
 * count was noted before the join or recheck that said "wait". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store.h"

enum { PORT = 6379, HOSTS_MAX = 16, NS_MAX = 64 };
/* How many connections for commands: one carries many threads at the least
 * cost for the server, a few carry more where cores are free (measured:
 * benchmarks/README.md). */
enum { CONNECTIONS = 2, CONNECTIONS_MAX = 64 };
static const hf_nsec dial_time = HF_MS(3000);

static const redis_format *const formats[] = {&redis_native, &redis_simple,
                                              &redis_spring, &redis_redisson};
static const char *const option_names[] = {
    "format",     "ns",      "strict",    "max_lease_ms", "connections",
    "db",         "ca_file", "cert_file", "key_file",     "tls_name",
    "tls_verify", "prefix",  "fenced",    "registry_key", NULL};

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

/* Of several round trips the first counts: nothing was promised before it. */
static void note_sent(hf_op *op)
{
    if (op->sent == 0)
        op->sent = redis_op_of(op)->call.sent;
}

void redis_op_failed(hf_op *op, hf_outcome outcome, const hf_error *why)
{
    note_sent(op);
    op->error = *why;
    hfd_finish(op, outcome, why->code ? why->code : HF_EUNAVAIL);
}

void redis_op_refuse(hf_op *op, int code, const char *text)
{
    note_sent(op);
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

static int find_format(hf_store *store, const hf_url *url, hf_error *err)
{
    const char *name = hfd_url_option(url, "format");
    /* Options that only some formats read. */
    static const char *const special[] = {"prefix", "fenced", "registry_key",
                                          "ns",     "strict", "max_lease_ms"};

    store->format = name ? NULL : &redis_native;
    for (size_t i = 0; name && i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(formats[i]->name, name) == 0)
            store->format = formats[i];
    }
    if (!store->format)
        return hfd_error(err, HF_EURL, "redis", 0,
                         "format '%.40s' is not known: native, simple, spring "
                         "or redisson",
                         name);
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
        const char *const *known = store->format->options;

        while (*known && strcmp(*known, special[i]) != 0)
            known++;
        if (!*known && hfd_url_option(url, special[i]))
            return hfd_error(err, HF_EURL, "redis", 0,
                             "option '%s' means nothing to format '%s'",
                             special[i], store->format->name);
    }
    return 0;
}

static int read_namespace(hf_store *store, const hf_url *url, hf_error *err)
{
    const char *ns = hfd_url_option(url, "ns");
    int code;

    if (!ns)
        ns = "holdfast";
    if (!*ns || strlen(ns) > NS_MAX || strpbrk(ns, "{} \t\r\n"))
        return hfd_error(err, HF_EURL, "redis", 0,
                         "ns is a name of 1 to %d bytes without braces and "
                         "spaces",
                         NS_MAX);
    store->prefix_len =
        (size_t)snprintf(store->prefix, sizeof store->prefix, "hf:{%s}:", ns);
    store->max_lease_ms = 60000;
    code = hfd_url_flag(url, "strict", &store->strict, err);
    if (code == 0)
        code = hfd_url_number(url, "max_lease_ms", 1000, 86400000,
                              &store->max_lease_ms, err);
    if (code == 0 && !store->strict && hfd_url_option(url, "max_lease_ms"))
        code = hfd_error(err, HF_EURL, "redis", 0,
                         "max_lease_ms is for strict=yes");
    return code;
}

static int read_tls(hf_store *store, const hf_url *url, hf_error *err)
{
    static const char *const names[] = {"ca_file", "cert_file", "key_file",
                                        "tls_name", "tls_verify"};
    bool verify = true;
    hf__tls_options options = {
        .ca_file = hfd_url_option(url, "ca_file"),
        .cert_file = hfd_url_option(url, "cert_file"),
        .key_file = hfd_url_option(url, "key_file"),
        .server_name = hfd_url_option(url, "tls_name"),
    };
    int code = hfd_url_flag(url, "tls_verify", &verify, err);

    if (code)
        return code;
    options.insecure = !verify;
    if (strcmp(hfd_url_scheme(url), "rediss") == 0)
        return hf__tls_new(&store->tls, &options, err);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (hfd_url_option(url, names[i]))
            return hfd_error(err, HF_EURL, "redis", 0,
                             "option '%s' is for rediss://", names[i]);
    }
    return 0;
}

static int read_database(const hf_url *url, bool local, int *ret, hf_error *err)
{
    const char *path = hfd_url_path(url);
    int64_t db = 0;
    char *end;

    if (local)
        path = "";
    if (*path == '/')
        path++;
    if (*path && hfd_url_option(url, "db"))
        return hfd_error(err, HF_EURL, "redis", 0,
                         "the database is named twice: by the path and by db");
    if (*path) {
        db = strtoll(path, &end, 10);
        if (*end || *path < '0' || *path > '9' || db > 1000000)
            return hfd_error(err, HF_EURL, "redis", 0,
                             "'/%.40s' is not the number of a database", path);
    }
    if (hfd_url_number(url, "db", 0, 1000000, &db, err) != 0)
        return HF_EURL;
    *ret = (int)db;
    return 0;
}

/* The addresses point into the URL, which lives as long as the call. */
static int read_addresses(hf_store *store, const hf_url *url, bool local,
                          hf__address *addresses, size_t *ret_count,
                          hf_error *err)
{
    size_t n = hfd_url_host_count(url);

    if (local) {
        if (!*hfd_url_path(url))
            return hfd_error(err, HF_EURL, "redis", 0,
                             "redis+unix needs the path of a socket: "
                             "redis+unix:///run/redis/redis.sock");
        addresses[0] =
            (hf__address){.host = hfd_url_path(url), .path = hfd_url_path(url)};
        *ret_count = 1;
        return 0;
    }
    if (n > HOSTS_MAX)
        return hfd_error(err, HF_EURL, "redis", 0, "at most %d hosts",
                         HOSTS_MAX);
    for (size_t i = 0; i < n; i++) {
        uint16_t port = hfd_url_port(url, i);
        const char *host = hfd_url_host(url, i);

        addresses[i] = (hf__address){.host = *host ? host : "127.0.0.1",
                                     .port = port ? port : PORT};
        if (!store->tls && !redis_host_is_local(addresses[i].host))
            store->exposed = true;
    }
    if (n == 0)
        addresses[n++] = (hf__address){.host = "127.0.0.1", .port = PORT};
    *ret_count = n;
    return 0;
}

static int open_wire(hf_store *store, const hf_url *url, hf_error *err)
{
    bool local = strcmp(hfd_url_scheme(url), "redis+unix") == 0;
    redis_listener listener = {.ctx = store,
                               .message = on_message,
                               .listening = on_listening,
                               .doubt = on_doubt};
    hf__address addresses[HOSTS_MAX];
    redis_settings settings = {.addresses = addresses,
                               .tls = store->tls,
                               .user = hfd_url_user(url),
                               .password = hfd_url_password(url),
                               .client_name = "holdfast",
                               .dial_time = dial_time};
    int64_t most = CONNECTIONS;
    int code = read_addresses(store, url, local, addresses,
                              &settings.address_count, err);

    if (code == 0)
        code = read_database(url, local, &settings.database, err);
    if (code == 0)
        code =
            hfd_url_number(url, "connections", 1, CONNECTIONS_MAX, &most, err);
    settings.most = (unsigned)most;
    if (code == 0)
        code = redis_wire_open(&store->wire, &settings, &listener, err);
    return code;
}

static void free_store(hf_store *store)
{
    if (store->wire)
        redis_wire_close(store->wire);
    if (store->format_data)
        store->format->close(store);
    hf__tls_free(store->tls);
    pthread_mutex_destroy(&store->park_mu);
    hfd_free(store);
}

static int redis_open(hf_store **ret, const hf_url *url, const hf_host *host,
                      uint32_t *ret_caps, hf_error *err)
{
    hf_store *store = hfd_alloc(sizeof *store);
    int code;

    if (!store)
        return hfd_error(err, HF_ENOMEM, "redis", 0, "out of memory");
    store->host = *host;
    pthread_mutex_init(&store->park_mu, NULL);
    if (gethostname(store->host_name, sizeof store->host_name - 1) != 0)
        store->host_name[0] = '\0';
    code = find_format(store, url, err);
    if (code == 0)
        code = read_namespace(store, url, err);
    if (code == 0)
        code = read_tls(store, url, err);
    if (code == 0)
        code = store->format->open(store, url, err);
    if (code == 0)
        code = open_wire(store, url, err);
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
}

static const hf_driver redis_driver = {
    HF_DRIVER_HEAD,
    .name = "redis",
    .schemes = "redis rediss redis+unix",
    .options = option_names,
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
