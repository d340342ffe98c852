/* format_list.c - what an operator sees of a format's locks.
 *
 * The rows of a table have an order of their own, and those of this process's
 * records none: all of them are gathered, sorted by key, and told.  Those who
 * wait are in no store; a session's own are known here.
 *
 * Pure memory: no statement is sent from here. */
#include "format.h"

#include <stdlib.h>
#include <unistd.h>

sql_listed *sql_list_add(sql_listing *list, const char *key, size_t key_len,
                         const char *owner)
{
    size_t owner_len = strlen(owner);
    sql_listed *row;

    if (list->count == list->room) {
        size_t room = list->room ? list->room * 2 : 64;
        sql_listed *rows = hfd_realloc(list->rows, room * sizeof *rows);

        if (!rows) {
            list->failed = true;
            return NULL;
        }
        list->rows = rows;
        list->room = room;
    }
    row = &list->rows[list->count];
    *row = (sql_listed){.key_len = key_len, .age_ms = -1, .left_ms = -1};
    row->text = hfd_alloc(key_len + owner_len + 2);
    if (!row->text) {
        list->failed = true;
        return NULL;
    }
    if (key_len > 0)
        memcpy(row->text, key, key_len);
    if (owner_len > 0)
        memcpy(row->text + key_len + 1, owner, owner_len);
    list->count++;
    return row;
}

void sql_list_know(sql_listed *row, const sql_record *record, const hf_op *op)
{
    row->rid = record->rid;
    row->sid = record->sid;
    row->num = record->num;
    row->mode = record->mode;
    row->mine = memcmp(&record->sid, &op->sid, sizeof op->sid) == 0;
    row->age_ms = (hfd_now() - record->born) / HF_MS(1);
}

typedef struct gather {
    sql_listing *list;
    const hf_op *op;
    bool only_mine;
} gather;

static void gather_record(sql_record *record, void *user)
{
    gather *g = user;
    sql_listed *row;

    if (record->state == FORMAT_NEW || record->state == FORMAT_TOMB ||
        (g->only_mine &&
         (memcmp(&record->sid, &g->op->sid, sizeof record->sid) != 0 ||
          record->state == FORMAT_KEPT)) ||
        (!g->only_mine && record->state == FORMAT_WAITS))
        return;
    row = sql_list_add(g->list, record->key, record->key_len, "");
    if (!row)
        return;
    sql_list_know(row, record, g->op);
    row->waits = record->state == FORMAT_WAITS;
    row->closed = record->state == FORMAT_KEPT;
    if (record->ends > 0)
        row->left_ms = (record->ends - hfd_now()) / HF_MS(1);
}

void sql_list_records(sql_listing *list, sql_table *table, const hf_op *op,
                      bool only_mine)
{
    gather g = {.list = list, .op = op, .only_mine = only_mine};

    pthread_mutex_lock(&table->mu);
    sql_each_record(table, gather_record, &g);
    pthread_mutex_unlock(&table->mu);
}

static int compare_rows(const void *a, const void *b)
{
    const sql_listed *one = a, *two = b;
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

static bool is_under(const sql_listed *row, const hf_op *op)
{
    return !op->text || op->text_len == 0 ||
           (row->key_len >= op->text_len &&
            memcmp(row->text, op->text, op->text_len) == 0);
}

static int emit_row(const sql_listing *list, const sql_listed *row, hf_op *op)
{
    hf_row told = {.rid = row->rid, .sid = row->sid};

    told.info = (hf_entry_info){
        .key = row->text,
        .key_len = row->key_len,
        .mode = (hf_mode)row->mode,
        .granted = !row->waits,
        .mine = row->mine,
        .closed = row->closed,
        .number = row->num,
        .pid = row->mine ? getpid() : 0,
        .host = "",
        .name = row->mine ? list->name : row->text + row->key_len + 1,
        .age_ms = row->age_ms,
        .remaining_ms = row->left_ms < 0 ? -1 : row->left_ms,
        .value = ""};
    return op->emit_row(&told, op->user);
}

void sql_list_emit(sql_listing *list, hf_op *op)
{
    if (list->count > 0 && op->emit_row)
        qsort(list->rows, list->count, sizeof *list->rows, compare_rows);
    for (size_t i = 0; i < list->count && op->emit_row; i++) {
        if (is_under(&list->rows[i], op) &&
            emit_row(list, &list->rows[i], op) != 0)
            break;
    }
    for (size_t i = 0; i < list->count; i++)
        hfd_free(list->rows[i].text);
    hfd_free(list->rows);
    *list = (sql_listing){.count = 0};
}
