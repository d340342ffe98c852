/* data.c - what a node of ours says about its owner.
 *
 *     holdfast rid=... sid=... mode=0 pid=42 start=... ttl=30000 host=h name=n
 *
 * (and for permits places= and number=, the place in the queue)
 *
 * One line of text, so that any client's `get` shows who holds; behind its end
 * is the value, bytes as they are.  A break that waits for the owner adds
 * broken=MS to the line: so long may the owner take to leave.  Words are
 * separated by single spaces; host and name have spaces, control bytes and '%'
 * escaped as %XX.
 *
 * Everything read here was written by somebody: nothing is trusted, a word
 * that is not understood is passed over, and data without the first word is a
 * stranger's.  Nobody's turn is decided by it. */
#include <stdio.h>
#include <string.h>

#include "store.h"

static const char first_word[] = "holdfast ";
static const char hex_digits[] = "0123456789abcdef";

/* ---- Writing ------------------------------------------------------------ */

static void put_hex(char *out, const hf_id *id)
{
    for (size_t i = 0; i < sizeof id->bytes; i++) {
        out[2 * i] = hex_digits[id->bytes[i] >> 4];
        out[2 * i + 1] = hex_digits[id->bytes[i] & 15];
    }
    out[2 * sizeof id->bytes] = '\0';
}

static char *put_escaped(char *at, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (c <= ' ' || c == '%' || c == 0x7f) {
            *at++ = '%';
            *at++ = hex_digits[c >> 4];
            *at++ = hex_digits[c & 15];
        } else {
            *at++ = (char)c;
        }
    }
    return at;
}

bool zk_data_write(zk_text *out, const hf_store *store, const zk_entry *entry,
                   const void *value, size_t value_len)
{
    char rid[33], sid[33];
    char *at;
    int n;

    if (!zk_text_reserve(out,
                         340 + 3 * (ZK_NAME_MAX + ZK_HOST_MAX) + value_len))
        return false;
    put_hex(rid, &entry->rid);
    put_hex(sid, &store->sid);
    n = snprintf(out->data, out->room,
                 "%srid=%s sid=%s mode=%u places=%u number=%lld pid=%lld "
                 "start=%lld ttl=%lld host=",
                 first_word, rid, sid, entry->mode, (unsigned)entry->places,
                 entry->mode == HF_PERMIT ? (long long)entry->czxid : 0LL,
                 (long long)store->pid, (long long)store->started_ms,
                 (long long)(store->timeout / 1000000));
    at = put_escaped(out->data + n, store->host_name);
    memcpy(at, " name=", 6);
    at = put_escaped(at + 6, store->name);
    *at++ = '\n';
    if (value_len)
        memcpy(at, value, value_len);
    out->len = (size_t)(at - out->data) + value_len;
    return true;
}

bool zk_data_mark(zk_text *out, const char *bytes, size_t len, int64_t ms)
{
    const char *end = memchr(bytes, '\n', len);
    size_t line = end ? (size_t)(end - bytes) : len;
    int n;

    if (!zk_text_reserve(out, len + 40))
        return false;
    memcpy(out->data, bytes, line);
    n = snprintf(out->data + line, 40, " broken=%lld", (long long)ms);
    memcpy(out->data + line + n, bytes + line, len - line);
    out->len = len + (size_t)n;
    return true;
}

/* ---- Reading ------------------------------------------------------------ */

static int hex_digit(char c)
{
    const char *found = c ? strchr(hex_digits, c) : NULL;

    return found ? (int)(found - hex_digits) : -1;
}

static bool read_id(hf_id *ret, const char *text, size_t len)
{
    if (len != 2 * sizeof ret->bytes)
        return false;
    for (size_t i = 0; i < len; i += 2) {
        int high = hex_digit(text[i]), low = hex_digit(text[i + 1]);

        if (high < 0 || low < 0)
            return false;
        ret->bytes[i / 2] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static int64_t read_number(const char *text, size_t len)
{
    int64_t n = 0;

    for (size_t i = 0; i < len && i < 18; i++) {
        if (text[i] < '0' || text[i] > '9')
            return 0;
        n = n * 10 + (text[i] - '0');
    }
    return n;
}

/* Milliseconds that can be counted with. */
static int64_t read_span(const char *text, size_t len)
{
    int64_t ms = read_number(text, len);

    return ms < HF_MS_MAX ? ms : HF_MS_MAX;
}

static bool is_word(const char *word, size_t len, const char *name,
                    const char **ret, size_t *ret_len)
{
    size_t n = strlen(name);

    if (len <= n || memcmp(word, name, n) != 0 || word[n] != '=')
        return false;
    *ret = word + n + 1;
    *ret_len = len - n - 1;
    return true;
}

static void read_word(zk_data *ret, const char *word, size_t len)
{
    const char *text;
    size_t n;

    if (is_word(word, len, "rid", &text, &n)) {
        ret->ours = read_id(&ret->rid, text, n);
    } else if (is_word(word, len, "sid", &text, &n)) {
        if (!read_id(&ret->sid, text, n))
            memset(&ret->sid, 0, sizeof ret->sid);
    } else if (is_word(word, len, "places", &text, &n)) {
        ret->places = (uint32_t)read_number(text, n);
    } else if (is_word(word, len, "number", &text, &n)) {
        ret->number = read_number(text, n);
    } else if (is_word(word, len, "pid", &text, &n)) {
        ret->pid = read_number(text, n);
    } else if (is_word(word, len, "ttl", &text, &n)) {
        ret->ttl_ms = read_span(text, n);
    } else if (is_word(word, len, "broken", &text, &n)) {
        ret->broken = true;
        ret->broken_ms = read_span(text, n);
    } else if (is_word(word, len, "host", &text, &n)) {
        ret->host = text;
        ret->host_len = n;
    } else if (is_word(word, len, "name", &text, &n)) {
        ret->name = text;
        ret->name_len = n;
    }
}

void zk_data_read(zk_data *ret, const char *bytes, size_t len)
{
    size_t head = sizeof first_word - 1;
    const char *end = len ? memchr(bytes, '\n', len) : NULL;
    const char *at = bytes + head;

    *ret = (zk_data){.host = "", .name = "", .value = ""};
    if (!end || len < head || memcmp(bytes, first_word, head) != 0)
        return;
    while (at < end) {
        const char *space = memchr(at, ' ', (size_t)(end - at));
        const char *stop = space ? space : end;

        read_word(ret, at, (size_t)(stop - at));
        at = stop + 1;
    }
    ret->value = end + 1;
    ret->value_len = len - (size_t)(end + 1 - bytes);
}

void zk_data_unescape(char *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        int high = i + 2 < len && text[i] == '%' ? hex_digit(text[i + 1]) : -1;
        int low = high >= 0 ? hex_digit(text[i + 2]) : -1;

        if (low >= 0) {
            *out++ = (char)(high << 4 | low);
            i += 2;
        } else {
            *out++ = text[i];
        }
    }
    *out = '\0';
}
