/* pipe.h - one connection, used by many threads at once.
 *
 * No thread belongs to a pipe.  Whoever sends writes by himself (one who finds
 * another in the middle of writing leaves him his bytes).  Whoever waits for
 * an answer and finds nobody reading reads, for all; the others sleep until
 * the reader wakes them or, when he has what he wanted, makes one of them the
 * reader.  So a lone caller does one send and one receive, as with a socket of
 * his own.  What nobody waits for on a thread is read by the owner of an epoll
 * descriptor (the keeper, through the driver's fd and dispatch).
 *
 * The pipe knows nothing of the protocol: its user cuts the bytes into replies
 * and knows whom each one concerns. */
#ifndef HF_NET_PIPE_H
#define HF_NET_PIPE_H

#include <stdatomic.h>

#include "net/buf.h"
#include "net/dial.h"

typedef struct hf__pipe hf__pipe;

typedef struct hf__pipe_user {
    void *ctx;
    /* All bytes that came and are not eaten yet: how many are eaten now (the
     * rest comes again, with more), or -1: this is not the protocol, and *err.
     * One thread at a time, with no lock held; may begin and end a sending on
     * this pipe and wake waiters. */
    ssize_t (*received)(void *ctx, const char *bytes, size_t len,
                        hf_error *err);
    /* It is over: nothing will be received any more.  Called once, on any
     * thread, with no lock held, after the last `received` has returned. */
    void (*broken)(void *ctx, const hf_error *why);
} hf__pipe_user;

/* Somebody who waits on a thread; zeroed before use, alive until his
 * hf__pipe_wait has returned. */
typedef struct hf__waiter {
    atomic_uint word;
    struct hf__waiter *prev, *next;
} hf__waiter;

/* Takes the link, unless it fails.  patient: a wait may last long and is ended
 * from outside (pushes); else it is for answers that come at once, and costs
 * one system call less.  epoll_fd: where it is registered, as `tag`, one-shot,
 * while it wants attention and nobody reads. */
int hf__pipe_new(hf__pipe **ret, hf__link *link, const hf__pipe_user *user,
                 bool patient, int epoll_fd, void *tag, hf_error *err);
/* Nobody may be inside.  Does not call broken. */
void hf__pipe_free(hf__pipe *pipe, bool reset);
void hf__pipe_abandon(hf__pipe *pipe); /* in a forked child */

/* Locks the sending side: add your bytes to *ret (and yourself to your own
 * line of those who expect an answer), then end.  NULL: broken, and not
 * locked.  Between the two no call of the pipe. */
hf__buf *hf__pipe_begin(hf__pipe *pipe);
/* Unlocks and sends what has gathered; what the socket does not take at once
 * goes out later by the epoll's owner. */
void hf__pipe_end(hf__pipe *pipe);

/* Work or sleep until w was woken (true), or until the instant (false). */
bool hf__pipe_wait(hf__pipe *pipe, hf__waiter *w, hf_nsec until);
/* Once is enough, and it stays woken; from any thread, locks of others may be
 * held.  After it *w may be gone. */
void hf__pipe_wake(hf__pipe *pipe, hf__waiter *w);
bool hf__waiter_woken(const hf__waiter *w);

/* How many things only the epoll's owner waits for: by is 1 or -1. */
void hf__pipe_attend(hf__pipe *pipe, int by);
/* The epoll's owner was told of the tag: reads and writes what can be without
 * waiting. */
void hf__pipe_dispatch(hf__pipe *pipe);
/* Break it, from any thread: an answer was late, or is nonsense.  `broken` is
 * called by whoever reads, or by this call. */
void hf__pipe_cut(hf__pipe *pipe, const hf_error *why);
bool hf__pipe_is_broken(hf__pipe *pipe);

#endif
