/* pipe_inside.h - what pipe.c (reading, waiting) and pipe_send.c share. */
#ifndef HF_NET_PIPE_INSIDE_H
#define HF_NET_PIPE_INSIDE_H

#include <pthread.h>

#include "net/pipe.h"

struct hf__pipe {
    hf__link *link;
    hf__pipe_user user;
    bool patient;
    int epoll_fd, wake_fd; /* wake_fd: -1 unless patient */
    void *tag;
    atomic_bool cut; /* it is over, or about to be; set under mu */

    pthread_mutex_t mu; /* the role, the sleepers, the epoll */
    bool reading;       /* the role is given; for ever once it was told */
    bool told;          /* `broken` is called, or was */
    hf__waiter *oldest, *newest; /* who sleeps */
    int attention;
    bool blocked;     /* the socket was full: bytes wait for EPOLLOUT */
    bool send_failed; /* the end is to be read and told by somebody */
    uint32_t armed;   /* events that the epoll was asked for and not told of */
    hf_error why;

    hf__buf in; /* the role's holder's */

    /* Taken while mu is not held, and the other way round. */
    pthread_mutex_t send_mu;
    atomic_bool shut; /* nothing is sent any more; set under send_mu */
    bool sending;     /* somebody is at it: `going` is his */
    hf__buf gather;   /* what is being added */
    hf__buf going;    /* what is being sent */
};

/* Ask the epoll for what is wanted and not asked for yet.  With mu held. */
void hf__pipe_arm(hf__pipe *pipe);
/* The first reason is the one that is told.  With mu held. */
void hf__pipe_doom(hf__pipe *pipe, const hf_error *why);
/* Send what there is, unless somebody is at it. */
void hf__pipe_flush(hf__pipe *pipe);
/* Refuse all further sending; who is between begin and end has ended. */
void hf__pipe_shut(hf__pipe *pipe);

#endif
