/* text.c - a growing text, and the ways in which bytes of others are shown.
 *
 * A line of output is put together in memory and leaves with one write, so
 * that lines of two processes on one terminal do not mix and a full disk is
 * noticed.  Knows nothing of locks.
 *
 * Keys, names and values come from whoever may use the store.  None of their
 * bytes reaches a terminal unless it is printable: escape sequences, control
 * characters and the invisible characters that turn text around are shown as
 * \xHH.  What is printed can be pasted back into a shell. */
#include "text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void text_free(struct text *t)
{
    free(t->data);
    *t = (struct text){0};
}

static bool make_room(struct text *t, size_t more)
{
    if (t->failed)
        return false;
    if (t->cap - t->len > more)
        return true;
    size_t cap = t->cap ? t->cap : 256;
    while (cap - t->len <= more)
        cap *= 2;
    char *data = realloc(t->data, cap);
    if (data == NULL) {
        t->failed = true;
        return false;
    }
    t->data = data;
    t->cap = cap;
    return true;
}

void text_add(struct text *t, const void *bytes, size_t len)
{
    if (len == 0 || !make_room(t, len))
        return;
    memcpy(t->data + t->len, bytes, len);
    t->len += len;
    t->data[t->len] = '\0';
}

void text_put(struct text *t, const char *string)
{
    text_add(t, string, strlen(string));
}

void text_format(struct text *t, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (len > 0 && make_room(t, (size_t)len)) {
        vsnprintf(t->data + t->len, (size_t)len + 1, format, again);
        t->len += (size_t)len;
    }
    va_end(again);
}

size_t utf8_length(const unsigned char *s, size_t len, uint32_t *ret)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (len == 0)
        return 0;
    size_t n = s[0] < 0x80             ? 1
               : (s[0] & 0xe0) == 0xc0 ? 2
               : (s[0] & 0xf0) == 0xe0 ? 3
               : (s[0] & 0xf8) == 0xf0 ? 4
                                       : 0;
    if (n == 0 || n > len)
        return 0;
    uint32_t c = n == 1 ? s[0] : s[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3f);
    }
    if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return 0;
    *ret = c;
    return n;
}

/* May this character be shown as it is? */
static bool is_shown(uint32_t c)
{
    if (c < 0x20 || (c >= 0x7f && c < 0xa0))
        return false;
    return !((c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
             (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || c == 0xad);
}

static bool is_bare(uint32_t c)
{
    return c >= 0xa0 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z') ||
           (c != 0 && c < 0x80 && strchr("/_-.,:@%+=", (int)c) != NULL);
}

enum quoting { BARE, PLAIN, ESCAPED };

static enum quoting choose_quoting(const unsigned char *s, size_t len)
{
    enum quoting kind = len == 0 ? PLAIN : BARE;
    for (size_t i = 0; i < len;) {
        uint32_t c = 0;
        size_t n = utf8_length(s + i, len - i, &c);
        if (n == 0 || !is_shown(c) || c == '\'')
            return ESCAPED;
        if (!is_bare(c))
            kind = PLAIN;
        i += n;
    }
    return kind;
}

static void add_escaped(struct text *t, const unsigned char *s, size_t len)
{
    text_put(t, "$'");
    for (size_t i = 0; i < len;) {
        uint32_t c = 0;
        size_t n = utf8_length(s + i, len - i, &c);
        if (n == 0 || !is_shown(c)) {
            size_t bad = n == 0 ? 1 : n;
            for (size_t k = 0; k < bad; k++)
                text_format(t, "\\x%02x", s[i + k]);
            i += bad;
            continue;
        }
        if (c == '\'' || c == '\\')
            text_put(t, "\\");
        text_add(t, s + i, n);
        i += n;
    }
    text_put(t, "'");
}

static void add_quoted(struct text *t, const void *bytes, size_t len,
                       enum quoting least)
{
    enum quoting kind = choose_quoting(bytes, len);
    if (kind < least)
        kind = least;
    if (kind == ESCAPED) {
        add_escaped(t, bytes, len);
        return;
    }
    text_put(t, kind == PLAIN ? "'" : "");
    text_add(t, bytes, len);
    text_put(t, kind == PLAIN ? "'" : "");
}

void text_quote(struct text *t, const void *bytes, size_t len)
{
    add_quoted(t, bytes, len, BARE);
}

void text_name(struct text *t, const void *bytes, size_t len)
{
    add_quoted(t, bytes, len, PLAIN);
}

void text_span(struct text *t, int64_t ms)
{
    if (ms < 0)
        text_put(t, "?");
    else if (ms < 1000)
        text_format(t, "%lld ms", (long long)ms);
    else if (ms < 10000)
        text_format(t, "%lld.%lld s", (long long)(ms / 1000),
                    (long long)(ms % 1000 / 100));
    else if (ms < 120000)
        text_format(t, "%lld s", (long long)(ms / 1000));
    else if (ms < 7200000)
        text_format(t, "%lld min", (long long)(ms / 60000));
    else if (ms < INT64_C(172800000))
        text_format(t, "%lld h", (long long)(ms / 3600000));
    else
        text_format(t, "%lld d", (long long)(ms / 86400000));
}

size_t text_width(const struct text *t, size_t from)
{
    size_t width = 0;
    for (size_t i = from; i < t->len; i++)
        width += ((unsigned char)t->data[i] & 0xc0) != 0x80;
    return width;
}

int text_write(struct text *t, int fd)
{
    int code = t->failed ? ENOMEM : 0;
    for (size_t at = 0; code == 0 && at < t->len;) {
        ssize_t n = write(fd, t->data + at, t->len - at);
        if (n >= 0)
            at += (size_t)n;
        else if (errno != EINTR)
            code = errno;
    }
    t->len = 0;
    return code;
}
