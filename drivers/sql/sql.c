/* sql.c - a store on a SQL database: opening, closing, and being told.
 *
 * What all formats share: the options, the pool's beginning and end, and one
 * descriptor for whatever rings.  What a lock is stands in the formats.
 *
 * A store that nobody rings for (no listener, a pooler in the way, listen=no)
 * looks by a timer of its own: one for all who wait here, 20 ms after somebody
 * began to wait, then half as long again each time, 500 ms at most, each with a
 * quarter of jitter.  The core asks for all waiters in one operation, so the
 * load does not grow with their number.
 *
 * fork: the child closes descriptors and says nothing (abandon). */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "probe.h"
#include "store.h"

enum { POLL_FIRST_MS = 20, POLL_MOST_MS = 500, OPEN_MS = 5000 };

/* ---- Options ------------------------------------------------------------ */

static bool is_name(const char *text)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWX"
                            "YZ0123456789_");

    return text[n] == '\0' && (text[0] < '0' || text[0] > '9');
}

static int read_name(const hf_store *store, const hf_url *url,
                     const char *option, char *ret, size_t size, hf_error *err)
{
    const char *text = hfd_url_option(url, option);

    if (!text)
        return 0;
    if (strlen(text) >= size || !is_name(text))
        return hfd_error(err, HF_EURL, store->port->class->driver, 0,
                         "'%s=%.40s': at most %zu letters, digits and _, first "
                         "a letter",
                         option, text, size - 1);
    memcpy(ret, text, strlen(text) + 1);
    return 0;
}

static bool reads_option(const sql_format *format, const char *name)
{
    for (const char *const *at = format->options; at && *at; at++) {
        if (strcmp(*at, name) == 0)
            return true;
    }
    return false;
}

/* An option that only another format reads would be a wish nobody hears. */
static int check_options(const hf_store *store,
                         const sql_format *const *formats, const hf_url *url,
                         hf_error *err)
{
    for (; *formats; formats++) {
        for (const char *const *at = (*formats)->options; at && *at; at++) {
            if (hfd_url_option(url, *at) && !reads_option(store->format, *at))
                return hfd_error(err, HF_EURL, store->port->class->driver, 0,
                                 "'%s' is an option of format=%s, not of "
                                 "format=%s: leave it away",
                                 *at, (*formats)->name, store->format->name);
        }
    }
    return 0;
}

static int find_format(hf_store *store, const sql_format *const *formats,
                       const hf_url *url, hf_error *err)
{
    const char *name = hfd_url_option(url, "format");
    char known[120] = "";

    store->format = formats[0];
    if (!name)
        return check_options(store, formats, url, err);
    for (size_t i = 0; formats[i]; i++) {
        size_t at = strlen(known);

        if (strcmp(formats[i]->name, name) == 0) {
            store->format = formats[i];
            return check_options(store, formats, url, err);
        }
        snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "",
                 formats[i]->name);
    }
    return hfd_error(err, HF_EURL, store->port->class->driver, 0,
                     "'format=%.40s' is not known here: one of %s", name,
                     known);
}

static int read_clock(hf_store *store, const hf_url *url, hf_error *err)
{
    const char *clock = hfd_url_option(url, "clock");

    if (clock && strcmp(clock, "server") != 0 && strcmp(clock, "observer") != 0)
        return hfd_error(err, HF_EURL, store->port->class->driver, 0,
                         "'clock=%.40s': say server or observer", clock);
    store->observer = clock && strcmp(clock, "observer") == 0;
    return 0;
}

static int read_options(hf_store *store, const hf_url *url, hf_error *err)
{
    int64_t connections = 4, max_lease_ms = 60000;
    bool listens = true;
    int code = read_name(store, url, "schema", store->schema,
                         sizeof store->schema, err);

    store->create = true;
    snprintf(store->prefix, sizeof store->prefix, "%s", SQL_PREFIX);
    if (code == 0)
        code = read_name(store, url, "prefix", store->prefix,
                         sizeof store->prefix, err);
    if (code == 0)
        code = hfd_url_flag(url, "create", &store->create, err);
    if (code == 0)
        code = hfd_url_flag(url, "strict", &store->strict, err);
    if (code == 0)
        code = hfd_url_flag(url, "listen", &listens, err);
    if (code == 0)
        code = hfd_url_number(url, "max_lease_ms", 1000, 86400000,
                              &max_lease_ms, err);
    if (code == 0)
        code = hfd_url_number(url, "connections", 1, 64, &connections, err);
    if (code == 0)
        code = read_clock(store, url, err);
    store->pool.most = (unsigned)connections;
    store->max_lease_us = max_lease_ms * 1000;
    store->may_listen = listens && store->port->class->listen;
    return code;
}

/* ---- Being told --------------------------------------------------------- */

static void told_doubt(void *arg, const hf_error *why)
{
    hf_store *store = arg;

    store->host.doubt(store->host.ctx, why->code, why->text);
}

/* Nanoseconds until the look that is on its way; 0: it is due, and nobody has
 * heard of it yet; -1: there is none. */
static long look_in(const hf_store *store)
{
    struct pollfd timer = {.fd = store->timer, .events = POLLIN};
    struct itimerspec in;

    timerfd_gettime(store->timer, &in);
    if (in.it_value.tv_nsec > 0)
        return in.it_value.tv_nsec;
    return poll(&timer, 1, 0) > 0 ? 0 : -1;
}

/* Setting the timer forgets that it rang, and begins its time again: who comes
 * anew may bring a look nearer, but never push it back. */
void sql_poll_soon(hf_store *store, bool anew)
{
    unsigned ms = anew ? POLL_FIRST_MS : atomic_load(&store->poll_ms);
    unsigned next = ms + ms / 2 < POLL_MOST_MS ? ms + ms / 2 : POLL_MOST_MS;
    struct itimerspec in = {.it_value = {0, 0}};
    long left = look_in(store);
    uint32_t draw;

    hfd_random(&draw, sizeof draw);
    in.it_value.tv_nsec =
        (long)HF_MS(ms) - (long)(draw % (unsigned)HF_MS(ms / 4 + 1));
    if (left >= 0 && (!anew || left <= in.it_value.tv_nsec)) {
        if (anew)
            atomic_store(&store->poll_ms, POLL_FIRST_MS);
        return; /* a look is on its way already */
    }
    atomic_store(&store->poll_ms, next);
    timerfd_settime(store->timer, 0, &in, NULL);
}

int sql_store_fd(hf_store *store)
{
    return store->fd;
}

void sql_store_dispatch(hf_store *store)
{
    uint64_t rings;

    if (read(store->timer, &rings, sizeof rings) > 0)
        store->host.changed(store->host.ctx, NULL, NULL);
    if (store->port->class->dispatch)
        store->port->class->dispatch(store->port);
}

static int watch_fd(const hf_store *store, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    return fd < 0 ? 0 : epoll_ctl(store->fd, EPOLL_CTL_ADD, fd, &event);
}

static int open_descriptors(hf_store *store, hf_error *err)
{
    const sql_port_class *class = store->port->class;

    store->fd = epoll_create1(EPOLL_CLOEXEC);
    store->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    store->pool.bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    if (store->fd < 0 || store->timer < 0 || store->pool.bell < 0 ||
        watch_fd(store, store->timer) < 0 ||
        (class->fd && watch_fd(store, class->fd(store->port)) < 0))
        return hfd_error(err, HF_EUNAVAIL, class->driver, 0,
                         "no descriptor left: raise 'ulimit -n'");
    return 0;
}

/* ---- Opening and closing ------------------------------------------------ */

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

static void free_store(hf_store *store)
{
    sql_port *port = store->port;

    while (store->pool.idle) {
        sql_conn *conn = store->pool.idle;

        store->pool.idle = conn->next;
        port->class->disconnect(conn, false);
    }
    if (port->class->unlisten)
        port->class->unlisten(port);
    port->class->close(port);
    close_fd(store->fd);
    close_fd(store->timer);
    close_fd(store->pool.bell);
    pthread_mutex_destroy(&store->pool.mu);
    hfd_free(store->texts);
    hfd_free(store);
}

/* The first connection, and what the format finds behind it. */
static int open_format(hf_store *store, const hf_url *url, hf_error *err)
{
    hf_op op = {.deadline = hfd_now() + HF_MS(OPEN_MS)};
    sql_use use;
    int code = sql_begin(&use, store, &op);

    if (code != 0) {
        *err = use.err;
        sql_end_use(&use);
        return code;
    }
    if (store->port->mute)
        store->may_listen = false;
    atomic_store(&store->deaf, !store->may_listen);
    code = store->format->open(store, url, use.conn, err);
    sql_end_use(&use);
    return code;
}

int sql_store_open(hf_store **ret, sql_port *port,
                   const sql_format *const *formats, const hf_url *url,
                   const hf_host *host, uint32_t *ret_caps, hf_error *err)
{
    hf_store *store = hfd_alloc(sizeof *store);
    hf_error unread;
    int code;

    if (!err)
        err = &unread;
    if (!store) {
        code =
            hfd_error(err, HF_ENOMEM, port->class->driver, 0, "out of memory");
        port->class->close(port);
        return code;
    }
    store->host = *host;
    store->port = port;
    store->fd = store->timer = store->pool.bell = -1;
    port->store = store;
    port->doubt = told_doubt;
    pthread_mutex_init(&store->pool.mu, NULL);
    atomic_store(&store->poll_ms, POLL_FIRST_MS);
    code = find_format(store, formats, url, err);
    if (code == 0)
        code = read_options(store, url, err);
    if (code == 0)
        code = open_descriptors(store, err);
    if (code == 0)
        code = open_format(store, url, err);
    if (code != 0) {
        free_store(store);
        return code;
    }
    *ret_caps = store->format->caps;
    if (!store->may_listen)
        *ret_caps &= ~(uint32_t)HF_CAP_PUSH;
    if (store->observer)
        *ret_caps &= ~(uint32_t)HF_CAP_CLOCK;
    *ret = store;
    return 0;
}

void sql_store_close(hf_store *store)
{
    store->format->close(store);
    free_store(store);
}

void sql_store_abandon(hf_store *store)
{
    if (store->format->abandon)
        store->format->abandon(store);
    for (sql_conn *conn = store->pool.idle; conn; conn = conn->next)
        store->port->class->abandon(conn);
    store->port->class->abandon_port(store->port);
    close_fd(store->fd);
    close_fd(store->timer);
    close_fd(store->pool.bell);
}

void sql_store_start(hf_store *store, hf_op *op)
{
    if (op->kind == HF_OP_PROBE)
        sql_probe(store, op);
    else
        store->format->start(store, op);
}
