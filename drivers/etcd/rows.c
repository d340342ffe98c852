/* rows.c - the rows of a listing: kept, ordered, judged, told.
 *
 * Rows are kept until all are there, because they are told in the order of key
 * and number, and because who holds is decided by the whole of a queue.  Who
 * wrote an entry is in its value; of a Go client's only the lease is known,
 * which stands for its session.  Knows nothing of requests. */
#include "rows.h"

#include <stdlib.h>
#include <string.h>

struct etcd_row {
    hf_row row;
    char host[ETCD_WHO_MAX], name[ETCD_WHO_MAX];
    char bytes[]; /* key, NUL, value */
};

bool etcd_split_key(const hf_store *store, etcd_text key, etcd_text *ret_key,
                    etcd_suffix *ret)
{
    const char *from = key.at + store->prefix_len, *slash;
    size_t len;

    if (key.len <= store->prefix_len ||
        memcmp(key.at, store->prefix, store->prefix_len) != 0)
        return false;
    len = key.len - store->prefix_len;
    slash = memrchr(from, '/', len);
    if (!slash || slash == from || slash - from > HF_KEY_MAX)
        return false;
    *ret_key = (etcd_text){from, (size_t)(slash - from)};
    return etcd_read_suffix(
        ret, (etcd_text){slash + 1, len - (size_t)(slash - from) - 1});
}

/* ---- Keeping ------------------------------------------------------------ */

static bool keep_row(etcd_listing *list, etcd_row *row)
{
    if (list->count == list->room) {
        size_t room = list->room ? list->room * 2 : 64;
        etcd_row **rows = hfd_realloc(list->rows, room * sizeof *rows);

        if (!rows)
            return false;
        list->rows = rows;
        list->room = room;
    }
    list->rows[list->count++] = row;
    return true;
}

static int64_t age_of(const etcd_record *record)
{
    int64_t age = (hfd_realtime_us() - record->since_us) / 1000;

    if (!record->ours)
        return -1;
    return age < 0 ? 0 : age; /* by two clocks */
}

/* Ids for an entry that has none: the same at every listing. */
static void name_stranger(hf_row *row, const etcd_suffix *name, int64_t created)
{
    memcpy(row->sid.bytes, &name->lease, sizeof name->lease);
    memcpy(row->rid.bytes, &name->lease, sizeof name->lease);
    memcpy(row->rid.bytes + 8, &created, sizeof created);
}

static void fill_row(etcd_row *row, const hf_op *op, etcd_text key,
                     const etcd_kv *kv, const etcd_suffix *name)
{
    hf_entry_info *info = &row->row.info;
    etcd_record record;
    char *value = row->bytes + key.len + 1;

    etcd_read_record(&record, kv->value);
    memcpy(row->bytes, key.at, key.len);
    if (record.value.len > 0)
        memcpy(value, record.value.at, record.value.len);
    etcd_split_who(record.who, row->host, sizeof row->host, row->name,
                   sizeof row->name);
    *info = (hf_entry_info){.key = row->bytes,
                            .key_len = key.len,
                            .mode = (hf_mode)record.mode,
                            .places = record.places,
                            .broken = record.broken,
                            .number = (uint64_t)kv->created,
                            .pid = record.pid,
                            .host = row->host,
                            .name = row->name,
                            .age_ms = age_of(&record),
                            .remaining_ms = -1,
                            .value = value,
                            .value_len = record.value.len};
    row->row.rid = record.rid;
    row->row.sid = record.sid;
    if (!record.ours)
        name_stranger(&row->row, name, kv->created);
    info->mine = memcmp(&row->row.sid, &op->sid, sizeof op->sid) == 0;
}

bool etcd_rows_add(etcd_listing *list, const hf_store *store, const hf_op *op,
                   const etcd_kv *kv)
{
    etcd_suffix name;
    etcd_row *row;
    etcd_text key;

    /* A key without a lease is nobody's lock, whatever it is called. */
    if (!etcd_split_key(store, kv->key, &key, &name) || kv->lease == 0 ||
        key.len < op->text_len ||
        (op->text_len > 0 && memcmp(key.at, op->text, op->text_len) != 0))
        return true;
    row = hfd_alloc(sizeof *row + key.len + 1 + kv->value.len + 1);
    if (!row)
        return false;
    fill_row(row, op, key, kv, &name);
    if (!keep_row(list, row)) {
        hfd_free(row);
        return false;
    }
    return true;
}

/* ---- Telling ------------------------------------------------------------ */

static int compare_keys(const hf_entry_info *i, const hf_entry_info *j)
{
    size_t shorter = i->key_len < j->key_len ? i->key_len : j->key_len;
    int order = memcmp(i->key, j->key, shorter);

    if (order == 0 && i->key_len != j->key_len)
        order = i->key_len < j->key_len ? -1 : 1;
    return order;
}

static int compare_rows(const void *a, const void *b)
{
    const hf_entry_info *i = &(*(etcd_row *const *)a)->row.info;
    const hf_entry_info *j = &(*(etcd_row *const *)b)->row.info;
    int order = compare_keys(i, j);

    if (order == 0 && i->number != j->number)
        order = i->number < j->number ? -1 : 1;
    return order;
}

/* Who holds, of the n rows of one queue. */
static void judge_queue(etcd_row **rows, size_t n, hf_seat *seats)
{
    for (size_t i = 0; i < n; i++) {
        hf_entry_info *info = &rows[i]->row.info;
        size_t whom;

        seats[i] = (hf_seat){.num = info->number,
                             .mode = (uint8_t)info->mode,
                             .places = info->places};
        info->granted = etcd_judge_seats(seats, i + 1, i, &whom) == HF_GRANTED;
        info->token = info->granted ? info->number : 0;
    }
}

bool etcd_rows_emit(etcd_listing *list, const hf_op *op)
{
    hf_seat *seats =
        list->count ? hfd_alloc(list->count * sizeof *seats) : NULL;
    int stop = 0;

    if (!seats)
        return list->count == 0;
    qsort(list->rows, list->count, sizeof *list->rows, compare_rows);
    for (size_t from = 0, to; from < list->count; from = to) {
        to = from + 1;
        while (to < list->count && compare_keys(&list->rows[from]->row.info,
                                                &list->rows[to]->row.info) == 0)
            to++;
        judge_queue(list->rows + from, to - from, seats);
    }
    for (size_t i = 0; i < list->count && stop == 0; i++) {
        const hf_row *row = &list->rows[i]->row;

        if (row->info.mine || !op->only_mine)
            stop = op->emit_row(row, op->user);
    }
    hfd_free(seats);
    return true;
}

void etcd_listing_free(void *listing)
{
    etcd_listing *list = listing;

    for (size_t i = 0; i < list->count; i++)
        hfd_free(list->rows[i]);
    hfd_free(list->rows);
    hfd_free(list->keys);
    hf__buf_done(&list->cursor);
    hf__buf_done(&list->end);
    hf__buf_done(&list->queues);
    hfd_free(list);
}
