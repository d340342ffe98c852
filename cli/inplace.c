/* inplace.c - holdfast run --no-fork: the command keeps this process.
 *
 * flock -F execs in place and the kernel keeps the lock on a descriptor.  A
 * lease must be renewed by somebody, so here a *keeper* is forked instead: it
 * opens the store, takes and renews the lock, and watches this process by
 * pidfd, while we only wait for its word and become the command.
 *
 *     P (this process)                 K (keeper)
 *     fork twice, wait for the word -> lock (P's end of the socket cancels)
 *     exec the command              <- granted: token, descriptors
 *     ... runs ...                     renews; TERM and KILL by pidfd on loss
 *     exits                         -> release
 *
 * K is nobody's child, so that the command never meets a child it does not
 * know, and has a guardian of its own that kills P if K dies.  P has no signal
 * blocked or handled: a signal that ends it while it waits closes the socket,
 * and K leaves the queue.
 *
 * Only the process itself is signalled here: its group is the caller's. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "run.h"
#include "say.h"

/* The keeper's word; with it come the lost pipe and the life descriptor. */
struct word {
    bool granted;
    int status; /* else: leave with it */
    uint64_t token;
    char url[4096];
};

union control {
    struct cmsghdr align;
    char space[CMSG_SPACE(2 * sizeof(int))];
};

static void send_word(int sock, struct word *word, const int *fds, size_t n)
{
    union control control = {0};
    struct iovec io = {.iov_base = word, .iov_len = sizeof(*word)};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1};
    if (n > 0) {
        m.msg_control = control.space;
        m.msg_controllen = CMSG_SPACE(n * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n * sizeof(int));
    }
    sendmsg(sock, &m, MSG_NOSIGNAL);
}

/* False: the keeper died without a word.  *ret_fd is the lost pipe; the
 * descriptors are inherited by the command as they come. */
static bool receive_word(int sock, struct word *ret, int *ret_fd)
{
    union control control;
    struct iovec io = {.iov_base = ret, .iov_len = sizeof(*ret)};
    struct msghdr m = {.msg_iov = &io,
                       .msg_iovlen = 1,
                       .msg_control = control.space,
                       .msg_controllen = sizeof(control.space)};
    ssize_t n;
    do
        n = recvmsg(sock, &m, 0);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof(*ret))
        return false;
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (ret->granted && c != NULL && c->cmsg_type == SCM_RIGHTS)
        memcpy(ret_fd, CMSG_DATA(c), sizeof(int));
    return true;
}

/* ---- The keeper -------------------------------------------------------- */

static void keep_until_end(struct mind *m)
{
    int hold_fd = hf_hold_fd(m->hold);
    for (;;) {
        int timeout = mind_step(m);
        bool lost = m->kill_at_ns != 0;
        struct pollfd p[2] = {{.fd = m->pidfd, .events = POLLIN},
                              {.fd = lost ? -1 : hold_fd, .events = POLLIN}};
        if (poll(p, 2, timeout) > 0 && p[0].revents != 0)
            break;
    }
    mind_end(m);
}

static void keep(const struct run *r, struct guardian *g, int sock, int pidfd)
{
    struct taken taken;
    struct mind m;
    struct word word = {0};
    int lost[2];
    if (!take_lock(&r->take, sock, &taken, &word.status)) {
        send_word(sock, &word, NULL, 0);
        return;
    }
    const char *url = common_url(&r->take.common, taken.session);
    if (pipe2(lost, O_CLOEXEC) != 0 || strlen(url) >= sizeof(word.url)) {
        word.status = STATUS_SYSTEM;
        send_word(sock, &word, NULL, 0);
        take_back(&r->take, &taken, 0);
        return;
    }
    word.granted = true;
    word.token = taken.token;
    memcpy(word.url, url, strlen(url) + 1);
    run_mind(r, &taken, g, lost[1], &m);
    m.pidfd = pidfd;
    atomic_store(&g->page->target, 1); /* from now on P is the command */
    int life = hf_session_life_fd(taken.session);
    send_word(sock, &word, (int[]){lost[0], life}, life >= 0 ? 2 : 1);
    close(lost[0]);
    close(sock);
    keep_until_end(&m);
    guardian_stop(g);
    take_back(&r->take, &taken, m.warned ? STATUS_LOST : 0);
}

_Noreturn static void be_keeper(const struct run *r, int sock, int pidfd)
{
    sigset_t all;
    struct guardian g;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    signal(SIGCHLD, SIG_DFL);
    setpgid(0, 0);
    prctl(PR_SET_NAME, "holdfast-keeper");
    /* stderr stays, for the line that tells of a loss. */
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
    }
    int code = guardian_start(&g, pidfd);
    if (code != 0) {
        struct word word = {.status = say_system(code, "cannot start")};
        send_word(sock, &word, NULL, 0);
        _exit(0);
    }
    keep(r, &g, sock, pidfd);
    guardian_stop(&g);
    guardian_reap(&g);
    _exit(0);
}

/* ---- This process ------------------------------------------------------- */

/* 0 and our end of the socket, or an errno. */
static int start_keeper(const struct run *r, int *ret_sock)
{
    int pair[2];
    int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (pidfd < 0)
        return errno;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return errno;
    pid_t between = fork();
    if (between == 0) {
        pid_t keeper = fork();
        if (keeper != 0)
            _exit(keeper < 0 ? 1 : 0);
        close(pair[0]);
        be_keeper(r, pair[1], pidfd);
    }
    int code = errno;
    close(pair[1]);
    close(pidfd);
    if (between < 0)
        return code;
    while (waitpid(between, NULL, 0) < 0 && errno == EINTR)
        continue;
    *ret_sock = pair[0];
    return 0;
}

int run_in_place(const struct run *r)
{
    static struct word word;
    int sock = -1, lost_fd = -1;
    int code = start_keeper(r, &sock);
    if (code != 0)
        return say_system(code, "cannot start");
    if (!receive_word(sock, &word, &lost_fd)) {
        say_warn("the keeper of the lock ended without a word");
        return STATUS_INTERNAL;
    }
    if (!word.granted)
        return word.status;
    char **env = child_environment(r->take.key, word.token, lost_fd, word.url);
    if (env == NULL)
        return say_system(ENOMEM, "cannot prepare the command");
    execvpe(r->argv[0], r->argv, env);
    code = errno;
    free(env);
    return run_refused(r, code);
}
