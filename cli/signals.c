/* signals.c - signals as something to read, for `run` and `hold`.
 *
 * No handlers: what concerns us is blocked and read from a signalfd, in the
 * same poll as everything else, and while waiting for a lock the descriptor
 * itself is what cancels the wait.  Blocked before threads exist, so that
 * every thread inherits it.
 *
 * What was ignored when we came (nohup, a background job) stays ignored, for
 * us and for the command: a blocked signal would be kept even though its
 * sender was told to expect nothing. */
#include "signals.h"

#include <errno.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli.h"

static bool is_ignored(int number)
{
    struct sigaction a;
    return sigaction(number, NULL, &a) == 0 && a.sa_handler == SIG_IGN;
}

static void add_heard(sigset_t *set, const int *numbers, int count)
{
    for (int i = 0; i < count; i++)
        if (!is_ignored(numbers[i]))
            sigaddset(set, numbers[i]);
}

int signals_begin(struct signals *s)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigemptyset(&s->end);
    add_heard(&s->end, ending, 4);
    /* A closed stderr must not end us, nor may the terminal stop us while
     * we hold it out to the command. */
    sigset_t block = s->end;
    sigaddset(&block, SIGPIPE);
    sigaddset(&block, SIGTTOU);
    sigprocmask(SIG_BLOCK, &block, &s->old);
    s->ignores_child = is_ignored(SIGCHLD);
    if (s->ignores_child)
        signal(SIGCHLD, SIG_DFL); /* else there is no status to pass on */
    s->fd = signalfd(-1, &s->end, SFD_CLOEXEC | SFD_NONBLOCK);
    return s->fd < 0 ? errno : 0;
}

int signals_watch(struct signals *s)
{
    static const int passed[] = {SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP, SIGCONT};
    sigset_t all = s->end;
    add_heard(&all, passed, 5);
    sigaddset(&all, SIGCHLD);
    sigprocmask(SIG_BLOCK, &all, NULL);
    return signalfd(s->fd, &all, 0) < 0 ? errno : 0;
}

int signals_next(struct signals *s)
{
    struct signalfd_siginfo info;
    ssize_t n = read(s->fd, &info, sizeof(info));
    return n == (ssize_t)sizeof(info) ? (int)info.ssi_signo : 0;
}

int signals_status(int number)
{
    if (number == SIGINT && isatty(STDIN_FILENO)) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGINT);
        signal(SIGINT, SIG_DFL);
        raise(SIGINT);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
    }
    return STATUS_SIGNAL + number;
}
