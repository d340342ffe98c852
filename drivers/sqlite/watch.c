/* watch.c - noticing the death of those we wait for.
 *
 * A process that dies wakes no futex.  So when an answer is "you wait", the
 * processes of the holders and of the predecessor are watched by pidfd, one per
 * process, in the epoll set that the core polls (fd).  When one fires and the
 * byte of its slot is free, the core is told to look again; its recheck finds
 * the proof and drops the dead.
 *
 * A child that inherited the descriptor keeps the byte taken after its parent
 * is gone.  Such a process lingers: a timer looks at its byte every 5, then 10,
 * then 20 ms, until it is free or the lease has ended.
 *
 * Watches are cheap and are kept between waits, as long as there are few; when
 * nobody waits and there are many they all go.  All under watch_mu. */
#include "store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define FEW 32
#define LINGER_FIRST 5
#define LINGER_LAST 20
#define LINGER_ROUNDS 30000 /* of at least 20 ms: ten minutes */

struct sq_watched {
    sq_proc proc;
    int fd;     /* its pidfd; -1: it lingers */
    int rounds; /* how often its byte was looked at since */
};

enum { TOLD_BELL = 1, TOLD_TIMER, TOLD_PROCESS };

int hf__sq_watch_open(hf_store *s, hf_error *err)
{
    s->bell_fd = s->timer_fd = -1;
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (s->epoll_fd >= 0)
        return 0;
    return hfd_error(err, HF_EUNAVAIL, "sqlite", errno,
                     "cannot make an epoll descriptor: %s", strerror(errno));
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void hf__sq_watch_abandon(hf_store *s)
{
    for (size_t i = 0; i < s->watched_count; i++)
        close_fd(&s->watched[i].fd);
    close_fd(&s->bell_fd);
    close_fd(&s->timer_fd);
    close_fd(&s->epoll_fd);
}

void hf__sq_watch_close(hf_store *s)
{
    hf__sq_watch_abandon(s);
    hfd_free(s->watched);
    s->watched = NULL;
    s->watched_count = 0;
}

static bool poll_fd(const hf_store *s, int fd, uint64_t what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = what};

    return epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* The eventfd that the bell's thread writes; called with watch_mu held. */
bool hf__sq_watch_bell(hf_store *s)
{
    if (s->bell_fd >= 0)
        return true;
    s->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->bell_fd >= 0 && !poll_fd(s, s->bell_fd, TOLD_BELL))
        close_fd(&s->bell_fd);
    return s->bell_fd >= 0;
}

static void arm_timer(hf_store *s)
{
    struct itimerspec in = {.it_value = {0, s->linger_ms * 1000000}};

    if (s->timer_fd < 0) {
        s->timer_fd =
            timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
        if (s->timer_fd >= 0 && !poll_fd(s, s->timer_fd, TOLD_TIMER))
            close_fd(&s->timer_fd);
    }
    if (s->timer_fd >= 0)
        timerfd_settime(s->timer_fd, 0, &in, NULL);
}

static void forget_at(hf_store *s, size_t at)
{
    close_fd(&s->watched[at].fd); /* epoll forgets it too */
    s->watched[at] = s->watched[--s->watched_count];
}

/* Nobody waits and there are many: start from none. */
static void thin_out(hf_store *s)
{
    if (atomic_load(&s->waiting) == 0 && s->watched_count > FEW)
        while (s->watched_count > 0)
            forget_at(s, s->watched_count - 1);
}

static void start_linger(hf_store *s, sq_watched *w)
{
    close_fd(&w->fd);
    w->rounds = 0;
    s->linger_ms = LINGER_FIRST;
    arm_timer(s);
}

/* Open the pidfd of w.  False: it is dead, by ESRCH or by its start time,
 * which is asked after opening, so that the pidfd is surely of that process. */
static bool open_watch(hf_store *s, sq_watched *w)
{
    w->fd = (int)syscall(SYS_pidfd_open, (pid_t)w->proc.pid, 0);
    if (w->fd < 0)
        return errno != ESRCH;
    if (hf__sq_gone(w->proc.pid, w->proc.start)) {
        close_fd(&w->fd);
        return false;
    }
    /* The pidfd knows its place by slot and pid; places in the table move. */
    if (!poll_fd(s, w->fd, (uint64_t)w->proc.pid << 8 | TOLD_PROCESS))
        close_fd(&w->fd);
    return true;
}

bool hf__sq_watch_add(hf_store *s, const sq_proc *proc)
{
    sq_watched w = {.proc = *proc, .fd = -1}, *more;
    bool lives, dead = false;

    pthread_mutex_lock(&s->watch_mu);
    for (size_t i = 0; i < s->watched_count; i++) {
        const sq_proc *had = &s->watched[i].proc;

        if (had->pid == proc->pid && had->start == proc->start &&
            had->slot == proc->slot)
            goto out;
    }
    thin_out(s);
    lives = open_watch(s, &w);
    if (!lives && !hf__sq_slot_locked(s, proc->slot)) {
        dead = true;
        goto out;
    }
    if (w.fd < 0 && lives)
        goto out; /* cannot watch it: the lease and the timed look remain */
    more = hfd_realloc(s->watched, (s->watched_count + 1) * sizeof w);
    if (!more) {
        close_fd(&w.fd);
        goto out;
    }
    s->watched = more;
    s->watched[s->watched_count++] = w;
    if (!lives)
        start_linger(s, &s->watched[s->watched_count - 1]);
out:
    pthread_mutex_unlock(&s->watch_mu);
    return dead;
}

void hf__sq_watch_noted(sq_txn *t)
{
    bool dead = false;

    for (size_t i = 0; i < t->watch_count; i++)
        dead |= hf__sq_watch_add(t->s, &t->watch[i]);
    /* It died since we looked: the core shall look again at once. */
    if (dead)
        t->s->host.changed(t->s->host.ctx, NULL, NULL);
}

/* A process ended: is anybody to be told?  Called with watch_mu held. */
static bool process_ended(hf_store *s, int64_t pid)
{
    bool tell = false;

    for (size_t i = s->watched_count; i-- > 0;) {
        sq_watched *w = &s->watched[i];

        if (w->proc.pid != pid || w->fd < 0)
            continue;
        if (hf__sq_slot_locked(s, w->proc.slot) &&
            w->proc.slot != (int64_t)s->slot) {
            start_linger(s, w);
            continue;
        }
        tell = true;
        forget_at(s, i);
    }
    return tell;
}

/* Look at the bytes of those who linger.  Called with watch_mu held. */
static bool look_at_bytes(hf_store *s)
{
    bool tell = false, left = false;

    for (size_t i = s->watched_count; i-- > 0;) {
        sq_watched *w = &s->watched[i];

        if (w->fd >= 0)
            continue;
        if (!hf__sq_slot_locked(s, w->proc.slot)) {
            tell = true;
            forget_at(s, i);
        } else if (++w->rounds > LINGER_ROUNDS ||
                   atomic_load(&s->waiting) == 0) {
            forget_at(s, i);
        } else {
            left = true;
        }
    }
    if (left) {
        s->linger_ms =
            s->linger_ms * 2 > LINGER_LAST ? LINGER_LAST : s->linger_ms * 2;
        arm_timer(s);
    }
    return tell;
}

void hf__sq_watch_dispatch(hf_store *s)
{
    struct epoll_event events[16];
    int n = epoll_wait(s->epoll_fd, events, 16, 0);
    bool bell = false, tell = false;
    uint64_t count;

    pthread_mutex_lock(&s->watch_mu);
    for (int i = 0; i < n; i++) {
        uint64_t what = events[i].data.u64;

        if (what == TOLD_BELL)
            bell = read(s->bell_fd, &count, sizeof count) > 0 || bell;
        else if (what == TOLD_TIMER)
            tell |=
                read(s->timer_fd, &count, sizeof count) > 0 && look_at_bytes(s);
        else
            tell |= process_ended(s, (int64_t)(what >> 8));
    }
    pthread_mutex_unlock(&s->watch_mu);
    if (bell)
        hf__sq_bell_rang(s);
    if (tell)
        s->host.changed(s->host.ctx, NULL, NULL);
}
