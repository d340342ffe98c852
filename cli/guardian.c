/* guardian.c - the process that ends the command if `holdfast` cannot.
 *
 * Answers: who stops the command when its wrapper was killed, or stands still?
 * PR_SET_PDEATHSIG reaches only the direct child; what that has started lives
 * on.  So `run` forks a guardian first, when it is still small and has no
 * threads.  It sits outside the command's group with every signal blocked and
 * waits for one of two things:
 *
 *   its socket ends     the wrapper is gone: KILL the target
 *   due_ns has come     the wrapper did not move it on, so the lease was not
 *                       renewed or the wrapper is stopped: KILL the target,
 *                       before the lock can be another's
 *
 * It keeps the session's life descriptor, so that a store which notices
 * crashes at once passes the lock on only when the target is gone.
 *
 * The target is written into the shared page by the command itself before its
 * exec, and taken out before it is reaped: at no instant is there a command
 * without a target, and never a target whose number belongs to another. */
#include "guardian.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SOCK = 0, PIDFD = 1, FIRST_FREE = 2 }; /* its descriptors */

int64_t boottime_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* True: the target is there (and was sent sig, unless that is 0). */
static bool signal_target(const struct guardian_page *page, bool has_pidfd,
                          int sig)
{
    int target = atomic_load(&page->target);
    if (target == 0)
        return false;
    if (has_pidfd)
        return syscall(SYS_pidfd_send_signal, PIDFD, sig, NULL, 0) == 0;
    return kill(target, sig) == 0;
}

/* KILL is sent, not yet felt: a second at most, for a group whose dead are not
 * reaped looks alive. */
static void await_end(const struct guardian_page *page, bool has_pidfd)
{
    struct timespec pause = {.tv_nsec = 200000};
    for (int i = 0; i < 1000 && signal_target(page, has_pidfd, 0); i++) {
        struct pollfd p = {.fd = PIDFD, .events = POLLIN};
        if (has_pidfd && poll(&p, 1, 0) == 1)
            return;
        nanosleep(&pause, NULL);
        pause.tv_nsec = 1000000;
    }
}

/* False: the wrapper is gone.  A descriptor that came along stays open. */
static bool take_message(void)
{
    char byte;
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec io = {.iov_base = &byte, .iov_len = 1};
    struct msghdr m = {.msg_iov = &io,
                       .msg_iovlen = 1,
                       .msg_control = control.space,
                       .msg_controllen = sizeof(control.space)};
    return recvmsg(SOCK, &m, 0) > 0;
}

static void arm_timer(int timer, int64_t due_ns)
{
    struct itimerspec t = {.it_value = {.tv_sec = due_ns / 1000000000,
                                        .tv_nsec = due_ns % 1000000000}};
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &t, NULL);
}

static void guard(struct guardian_page *page, bool has_pidfd)
{
    int timer = -1;
    for (;;) {
        struct pollfd p[2] = {{.fd = SOCK, .events = POLLIN},
                              {.fd = timer, .events = POLLIN}};
        if (poll(p, 2, -1) < 0)
            continue;
        if (p[0].revents != 0) {
            if (!take_message())
                break;
            if (timer < 0)
                timer = timerfd_create(CLOCK_BOOTTIME, 0);
        }
        int64_t due = atomic_load(&page->due_ns);
        if (due != 0 && boottime_ns() >= due) {
            if (signal_target(page, has_pidfd, SIGKILL))
                atomic_store(&page->struck, true);
            due = 0;
            atomic_store(&page->due_ns, 0);
        }
        arm_timer(timer, due);
    }
    if (signal_target(page, has_pidfd, SIGKILL))
        await_end(page, has_pidfd);
}

/* Keep nothing of what was inherited: a pipe's reader must not wait for us. */
_Noreturn static void be_guardian(struct guardian_page *page, int sock,
                                  int pidfd)
{
    setpgid(0, 0);
    prctl(PR_SET_NAME, "holdfast-guard");
    /* The numbers are all above 2: main() has seen to that. */
    dup2(sock, SOCK);
    if (pidfd >= 0)
        dup2(pidfd, PIDFD);
    syscall(SYS_close_range, pidfd >= 0 ? FIRST_FREE : PIDFD, ~0U, 0);
    guard(page, pidfd >= 0);
    _exit(0);
}

int guardian_start(struct guardian *g, int pidfd)
{
    int pair[2];
    sigset_t all, old;
    *g = (struct guardian){.sock = -1};
    void *page =
        mmap(NULL, sizeof(struct guardian_page), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return errno;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        int code = errno;
        munmap(page, sizeof(struct guardian_page));
        return code;
    }
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &old);
    pid_t pid = fork();
    int code = errno;
    if (pid == 0)
        be_guardian(page, pair[1], pidfd);
    sigprocmask(SIG_SETMASK, &old, NULL);
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        munmap(page, sizeof(struct guardian_page));
        return code;
    }
    *g = (struct guardian){.pid = pid, .sock = pair[0], .page = page};
    return 0;
}

void guardian_arm(struct guardian *g, int life_fd)
{
    char byte = 0;
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec io = {.iov_base = &byte, .iov_len = 1};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1};
    if (life_fd >= 0) {
        m.msg_control = control.space;
        m.msg_controllen = sizeof(control.space);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &life_fd, sizeof(int));
    }
    sendmsg(g->sock, &m, MSG_NOSIGNAL);
}

void guardian_stop(struct guardian *g)
{
    if (g->pid == 0)
        return;
    atomic_store(&g->page->target, 0);
    kill(g->pid, SIGKILL);
}

void guardian_reap(struct guardian *g)
{
    if (g->pid == 0)
        return;
    while (waitpid(g->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    close(g->sock);
    munmap(g->page, sizeof(*g->page));
    g->pid = 0;
}
