/* sqlbody.c - any bytes as the queue in a row of a SQL database.
 *
 * Two ways in.  As they are: whatever stands in the row is a queue or refused,
 * never read beyond its end; and what is taken for a queue is exactly the text
 * that its entries would be written as.  And as a recipe: a queue is built from
 * the bytes, must be read again as it was, whole and cut anywhere, and judged
 * as hfd_admit does. */
#include "fuzz.h"

#include "../../drivers/sql/judge.h"

enum { ENTRIES_MAX = 12 };

/* A copy that ends where the text does, so that a byte too far is noticed. */
static char *copy_of(const void *bytes, size_t len)
{
    char *copy = malloc(len + 1);

    PROMISE(copy != NULL);
    if (len)
        memcpy(copy, bytes, len);
    copy[len] = '\0';
    return copy;
}

/* Entries follow each other without a gap, and say their own text. */
static void check_entries(const char *body, const sql_entry *entries, size_t n)
{
    const char *at = body;
    uint64_t next = 1;

    for (size_t i = 0; i < n; i++) {
        char text[SQL_ENTRY_MAX];

        PROMISE(entries[i].text == at);
        sql_entry_text(&entries[i], text);
        PROMISE(strlen(text) == entries[i].len);
        PROMISE(memcmp(text, at, entries[i].len) == 0);
        PROMISE(entries[i].num >= next && entries[i].run >= 1);
        next = entries[i].num + entries[i].run;
        at += entries[i].len;
    }
    PROMISE(*at == '\0' || *at == '|');
}

static void check_rule(const sql_entry *entries, size_t n)
{
    size_t held = sql_held(entries, n), first;

    PROMISE(held <= n && (held > 0 || n == 0));
    PROMISE(sql_due(entries, n, 0, &first) == held && first == 0);
    PROMISE(sql_due(entries, n, sql_held_until(entries, n, NULL), &first) == 0);
    for (size_t i = 0; i < n; i++) {
        size_t waits_for = sql_waits_for(entries, n, i);

        PROMISE(waits_for < i || (waits_for == n));
        PROMISE(sql_find_num(entries, n, entries[i].num) == i);
        sql_over(&entries[i], entries[i].born_us);
        PROMISE(sql_entry_left(&entries[i], -1, entries[i].born_us) >= 0);
    }
}

static ssize_t check_body(const char *bytes, size_t len, bool whole)
{
    char *body = copy_of(bytes, len);
    sql_entry *entries = NULL;
    ssize_t n = sql_body_read(body, whole, &entries);

    PROMISE(n >= -1);
    if (n >= 0) {
        check_entries(body, entries, (size_t)n);
        check_rule(entries, (size_t)n);
        if (whole && n > 0) {
            const sql_entry *last = &entries[n - 1];

            PROMISE(last->text + last->len == body + strlen(body));
        }
        hfd_free(entries);
    }
    free(body);
    return n;
}

/* ---- By recipe ---- */

static sql_entry build_entry(fuzz_input *in, uint64_t num, bool permits)
{
    unsigned how = take_byte(in);
    sql_entry entry = {.num = num + how % 3,
                       .mode = permits   ? HF_PERMIT
                               : how & 8 ? HF_SHARED
                                         : HF_EXCLUSIVE,
                       .run = 1 + take_byte(in) % 16,
                       .places = permits ? 1 + how / 64 : 0,
                       .closed = (how & 48) == 48};

    for (size_t i = 0; i < sizeof entry.rid.bytes; i++)
        entry.rid.bytes[i] = take_byte(in);
    entry.rid.bytes[0] = (uint8_t)num;
    if (!entry.closed)
        entry.sid.bytes[15] = take_byte(in);
    entry.lease_ms = (int64_t)take_number(in, how & 16 ? 5 : 0);
    entry.exp_us = (int64_t)take_number(in, how & 32 ? 7 : 0);
    entry.exp_us += entry.closed;
    entry.brk_us = (int64_t)take_number(in, how & 16 ? 7 : 0);
    entry.born_us = (int64_t)take_number(in, 7);
    return entry;
}

static void check_built(fuzz_input *in)
{
    char body[ENTRIES_MAX * SQL_ENTRY_MAX] = "";
    size_t n = take_byte(in) % (ENTRIES_MAX + 1), len = 0, cut;
    uint64_t num = 1 + take_number(in, 4);
    bool permits = take_byte(in) & 1;

    for (size_t i = 0; i < n; i++) {
        sql_entry entry = build_entry(in, num, permits);
        char text[SQL_ENTRY_MAX];

        sql_entry_text(&entry, text);
        memcpy(body + len, text, strlen(text) + 1);
        len += strlen(text);
        num = entry.num + entry.run;
    }
    PROMISE(check_body(body, len, true) == (ssize_t)n);
    cut = len ? take_number(in, 2) % (len + 1) : 0;
    if (cut > 0) {
        ssize_t bars = 0;

        for (size_t i = 0; i < cut; i++)
            bars += body[i] == '|';
        PROMISE(check_body(body, cut, false) == bars - 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, data + size};

    check_body((const char *)data, size, true);
    check_body((const char *)data, size, false);
    check_built(&in);
    return 0;
}
