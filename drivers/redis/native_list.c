/* native_list.c - HF_OP_LIST: many small pages, then one ordered listing.
 *
 * First the sessions and the keys with entries that may have outlived theirs,
 * then the entries of each, a page a round trip, so that a store with a
 * hundred thousand locks is never stopped for long.  The pages are of
 * different instants: an entry that is granted meanwhile is shown once, as it
 * was seen first.  Rows are kept until all are there, because they are told in
 * the order of key and number, and with no lock held. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "native.h"

typedef struct list_row {
    hf_row row;
    size_t order; /* of arrival: the first of two with one rid counts */
    char bytes[];
} list_row;

typedef struct words { /* strings, one after another, each with its length */
    hf__buf buf;
    size_t at; /* bytes read so far */
} words;

typedef struct listing {
    list_row **rows;
    size_t count, room;
    words sids, keys;
    char cursor[24];
    bool by_key;
} listing;

static listing *listing_of(hf_op *op)
{
    return (listing *)redis_op_of(op)->note;
}

/* ---- Rows --------------------------------------------------------------- */

static char *put_text(char **at, const resp *from)
{
    char *out = *at;

    memcpy(out, from->text ? from->text : "", from->len);
    out[from->len] = '\0';
    *at += from->len + 1;
    return out;
}

static bool keep_row(listing *list, list_row *row)
{
    if (list->count == list->room) {
        size_t room = list->room ? list->room * 2 : 64;
        list_row **rows = hfd_realloc(list->rows, room * sizeof(list_row *));

        if (!rows)
            return false;
        list->rows = rows;
        list->room = room;
    }
    row->order = list->count;
    list->rows[list->count++] = row;
    return true;
}

static void fill_row(list_row *row, const resp *from, const resp *who,
                     const hf_op *op)
{
    hf_entry_info *info = &row->row.info;
    resp key = resp_item(from, 0), rid = resp_item(from, 1),
         where = resp_item(from, 2), sid = resp_item(from, 3),
         flag = resp_item(from, 10), value = resp_item(from, 11);
    char *at = row->bytes;

    info->key = put_text(&at, &key);
    info->key_len = key.len;
    info->host = put_text(&at, &who[1]);
    info->name = put_text(&at, &who[2]);
    info->value = put_text(&at, &value);
    info->value_len = value.len;
    info->pid = resp_int(&who[0], 0);
    info->mode = (hf_mode)redis_item(from, 4);
    info->places = (uint32_t)redis_item(from, 5);
    info->granted = resp_is(&where, "g");
    info->number = (uint64_t)redis_item(from, 6);
    info->token = info->granted ? (uint64_t)redis_item(from, 7) : 0;
    info->age_ms = redis_item(from, 8) / 1000;
    info->remaining_ms = redis_item(from, 9) / 1000;
    info->broken = resp_is(&flag, "b");
    info->closed = resp_is(&flag, "c");
    redis_id_from(&row->row.rid, rid.text, rid.len);
    redis_id_from(&row->row.sid, sid.text, sid.len);
    info->mine = memcmp(&row->row.sid, &op->sid, sizeof op->sid) == 0;
}

/* False: out of memory. */
static bool add_row(listing *list, const resp *from, const resp *who,
                    const hf_op *op)
{
    resp key = resp_item(from, 0), value = resp_item(from, 11);
    list_row *row = hfd_alloc(sizeof *row + key.len + value.len + who[1].len +
                              who[2].len + 4);

    if (!row)
        return false;
    fill_row(row, from, who, op);
    if (!keep_row(list, row)) {
        hfd_free(row);
        return false;
    }
    return true;
}

static int compare_rows(const void *a, const void *b)
{
    const list_row *x = *(list_row *const *)a, *y = *(list_row *const *)b;
    const hf_entry_info *i = &x->row.info, *j = &y->row.info;
    size_t shorter = i->key_len < j->key_len ? i->key_len : j->key_len;
    int order = memcmp(i->key, j->key, shorter);

    if (order == 0 && i->key_len != j->key_len)
        order = i->key_len < j->key_len ? -1 : 1;
    if (order == 0 && i->number != j->number)
        order = i->number < j->number ? -1 : 1;
    if (order == 0)
        order = memcmp(&x->row.rid, &y->row.rid, sizeof x->row.rid);
    if (order == 0)
        order = x->order < y->order ? -1 : 1;
    return order;
}

/* ---- What is still to be asked ------------------------------------------ */

static void push_word(words *w, const char *text, size_t len)
{
    hf__buf_add(&w->buf, &len, sizeof len);
    hf__buf_add(&w->buf, text, len);
}

/* The next one, without taking it; false: none is left. */
static bool peek_word(const words *w, const char **ret, size_t *ret_len)
{
    const char *at;

    if (w->at >= hf__buf_len(&w->buf))
        return false;
    at = w->buf.data + w->buf.start + w->at;
    memcpy(ret_len, at, sizeof *ret_len);
    *ret = at + sizeof *ret_len;
    return true;
}

static void take_word(words *w)
{
    const char *text;
    size_t len;

    if (peek_word(w, &text, &len))
        w->at += sizeof len + len;
}

/* ---- The end ------------------------------------------------------------ */

static void free_listing(hf_op *op)
{
    listing *list = listing_of(op);

    for (size_t i = 0; i < list->count; i++)
        hfd_free(list->rows[i]);
    hfd_free(list->rows);
    hf__buf_done(&list->sids.buf);
    hf__buf_done(&list->keys.buf);
    hfd_free(list);
}

static void fail_listing(hf_op *op, hf_outcome outcome, const hf_error *why)
{
    free_listing(op);
    redis_op_failed(op, outcome, why);
}

static void no_memory(hf_op *op)
{
    hf_error why;

    hfd_error(&why, HF_ENOMEM, "redis", 0, "out of memory for the listing");
    fail_listing(op, HF_NOT_APPLIED, &why);
}

static void emit_all(hf_op *op)
{
    listing *list = listing_of(op);

    if (list->count > 0)
        qsort(list->rows, list->count, sizeof *list->rows, compare_rows);
    for (size_t i = 0; i < list->count; i++) {
        const hf_row *row = &list->rows[i]->row;

        if (i > 0 && memcmp(&row->rid, &list->rows[i - 1]->row.rid,
                            sizeof row->rid) == 0)
            continue;
        if (op->emit_row(row, op->user) != 0)
            break;
    }
    free_listing(op);
    redis_op_done(op);
}

/* ---- The pages ---------------------------------------------------------- */

static void ask_next(hf_op *op);

static void encode_rows(redis_call *call, hf__buf *out,
                        const redis_server *server)
{
    hf_op *op = redis_op_from(call);
    listing *list = listing_of(op);
    const char *text = "";
    size_t len = 0;

    (void)server;
    peek_word(list->by_key ? &list->keys : &list->sids, &text, &len);
    redis_put_script(out, call, redis_op_of(op)->store, redis_rows, 1, 4);
    redis_key_word(out, redis_op_of(op)->store, "n", "", 0);
    if (list->by_key) {
        resp_word(out, "", 0);
        resp_text(out, "0");
        resp_word(out, text, len);
    } else {
        resp_word(out, text, len);
        resp_text(out, list->cursor);
        resp_word(out, op->text, op->text_len);
    }
}

static void rows_landed(redis_call *call, hf_outcome outcome, const resp *reply,
                        const hf_error *why)
{
    hf_op *op = redis_op_from(call);
    listing *list = listing_of(op);
    resp cursor, row, who[3];

    if (outcome != HF_APPLIED || reply->type != RESP_ARRAY ||
        reply->number < 5 ||
        (!list->by_key && resp_item(reply, 1).type != RESP_STRING)) {
        hf_error bad;

        hfd_error(&bad, HF_EPROTO, "redis", 0, "a listing is malformed");
        fail_listing(op, outcome == HF_APPLIED ? HF_UNKNOWN : outcome,
                     outcome == HF_APPLIED ? &bad : why);
        return;
    }
    redis_note_sent(op);
    cursor = resp_item(reply, 1);
    for (size_t i = 0; i < 3; i++)
        who[i] = resp_item(reply, 2 + i);
    row = resp_item(reply, 4);
    for (int64_t i = 5; i < reply->number; i++) {
        row = resp_at(row.after);
        if (row.type == RESP_ARRAY && row.number >= 12 &&
            !add_row(list, &row, who, op)) {
            no_memory(op);
            return;
        }
    }
    if (list->by_key || cursor.len >= sizeof list->cursor ||
        resp_is(&cursor, "0")) {
        take_word(list->by_key ? &list->keys : &list->sids);
        snprintf(list->cursor, sizeof list->cursor, "0");
    } else {
        memcpy(list->cursor, cursor.text, cursor.len);
        list->cursor[cursor.len] = '\0';
    }
    ask_next(op);
}

static void ask_next(hf_op *op)
{
    listing *list = listing_of(op);
    const char *text;
    size_t len;

    list->by_key = !peek_word(&list->sids, &text, &len);
    while (list->by_key && peek_word(&list->keys, &text, &len) &&
           (len < op->text_len ||
            (op->text_len > 0 && memcmp(text, op->text, op->text_len) != 0)))
        take_word(&list->keys);
    if (list->by_key && !peek_word(&list->keys, &text, &len))
        emit_all(op);
    else
        redis_op_send(redis_op_of(op)->store, op, encode_rows, rows_landed);
}

static void encode_sessions(redis_call *call, hf__buf *out,
                            const redis_server *server)
{
    hf_op *op = redis_op_from(call);

    (void)server;
    redis_put_script(out, call, redis_op_of(op)->store, redis_sessions, 1, 1);
    redis_key_word(out, redis_op_of(op)->store, "n", "", 0);
}

static void push_all(words *w, const resp *from)
{
    resp item = resp_item(from, 0);

    for (int64_t i = 0; i < from->number; i++) {
        push_word(w, item.text, item.len);
        if (i + 1 < from->number)
            item = resp_at(item.after);
    }
}

static void sessions_landed(redis_call *call, hf_outcome outcome,
                            const resp *reply, const hf_error *why)
{
    hf_op *op = redis_op_from(call);
    listing *list = listing_of(op);
    resp sids, keys;

    if (outcome != HF_APPLIED) {
        fail_listing(op, outcome, why);
        return;
    }
    redis_note_sent(op); /* a listing is as old as its first page */
    sids = resp_item(reply, 1);
    keys = resp_item(reply, 2);
    if (sids.type == RESP_ARRAY)
        push_all(&list->sids, &sids);
    if (keys.type == RESP_ARRAY)
        push_all(&list->keys, &keys);
    if (list->sids.buf.failed || list->keys.buf.failed)
        no_memory(op);
    else
        ask_next(op);
}

void redis_list_start(hf_store *store, hf_op *op)
{
    listing *list = hfd_alloc(sizeof *list);
    char sid[REDIS_ID];

    if (!list) {
        hfd_error(&op->error, HF_ENOMEM, "redis", 0,
                  "out of memory for the listing");
        hfd_finish(op, HF_NOT_APPLIED, HF_ENOMEM);
        return;
    }
    redis_op_of(op)->note = (uintptr_t)list;
    redis_op_of(op)->store = store;
    snprintf(list->cursor, sizeof list->cursor, "0");
    if (!op->only_mine) {
        redis_op_send(store, op, encode_sessions, sessions_landed);
        return;
    }
    redis_id_text(sid, &op->sid);
    push_word(&list->sids, sid, sizeof sid);
    if (list->sids.buf.failed)
        no_memory(op);
    else
        ask_next(op);
}
