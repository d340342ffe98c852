/* path.c - which node is a key's queue?
 *
 * Ordinary names are themselves: "jobs/nightly" below the root "/app" is the
 * node /app/jobs/nightly, the one that Curator and Spring use.  What the server
 * refuses, and what would make two keys one node, is written as %XX: each byte
 * of a key stands for itself or is escaped, and '%' is always escaped, so that
 * reading a path back is a function, and no two keys can have one path.
 *
 *   %        always
 *   /        at either end and beside another one: names are never empty
 *   . ..     as a whole name: the first dot
 *   bytes    below space, 0x7f, not UTF-8, and characters that the server
 *            refuses: U+0080 to U+009F, U+D800 to U+F8FF, U+FFF0 to U+FFFF,
 *            and those above, which are pairs of U+D800 and on to it
 *   entries  a name that ends like an entry's: its last digit
 *   locks    leases, as the last of several names: these are the insides of a
 *            semaphore above
 *   zookeeper  as the first name at the top: the server's own
 *
 * Without a root a key that begins with '/' is a path, as Curator's users have
 * it, and all others are below /holdfast; a path that begins with that name
 * has its first letter escaped.  With a root a key is below it, as Spring has
 * it, and a slash at its beginning is escaped like any other at an end. */
#include "path.h"

#include <string.h>

#include "name.h"

static const char digits[] = "0123456789ABCDEF";

/* ---- What must be escaped ----------------------------------------------- */

/* How many bytes of UTF-8 begin here that the server takes; 0: none. */
static size_t fine_bytes(const unsigned char *at, size_t left)
{
    unsigned c = at[0];

    if (c < 0x80)
        return c > 0x1f && c != 0x7f && c != '%' ? 1 : 0;
    if (c >= 0xc2 && c <= 0xdf && left >= 2 && (at[1] & 0xc0) == 0x80)
        return c == 0xc2 && at[1] < 0xa0 ? 0 : 2;
    if ((c & 0xf0) == 0xe0 && left >= 3 && (at[1] & 0xc0) == 0x80 &&
        (at[2] & 0xc0) == 0x80) {
        unsigned code = (c & 15) << 12 | (at[1] & 63u) << 6 | (at[2] & 63u);

        if (code >= 0x800 && (code < 0xd800 || code > 0xf8ff) && code < 0xfff0)
            return 3;
    }
    return 0;
}

/* Is the slash at i one between two names? */
static bool is_between(const char *key, size_t len, size_t i)
{
    return i > 0 && i + 1 < len && key[i - 1] != '/' && key[i + 1] != '/';
}

static bool is_name(const char *name, size_t len, const char *text)
{
    return len == strlen(text) && memcmp(name, text, len) == 0;
}

/* Which byte of this name gives way, so that it is only a name: its index, or
 * len. */
static size_t soft_spot(const char *name, size_t len, bool first, bool last,
                        const char *taken)
{
    zk_name entry;

    if (is_name(name, len, ".") || is_name(name, len, ".."))
        return 0;
    if (first && taken &&
        (is_name(name, len, taken) || is_name(name, len, "zookeeper")))
        return 0;
    if (last && !first &&
        (is_name(name, len, "locks") || is_name(name, len, "leases")))
        return 0;
    return zk_name_parse(&entry, name, len) ? len - 1 : len;
}

/* ---- Writing ------------------------------------------------------------ */

static char *put_escaped(char *at, unsigned char byte)
{
    *at++ = '%';
    *at++ = digits[byte >> 4];
    *at++ = digits[byte & 15];
    return at;
}

/* One name, which may have slashes in it that are none of the path's. */
static char *put_name(char *at, const char *name, size_t len, size_t soft)
{
    for (size_t i = 0; i < len;) {
        const unsigned char *from = (const unsigned char *)name + i;
        size_t n = name[i] == '/' || i == soft ? 0 : fine_bytes(from, len - i);

        if (n == 0)
            at = put_escaped(at, *from);
        else
            memcpy(at, from, n);
        at += n;
        i += n ? n : 1;
    }
    return at;
}

/* taken: a first name that belongs to somebody else at the top. */
static char *put_key(char *at, const char *key, size_t len, const char *taken)
{
    size_t from = 0;

    for (size_t i = 0; i <= len; i++) {
        if (i < len && (key[i] != '/' || !is_between(key, len, i)))
            continue;
        *at++ = '/';
        at = put_name(
            at, key + from, i - from,
            soft_spot(key + from, i - from, from == 0, i == len, taken));
        from = i + 1;
    }
    return at;
}

size_t zk_path_write(char *out, const char *root, size_t root_len,
                     const char *key, size_t len)
{
    bool absolute = root_len == 0 && len > 1 && key[0] == '/';
    const char *above = root_len == 0 && !absolute ? ZK_PATH_HOME : root;
    size_t above_len = above == root ? root_len : strlen(ZK_PATH_HOME);
    char *at = out + above_len;

    memcpy(out, above, above_len);
    if (absolute)
        at = put_key(at, key + 1, len - 1, &ZK_PATH_HOME[1]);
    else
        at = put_key(at, key, len, NULL);
    *at = '\0';
    return (size_t)(at - out);
}

/* ---- Reading ------------------------------------------------------------ */

static int hex_digit(char c)
{
    const char *found = c ? strchr(digits, c) : NULL;

    return found ? (int)(found - digits) : -1;
}

bool zk_path_read(char *out, size_t *ret_len, const char *root, size_t root_len,
                  const char *path, size_t len)
{
    size_t home = strlen(ZK_PATH_HOME), i = root_len, n = 0;

    if (len < root_len || memcmp(path, root, root_len) != 0)
        return false;
    if (root_len == 0 && len >= home && memcmp(path, ZK_PATH_HOME, home) == 0 &&
        (len == home || path[home] == '/'))
        i = home;
    else if (root_len == 0 && len > 1)
        out[n++] = '/';
    if (i < len && path[i] != '/')
        return false;
    for (i++; i < len; i++) {
        if (path[i] == '%') {
            int high = i + 2 < len ? hex_digit(path[i + 1]) : -1;
            int low = i + 2 < len ? hex_digit(path[i + 2]) : -1;

            if (high < 0 || low < 0)
                return false;
            out[n++] = (char)(high << 4 | low);
            i += 2;
        } else {
            out[n++] = path[i];
        }
    }
    out[n] = '\0';
    *ret_len = n;
    return true;
}

bool zk_path_is_key(const char *root, size_t root_len, const char *path,
                    size_t len)
{
    enum { ROOM = ZK_PATH_ROOM(ZK_ROOT_MAX, HF_KEY_MAX) };
    char key[ROOM], again[ROOM];
    size_t key_len;

    return len < ROOM && root_len <= ZK_ROOT_MAX &&
           zk_path_read(key, &key_len, root, root_len, path, len) &&
           key_len > 0 && key_len <= HF_KEY_MAX &&
           zk_path_write(again, root, root_len, key, key_len) == len &&
           memcmp(again, path, len) == 0;
}

bool zk_path_is_root(const char *root, size_t len)
{
    size_t from = 1;

    if (len == 0)
        return true;
    if (root[0] != '/' || len > ZK_ROOT_MAX ||
        strcmp(root, "/zookeeper") == 0 ||
        strncmp(root, "/zookeeper/", 11) == 0)
        return false;
    for (size_t i = 1; i <= len; i++) {
        if (i < len && root[i] != '/') {
            const unsigned char *at = (const unsigned char *)root + i;
            size_t n = root[i] == '%' ? 1 : fine_bytes(at, len - i);

            if (n == 0)
                return false;
            i += n - 1;
            continue;
        }
        if (i == from || is_name(root + from, i - from, ".") ||
            is_name(root + from, i - from, ".."))
            return false;
        from = i + 1;
    }
    return true;
}
