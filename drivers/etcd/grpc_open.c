/* grpc_open.c - the channel as a whole: made, ended, left behind.
 *
 * Copies what it is told to connect to, and opens the first connection on the
 * caller's thread, so that a wrong URL is told by hf_open and not later.  Also
 * the doctor's way in: one call to one member over a connection of its own,
 * which asks for no leader, because the doctor wants to know.  Knows nothing of
 * what the calls mean.
 *
 * At the end no calls are under way (the core sees to that): the dialer thread
 * is joined, which takes as long as one attempt to connect at most, then the
 * connection goes.  In a forked child the other threads are gone and may have
 * held any lock: only descriptors are closed, no lock is taken, nothing freed,
 * not a byte said. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "grpc_inside.h"

static char *copy_text(const char *text, bool *failed)
{
    size_t len = text ? strlen(text) : 0;
    char *copy = hfd_alloc(len + 1);

    if (copy && len > 0)
        memcpy(copy, text, len);
    if (!copy)
        *failed = true;
    return copy;
}

static int copy_settings(grpc_channel *channel, const grpc_settings *settings)
{
    size_t n = settings->address_count;
    bool failed = false;

    channel->user = copy_text(settings->user, &failed);
    channel->password = copy_text(settings->password, &failed);
    channel->addresses = hfd_alloc(n * sizeof *channel->addresses);
    if (!channel->addresses)
        return HF_ENOMEM;
    channel->address_count = n;
    for (size_t i = 0; i < n; i++) {
        channel->addresses[i].port = settings->addresses[i].port;
        channel->addresses[i].host =
            copy_text(settings->addresses[i].host, &failed);
    }
    channel->tls = settings->tls;
    channel->dial_time = settings->dial_time;
    return failed ? HF_ENOMEM : 0;
}

static void free_channel(grpc_channel *channel)
{
    if (channel->password)
        explicit_bzero(channel->password, strlen(channel->password));
    hfd_free(channel->user);
    hfd_free(channel->password);
    for (size_t i = 0; i < channel->address_count; i++)
        hfd_free((char *)(uintptr_t)channel->addresses[i].host);
    hfd_free(channel->addresses);
    if (channel->epoll_fd >= 0)
        close(channel->epoll_fd);
    if (channel->timer_fd >= 0)
        close(channel->timer_fd);
    pthread_mutex_destroy(&channel->mu);
    pthread_mutex_destroy(&channel->park_mu);
    pthread_cond_destroy(&channel->told);
    hfd_free(channel);
}

static int open_descriptors(grpc_channel *channel, hf_error *err)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = channel};

    channel->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    channel->timer_fd =
        timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (channel->epoll_fd < 0 || channel->timer_fd < 0 ||
        epoll_ctl(channel->epoll_fd, EPOLL_CTL_ADD, channel->timer_fd,
                  &event) != 0)
        return hfd_error(err, errno == ENOMEM ? HF_ENOMEM : HF_EFULL, "etcd",
                         errno, "no descriptor for a timer: %s",
                         strerror(errno));
    return 0;
}

int grpc_open(grpc_channel **ret, const grpc_settings *settings,
              const grpc_listener *listener, hf_error *err)
{
    grpc_channel *channel = hfd_alloc(sizeof *channel);
    int code;

    if (!channel)
        return hfd_error(err, HF_ENOMEM, "etcd", ENOMEM,
                         "no memory for a store");
    pthread_mutex_init(&channel->mu, NULL);
    pthread_mutex_init(&channel->park_mu, NULL);
    pthread_cond_init(&channel->told, NULL);
    channel->listener = *listener;
    channel->timer_due = HF_NEVER;
    channel->epoll_fd = channel->timer_fd = -1;
    if (copy_settings(channel, settings) != 0)
        code =
            hfd_error(err, HF_ENOMEM, "etcd", ENOMEM, "no memory for a store");
    else
        code = open_descriptors(channel, err);
    if (code == 0) {
        grpc_lock(channel);
        code = grpc_dial(channel, hfd_now() + channel->dial_time, true, err);
    }
    if (code != 0) {
        free_channel(channel);
        return code;
    }
    *ret = channel;
    return 0;
}

void grpc_stop(grpc_channel *channel)
{
    grpc_dial_stop(channel);
}

/* The reference of the current connection is the last. */
void grpc_close(grpc_channel *channel)
{
    if (!channel)
        return;
    grpc_dial_stop(channel);
    if (channel->current)
        grpc_conn_drop(channel->current);
    free_channel(channel);
}

void grpc_abandon(grpc_channel *channel)
{
    for (grpc_conn *conn = channel->all; conn; conn = conn->next)
        hf__pipe_abandon(conn->pipe);
    close(channel->epoll_fd);
    close(channel->timer_fd);
}

/* ---- Members ---- */

unsigned grpc_member(grpc_channel *channel, char *buf, size_t room)
{
    unsigned stood;

    grpc_lock(channel);
    snprintf(buf, room, "%s", channel->current ? channel->current->where : "");
    stood = channel->stood;
    grpc_unlock(channel);
    return stood;
}

void grpc_move(grpc_channel *channel, const char *why)
{
    grpc_conn *conn = grpc_current(channel);

    if (!conn)
        return;
    grpc_conn_cut(conn, HF_EUNAVAIL, 0, why);
    grpc_conn_drop(conn);
}

typedef struct question {
    grpc_call call; /* first */
    void *reply;
    size_t len;
    int code;
    hf_error *err;
} question;

static void question_landed(grpc_call *call, hf_outcome outcome, grpc_code code,
                            const void *reply, size_t len, const hf_error *why)
{
    question *q = (question *)(void *)call;

    (void)outcome;
    (void)code;
    if (why) {
        q->code = why->code;
        if (q->err)
            *q->err = *why;
        return;
    }
    q->len = len;
    q->reply = hfd_alloc(len + 1);
    if (q->reply && len > 0)
        memcpy(q->reply, reply, len);
    if (!q->reply)
        q->code = hfd_error(q->err, HF_ENOMEM, "etcd", ENOMEM,
                            "no memory for an answer");
}

int grpc_ask_member(grpc_channel *channel, size_t i, const char *method,
                    const void *request, size_t len, hf_nsec deadline,
                    void **ret, size_t *ret_len, hf_error *err)
{
    question q = {.call = {.method = method,
                           .request = request,
                           .request_len = len,
                           .deadline = deadline,
                           .driven = true,
                           .landed = question_landed},
                  .err = err};
    grpc_conn *conn = NULL;
    int code = grpc_dial_member(&conn, channel, i, deadline, err);

    if (code != 0)
        return code;
    grpc_call_on(conn, &q.call);
    grpc_conn_drop(conn);
    if (q.code == 0) {
        *ret = q.reply;
        *ret_len = q.len;
    }
    return q.code;
}
