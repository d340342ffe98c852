/* format_list.c - what an operator sees and does: list, break, doctor.
 *
 * The store has no index of its locks, so a listing walks all keys (SCAN, a
 * page per round trip) and keeps what looks like a lock of this format under
 * the prefix; a page may repeat a key, and the pages have no order, so all of
 * it is gathered, sorted and told at the end.  Those who wait are in no store;
 * a session's own are known here.
 *
 * Breaking is a deletion and takes effect at once: there is no place for a
 * mark that the holder would read first.  It learns of it by its next renewal.
 *
 * A reply lost in the middle of a listing ends it; nothing was changed. */
#include "format.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PROBE_PAGES = 50 };

typedef struct row {
    char *text; /* key, NUL, owner, NUL */
    size_t key_len, owner_len;
    int64_t left_ms;
    uint64_t token, num;
    hf_id rid, sid;
    int64_t age_ms;
    bool mine, waits, closed;
} row;

typedef struct pages {
    row *rows;
    size_t count, room;
    size_t seen; /* pages */
    char cursor[24];
    char pattern[2 * FORMAT_KEY_MAX + 2];
    size_t pattern_len;
    char name[64]; /* of the session that asks */
} pages;

static pages *pages_of(hf_op *op)
{
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): a note is a number or this. */
    return (pages *)redis_op_of(op)->note;
}

static void free_pages(pages *all)
{
    for (size_t i = 0; i < all->count; i++)
        hfd_free(all->rows[i].text);
    hfd_free(all->rows);
    hfd_free(all);
}

/* Room for another row, with its texts copied; NULL: no memory. */
static row *add_row(pages *all, const char *key, size_t key_len,
                    const char *owner, size_t owner_len)
{
    row *added;

    if (all->count == all->room) {
        size_t room = all->room ? all->room * 2 : 64;
        row *rows = hfd_realloc(all->rows, room * sizeof *rows);

        if (!rows)
            return NULL;
        all->rows = rows;
        all->room = room;
    }
    added = &all->rows[all->count];
    *added = (row){.key_len = key_len, .owner_len = owner_len, .age_ms = -1};
    added->text = hfd_alloc(key_len + owner_len + 2);
    if (!added->text)
        return NULL;
    memcpy(added->text, key, key_len);
    added->text[key_len] = '\0';
    if (owner_len > 0)
        memcpy(added->text + key_len + 1, owner, owner_len);
    added->text[key_len + 1 + owner_len] = '\0';
    all->count++;
    return added;
}

/* What this process knows of a row.  Called with data->mu held. */
static void know_row(row *r, const format_record *record, const hf_id *sid)
{
    r->sid = record->sid;
    r->num = record->num;
    r->mine = memcmp(&record->sid, sid, sizeof *sid) == 0;
    r->age_ms = (hfd_now() - record->born) / HF_MS(1);
}

static int compare_rows(const void *a, const void *b)
{
    const row *one = a, *two = b;
    size_t len = one->key_len < two->key_len ? one->key_len : two->key_len;
    int order = memcmp(one->text, two->text, len);

    if (order == 0 && one->key_len != two->key_len)
        order = one->key_len < two->key_len ? -1 : 1;
    if (order == 0 && one->waits != two->waits)
        order = one->waits ? 1 : -1;
    if (order == 0 && one->num != two->num)
        order = one->num < two->num ? -1 : 1;
    return order;
}

static bool is_again(const pages *all, size_t i)
{
    const row *r = &all->rows[i], *before = r - 1;

    return i > 0 && !r->waits && !before->waits &&
           r->key_len == before->key_len &&
           memcmp(r->text, before->text, r->key_len) == 0;
}

static void emit_rows(hf_store *store, hf_op *op, pages *all)
{
    if (all->count > 0)
        qsort(all->rows, all->count, sizeof *all->rows, compare_rows);
    for (size_t i = 0; i < all->count; i++) {
        const row *r = &all->rows[i];
        hf_row told = {.rid = r->rid, .sid = r->sid};

        if (is_again(all, i))
            continue;
        told.info = (hf_entry_info){
            .key = r->text,
            .key_len = r->key_len,
            .mode = HF_EXCLUSIVE,
            .granted = !r->waits,
            .mine = r->mine,
            .closed = r->closed,
            .number = r->num,
            .token = r->token,
            .pid = r->mine ? getpid() : 0,
            .host = r->mine ? store->host_name : "",
            .name = r->mine ? all->name : r->text + r->key_len + 1,
            .age_ms = r->age_ms,
            .remaining_ms = r->left_ms < 0 ? -1 : r->left_ms,
            .value = ""};
        if (op->emit_row && op->emit_row(&told, op->user) != 0)
            break;
    }
}

/* ---- Pages -------------------------------------------------------------- */

static void encode_page(redis_call *call, hf__buf *out,
                        const redis_server *server)
{
    hf_op *op = redis_op_from(call);
    const format_data *data = format_of(redis_op_of(op)->store);
    const pages *all = pages_of(op);

    (void)server;
    resp_script(out, call, data->kind->rows, 0, 3);
    resp_text(out, data->extra);
    resp_text(out, all->cursor);
    resp_word(out, all->pattern, all->pattern_len);
}

/* One lock of a page; at walks.  0, or HF_ENOMEM, or HF_EPROTO. */
static int read_row(format_data *data, hf_op *op, pages *all, resp *at)
{
    resp key = resp_at(at->after), owner = resp_at(key.after);
    resp left = resp_at(owner.after);
    const format_record *record;
    int64_t token;
    bool kept;
    row *r;

    *at = resp_at(left.after);
    token = resp_int(at, 0);
    if (key.type != RESP_STRING || owner.type != RESP_STRING ||
        key.len < data->prefix_len)
        return HF_EPROTO;
    r = add_row(all, key.text + data->prefix_len, key.len - data->prefix_len,
                owner.text, owner.len);
    if (!r)
        return HF_ENOMEM;
    r->left_ms = resp_int(&left, -1);
    r->token = r->num = token > 0 ? (uint64_t)token : 0;
    if (!format_parse_owner(data->kind, owner.text, owner.len, &r->rid, &kept))
        r->rid = (hf_id){.bytes = {0}};
    r->closed = kept;
    if (kept)
        return 0;
    pthread_mutex_lock(&data->mu);
    record = format_find(data, &r->rid);
    if (record)
        know_row(r, record, &op->sid);
    pthread_mutex_unlock(&data->mu);
    return 0;
}

static int read_page(format_data *data, hf_op *op, pages *all,
                     const resp *reply)
{
    resp at = resp_item(reply, 0);
    int code = 0;

    if (reply->type != RESP_ARRAY || reply->number % 4 != 1 ||
        at.type != RESP_STRING || at.len >= sizeof all->cursor)
        return HF_EPROTO;
    memcpy(all->cursor, at.text, at.len);
    all->cursor[at.len] = '\0';
    all->seen++;
    for (int64_t i = 1; i < reply->number && code == 0; i += 4)
        code = read_row(data, op, all, &at);
    return code;
}

/* Tell what the pages say of locks that never end, then the rest. */
static void end_probe(hf_store *store, hf_op *op, pages *all)
{
    char text[HF_KEY_MAX + 200];
    const row *endless = NULL;
    size_t n = 0;

    for (size_t i = 0; i < all->count; i++) {
        if (all->rows[i].left_ms < 0) {
            endless = &all->rows[i];
            n++;
        }
    }
    if (n > 0) {
        snprintf(text, sizeof text,
                 "%zu locks have no expiry, such as '%.100s': if its owner "
                 "dies nobody gets it; give its library a timeout, or delete "
                 "the key",
                 n, endless->text);
        for (char *c = text; *c; c++) {
            if ((unsigned char)*c < ' ')
                *c = '?';
        }
    } else {
        snprintf(text, sizeof text, "all locks of this format%s have an expiry",
                 strcmp(all->cursor, "0") == 0 ? "" : " that were looked at");
    }
    if (op->emit_finding)
        op->emit_finding(n > 0 ? HF_WARN : HF_FINE, "expiry", text, op->user);
    free_pages(all);
    redis_op_of(op)->note = 0;
    redis_probe_start(store, op);
}

static void page_landed(redis_call *call, hf_outcome outcome, const resp *reply,
                        const hf_error *why)
{
    hf_op *op = redis_op_from(call);
    hf_store *store = redis_op_of(op)->store;
    pages *all = pages_of(op);
    bool probe = op->kind == HF_OP_PROBE;
    int code = 0;

    if (all->seen == 0)
        format_note_sent(op);
    if (outcome == HF_APPLIED)
        code = read_page(format_of(store), op, all, reply);
    if (outcome != HF_APPLIED || code) {
        free_pages(all);
        if (outcome != HF_APPLIED)
            redis_op_failed(op, outcome, why);
        else if (code == HF_ENOMEM)
            hfd_finish(op, HF_NOT_APPLIED, code);
        else
            format_nonsense(op);
        return;
    }
    if (strcmp(all->cursor, "0") != 0 && !(probe && all->seen >= PROBE_PAGES)) {
        redis_op_send(store, op, encode_page, page_landed);
        return;
    }
    if (probe) {
        end_probe(store, op, all);
        return;
    }
    emit_rows(store, op, all);
    free_pages(all);
    format_finish(store, op);
}

/* The beginning of keys as a pattern that means just these bytes. */
static size_t put_pattern(char *ret, const char *bytes, size_t len)
{
    char *at = ret;

    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != '\0' && strchr("*?[]\\", bytes[i]))
            *at++ = '\\';
        *at++ = bytes[i];
    }
    *at++ = '*';
    return (size_t)(at - ret);
}

static pages *new_pages(hf_store *store, hf_op *op)
{
    format_data *data = format_of(store);
    pages *all = hfd_alloc(sizeof *all);
    const format_session *session;
    char key[FORMAT_KEY_MAX];
    size_t len = format_key(data, op->text, op->text ? op->text_len : 0, key);

    if (!all) {
        hfd_finish(op, HF_NOT_APPLIED, HF_ENOMEM);
        return NULL;
    }
    all->pattern_len = put_pattern(all->pattern, key, len);
    memcpy(all->cursor, "0", 2);
    pthread_mutex_lock(&data->mu);
    session = format_session_of(data, &op->sid);
    if (session)
        memcpy(all->name, session->name, sizeof all->name);
    pthread_mutex_unlock(&data->mu);
    redis_op_of(op)->note = (uintptr_t)all;
    return all;
}

/* ---- Mine alone --------------------------------------------------------- */

static bool add_mine(format_data *data, const hf_op *op, pages *all,
                     const format_record *record)
{
    const char *key = record->key + data->prefix_len;
    size_t len = record->key_len - data->prefix_len;
    char owner[FORMAT_OWNER_MAX];
    row *r;

    if (memcmp(&record->sid, &op->sid, sizeof op->sid) != 0 ||
        record->state == FORMAT_NEW || len < op->text_len ||
        (op->text_len > 0 && memcmp(key, op->text, op->text_len) != 0))
        return true;
    r = add_row(all, key, len, owner,
                format_owner(data->kind, &record->rid, owner));
    if (!r)
        return false;
    know_row(r, record, &op->sid);
    r->rid = record->rid;
    r->token = record->token;
    r->waits = record->state == FORMAT_WAITS;
    r->left_ms = record->ends > 0 ? (record->ends - hfd_now()) / HF_MS(1) : -1;
    return true;
}

static void list_mine(hf_store *store, hf_op *op, pages *all)
{
    format_data *data = format_of(store);
    bool whole = true;

    pthread_mutex_lock(&data->mu);
    for (size_t i = 0; i < data->slots && whole; i++) {
        for (const format_record *at = data->by_rid[i]; at && whole;
             at = at->next_rid)
            whole = add_mine(data, op, all, at);
    }
    pthread_mutex_unlock(&data->mu);
    if (whole)
        emit_rows(store, op, all);
    free_pages(all);
    if (whole)
        format_finish(store, op);
    else
        hfd_finish(op, HF_NOT_APPLIED, HF_ENOMEM);
}

void format_list(hf_store *store, hf_op *op)
{
    pages *all = new_pages(store, op);

    if (!all)
        return;
    if (op->only_mine)
        list_mine(store, op, all);
    else
        redis_op_send(store, op, encode_page, page_landed);
}

void format_probe(hf_store *store, hf_op *op)
{
    if (new_pages(store, op))
        redis_op_send(store, op, encode_page, page_landed);
}

/* ---- Evict -------------------------------------------------------------- */

static void encode_evict(redis_call *call, hf__buf *out,
                         const redis_server *server)
{
    hf_op *op = redis_op_from(call);
    const format_data *data = format_of(redis_op_of(op)->store);
    char key[FORMAT_KEY_MAX];
    size_t len = format_key(data, op->text, op->text_len, key);

    (void)server;
    resp_script(out, call, data->kind->evict, 1, 3);
    resp_word(out, key, len);
    resp_text(out, data->extra);
    resp_number(out, (int64_t)op->token);
}

static void evict_landed(redis_call *call, hf_outcome outcome,
                         const resp *reply, const hf_error *why)
{
    hf_op *op = redis_op_from(call);

    format_note_sent(op);
    if (outcome != HF_APPLIED) {
        redis_op_failed(op, outcome, why);
    } else if (reply->type != RESP_INTEGER) {
        format_nonsense(op);
    } else if (reply->number < 0) {
        redis_op_refuse(op, HF_EKIND,
                        "the key holds a record that is no lock of this "
                        "format: use the format of those who wrote it");
    } else {
        op->count = (uint32_t)reply->number;
        format_finish(redis_op_of(op)->store, op);
    }
}

void format_evict(hf_store *store, hf_op *op)
{
    redis_op_send(store, op, encode_evict, evict_landed);
}
