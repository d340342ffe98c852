/* format_names.c - what a key is called in another library's lock.
 *
 * Two libraries exclude each other only if both come to the same row, number
 * or name, so each rule here is somebody else's, bit by bit, with the vectors
 * of format_test.c.  Also the words of a URL that become part of statements:
 * they are checked here, and nothing else of a user's ever is.
 *
 * Pure: no store, no clock, no memory. */
#include "format.h"

#include <stdio.h>

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') ||
           (c >= 'A' && c <= 'F');
}

static char to_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_uuid(const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;

        if (dash ? name[i] != '-' : !is_hex(name[i]))
            return false;
    }
    return len == 36;
}

/* A name that is a UUID is used as it is; others become one by their MD5
 * (version 3, without a namespace). */
void sql_spring_key(const char *name, size_t len, char ret[37])
{
    static const uint8_t groups[] = {4, 2, 2, 2, 6};
    uint8_t digest[16];
    const uint8_t *from = digest;
    char *at = ret;

    if (is_uuid(name, len)) {
        for (size_t i = 0; i < len; i++)
            ret[i] = to_lower(name[i]);
        ret[len] = '\0';
        return;
    }
    sql_md5(name, len, digest);
    digest[6] = (uint8_t)((digest[6] & 0x0f) | 0x30);
    digest[8] = (uint8_t)((digest[8] & 0x3f) | 0x80);
    for (size_t i = 0; i < sizeof groups; i++) {
        if (i > 0)
            *at++ = '-';
        at = sql_put_hex(at, from, groups[i]);
        from += groups[i];
    }
}

/* ---- Advisory locks ----------------------------------------------------- */

/* What ('x' || left(md5(name), 16))::bit(64)::bigint says in SQL. */
void sql_advisory_holdfast(const char *name, size_t len, sql_advisory_key *ret)
{
    uint8_t digest[16];
    uint64_t number = 0;

    sql_md5(name, len, digest);
    for (size_t i = 0; i < 8; i++)
        number = number << 8 | digest[i];
    *ret = (sql_advisory_key){.number = (int64_t)number};
}

static bool read_hex(const char *text, size_t n, uint64_t *ret)
{
    *ret = 0;
    for (size_t i = 0; i < n; i++) {
        char c = to_lower(text[i]);

        if (!is_hex(c))
            return false;
        *ret = *ret << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return true;
}

/* Short ASCII names are packed, seven bits each, into a pair; others are
 * written numbers, or hashed.  Pairs and numbers are spaces apart. */
void sql_advisory_madelson(const char *name, size_t len, sql_advisory_key *ret)
{
    uint64_t bits = 0, high, low;
    uint8_t digest[20];
    bool ascii = len <= 9;

    for (size_t i = 0; i < len && ascii; i++)
        ascii = (unsigned char)name[i] <= 0x7f;
    if (ascii) {
        for (size_t i = 0; i < len; i++)
            bits = bits << 7 | (unsigned char)name[i];
        bits <<= 1;
        for (size_t i = len; i < 9; i++)
            bits = bits << 7 | 0x7f;
        *ret = (sql_advisory_key){.pair = true,
                                  .high = (int32_t)(uint32_t)(bits >> 32),
                                  .low = (int32_t)(uint32_t)bits};
    } else if (len == 16 && read_hex(name, 16, &bits)) {
        *ret = (sql_advisory_key){.number = (int64_t)bits};
    } else if (len == 17 && name[8] == ',' && read_hex(name, 8, &high) &&
               read_hex(name + 9, 8, &low)) {
        *ret = (sql_advisory_key){.pair = true,
                                  .high = (int32_t)(uint32_t)high,
                                  .low = (int32_t)(uint32_t)low};
    } else {
        sql_sha1(name, len, digest);
        for (size_t i = 8; i > 0; i--)
            bits = bits << 8 | digest[i - 1];
        *ret = (sql_advisory_key){.number = (int64_t)bits};
    }
}

/* ---- Names for GET_LOCK, which compares without case -------------------- */

bool sql_getlock_holdfast(const char *name, size_t len,
                          char ret[SQL_GETLOCK_MAX + 1])
{
    bool plain = len > 0 && len <= SQL_GETLOCK_MAX;
    uint8_t digest[16];

    for (size_t i = 0; i < len && plain; i++)
        plain = (name[i] >= 'a' && name[i] <= 'z') ||
                (name[i] >= '0' && name[i] <= '9') ||
                strchr("._:/-", name[i]) != NULL;
    /* Nobody's plain name may look like a hashed one. */
    if (plain && !(len == 35 && memcmp(name, "hf:", 3) == 0)) {
        memcpy(ret, name, len);
        ret[len] = '\0';
        return true;
    }
    memcpy(ret, "hf:", 3);
    sql_md5(name, len, digest);
    sql_put_hex(ret + 3, digest, sizeof digest);
    return true;
}

/* 32 letters: 160 bits, five at a time, the lowest of each byte first. */
static void put_madelson_hash(const char *name, size_t len, char *ret)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
    uint8_t digest[64];

    sql_sha512(name, len, digest);
    for (size_t i = 0; i < 32; i++) {
        size_t bit = 5 * i;
        unsigned pair = digest[bit / 8] | (unsigned)digest[bit / 8 + 1] << 8;

        ret[i] = letters[pair >> (bit % 8) & 31];
    }
    ret[32] = '\0';
}

bool sql_getlock_madelson(const char *name, size_t len,
                          char ret[SQL_GETLOCK_MAX + 1])
{
    bool lower = true;
    size_t head = len < 32 ? len : 32;

    for (size_t i = 0; i < len; i++) {
        /* What is the lower case of a letter beyond ASCII is not ours to
         * say. */
        if ((unsigned char)name[i] > 0x7f || name[i] == '\0')
            return false;
        lower = lower && to_lower(name[i]) == name[i];
    }
    if (lower && len > 0 && len <= SQL_GETLOCK_MAX) {
        memcpy(ret, name, len);
        ret[len] = '\0';
        return true;
    }
    if (len == 0) {
        memcpy(ret, "__empty__", 9);
        head = 9;
    } else {
        for (size_t i = 0; i < head; i++)
            ret[i] = to_lower(name[i]);
    }
    put_madelson_hash(name, len, ret + head);
    return true;
}

/* ---- Names in a column -------------------------------------------------- */

/* Bytes of the character at p, 0: none. */
static size_t char_len(const unsigned char *p, size_t left)
{
    size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : 3;

    if (p[0] >= 0xf0)
        n = p[0] < 0xf5 ? 4 : 0;
    if (p[0] == 0 || n > left)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    }
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0; /* too long a way to say it, a surrogate, or too large */
    return n;
}

bool sql_is_name(const char *name, size_t len, size_t most)
{
    size_t count = 0;

    for (size_t at = 0; at < len; count++) {
        size_t n = char_len((const unsigned char *)name + at, len - at);

        if (n == 0)
            return false;
        at += n;
    }
    return count > 0 && count <= most && (unsigned char)name[len - 1] > ' ';
}

/* ---- Time --------------------------------------------------------------- */

/* Days since 1970 to a date, by eras of 400 years from the first of March. */
void sql_time_text(int64_t us, char ret[SQL_TIME_LEN])
{
    int64_t seconds = us / 1000000 - (us % 1000000 < 0);
    int64_t rest = us - seconds * 1000000;
    int64_t days = seconds / 86400 - (seconds % 86400 < 0);
    int64_t of_day = seconds - days * 86400;
    int64_t shifted = days + 719468;
    int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
    int64_t day = shifted - era * 146097;
    int64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    int64_t of_year = day - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * of_year + 2) / 153;
    int date = (int)(of_year - (153 * month + 2) / 5 + 1);
    int number = (int)(month < 10 ? month + 3 : month - 9);
    int full = (int)(year + era * 400 + (number <= 2));

    snprintf(ret, SQL_TIME_LEN, "%04d-%02d-%02d %02d:%02d:%02d.%06d",
             full % 10000, number % 100, date % 100, (int)(of_day / 3600) % 100,
             (int)(of_day / 60 % 60), (int)(of_day % 60),
             (int)(rest % 1000000));
}

/* ---- Options ------------------------------------------------------------ */

static int copy_option(const hf_url *url, const char *option, const char *other,
                       size_t most, const char *also, char *ret, hf_error *err)
{
    const char *text = hfd_url_option(url, option);
    size_t len;

    if (!text)
        text = other;
    len = strlen(text);
    for (size_t i = 0; i < len && also; i++) {
        char c = to_lower(text[i]);

        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
              strchr(also, c)))
            return hfd_error(err, HF_EURL, "sql", 0,
                             "the option '%s' is made of letters, digits and "
                             "'%s', not of '%.60s'",
                             option, also, text);
    }
    if (len > most)
        return hfd_error(err, HF_EURL, "sql", 0,
                         "the option '%s' has %zu bytes, at most %zu are taken",
                         option, len, most);
    memcpy(ret, text, len + 1);
    return 0;
}

int sql_name_option(const hf_url *url, const char *option, const char *other,
                    size_t most, char *ret, hf_error *err)
{
    return copy_option(url, option, other, most, "_", ret, err);
}

int sql_zone_option(const hf_url *url, char ret[64], hf_error *err)
{
    int code = copy_option(url, "zone", "", 63, "/_+-:", ret, err);
    const char *sign = ret;

    /* Java's GMT+05:30 lies in the east; to PostgreSQL it is a text of POSIX,
     * which counts to the west, and locks would look expired. */
    while (code == 0 && (sign = strpbrk(sign, "+-")) != NULL) {
        if (sign != ret && sign[1] >= '0' && sign[1] <= '9' &&
            strncmp(ret, "Etc/", 4) != 0)
            return hfd_error(err, HF_EURL, "sql", 0,
                             "the zone '%s' means different things to Java and "
                             "to the database: write '%s'",
                             ret, sign);
        sign++;
    }
    return code;
}

void sql_postgres_zone(const char *zone, char ret[SQL_ZONE_LEN])
{
    snprintf(ret, SQL_ZONE_LEN, "%s'%s'",
             *zone == '+' || *zone == '-' ? "INTERVAL " : "", zone);
}

int sql_text_option(const hf_url *url, const char *option, const char *other,
                    size_t most, char *ret, hf_error *err)
{
    int code = copy_option(url, option, other, most, NULL, ret, err);

    for (const char *c = ret; code == 0 && *c; c++) {
        if ((unsigned char)*c < ' ' || *c == '\'' || *c == '\\')
            return hfd_error(err, HF_EURL, "sql", 0,
                             "the option '%s' must be plain text without "
                             "quotes or backslashes",
                             option);
    }
    return code;
}

void sql_table_name(const char *schema, const char *table, bool quoted,
                    char ret[160])
{
    const char *quote = quoted ? "\"" : "";

    if (schema[0])
        snprintf(ret, 160, "%s%s%s.%s%s%s", quote, schema, quote, quote, table,
                 quote);
    else
        snprintf(ret, 160, "%s%s%s", quote, table, quote);
}
