/* list.c - every entry under a prefix, for people.
 *
 * Rows are copied page by page and told to the core with no lock held and no
 * read open: who reads the list slowly must not keep the WAL from shrinking.  A
 * page is one moment of the store; a longer list is several moments. */
#include "store.h"

#include <string.h>

#define PAGE 256

typedef struct copied {
    hf_row row;
    size_t key, host, name, value; /* where in `text` */
} copied;

typedef struct page {
    copied rows[PAGE];
    size_t count;
    bool last;  /* nothing comes after it */
    char *text; /* the strings of the rows, one after the other */
    size_t len, cap;
} page;

/* Copy len bytes and a NUL behind them; where they stand. */
static size_t keep_text(sq_txn *t, page *p, const void *from, size_t len)
{
    size_t at = p->len;

    if (p->len + len + 1 > p->cap) {
        size_t cap = 2 * p->cap + len + 4096;
        char *more = hfd_realloc(p->text, cap);

        if (!more) {
            t->rc = SQLITE_NOMEM;
            return 0;
        }
        p->text = more;
        p->cap = cap;
    }
    if (len > 0)
        memcpy(p->text + at, from, len);
    p->text[at + len] = '\0';
    p->len += len + 1;
    return at;
}

static size_t keep_column(sq_txn *t, page *p, sqlite3_stmt *stmt, int column,
                          size_t *ret_len)
{
    const void *from = sqlite3_column_blob(stmt, column);
    size_t len = (size_t)sqlite3_column_bytes(stmt, column);

    if (ret_len)
        *ret_len = len;
    return keep_text(t, p, from ? from : "", from ? len : 0);
}

static void copy_row(sq_txn *t, page *p, sqlite3_stmt *stmt)
{
    copied *c = &p->rows[p->count++];
    hf_entry_info *info = &c->row.info;
    hf_nsec exp = sqlite3_column_int64(stmt, 8);
    hf_nsec born = sqlite3_column_int64(stmt, 9);
    hf_nsec session = sqlite3_column_int64(stmt, 13);

    memset(c, 0, sizeof *c);
    c->key = keep_column(t, p, stmt, 0, &info->key_len);
    info->number = (uint64_t)sqlite3_column_int64(stmt, 1);
    c->row.rid = hf__sq_column_id(stmt, 2);
    c->row.sid = hf__sq_column_id(stmt, 3);
    info->mine = memcmp(&c->row.sid, &t->op->sid, sizeof c->row.sid) == 0;
    info->mode = (hf_mode)sqlite3_column_int(stmt, 4);
    info->places = (uint32_t)sqlite3_column_int64(stmt, 5);
    info->granted = sqlite3_column_int(stmt, 6) != 0;
    info->token = (uint64_t)sqlite3_column_int64(stmt, 7);
    info->closed = sqlite3_column_int(stmt, 10) != 0;
    info->broken = sqlite3_column_int64(stmt, 11) > 0;
    c->value = keep_column(t, p, stmt, 12, &info->value_len);
    info->remaining_ms = ((exp > 0 ? exp : session) - t->now) / 1000000;
    info->age_ms = t->now > born ? (t->now - born) / 1000000 : 0;
    info->pid = sqlite3_column_int64(stmt, 14);
    c->host = keep_column(t, p, stmt, 15, NULL);
    c->name = keep_column(t, p, stmt, 16, NULL);
}

/* The smallest key above all that begin with prefix; 0: there is none. */
static size_t above_prefix(char *ret, const char *prefix, size_t len)
{
    memcpy(ret, prefix, len);
    while (len > 0 && (uint8_t)ret[len - 1] == 0xff)
        len--;
    if (len > 0)
        ret[len - 1] = (char)((uint8_t)ret[len - 1] + 1);
    return len;
}

typedef struct from {
    char key[HF_KEY_MAX];
    size_t len;
    uint64_t num;
} from;

static void note_from(sqlite3_stmt *stmt, from *at)
{
    size_t len = (size_t)sqlite3_column_bytes(stmt, 0);

    at->len = len < sizeof at->key ? len : sizeof at->key;
    memcpy(at->key, sqlite3_column_blob(stmt, 0), at->len);
    at->num = (uint64_t)sqlite3_column_int64(stmt, 1);
}

/* Read the page after `at`, and move it there. */
static void read_page(sq_txn *t, page *p, from *at)
{
    const hf_op *op = t->op;
    char above[HF_KEY_MAX];
    size_t len = op->text_len, above_len;
    from next = *at; /* what is bound must not change under the statement */
    sqlite3_stmt *stmt = hf__sq_stmt(t, SQL_LIST);

    p->count = p->len = 0;
    p->last = true;
    if (!stmt)
        return;
    above_len = above_prefix(above, op->text ? op->text : "", len);
    hf__sq_bind_key(stmt, 1, at->key, at->len);
    sqlite3_bind_int64(stmt, 2, (int64_t)at->num);
    hf__sq_bind_key(stmt, 3, op->text ? op->text : "", len);
    if (above_len > 0)
        hf__sq_bind_key(stmt, 4, above, above_len);
    else
        sqlite3_bind_null(stmt, 4);
    if (op->only_mine)
        hf__sq_bind_id(stmt, 5, &op->sid);
    else
        sqlite3_bind_null(stmt, 5);
    sqlite3_bind_int(stmt, 6, PAGE);
    for (int read = 0; hf__sq_row(t, stmt);) {
        hf_nsec exp = sqlite3_column_int64(stmt, 8);
        hf_nsec session = sqlite3_column_int64(stmt, 13);

        p->last = ++read < PAGE;
        note_from(stmt, &next);
        /* What has run out is over, whoever removes it. */
        if ((exp > 0 ? exp : session) > t->now)
            copy_row(t, p, stmt);
    }
    *at = next;
}

/* Tell the page; true: the core has enough. */
static bool emit_page(const hf_op *op, page *p)
{
    for (size_t i = 0; i < p->count; i++) {
        hf_row *row = &p->rows[i].row;

        row->info.key = p->text + p->rows[i].key;
        row->info.host = p->text + p->rows[i].host;
        row->info.name = p->text + p->rows[i].name;
        row->info.value = p->text + p->rows[i].value;
        if (op->emit_row(row, op->user) != 0)
            return true;
    }
    return p->last;
}

void hf__sq_list(hf_store *s, hf_op *op)
{
    /* The row of the counter, under the empty key, is passed over. */
    from at = {.len = 0, .num = 0};
    page *p = op->text_len <= HF_KEY_MAX ? hfd_alloc(sizeof *p) : NULL;
    sq_txn t = {0};

    if (!p) {
        hfd_finish(op, HF_NOT_APPLIED,
                   op->text_len <= HF_KEY_MAX ? HF_ENOMEM : HF_EINVAL);
        return;
    }
    hf__sq_sweep(s, op->deadline);
    do {
        hf__sq_read_begin(&t, s, op);
        read_page(&t, p, &at);
        hf__sq_read_end(&t);
    } while (!t.rc && !emit_page(op, p));
    hfd_free(p->text);
    hfd_free(p);
    if (t.rc)
        hf__sq_finish_failed(&t);
    else
        hfd_finish(op, HF_APPLIED, 0);
}
