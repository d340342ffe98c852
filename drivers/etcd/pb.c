/* pb.c - the little of protobuf's wire format that etcd's messages need.
 *
 * Answers: how is a message written, and what does one say that came from
 * outside?  Tag, varint, length and bytes; groups, which nobody uses any more,
 * are refused.  Knows nothing of the messages and allocates nothing but the
 * room of the buffer that it writes to.
 *
 * The length of a message inside stands in front of it and is known only at its
 * end: the fields are written first and moved by the one or more bytes that the
 * length turned out to need.  A buffer that could not grow says so by itself
 * (`failed`), and its user looks before he sends.
 *
 * Reading never goes beyond the end that it was given: a varint of more than
 * ten bytes, a length that is too long, a field of number 0 end it as `bad`.
 * What is bad is never half an answer: its reader throws all of it away. */
#include "pb.h"

#include <string.h>

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5, VARINT_MAX = 10 };

/* ---- Writing ---- */

static size_t make_varint(char *to, uint64_t value)
{
    size_t n = 0;

    for (; value > 127; value >>= 7)
        to[n++] = (char)(value | 128);
    to[n++] = (char)value;
    return n;
}

static void add_varint(hf__buf *out, uint64_t value)
{
    char bytes[VARINT_MAX];

    hf__buf_add(out, bytes, make_varint(bytes, value));
}

void pb_int(hf__buf *out, unsigned field, int64_t value)
{
    if (value == 0)
        return;
    add_varint(out, (uint64_t)field << 3 | VARINT);
    add_varint(out, (uint64_t)value);
}

void pb_bytes(hf__buf *out, unsigned field, const void *bytes, size_t len)
{
    if (len == 0)
        return;
    add_varint(out, (uint64_t)field << 3 | BYTES);
    add_varint(out, len);
    hf__buf_add(out, bytes, len);
}

/* The mark is counted from the front of what is in the buffer, which stays
 * when the block moves. */
size_t pb_begin(hf__buf *out, unsigned field)
{
    add_varint(out, (uint64_t)field << 3 | BYTES);
    hf__buf_add(out, "", 1); /* the length of most messages has one byte */
    return hf__buf_len(out);
}

void pb_end(hf__buf *out, size_t mark)
{
    char bytes[VARINT_MAX];
    size_t len, n;
    char *at;

    if (out->failed)
        return;
    len = hf__buf_len(out) - mark;
    n = make_varint(bytes, len);
    if (n > 1) {
        if (!hf__buf_room(out, n - 1))
            return;
        at = out->data + out->start + mark;
        memmove(at + n - 1, at, len);
        out->end += n - 1;
    }
    memcpy(out->data + out->start + mark - 1, bytes, n);
}

/* ---- Reading ---- */

pb_reader pb_read(const void *bytes, size_t len)
{
    pb_reader reader = {.at = bytes, .end = bytes};

    if (len > 0)
        reader.end += len;
    return reader;
}

static bool take_varint(pb_reader *reader, uint64_t *ret)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < VARINT_MAX && reader->at < reader->end; i++) {
        unsigned char byte = (unsigned char)*reader->at++;

        if (i == VARINT_MAX - 1 && byte > 1)
            return false;
        value |= (uint64_t)(byte & 127) << (7 * i);
        if (byte < 128) {
            *ret = value;
            return true;
        }
    }
    return false;
}

static bool take_fixed(pb_reader *reader, unsigned n, uint64_t *ret)
{
    uint64_t value = 0;

    if ((size_t)(reader->end - reader->at) < n)
        return false;
    for (unsigned i = 0; i < n; i++)
        value |= (uint64_t)(unsigned char)*reader->at++ << (8 * i);
    *ret = value;
    return true;
}

static bool take_bytes(pb_reader *reader, pb_field *ret)
{
    uint64_t len;

    if (!take_varint(reader, &len) ||
        len > (uint64_t)(reader->end - reader->at))
        return false;
    ret->bytes = reader->at;
    ret->len = (size_t)len;
    reader->at += len;
    return true;
}

static bool take_field(pb_reader *reader, pb_field *ret)
{
    uint64_t tag;

    /* A field's number has 29 bits. */
    if (!take_varint(reader, &tag) || tag >> 3 == 0 || tag >> 32 != 0)
        return false;
    ret->number = (unsigned)(tag >> 3);
    switch (tag & 7) {
    case VARINT:
        return take_varint(reader, &ret->value);
    case FIXED64:
        return take_fixed(reader, 8, &ret->value);
    case FIXED32:
        return take_fixed(reader, 4, &ret->value);
    case BYTES:
        return take_bytes(reader, ret);
    default:
        return false;
    }
}

bool pb_next(pb_reader *reader, pb_field *ret)
{
    memset(ret, 0, sizeof *ret);
    if (reader->bad || reader->at == reader->end)
        return false;
    if (take_field(reader, ret))
        return true;
    reader->bad = true;
    memset(ret, 0, sizeof *ret);
    return false;
}
