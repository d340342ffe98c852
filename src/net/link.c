/* link.c - bytes over a connection that stands.
 *
 * How does a lone caller get his answer with one system call, and never wait
 * longer than he was told?  A plain socket stays blocking, with a receive
 * timeout that is kept: it is set to seven eighths of the time that was wanted
 * and set anew only when it is too long for the deadline or much too short, so
 * that in steady state a receive is one recv().  What is left after such a
 * timeout is waited for with the exact rest.  With TLS, or with a second
 * descriptor to watch, it is poll() and a receive that does not wait.
 *
 * Sending never waits, so nobody can be held up in it by a peer that stands
 * still.  Two of us here: one sends and one receives at a time (pipe.c sees to
 * that); hf__link_cut alone comes from anywhere, and only as long as the link
 * is not closed.  Reply lost, or a pause of this process in the middle: the
 * caller's instant decides, not the length of the wait; an answer that is here
 * already is taken even when the instant has passed.
 *
 * Knows nothing of what the bytes mean. */
#include "net/link.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static int broken(const hf__link *link, int native, hf_error *err)
{
    if (native == 0)
        hfd_error(err, HF_EUNAVAIL, "net", 0,
                  "%s: the server closed the connection", link->name);
    else
        hfd_error(err, HF_EUNAVAIL, "net", native, "%s: %s", link->name,
                  strerror(native));
    return -1;
}

/* Give the text of an error of the TLS layer the address. */
static int broken_tls(const hf__link *link, const hf_error *why, hf_error *err)
{
    hfd_error(err, why->code, "net", why->native, "%s: %s", link->name,
              why->text);
    return -1;
}

ssize_t hf__link_send(hf__link *link, const void *bytes, size_t n,
                      hf_error *err)
{
    ssize_t sent;

    if (link->tls) {
        hf_error why = {0};

        sent = hf__tls_send(link->tls, bytes, n, &why);
        return sent < 0 ? broken_tls(link, &why, err) : sent;
    }
    do
        sent = send(link->fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    return sent < 0 ? broken(link, errno, err) : sent;
}

/* One receive that does not wait. */
static ssize_t recv_now(hf__link *link, void *buf, size_t room, hf_error *err)
{
    ssize_t got;

    if (link->tls) {
        hf_error why = {0};

        got = hf__tls_recv(link->tls, buf, room, &why);
        return got < 0 ? broken_tls(link, &why, err) : got;
    }
    do
        got = recv(link->fd, buf, room, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    return got <= 0 ? broken(link, got == 0 ? 0 : errno, err) : got;
}

/* Make the kept timeout fit a wait of `want`; exact: no less than that. */
static bool fit_timeout(hf__link *link, hf_nsec want, bool exact)
{
    struct timeval tv;

    want = want > HF__WAIT_LONGEST ? HF__WAIT_LONGEST : want;
    if (link->timeout > 0 && link->timeout <= want && !exact &&
        link->timeout >= want / 4)
        return true;
    if (!exact)
        want -= want / 8;
    if (want < HF_MS(1))
        want = HF_MS(1); /* 0 would be for ever */
    tv.tv_sec = (time_t)(want / HF_MS(1000));
    tv.tv_usec = (suseconds_t)(want % HF_MS(1000) / 1000);
    if (setsockopt(link->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv) != 0)
        return false;
    link->timeout = want;
    return true;
}

/* A plain socket and nothing else to watch. */
static ssize_t recv_blocking(hf__link *link, void *buf, size_t room,
                             hf_nsec until, hf_error *err)
{
    bool exact = false;

    for (;;) {
        hf_nsec left = until - hfd_now();
        ssize_t got;

        if (left <= 0)
            return recv_now(link, buf, room, err);
        if (!fit_timeout(link, left, exact))
            return broken(link, errno, err);
        got = recv(link->fd, buf, room, 0);
        if (got > 0)
            return got;
        if (got == 0)
            return broken(link, 0, err);
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            exact = true;
        else if (errno != EINTR)
            return broken(link, errno, err);
    }
}

ssize_t hf__link_recv(hf__link *link, void *buf, size_t room, hf_nsec until,
                      int wake_fd, hf_error *err)
{
    struct pollfd fds[2] = {{.fd = link->fd, .events = POLLIN},
                            {.fd = wake_fd, .events = POLLIN}};

    if (until == 0)
        return recv_now(link, buf, room, err);
    if (!link->tls && wake_fd < 0)
        return recv_blocking(link, buf, room, until, err);
    for (;;) {
        /* OpenSSL may have bytes of which the socket knows nothing. */
        ssize_t got = link->tls ? recv_now(link, buf, room, err) : 0;

        if (got != 0)
            return got;
        if (hf__poll_until(fds, wake_fd < 0 ? 1 : 2, until) == 0)
            return recv_now(link, buf, room, err);
        if (fds[0].revents) {
            got = recv_now(link, buf, room, err);
            if (got != 0)
                return got;
        }
        if (wake_fd >= 0 && fds[1].revents)
            return 0;
    }
}

int hf__link_fd(const hf__link *link)
{
    return link->fd;
}

void hf__link_cut(hf__link *link)
{
    /* It fails when the other side was first, which is as good. */
    (void)shutdown(link->fd, SHUT_RDWR);
}

void hf__link_close(hf__link *link, bool reset)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};

    if (!link)
        return;
    if (reset && setsockopt(link->fd, SOL_SOCKET, SO_LINGER, &linger,
                            sizeof linger) != 0)
        hfd_log(HF_LOG_WARN, "net: %s: SO_LINGER: %s", link->name,
                strerror(errno));
    hf__tls_end_free(link->tls);
    close(link->fd);
    hfd_free(link);
}

void hf__link_abandon(hf__link *link)
{
    close(link->fd);
}
