/* body.c - a queue as it is written in its row: read and written.
 *
 * Answers: which entries does this text say, and which text says this entry?
 * Knows nothing of who holds, of clocks or of databases.
 *
 * There is one text for an entry and one entry for a text: numbers have no
 * leading zero and no sign, ids are exactly 22 letters whose unused bits are
 * zero.  That is what lets a client write down, without reading it, the text
 * that a leave cuts out.  Whatever is not such a text is refused as a whole: a
 * queue that is half understood would grant to the wrong one.  Numbers rise,
 * and a run's numbers are nobody else's. */
#include "body.h"

#include <stdio.h>
#include <string.h>

#include "rows.h"

#define LEASE_MAX_MS (INT64_C(1) << 41) /* of more no API lets anybody ask */

static const char letters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* ---- Ids ---- */

void sql_id_text(const hf_id *id, char ret[SQL_ID_LEN + 1])
{
    unsigned bits = 0, have = 0;
    size_t n = 0;

    for (size_t i = 0; i < sizeof id->bytes; i++) {
        bits = bits << 8 | id->bytes[i];
        for (have += 8; have >= 6; have -= 6)
            ret[n++] = letters[bits >> (have - 6) & 63];
    }
    ret[n++] = letters[bits << (6 - have) & 63];
    ret[n] = '\0';
}

static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '-' ? 62 : c == '_' ? 63 : -1;
}

bool sql_id_from(const char *text, size_t len, hf_id *ret)
{
    hf_id id;
    unsigned bits = 0, have = 0;
    size_t n = 0;

    if (len != SQL_ID_LEN)
        return false;
    for (size_t i = 0; i < len; i++) {
        int value = value_of(text[i]);

        if (value < 0)
            return false;
        bits = bits << 6 | (unsigned)value;
        have += 6;
        if (have >= 8) {
            have -= 8;
            id.bytes[n++] = (uint8_t)(bits >> have & 255);
        }
    }
    if (bits & ((1U << have) - 1))
        return false; /* another text for the same id */
    *ret = id;
    return true;
}

/* ---- Writing ---- */

static char letter_of(hf_mode mode)
{
    return mode == HF_SHARED ? 'S' : mode == HF_PERMIT ? 'P' : 'X';
}

void sql_entry_before(const sql_entry *entry, char ret[SQL_ENTRY_MAX])
{
    snprintf(ret, SQL_ENTRY_MAX, "|%c", letter_of(entry->mode));
}

/* ".RID.SID.RUN.PLACES.LEASE." */
static int put_middle(const sql_entry *entry, char *ret, size_t room)
{
    char rid[SQL_ID_LEN + 1], sid[SQL_ID_LEN + 1] = "-";

    sql_id_text(&entry->rid, rid);
    if (!entry->closed)
        sql_id_text(&entry->sid, sid);
    return snprintf(ret, room, ".%s.%s.%u.%u.%lld.", rid, sid, entry->run,
                    entry->places, (long long)entry->lease_ms);
}

void sql_entry_behind(const sql_entry *entry, char ret[SQL_ENTRY_MAX])
{
    int n = put_middle(entry, ret, SQL_ENTRY_MAX);

    snprintf(ret + n, SQL_ENTRY_MAX - (size_t)n, "%lld.%lld.%lld",
             (long long)entry->exp_us, (long long)entry->brk_us,
             (long long)entry->born_us);
}

void sql_entry_text(const sql_entry *entry, char ret[SQL_ENTRY_MAX])
{
    char behind[SQL_ENTRY_MAX];

    sql_entry_behind(entry, behind);
    /* Twenty digits at most before them: behind is never that long. */
    snprintf(ret, SQL_ENTRY_MAX, "|%c%llu%.175s", letter_of(entry->mode),
             (unsigned long long)entry->num, behind);
}

void sql_entry_around(const sql_entry *entry, sql_field field,
                      char ret_before[SQL_ENTRY_MAX],
                      char ret_behind[SQL_ENTRY_MAX])
{
    int n = snprintf(ret_before, SQL_ENTRY_MAX, "|%c%llu",
                     letter_of(entry->mode), (unsigned long long)entry->num);

    n += put_middle(entry, ret_before + n, SQL_ENTRY_MAX - (size_t)n);
    if (field == SQL_EXP) {
        snprintf(ret_behind, SQL_ENTRY_MAX, ".%lld.%lld",
                 (long long)entry->brk_us, (long long)entry->born_us);
        return;
    }
    snprintf(ret_before + n, SQL_ENTRY_MAX - (size_t)n, "%lld.",
             (long long)entry->exp_us);
    snprintf(ret_behind, SQL_ENTRY_MAX, ".%lld", (long long)entry->born_us);
}

/* ---- Reading ---- */

/* A number of at most `max`, and the letter behind it. */
static bool take_number(const char **io, uint64_t max, char end, uint64_t *ret)
{
    const char *at = *io;
    uint64_t number = 0;

    if (*at < '0' || *at > '9' || (*at == '0' && at[1] >= '0' && at[1] <= '9'))
        return false;
    for (; *at >= '0' && *at <= '9'; at++) {
        unsigned digit = (unsigned)(*at - '0');

        if (number > (max - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    if (end && *at != end)
        return false;
    *io = at + (end != '\0');
    *ret = number;
    return true;
}

static bool take_time(const char **io, char end, int64_t *ret)
{
    uint64_t number;

    if (!take_number(io, SQL_INSTANT_MAX, end, &number))
        return false;
    *ret = (int64_t)number;
    return true;
}

static bool take_count(const char **io, uint32_t *ret)
{
    uint64_t number;

    if (!take_number(io, UINT32_MAX, '.', &number))
        return false;
    *ret = (uint32_t)number;
    return true;
}

static bool take_id(const char **io, hf_id *ret)
{
    const char *at = *io;
    size_t n = 0;

    /* It may end anywhere: look at no letter behind the NUL. */
    while (n < SQL_ID_LEN && at[n] != '\0')
        n++;
    if (n < SQL_ID_LEN || at[n] != '.' || !sql_id_from(at, n, ret))
        return false;
    *io = at + n + 1;
    return true;
}

static bool take_mode(const char **io, hf_mode *ret)
{
    if ((*io)[0] != '|')
        return false;
    switch ((*io)[1]) {
    case 'X':
        *ret = HF_EXCLUSIVE;
        break;
    case 'S':
        *ret = HF_SHARED;
        break;
    case 'P':
        *ret = HF_PERMIT;
        break;
    default:
        return false;
    }
    *io += 2;
    return true;
}

static bool take_ids(const char **io, sql_entry *ret)
{
    if (!take_id(io, &ret->rid))
        return false;
    ret->closed = (*io)[0] == '-' && (*io)[1] == '.';
    if (!ret->closed)
        return take_id(io, &ret->sid);
    *io += 2;
    return true;
}

bool sql_body_next(const char **io, sql_entry *ret)
{
    const char *at = *io;
    sql_entry entry = {.text = at};

    if (!take_mode(&at, &entry.mode) ||
        !take_number(&at, INT64_MAX, '.', &entry.num) ||
        !take_ids(&at, &entry) || !take_count(&at, &entry.run) ||
        !take_count(&at, &entry.places) ||
        !take_time(&at, '.', &entry.lease_ms) ||
        !take_time(&at, '.', &entry.exp_us) ||
        !take_time(&at, '.', &entry.brk_us) ||
        !take_time(&at, '\0', &entry.born_us))
        return false;
    if (*at != '\0' && *at != '|')
        return false;
    if (entry.num == 0 || entry.run == 0 ||
        entry.run - 1 > INT64_MAX - entry.num ||
        (entry.mode == HF_PERMIT && entry.places == 0) ||
        (entry.closed && entry.exp_us == 0) || entry.lease_ms > LEASE_MAX_MS)
        return false;
    entry.len = (size_t)(at - *io);
    *ret = entry;
    *io = at;
    return true;
}

ssize_t sql_body_read(const char *body, bool whole, sql_entry **ret)
{
    /* Of a body that was cut, what reaches its end may go on behind it. */
    const char *last = strrchr(body, '|');
    const char *end = whole || !last ? body + strlen(body) : last;
    const char *at = body;
    sql_entry *entries;
    size_t room = 0, n = 0;
    uint64_t next = 1;

    for (const char *c = body; c < end; c++)
        room += *c == '|';
    entries = hfd_alloc((room ? room : 1) * sizeof *entries);
    if (!entries)
        return -2;
    while (at < end && n < room && sql_body_next(&at, &entries[n])) {
        if (entries[n].num < next)
            break;
        next = entries[n].num + entries[n].run;
        n++;
    }
    if (at != end || n != room || (!whole && !last && *body)) {
        hfd_free(entries);
        return -1;
    }
    *ret = entries;
    return (ssize_t)n;
}
