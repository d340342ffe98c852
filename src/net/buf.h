/* buf.h - bytes that grow at the end and are eaten at the front. */
#ifndef HF_NET_BUF_H
#define HF_NET_BUF_H

#include <stdbool.h>
#include <stddef.h>

typedef struct hf__buf {
    char *data;
    size_t start, end, room; /* what is in it: data[start .. end) */
    bool failed;             /* an allocation failed: it is not whole */
} hf__buf;

static inline size_t hf__buf_len(const hf__buf *buf)
{
    return buf->end - buf->start;
}
/* Room for n more bytes at the end; NULL: no memory, and `failed`. */
char *hf__buf_room(hf__buf *buf, size_t n);
void hf__buf_add(hf__buf *buf, const void *bytes, size_t n);
void hf__buf_eat(hf__buf *buf, size_t n);
void hf__buf_done(hf__buf *buf); /* frees; empty and usable again */

#endif
