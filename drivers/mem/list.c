/* list.c - HF_OP_LIST of the mem store: who holds, who waits, in order.
 *
 * Queues are found by hash, so a listing sorts those it shows first; within a
 * queue the order is there already.  Rows point into the store and live during
 * the callback, which must not touch it. */
#include "state.h"

#include <stdlib.h>
#include <string.h>

hf_nsec hf__mem_entry_end(const mem_entry *entry)
{
    hf_nsec end = entry->ends != HF_NEVER ? entry->ends : entry->session->ends;

    return entry->broken_until < end ? entry->broken_until : end;
}

static int compare_queues(const void *left, const void *right)
{
    const mem_queue *a = *(mem_queue *const *)left;
    const mem_queue *b = *(mem_queue *const *)right;
    size_t len = a->key_len < b->key_len ? a->key_len : b->key_len;
    int order = memcmp(a->key, b->key, len);

    if (order != 0)
        return order;
    return (a->key_len > b->key_len) - (a->key_len < b->key_len);
}

static bool has_prefix(const mem_queue *queue, const hf_op *op)
{
    return op->text_len == 0 ||
           (queue->key_len >= op->text_len &&
            memcmp(queue->key, op->text, op->text_len) == 0);
}

static int emit_entry(const hf__mem_store *store, const hf_op *op,
                      const mem_entry *entry, hf_nsec now)
{
    const mem_session *session = entry->session;
    bool mine = memcmp(&session->sid, &op->sid, sizeof op->sid) == 0;
    hf_row row = {
        .info = {.key = entry->queue->key,
                 .key_len = entry->queue->key_len,
                 .mode = (hf_mode)entry->mode,
                 .places = entry->places,
                 .granted = entry->granted,
                 .mine = mine,
                 .broken = entry->broken,
                 .closed = entry->closed,
                 .number = entry->num,
                 .token = entry->granted ? entry->token : 0,
                 .pid = store->pid,
                 .host = store->host,
                 .name = session->name,
                 .age_ms = (now - entry->born) / HF_MS(1),
                 .remaining_ms = (hf__mem_entry_end(entry) - now) / HF_MS(1),
                 .value = entry->value ? entry->value : "",
                 .value_len = entry->value_len},
        .rid = entry->rid,
        .sid = session->sid};

    if (op->only_mine && (!mine || entry->closed))
        return 0;
    return op->emit_row(&row, op->user);
}

bool hf__mem_list(hf__mem_store *store, hf_op *op, hf_nsec now)
{
    size_t n = 0;
    mem_queue **queues =
        hfd_alloc((store->queues.count + 1) * sizeof(mem_queue *));

    if (!queues)
        return false;
    for (size_t i = 0; i < store->queues.size; i++) {
        for (mem_link *link = store->queues.slots[i]; link; link = link->next) {
            mem_queue *queue = MEM_OF(link, mem_queue, by_key);

            if (has_prefix(queue, op))
                queues[n++] = queue;
        }
    }
    qsort(queues, n, sizeof(mem_queue *), compare_queues);
    for (size_t i = 0; i < n; i++) {
        MEM_EACH(at, &queues[i]->entries) {
            if (emit_entry(store, op, MEM_OF(at, mem_entry, in_queue), now)) {
                hfd_free(queues);
                return true;
            }
        }
    }
    hfd_free(queues);
    return true;
}
