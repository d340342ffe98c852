/* watch.c - who waits for whom, in which queue.
 *
 * Answers: which place is to look when this key was deleted?  A queue is here
 * while somebody of this process waits in it, and as long as its watch is kept;
 * watch_stream.c opens the watches and brings the deletions.
 *
 *     NONE --asked--> ASKED --created--> OPEN --cancelled, stream ended--> NONE
 *
 * A waiter that is entered here was answered at some revision; the watch may
 * have told of later deletions already, before the answer reached us: replies
 * and events have no order among each other.  So the last deletions of a queue
 * are remembered, and a newcomer whose turn was among them, or who is older
 * than what is remembered, is told at once.  A wake-up too many costs a read;
 * one too few is found by a look.
 *
 * The core looks at every place each five seconds, by the clock alone.  Where
 * the watch stands and told nothing the place waits as before, and nothing is
 * sent: the watch vouches.  Not for ever, since servers had bugs that lost
 * events: after half a minute the look is real.  Not when our member may be cut
 * off: it has to have answered something that needs a majority, as every
 * renewal does, within `silent`.  Nobody is granted by this.
 *
 * Nothing of the channel and nothing of the core is called with mu held. */
#include "watch.h"

static const hf_nsec believed = HF_MS(30000);
static const hf_nsec silent = HF_MS(25000);

#include <string.h>

/* ---- Queues ------------------------------------------------------------- */

static etcd_queue *find_queue(etcd_watcher *w, uint64_t hash, etcd_text key)
{
    etcd_queue *q = w->queues[hash % ETCD_BUCKETS];

    while (q && (q->hash != hash ||
                 !etcd_same_text(key, (etcd_text){q->key, q->key_len})))
        q = q->next;
    return q;
}

etcd_queue *etcd_queue_of(etcd_watcher *w, const hf_place *place)
{
    etcd_text key = {place->key, place->key_len};

    return find_queue(w, etcd_hash(key), key);
}

static etcd_queue **find_watched(etcd_watcher *w, int64_t id)
{
    etcd_queue **at = &w->watched[(uint64_t)id % ETCD_BUCKETS];

    while (*at && (*at)->id != id)
        at = &(*at)->next_by_id;
    return at;
}

etcd_queue *etcd_queue_by_watch(etcd_watcher *w, int64_t id)
{
    return *find_watched(w, id);
}

void etcd_queue_watched(etcd_watcher *w, etcd_queue *q)
{
    etcd_queue **bucket;

    q->state = ETCD_WATCH_ASKED;
    q->id = ++w->last_id;
    bucket = &w->watched[(uint64_t)q->id % ETCD_BUCKETS];
    q->next_by_id = *bucket;
    *bucket = q;
}

void etcd_queue_unwatched(etcd_watcher *w, etcd_queue *q)
{
    if (q->state != ETCD_WATCH_NONE)
        *find_watched(w, q->id) = q->next_by_id;
    q->state = ETCD_WATCH_NONE;
}

void etcd_queue_free(etcd_watcher *w, etcd_queue *q)
{
    etcd_queue **at = &w->queues[q->hash % ETCD_BUCKETS];

    etcd_queue_unwatched(w, q);
    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
    hfd_free(q);
}

static etcd_queue *make_queue(etcd_watcher *w, uint64_t hash, etcd_text key)
{
    etcd_queue *q = hfd_alloc(sizeof *q + key.len);

    if (q) {
        q->hash = hash;
        q->key_len = (uint16_t)key.len;
        memcpy(q->key, key.at, key.len);
        q->next = w->queues[hash % ETCD_BUCKETS];
        w->queues[hash % ETCD_BUCKETS] = q;
    }
    return q;
}

/* ---- Waiters ------------------------------------------------------------ */

static etcd_waiter **find_waiter(etcd_queue *q, const hf_id *rid)
{
    etcd_waiter **at = &q->waiters;

    while (*at && memcmp(&(*at)->rid, rid, sizeof *rid) != 0)
        at = &(*at)->next;
    return at;
}

/* Was it told, before it stood here, that its turn may have come? */
static bool was_told(const etcd_queue *q, const etcd_waiter *waiter)
{
    if (q->heard == 0)
        return false; /* when it opens, all who are older look */
    if (waiter->seen < q->since || waiter->seen < q->forgotten)
        return true;
    for (size_t i = 0; i < ETCD_REMEMBERED; i++) {
        uint64_t hash = q->last[i].hash;

        if (q->last[i].revision > waiter->seen &&
            (waiter->ahead.hash == 0 || waiter->ahead.hash == hash ||
             waiter->mine == hash))
            return true;
    }
    return false;
}

/* The waiter of this place; NULL: no memory.  With mu held. */
static etcd_waiter *have_waiter(etcd_watcher *w, const hf_place *place,
                                etcd_queue **ret, bool *ret_new)
{
    etcd_text key = {place->key, place->key_len};
    uint64_t hash = etcd_hash(key);
    etcd_queue *q = find_queue(w, hash, key);
    etcd_waiter **at;

    if (!q)
        q = make_queue(w, hash, key);
    if (!q)
        return NULL;
    *ret = q;
    at = find_waiter(q, &place->rid);
    if (!*at) {
        *at = hfd_alloc(sizeof **at);
        if (!*at)
            return NULL;
        (*at)->rid = place->rid;
        (*at)->pushed = (place->own[1] & HF_PLACE_PUSH) != 0;
        *ret_new = true;
    }
    return *at;
}

static uint64_t hash_of_own(const hf_place *place, int64_t lease)
{
    bool plain = (place->own[1] & ETCD_PLACE_PLAIN) != 0;
    char suffix[ETCD_SUFFIX_MAX];

    return etcd_hash(
        etcd_name_suffix(suffix, lease, plain ? NULL : &place->rid));
}

void etcd_watch_add(etcd_watcher *w, const hf_place *place, int64_t lease,
                    const etcd_ahead *ahead, int64_t seen)
{
    uint64_t mine = hash_of_own(place, lease);
    bool added = false, tell = false, open = false;
    etcd_queue *q = NULL;
    etcd_waiter *waiter;

    pthread_mutex_lock(&w->mu);
    waiter = have_waiter(w, place, &q, &added);
    if (waiter) {
        waiter->num = (int64_t)place->num;
        waiter->ahead = *ahead;
        waiter->seen = seen;
        waiter->mine = mine;
        waiter->looked = hfd_now();
        waiter->told = tell = was_told(q, waiter);
        q->idle_since = HF_NEVER;
        if (place->mode == HF_PERMIT)
            q->former = true; /* of the next watch */
        open = q->state == ETCD_WATCH_NONE;
        added = added && waiter->pushed;
    }
    pthread_mutex_unlock(&w->mu);
    if (!waiter)
        hfd_log(HF_LOG_WARN, "etcd: no memory to wait with; the place is "
                             "looked at by the clock");
    if (waiter && added)
        grpc_attend(w->store->channel, 1);
    if (open)
        etcd_watch_open(w, place);
    if (tell)
        etcd_tell(w->store, &place->rid);
    etcd_watch_sweep(w);
}

/* Must the place be looked at all the same?  See above. */
static bool is_stale(const etcd_watcher *w, const etcd_waiter *waiter)
{
    hf_nsec now = hfd_now();

    return now - waiter->looked > believed ||
           now - atomic_load(&w->store->heard) > silent;
}

bool etcd_watch_vouches(etcd_watcher *w, const hf_place *place)
{
    etcd_waiter *waiter = NULL;
    bool vouches;
    etcd_queue *q;

    pthread_mutex_lock(&w->mu);
    q = etcd_queue_of(w, place);
    if (q && q->state == ETCD_WATCH_OPEN)
        waiter = *find_waiter(q, &place->rid);
    vouches = waiter && !waiter->told && !is_stale(w, waiter);
    pthread_mutex_unlock(&w->mu);
    return vouches;
}

/* With mu held; true: the keeper has one less to read for. */
static bool drop_waiter(etcd_queue *q, etcd_waiter **at)
{
    etcd_waiter *waiter = *at;
    bool pushed = waiter->pushed;

    *at = waiter->next;
    hfd_free(waiter);
    if (!q->waiters)
        q->idle_since = hfd_now();
    return pushed;
}

void etcd_watch_drop(etcd_watcher *w, const hf_place *place)
{
    bool less = false;
    etcd_queue *q;

    pthread_mutex_lock(&w->mu);
    q = etcd_queue_of(w, place);
    if (q) {
        etcd_waiter **at = find_waiter(q, &place->rid);

        if (*at)
            less = drop_waiter(q, at);
        if (!q->waiters && q->state == ETCD_WATCH_NONE)
            etcd_queue_free(w, q);
    }
    pthread_mutex_unlock(&w->mu);
    if (less)
        grpc_attend(w->store->channel, -1);
}

void etcd_watch_drop_all(etcd_watcher *w)
{
    size_t less = 0;

    pthread_mutex_lock(&w->mu);
    for (size_t i = 0; i < ETCD_BUCKETS; i++) {
        for (etcd_queue *q = w->queues[i], *next; q; q = next) {
            next = q->next;
            while (q->waiters)
                less += drop_waiter(q, &q->waiters);
            if (q->state == ETCD_WATCH_NONE)
                etcd_queue_free(w, q);
        }
    }
    pthread_mutex_unlock(&w->mu);
    while (less-- > 0)
        grpc_attend(w->store->channel, -1);
}
