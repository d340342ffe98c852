/* poll_loop.c - locks in an event loop, without a thread of one's own.
 *
 * Every take has a form that only starts it.  The session has one descriptor;
 * when it is readable, hf_collect says what has come: a lock granted or
 * refused, a release done, a hold lost.  Each started request comes back
 * exactly once, with the pointer it was started with, even when it was
 * cancelled.
 *
 * The loop serves three clients of one key.  The first gets it, the second
 * waits for it, the third gives up after a while (a timer) and is cancelled. */
#include <holdfast/holdfast.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define KEY "/printer"

struct client {
    const char *name;
    hf_request *request;
};

static int fail(const hf_error *err)
{
    fprintf(stderr, "%s\n", err->text);
    return 1;
}

static int watch(int epoll, int fd)
{
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};

    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
}

static int start_timer(int ms)
{
    struct itimerspec t = {.it_value = {ms / 1000, (ms % 1000) * 1000000L}};
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);

    return fd >= 0 && timerfd_settime(fd, 0, &t, NULL) == 0 ? fd : -1;
}

/* One result; says whether it was the last of its client. */
static int handle_result(const hf_result *r)
{
    struct client *c = r->user;
    hf_error err;

    switch (r->kind) {
    case HF_RESULT_LOCK:
        c->request = NULL;
        if (r->error.code != 0) {
            printf("%s: %s\n", c->name, hf_strerror(r->error.code));
            return 1;
        }
        printf("%s: granted\n", c->name);
        if (hf_release_start(r->hold, c, &c->request, &err) != 0)
            return fail(&err);
        return 0;
    case HF_RESULT_RELEASE:
        printf("%s: released\n", c->name);
        return 1;
    case HF_RESULT_CHANGE:
        printf("%s: state %d\n", c->name, (int)r->state);
        return 0;
    default:
        return 0;
    }
}

static void run_loop(hf_session *s, int epoll, int timer, struct client *third,
                     hf_hold *held)
{
    struct epoll_event e[8];
    hf_result r;
    int done = 0;

    while (done < 2) {
        int n = epoll_wait(epoll, e, 8, 30000);

        if (n <= 0)
            return;
        for (int i = 0; i < n; i++)
            if (e[i].data.fd == timer) {
                epoll_ctl(epoll, EPOLL_CTL_DEL, timer, NULL);
                hf_cancel(third->request, NULL);
                hf_release(held, NULL); /* the second may have it now */
            }
        while (hf_collect(s, &r) == 1)
            done += handle_result(&r);
    }
}

int main(void)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = HF_FOREVER};
    struct client second = {.name = "second"}, third = {.name = "third"};
    int epoll = epoll_create1(EPOLL_CLOEXEC), timer = start_timer(100);
    hf_session *s;
    hf_hold *held;
    hf_error err;

    if (epoll < 0 || timer < 0)
        return 1;
    if (hf_open(&s, NULL, NULL, &err) != 0 ||
        hf_try_lock(s, KEY, NULL, &held, &err) != 0)
        return fail(&err);
    puts("first: granted");
    if (hf_lock_start(s, KEY, &opt, &second, &second.request, &err) != 0 ||
        hf_lock_start(s, KEY, &opt, &third, &third.request, &err) != 0)
        return fail(&err);
    if (watch(epoll, hf_session_fd(s)) != 0 || watch(epoll, timer) != 0)
        return 1;
    run_loop(s, epoll, timer, &third, held);
    hf_close(s);
    close(timer);
    close(epoll);
    return 0;
}
