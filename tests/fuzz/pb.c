/* pb.c - any bytes as a message of etcd's.
 *
 * Two ways in.  As they are: whatever somebody sends is walked to its end or
 * refused, never read beyond it.  And as a recipe: fields are written from the
 * bytes, messages inside messages among them, and must be read back as they
 * were written.
 *
 * Promises: every field lies inside its message; what is bad stays bad and
 * gives nothing more; what was written is read back, and the messages inside
 * each other end where they were ended. */
#include "fuzz.h"

#include "../../drivers/etcd/pb.h"

enum { DEPTH = 6, BUILT_MAX = 20000 };

/* A copy of its own, so that a byte too far is noticed. */
static char *copy_of(const void *bytes, size_t len)
{
    char *copy = malloc(len ? len : 1);

    PROMISE(copy != NULL);
    if (len)
        memcpy(copy, bytes, len);
    return copy;
}

static void walk(const char *bytes, size_t len, unsigned depth)
{
    pb_reader reader = pb_read(bytes, len);
    const char *last = bytes;
    pb_field field;

    while (pb_next(&reader, &field)) {
        PROMISE(field.number > 0 && field.number < 1U << 29);
        PROMISE(reader.at > last && reader.at <= bytes + len);
        last = reader.at;
        PROMISE(!field.bytes ||
                (field.bytes >= bytes && field.len <= len &&
                 field.bytes + field.len == reader.at && field.value == 0));
        PROMISE(field.bytes || field.len == 0);
        if (field.bytes && depth < DEPTH)
            walk(field.bytes, field.len, depth + 1);
    }
    PROMISE(reader.bad || reader.at == bytes + len);
    PROMISE(!pb_next(&reader, &field) && field.number == 0);
}

/* Fields by recipe; one that grows beyond the limit ends there. */
static void build(fuzz_input *in, hf__buf *out, unsigned depth)
{
    unsigned n = take_byte(in) % 6;

    while (n-- > 0 && hf__buf_len(out) < BUILT_MAX) {
        unsigned kind = take_byte(in), number = take_byte(in) + 1U;
        size_t len = kind / 4, mark;
        char text[64];

        if (kind % 4 == 0) {
            pb_int(out, number, (int64_t)(take_number(in, kind / 32 + 1) + 1U));
        } else if (kind % 4 == 1 || depth == DEPTH) {
            memset(text, take_byte(in), sizeof text);
            pb_bytes(out, number, text, len % 64 + 1);
        } else {
            mark = pb_begin(out, number);
            /* Around the lengths at which the length itself gets longer. */
            memset(text, 'x', sizeof text);
            for (unsigned i = 0; kind % 4 == 3 && i < len; i++)
                pb_bytes(out, 1, text, sizeof text);
            build(in, out, depth + 1);
            pb_end(out, mark);
        }
    }
}

/* The same recipe once more, beside what was written. */
static void compare(fuzz_input *in, pb_reader *reader, unsigned depth)
{
    unsigned n = take_byte(in) % 6;
    pb_field field;

    while (n-- > 0) {
        unsigned kind = take_byte(in), number = take_byte(in) + 1U;
        size_t len = kind / 4;

        if (kind % 4 == 0) {
            int64_t want = (int64_t)(take_number(in, kind / 32 + 1) + 1U);

            if (want == 0)
                continue;
            PROMISE(pb_next(reader, &field) && field.number == number);
            PROMISE((int64_t)field.value == want && !field.bytes);
        } else if (kind % 4 == 1 || depth == DEPTH) {
            char byte = (char)take_byte(in);

            PROMISE(pb_next(reader, &field) && field.number == number);
            PROMISE(field.len == len % 64 + 1 && field.bytes[0] == byte &&
                    field.bytes[field.len - 1] == byte);
        } else {
            pb_reader inner;

            PROMISE(pb_next(reader, &field) && field.number == number);
            inner = pb_read(field.bytes, field.len);
            for (unsigned i = 0; kind % 4 == 3 && i < len; i++)
                PROMISE(pb_next(&inner, &field) && field.len == 64);
            compare(in, &inner, depth + 1);
            PROMISE(!pb_next(&inner, &field) && !inner.bad);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, data + size}, twin = in;
    char *copy = copy_of(data, size);
    hf__buf out = {0};
    pb_reader reader;
    pb_field field;

    walk(copy, size, 0);
    free(copy);
    build(&in, &out, 0);
    PROMISE(!out.failed);
    copy = copy_of(out.data, hf__buf_len(&out)); /* it starts at 0 */
    reader = pb_read(copy, hf__buf_len(&out));
    if (hf__buf_len(&out) < BUILT_MAX) { /* so it did not end early */
        compare(&twin, &reader, 0);
        PROMISE(!pb_next(&reader, &field) && !reader.bad);
    }
    free(copy);
    hf__buf_done(&out);
    return 0;
}
