/* link.h - what dial.c and link.c share: a link's insides. */
#ifndef HF_NET_LINK_H
#define HF_NET_LINK_H

#include "net/dial.h"

struct hf__link {
    int fd;
    hf__tls_end *tls; /* NULL: plain */
    hf_nsec timeout;  /* SO_RCVTIMEO as it is set; 0: not yet.  The reader's */
    char name[160];   /* the address, for messages */
};

/* The longest single wait; longer ones are a loop. */
#define HF__WAIT_LONGEST HF_MS(3600000)

/* Poll one or two descriptors until one is ready or the instant has passed; a
 * signal does not end it.  How many are ready. */
struct pollfd;
int hf__poll_until(struct pollfd *fds, unsigned n, hf_nsec until);

#endif
