/* dial.c - from addresses to a connection that stands.
 *
 * Which of several addresses answers, in the time that there is?  Each is
 * tried in turn with a fair share of what is left, and so is each number that
 * a name stands for: one that is dead must not eat the time of those behind
 * it.  Looking up a name is the one step without a limit of its own (the
 * resolver has its own), which is why dialling is never the keeper's work.
 *
 * A connection to oneself, which TCP makes when nobody listens on a loopback
 * port of the ephemeral range, counts as refused: it would echo our commands
 * as if they were answers.
 *
 * Nothing is shared between two who dial.  Paused here: the deadline has
 * passed when it goes on, and the attempt fails.  Knows nothing of what will
 * be said over the connection. */
#include "net/link.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A peer that is gone without a word is noticed in about this time, whether we
 * wait for it (keep-alive) or send to it (user timeout). */
enum {
    KEEP_IDLE_S = 10,
    KEEP_INTERVAL_S = 5,
    KEEP_COUNT = 3,
    USER_TIMEOUT_MS = 10000,
    RETRY_MS = 5 /* a Unix socket whose backlog is full */
};

static int fail(const hf__link *link, int native, hf_error *err)
{
    const char *cure = "";

    if (native == ECONNREFUSED || native == ENOENT)
        cure = " (is the server running?)";
    else if (native == ETIMEDOUT)
        cure = " (is it the right address, does a firewall stand between?)";
    else if (native == EACCES)
        cure = " (may this user write to the socket?)";
    return hfd_error(err, HF_EUNAVAIL, "net", native, "%s: %s%s", link->name,
                     strerror(native), cure);
}

static void name_link(hf__link *link, const hf__address *address)
{
    const char *host = address->host ? address->host : "localhost";

    if (address->path)
        snprintf(link->name, sizeof link->name, "%s", address->path);
    else
        snprintf(link->name, sizeof link->name,
                 strchr(host, ':') ? "[%s]:%u" : "%s:%u", host,
                 (unsigned)address->port);
}

/* A service that must not fail the dialling when the kernel has it not. */
static void set_option(int fd, int level, int option, int value)
{
    if (setsockopt(fd, level, option, &value, sizeof value) != 0)
        hfd_log(HF_LOG_WARN, "net: socket option %d: %s", option,
                strerror(errno));
}

static void set_tcp_options(int fd)
{
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_INTERVAL_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEP_COUNT);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT_MS);
}

static bool is_self(int fd)
{
    struct sockaddr_storage here = {0}, there = {0};
    socklen_t here_len = sizeof here, there_len = sizeof there;

    return getsockname(fd, (struct sockaddr *)&here, &here_len) == 0 &&
           getpeername(fd, (struct sockaddr *)&there, &there_len) == 0 &&
           (here.ss_family == AF_INET || here.ss_family == AF_INET6) &&
           here_len == there_len && memcmp(&here, &there, here_len) == 0;
}

/* Connect a non-blocking socket; 0 or an errno. */
static int connect_until(int fd, const struct sockaddr *to, socklen_t len,
                         hf_nsec until)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLOUT};
    int native = 0;
    socklen_t native_len = sizeof native;

    while (connect(fd, to, len) != 0) {
        if (errno == EISCONN)
            return 0;
        if (errno == EAGAIN && to->sa_family == AF_UNIX) {
            if (hfd_now() >= until)
                return ETIMEDOUT;
            poll(NULL, 0, RETRY_MS);
            continue;
        }
        if (errno != EINPROGRESS && errno != EINTR && errno != EALREADY)
            return errno;
        if (hf__poll_until(&poll_fd, 1, until) == 0)
            return ETIMEDOUT;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &native, &native_len) != 0)
            return errno;
        return native;
    }
    return 0;
}

/* A connected socket in link->fd, or the errno.  A plain one blocks. */
static int connect_one(hf__link *link, const struct sockaddr *to, socklen_t len,
                       bool blocking, hf_nsec until)
{
    int native;
    int fd =
        socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return errno;
    native = connect_until(fd, to, len, until);
    if (native == 0 && is_self(fd))
        native = ECONNREFUSED;
    if (native == 0 && blocking &&
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) != 0)
        native = errno;
    if (native != 0) {
        close(fd);
        return native;
    }
    if (to->sa_family != AF_UNIX)
        set_tcp_options(fd);
    link->fd = fd;
    return 0;
}

static int connect_path(hf__link *link, const char *path, bool blocking,
                        hf_nsec until, hf_error *err)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int native;

    if (strlen(path) >= sizeof to.sun_path)
        return hfd_error(err, HF_EURL, "net", ENAMETOOLONG,
                         "'%s': a path to a socket has at most %zu bytes", path,
                         sizeof to.sun_path - 1);
    memcpy(to.sun_path, path, strlen(path) + 1);
    native =
        connect_one(link, (struct sockaddr *)&to, sizeof to, blocking, until);
    return native == 0 ? 0 : fail(link, native, err);
}

static int connect_host(hf__link *link, const hf__address *address,
                        bool blocking, hf_nsec until, hf_error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    const char *host = address->host ? address->host : "localhost";
    char port[8];
    int rc, native = ENOENT, left = 0;

    snprintf(port, sizeof port, "%u", (unsigned)address->port);
    rc = getaddrinfo(host, port, &hints, &found);
    if (rc != 0)
        return hfd_error(err, rc == EAI_MEMORY ? HF_ENOMEM : HF_EUNAVAIL, "net",
                         rc, "%s: '%s' cannot be looked up: %s", link->name,
                         host,
                         rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
    for (struct addrinfo *at = found; at; at = at->ai_next)
        left++;
    for (struct addrinfo *at = found; at; at = at->ai_next, left--) {
        hf_nsec now = hfd_now();

        native = connect_one(link, at->ai_addr, at->ai_addrlen, blocking,
                             now + (until - now) / left);
        if (native == 0)
            break;
    }
    freeaddrinfo(found);
    return native == 0 ? 0 : fail(link, native, err);
}

static int dial_one(hf__link **ret, const hf__address *address, hf__tls *tls,
                    hf_nsec until, hf_error *err)
{
    hf__link *link = hfd_alloc(sizeof *link);
    hf_error why = {0};
    int rc;

    if (!link)
        return hfd_error(err, HF_ENOMEM, "net", ENOMEM, "no memory");
    name_link(link, address);
    rc = address->path ? connect_path(link, address->path, !tls, until, err)
                       : connect_host(link, address, !tls, until, err);
    if (rc == 0 && tls) {
        rc = hf__tls_begin(&link->tls, tls, link->fd,
                           address->host ? address->host : "localhost", until,
                           &why);
        if (rc != 0) {
            hfd_error(err, rc, "net", why.native, "%s: %s", link->name,
                      why.text);
            close(link->fd);
        }
    }
    if (rc != 0) {
        hfd_free(link);
        return rc;
    }
    *ret = link;
    return 0;
}

/* Texts of several attempts, one behind the other, as far as there is room. */
static void add_text(char *all, size_t room, const char *text)
{
    size_t used = strlen(all);

    if (used > 0 && used + 2 < room) {
        memcpy(all + used, "; ", 3);
        used += 2;
    }
    for (; *text && used + 1 < room; used++, text++)
        all[used] = *text;
    all[used] = '\0';
}

int hf__dial(hf__link **ret, const hf__address *addresses, size_t n,
             size_t first, size_t *ret_which, hf__tls *tls, hf_nsec deadline,
             hf_error *err)
{
    char all[sizeof err->text] = "";
    int code = HF_EUNAVAIL, native = 0;

    for (size_t i = 0; i < n; i++) {
        size_t which = (first + i) % n;
        hf_nsec now = hfd_now();
        hf_error why = {0};
        int rc = dial_one(ret, &addresses[which], tls,
                          now + (deadline - now) / (hf_nsec)(n - i), &why);

        if (rc == 0) {
            if (ret_which)
                *ret_which = which;
            return 0;
        }
        /* A refused certificate is the one that somebody has to act on. */
        if (code != HF_EAUTH) {
            code = rc;
            native = why.native;
        }
        add_text(all, sizeof all, why.text);
    }
    return hfd_error(err, code, "net", native, "%s",
                     n ? all : "there is no address to connect to");
}
