/* resp.c - any bytes as a reply of a Redis server.
 *
 * Two ways in.  As they are: whatever somebody sends, in whatever pieces, is
 * whole, not whole yet or refused, never read beyond its end, and the same
 * whether it comes at once or bit by bit.  And as a recipe: a reply is built
 * from the bytes and must be found whole, with its end where it was put.
 *
 * Promises: what is whole can be walked to its end and nowhere else; no
 * beginning of it is whole; an error becomes one printable line and is never
 * taken for success. */
#include "fuzz.h"

#include <ctype.h>

#include "../../drivers/redis/wire.h"

enum { BUILT_MAX = 4096 };

static void check_error(const resp *reply)
{
    hf_error err = {0};
    bool cut;
    hf_outcome outcome = redis_error_of(reply, &err, &cut);

    PROMISE(outcome == HF_NOT_APPLIED || outcome == HF_UNKNOWN);
    PROMISE(err.code < 0);
    PROMISE(memchr(err.text, '\0', sizeof err.text) != NULL);
    PROMISE(err.text[0] != '\0');
    for (const char *at = err.text; *at; at++)
        PROMISE(!iscntrl((unsigned char)*at));
}

/* Every part lies inside, and the parts follow each other without a gap. */
static void walk(const resp *reply, const char *begin, const char *end)
{
    resp item;

    PROMISE(reply->after > begin && reply->after <= end);
    resp_is(reply, "OK");
    resp_int(reply, 0);
    if (reply->type == RESP_ERROR)
        check_error(reply);
    if (reply->type == RESP_STATUS || reply->type == RESP_ERROR ||
        reply->type == RESP_STRING) {
        PROMISE(reply->text > begin && reply->text + reply->len < end);
        PROMISE(reply->text + reply->len + 2 == reply->after);
    }
    if (reply->type != RESP_ARRAY || reply->number == 0)
        return;
    item = resp_item(reply, 0);
    for (int64_t i = 0; i < reply->number; i++) {
        walk(&item, reply->inside, reply->after);
        if (i + 1 < reply->number)
            item = resp_at(item.after);
    }
    PROMISE(item.after == reply->after);
    PROMISE(resp_item(reply, (size_t)reply->number).type == RESP_NIL);
}

/* A copy of its own, so that a byte too far is noticed. */
static char *copy_of(const char *bytes, size_t len)
{
    char *copy = malloc(len ? len : 1);

    PROMISE(copy != NULL);
    if (len)
        memcpy(copy, bytes, len);
    return copy;
}

static long check_bytes(const char *bytes, size_t len, unsigned step)
{
    char *copy = copy_of(bytes, len);
    long size = resp_size(copy, len), more = 0;
    resp_scan scan = {0};

    PROMISE(size >= -1 && size <= (long)len);
    for (size_t n = 0; n < len && more == 0;) {
        char *piece;

        n = n + step < len ? n + step : len;
        piece = copy_of(bytes, n);
        more = resp_more(&scan, piece, n);
        free(piece);
    }
    /* In pieces it may be found whole or refused earlier, never otherwise. */
    PROMISE(more == size);
    free(copy);
    if (size > 0) {
        resp reply;

        copy = copy_of(bytes, (size_t)size);
        reply = resp_at(copy);
        PROMISE(reply.after == copy + size);
        walk(&reply, copy, copy + size);
        for (long n = size - 1; n >= 0 && n > size - 64; n--)
            PROMISE(resp_size(copy, (size_t)n) == 0);
        free(copy);
    }
    return size;
}

/* ---- By recipe ---- */

typedef struct built {
    hf__buf out;
    fuzz_input *in;
} built;

static void add_line(built *b, char type, long long number)
{
    char line[32];
    int n = snprintf(line, sizeof line, "%c%lld\r\n", type, number);

    hf__buf_add(&b->out, line, (size_t)n);
}

static void build(built *b, unsigned depth)
{
    unsigned kind = take_byte(b->in), n = take_byte(b->in) % 12;

    if (hf__buf_len(&b->out) > BUILT_MAX)
        kind = 0;
    switch (kind % 6) {
    case 0:
        add_line(b, kind & 8 ? '$' : '*', -1);
        return;
    case 1:
        add_line(b, ':', (int64_t)(take_number(b->in, 8) >> 1));
        return;
    case 2:
        hf__buf_add(&b->out, kind & 8 ? "-OOM" : "+OK", kind & 8 ? 4 : 3);
        hf__buf_add(&b->out, "\r\n", 2);
        return;
    case 3:
        add_line(b, '$', n);
        while (n-- > 0) {
            char byte = (char)take_byte(b->in);

            hf__buf_add(&b->out, &byte, 1);
        }
        hf__buf_add(&b->out, "\r\n", 2);
        return;
    default:
        if (depth == RESP_DEPTH_MAX)
            n = 0;
        add_line(b, '*', n);
        while (n-- > 0)
            build(b, depth + 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, data + size};
    unsigned how = take_byte(&in);
    built b = {.in = &in};
    size_t len;

    check_bytes((const char *)in.at, (size_t)(in.end - in.at), how % 61 + 1);
    build(&b, 0);
    PROMISE(!b.out.failed);
    len = hf__buf_len(&b.out);
    hf__buf_add(&b.out, "+behind\r\n", 9);
    PROMISE(check_bytes(b.out.data + b.out.start, len + 9, how % 61 + 1) ==
            (long)len);
    hf__buf_done(&b.out);
    return 0;
}
