/* json.c - writing JSON into a text.
 *
 * Just enough for what the command prints: objects, arrays, strings, whole
 * numbers.  The caller keeps the brackets balanced.  Knows nothing of what it
 * writes.
 *
 * The document is ASCII apart from well-formed UTF-8, always valid, and never
 * loses a byte: a key that is no UTF-8 has U+FFFD in "key" and all its bytes
 * in "key_hex". */
#include "json.h"

#include <inttypes.h>
#include <string.h>

static void add_string(struct text *t, const unsigned char *s, size_t len)
{
    text_put(t, "\"");
    for (size_t i = 0; i < len;) {
        uint32_t c = 0;
        size_t n = utf8_length(s + i, len - i, &c);
        if (n == 0) {
            text_put(t, "\\ufffd");
            i++;
            continue;
        }
        if (c < 0x20 || (c >= 0x7f && c < 0xa0))
            text_format(t, "\\u%04x", (unsigned)c);
        else {
            text_put(t, c == '"' || c == '\\' ? "\\" : "");
            text_add(t, s + i, n);
        }
        i += n;
    }
    text_put(t, "\"");
}

static void begin(struct json *j, const char *name)
{
    text_put(j->out, j->comma ? ", " : "");
    j->comma = true;
    if (name != NULL) {
        add_string(j->out, (const unsigned char *)name, strlen(name));
        text_put(j->out, ": ");
    }
}

void json_open(struct json *j, const char *name, char bracket)
{
    begin(j, name);
    text_add(j->out, &bracket, 1);
    j->comma = false;
}

void json_close(struct json *j, char bracket)
{
    text_add(j->out, &bracket, 1);
    j->comma = true;
}

void json_number(struct json *j, const char *name, int64_t number)
{
    begin(j, name);
    text_format(j->out, "%" PRId64, number);
}

void json_unsigned(struct json *j, const char *name, uint64_t number)
{
    begin(j, name);
    text_format(j->out, "%" PRIu64, number);
}

void json_bool(struct json *j, const char *name, bool value)
{
    begin(j, name);
    text_put(j->out, value ? "true" : "false");
}

void json_null(struct json *j, const char *name)
{
    begin(j, name);
    text_put(j->out, "null");
}

void json_string(struct json *j, const char *name, const char *string)
{
    begin(j, name);
    add_string(j->out, (const unsigned char *)string, strlen(string));
}

static bool is_utf8(const unsigned char *s, size_t len)
{
    for (size_t i = 0, n; i < len; i += n) {
        uint32_t c;
        n = utf8_length(s + i, len - i, &c);
        if (n == 0)
            return false;
    }
    return true;
}

void json_bytes(struct json *j, const char *name, const void *bytes, size_t len)
{
    const unsigned char *s = bytes;
    begin(j, name);
    add_string(j->out, s, len);
    if (is_utf8(s, len))
        return;
    text_format(j->out, ", \"%s_hex\": \"", name);
    for (size_t i = 0; i < len; i++)
        text_format(j->out, "%02x", s[i]);
    text_put(j->out, "\"");
}
