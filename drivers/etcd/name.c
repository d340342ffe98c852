/* name.c - keys: where a lock's entries are in etcd.
 *
 *     K/<lease>            an exclusive entry, as Go's concurrency.Mutex has it
 *     K/<lease>.<rid>      shared, a permit, or whom plain.c denies the other
 *     holdfast:gone/<lease>/!<rid>   the tomb of an entry, or news of a break
 *
 * all behind the store's prefix; <lease> is the lease's number in hex without
 * leading zeros, <rid> 32 digits.  Answers: what is it called, and is this an
 * entry's name?  Knows nothing of values and revisions.
 *
 * A lock named K/x has its entries below K/x/: behind K/ they contain a slash,
 * which no entry of K does, so nested names never block each other from our
 * side.  Two keys never meet: K is what stands before the last slash.  A tomb's
 * last part begins with '!', so it is never taken for an entry.
 *
 * A session's lease is made from its id, so nobody has to remember which lease
 * is whose, and an attach that is repeated asks for the same one. */
#include <string.h>

#include "store.h"

#define GONE_FOLDER "holdfast:gone/"

static const char digits[] = "0123456789abcdef";

int64_t etcd_lease_of(const hf_id *sid)
{
    uint64_t lease = 0;

    for (size_t i = 0; i < 8; i++)
        lease = lease << 8 | sid->bytes[i];
    lease &= INT64_MAX;
    return lease ? (int64_t)lease : 1;
}

bool etcd_same_text(etcd_text a, etcd_text b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

/* ---- Digits ------------------------------------------------------------- */

int etcd_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

char *etcd_put_id(char *at, const hf_id *id)
{
    for (size_t i = 0; i < sizeof id->bytes; i++) {
        *at++ = digits[id->bytes[i] >> 4];
        *at++ = digits[id->bytes[i] & 15];
    }
    return at;
}

bool etcd_read_id(hf_id *ret, const char *text, size_t len)
{
    if (len != ETCD_ID)
        return false;
    for (size_t i = 0; i < sizeof ret->bytes; i++) {
        int high = etcd_hex_digit(text[2 * i]),
            low = etcd_hex_digit(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        ret->bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static char *put_lease(char *at, int64_t lease)
{
    char hex[ETCD_LEASE_HEX];
    size_t n = sizeof hex;

    for (uint64_t left = (uint64_t)lease; left; left >>= 4)
        hex[--n] = digits[left & 15];
    memcpy(at, hex + n, sizeof hex - n);
    return at + (sizeof hex - n);
}

/* ---- Names -------------------------------------------------------------- */

static char *put_bytes(char *at, const void *bytes, size_t len)
{
    if (len > 0)
        memcpy(at, bytes, len);
    return at + len;
}

static etcd_text text_from(const char *from, const char *to)
{
    return (etcd_text){from, (size_t)(to - from)};
}

/* The end of everything below a folder: its slash is raised by one. */
static char *put_end(char *at, etcd_text folder)
{
    at = put_bytes(at, folder.at, folder.len);
    at[-1]++;
    return at;
}

etcd_text etcd_name_suffix(char *ret, int64_t lease, const hf_id *rid)
{
    char *at = put_lease(ret, lease);

    if (rid) {
        *at++ = '.';
        at = etcd_put_id(at, rid);
    }
    return text_from(ret, at);
}

void etcd_name_queue(etcd_names *ret, const hf_store *store, const char *key,
                     size_t len)
{
    char *at = put_bytes(ret->bytes, store->prefix, store->prefix_len);

    at = put_bytes(at, key, len);
    *at++ = '/';
    ret->dir = text_from(ret->bytes, at);
    ret->dir_end = text_from(at, put_end(at, ret->dir));
}

static char *put_gone_folder(char *at, const hf_store *store, int64_t lease)
{
    at = put_bytes(at, store->prefix, store->prefix_len);
    at = put_bytes(at, GONE_FOLDER, sizeof GONE_FOLDER - 1);
    at = put_lease(at, lease);
    *at++ = '/';
    return at;
}

void etcd_name_entry(etcd_names *ret, const hf_store *store, const char *key,
                     size_t len, int64_t lease, const hf_id *rid)
{
    char *from = ret->bytes;
    char *at = put_bytes(from, store->prefix, store->prefix_len);

    at = put_bytes(at, key, len);
    *at++ = '/';
    ret->dir = text_from(from, at);
    at = put_lease(at, lease);
    ret->plain = text_from(from, at);
    *at++ = '.';
    at = etcd_put_id(at, rid);
    ret->own = text_from(from, at);
    from = at;
    at = put_end(at, ret->dir);
    ret->dir_end = text_from(from, at);
    from = at;
    at = put_gone_folder(at, store, lease);
    *at++ = '!';
    at = etcd_put_id(at, rid);
    ret->gone = text_from(from, at);
}

void etcd_name_gone(char *buf, const hf_store *store, int64_t lease,
                    etcd_text *ret, etcd_text *ret_end)
{
    char *at = put_gone_folder(buf, store, lease);

    *ret = text_from(buf, at);
    *ret_end = text_from(at, put_end(at, *ret));
}

/* ---- Reading ------------------------------------------------------------ */

bool etcd_read_suffix(etcd_suffix *ret, etcd_text text)
{
    uint64_t lease = 0;
    size_t at = 0;

    *ret = (etcd_suffix){.has_rid = false};
    while (at < text.len && at < ETCD_LEASE_HEX) {
        int digit = etcd_hex_digit(text.at[at]);

        if (digit < 0)
            break;
        lease = lease << 4 | (uint64_t)digit;
        at++;
    }
    if (at == 0 || text.at[0] == '0' || lease > INT64_MAX)
        return false;
    ret->lease = (int64_t)lease;
    if (at == text.len)
        return true;
    ret->has_rid = true;
    return text.at[at] == '.' &&
           etcd_read_id(&ret->rid, text.at + at + 1, text.len - at - 1);
}

bool etcd_read_gone(hf_id *ret, etcd_text key)
{
    return key.len > ETCD_ID && key.at[key.len - ETCD_ID - 1] == '!' &&
           etcd_read_id(ret, key.at + key.len - ETCD_ID, ETCD_ID);
}
