/* keeper.c - the one background thread of a session.
 *
 * It renews the session's lease, however many locks are held, and watches the
 * time: caps and fixed leases that end, waits that are over, leaves to be
 * repeated, looks for waiters whose wake-up may have been lost.  It only
 * polls: nothing that blocks stands between the clock and the verdict, so a
 * stuck store or callback cannot hide a loss.  Order in a step: read the
 * clock, decide what is lost, only then send anything.
 *
 * It sleeps on a timer of CLOCK_BOOTTIME, which goes on through a suspend; the
 * first thing after waking is the clock.  Under the simulator there is no
 * thread: hf__keeper_step is called by hand. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/internal.h"

static void renew_landed(hf__flight *flight)
{
    hf__session *s = flight->s;

    s->renewing = false;
    hf__each_answered(s, &flight->batch, &flight->op);
    hf__session_renewed(s, &flight->op, flight->gen);
    /* Of a session that is over: the next one's had to wait for it. */
    if (flight->gen != s->gen && s->attach == HF_ATTACH_DONE)
        hf__session_wake_keeper(s, s->lease.next_renew);
}

static void renew_session(hf__session *s, hf_nsec now)
{
    hf__flight *flight;

    if (s->renewing || s->closing)
        return;
    flight = hf__flight_new(s, HF_OP_RENEW, NULL, renew_landed);
    if (flight && !hf__each_fill(s, &flight->batch, &flight->op)) {
        hf__flight_free(flight);
        flight = NULL;
    }
    if (!flight) {
        hf__lease_doubt(&s->lease, now, HF_ENOMEM);
        return;
    }
    s->renewing = true;
    hf__flight_submit(flight);
}

static bool wants_look(const hf__entry *entry)
{
    return entry->state == HF_ENTRY_WAITING && entry->req &&
           entry->req->state == HF_REQ_WAITING &&
           !(entry->req->bell && entry->s->driver->park);
}

static hf__flight *new_recheck(hf__session *s)
{
    hf__flight *flight =
        hf__flight_new(s, HF_OP_RECHECK, NULL, hf__recheck_landed);

    if (flight && !hf__batch_init(&flight->batch, HF_LOOK_MAX)) {
        hf__flight_free(flight);
        flight = NULL;
    }
    return flight;
}

/* One look for many who wait and are not asleep in the driver; those who are
 * nearly due come along.  More than fit into one request follow when it has
 * landed. */
static void recheck_due(hf__session *s, hf_nsec now)
{
    hf_nsec soon = now + HF_MS(500);
    hf__flight *flight = NULL;

    s->recheck_at = HF_NEVER;
    HF_LIST_EACH(node, &s->entries) {
        hf__entry *entry = HF_CONTAINER(node, hf__entry, of_session);

        if (!wants_look(entry))
            continue;
        if (!flight && entry->look_at <= now) {
            flight = new_recheck(s);
            if (!flight) {
                s->recheck_at = now + HF_MS(1000);
                return;
            }
            flight->op.by_clock = true; /* unless somebody was told */
        }
        if (flight && entry->look_at <= soon &&
            flight->batch.count < HF_LOOK_MAX) {
            hf__batch_add(&flight->batch, entry);
            flight->op.by_clock = flight->op.by_clock && entry->look_timed;
            entry->look_at = HF_NEVER;
        } else if (entry->look_at < s->recheck_at) {
            s->recheck_at = entry->look_at;
        }
    }
    if (flight) {
        flight->op.places = flight->batch.pointers;
        flight->op.place_count = flight->batch.count;
        s->rechecking = true;
        s->stats.rechecks++;
        hf__flight_submit(flight);
    }
}

hf_nsec hf__keeper_step(hf__session *s)
{
    hf_nsec now = hfd_now();
    hf__timer *timer;
    hf_nsec next;

    hf__lease_look_at_clocks(&s->lease);
    hf__session_judge(s, now);
    while ((timer = hf__heap_pop_due(&s->timers, now)) != NULL)
        timer->fire(timer, now);
    if (s->closing)
        return now + HF_MS(1000);
    if (s->attach == HF_ATTACH_DONE && now >= s->lease.next_renew)
        renew_session(s, now);
    hf__audit_due(s, now);
    if (s->attach == HF_ATTACH_NONE && s->attach_retry_at &&
        now >= s->attach_retry_at) {
        s->attach_retry_at = 0;
        hf__line_pump_all(s);
    }
    if (s->attach == HF_ATTACH_DONE && now >= s->recheck_at && !s->rechecking)
        recheck_due(s, now);

    next = hf__heap_next(&s->timers);
    if (s->attach == HF_ATTACH_DONE) {
        hf_nsec lease = s->renewing ? hf__lease_lost_at(&s->lease)
                                    : hf__lease_next(&s->lease);

        next = lease < next ? lease : next;
        next = hf__audit_next(s) < next ? hf__audit_next(s) : next;
        if (!s->rechecking && s->recheck_at < next)
            next = s->recheck_at;
    } else if (s->attach == HF_ATTACH_NONE && s->attach_retry_at &&
               s->attach_retry_at < next) {
        next = s->attach_retry_at;
    }
    return next;
}

static void set_timer(hf__session *s, hf_nsec due)
{
    struct itimerspec spec = {0};

    if (due == s->timer_due) {
        s->keeper_due = due;
        return;
    }
    s->keeper_due = s->timer_due = due;
    if (due != HF_NEVER) {
        if (due < 1)
            due = 1;
        spec.it_value.tv_sec = due / 1000000000;
        spec.it_value.tv_nsec = due % 1000000000;
    }
    timerfd_settime(s->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

static bool is_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) > 0;
}

/* A request's cancel_fd became readable.  The request may be done by now, and
 * another one be at its address: so its own descriptor is asked. */
static void cancel_by_fd(hf__session *s, const void *who)
{
    hf__session_lock(s);
    HF_LIST_EACH(node, &s->reqs) {
        hf__req *req = HF_CONTAINER(node, hf__req, all);

        if (req == who && req->cancel_dup >= 0 &&
            is_readable(req->cancel_dup)) {
            hf__keeper_unwatch(s, req);
            hf__req_stop(req, HF_ECANCELED);
            break;
        }
    }
    hf__session_unlock(s);
}

static void *run_keeper(void *arg)
{
    hf__session *s = arg;
    struct epoll_event events[16];
    uint64_t count;

    hf__session_lock(s);
    while (!s->keeper_stop) {
        int ready;

        set_timer(s, hf__keeper_step(s));
        hf__session_unlock(s);
        ready = epoll_wait(s->epoll_fd, events, 16, -1);
        for (int i = 0; i < ready; i++) {
            const void *who = events[i].data.ptr;

            if (who == &s->wake_fd || who == &s->timer_fd) {
                if (read(*(const int *)who, &count, sizeof count) > 0 &&
                    who == &s->timer_fd)
                    s->timer_due = 0; /* it has fired: set it anew */
            } else if (who == s) {
                s->driver->dispatch(s->store);
            } else {
                cancel_by_fd(s, who);
            }
        }
        hf__session_lock(s);
    }
    hf__session_unlock(s);
    return NULL;
}

static int watch(hf__session *s, int fd, void *who)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = who};

    return epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static void close_descriptors(hf__session *s)
{
    int *fds[] = {&s->epoll_fd, &s->timer_fd, &s->wake_fd};

    for (size_t i = 0; i < 3; i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
}

int hf__keeper_start(hf__session *s)
{
    int store_fd;

    if (s->keeper_runs || !hf__clock_threads())
        return 0;
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    s->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    store_fd = s->driver->fd(s->store);
    if (s->epoll_fd < 0 || s->timer_fd < 0 || s->wake_fd < 0 ||
        watch(s, s->timer_fd, &s->timer_fd) != 0 ||
        watch(s, s->wake_fd, &s->wake_fd) != 0 ||
        (store_fd >= 0 && watch(s, store_fd, s) != 0) ||
        hf__thread_start(&s->keeper, run_keeper, s) != 0) {
        close_descriptors(s);
        return HF_ENOMEM;
    }
    s->keeper_runs = true;
    return 0;
}

void hf__keeper_stop(hf__session *s)
{
    uint64_t one = 1;

    if (!s->keeper_runs)
        return;
    hf__session_lock(s);
    s->keeper_stop = true;
    hf__session_unlock(s);
    if (write(s->wake_fd, &one, sizeof one) < 0)
        hfd_log(HF_LOG_ERROR, "the keeper cannot be woken: %s",
                strerror(errno));
    pthread_join(s->keeper, NULL);
    close_descriptors(s);
}

void hf__keeper_abandon(hf__session *s)
{
    close_descriptors(s);
    if (s->result_fd >= 0)
        close(s->result_fd);
    s->result_fd = -1;
}

int hf__keeper_watch(hf__session *s, hf__req *req, int cancel_fd)
{
    int code;

    if (!hf__clock_threads() || hf__keeper_start(s) != 0)
        return HF_EINVAL;
    /* A copy: one descriptor may end several waits, epoll takes each once. */
    req->cancel_dup = fcntl(cancel_fd, F_DUPFD_CLOEXEC, 0);
    if (req->cancel_dup >= 0 && watch(s, req->cancel_dup, req) == 0)
        return 0;
    /* Not open, or of a kind that cannot be polled; else a limit. */
    code = errno == EBADF || errno == EPERM ? HF_EINVAL : HF_ENOMEM;
    if (req->cancel_dup >= 0)
        close(req->cancel_dup);
    req->cancel_dup = -1;
    return code;
}

void hf__keeper_unwatch(hf__session *s, hf__req *req)
{
    if (req->cancel_dup >= 0) {
        epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, req->cancel_dup, NULL);
        close(req->cancel_dup);
        req->cancel_dup = -1;
    }
}
