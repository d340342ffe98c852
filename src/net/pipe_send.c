/* pipe_send.c - one connection, used by many threads at once: who sends.
 *
 * Whoever ends an addition and finds nobody sending sends, in a loop, until
 * nothing is left; the others leave him their bytes, so that many commands go
 * out with one call.  Two buffers change places: one is being sent without a
 * lock, the other grows meanwhile, so nobody waits for a send() to begin.
 *
 * A full socket: the rest stays, in order, for the epoll's owner (EPOLLOUT) or
 * for the next who sends.  A send that fails breaks nothing by itself, because
 * a last word of the server ("too many clients") may lie in the socket: the
 * link is cut, and whoever reads finds word and end.  If nobody reads, the
 * epoll's owner is asked to.  So no user's function is ever called from here,
 * and the caller may hold locks of his own.
 *
 * An addition that ran out of memory may be half a command: then nothing more
 * is sent at all.  Paused while sending: others gather, their answers are late
 * and their users cut.  Knows nothing of the protocol. */
#include "net/pipe_inside.h"

#include <errno.h>

hf__buf *hf__pipe_begin(hf__pipe *pipe)
{
    pthread_mutex_lock(&pipe->send_mu);
    if (!pipe->shut && !atomic_load(&pipe->cut))
        return &pipe->gather;
    pthread_mutex_unlock(&pipe->send_mu);
    return NULL;
}

/* The sending side is of no use any more; the reading side tells.  why NULL:
 * what it finds there. */
static void give_up(hf__pipe *pipe, const hf_error *why)
{
    hf__link_cut(pipe->link);
    pthread_mutex_lock(&pipe->mu);
    if (why)
        hf__pipe_doom(pipe, why);
    pipe->send_failed = true;
    hf__pipe_arm(pipe);
    pthread_mutex_unlock(&pipe->mu);
}

static void wait_for_room(hf__pipe *pipe)
{
    pthread_mutex_lock(&pipe->mu);
    pipe->blocked = true;
    hf__pipe_arm(pipe);
    pthread_mutex_unlock(&pipe->mu);
}

/* With send_mu held, which is unlocked.  In each round the bytes that gathered
 * meanwhile become the ones that go. */
static void send_all(hf__pipe *pipe)
{
    ssize_t sent = 1;
    hf_error why = {0};

    if (pipe->sending) {
        pthread_mutex_unlock(&pipe->send_mu);
        return;
    }
    pipe->sending = true;
    while (sent > 0 && !pipe->shut) {
        if (hf__buf_len(&pipe->going) == 0) {
            hf__buf empty = pipe->going;

            pipe->going = pipe->gather;
            pipe->gather = empty;
        }
        if (hf__buf_len(&pipe->going) == 0)
            break;
        pthread_mutex_unlock(&pipe->send_mu);
        sent = hf__link_send(pipe->link, pipe->going.data + pipe->going.start,
                             hf__buf_len(&pipe->going), &why);
        pthread_mutex_lock(&pipe->send_mu);
        if (sent > 0)
            hf__buf_eat(&pipe->going, (size_t)sent);
    }
    pipe->sending = false;
    if (sent < 0)
        pipe->shut = true;
    pthread_mutex_unlock(&pipe->send_mu);
    if (sent < 0)
        give_up(pipe, NULL);
    else if (sent == 0)
        wait_for_room(pipe);
}

void hf__pipe_end(hf__pipe *pipe)
{
    hf_error why = {0};

    if (!pipe->gather.failed) {
        send_all(pipe);
        return;
    }
    pipe->shut = true;
    pthread_mutex_unlock(&pipe->send_mu);
    hfd_error(&why, HF_ENOMEM, "net", ENOMEM, "no memory for a command");
    give_up(pipe, &why);
}

void hf__pipe_flush(hf__pipe *pipe)
{
    pthread_mutex_lock(&pipe->send_mu);
    send_all(pipe);
}

void hf__pipe_shut(hf__pipe *pipe)
{
    pthread_mutex_lock(&pipe->send_mu);
    pipe->shut = true;
    pthread_mutex_unlock(&pipe->send_mu);
}
