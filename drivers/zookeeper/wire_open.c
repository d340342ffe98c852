/* wire_open.c - the wire as a whole: made, ended, left behind.
 *
 * Copies what it is told to connect to, and connects on the caller's thread, so
 * that a wrong address is told by hf_open and not later; the connection is kept
 * for a session that begins soon.  Knows nothing of calls.
 *
 * At the end no calls are under way (the core sees to that): the dialer thread
 * is joined, which takes as long as one member at most, then the connection
 * goes.  A session that stands is the user's to end (ZK_CLOSE); the one that
 * the wire has begun by itself is ended here, without waiting for an answer.
 * In a forked child the other threads are gone and may have held any lock: only
 * descriptors are closed, no lock is taken, nothing freed, not a byte said. */
#include <errno.h>
#include <stdio.h>
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

static int copy_settings(zk_wire *wire, const zk_settings *settings)
{
    size_t n = settings->address_count;
    bool failed = false;

    wire->addresses = hfd_alloc(n * sizeof *wire->addresses);
    if (!wire->addresses)
        return HF_ENOMEM;
    wire->address_count = n;
    for (size_t i = 0; i < n; i++) {
        wire->addresses[i].port = settings->addresses[i].port;
        wire->addresses[i].host =
            copy_text(settings->addresses[i].host, &failed);
    }
    if (settings->auth && settings->auth[0])
        wire->auth = copy_text(settings->auth, &failed);
    wire->tls = settings->tls;
    wire->dial_time = settings->dial_time;
    wire->tick = settings->tick;
    return failed ? HF_ENOMEM : 0;
}

static void free_wire(zk_wire *wire)
{
    if (wire->auth)
        explicit_bzero(wire->auth, strlen(wire->auth));
    hfd_free(wire->auth);
    explicit_bzero(wire->password, sizeof wire->password);
    for (size_t i = 0; i < wire->address_count; i++)
        hfd_free((char *)wire->addresses[i].host);
    hfd_free(wire->addresses);
    hf__link_close(wire->ready, false);
    if (wire->epoll_fd >= 0)
        close(wire->epoll_fd);
    if (wire->timer_fd >= 0)
        close(wire->timer_fd);
    pthread_mutex_destroy(&wire->mu);
    pthread_mutex_destroy(&wire->park_mu);
    hfd_free(wire);
}

static int open_descriptors(zk_wire *wire, hf_error *err)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = wire};

    wire->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    wire->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (wire->epoll_fd < 0 || wire->timer_fd < 0 ||
        epoll_ctl(wire->epoll_fd, EPOLL_CTL_ADD, wire->timer_fd, &event) != 0)
        return hfd_error(err, errno == ENOMEM ? HF_ENOMEM : HF_EFULL,
                         "zookeeper", errno, "no descriptor for a timer: %s",
                         strerror(errno));
    return 0;
}

/* A thousand clients do not all take the first one. */
static int reach_member(zk_wire *wire, hf_error *err)
{
    uint32_t chance;

    hfd_random(&chance, sizeof chance);
    wire->ready_since = hfd_now();
    return hf__dial(&wire->ready, wire->addresses, wire->address_count,
                    chance % wire->address_count, &wire->which, wire->tls,
                    zk_dial_limit(wire), err);
}

int zk_wire_open(zk_wire **ret, const zk_settings *settings,
                 const zk_listener *listener, hf_error *err)
{
    zk_wire *wire = hfd_alloc(sizeof *wire);
    int code;

    if (!wire)
        return hfd_error(err, HF_ENOMEM, "zookeeper", ENOMEM,
                         "no memory for a store");
    pthread_mutex_init(&wire->mu, NULL);
    pthread_mutex_init(&wire->park_mu, NULL);
    wire->listener = *listener;
    wire->timer_due = wire->keep_until = HF_NEVER;
    wire->epoll_fd = wire->timer_fd = -1;
    if (copy_settings(wire, settings) != 0)
        code = hfd_error(err, HF_ENOMEM, "zookeeper", ENOMEM,
                         "no memory for a store");
    else
        code = open_descriptors(wire, err);
    if (code == 0)
        code = reach_member(wire, err);
    if (code != 0) {
        free_wire(wire);
        return code;
    }
    *ret = wire;
    return 0;
}

/* Nobody waits for the answer; without it the session ends by its timeout. */
static void close_casual(zk_conn *conn)
{
    zk_request request = {.op = ZK_CLOSE};
    hf__buf *out = hf__pipe_begin(conn->pipe);

    if (!out)
        return;
    zk_write_request(out, conn->xid + 1, &request);
    hf__pipe_end(conn->pipe);
}

void zk_wire_close(zk_wire *wire)
{
    if (!wire)
        return;
    zk_dial_stop(wire);
    if (wire->conn && wire->casual)
        close_casual(wire->conn);
    if (wire->conn)
        zk_conn_drop(wire->conn);
    free_wire(wire);
}

void zk_wire_abandon(zk_wire *wire)
{
    for (zk_conn *conn = wire->all; conn; conn = conn->next)
        hf__pipe_abandon(conn->pipe);
    if (wire->ready)
        hf__link_abandon(wire->ready);
    close(wire->epoll_fd);
    close(wire->timer_fd);
}

void zk_wire_standing(zk_wire *wire, zk_standing *ret)
{
    zk_standing now = {0};

    zk_lock(wire);
    now.session = wire->session;
    now.timeout_ms = wire->session ? wire->timeout_ms : 0;
    now.connected = zk_conn_usable(wire->conn);
    if (now.connected) {
        now.read_only = wire->conn->read_only;
        snprintf(now.member, sizeof now.member, "%s", wire->conn->where);
    }
    zk_unlock(wire);
    *ret = now;
}
