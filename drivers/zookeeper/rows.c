/* rows.c - one row of a listing from one node.
 *
 * Of our own nodes the data says who it is; of another program's the name says
 * which one wrote it, and short text in it (Curator writes its address) is
 * shown as the host.  What the data says is shown and never decides. */
#include "rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct zk_row {
    hf_row row;
    char bytes[];
} zk_row;

static const char *maker_text(zk_maker maker)
{
    switch (maker) {
    case ZK_CURATOR:
        return "curator";
    case ZK_KAZOO:
        return "kazoo";
    case ZK_GO:
        return "go-zk";
    default:
        return "";
    }
}

/* A stranger's data, where it is a short line of text. */
static void read_stranger(zk_data *data, const zk_reply *reply)
{
    for (size_t i = 0; i < reply->data_len; i++) {
        if (reply->data[i] <= ' ' || reply->data[i] > '~')
            return;
    }
    if (reply->data_len < ZK_HOST_MAX) {
        data->host = reply->data_len ? reply->data : "";
        data->host_len = reply->data_len;
    }
    data->broken =
        reply->data_len == 10 && memcmp(reply->data, "__REVOKE__", 10) == 0;
}

static bool keep_row(zk_listing *list, zk_row *row)
{
    if (list->count == list->room) {
        size_t room = list->room ? list->room * 2 : 64;
        zk_row **rows = hfd_realloc(list->rows, room * sizeof(zk_row *));

        if (!rows)
            return false;
        list->rows = rows;
        list->room = room;
    }
    list->rows[list->count++] = row;
    return true;
}

static void fill_ids(zk_row *row, const zk_data *data, const zk_name *name,
                     const zk_reply *reply)
{
    if (data->ours) {
        row->row.rid = data->rid;
        row->row.sid = data->sid;
        return;
    }
    row->row.rid = name->id;
    memcpy(row->row.sid.bytes, &reply->stat.ephemeral_owner,
           sizeof reply->stat.ephemeral_owner);
}

static void fill_info(zk_row *row, const zk_data *data, const zk_todo *node,
                      const zk_reply *reply)
{
    hf_entry_info *info = &row->row.info;
    int64_t age = hfd_realtime_us() / 1000 - reply->stat.ctime;

    info->mode = zk_kind_is_shared(node->name.kind) ? HF_SHARED : HF_EXCLUSIVE;
    if (node->permit) {
        info->mode = HF_PERMIT;
        info->places = data->places;
    }
    info->granted = node->granted;
    info->broken = data->broken;
    info->number = (uint64_t)(data->ours && data->number ? data->number
                                                         : reply->stat.czxid);
    info->token = node->granted ? info->number : 0;
    info->pid = data->pid;
    info->age_ms = age > 0 ? age : 0;
    info->remaining_ms = -1;
}

/* Strings behind one another in row->bytes. */
static void fill_texts(zk_row *row, const zk_data *data, const zk_todo *node,
                       const char *key, size_t key_len)
{
    hf_entry_info *info = &row->row.info;
    char *at = row->bytes;

    memcpy(at, key, key_len + 1);
    info->key = at;
    info->key_len = key_len;
    at += key_len + 1;
    zk_data_unescape(at, data->host, data->host_len);
    info->host = at;
    at += data->host_len + 1;
    if (data->ours)
        zk_data_unescape(at, data->name, data->name_len);
    info->name = data->ours ? at : maker_text(node->name.maker);
    at += data->name_len + 1;
    if (data->value_len)
        memcpy(at, data->value, data->value_len);
    at[data->value_len] = '\0';
    info->value = at;
    info->value_len = data->value_len;
}

bool zk_rows_add(zk_listing *list, const hf_op *op, const zk_todo *node,
                 const zk_reply *reply)
{
    const hf_store *store = list->store;
    size_t key_len;
    zk_data data;
    zk_row *row;

    (void)op;
    zk_data_read(&data, reply->data, reply->data_len);
    if (!data.ours)
        read_stranger(&data, reply);
    if (!zk_text_reserve(&list->key, node->dir_len + 2))
        return false;
    if (!zk_path_read(list->key.data, &key_len, store->root, store->root_len,
                      node->path, node->dir_len))
        return true;
    row = hfd_alloc(sizeof *row + key_len + data.host_len + data.name_len +
                    data.value_len + 4);
    if (!row)
        return false;
    fill_ids(row, &data, &node->name, reply);
    fill_info(row, &data, node, reply);
    row->row.info.mine =
        list->session != 0 && reply->stat.ephemeral_owner == list->session;
    fill_texts(row, &data, node, list->key.data, key_len);
    if (!keep_row(list, row)) {
        hfd_free(row);
        return false;
    }
    return true;
}

static int compare_rows(const void *a, const void *b)
{
    const hf_entry_info *i = &(*(zk_row *const *)a)->row.info;
    const hf_entry_info *j = &(*(zk_row *const *)b)->row.info;
    size_t shorter = i->key_len < j->key_len ? i->key_len : j->key_len;
    int order = memcmp(i->key, j->key, shorter);

    if (order == 0 && i->key_len != j->key_len)
        order = i->key_len < j->key_len ? -1 : 1;
    if (order == 0 && i->number != j->number)
        order = i->number < j->number ? -1 : 1;
    return order;
}

void zk_rows_emit(zk_listing *list, hf_op *op)
{
    if (list->count)
        qsort(list->rows, list->count, sizeof *list->rows, compare_rows);
    for (size_t i = 0; i < list->count; i++) {
        if (op->emit_row(&list->rows[i]->row, op->user) != 0)
            return;
    }
}

void zk_rows_free(zk_listing *list)
{
    for (size_t i = 0; i < list->count; i++)
        hfd_free(list->rows[i]);
    hfd_free(list->rows);
    zk_text_done(&list->key);
}
