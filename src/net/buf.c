/* buf.c - bytes that grow at the end and are eaten at the front.
 *
 * What is the cheapest room for a connection's bytes?  One block that doubles
 * and is kept: in steady state nothing is allocated and nothing is moved.
 * Knows nothing of sockets or protocols.
 *
 * A buffer that could not grow says so in `failed` and stays so until
 * hf__buf_done: half a command must never be sent as if it were whole, so
 * whoever sends looks at it.  Not for several threads; its user has the lock.
 */
#include "net/buf.h"

#include <string.h>

#include <holdfast/driver.h>

/* A block larger than this is given back when it is empty: one huge listing
 * must not stay for the life of the connection. */
enum { LEAST = 512, KEPT = 256 * 1024 };

char *hf__buf_room(hf__buf *buf, size_t n)
{
    size_t len = hf__buf_len(buf), room = buf->room ? buf->room : LEAST;
    char *data;

    if (buf->room - buf->end >= n)
        return buf->data ? buf->data + buf->end : NULL;
    if (n > SIZE_MAX / 4 || len > SIZE_MAX / 4) {
        buf->failed = true;
        return NULL;
    }
    if (buf->start > 0) {
        memmove(buf->data, buf->data + buf->start, len);
        buf->start = 0;
        buf->end = len;
    }
    while (room - len < n)
        room *= 2;
    if (room > buf->room) {
        data = hfd_realloc(buf->data, room);
        if (!data) {
            buf->failed = true;
            return NULL;
        }
        buf->data = data;
        buf->room = room;
    }
    return buf->data + buf->end;
}

void hf__buf_add(hf__buf *buf, const void *bytes, size_t n)
{
    char *at;

    if (n == 0 || buf->failed)
        return;
    at = hf__buf_room(buf, n);
    if (at) {
        memcpy(at, bytes, n);
        buf->end += n;
    }
}

void hf__buf_eat(hf__buf *buf, size_t n)
{
    buf->start += n;
    if (buf->start < buf->end)
        return;
    buf->start = buf->end = 0;
    if (buf->room > KEPT) {
        hfd_free(buf->data);
        buf->data = NULL;
        buf->room = 0;
    }
}

void hf__buf_done(hf__buf *buf)
{
    hfd_free(buf->data);
    *buf = (hf__buf){0};
}
