/* socket.c - the socket under a connection of somebody else's library.
 *
 * An ODBC driver blocks inside its calls and tells nobody its descriptor.  But
 * a call that has no answer must end at its deadline, a connection that was
 * given up must end with a RST (bytes of an old attempt must not arrive later),
 * and a forked child must close what it inherited.  So: note the sockets of
 * this process before the connect, look again afterwards.  The driver's is
 * among the new ones; if there is only one, that is it.  If another thread has
 * opened one meanwhile nothing is known, and nothing is done: an application's
 * socket must never be touched.
 *
 * We keep a duplicate.  A number that the driver has closed may be anybody's a
 * moment later; the duplicate is this one socket's as long as we have it. */
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "odbc.h"

enum { SOCKETS_MAX = 65536 };

/* Calls `each` for every descriptor that is a socket.  By its link, not by the
 * descriptor: those of other threads come and go meanwhile. */
static bool walk_sockets(void (*each)(void *to, int fd, ino_t inode), void *to)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;

    if (!dir)
        return false;
    while ((entry = readdir(dir)) != NULL) {
        static const char begin[] = "socket:[";
        char link[64], *end;
        long fd = strtol(entry->d_name, &end, 10);
        ssize_t len =
            end == entry->d_name || *end
                ? -1
                : readlinkat(dirfd(dir), entry->d_name, link, sizeof link - 1);

        if (len <= 0)
            continue;
        link[len] = '\0';
        if (strncmp(link, begin, sizeof begin - 1) == 0)
            each(to, (int)fd, strtoul(link + sizeof begin - 1, NULL, 10));
    }
    closedir(dir);
    return true;
}

static void note_socket(void *to, int fd, ino_t inode)
{
    odbc_sockets *sockets = to;

    (void)fd;
    if (sockets->failed)
        return;
    if (sockets->count % 64 == 0) {
        ino_t *larger =
            sockets->count >= SOCKETS_MAX
                ? NULL
                : hfd_realloc(sockets->inodes,
                              (sockets->count + 64) * sizeof *larger);

        if (!larger) {
            sockets->failed = true;
            return;
        }
        sockets->inodes = larger;
    }
    sockets->inodes[sockets->count++] = inode;
}

void odbc_sockets_note(odbc_sockets *ret)
{
    *ret = (odbc_sockets){0};
    if (!walk_sockets(note_socket, ret))
        ret->failed = true;
}

void odbc_sockets_done(odbc_sockets *sockets)
{
    hfd_free(sockets->inodes);
    sockets->inodes = NULL;
}

typedef struct candidate {
    int ours, theirs; /* our own descriptor of it; the first of the kind */
    unsigned count;
} candidate;

typedef struct search {
    const odbc_sockets *before;
    candidate inet, local;
} search;

/* Takes `ours`. */
static void note_candidate(candidate *c, int ours, int theirs)
{
    if (c->count++ == 0) {
        c->ours = ours;
        c->theirs = theirs;
    } else {
        close(ours);
    }
}

static void look_at_socket(void *to, int fd, ino_t inode)
{
    search *s = to;
    struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof peer;
    int ours;

    for (size_t i = 0; i < s->before->count; i++) {
        if (s->before->inodes[i] == inode)
            return;
    }
    /* From here on it is the same socket whatever others do to the number. */
    ours = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (ours < 0)
        return;
    if (getpeername(ours, (struct sockaddr *)&peer, &len) == 0 &&
        (peer.ss_family == AF_INET || peer.ss_family == AF_INET6))
        note_candidate(&s->inet, ours, fd);
    else if (peer.ss_family == AF_UNIX)
        note_candidate(&s->local, ours, fd);
    else
        close(ours); /* listens, or speaks to nobody */
}

/* The name services keep Unix sockets of their own open, so one that leaves
 * this machine or its loopback comes first. */
int odbc_sockets_find(const odbc_sockets *before, int *ret_theirs)
{
    search s = {.before = before};
    candidate found = {.ours = -1, .theirs = -1};

    if (before->failed || !walk_sockets(look_at_socket, &s))
        return -1;
    if (s.inet.count == 1)
        found = s.inet;
    else if (s.inet.count == 0 && s.local.count == 1)
        found = s.local;
    if (s.inet.count && s.inet.ours != found.ours)
        close(s.inet.ours);
    if (s.local.count && s.local.ours != found.ours)
        close(s.local.ours);
    *ret_theirs = found.theirs;
    return found.ours;
}

/* Dissolving a TCP connection (AF_UNSPEC) sends a RST, throws away what was
 * not sent yet and wakes who waits for it; a Unix socket has no such thing and
 * no bytes on their way either.  Shut down it must be in any case, which the
 * kernel notes although it answers ENOTCONN: else that is what the reader gets,
 * and OpenSSL would try again for ever. */
void odbc_socket_cut(int fd)
{
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    int code = connect(fd, &none, sizeof none);

    (void)code; /* a Unix socket's */
    shutdown(fd, SHUT_RDWR);
}

bool odbc_socket_quiet(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN | POLLRDHUP};

    return poll(&p, 1, 0) == 0;
}
