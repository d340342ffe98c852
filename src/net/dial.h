/* dial.h - a connected stream: TCP or a Unix socket, plain or TLS.
 *
 * Dialling blocks, until a deadline; it is done by a caller's own thread or by
 * a thread made for it, never by the keeper.  A link that stands never blocks
 * unless it is told until when. */
#ifndef HF_NET_DIAL_H
#define HF_NET_DIAL_H

#include <sys/types.h>

#include <holdfast/driver.h>

#include "net/tls.h"

typedef struct hf__address {
    const char *host; /* name or number; with `path` only for messages */
    uint16_t port;
    const char *path; /* a Unix socket; NULL: TCP */
} hf__address;

typedef struct hf__link hf__link;

/* Connect to the first of n addresses that answers, beginning with the one at
 * `first` (counted round), each tried with a fair share of the time; *ret_which
 * (may be NULL): the one that did.  tls NULL: plain.  HF_EUNAVAIL: none could
 * be reached; HF_EAUTH: the server's certificate was refused (the text says
 * why); texts name address and cure, driver is "net". */
int hf__dial(hf__link **ret, const hf__address *addresses, size_t n,
             size_t first, size_t *ret_which, hf__tls *tls, hf_nsec deadline,
             hf_error *err);

/* How many bytes were taken; 0: it would block; -1: broken, and *err. Never
 * blocks, never raises SIGPIPE.  One thread at a time. */
ssize_t hf__link_send(hf__link *link, const void *bytes, size_t n,
                      hf_error *err);
/* How many bytes came; 0: none until `until` (0: does not wait at all); -1:
 * broken or ended, and *err.  One thread at a time, beside a sender.  wake_fd
 * (-1: none): ends the wait, too, when it is readable. */
ssize_t hf__link_recv(hf__link *link, void *buf, size_t room, hf_nsec until,
                      int wake_fd, hf_error *err);
int hf__link_fd(const hf__link *link); /* for epoll */
/* From any thread: a blocked hf__link_recv answers -1 soon. */
void hf__link_cut(hf__link *link);
/* reset: with a RST, so that nothing that is under way arrives later. */
void hf__link_close(hf__link *link, bool reset);
/* In a forked child: only the descriptor goes; nothing is said or freed. */
void hf__link_abandon(hf__link *link);

#endif
