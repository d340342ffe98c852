/* url.c - what a URL says about a Redis store.
 *
 * Answers: which format, which namespace, how strict, over TLS or not, which
 * database, which servers?  Every option is read here but those of a single
 * format (its open) and those of a topology (sentinel.c, cluster_open.c).  What
 * contradicts itself, or means nothing to the rest, is refused with HF_EURL.
 * Sends nothing but through the wire, whose first connection is opened here.
 *
 * strict is on by default where servers are replaced by a failover manager:
 * there a lock is forgotten sooner or later, and who does not want to wait a
 * lease then has to say so. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster.h"
#include "sentinel.h"
#include "store.h"

enum { PORT = 6379, HOSTS_MAX = 16, NS_MAX = 64 };
/* How many connections for commands: one carries many threads at the least
 * cost for the server, a few carry more where cores are free (measured:
 * benchmarks/README.md). */
enum { CONNECTIONS = 2, CONNECTIONS_MAX = 16 };
static const hf_nsec dial_time = HF_MS(3000);

static const redis_format *const formats[] = {&redis_native, &redis_simple,
                                              &redis_spring, &redis_redisson};
const char *const redis_url_options[] = {"format",
                                         "ns",
                                         "strict",
                                         "max_lease_ms",
                                         "connections",
                                         "db",
                                         "ca_file",
                                         "cert_file",
                                         "key_file",
                                         "tls_name",
                                         "tls_verify",
                                         "prefix",
                                         "fenced",
                                         "registry_key",
                                         "replicas",
                                         "lag_ms",
                                         "sentinel_user",
                                         "sentinel_password",
                                         NULL};

static int find_format(hf_store *store, const hf_url *url, hf_error *err)
{
    const char *name = hfd_url_option(url, "format");
    /* Options that only some formats read. */
    static const char *const special[] = {"prefix",   "fenced", "registry_key",
                                          "ns",       "strict", "max_lease_ms",
                                          "replicas", "lag_ms"};

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

    if (!ns)
        ns = "holdfast";
    if (!*ns || strlen(ns) > NS_MAX || strpbrk(ns, "{} \t\r\n"))
        return hfd_error(err, HF_EURL, "redis", 0,
                         "ns is a name of 1 to %d bytes without braces and "
                         "spaces",
                         NS_MAX);
    store->prefix_len =
        (size_t)snprintf(store->prefix, sizeof store->prefix, "hf:{%s}:", ns);
    return 0;
}

static int read_promises(hf_store *store, const hf_url *url, hf_error *err)
{
    static const char *const strict_only[] = {"max_lease_ms", "lag_ms"};
    bool cluster = redis_url_is_cluster(url);
    bool managed = cluster || redis_url_is_sentinel(url);
    int code;

    store->max_lease_ms = 60000;
    /* min-replicas-max-lag as it comes, and the second in which it is seen.  In
     * a cluster: nodes ping each other every half of cluster-node-timeout at
     * the least, so one that is cut off may stop half of it after the others
     * have given it up. */
    store->lag_ms = cluster ? 8500 : managed ? 11000 : 0;
    store->strict = managed && store->format == &redis_native;
    code = hfd_url_flag(url, "strict", &store->strict, err);
    if (code == 0)
        code = hfd_url_number(url, "max_lease_ms", 1000, 86400000,
                              &store->max_lease_ms, err);
    if (code == 0)
        code = hfd_url_number(url, "lag_ms", 0, 3600000, &store->lag_ms, err);
    if (code == 0)
        code = hfd_url_number(url, "replicas", 0, 100, &store->replicas, err);
    if (code == 0 && cluster && store->replicas > 0)
        code = hfd_error(err, HF_EURL, "redis", 0,
                         "replicas= is not for clusters: strict=yes, the "
                         "default, covers a failover");
    for (size_t i = 0; code == 0 && !store->strict && i < 2; i++) {
        if (hfd_url_option(url, strict_only[i]))
            code = hfd_error(err, HF_EURL, "redis", 0, "%s is for strict=yes",
                             strict_only[i]);
    }
    return code;
}

static int read_tls(hf_store *store, const hf_url *url, hf_error *err)
{
    hf__tls_asked asked = {.driver = "redis",
                           .with = "TLS (rediss)",
                           .wanted =
                               strncmp(hfd_url_scheme(url), "rediss", 6) == 0};

    return hf__tls_of_url(&store->tls, url, &asked, err);
}

static int read_database(const hf_url *url, const char *path, int *ret,
                         hf_error *err)
{
    int64_t db = 0;
    char *end;

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
    uint16_t default_port =
        redis_url_is_sentinel(url) ? REDIS_SENTINEL_PORT : PORT;
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
                                     .port = port ? port : default_port};
        if (!store->tls && !redis_host_is_local(addresses[i].host))
            store->exposed = true;
    }
    if (n == 0)
        addresses[n++] =
            (hf__address){.host = "127.0.0.1", .port = default_port};
    *ret_count = n;
    return 0;
}

int redis_url_read(hf_store *store, const hf_url *url, hf_error *err)
{
    int code = find_format(store, url, err);

    if (code == 0)
        code = read_namespace(store, url, err);
    if (code == 0)
        code = read_promises(store, url, err);
    if (code == 0)
        code = read_tls(store, url, err);
    return code;
}

int redis_url_dial(hf_store *store, const hf_url *url,
                   const redis_listener *listener, hf_error *err)
{
    bool local = strcmp(hfd_url_scheme(url), "redis+unix") == 0;
    const char *path = local ? "" : hfd_url_path(url);
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
        code = redis_sentinel_open(store, url, &settings, &path, err);
    if (code == 0)
        code = redis_cluster_open(store, url, &settings, err);
    if (code == 0)
        code = read_database(url, path, &settings.database, err);
    if (code == 0)
        code =
            hfd_url_number(url, "connections", 1, CONNECTIONS_MAX, &most, err);
    settings.most = (unsigned)most;
    settings.finder = store->finder.find ? &store->finder : NULL;
    settings.waits = store->replicas > 0;
    if (code == 0)
        code = redis_wire_open(&store->wire, &settings, listener, err);
    if (code == 0 && store->cluster)
        code = redis_cluster_attend(store, err);
    return code;
}
