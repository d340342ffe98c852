/* pb.h - the little of protobuf's wire format that etcd's messages need.
 *
 * A writer appends fields to a buffer; a reader walks the fields of one
 * message and never reads past it.  It knows nothing of the messages. */
#ifndef HF_DRIVERS_ETCD_PB_H
#define HF_DRIVERS_ETCD_PB_H

#include <stdbool.h>
#include <stdint.h>

#include "net/buf.h"

/* Zero and empty are left out, as proto3 does. */
void pb_int(hf__buf *out, unsigned field, int64_t value);
void pb_bytes(hf__buf *out, unsigned field, const void *bytes, size_t len);
/* A message inside: write its fields between the two.  begin answers a mark. */
size_t pb_begin(hf__buf *out, unsigned field);
void pb_end(hf__buf *out, size_t mark);

typedef struct pb_field {
    unsigned number;
    uint64_t value;    /* varint, fixed32, fixed64 */
    const char *bytes; /* length-delimited; else NULL */
    size_t len;
} pb_field;

typedef struct pb_reader {
    const char *at, *end;
    bool bad; /* it is not a message */
} pb_reader;

pb_reader pb_read(const void *bytes, size_t len);
/* The next field; false: the end, or `bad`. */
bool pb_next(pb_reader *reader, pb_field *ret);

#endif
