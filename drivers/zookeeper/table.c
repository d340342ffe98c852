/* table.c - the entries that this session has, or may have, in the store.
 *
 * An entry is here from before its creation is sent until it is certain that
 * the store has nothing of it; so what is not here is not there, and a leave of
 * it needs no question.  It is found by its rid, by the id in a node's name,
 * and by the node whose end it waits for: events come with a path.
 *
 * An operation that is under way has a reference, so that a leave on another
 * thread cannot take an entry away under it.  Entries and their strings go back
 * to a pool: a lock that is free costs no allocation here.
 *
 * The session ends: all of them are gone, whatever the store says (a node of a
 * session that is over is deleted by the server, and nothing revives it). */
#include <string.h>

#include "store.h"

enum { SPARE_MAX = 256 };

/* ---- Text --------------------------------------------------------------- */

bool zk_text_reserve(zk_text *text, size_t room)
{
    char *data;

    if (room <= text->room)
        return true;
    data = hfd_realloc(text->data, room + room / 4);
    if (!data)
        return false;
    text->data = data;
    text->room = room + room / 4;
    return true;
}

void zk_text_done(zk_text *text)
{
    hfd_free(text->data);
    *text = (zk_text){.data = NULL};
}

/* ---- Buckets ------------------------------------------------------------ */

static size_t bucket_of(const hf_id *id)
{
    /* Byte 6 has the version in names. */
    return (id->bytes[0] | (size_t)id->bytes[9] << 8) % ZK_BUCKETS;
}

static uint32_t hash_path(const char *path, size_t len)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)path[i]) * 16777619u;
    return hash;
}

zk_entry *zk_entry_find(hf_store *store, const hf_id *rid)
{
    zk_entry *entry = store->entries[bucket_of(rid)];

    while (entry && memcmp(&entry->rid, rid, sizeof *rid) != 0)
        entry = entry->next;
    return entry;
}

zk_entry *zk_entry_find_id(hf_store *store, const hf_id *id)
{
    zk_entry *entry = store->entries[bucket_of(id)];

    while (entry && memcmp(&entry->id, id, sizeof *id) != 0)
        entry = entry->next;
    return entry;
}

/* ---- Life --------------------------------------------------------------- */

static zk_entry *take_spare(hf_store *store)
{
    zk_entry *entry = store->spare_entries;
    zk_text path, watch, lease;

    if (!entry)
        return hfd_alloc(sizeof *entry);
    store->spare_entries = entry->next;
    store->spare_count--;
    path = entry->path;
    watch = entry->watch;
    lease = entry->lease;
    memset(entry, 0, sizeof *entry);
    entry->path = path;
    entry->lease = lease;
    entry->watch = watch;
    return entry;
}

static void free_entry(zk_entry *entry)
{
    zk_text_done(&entry->path);
    zk_text_done(&entry->watch);
    zk_text_done(&entry->lease);
    zk_text_done(&entry->value);
    hfd_free(entry);
}

static void give_back(hf_store *store, zk_entry *entry)
{
    zk_text_done(&entry->value);
    if (store->spare_count >= SPARE_MAX) {
        free_entry(entry);
        return;
    }
    entry->next = store->spare_entries;
    store->spare_entries = entry;
    store->spare_count++;
}

/* A permit waits in Curator's queue for leases and then has one. */
static void name_insides(zk_entry *entry)
{
    static const char locks[] = "/locks", leases[] = "/leases";

    memcpy(entry->lease.data, entry->path.data, entry->top_len);
    memcpy(entry->lease.data + entry->top_len, leases, sizeof leases);
    entry->lease_dir = entry->lease.len = entry->top_len + sizeof leases - 1;
    memcpy(entry->path.data + entry->top_len, locks, sizeof locks);
    entry->dir_len = entry->path.len = entry->top_len + sizeof locks - 1;
}

zk_entry *zk_entry_new(hf_store *store, const hf_place *place, zk_kind kind)
{
    zk_entry *entry = take_spare(store);
    size_t bucket = bucket_of(&place->rid);
    size_t room = ZK_PATH_ROOM(store->root_len, place->key_len) + ZK_NAME_ROOM;
    bool permit = place->mode == HF_PERMIT;

    if (!entry)
        return NULL;
    if (!zk_text_reserve(&entry->path, room + 8) ||
        (permit && !zk_text_reserve(&entry->lease, room + 8))) {
        give_back(store, entry);
        return NULL;
    }
    entry->rid = place->rid;
    entry->id = zk_name_id(&place->rid);
    entry->mode = place->mode;
    entry->places = place->places;
    entry->kind = kind;
    entry->top_len = zk_path_write(entry->path.data, store->root,
                                   store->root_len, place->key, place->key_len);
    entry->dir_len = entry->path.len = entry->top_len;
    entry->marked = -1;
    if (permit)
        name_insides(entry);
    entry->refs = 2; /* the table's and the caller's */
    entry->next = store->entries[bucket];
    store->entries[bucket] = entry;
    store->entry_count++;
    return entry;
}

void zk_entry_ref(zk_entry *entry)
{
    entry->refs++;
}

void zk_entry_unref(hf_store *store, zk_entry *entry)
{
    if (--entry->refs == 0)
        give_back(store, entry);
}

void zk_entry_remove(hf_store *store, zk_entry *entry)
{
    zk_entry **at = &store->entries[bucket_of(&entry->rid)];

    if (entry->out)
        return;
    entry->out = true;
    zk_entry_disarm(store, entry);
    while (*at != entry)
        at = &(*at)->next;
    *at = entry->next;
    store->entry_count--;
    zk_entry_unref(store, entry);
}

void zk_table_clear(hf_store *store)
{
    for (size_t i = 0; i < ZK_BUCKETS; i++) {
        while (store->entries[i])
            zk_entry_remove(store, store->entries[i]);
    }
}

void zk_table_done(hf_store *store)
{
    zk_table_clear(store);
    while (store->spare_entries) {
        zk_entry *entry = store->spare_entries;

        store->spare_entries = entry->next;
        free_entry(entry);
    }
}

bool zk_entry_name(zk_entry *entry, const char *path, size_t len)
{
    const char *base = path + entry->dir_len + 1;
    zk_name name;

    if (len <= entry->dir_len + 1 || len - entry->dir_len > ZK_NAME_ROOM ||
        memcmp(path, entry->path.data, entry->dir_len) != 0 ||
        !zk_name_parse(&name, base, len - entry->dir_len - 1) ||
        name.kind != entry->kind ||
        memcmp(&name.id, &entry->id, sizeof name.id) != 0)
        return false;
    memcpy(entry->path.data + entry->dir_len, path + entry->dir_len,
           len - entry->dir_len);
    entry->path.data[len] = '\0';
    entry->path.len = len;
    entry->seq = name.seq;
    return true;
}

/* ---- Watching ----------------------------------------------------------- */

bool zk_entry_arm(hf_store *store, zk_entry *entry, const zk_text *path,
                  bool sole)
{
    size_t bucket;

    zk_entry_disarm(store, entry);
    if (entry->out)
        return true; /* left meanwhile: nobody wants to know */
    if (!zk_text_reserve(&entry->watch, path->len))
        return false;
    memcpy(entry->watch.data, path->data, path->len);
    entry->watch.len = path->len;
    entry->watch_hash = hash_path(path->data, path->len);
    entry->armed = true;
    entry->sole = sole;
    bucket = entry->watch_hash % ZK_BUCKETS;
    entry->watch_next = store->watchers[bucket];
    store->watchers[bucket] = entry;
    return true;
}

void zk_entry_disarm(hf_store *store, zk_entry *entry)
{
    zk_entry **at = &store->watchers[entry->watch_hash % ZK_BUCKETS];

    if (!entry->armed)
        return;
    while (*at != entry)
        at = &(*at)->watch_next;
    *at = entry->watch_next;
    entry->armed = false;
    entry->quiet = false;
}

zk_entry *zk_watcher_take(hf_store *store, const char *path, size_t len,
                          bool *ret_sole)
{
    uint32_t hash = hash_path(path, len);
    zk_entry *entry = store->watchers[hash % ZK_BUCKETS];

    while (entry && (entry->watch_hash != hash || entry->watch.len != len ||
                     memcmp(entry->watch.data, path, len) != 0))
        entry = entry->watch_next;
    if (entry) {
        *ret_sole = entry->sole;
        entry->stirred = true;
        zk_entry_disarm(store, entry);
    }
    return entry;
}
