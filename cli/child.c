/* child.c - starting the command, and the terminal it may need.
 *
 * The command gets a process group of its own, so that one kill(2) reaches it
 * with everything it started, and the death signal, so that it ends with us
 * even before the guardian has heard.
 *
 * It is started as vfork does (the parent sleeps until the exec, no memory is
 * copied), but on a stack of its own.  The parent sleeping has a second use:
 * group, death signal, terminal and the guardian's target are in place before
 * anybody can look.  In between the child makes plain system calls only and
 * writes nothing but the guardian's page.
 *
 * We may have stood still since the grant.  First it becomes the guardian's
 * target, then it reads when that kills: so either it sees that the instant
 * has come, and does not begin, or the guardian sees it.
 *
 * Terminal: a command in a group of its own is in the background until its
 * group is made the foreground.  We do so at the start if both stdin and
 * stdout are our terminal, else (a pipeline, where the next program may need
 * it more) when the command is stopped for want of it. */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct job {
    const struct child_plan *plan;
    pid_t parent;
};

/* The thread sanitizer keeps notes in memory and takes a clone for a fork: it
 * gets a copy of its own.  Whatever is said to the parent goes through the
 * shared page, so both ways work. */
#if defined(__SANITIZE_THREAD__)
#define SHARES_MEMORY 0
#else
#define SHARES_MEMORY CLONE_VM
#endif

static int start_job(void *arg)
{
    struct job *job = arg;
    const struct child_plan *plan = job->plan;
    pid_t self = getpid();

    setpgid(0, 0);
    atomic_store(&plan->page->target, -self);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != job->parent)
        _exit(0); /* it died before it could be noticed */
    if (plan->tty >= 0)
        tcsetpgrp(plan->tty, self); /* SIGTTOU is blocked */
    int64_t due = atomic_load(&plan->page->due_ns);
    if (due != 0 && boottime_ns() >= due) {
        atomic_store(&plan->page->exec_code, ETIME);
        _exit(127);
    }
    for (int i = 0; i < 2; i++)
        if (plan->keep[i] >= 0)
            fcntl(plan->keep[i], F_SETFD, 0);
    if (plan->ignores_child)
        signal(SIGCHLD, SIG_IGN);
    sigprocmask(SIG_SETMASK, plan->mask, NULL);
    execvpe(plan->argv[0], plan->argv, plan->env);
    atomic_store(&plan->page->exec_code, errno);
    _exit(127);
}

int child_spawn(const struct child_plan *plan, pid_t *ret_pid)
{
    struct job job = {.plan = plan, .parent = getpid()};
    /* execvpe may put the arguments and a path on the stack. */
    size_t words = 0;
    while (plan->argv[words] != NULL)
        words++;
    size_t size = (128 * 1024 + words * sizeof(char *) + 4095) & ~(size_t)4095;
    char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED)
        return errno;
    pid_t pid = clone(start_job, stack + size,
                      SHARES_MEMORY | CLONE_VFORK | SIGCHLD, &job);
    int code = pid < 0 ? errno : atomic_load(&plan->page->exec_code);
    munmap(stack, size);
    if (pid > 0 && code != 0) {
        atomic_store(&plan->page->target, 0);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            continue;
        if (plan->tty >= 0)
            tcsetpgrp(plan->tty, getpgrp());
    }
    if (code == 0)
        *ret_pid = pid;
    return code;
}

static const char *const our_names[] = {
    "HOLDFAST_KEY=", "HOLDFAST_TOKEN=", "HOLDFAST_LOST_FD=", "HOLDFAST_URL="};
enum { OUR_COUNT = 4 };

static bool is_ours(const char *variable)
{
    for (int i = 0; i < OUR_COUNT; i++)
        if (strncmp(variable, our_names[i], strlen(our_names[i])) == 0)
            return true;
    return false;
}

char **child_environment(const char *key, unsigned long long token, int lost_fd,
                         const char *url)
{
    char number[32], fd[16];
    const char *values[OUR_COUNT] = {key, number, fd, url};
    snprintf(number, sizeof(number), "%llu", token);
    snprintf(fd, sizeof(fd), "%d", lost_fd);
    size_t n = 0, bytes = 0;
    while (environ[n] != NULL)
        n++;
    for (int i = 0; i < OUR_COUNT; i++)
        bytes += strlen(our_names[i]) + strlen(values[i]) + 1;
    /* The pointers and our strings behind them: one piece. */
    char **env = malloc((n + OUR_COUNT + 1) * sizeof(char *) + bytes);
    if (env == NULL)
        return NULL;
    char *text = (char *)(env + n + OUR_COUNT + 1);
    size_t used = 0;
    for (size_t i = 0; i < n; i++)
        if (!is_ours(environ[i]))
            env[used++] = environ[i];
    for (int i = 0; i < OUR_COUNT; i++) {
        env[used++] = text;
        text = stpcpy(stpcpy(text, our_names[i]), values[i]) + 1;
    }
    env[used] = NULL;
    return env;
}

int terminal_at_start(void)
{
    pid_t group = tcgetpgrp(STDIN_FILENO);
    return group > 0 && group == getpgrp() && tcgetpgrp(STDOUT_FILENO) == group
               ? STDIN_FILENO
               : -1;
}

/* Hand the terminal from one group, or one that is no more, to another. */
static bool pass_terminal(pid_t from, pid_t to)
{
    int tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (tty < 0)
        return false;
    pid_t has = tcgetpgrp(tty);
    bool free_now =
        has == from || (has > 0 && kill(-has, 0) != 0 && errno == ESRCH);
    bool done = free_now && tcsetpgrp(tty, to) == 0;
    close(tty);
    return done;
}

bool terminal_give(pid_t group)
{
    return pass_terminal(getpgrp(), group);
}

void terminal_take(pid_t group)
{
    pass_terminal(group, getpgrp());
}
