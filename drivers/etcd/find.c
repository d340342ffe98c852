/* find.c - what etcd has of one entry, by whatever name.
 *
 * Answers: is the entry with this rid there, under which of its two keys, and
 * is there a tomb of it?  All in one step of the store.  An entry is known by
 * the rid in its value, so K/<lease> is not taken for this request's when it
 * is another one's of the same session. */
#include <string.h>

#include "store.h"

void etcd_do_find(hf__buf *out, etcd_branch branch, const etcd_names *names)
{
    etcd_do_get(out, branch, names->plain);
    etcd_do_get(out, branch, names->own);
    etcd_do_get(out, branch, names->gone);
}

static bool next_one(etcd_txn *txn, etcd_kv *ret)
{
    etcd_rows rows;

    return etcd_next_rows(txn, &rows) && etcd_one_row(&rows, ret);
}

static bool is_mine(etcd_found *found, const etcd_kv *kv, const hf_id *rid,
                    uint64_t form)
{
    if (kv->created == 0)
        return false;
    etcd_read_record(&found->record, kv->value);
    if (!found->record.ours ||
        memcmp(&found->record.rid, rid, sizeof *rid) != 0)
        return false;
    found->mine = *kv;
    found->form = form;
    return true;
}

bool etcd_read_found(etcd_found *ret, etcd_txn *txn, const hf_id *rid)
{
    etcd_kv own;

    *ret = (etcd_found){.form = 0};
    if (!next_one(txn, &ret->plain) || !next_one(txn, &own) ||
        !next_one(txn, &ret->gone))
        return false;
    if (!is_mine(ret, &ret->plain, rid, ETCD_PLACE_PLAIN))
        is_mine(ret, &own, rid, ETCD_PLACE_OWN);
    return true;
}

int etcd_gone_reason(const etcd_kv *gone)
{
    etcd_text broken = {ETCD_BROKEN, sizeof ETCD_BROKEN - 1};

    if (gone->created > 0 && etcd_same_text(gone->value, broken))
        return HF_EFORCED;
    return HF_ENOTHELD;
}
