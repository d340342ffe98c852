/* record.c - values: what an entry says about itself.
 *
 *     holdfast1 x 0 RID SID TTL a PID SINCE HOST NAME\n<the user's value>
 *
 * x exclusive, s shared, p permit and its places; TTL the seconds of the
 * session's lease; a, or b once it was broken; SINCE in microseconds of the
 * joiner's clock, for people.  Go's clients write nothing, or an election's
 * proposal: whatever is not ours is an exclusive entry of somebody unknown,
 * which is the strictest reading, so a value that was tampered with keeps more
 * out and lets nobody in.  Knows nothing of keys and revisions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store.h"

#define FIRST_WORD "holdfast1"

static const char mode_letters[] = "xsp";

/* ---- Words -------------------------------------------------------------- */

/* The next word; false: there is none. */
static bool next_word(etcd_text *left, etcd_text *ret)
{
    const char *space = left->len ? memchr(left->at, ' ', left->len) : NULL;
    size_t len = space ? (size_t)(space - left->at) : left->len;

    if (len == 0)
        return false;
    *ret = (etcd_text){left->at, len};
    left->at += len + (space != NULL);
    left->len -= len + (space != NULL);
    return true;
}

static bool next_number(etcd_text *left, int64_t *ret)
{
    etcd_text word;
    int64_t n = 0;

    if (!next_word(left, &word) || word.len > 18)
        return false;
    for (size_t i = 0; i < word.len; i++) {
        if (word.at[i] < '0' || word.at[i] > '9')
            return false;
        n = n * 10 + (word.at[i] - '0');
    }
    *ret = n;
    return true;
}

static bool next_id(etcd_text *left, hf_id *ret)
{
    etcd_text word;

    return next_word(left, &word) && etcd_read_id(ret, word.at, word.len);
}

/* One of these letters; -1: none. */
static int next_letter(etcd_text *left, const char *letters)
{
    etcd_text word;
    const char *found;

    if (!next_word(left, &word) || word.len != 1)
        return -1;
    found = strchr(letters, word.at[0]);
    return found ? (int)(found - letters) : -1;
}

/* ---- The record --------------------------------------------------------- */

static bool read_ours(etcd_record *ret, etcd_text line)
{
    etcd_text first;
    int64_t places = 0;
    int mode, flag;

    if (!next_word(&line, &first) || first.len != sizeof FIRST_WORD - 1 ||
        memcmp(first.at, FIRST_WORD, first.len) != 0)
        return false;
    mode = next_letter(&line, mode_letters);
    if (mode < 0 || !next_number(&line, &places) || places > UINT32_MAX ||
        (mode == HF_PERMIT) != (places > 0))
        return false;
    if (!next_id(&line, &ret->rid) || !next_id(&line, &ret->sid) ||
        !next_number(&line, &ret->ttl))
        return false;
    flag = next_letter(&line, "ab");
    if (flag < 0 || !next_number(&line, &ret->pid) ||
        !next_number(&line, &ret->since_us))
        return false;
    ret->mode = (uint8_t)mode;
    ret->places = (uint32_t)places;
    ret->broken = flag == 1;
    ret->who = line;
    ret->ours = true;
    return true;
}

void etcd_read_record(etcd_record *ret, etcd_text value)
{
    const char *end = value.len ? memchr(value.at, '\n', value.len) : NULL;
    etcd_text line = {value.at, end ? (size_t)(end - value.at) : 0};

    *ret = (etcd_record){.mode = HF_EXCLUSIVE};
    if (!end || !read_ours(ret, line)) {
        *ret =
            (etcd_record){.mode = HF_EXCLUSIVE, .who = {"", 0}, .value = value};
        return;
    }
    ret->value = (etcd_text){end + 1, value.len - line.len - 1};
}

void etcd_put_record(hf__buf *out, const etcd_record *record)
{
    char line[64 + 2 * ETCD_ID + 4 * 20];
    char *at;
    int n = snprintf(
        line, sizeof line, FIRST_WORD " %c %lu ", mode_letters[record->mode],
        record->mode == HF_PERMIT ? (unsigned long)record->places : 0UL);

    at = etcd_put_id(line + n, &record->rid);
    *at++ = ' ';
    at = etcd_put_id(at, &record->sid);
    n = snprintf(at, sizeof line - (size_t)(at - line), " %lld %c %lld %lld ",
                 (long long)record->ttl, record->broken ? 'b' : 'a',
                 (long long)record->pid, (long long)record->since_us);
    hf__buf_add(out, line, (size_t)(at - line) + (size_t)n);
    hf__buf_add(out, record->who.at, record->who.len);
    hf__buf_add(out, "\n", 1);
    if (record->value.len > 0)
        hf__buf_add(out, record->value.at, record->value.len);
}

/* ---- Who ---------------------------------------------------------------- */

static size_t put_escaped(char *to, size_t room, const char *text, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    size_t used = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        bool plain = c > ' ' && c != '%' && c != 127;

        if (used + (plain ? 1 : 3) > room)
            break;
        if (!plain) {
            to[used++] = '%';
            to[used++] = digits[c >> 4];
            to[used++] = digits[c & 15];
        } else {
            to[used++] = (char)c;
        }
    }
    return used;
}

void etcd_make_who(char *ret, size_t room, const char *host, const char *name,
                   size_t name_len)
{
    size_t used = put_escaped(ret, room / 2, host, strlen(host));

    ret[used++] = ' ';
    used += put_escaped(ret + used, room - used - 1, name, name_len);
    ret[used] = '\0';
}

static void unescape(etcd_text from, char *to, size_t room)
{
    size_t used = 0;

    for (size_t i = 0; i < from.len && used + 1 < room; i++) {
        int high = -1, low = -1;

        if (from.at[i] == '%' && i + 2 < from.len) {
            high = etcd_hex_digit(from.at[i + 1]);
            low = etcd_hex_digit(from.at[i + 2]);
        }
        if (high >= 0 && low >= 0) {
            to[used++] = (char)(high << 4 | low);
            i += 2;
        } else {
            to[used++] = from.at[i];
        }
    }
    to[used] = '\0';
}

void etcd_split_who(etcd_text who, char *host, size_t host_room, char *name,
                    size_t name_room)
{
    const char *space = who.len ? memchr(who.at, ' ', who.len) : NULL;
    size_t len = space ? (size_t)(space - who.at) : who.len;
    etcd_text first = {who.at, len};
    etcd_text second = {who.at + len, who.len - len};

    if (second.len > 0) {
        second.at++;
        second.len--;
    }
    unescape(first, host, host_room);
    unescape(second, name, name_room);
}
