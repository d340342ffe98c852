/* ask.h - one question to one server, on this thread, and its answer. */
#ifndef HF_DRIVERS_REDIS_ASK_H
#define HF_DRIVERS_REDIS_ASK_H

#include "net/dial.h"
#include "resp.h"

typedef struct redis_asked { /* whom; all of it the caller's */
    const hf__address *address;
    hf__tls *tls;                /* NULL: plain */
    const char *user, *password; /* NULL or "": none */
} redis_asked;

/* Connect, say who we are, put the question (one command, see resp_command),
 * hear its reply, hang up.  0: *ret, empty before, has the whole reply at
 * data + start (resp_at), also one that is an error.  Else why there is none,
 * with the address.  The caller frees *ret either way. */
int redis_ask(const redis_asked *whom, const hf__buf *question, hf__buf *ret,
              hf_nsec deadline, hf_error *err);

#endif
