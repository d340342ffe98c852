/* list.c - every entry under a prefix, or all of one session, for people and
 * for the audit after a doubt.
 *
 * Queues come page by page, in order of key; each page is one moment of the
 * store, a longer list several.  Who owns an entry and what it published is
 * asked for page by page, too.  Rows are told while no cursor is open, so a
 * slow reader keeps nothing from anybody.
 *
 * The dead are not shown: they stand in their queue only until somebody looks
 * at it. */
#include <stdlib.h>
#include <string.h>

#include "native.h"

typedef struct owner {
    bool there;
    int64_t left_us, pid;
    char host[128], name[256];
} owner;

typedef struct listing {
    sql_use use;
    hf_op *op;
    sql_rows page;
    int64_t now_us;
    char prefix[SQL_HEX_MAX];
    bool ended; /* by the callback */
} listing;

/* Entries of one queue, with what belongs to them. */
typedef struct shown {
    const sql_entry *entries;
    size_t n, held;
    char key[HF_KEY_MAX + 1];
    size_t key_len;
} shown;

/* ---- Owners and values of up to SQL_MANY entries ------------------------ */

static void copy_cell(char *ret, size_t size, const char *cell)
{
    size_t len = 0;

    while (cell && len + 1 < size && cell[len] != '\0') {
        ret[len] = cell[len];
        len++;
    }
    ret[len] = '\0';
}

static void write_ids(const sql_entry *entries, size_t n, bool sids,
                      char ids[][SQL_ID_LEN + 1], const char **params)
{
    for (size_t i = 0; i < SQL_MANY; i++) {
        const sql_entry *entry = &entries[i < n ? i : n - 1];

        sql_id_text(sids ? &entry->sid : &entry->rid, ids[i]);
        params[i] = ids[i];
    }
}

static bool find_owners(listing *l, const sql_entry *entries, size_t n,
                        owner *owners)
{
    char ids[SQL_MANY][SQL_ID_LEN + 1];
    const char *params[SQL_MANY];
    const sql_rows *rows = &l->use.rows;

    write_ids(entries, n, true, ids, params);
    if (!sql_run(&l->use, SQL_SESSIONS, params))
        return false;
    for (size_t row = 0; row < rows->rows; row++) {
        const char *sid = sql_cell(rows, row, 0);

        for (size_t i = 0; sid && i < n; i++) {
            if (strcmp(ids[i], sid) != 0 || entries[i].closed)
                continue;
            owners[i].there = true;
            owners[i].left_us = sql_span(rows, row, 1, 0);
            owners[i].pid = sql_number(rows, row, 4, 0);
            copy_cell(owners[i].host, sizeof owners[i].host,
                      sql_cell(rows, row, 5));
            copy_cell(owners[i].name, sizeof owners[i].name,
                      sql_cell(rows, row, 6));
        }
    }
    return true;
}

static bool find_values(listing *l, const sql_entry *entries, size_t n)
{
    char ids[SQL_MANY][SQL_ID_LEN + 1];
    const char *params[SQL_MANY];

    write_ids(entries, n, false, ids, params);
    return sql_run(&l->use, SQL_VALUES_OF, params);
}

/* From the rows of find_values. */
static size_t value_of(const listing *l, const hf_id *rid, uint8_t *ret)
{
    char id[SQL_ID_LEN + 1];

    sql_id_text(rid, id);
    for (size_t row = 0; row < l->use.rows.rows; row++) {
        const char *at = sql_cell(&l->use.rows, row, 0);
        const char *value = sql_cell(&l->use.rows, row, 1);

        if (at && value && strcmp(at, id) == 0)
            return sql_unhex(value, ret, HF_VALUE_MAX);
    }
    return 0;
}

/* ---- Telling ------------------------------------------------------------ */

static int64_t remaining_ms(const listing *l, const sql_entry *entry,
                            const owner *who)
{
    int64_t left = sql_entry_left(entry, who->left_us, l->now_us);

    return l->use.store->observer || left == INT64_MAX ? -1 : left / 1000;
}

static void emit_entry(listing *l, const shown *s, size_t at, const owner *who)
{
    const sql_entry *entry = &s->entries[at];
    hf_op *op = l->op;
    uint8_t value[HF_VALUE_MAX + 1];
    size_t value_len = value_of(l, &entry->rid, value);
    int64_t age_us = sql_about_now(l->use.store) - entry->born_us;
    hf_row row = {
        .info = {.key = s->key,
                 .key_len = s->key_len,
                 .mode = entry->mode,
                 .places = entry->places,
                 .granted = at < s->held,
                 .mine = !entry->closed && sql_same_id(&entry->sid, &op->sid),
                 .broken = entry->brk_us > 0,
                 .closed = entry->closed,
                 .number = entry->num,
                 .token = at < s->held ? entry->num : 0,
                 .pid = who->pid,
                 .host = who->host,
                 .name = who->name,
                 .age_ms = age_us > 0 ? age_us / 1000 : 0,
                 .remaining_ms = remaining_ms(l, entry, who),
                 .value = value,
                 .value_len = value_len},
        .rid = entry->rid,
        .sid = entry->sid};

    if (op->only_mine && !row.info.mine)
        return;
    if (sql_over(entry, l->now_us) || (sql_life_of(entry) == SQL_BY_SESSION &&
                                       (!who->there || who->left_us <= 0)))
        return;
    l->ended = op->emit_row(&row, op->user) != 0;
}

static bool emit_some(listing *l, const shown *s, size_t first, size_t n)
{
    owner *owners = hfd_alloc(n * sizeof *owners);
    bool done = owners != NULL;

    if (!done)
        hfd_error(&l->use.err, HF_ENOMEM, l->use.store->port->class->driver, 0,
                  "out of memory for the listing");
    done = done && find_owners(l, s->entries + first, n, owners) &&
           find_values(l, s->entries + first, n);
    for (size_t i = 0; done && !l->ended && i < n; i++)
        emit_entry(l, s, first + i, &owners[i]);
    hfd_free(owners);
    return done;
}

static bool has_mine(const shown *s, const hf_id *sid)
{
    for (size_t i = 0; i < s->n; i++) {
        if (!s->entries[i].closed && sql_same_id(&s->entries[i].sid, sid))
            return true;
    }
    return false;
}

static bool emit_queue(listing *l, const char *hex, const char *body)
{
    sql_entry *entries = NULL;
    ssize_t n = sql_body_read(body, true, &entries);
    shown s = {.entries = entries};
    bool done = n >= 0;

    if (n < 0) {
        hfd_error(&l->use.err, n == -2 ? HF_ENOMEM : HF_EPROTO,
                  l->use.store->port->class->driver, 0,
                  n == -2 ? "out of memory for the listing"
                          : "a queue was not written by holdfast: another "
                            "program uses these tables");
        return false;
    }
    s.n = (size_t)n;
    s.held = sql_held(entries, s.n);
    s.key_len = sql_unhex(hex, s.key, HF_KEY_MAX);
    s.key[s.key_len] = '\0';
    if (l->op->only_mine && !has_mine(&s, &l->op->sid)) {
        hfd_free(entries);
        return true;
    }
    for (size_t at = 0; done && !l->ended && at < s.n; at += SQL_MANY)
        done = emit_some(l, &s, at, s.n - at < SQL_MANY ? s.n - at : SQL_MANY);
    hfd_free(entries);
    return done;
}

/* One page; *io is the last key that was seen.  false: failed. */
static bool list_page(listing *l, char io[SQL_HEX_MAX], bool *ret_more)
{
    const char *params[] = {io, l->prefix};
    size_t len = strlen(l->prefix);
    bool done = true;

    *ret_more = false;
    if (!sql_run(&l->use, SQL_LIST, params))
        return false;
    l->page = l->use.rows;
    l->use.rows = (sql_rows){.rows = 0};
    for (size_t row = 0; done && !l->ended && row < l->page.rows; row++) {
        const char *hex = sql_cell(&l->page, row, 0);
        const char *body = sql_cell(&l->page, row, 1);

        *ret_more = hex && strncmp(hex, l->prefix, len) == 0 &&
                    strlen(hex) < SQL_HEX_MAX;
        if (!*ret_more)
            break; /* past the last key that begins so */
        memcpy(io, hex, strlen(hex) + 1);
        l->now_us = sql_instant(&l->page, row, 2);
        done = emit_queue(l, hex, body ? body : "");
    }
    sql_rows_done(&l->page);
    return done;
}

/* All of one session: found by its id in the text of the queues. */
static bool list_mine(listing *l)
{
    char sid[SQL_ID_LEN + 1];
    const char *params[] = {sid};
    bool done;

    sql_id_text(&l->op->sid, sid);
    if (!sql_run(&l->use, SQL_MINE, params))
        return false;
    l->page = l->use.rows;
    l->use.rows = (sql_rows){.rows = 0};
    done = true;
    for (size_t row = 0; done && !l->ended && row < l->page.rows; row++) {
        const char *hex = sql_cell(&l->page, row, 0);
        const char *body = sql_cell(&l->page, row, 1);

        if (hex && body && strncmp(hex, l->prefix, strlen(l->prefix)) == 0)
            done = emit_queue(l, hex, body);
    }
    sql_rows_done(&l->page);
    return done;
}

void sql_native_list(hf_store *store, hf_op *op)
{
    listing *l = hfd_alloc(sizeof *l);
    char at[SQL_HEX_MAX] = "";
    bool more = true, done;

    if (!l || op->text_len > HF_KEY_MAX) {
        int code = l ? 0 : HF_ENOMEM; /* no key is longer than a key */

        hfd_free(l);
        if (code)
            hfd_error(&op->error, code, store->port->class->driver, 0,
                      "out of memory for the listing");
        hfd_finish(op, code ? HF_NOT_APPLIED : HF_APPLIED, code);
        return;
    }
    l->op = op;
    sql_hex(op->text, op->text_len, l->prefix);
    done = sql_begin(&l->use, store, op) == 0;
    if (done && op->only_mine)
        done = list_mine(l);
    while (done && !op->only_mine && more && !l->ended)
        done = list_page(l, at, &more);
    if (done)
        sql_finish(&l->use, 0);
    else
        sql_fail(&l->use);
    hfd_free(l);
}
