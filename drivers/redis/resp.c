/* resp.c - Redis's protocol, as far as we need it.
 *
 * Answers: how is a command written, where does a reply end, what is in it?
 * Knows nothing of sockets, scripts or locks.
 *
 * One scanner decides what is well formed, and it trusts nobody: every length
 * is checked against what is there before it is used, lines of numbers have a
 * roof, depth and size too.  Everything else walks bytes that the scanner has
 * passed, so it needs no ends.  A reply that is not whole is no reply: nobody
 * sees half of one, however the bytes were cut on their way. */
#include "resp.h"

#include <string.h>

enum {
    NUMBER_MAX = 24,     /* bytes of a line with a number */
    LINE_MAX_ = 1 << 16, /* bytes of a status or an error */
    ELEMENT_MIN = 3      /* the shortest element is an empty status */
};

/* ---- Commands ---- */

char *resp_digits(char *end, int64_t number)
{
    uint64_t left = number < 0 ? -(uint64_t)number : (uint64_t)number;

    do {
        *--end = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    if (number < 0)
        *--end = '-';
    return end;
}

/* By hand: a command has a dozen of these, and printf costs more than all the
 * rest of it. */
static void add_header(hf__buf *out, char type, int64_t number)
{
    char line[32], *end = line + sizeof line, *at;

    *--end = '\n';
    *--end = '\r';
    at = resp_digits(end, number);
    *--at = type;
    hf__buf_add(out, at, (size_t)(line + sizeof line - at));
}

void resp_command(hf__buf *out, unsigned words)
{
    add_header(out, '*', words);
}

void resp_word(hf__buf *out, const void *bytes, size_t len)
{
    add_header(out, '$', (int64_t)len);
    hf__buf_add(out, bytes, len);
    hf__buf_add(out, "\r\n", 2);
}

void resp_text(hf__buf *out, const char *text)
{
    resp_word(out, text, strlen(text));
}

void resp_number(hf__buf *out, int64_t number)
{
    char digits[RESP_DIGITS], *end = digits + sizeof digits;
    char *at = resp_digits(end, number);

    resp_word(out, at, (size_t)(end - at));
}

/* ---- Replies: the scanner ---- */

/* A decimal number that fills all of the bytes and an int64_t. */
static bool read_number(const char *bytes, size_t len, int64_t *ret)
{
    bool minus = len > 0 && bytes[0] == '-';
    uint64_t value = 0;
    size_t i = minus;

    if (i == len || len > 20)
        return false;
    for (; i < len; i++) {
        if (bytes[i] < '0' || bytes[i] > '9' ||
            value > (uint64_t)INT64_MAX / 10)
            return false;
        value = value * 10 + (uint64_t)(bytes[i] - '0');
        if (value > (uint64_t)INT64_MAX)
            return false; /* -2^63 is no number of ours either */
    }
    *ret = minus ? -(int64_t)value : (int64_t)value;
    return true;
}

/* Bytes of the line at the front without its end: 0 .. most; -1: not all there
 * yet; -2: too long, or an end that is none. */
static long line_length(const char *bytes, size_t len, size_t most)
{
    size_t look = len < most + 2 ? len : most + 2;

    for (size_t i = 0; i < look; i++) {
        if (bytes[i] == '\n')
            return -2;
        if (bytes[i] != '\r')
            continue;
        if (i + 1 == len)
            return -1;
        return bytes[i + 1] == '\n' ? (long)i : -2;
    }
    return len < most + 2 ? -1 : -2;
}

/* The one element at the front, of an array only its head: bytes of it, 0, -1
 * as resp_size; *ret_inside: how many elements follow that belong to it. */
static long element_size(const char *bytes, size_t len, int64_t *ret_inside)
{
    bool is_line;
    int64_t number = 0;
    long line;

    *ret_inside = 0;
    if (len == 0)
        return 0;
    if (!strchr("+-:$*", bytes[0]) || bytes[0] == '\0')
        return -1;
    is_line = bytes[0] == '+' || bytes[0] == '-';
    line = line_length(bytes + 1, len - 1, is_line ? LINE_MAX_ : NUMBER_MAX);
    if (line < 0)
        return line == -1 ? 0 : -1;
    if (is_line)
        return line + 3;
    if (!read_number(bytes + 1, (size_t)line, &number))
        return -1;
    if (bytes[0] == ':')
        return line + 3;
    if (number < -1 || (uint64_t)number + 1 > RESP_SIZE_MAX)
        return -1;
    if (number < 0)
        return line + 3;
    if (bytes[0] == '*') {
        if ((uint64_t)number > RESP_SIZE_MAX / ELEMENT_MIN)
            return -1;
        *ret_inside = number;
        return line + 3;
    }
    if (len < (size_t)line + 3 + (size_t)number + 2)
        return 0;
    if (memcmp(bytes + line + 3 + number, "\r\n", 2) != 0)
        return -1;
    return line + 3 + (long)number + 2;
}

long resp_more(resp_scan *scan, const char *bytes, size_t len)
{
    for (;;) {
        int64_t inside;
        long size = element_size(bytes + scan->at, len - scan->at, &inside);

        if (size < 0 || scan->at + (size_t)size > RESP_SIZE_MAX)
            return -1;
        if (size == 0)
            return len > RESP_SIZE_MAX ? -1 : 0;
        scan->at += (size_t)size;
        if (inside > 0) {
            if (scan->depth == RESP_DEPTH_MAX)
                return -1;
            scan->left[scan->depth++] = inside;
            continue;
        }
        while (scan->depth > 0 && --scan->left[scan->depth - 1] == 0)
            scan->depth--;
        if (scan->depth == 0)
            return (long)scan->at;
    }
}

long resp_size(const char *bytes, size_t len)
{
    resp_scan scan = {0};

    return resp_more(&scan, bytes, len);
}

/* ---- Replies: what is in one that was found whole ---- */

/* One element, of an array only its head, and `after` behind that head. */
static resp read_element(const char *bytes)
{
    /* Not strchr: a status may contain a NUL. */
    const char *end = memchr(bytes, '\r', LINE_MAX_ + 2);
    resp reply = {.type = RESP_NIL, .after = end + 2};
    int64_t number = 0;

    if (*bytes == '+' || *bytes == '-') {
        reply.type = *bytes == '+' ? RESP_STATUS : RESP_ERROR;
        reply.text = bytes + 1;
        reply.len = (size_t)(end - bytes - 1);
        return reply;
    }
    if (!read_number(bytes + 1, (size_t)(end - bytes - 1), &number))
        return reply;
    reply.number = number;
    if (*bytes == ':') {
        reply.type = RESP_INTEGER;
    } else if (number >= 0 && *bytes == '$') {
        reply.type = RESP_STRING;
        reply.number = 0;
        reply.text = reply.after;
        reply.len = (size_t)number;
        reply.after += number + 2;
    } else if (number >= 0) {
        reply.type = RESP_ARRAY;
        reply.inside = number > 0 ? reply.after : NULL;
    } else {
        reply.number = 0;
    }
    return reply;
}

resp resp_at(const char *bytes)
{
    resp reply = read_element(bytes);
    const char *after = reply.after;

    /* Behind an array is behind all that is in it, however deep. */
    if (reply.type == RESP_ARRAY) {
        for (int64_t left = reply.number; left > 0; left--) {
            resp item = read_element(after);

            if (item.type == RESP_ARRAY)
                left += item.number;
            after = item.after;
        }
        reply.after = after;
    }
    return reply;
}

resp resp_item(const resp *array, size_t i)
{
    resp item = {.type = RESP_NIL};

    if (array->type != RESP_ARRAY || i >= (uint64_t)array->number)
        return item;
    item = resp_at(array->inside);
    while (i-- > 0)
        item = resp_at(item.after);
    return item;
}

bool resp_is(const resp *reply, const char *text)
{
    return (reply->type == RESP_STATUS || reply->type == RESP_STRING) &&
           reply->len == strlen(text) &&
           memcmp(reply->text, text, reply->len) == 0;
}

int64_t resp_int(const resp *reply, int64_t otherwise)
{
    int64_t number;

    if (reply->type == RESP_INTEGER)
        return reply->number;
    if (reply->type == RESP_STRING &&
        read_number(reply->text, reply->len, &number))
        return number;
    return otherwise;
}

bool resp_begins(const resp *reply, const char *word)
{
    size_t len = strlen(word);

    return reply->len >= len && memcmp(reply->text, word, len) == 0;
}
