/* redlock.c - the redlock driver: URL in, store out.
 *
 *     redlock://[user[:password]@]h1[:port],h2,h3[,...][/db]?options
 *
 * Each host is a server by itself, with a wire of its own (drivers/redis); none
 * replicates another.  Here: options, opening and the descriptors; what a
 * majority says is counted in round.c and act.c, the rest of a lock without a
 * queue is the format machine of drivers/redis.
 *
 * Opening asks all servers for the time, side by side, and needs a majority.
 * Those that are down are dialled again by the calls that follow. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "redlock.h"

enum { PORT = 6379, NODES_LEAST = 3 };
static const hf_nsec dial_time = HF_MS(3000), late_time = HF_MS(500);

#define CAPS                                                                   \
    (HF_CAP_MARKS | HF_CAP_FIXED_LEASE | HF_CAP_BREAK | HF_CAP_PUSH |          \
     HF_CAP_EACH)

static const char *const option_names[] = {"prefix", "token",        "node_ms",
                                           "strict", "max_lease_ms", NULL};

/* ---- Operations --------------------------------------------------------- */

/* A server that was restarted votes again when the longest lease is over: so
 * there must be none that is longer. */
static bool is_too_long(const redlock_store *store, const hf_op *op)
{
    hf_nsec most = store->settled;

    return most > 0 && ((op->kind == HF_OP_ATTACH && op->ttl > most) ||
                        (op->kind == HF_OP_RENEW && op->ttl > most) ||
                        (op->kind == HF_OP_JOIN && op->place->lease > most) ||
                        (op->kind == HF_OP_LEAVE && op->keep > most));
}

static void redlock_start(hf_store *store, hf_op *op)
{
    memset(op->own, 0, sizeof(redlock_op));
    if (!is_too_long(redlock_of(store), op)) {
        format_start(store, op);
        return;
    }
    op->sent = hfd_now();
    hfd_error(&op->error, HF_EINVAL, "redlock", 0,
              "the lease is longer than max_lease_ms of this strict store");
    hfd_finish(op, HF_NOT_APPLIED, HF_EINVAL);
}

static void redlock_drive(hf_store *store, hf_op *op)
{
    redlock_op *own = redlock_op_of(op);

    (void)store;
    while (own->round || own->walk) {
        if (own->round)
            round_drive(own->round);
        else
            walk_drive(own->walk);
    }
}

static int redlock_fd(hf_store *store)
{
    return redlock_of(store)->epoll_fd;
}

static void redlock_dispatch(hf_store *base)
{
    redlock_store *store = redlock_of(base);

    for (size_t i = 0; i < store->count; i++)
        redis_wire_dispatch(store->nodes[i].wire);
}

/* ---- What the wires tell ------------------------------------------------ */

static void on_message(void *ctx, const char *channel, size_t channel_len,
                       const char *text, size_t len)
{
    const redlock_node *node = ctx;

    (void)text;
    (void)len;
    redlock_told(node->store, (size_t)(node - node->store->nodes), channel,
                 channel_len);
}

static void on_listening(void *ctx)
{
    const redlock_node *node = ctx;

    redlock_listens(node->store, (size_t)(node - node->store->nodes));
}

/* One server's memory is no lock: what a majority still has the next renewal
 * finds out.  The wire has logged it. */
static void on_doubt(void *ctx, int code, const char *text)
{
    redlock_node *node = ctx;

    (void)code;
    (void)text;
    atomic_store(&node->answers, false);
}

/* ---- Opening ------------------------------------------------------------ */

static int read_options(redlock_store *store, const hf_url *url, hf_error *err)
{
    int64_t node_ms = 0, max_lease_ms = 60000;
    bool strict = false;
    int code;

    store->tokens = true;
    code = hfd_url_flag(url, "token", &store->tokens, err);
    if (code == 0)
        code = hfd_url_number(url, "node_ms", 1, 10000, &node_ms, err);
    if (code == 0)
        code = hfd_url_flag(url, "strict", &strict, err);
    if (code == 0)
        code = hfd_url_number(url, "max_lease_ms", 1000, 86400000,
                              &max_lease_ms, err);
    if (code == 0 && !strict && hfd_url_option(url, "max_lease_ms"))
        code = hfd_error(err, HF_EURL, "redlock", 0,
                         "max_lease_ms is for strict=yes");
    store->node_time = HF_MS(node_ms);
    store->settled = strict ? HF_MS(max_lease_ms) : 0;
    return code;
}

static int read_database(const hf_url *url, int *ret, hf_error *err)
{
    const char *path = hfd_url_path(url);
    long db;
    char *end;

    if (*path == '/')
        path++;
    *ret = 0;
    if (!*path)
        return 0;
    db = strtol(path, &end, 10);
    if (*end || *path < '0' || *path > '9' || db > 1000000)
        return hfd_error(err, HF_EURL, "redlock", 0,
                         "'/%.40s' is not the number of a database", path);
    *ret = (int)db;
    return 0;
}

static int check_hosts(const hf_url *url, hf_error *err)
{
    size_t n = hfd_url_host_count(url);

    if (n < NODES_LEAST || n > VOTE_NODES_MAX || n % 2 == 0)
        return hfd_error(err, HF_EURL, "redlock", 0,
                         "%zu servers are named: give 3, 5, 7 or 9 that know "
                         "nothing of each other; for one server use redis://",
                         n);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < i; j++) {
            if (hfd_url_port(url, i) == hfd_url_port(url, j) &&
                strcmp(hfd_url_host(url, i), hfd_url_host(url, j)) == 0)
                return hfd_error(err, HF_EURL, "redlock", 0,
                                 "'%.100s' is named twice: a server has one "
                                 "vote",
                                 hfd_url_host(url, i));
        }
    }
    return 0;
}

static int open_node(redlock_store *store, const hf_url *url, size_t i,
                     int database, hf_error *err)
{
    redlock_node *node = &store->nodes[i];
    struct epoll_event event = {.events = EPOLLIN};
    redis_listener listener = {.ctx = node,
                               .message = on_message,
                               .listening = on_listening,
                               .doubt = on_doubt};
    const char *host = hfd_url_host(url, i);
    uint16_t port = hfd_url_port(url, i);
    hf__address address = {.host = *host ? host : "127.0.0.1",
                           .port = port ? port : PORT};
    /* One connection: what is sent later is done later. */
    redis_settings settings = {.addresses = &address,
                               .address_count = 1,
                               .user = hfd_url_user(url),
                               .password = hfd_url_password(url),
                               .database = database,
                               .client_name = "holdfast",
                               .most = 1,
                               .dial_time = dial_time,
                               .lazy = true};
    int code;

    node->store = store;
    code = redis_wire_open(&node->wire, &settings, &listener, err);
    if (code)
        return code;
    store->count = i + 1;
    node->exposed = !redis_host_is_local(address.host);
    snprintf(node->where, sizeof node->where, "%.70s:%u", address.host,
             address.port);
    if (epoll_ctl(store->epoll_fd, EPOLL_CTL_ADD, redis_wire_fd(node->wire),
                  &event) != 0)
        return hfd_error(err, HF_ENOMEM, "redlock", errno,
                         "no memory to watch a connection: %s",
                         strerror(errno));
    return 0;
}

static bool round_is_over(void *arg)
{
    redlock_round *round = arg;
    bool over;

    pthread_mutex_lock(&round->mu);
    over = round->pending == 0;
    pthread_mutex_unlock(&round->mu);
    return over;
}

static void greeted(redlock_round *round)
{
    (void)round; /* reach_majority looks at it */
}

/* Ask all for the time: a majority must answer, the others may for a little
 * longer, so that a set-up that is wrong is told by the first who opens it. */
static int reach_majority(redlock_store *store, hf_error *err)
{
    redlock_round *round = round_new(store, NULL, SHAPE_TIME, 0);
    int code = 0;

    if (!round)
        return hfd_error(err, HF_ENOMEM, "redlock", 0, "out of memory");
    resp_command(&round->bytes, 1);
    resp_text(&round->bytes, "TIME");
    round->complete = greeted;
    round->refs++; /* ours */
    if (round_start(round, hfd_now() + dial_time) != 0) {
        round_drop(round);
        return hfd_error(err, HF_ENOMEM, "redlock", 0, "out of memory");
    }
    redlock_await(store, round_is_over, round, hfd_now() + late_time);
    pthread_mutex_lock(&round->mu);
    if (round_heard(round) < vote_majority(store->count)) {
        pthread_mutex_unlock(&round->mu);
        redlock_await(store, round_is_over, round, HF_NEVER);
        pthread_mutex_lock(&round->mu);
    }
    if (round_heard(round) < vote_majority(store->count)) {
        round_why(round, err);
        code = err->code;
    }
    pthread_mutex_unlock(&round->mu);
    round_drop(round);
    return code;
}

static bool is_quiet(void *arg)
{
    redlock_store *store = arg;

    return atomic_load(&store->working) == 0;
}

static void redlock_close(hf_store *base)
{
    redlock_store *store = redlock_of(base);

    /* What was taken back without waiting: each has a short deadline. */
    if (store->count > 0)
        redlock_await(store, is_quiet, store, HF_NEVER);
    for (size_t i = 0; i < store->count; i++)
        redis_wire_close(store->nodes[i].wire);
    if (base->format_data)
        format_close(base);
    if (store->epoll_fd >= 0)
        close(store->epoll_fd);
    pthread_mutex_destroy(&base->park_mu);
    hfd_free(store);
}

static int open_nodes(redlock_store *store, const hf_url *url, hf_error *err)
{
    int database, code = read_database(url, &database, err);

    store->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (code == 0 && store->epoll_fd < 0)
        code = hfd_error(err, HF_EFULL, "redlock", errno,
                         "no descriptor to watch connections with: %s",
                         strerror(errno));
    for (size_t i = 0; i < hfd_url_host_count(url) && code == 0; i++)
        code = open_node(store, url, i, database, err);
    return code;
}

static int redlock_open(hf_store **ret, const hf_url *url, const hf_host *host,
                        uint32_t *ret_caps, hf_error *err)
{
    redlock_store *store = hfd_alloc(sizeof *store);
    hf_error why = {0};
    int code;

    if (!store)
        return hfd_error(err, HF_ENOMEM, "redlock", 0, "out of memory");
    store->epoll_fd = -1;
    store->base.host = *host;
    pthread_mutex_init(&store->base.park_mu, NULL);
    if (gethostname(store->base.host_name, sizeof store->base.host_name - 1))
        store->base.host_name[0] = '\0';
    code = check_hosts(url, &why);
    if (code == 0)
        code = read_options(store, url, &why);
    if (code == 0)
        code = format_open(&store->base, url, &redlock_kind, &why);
    if (code == 0) {
        memcpy(format_of(&store->base)->extra, store->tokens ? "1" : "0", 2);
        format_of(&store->base)->fenced = store->tokens;
        code = open_nodes(store, url, &why);
    }
    if (code == 0)
        code = reach_majority(store, &why);
    if (code) {
        redlock_close(&store->base);
        return hfd_error(err, code, "redlock", why.native, "%s", why.text);
    }
    *ret_caps = CAPS | (store->tokens ? HF_CAP_TOKEN | HF_CAP_RUN : 0);
    *ret = &store->base;
    return 0;
}

static void redlock_abandon(hf_store *base)
{
    redlock_store *store = redlock_of(base);

    for (size_t i = 0; i < store->count; i++)
        redis_wire_abandon(store->nodes[i].wire);
    close(store->epoll_fd);
}

static const hf_driver redlock_driver = {
    HF_DRIVER_HEAD,
    .name = "redlock",
    .schemes = "redlock",
    .options = option_names,
    .open = redlock_open,
    .close = redlock_close,
    .abandon = redlock_abandon,
    .start = redlock_start,
    .drive = redlock_drive,
    .fd = redlock_fd,
    .dispatch = redlock_dispatch,
};
HF_DRIVER_EXPORT(redlock_driver);
