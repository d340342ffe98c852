/* wire_open.c - the wire as a whole: made, ended, left behind.
 *
 * Copies what it is told to connect to, and opens the first connection on the
 * caller's thread, so that a wrong URL is told by hf_open and not later.  Knows
 * nothing of calls.
 *
 * At the end no calls are under way (the core sees to that): the dialer thread
 * is joined, which takes as long as one attempt to connect at most, then every
 * connection goes.  In a forked child the other threads are gone and may have
 * held any lock: only descriptors are closed, no lock is taken, nothing freed,
 * not a byte said. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "wire_inside.h"

static char *copy_text(const char *text, bool *failed)
{
    size_t len = text ? strlen(text) : 0;
    char *copy = hfd_alloc(len + 1);

    if (copy && len > 0)
        memcpy(copy, text, len);
    if (!copy)
        *failed = true;
    return copy;
}

static int copy_settings(redis_wire *wire, const redis_settings *settings)
{
    size_t n = settings->address_count;
    bool failed = false;

    wire->user = copy_text(settings->user, &failed);
    wire->password = copy_text(settings->password, &failed);
    wire->client_name = copy_text(settings->client_name, &failed);
    wire->addresses = hfd_alloc(n * sizeof *wire->addresses);
    if (!wire->addresses)
        return HF_ENOMEM;
    wire->address_count = n;
    for (size_t i = 0; i < n; i++) {
        const hf__address *from = &settings->addresses[i];

        wire->addresses[i].port = from->port;
        wire->addresses[i].host = copy_text(from->host, &failed);
        if (from->path)
            wire->addresses[i].path = copy_text(from->path, &failed);
    }
    wire->tls = settings->tls;
    wire->database = settings->database;
    wire->dial_time = settings->dial_time;
    wire->finder = settings->finder;
    wire->waits = settings->waits;
    wire->sharded = settings->sharded;
    wire->most = settings->most < 1                 ? 1
                 : settings->most > REDIS_CONNS_MAX ? REDIS_CONNS_MAX
                                                    : settings->most;
    return failed ? HF_ENOMEM : 0;
}

static void free_wire(redis_wire *wire)
{
    if (wire->password)
        explicit_bzero(wire->password, strlen(wire->password));
    hfd_free(wire->user);
    hfd_free(wire->password);
    hfd_free(wire->client_name);
    for (size_t i = 0; i < wire->address_count; i++) {
        hfd_free((char *)wire->addresses[i].host);
        hfd_free((char *)wire->addresses[i].path);
    }
    hfd_free(wire->addresses);
    redis_push_free(wire);
    if (wire->epoll_fd >= 0)
        close(wire->epoll_fd);
    if (wire->timer_fd >= 0)
        close(wire->timer_fd);
    pthread_mutex_destroy(&wire->mu);
    pthread_mutex_destroy(&wire->park_mu);
    hfd_free(wire);
}

static int open_descriptors(redis_wire *wire, hf_error *err)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = wire};

    wire->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    wire->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (wire->epoll_fd < 0 || wire->timer_fd < 0 ||
        epoll_ctl(wire->epoll_fd, EPOLL_CTL_ADD, wire->timer_fd, &event) != 0)
        return hfd_error(err, errno == ENOMEM ? HF_ENOMEM : HF_EFULL, "redis",
                         errno, "no descriptor for a timer: %s",
                         strerror(errno));
    return 0;
}

int redis_wire_open(redis_wire **ret, const redis_settings *settings,
                    const redis_listener *listener, hf_error *err)
{
    redis_wire *wire = hfd_alloc(sizeof *wire);
    int code;

    if (!wire)
        return hfd_error(err, HF_ENOMEM, "redis", ENOMEM,
                         "no memory for a store");
    pthread_mutex_init(&wire->mu, NULL);
    pthread_mutex_init(&wire->park_mu, NULL);
    wire->listener = *listener;
    wire->timer_due = HF_NEVER;
    wire->epoll_fd = wire->timer_fd = -1;
    if (copy_settings(wire, settings) != 0)
        code =
            hfd_error(err, HF_ENOMEM, "redis", ENOMEM, "no memory for a store");
    else
        code = open_descriptors(wire, err);
    if (code == 0 && !settings->lazy) {
        redis_lock(wire);
        code = redis_dial_command(wire, hfd_now() + wire->dial_time, err);
    }
    if (code != 0) {
        free_wire(wire);
        return code;
    }
    *ret = wire;
    return 0;
}

/* The slots' and the pushes' references are the last. */
void redis_wire_close(redis_wire *wire)
{
    if (!wire)
        return;
    redis_dial_stop(wire);
    for (unsigned i = 0; i < wire->most; i++) {
        if (wire->slots[i])
            redis_conn_drop(wire->slots[i]);
    }
    if (wire->push)
        redis_conn_drop(wire->push);
    free_wire(wire);
}

void redis_wire_abandon(redis_wire *wire)
{
    for (redis_conn *conn = wire->all; conn; conn = conn->next)
        hf__pipe_abandon(conn->pipe);
    close(wire->epoll_fd);
    close(wire->timer_fd);
}

bool redis_wire_server(redis_wire *wire, redis_server *ret)
{
    bool known;

    redis_lock(wire);
    known = wire->known;
    if (known)
        *ret = wire->server;
    redis_unlock(wire);
    return known;
}
