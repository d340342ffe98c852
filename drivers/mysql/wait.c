/* wait.c - how a call of the client library waits, and for how long.
 *
 * The library's blocking calls know whole seconds only.  Its other form starts
 * a call, answers what it waits for (to read, to write), and goes on when told
 * what came: so the waiting is done here, with the caller's deadline, to the
 * millisecond.  It waits as the blocking form does (try, poll, try again) and
 * adds a switch of stacks, which one run of SELECT 1 could hardly tell.
 *
 * When the deadline has come the library is told of a timeout: it unwinds its
 * call and answers an error, and the connection is of no use any more.  Nothing
 * here knows what is said on it. */
#include <errno.h>
#include <poll.h>
#include <signal.h>

#include "my.h"

static int events_of(int wanted)
{
    return ((wanted & MYSQL_WAIT_READ) ? POLLIN : 0) |
           ((wanted & MYSQL_WAIT_WRITE) ? POLLOUT : 0) |
           ((wanted & MYSQL_WAIT_EXCEPT) ? POLLPRI : 0);
}

/* An end or an error of the socket is for the library to find. */
static int came(int wanted, int events)
{
    if (events & (POLLHUP | POLLERR | POLLNVAL))
        return wanted & ~MYSQL_WAIT_TIMEOUT;
    return ((events & POLLIN) ? MYSQL_WAIT_READ : 0) |
           ((events & POLLOUT) ? MYSQL_WAIT_WRITE : 0) |
           ((events & POLLPRI) ? MYSQL_WAIT_EXCEPT : 0);
}

int my_wait(my_conn *c, int wanted, hf_nsec deadline)
{
    struct pollfd fd = {.fd = mysql_get_socket(c->my),
                        .events = (short)events_of(wanted)};

    for (;;) {
        hf_nsec left =
            deadline == HF_NEVER ? HF_MS(3600000) : deadline - hfd_now();
        struct timespec wait = {.tv_sec = left / HF_MS(1000),
                                .tv_nsec = left % HF_MS(1000)};
        int n;

        if (c->late || left <= 0)
            wait = (struct timespec){0};
        n = ppoll(&fd, 1, &wait, NULL);
        if (n > 0)
            return came(wanted, fd.revents);
        if (c->late || (n == 0 && left <= 0) || (n < 0 && errno != EINTR)) {
            c->late = true;
            return MYSQL_WAIT_TIMEOUT;
        }
    }
}

void my_quiet_begin(my_quiet *q, bool tls)
{
    sigset_t pipe_only, pending;

    q->on = tls;
    if (!tls)
        return;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    sigpending(&pending);
    q->was_pending = sigismember(&pending, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_only, &q->before);
}

void my_quiet_end(my_quiet *q)
{
    struct timespec none = {0};
    sigset_t pipe_only;

    if (!q->on)
        return;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    if (!q->was_pending)
        while (sigtimedwait(&pipe_only, NULL, &none) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &q->before, NULL);
}
