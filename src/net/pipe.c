/* pipe.c - one connection, used by many threads at once: who reads, who waits.
 *
 * There is one role, reading, and it is never lost: `reading` says whether it
 * is given.  Who holds it passes it on under `mu`: to the newest of those who
 * sleep (answers come in order, so he will read for all before him), else to
 * the epoll's owner, else it is free for whoever comes.
 *
 *     free --wait, dispatch, cut--> held --woken, late--> next sleeper | free
 *                                   held --broken-------> held for ever
 *
 * A waiter's word: WOKEN stays; ROLE is set under `mu` with his leaving the
 * list; ASLEEP and POLLING say that waking him needs a system call.  After
 * WOKEN is set the waiter may be gone, so nothing of him is touched any more;
 * but he leaves the list under `mu` himself, so who is in it is alive.  Woken
 * and made the reader in one moment: he passes the role on.
 *
 * Broken: the role's holder tells it, after his last `received`, and keeps the
 * role, so it is told once and nothing is read behind it.  The sending side is
 * shut before (pipe_send.c), so who began before is in his user's line and who
 * comes later is refused.  Reply lost: the waiter's instant passes, and his
 * user cuts.  Paused here: others wait at most until their instants; nothing
 * is decided by the pipe.  Knows nothing of the protocol. */
#include "net/pipe_inside.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WOKEN = 1, ROLE = 2, ASLEEP = 4, POLLING = 8 };

enum {
    /* At least a TLS record, so that none is left inside OpenSSL. */
    CHUNK = 16 * 1024,
    CHUNK_MAX = 1024 * 1024,
    /* Receives of one dispatch; then others of the epoll's owner have a turn.
     */
    TURNS = 64
};

/* ---- Sleeping ---- */

static void futex_sleep(hf__waiter *w, unsigned value, hf_nsec until)
{
    hf_nsec left = until - hfd_now();
    struct timespec ts;

    if (left <= 0)
        return;
    if (left > HF_MS(3600000))
        left = HF_MS(3600000);
    ts.tv_sec = (time_t)(left / HF_MS(1000));
    ts.tv_nsec = (long)(left % HF_MS(1000));
    syscall(SYS_futex, &w->word, FUTEX_WAIT_PRIVATE, value, &ts, NULL, 0);
}

/* The waiter may be gone: then somebody else wakes up for nothing. */
static void futex_wake(hf__waiter *w)
{
    syscall(SYS_futex, &w->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Until one of the bits is set (true), or the instant. */
static bool sleep_for(hf__waiter *w, unsigned bits, hf_nsec until)
{
    unsigned word = atomic_fetch_or(&w->word, ASLEEP) | ASLEEP;

    while (!(word & bits) && hfd_now() < until) {
        futex_sleep(w, word, until);
        word = atomic_load(&w->word);
    }
    word = atomic_fetch_and(&w->word, ~(unsigned)ASLEEP);
    return (word & bits) != 0;
}

bool hf__waiter_woken(const hf__waiter *w)
{
    return (atomic_load_explicit(&w->word, memory_order_acquire) & WOKEN) != 0;
}

void hf__pipe_wake(hf__pipe *pipe, hf__waiter *w)
{
    unsigned word = atomic_fetch_or(&w->word, WOKEN);
    uint64_t one = 1;

    if (word & WOKEN)
        return;
    if (word & ASLEEP)
        futex_wake(w);
    if ((word & POLLING) && write(pipe->wake_fd, &one, sizeof one) < 0 &&
        errno != EAGAIN)
        hfd_log(HF_LOG_ERROR, "net: eventfd: %s", strerror(errno));
}

/* ---- The list of sleepers and the role; with mu held ---- */

static void list_add(hf__pipe *pipe, hf__waiter *w)
{
    w->next = NULL;
    w->prev = pipe->newest;
    if (pipe->newest)
        pipe->newest->next = w;
    else
        pipe->oldest = w;
    pipe->newest = w;
}

static void list_remove(hf__pipe *pipe, hf__waiter *w)
{
    if (w->prev)
        w->prev->next = w->next;
    else
        pipe->oldest = w->next;
    if (w->next)
        w->next->prev = w->prev;
    else
        pipe->newest = w->prev;
}

void hf__pipe_arm(hf__pipe *pipe)
{
    uint32_t want = pipe->blocked ? EPOLLOUT : 0;
    struct epoll_event event = {.data.ptr = pipe->tag};

    if (!pipe->reading && (pipe->attention > 0 || pipe->send_failed))
        want |= EPOLLIN;
    if ((want & ~pipe->armed) == 0 || pipe->told)
        return;
    event.events = want | pipe->armed | EPOLLONESHOT;
    if (epoll_ctl(pipe->epoll_fd, EPOLL_CTL_MOD, hf__link_fd(pipe->link),
                  &event) != 0) {
        hfd_log(HF_LOG_ERROR, "net: epoll: %s", strerror(errno));
        return;
    }
    pipe->armed |= want;
}

/* A patient reader may sit there for long: the epoll's owner need not wake up
 * beside him for each push. */
static void disarm(hf__pipe *pipe)
{
    struct epoll_event event = {.data.ptr = pipe->tag};

    if (!pipe->patient || !(pipe->armed & EPOLLIN))
        return;
    pipe->armed &= ~(uint32_t)EPOLLIN;
    event.events = pipe->armed | EPOLLONESHOT;
    if (epoll_ctl(pipe->epoll_fd, EPOLL_CTL_MOD, hf__link_fd(pipe->link),
                  &event) != 0)
        hfd_log(HF_LOG_ERROR, "net: epoll: %s", strerror(errno));
}

void hf__pipe_doom(hf__pipe *pipe, const hf_error *why)
{
    if (!atomic_load(&pipe->cut))
        pipe->why = *why;
    atomic_store(&pipe->cut, true);
}

/* The holder of the role passes it on; who is returned is to be woken after
 * the unlock, if he sleeps. */
static hf__waiter *pass_role(hf__pipe *pipe, bool *ret_asleep)
{
    for (hf__waiter *w = pipe->newest; w; w = w->prev) {
        if (hf__waiter_woken(w))
            continue; /* He is on his way out. */
        list_remove(pipe, w);
        *ret_asleep = (atomic_fetch_or(&w->word, ROLE) & ASLEEP) != 0;
        return w;
    }
    pipe->reading = false;
    hf__pipe_arm(pipe);
    return NULL;
}

/* Unlocks mu. */
static void leave_role(hf__pipe *pipe)
{
    bool asleep = false;
    hf__waiter *next = pipe->told ? NULL : pass_role(pipe, &asleep);

    pthread_mutex_unlock(&pipe->mu);
    if (next && asleep)
        futex_wake(next);
}

/* ---- Reading; the role is held, mu is not ---- */

/* It is over: shut the sending side, tell, and keep the role for ever. */
static void tell_broken(hf__pipe *pipe, const hf_error *why)
{
    hf_error copy;

    pthread_mutex_lock(&pipe->mu);
    hf__pipe_doom(pipe, why);
    pipe->told = true;
    copy = pipe->why;
    pthread_mutex_unlock(&pipe->mu);
    hf__link_cut(pipe->link);
    hf__pipe_shut(pipe);
    pipe->user.broken(pipe->user.ctx, &copy);
}

static void drain_wake_fd(hf__pipe *pipe)
{
    uint64_t count;

    if (read(pipe->wake_fd, &count, sizeof count) < 0 && errno != EAGAIN &&
        errno != EINTR)
        hfd_log(HF_LOG_ERROR, "net: eventfd: %s", strerror(errno));
}

/* Receive into the buffer; w is who waits, NULL: nobody does. */
static ssize_t receive(hf__pipe *pipe, hf__waiter *w, hf_nsec until,
                       hf_error *err)
{
    size_t room = hf__buf_len(&pipe->in);
    ssize_t got;
    char *at;

    /* A long reply comes in growing pieces: it is looked at from its beginning
     * each time. */
    room = room < CHUNK ? CHUNK : room > CHUNK_MAX ? CHUNK_MAX : room;
    at = hf__buf_room(&pipe->in, room);
    if (!at) {
        hfd_error(err, HF_ENOMEM, "net", ENOMEM, "no memory for an answer");
        return -1;
    }
    if (w && pipe->patient) {
        if (atomic_fetch_or(&w->word, POLLING) & WOKEN)
            until = 0;
        got = hf__link_recv(pipe->link, at, room, until, pipe->wake_fd, err);
        atomic_fetch_and(&w->word, ~(unsigned)POLLING);
        if (got == 0)
            drain_wake_fd(pipe);
    } else {
        got = hf__link_recv(pipe->link, at, room, until, -1, err);
    }
    if (got > 0)
        pipe->in.end += (size_t)got;
    return got;
}

typedef enum read_end { READ_SOME, READ_NONE, READ_OVER } read_end;

static read_end read_once(hf__pipe *pipe, hf__waiter *w, hf_nsec until)
{
    hf_error why = {0};
    ssize_t n = receive(pipe, w, until, &why);

    if (n > 0 && !atomic_load(&pipe->cut)) {
        n = pipe->user.received(pipe->user.ctx, pipe->in.data + pipe->in.start,
                                hf__buf_len(&pipe->in), &why);
        if (n >= 0)
            hf__buf_eat(&pipe->in, (size_t)n);
        if (n >= 0 && !atomic_load(&pipe->cut))
            return READ_SOME;
    }
    if (n == 0 && !atomic_load(&pipe->cut))
        return READ_NONE;
    tell_broken(pipe, &why);
    return READ_OVER;
}

/* Read for all until w was woken or the instant has passed, then pass the role
 * on.  When it breaks meanwhile, w sleeps on like everybody. */
static bool read_for_all(hf__pipe *pipe, hf__waiter *w, hf_nsec until)
{
    for (;;) {
        read_end end;

        if (hf__waiter_woken(w))
            break;
        end = read_once(pipe, w, until);
        if (end == READ_OVER)
            return sleep_for(w, WOKEN, until);
        if (end == READ_NONE && hfd_now() >= until)
            break;
    }
    pthread_mutex_lock(&pipe->mu);
    leave_role(pipe);
    return hf__waiter_woken(w);
}

bool hf__pipe_wait(hf__pipe *pipe, hf__waiter *w, hf_nsec until)
{
    bool mine;

    if (hf__waiter_woken(w))
        return true;
    pthread_mutex_lock(&pipe->mu);
    mine = !pipe->reading;
    if (mine) {
        pipe->reading = true;
        disarm(pipe);
    } else {
        list_add(pipe, w);
    }
    pthread_mutex_unlock(&pipe->mu);
    if (mine)
        return read_for_all(pipe, w, until);

    sleep_for(w, WOKEN | ROLE, until);
    pthread_mutex_lock(&pipe->mu);
    if (!(atomic_load(&w->word) & ROLE)) {
        list_remove(pipe, w);
        pthread_mutex_unlock(&pipe->mu);
        return hf__waiter_woken(w);
    }
    pthread_mutex_unlock(&pipe->mu);
    atomic_fetch_and(&w->word, ~(unsigned)ROLE);
    return read_for_all(pipe, w, until);
}

/* ---- The epoll's owner, and the end ---- */

void hf__pipe_attend(hf__pipe *pipe, int by)
{
    pthread_mutex_lock(&pipe->mu);
    pipe->attention += by;
    hf__pipe_arm(pipe);
    pthread_mutex_unlock(&pipe->mu);
}

void hf__pipe_dispatch(hf__pipe *pipe)
{
    read_end end = READ_SOME;
    bool mine;

    pthread_mutex_lock(&pipe->mu);
    pipe->armed = 0; /* It was one shot. */
    pipe->blocked = false;
    mine = !pipe->reading;
    pipe->reading = true;
    pthread_mutex_unlock(&pipe->mu);
    hf__pipe_flush(pipe);
    for (int i = 0; mine && end == READ_SOME && i < TURNS; i++)
        end = read_once(pipe, NULL, 0);
    pthread_mutex_lock(&pipe->mu);
    if (mine && end != READ_OVER) {
        leave_role(pipe);
    } else {
        hf__pipe_arm(pipe);
        pthread_mutex_unlock(&pipe->mu);
    }
}

void hf__pipe_cut(hf__pipe *pipe, const hf_error *why)
{
    bool mine;

    pthread_mutex_lock(&pipe->mu);
    hf__pipe_doom(pipe, why);
    mine = !pipe->reading;
    pipe->reading = true;
    pthread_mutex_unlock(&pipe->mu);
    if (mine)
        tell_broken(pipe, why);
    else
        hf__link_cut(pipe->link); /* Who reads finds it, and tells. */
}

bool hf__pipe_is_broken(hf__pipe *pipe)
{
    return atomic_load(&pipe->cut) || atomic_load(&pipe->shut);
}

int hf__pipe_new(hf__pipe **ret, hf__link *link, const hf__pipe_user *user,
                 bool patient, int epoll_fd, void *tag, hf_error *err)
{
    hf__pipe *pipe = hfd_alloc(sizeof *pipe);
    struct epoll_event event = {.events = EPOLLONESHOT, .data.ptr = tag};
    int native = ENOMEM;

    if (!pipe)
        goto failed;
    pipe->link = link;
    pipe->user = *user;
    pipe->patient = patient;
    pipe->epoll_fd = epoll_fd;
    pipe->tag = tag;
    pipe->wake_fd = patient ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
    native = errno;
    if (patient && pipe->wake_fd < 0)
        goto failed;
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, hf__link_fd(link), &event) != 0) {
        native = errno;
        goto failed;
    }
    pthread_mutex_init(&pipe->mu, NULL);
    pthread_mutex_init(&pipe->send_mu, NULL);
    *ret = pipe;
    return 0;
failed:
    if (pipe && pipe->wake_fd >= 0)
        close(pipe->wake_fd);
    hfd_free(pipe);
    return hfd_error(err, native == ENOMEM ? HF_ENOMEM : HF_EUNAVAIL, "net",
                     native, "a connection cannot be set up: %s",
                     strerror(native));
}

void hf__pipe_free(hf__pipe *pipe, bool reset)
{
    if (!pipe)
        return;
    /* Closing alone would not do when a forked child has the socket, too. */
    if (epoll_ctl(pipe->epoll_fd, EPOLL_CTL_DEL, hf__link_fd(pipe->link),
                  NULL) != 0)
        hfd_log(HF_LOG_WARN, "net: epoll: %s", strerror(errno));
    hf__link_close(pipe->link, reset);
    if (pipe->wake_fd >= 0)
        close(pipe->wake_fd);
    hf__buf_done(&pipe->in);
    hf__buf_done(&pipe->gather);
    hf__buf_done(&pipe->going);
    pthread_mutex_destroy(&pipe->mu);
    pthread_mutex_destroy(&pipe->send_mu);
    hfd_free(pipe);
}

void hf__pipe_abandon(hf__pipe *pipe)
{
    hf__link_abandon(pipe->link);
    if (pipe->wake_fd >= 0)
        close(pipe->wake_fd);
}
