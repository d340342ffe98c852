/* guard.c - nobody waits for an answer beyond his deadline.
 *
 * The calls of ODBC block for as long as the driver likes: a server that stands
 * still, a network that was cut, and the thread that renews would hang.  One
 * thread per store sleeps until the earliest deadline of the statements that
 * run and then cuts the socket (socket.c); the driver's call returns with an
 * error, and what it did is unknown.
 *
 * A statement costs two uncontended locks here and no system call: the thread
 * is rung only if it sleeps longer than the new deadline, and when it wakes for
 * a statement that is long done it goes back to sleep until the next one's.
 *
 * A cut at the very moment of the answer: `end` says so under the lock, the
 * answer counts (it was read whole) and the connection is not used again. */
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "odbc.h"

int odbc_guard_init(odbc_guard *guard)
{
    guard->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (guard->bell < 0)
        return HF_ENOMEM;
    guard->all.next = guard->all.prev = &guard->all;
    guard->wakes = HF_NEVER;
    pthread_mutex_init(&guard->mu, NULL);
    return 0;
}

/* Called with guard->mu held: cuts what is late; when to look again. */
static hf_nsec cut_late(odbc_guard *guard)
{
    hf_nsec now = hfd_now(), next = HF_NEVER;

    for (odbc_watch *w = guard->all.next; w != &guard->all; w = w->next) {
        if (w->cut)
            continue;
        if (w->deadline <= now) {
            w->cut = true;
            odbc_socket_cut(w->fd);
        } else if (w->deadline < next) {
            next = w->deadline;
        }
    }
    return next;
}

static int until_ms(hf_nsec when)
{
    hf_nsec left = when - hfd_now();

    if (when == HF_NEVER)
        return -1;
    if (left <= 0)
        return 0;
    return left > HF_MS(3600000) ? 3600000 : (int)(left / HF_MS(1)) + 1;
}

static void *run_guard(void *arg)
{
    odbc_guard *guard = arg;

    pthread_mutex_lock(&guard->mu);
    while (!guard->stop) {
        struct pollfd bell = {.fd = guard->bell, .events = POLLIN};
        uint64_t rings;

        guard->wakes = cut_late(guard);
        int wait_ms = until_ms(guard->wakes);

        pthread_mutex_unlock(&guard->mu);
        if (poll(&bell, 1, wait_ms) > 0 &&
            read(guard->bell, &rings, sizeof rings) < 0)
            hfd_log(HF_LOG_DEBUG, "odbc: the guard was rung for nothing");
        pthread_mutex_lock(&guard->mu);
    }
    pthread_mutex_unlock(&guard->mu);
    return NULL;
}

/* Called with guard->mu held. */
static void ring_guard(odbc_guard *guard)
{
    uint64_t one = 1;

    /* It can only fail when the count is full: then it is readable. */
    if (write(guard->bell, &one, sizeof one) < 0)
        hfd_log(HF_LOG_DEBUG, "odbc: the guard's bell is full");
}

/* Called with guard->mu held. */
static void start_guard(odbc_guard *guard)
{
    sigset_t all, old;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    guard->runs = pthread_create(&guard->thread, NULL, run_guard, guard) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!guard->runs)
        hfd_log(HF_LOG_WARN, "odbc: no thread to keep deadlines: statements "
                             "end when the driver's own timeouts say so");
}

void odbc_guard_begin(odbc_guard *guard, odbc_watch *watch, hf_nsec deadline)
{
    if (watch->fd < 0)
        return;
    pthread_mutex_lock(&guard->mu);
    watch->deadline = deadline;
    watch->cut = false;
    watch->listed = true;
    watch->prev = guard->all.prev;
    watch->next = &guard->all;
    watch->prev->next = watch->next->prev = watch;
    if (!guard->runs)
        start_guard(guard);
    else if (deadline < guard->wakes)
        ring_guard(guard);
    pthread_mutex_unlock(&guard->mu);
}

bool odbc_guard_end(odbc_guard *guard, odbc_watch *watch)
{
    bool cut;

    if (!watch->listed)
        return false;
    pthread_mutex_lock(&guard->mu);
    watch->listed = false;
    watch->prev->next = watch->next;
    watch->next->prev = watch->prev;
    cut = watch->cut;
    pthread_mutex_unlock(&guard->mu);
    return cut;
}

void odbc_guard_done(odbc_guard *guard)
{
    bool runs;

    pthread_mutex_lock(&guard->mu);
    runs = guard->runs;
    guard->stop = true;
    if (runs)
        ring_guard(guard);
    pthread_mutex_unlock(&guard->mu);
    if (runs)
        pthread_join(guard->thread, NULL);
    close(guard->bell);
    pthread_mutex_destroy(&guard->mu);
}
