/* zookeeper.c - the zookeeper driver: URL in, store out.
 *
 *     zookeeper://[user:password@]host[:port][,host2...][/root]?options
 *     zookeepers://...                 the same over TLS
 *
 * Here are the options, the table of the driver and who does which operation.
 * What a lock is, is in join.c, look.c and leave.c; how long one may believe in
 * it in session.c; the protocol in wire.c.  One session of the server stands
 * for one session of the core, over one connection at a time. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "store.h"

enum { PORT = 2181, HOSTS_MAX = 16, TICK_MS = 2000, TICK_MS_MAX = 60000 };
enum { FLIGHTS_MAX = 128 }; /* of what nobody drives */
static const hf_nsec dial_time = HF_MS(3000);

static const char *const option_names[] = {
    "tick_ms",   "heartbeat", "format",   "layout",     "acl", "ca_file",
    "cert_file", "key_file",  "tls_name", "tls_verify", NULL};

/* ---- Operations --------------------------------------------------------- */

static void run(hf_store *store, hf_op *op)
{
    switch (op->kind) {
    case HF_OP_ATTACH:
        zk_attach(store, op);
        return;
    case HF_OP_RENEW:
        zk_renew(store, op);
        return;
    case HF_OP_DETACH:
        zk_detach(store, op);
        return;
    case HF_OP_JOIN:
        zk_join(store, op);
        return;
    case HF_OP_LEAVE:
        zk_leave(store, op);
        return;
    case HF_OP_RECHECK:
        zk_recheck(store, op);
        return;
    case HF_OP_LIST:
        zk_list(store, op);
        return;
    case HF_OP_PUBLISH:
        zk_publish(store, op);
        return;
    case HF_OP_EVICT:
        zk_evict(store, op);
        return;
    case HF_OP_PROBE:
        zk_probe(store, op);
        return;
    default:
        zk_op_refuse(op, HF_APPLIED, HF_ENOTSUP,
                     "this store has no fixed leases");
    }
}

static void begin(void *ctx, hf_op *op)
{
    hf_store *store = ctx;

    op->own[ZK_OWN_LINE] = (uintptr_t)&store->line;
    run(store, op);
}

static hf_op **behind(hf_op *op)
{
    return (hf_op **)(void *)&op->own[ZK_OWN_NEXT];
}

static void zk_start(hf_store *store, hf_op *op)
{
    op->own[ZK_OWN_JOB] = op->own[ZK_OWN_LINE] = 0;
    op->sent = 0; /* it may be started a second time */
    if (!op->driven && (op->kind == HF_OP_JOIN || op->kind == HF_OP_LEAVE ||
                        op->kind == HF_OP_PUBLISH))
        hf__line_start(&store->line, op);
    else
        run(store, op);
}

static int zk_fd(hf_store *store)
{
    return zk_wire_fd(store->wire);
}

static void zk_dispatch(hf_store *store)
{
    zk_wire_dispatch(store->wire);
}

/* ---- Opening ------------------------------------------------------------ */

/* One of two words; *ret: the second. */
static int read_choice(const hf_url *url, const char *option, const char *first,
                       const char *second, bool *ret, hf_error *err)
{
    const char *text = hfd_url_option(url, option);

    *ret = text && strcmp(text, second) == 0;
    if (text && !*ret && strcmp(text, first) != 0)
        return hfd_error(err, HF_EURL, "zookeeper", 0,
                         "option '%s' is '%.40s': %s or %s", option, text,
                         first, second);
    return 0;
}

static int read_options(hf_store *store, const hf_url *url, hf_error *err)
{
    int64_t tick_ms = TICK_MS;
    int code = hfd_url_number(url, "tick_ms", 1, TICK_MS_MAX, &tick_ms, err);

    store->tick = HF_MS(tick_ms);
    if (code == 0)
        code = read_choice(url, "heartbeat", "sync", "write",
                           &store->write_beats, err);
    if (code == 0)
        code =
            read_choice(url, "format", "curator", "kazoo", &store->kazoo, err);
    if (code == 0)
        code = read_choice(url, "layout", "mutex", "rw", &store->rw, err);
    if (code == 0)
        code =
            read_choice(url, "acl", "open", "creator", &store->closed_acl, err);
    if (code == 0 && store->kazoo && hfd_url_option(url, "layout"))
        code = hfd_error(err, HF_EURL, "zookeeper", 0,
                         "layout is for format=curator: kazoo has one");
    if (code == 0 && store->closed_acl && !*hfd_url_user(url))
        code = hfd_error(err, HF_EURL, "zookeeper", 0,
                         "acl=creator needs user:password in the URL");
    return code;
}

static int read_root(hf_store *store, const hf_url *url, hf_error *err)
{
    const char *path = hfd_url_path(url);
    size_t len = strlen(path);

    while (len > 0 && path[len - 1] == '/')
        len--;
    if (len <= ZK_ROOT_MAX) {
        memcpy(store->root, path, len);
        store->root_len = len;
    }
    if (len > ZK_ROOT_MAX || !zk_path_is_root(store->root, store->root_len))
        return hfd_error(err, HF_EURL, "zookeeper", 0,
                         "'%.80s' cannot be the node that keys are below: a "
                         "path such as /locks, at most %d bytes, not below "
                         "/zookeeper",
                         path, ZK_ROOT_MAX);
    return 0;
}

static int read_tls(hf_store *store, const hf_url *url, hf_error *err)
{
    hf__tls_asked asked = {.driver = "zookeeper",
                           .with = "zookeepers://",
                           .wanted =
                               strcmp(hfd_url_scheme(url), "zookeepers") == 0};

    return hf__tls_of_url(&store->tls, url, &asked, err);
}

/* Does this name or number mean the machine itself? */
static bool is_local(const char *host)
{
    struct in_addr four;
    struct in6_addr six;

    if (inet_pton(AF_INET, host, &four) == 1)
        return (ntohl(four.s_addr) >> 24) == 127;
    if (inet_pton(AF_INET6, host, &six) == 1)
        return IN6_IS_ADDR_LOOPBACK(&six);
    return strcasecmp(host, "localhost") == 0;
}

/* For the doctor. */
static void note_members(hf_store *store, const hf__address *addresses,
                         size_t n)
{
    store->member_count = n;
    for (size_t i = 0; i < n; i++) {
        snprintf(store->members[i], sizeof store->members[i], "%.70s:%u",
                 addresses[i].host, (unsigned)addresses[i].port);
        if (!store->tls && !is_local(addresses[i].host))
            store->exposed = true;
    }
}

/* The addresses point into the URL, which lives as long as the call. */
static int read_addresses(const hf_url *url, hf__address *addresses,
                          size_t *ret_count, hf_error *err)
{
    size_t n = hfd_url_host_count(url);

    if (n > HOSTS_MAX)
        return hfd_error(err, HF_EURL, "zookeeper", 0, "at most %d hosts",
                         HOSTS_MAX);
    for (size_t i = 0; i < n; i++) {
        uint16_t port = hfd_url_port(url, i);
        const char *host = hfd_url_host(url, i);

        addresses[i] = (hf__address){.host = *host ? host : "127.0.0.1",
                                     .port = port ? port : PORT};
    }
    if (n == 0)
        addresses[n++] = (hf__address){.host = "127.0.0.1", .port = PORT};
    *ret_count = n;
    return 0;
}

static int open_wire(hf_store *store, const hf_url *url, hf_error *err)
{
    zk_listener listener = {.ctx = store,
                            .event = zk_on_event,
                            .again = zk_on_again,
                            .doubt = zk_on_doubt,
                            .over = zk_on_over};
    hf__address addresses[HOSTS_MAX];
    zk_settings settings = {.addresses = addresses,
                            .tls = store->tls,
                            .dial_time = dial_time,
                            .tick = store->tick};
    char auth[512];
    int code = read_addresses(url, addresses, &settings.address_count, err);
    int n;

    if (code)
        return code;
    note_members(store, addresses, settings.address_count);
    if (*hfd_url_user(url)) {
        n = snprintf(auth, sizeof auth, "%s:%s", hfd_url_user(url),
                     hfd_url_password(url));
        if (n < 0 || (size_t)n >= sizeof auth)
            return hfd_error(err, HF_EURL, "zookeeper", 0,
                             "user and password are too long");
        settings.auth = auth;
    }
    return zk_wire_open(&store->wire, &settings, &listener, err);
}

static void free_spares(hf_store *store)
{
    while (store->spare_jobs) {
        zk_job *job = store->spare_jobs;

        store->spare_jobs = job->next;
        zk_job_free(job);
    }
    zk_table_done(store);
}

static void free_store(hf_store *store)
{
    if (store->wire)
        zk_wire_close(store->wire);
    free_spares(store);
    hf__tls_free(store->tls);
    pthread_mutex_destroy(&store->park_mu);
    pthread_mutex_destroy(&store->mu);
    hf__line_close(&store->line);
    hfd_free(store);
}

static uint32_t caps_of(const hf_store *store)
{
    return (store->kazoo ? 0u : (uint32_t)HF_CAP_PERMIT) | HF_CAP_FIFO |
           HF_CAP_TOKEN | HF_CAP_PUSH | HF_CAP_SHARED | HF_CAP_VALUE |
           HF_CAP_BREAK | HF_CAP_LINEARIZABLE | HF_CAP_FAILOVER_SAFE;
}

static int zk_open(hf_store **ret, const hf_url *url, const hf_host *host,
                   uint32_t *ret_caps, hf_error *err)
{
    hf_store *store = hfd_alloc(sizeof *store);
    int code;

    if (!store)
        return hfd_error(err, HF_ENOMEM, "zookeeper", 0, "out of memory");
    store->host = *host;
    pthread_mutex_init(&store->mu, NULL);
    store->line = (hf__line){.driver = "zookeeper",
                             .ctx = store,
                             .most = FLIGHTS_MAX,
                             .begin = begin,
                             .behind = behind};
    hf__line_open(&store->line);
    pthread_mutex_init(&store->park_mu, NULL);
    store->pid = getpid();
    if (gethostname(store->host_name, sizeof store->host_name - 1) != 0)
        store->host_name[0] = '\0';
    code = read_options(store, url, err);
    if (code == 0)
        code = read_root(store, url, err);
    if (code == 0)
        code = read_tls(store, url, err);
    if (code == 0)
        code = open_wire(store, url, err);
    if (code) {
        free_store(store);
        return code;
    }
    *ret_caps = caps_of(store);
    *ret = store;
    return 0;
}

static void zk_abandon(hf_store *store)
{
    zk_wire_abandon(store->wire);
}

static const hf_driver zk_driver = {
    HF_DRIVER_HEAD,
    .name = "zookeeper",
    .schemes = "zookeeper zookeepers",
    .options = option_names,
    .open = zk_open,
    .close = free_store,
    .abandon = zk_abandon,
    .start = zk_start,
    .drive = zk_store_drive,
    .fd = zk_fd,
    .dispatch = zk_dispatch,
    .park = zk_park,
    .unpark = zk_unpark,
};
HF_DRIVER_EXPORT(zk_driver);
