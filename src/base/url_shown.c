/* url_shown.c - a URL for the eyes of people, without its passwords.
 *
 * A secret stands in one of three places: behind the user's name, in an option
 * whose name says so, or, where the URL has a connection string instead of a
 * path, behind such a name there.  Every name and every separator may be
 * percent-encoded, so all are compared decoded.  In doubt it is hidden: a
 * message that shows too little can be read, one that shows a password cannot
 * be taken back. */
#include <string.h>

#include "base/url.h"

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool hf__url_decode(char *text)
{
    char *out = text;

    for (const char *in = text; *in; in++) {
        if (*in != '%') {
            *out++ = *in;
            continue;
        }
        int high = hex_value(in[1]);
        int low = high < 0 ? -1 : hex_value(in[2]);

        if (low < 0 || (high == 0 && low == 0))
            return false;
        *out++ = (char)(high * 16 + low);
        in += 2;
    }
    *out = '\0';
    return true;
}

static bool is_secret(const char *raw, size_t raw_len)
{
    static const char *const words[] = {"password", "token", "secret", "pwd"};
    char name[64] = "";
    size_t len;

    if (raw_len >= sizeof name)
        return true; /* whatever that is, nobody needs to read it */
    memcpy(name, raw, raw_len);
    if (!hf__url_decode(name))
        return true;
    len = strlen(name);
    while (len && name[len - 1] == ' ')
        len--;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t word = strlen(words[i]);

        if (len >= word && strncasecmp(name + len - word, words[i], word) == 0)
            return true;
    }
    return false;
}

static char *append_bytes(char *out, const char *from, const char *to)
{
    memcpy(out, from, (size_t)(to - from));
    return out + (to - from);
}

/* The first c before end, as itself or as %XX; end: none. */
static const char *find_mark(const char *at, const char *end, char c)
{
    for (; at < end; at++) {
        if (*at == c || (*at == '%' && end - at > 2 &&
                         hex_value(at[1]) * 16 + hex_value(at[2]) == c))
            break;
    }
    return at;
}

static const char *behind_mark(const char *at, const char *end)
{
    return at == end ? end : at + (*at == '%' ? 3 : 1);
}

/* Where the value ends that begins here: at a ';', but not inside {braces},
 * in which a '}' is doubled. */
static const char *end_of_value(const char *value, const char *end)
{
    if (find_mark(value, end, '{') == value) {
        const char *close = find_mark(value, end, '}');

        while (close < end) {
            value = behind_mark(close, end);
            if (find_mark(value, end, '}') != value)
                break;
            close = find_mark(behind_mark(value, end), end, '}');
        }
        if (close == end)
            return end;
    }
    return find_mark(value, end, ';');
}

/* The next value of a secret name in "name=value;name=value": from *io to where
 * it ends; false: there is none. */
static bool next_secret(const char **io, const char *end, const char **ret_name)
{
    for (const char *at = *io; at < end;) {
        const char *stop = find_mark(at, end, ';');
        const char *equals = find_mark(at, stop, '=');

        if (equals < stop) {
            const char *value = behind_mark(equals, end);

            stop = end_of_value(value, end);
            if (is_secret(at, (size_t)(equals - at))) {
                *ret_name = equals;
                *io = stop;
                return true;
            }
        }
        at = behind_mark(stop, end);
    }
    return false;
}

bool hf__url_may_be_secret(const char *text)
{
    const char *name, *colon = strchr(text, ':');
    const char *from = colon ? colon + 1 : text;

    return strchr(text, '@') || next_secret(&from, text + strlen(text), &name);
}

void hf__url_show(char *out, const char *text)
{
    static const char stars[] = "***", equals[] = "=***";
    const char *from = text;
    const char *slashes = strstr(text, "://");
    const char *query = strchr(text, '?');

    if (slashes && (!query || slashes < query)) {
        const char *end = slashes + 3 + strcspn(slashes + 3, "/?");
        const char *at = memrchr(slashes + 3, '@', (size_t)(end - slashes - 3));
        const char *colon =
            at ? memchr(slashes + 3, ':', (size_t)(at - slashes - 3)) : NULL;

        if (colon) {
            out = append_bytes(out, from, colon + 1);
            out = append_bytes(out, stars, stars + 3);
            from = at;
        }
    }
    if (!slashes || (query && slashes > query)) {
        /* A connection string. */
        const char *at = from + strcspn(from, ":"), *name;

        while (next_secret(&at, query ? query : text + strlen(text), &name)) {
            out = append_bytes(out, from, name);
            out = append_bytes(out, equals, equals + 4);
            from = at;
        }
    }
    while (query && *query) {
        size_t name = strcspn(query + 1, "=&");
        size_t whole = strcspn(query + 1, "&");

        if (is_secret(query + 1, name)) {
            out = append_bytes(out, from, query + 1 + name);
            out = append_bytes(out, equals, equals + 4);
            from = query + 1 + whole;
        }
        query += 1 + whole;
    }
    append_bytes(out, from, from + strlen(from) + 1);
}
