/* format_peer.c - a format of rows: its statements, its table, its beginning.
 *
 * A format is a list of templates and a few words; here they become texts for
 * this database.  A parameter that stands twice is sent twice where parameters
 * have no numbers.  Tables are other libraries': they are looked for by their
 * columns, and made only where nothing of that name is there (create=yes).
 *
 * Two that make a table at once: one of them is refused by the database, looks
 * again, and finds the other's. */
#include "format.h"

#include <stdarg.h>
#include <stdio.h>

bool sql_is_postgres(const sql_dialect *dialect)
{
    return strcmp(dialect->name, "postgres") == 0;
}

bool sql_is_mysql(const sql_dialect *dialect)
{
    return strcmp(dialect->name, "mariadb") == 0 ||
           strcmp(dialect->name, "mysql") == 0;
}

int sql_wrong_database(const hf_store *store, hf_error *err)
{
    return hfd_error(err, HF_ENOTSUP, store->port->class->driver, 0,
                     "format=%s does not exist on this database ('%s'): see "
                     "the table in formats.md",
                     store->format->name, store->port->dialect->name);
}

/* ---- Rendering ---------------------------------------------------------- */

typedef struct render {
    sql_text *text;
    size_t len;
    const sql_dialect *dialect;
    const sql_word *words;
    size_t many;
    bool failed;
} render;

static void put_text(render *r, const char *text, size_t n)
{
    if (r->len + n >= sizeof r->text->text) {
        r->failed = true;
        return;
    }
    memcpy(r->text->text + r->len, text, n);
    r->len += n;
    r->text->text[r->len] = '\0';
}

/* Parameter number i from 0 stands here. */
static void put_param(render *r, size_t i)
{
    size_t place = 0;
    char mark[8];

    while (r->dialect->numbered && place < r->text->count &&
           r->text->order[place] != i)
        place++;
    if (!r->dialect->numbered)
        place = r->text->count;
    if (place == r->text->count) {
        if (place >= SQL_PARAMS) {
            r->failed = true;
            return;
        }
        r->text->order[place] = (uint8_t)i;
        r->text->count++;
    }
    if (r->dialect->numbered)
        put_text(r, mark,
                 (size_t)snprintf(mark, sizeof mark, "$%u",
                                  (unsigned)(place + 1) % 1000));
    else
        put_text(r, "?", 1);
}

static void put_list(render *r, size_t first)
{
    for (size_t i = 0; i < r->many; i++) {
        if (i > 0)
            put_text(r, ", ", 2);
        put_param(r, first + i);
    }
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || c == '_';
}

static void put_template(render *r, const char *at, unsigned depth);

static void put_word(render *r, const char *name, size_t n, unsigned depth)
{
    if (n == 4 && memcmp(name, "keys", 4) == 0) {
        put_list(r, SQL_PEER_FIXED);
    } else if (n == 6 && memcmp(name, "owners", 6) == 0) {
        put_list(r, SQL_PEER_FIXED + r->many);
    } else if (n == 3 && memcmp(name, "key", 3) == 0) {
        put_param(r, SQL_PEER_FIXED);
    } else if (n == 5 && memcmp(name, "owner", 5) == 0) {
        put_param(r, SQL_PEER_FIXED + 1);
    } else {
        const sql_word *word = r->words;

        while (word->name &&
               (strlen(word->name) != n || memcmp(word->name, name, n) != 0))
            word++;
        if (!word->name || depth > 4)
            r->failed = true;
        else
            put_template(r, word->text, depth + 1);
    }
}

/* NOLINTNEXTLINE(misc-no-recursion): words in words, at most a few deep. */
static void put_template(render *r, const char *at, unsigned depth)
{
    while (*at && !r->failed) {
        if (*at == '?' && at[1] >= '1' && at[1] <= '5') {
            put_param(r, (size_t)(at[1] - '1'));
            at += 2;
        } else if (*at == '@') {
            const char *name = ++at;

            while (is_letter(*at))
                at++;
            put_word(r, name, (size_t)(at - name), depth);
        } else {
            put_text(r, at++, 1);
        }
    }
}

int sql_peer_render(sql_text *ret, const sql_dialect *dialect,
                    const sql_word *words, const char *template, size_t many,
                    hf_error *err)
{
    render r = {.text = ret, .dialect = dialect, .words = words, .many = many};

    *ret = (sql_text){.id = SQL_COUNT};
    ret->writes = strncmp(template, "SELECT", 6) != 0;
    put_template(&r, template, 0);
    if (r.failed)
        return hfd_error(err, HF_EINTERNAL, "sql", 0,
                         "a statement cannot be written: '%.100s'", template);
    return 0;
}

static sql_step template_of(size_t step)
{
    switch (step) {
    case STEP_LOOK_MANY:
        return STEP_LOOK;
    case STEP_EXTEND_MANY:
        return STEP_EXTEND;
    case STEP_DROP_MANY:
        return STEP_DROP;
    default:
        return (sql_step)step;
    }
}

int sql_peer_texts(hf_store *store, const char *const templates[STEP_COUNT],
                   hf_error *err)
{
    sql_peer *peer = sql_peer_of(store);
    int code = 0;

    for (size_t i = 0; i < STEP_COUNT && code == 0; i++) {
        sql_step from = template_of(i);

        if (templates[from])
            code = sql_peer_render(&peer->texts[i], store->port->dialect,
                                   peer->words, templates[from],
                                   from == i ? 1 : SQL_PEER_MANY, err);
    }
    return code;
}

/* ---- The table ---------------------------------------------------------- */

enum { OPEN_MS = 5000 };

int sql_peer_probe(sql_conn *conn, const char *table, const char *column,
                   bool *ret_there, hf_error *err)
{
    sql_rows rows = {0};
    char text[300];
    sql_end end;

    snprintf(text, sizeof text, "SELECT %s FROM %s WHERE 1 = 0", column, table);
    end = conn->port->class->say(conn, text, hfd_now() + HF_MS(OPEN_MS), &rows,
                                 err);
    sql_rows_done(&rows);
    *ret_there = end == SQL_DONE;
    if (end == SQL_DONE || end == SQL_REFUSED)
        return 0;
    return err && err->code ? err->code : HF_EUNAVAIL;
}

int sql_peer_make(hf_store *store, sql_conn *conn, const char *make,
                  const char *table, const char *column, hf_error *err)
{
    sql_rows rows = {0};
    hf_error why = {.code = 0}, refused = {.code = 0};
    bool there = false;
    int code = sql_peer_probe(conn, table, column, &there, &why);

    if (code == 0 && !there && store->create) {
        conn->port->class->say(conn, make, hfd_now() + HF_MS(OPEN_MS), &rows,
                               &refused);
        sql_rows_done(&rows);
        code = sql_peer_probe(conn, table, column, &there, &why);
    }
    if (code == 0 && there)
        return 0;
    if (code == 0)
        code = HF_EPROTO;
    return hfd_error(err, code, store->port->class->driver, why.native,
                     "no table '%s' with a column '%s' can be used: make it "
                     "(holdfast ddl), or grant the rights: %.100s",
                     table, column, refused.code ? refused.text : why.text);
}

void sql_peer_word(sql_peer *peer, const char *name, const char *format, ...)
{
    size_t room = sizeof peer->words_text - peer->words_len;
    char *at = peer->words_text + peer->words_len;
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(at, room, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= room || peer->word_count == SQL_PEER_WORDS)
        return;
    peer->words[peer->word_count++] = (sql_word){.name = name, .text = at};
    peer->words_len += (size_t)n + 1;
}

/* ---- The store ---------------------------------------------------------- */

sql_peer *sql_peer_new(hf_store *store, const sql_peer_kind *kind,
                       hf_error *err)
{
    sql_peer *peer = hfd_alloc(sizeof *peer);

    if (peer)
        peer->texts = hfd_alloc(STEP_COUNT * sizeof *peer->texts);
    if (!peer || !peer->texts) {
        hfd_free(peer);
        hfd_error(err, HF_ENOMEM, store->port->class->driver, 0,
                  "out of memory");
        return NULL;
    }
    peer->kind = kind;
    sql_table_init(&peer->table);
    store->format_data = peer;
    return peer;
}

void sql_peer_close(hf_store *store)
{
    sql_peer *peer = sql_peer_of(store);

    if (!peer)
        return;
    sql_table_done(&peer->table);
    hfd_free(peer->texts);
    hfd_free(peer);
    store->format_data = NULL;
}

void sql_peer_start(hf_store *store, hf_op *op)
{
    op->outcome = HF_UNKNOWN;
    op->error.code = 0;
    op->sent = 0;
    op->remaining = 0;
    op->store_us = 0;
    op->count = 0;
    switch (op->kind) {
    case HF_OP_ATTACH:
        sql_peer_attach(store, op);
        break;
    case HF_OP_RENEW:
        sql_peer_renew(store, op);
        break;
    case HF_OP_DETACH:
        sql_peer_detach(store, op);
        break;
    case HF_OP_JOIN:
        sql_peer_join(store, op);
        break;
    case HF_OP_CONFIRM:
        sql_peer_confirm(store, op);
        break;
    case HF_OP_LEAVE:
        sql_peer_leave(store, op);
        break;
    case HF_OP_RECHECK:
        sql_peer_recheck(store, op);
        break;
    case HF_OP_LIST:
        sql_peer_list(store, op);
        break;
    case HF_OP_EVICT:
        sql_peer_evict(store, op);
        break;
    case HF_OP_PROBE:
    case HF_OP_PUBLISH:
    default:
        sql_peer_refuse(store, op, HF_ENOTSUP,
                        "locks of this format have no room for a value");
        break;
    }
}
