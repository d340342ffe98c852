/* cluster_open.c - a store in a Redis Cluster is opened and closed.
 *
 *     redis+cluster://[user[:password]@]host[:port][,host2...]?options
 *     rediss+cluster://...         the same over TLS
 *
 * The hosts are nodes to ask; the one that is dialled is the owner of the
 * namespace's slot (cluster.c).  Here is also the wire that leads aside: while
 * the slot is being moved a session is renewed at the node that takes it, once
 * that has the sessions (native_keep.c).  It has a connection only then, and
 * its replies are read by whoever reads the store's own.
 *
 * Formats of other libraries are refused: their keys would lie in many slots,
 * and a lock, its queue and its counter with them. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "cluster.h"

bool redis_url_is_cluster(const hf_url *url)
{
    return strstr(hfd_url_scheme(url), "+cluster") != NULL;
}

/* ---- Aside ---- */

static int find_taker(void *ctx, redis_found *ret, hf_nsec deadline,
                      hf_error *err)
{
    redis_cluster *cluster = ctx;

    (void)deadline;
    pthread_mutex_lock(&cluster->mu);
    *ret = cluster->taking;
    pthread_mutex_unlock(&cluster->mu);
    if (ret->port == 0)
        return hfd_error(err, HF_EUNAVAIL, "redis", 0,
                         "the slot is not being moved any more");
    return 0;
}

static int judge_aside(void *ctx, const redis_met *met, hf_error *err)
{
    (void)ctx;
    return redis_cluster_check(met, err);
}

/* Whatever it says: the next move may be to another one. */
static redis_stray judge_taker(void *ctx, const resp *error)
{
    (void)ctx;
    (void)error;
    return REDIS_STRAY_AWAY;
}

/* What happens to it is no news of the store. */
static void no_message(void *ctx, const char *channel, size_t channel_len,
                       const char *text, size_t len)
{
    (void)ctx;
    (void)channel;
    (void)channel_len;
    (void)text;
    (void)len;
}

static void no_listening(void *ctx)
{
    (void)ctx;
}

static void no_doubt(void *ctx, int code, const char *text)
{
    (void)ctx;
    (void)code;
    (void)text;
}

static int open_aside(redis_cluster *cluster, const redis_settings *settings,
                      hf_error *err)
{
    redis_listener nobody = {cluster, no_message, no_listening, no_doubt};
    redis_settings aside = *settings;

    cluster->aside_finder =
        (redis_finder){cluster, find_taker, judge_aside, judge_taker};
    aside.finder = &cluster->aside_finder;
    aside.lazy = true;
    aside.most = 1;
    return redis_wire_open(&cluster->aside, &aside, &nobody, err);
}

redis_wire *redis_cluster_aside(redis_cluster *cluster)
{
    return cluster->aside;
}

void redis_cluster_dispatch(redis_cluster *cluster)
{
    redis_wire_dispatch(cluster->aside);
}

void redis_cluster_abandon(redis_cluster *cluster)
{
    redis_wire_abandon(cluster->aside);
}

int redis_cluster_attend(hf_store *store, hf_error *err)
{
    struct epoll_event event = {.events = EPOLLIN,
                                .data.ptr = store->cluster->aside};

    if (epoll_ctl(redis_wire_fd(store->wire), EPOLL_CTL_ADD,
                  redis_wire_fd(store->cluster->aside), &event) != 0)
        return hfd_error(err, HF_EFULL, "redis", errno,
                         "no descriptor to watch: %s", strerror(errno));
    return 0;
}

/* ---- Opening ---- */

static int refuse_url(const hf_store *store, const hf_url *url, hf_error *err)
{
    const char *path = hfd_url_path(url), *db = hfd_url_option(url, "db");

    if (store->format != &redis_native)
        return hfd_error(err, HF_EURL, "redis", 0,
                         "format '%s' cannot be kept in a cluster: its keys "
                         "lie in many slots; format=native has one",
                         store->format->name);
    if ((*path && strcmp(path, "/") != 0 && strcmp(path, "/0") != 0) ||
        (db && strcmp(db, "0") != 0))
        return hfd_error(err, HF_EURL, "redis", 0,
                         "a cluster has no databases but 0: use ns= to keep "
                         "names apart");
    return 0;
}

static void close_cluster(void *ctx)
{
    redis_cluster *cluster = ctx;

    if (cluster->aside)
        redis_wire_close(cluster->aside);
    redis_cluster_done(cluster);
    hfd_free(cluster);
}

int redis_cluster_open(hf_store *store, const hf_url *url,
                       redis_settings *settings, hf_error *err)
{
    char tag[sizeof store->prefix];
    redis_cluster *cluster;
    size_t len;
    int code;

    if (!redis_url_is_cluster(url))
        return 0;
    code = refuse_url(store, url, err);
    if (code != 0)
        return code;
    cluster = hfd_alloc(sizeof *cluster);
    if (!cluster)
        return hfd_error(err, HF_ENOMEM, "redis", 0, "out of memory");
    /* "hf:{ns}:" without what is around ns */
    len = store->prefix_len - 6;
    memcpy(tag, store->prefix + 4, len);
    tag[len] = '\0';
    code = redis_cluster_init(cluster, settings, tag, err);
    if (code == 0)
        code = open_aside(cluster, settings, err);
    if (code != 0) {
        close_cluster(cluster);
        return code;
    }
    store->cluster = cluster;
    store->finder = cluster->finder;
    store->finder_close = close_cluster;
    settings->sharded = true;
    return 0;
}
