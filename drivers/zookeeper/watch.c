/* watch.c - what the wire tells: events, a new connection, doubt, the end.
 *
 * The deletion of a node that one of our entries waits for, and waits for
 * alone, is the grant: no lower number can appear any more, because numbers
 * appear in their order, so with its last predecessor gone an entry is first.
 * That is told with its token, and costs no request.  Every other event is
 * only a reason to look.  A node is watched by one entry of the whole queue
 * (readers: by those who wait for the same writer), so one end wakes exactly
 * those whose turn it may be.
 *
 * A grant that is told this way is believed by the core only while the
 * session's lease is good by its own clock; the event says nothing of that.
 *
 * Events that came while the connection was broken are lost: `again` disarms
 * every watch and has everybody look, and looking arms them anew. */
#include <string.h>

#include "store.h"

static void tell_watchers(hf_store *store, int32_t type, const char *path,
                          size_t len)
{
    for (;;) {
        hf_place fresh = {.verdict = HF_GRANTED, .run = 1};
        bool granted = false, sole = false;
        zk_entry *entry;

        zk_store_lock(store);
        entry = zk_watcher_take(store, path, len, &sole);
        if (entry) {
            granted = type == ZK_EVENT_DELETED && sole && entry->created &&
                      entry->mode != HF_PERMIT && !entry->leaving &&
                      !entry->gone && !store->ending;
            entry->granted = entry->granted || granted;
            fresh.rid = entry->rid;
            fresh.num = fresh.token = (uint64_t)entry->czxid;
        }
        zk_store_unlock(store);
        if (!entry)
            return;
        zk_ring(store, &fresh.rid);
        store->host.changed(store->host.ctx, &fresh.rid,
                            granted ? &fresh : NULL);
    }
}

/* Something happened to a node of our own. */
static void look_after_own(hf_store *store, int32_t type, const char *path,
                           size_t len)
{
    const char *base = memrchr(path, '/', len);
    bool news = false, changed = false;
    const zk_text *node;
    zk_entry *entry;
    zk_name name;
    hf_id rid;

    if (!base ||
        !zk_name_parse(&name, base + 1, len - (size_t)(base + 1 - path)) ||
        name.maker != ZK_OURS)
        return;
    zk_store_lock(store);
    entry = zk_entry_find_id(store, &name.id);
    node = entry ? zk_entry_node(entry) : NULL;
    if (entry && entry->own_watch && node->len == len &&
        memcmp(node->data, path, len) == 0) {
        entry->own_watch = false;
        if (type == ZK_EVENT_DELETED && zk_entry_robbed(entry)) {
            news = !entry->told;
            entry->gone = entry->told = true;
        }
        changed = type == ZK_EVENT_CHANGED;
        rid = entry->rid;
    }
    zk_store_unlock(store);
    if (news) {
        zk_ring(store, &rid);
        store->host.news(store->host.ctx, &rid, HF_EFORCED);
    }
    if (changed)
        zk_patrol_go(store);
}

void zk_on_event(void *ctx, int32_t type, const char *path, size_t len)
{
    hf_store *store = ctx;

    tell_watchers(store, type, path, len);
    look_after_own(store, type, path, len);
}

void zk_on_again(void *ctx, int64_t session)
{
    hf_store *store = ctx;
    bool mine;

    zk_store_lock(store);
    mine = store->attached && store->session == session;
    for (size_t i = 0; i < ZK_BUCKETS && mine; i++) {
        for (zk_entry *entry = store->entries[i]; entry; entry = entry->next) {
            zk_entry_disarm(store, entry);
            entry->own_watch = entry->stirred = false;
        }
    }
    zk_store_unlock(store);
    if (!mine)
        return;
    zk_ring_all(store);
    store->host.changed(store->host.ctx, NULL, NULL);
}

/* After its end by our own clock there is nothing left to doubt. */
static bool is_believed(hf_store *store)
{
    bool believed;

    zk_store_lock(store);
    believed =
        store->attached && !store->ending && hfd_now() < store->lease_end;
    zk_store_unlock(store);
    return believed;
}

void zk_on_doubt(void *ctx, int code, const char *text)
{
    hf_store *store = ctx;

    if (is_believed(store))
        store->host.doubt(store->host.ctx, code, text);
}

void zk_on_over(void *ctx, int64_t session, const char *text)
{
    hf_store *store = ctx;
    bool mine, believed = is_believed(store);

    zk_store_lock(store);
    mine = store->attached && store->session == session;
    if (mine)
        store->over = true;
    zk_store_unlock(store);
    if (!mine)
        return;
    /* The renewal that a doubt brings on is told the truth. */
    if (believed)
        store->host.doubt(store->host.ctx, HF_EEXPIRED, text);
    zk_ring_all(store);
    store->host.changed(store->host.ctx, NULL, NULL);
}
