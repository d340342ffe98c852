/* poll.c - waiting for a descriptor until an instant.
 *
 * By the clock of driver.h, which counts the time that the machine slept.  A
 * signal does not end the wait, nor does a pause of this process: what is ready
 * by then is said to be.  It is a file of its own since the links need it and
 * what speaks TLS, which is another shared object (tls_load.c). */
#include <errno.h>
#include <poll.h>

#include "net/link.h"

int hf__poll_until(struct pollfd *fds, unsigned n, hf_nsec until)
{
    int ready;

    do {
        hf_nsec left = until == 0 ? 0 : until - hfd_now();
        struct timespec ts;

        left = left < 0 ? 0 : left > HF__WAIT_LONGEST ? HF__WAIT_LONGEST : left;
        ts.tv_sec = (time_t)(left / HF_MS(1000));
        ts.tv_nsec = (long)(left % HF_MS(1000));
        ready = ppoll(fds, n, &ts, NULL);
    } while (ready <= 0 && (ready == 0 || errno == EINTR) && until != 0 &&
             hfd_now() < until);
    return ready < 0 ? 0 : ready;
}
