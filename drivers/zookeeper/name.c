/* name.c - reading and writing the names of entries.
 *
 *     _c_0f3a...-....-8...-....-............-lock-0000000012
 *     ^  the rid, as a UUID of version 8     ^     ^ the server's counter
 *                                            kind
 *
 * Curator draws UUIDs of version 4, kazoo and go-zk too, so a name tells ours
 * from theirs without a look at the data.  The counter belongs to the parent,
 * not to the kind: entries of every kind under one parent are in one order,
 * which is the order in which they appeared.  It is never a token, because a
 * parent that was removed starts again at 0.
 *
 * What is no entry (a key below this one, a stranger's node) counts for
 * nothing.  path.c sees to it that no key of ours looks like an entry. */
#include "name.h"

#include <stdio.h>
#include <string.h>

enum { ID_DIGITS = 32, UUID_TEXT = 36, SEQ_DIGITS = 10 };

static const struct {
    zk_kind kind;
    const char *text;
} kinds[] = {
    {ZK_KIND_LOCK, "lock-"},     {ZK_KIND_READ, "__READ__"},
    {ZK_KIND_WRITE, "__WRIT__"}, {ZK_KIND_KAZOO, "__lock__"},
    {ZK_KIND_LEASE, "lease-"},   {ZK_KIND_KAZOO_READ, "__rlock__"},
};
enum { KIND_COUNT = sizeof kinds / sizeof *kinds };

/* ---- Reading ------------------------------------------------------------ */

/* A number as the server writes it: "%010d", so that one below zero has a
 * minus and nine or ten digits. */
static bool read_seq(int32_t *ret, const char *text, size_t len)
{
    int64_t n = 0;
    bool minus = text[0] == '-';

    if (len > SEQ_DIGITS && !minus)
        return false;
    for (size_t i = minus; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        n = n * 10 + (text[i] - '0');
    }
    /* As a server writes it: no minus before nothing, and an eleventh sign
     * only where ten do not suffice. */
    if (minus && (n == 0 || (len > SEQ_DIGITS && text[1] == '0')))
        return false;
    n = minus ? -n : n;
    if (n > INT32_MAX || n < INT32_MIN)
        return false;
    *ret = (int32_t)n;
    return true;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* 32 digits, with the dashes of a UUID or without any. */
static bool read_id(hf_id *ret, const char *text, bool dashes)
{
    for (size_t i = 0; i < ID_DIGITS; i++) {
        int digit;

        if (dashes && (i == 8 || i == 12 || i == 16 || i == 20) &&
            *text++ != '-')
            return false;
        digit = hex_digit(*text++);
        if (digit < 0)
            return false;
        ret->bytes[i / 2] = (uint8_t)(ret->bytes[i / 2] << 4 | digit);
    }
    return true;
}

static bool is_version_8(const hf_id *id)
{
    return id->bytes[6] >> 4 == 8;
}

/* Who writes names that begin like this? */
static zk_maker maker_of(hf_id *ret, const char *head, size_t len)
{
    if (len == 0)
        return ZK_BARE;
    if (len == 3 + UUID_TEXT + 1 && memcmp(head, "_c_", 3) == 0 &&
        head[len - 1] == '-' && read_id(ret, head + 3, true))
        return is_version_8(ret) ? ZK_OURS : ZK_CURATOR;
    if (len == ID_DIGITS && read_id(ret, head, false))
        return is_version_8(ret) ? ZK_OURS : ZK_KAZOO;
    if (len == 3 + ID_DIGITS + 1 && memcmp(head, "_c_", 3) == 0 &&
        head[len - 1] == '-' && read_id(ret, head + 3, false))
        return ZK_GO;
    return ZK_STRANGER;
}

static bool read_kind(zk_name *ret, const char *text, size_t len,
                      size_t seq_len)
{
    size_t rest = len - seq_len;

    if (!read_seq(&ret->seq, text + rest, seq_len))
        return false;
    for (size_t i = 0; i < KIND_COUNT; i++) {
        size_t n = strlen(kinds[i].text);

        if (rest >= n && memcmp(text + rest - n, kinds[i].text, n) == 0) {
            ret->kind = kinds[i].kind;
            ret->maker = maker_of(&ret->id, text, rest - n);
            return true;
        }
    }
    return false;
}

bool zk_name_parse(zk_name *ret, const char *text, size_t len)
{
    memset(ret, 0, sizeof *ret);
    return (len > SEQ_DIGITS && read_kind(ret, text, len, SEQ_DIGITS)) ||
           (len > SEQ_DIGITS + 1 && read_kind(ret, text, len, SEQ_DIGITS + 1));
}

/* ---- Writing ------------------------------------------------------------ */

hf_id zk_name_id(const hf_id *rid)
{
    hf_id id = *rid;

    id.bytes[6] = (uint8_t)(0x80 | (id.bytes[6] & 0x0f));
    return id;
}

static char *put_id(char *at, const hf_id *rid, bool dashes)
{
    static const char digits[] = "0123456789abcdef";
    hf_id id = zk_name_id(rid);

    for (size_t i = 0; i < sizeof id.bytes; i++) {
        if (dashes && (i == 4 || i == 6 || i == 8 || i == 10))
            *at++ = '-';
        *at++ = digits[id.bytes[i] >> 4];
        *at++ = digits[id.bytes[i] & 15];
    }
    return at;
}

size_t zk_name_write(char *out, const hf_id *rid, zk_kind kind)
{
    bool kazoo = kind == ZK_KIND_KAZOO || kind == ZK_KIND_KAZOO_READ;
    char *at = out;
    size_t i = 0;

    if (!kazoo) {
        memcpy(at, "_c_", 3);
        at += 3;
    }
    at = put_id(at, rid, !kazoo);
    if (!kazoo)
        *at++ = '-';
    while (i + 1 < KIND_COUNT && kinds[i].kind != kind)
        i++;
    memcpy(at, kinds[i].text, strlen(kinds[i].text));
    return (size_t)(at - out) + strlen(kinds[i].text);
}

size_t zk_name_write_seq(char *out, const hf_id *rid, zk_kind kind, int32_t seq)
{
    size_t len = zk_name_write(out, rid, kind);

    return len +
           (size_t)snprintf(out + len, ZK_NAME_ROOM - len, "%010d", (int)seq);
}

/* ---- What it means ------------------------------------------------------ */

bool zk_kind_is_shared(zk_kind kind)
{
    return kind == ZK_KIND_READ || kind == ZK_KIND_KAZOO_READ;
}

bool zk_name_sees(const zk_name *other, zk_kind mine)
{
    bool mine_is_kazoo = mine == ZK_KIND_KAZOO || mine == ZK_KIND_KAZOO_READ;

    if (other->maker == ZK_OURS)
        return true; /* ours count every kind */
    switch (other->kind) {
    case ZK_KIND_LOCK:
        return other->maker != ZK_BARE &&
               (mine == ZK_KIND_LOCK ||
                (other->maker == ZK_GO && mine == ZK_KIND_KAZOO));
    case ZK_KIND_READ:
    case ZK_KIND_WRITE:
        return mine == ZK_KIND_READ || mine == ZK_KIND_WRITE;
    case ZK_KIND_KAZOO:
    case ZK_KIND_KAZOO_READ:
        return mine_is_kazoo;
    default:
        return mine == other->kind;
    }
}

int32_t zk_seq_order(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a - (uint32_t)b);
}
