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

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
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

/* A wrapper that runs acts at the instant itself and can say so; this long it
 * has for it.  Much less than the margin (250 ms and more) between the loss
 * here and the store giving the lock to another. */
#define GRACE_NS 20000000

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

/* Does the process with this /proc entry run in `group`?  The dead that nobody
 * has reaped yet do not: their descriptors are closed. */
static bool is_member(const char *pid, int group)
{
    char path[300], stat[512];
    snprintf(path, sizeof(path), "/proc/%s/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, stat, sizeof(stat) - 1);
    close(fd);
    stat[n > 0 ? n : 0] = '\0';
    /* PID (NAME) STATE PPID PGRP: the name may have anything in it. */
    char *rest = strrchr(stat, ')');
    char state;
    int pgrp;
    return rest != NULL && sscanf(rest, ") %c %*d %d", &state, &pgrp) == 2 &&
           pgrp == group && state != 'Z' && state != 'X';
}

static bool is_group_alive(int group)
{
    DIR *proc = opendir("/proc");
    if (proc == NULL)
        return kill(-group, 0) == 0;
    bool alive = false;
    struct dirent *entry;
    while (!alive && (entry = readdir(proc)) != NULL)
        alive = isdigit((unsigned char)entry->d_name[0]) &&
                is_member(entry->d_name, group);
    closedir(proc);
    return alive;
}

/* KILL is sent, not yet felt: wait for it, a second at most.  One that cannot
 * even die then sits in the kernel and acts no more. */
static void await_end(const struct guardian_page *page, bool has_pidfd)
{
    int target = atomic_load(&page->target);
    struct timespec pause = {.tv_nsec = 200000};
    struct pollfd p = {.fd = PIDFD, .events = POLLIN};
    if (has_pidfd) {
        poll(&p, 1, 1000);
        return;
    }
    for (int i = 0; i < 200 && is_group_alive(-target); i++) {
        nanosleep(&pause, NULL);
        pause.tv_nsec = i < 20 ? 1000000 : 5000000;
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
        due += due != 0 ? GRACE_NS : 0;
        if (due != 0 && boottime_ns() >= due) {
            /* Noted first: the wrapper may see the end before we go on. */
            atomic_store(&page->struck, true);
            if (signal_target(page, has_pidfd, SIGKILL))
                atomic_store(&page->due_ns, 0);
            else /* not there yet: it reads the instant before it begins */
                atomic_store(&page->struck, false);
            due = 0;
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

void guardian_poke(const struct guardian *g)
{
    char byte = 0;
    send(g->sock, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void guardian_stop(struct guardian *g)
{
    if (g->pid == 0)
        return;
    atomic_store(&g->page->target, 0);
    if (!g->stopped)
        kill(g->pid, SIGKILL);
    g->stopped = true;
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
