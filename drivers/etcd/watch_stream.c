/* watch_stream.c - watches that never look back, all on one stream.
 *
 * A watch that starts in the past is served by a loop of the server that turns
 * every 100 ms.  So each is opened with the first wait in a queue, from "now"
 * on, and kept for ten seconds after the last: under contention it stood before
 * a wait began (docs/decisions/0024).  Deletions alone are asked for.
 *
 * Nothing is missed.  A watch that says it was created at revision C tells of
 * all deletions after C; who was answered at an older revision looks once.
 * After a break it goes on behind the last revision that was heard; if that has
 * been compacted, all of its waiters look.  An event is matched with what each
 * waiter waits for; the core looks then (recheck.c), since an event proves only
 * that one key has gone.
 *
 * Message lost: the stream ends with its connection, and what is wanted is
 * asked for anew when the next one stands.  A member without a leader ends it
 * as soon as it is open: on one connection it is opened once a second at most,
 * and then by the next look.  So it is when a watch is refused as it is asked
 * for: the stream has the token that it was opened with, which may be an old
 * one, and the answer need not say which watch it is about; another stream is
 * opened, with the token of today, for all of them.  Two of us: the stream is
 * used without mu, as it may call back; who opens it asks for whatever is
 * wanted when it is open, and nobody else does before; watches have numbers of
 * ours that are used once, so an answer to a question of an earlier stream is
 * recognised.  Paused here: others wait for the timed look.  Knows nothing of
 * who may hold. */
#include "watch.h"

#include <stdio.h>
#include <string.h>

static const hf_nsec keep_idle = HF_MS(10000);
static const hf_nsec reopen_after = HF_MS(1000);

/* ---- Asking ------------------------------------------------------------- */

static bool send_buf(etcd_watcher *w, hf__buf *out)
{
    hf_error err;
    bool sent =
        !out->failed &&
        grpc_stream_send(w->store->channel, &w->stream, out->data + out->start,
                         hf__buf_len(out), NULL, &err) == 0;

    hf__buf_done(out);
    return sent;
}

/* It could not be asked for: there was no memory, or the stream has ended. */
static void not_asked(etcd_watcher *w, int64_t id)
{
    etcd_queue *q;

    pthread_mutex_lock(&w->mu);
    q = etcd_queue_by_watch(w, id);
    if (q)
        etcd_queue_unwatched(w, q);
    pthread_mutex_unlock(&w->mu);
}

/* The queue of this place, or any that somebody waits in; with mu held. */
static etcd_queue *find_wanted(etcd_watcher *w, const hf_place *place)
{
    etcd_queue *q = place ? etcd_queue_of(w, place) : NULL;

    for (size_t i = 0; !place && !q && i < ETCD_BUCKETS; i++) {
        q = w->queues[i];
        while (q && (q->state != ETCD_WATCH_NONE || !q->waiters))
            q = q->next;
    }
    return q && q->state == ETCD_WATCH_NONE && q->waiters ? q : NULL;
}

/* One watch that is wanted and not asked for; false: there is none, or the
 * timed look has to do. */
static bool ask_next(etcd_watcher *w, const hf_place *place)
{
    hf__buf out = {.data = NULL};
    int64_t id = 0;
    etcd_queue *q;

    pthread_mutex_lock(&w->mu);
    q = w->open && w->opening == 0 ? find_wanted(w, place) : NULL;
    if (q) {
        etcd_name_queue(&w->names, w->store, q->key, q->key_len);
        etcd_ask_watch(&out, w->last_id + 1, w->names.dir, w->names.dir_end,
                       q->heard ? q->heard + 1 : 0, q->former);
        if (!out.failed) {
            etcd_queue_watched(w, q);
            id = q->id;
        }
    }
    pthread_mutex_unlock(&w->mu);
    if (!q)
        return false;
    if (send_buf(w, &out))
        return !place;
    if (id)
        not_asked(w, id);
    return false;
}

/* With mu held: is it to be opened now, on the connection of that number? */
static bool may_open(const etcd_watcher *w, unsigned stood, hf_nsec now)
{
    return !w->open && !w->closing &&
           (stood != w->stood || now - w->opened > reopen_after);
}

void etcd_watch_open(etcd_watcher *w, const hf_place *place)
{
    unsigned stood = grpc_member(w->store->channel, NULL, 0);
    hf_nsec now = hfd_now();
    bool open, failed;
    hf_error err;

    pthread_mutex_lock(&w->mu);
    open = may_open(w, stood, now);
    if (open) {
        w->opening++;
        w->open = true; /* before: it may end before the call returns */
        w->opened = now;
        w->stood = stood;
    }
    pthread_mutex_unlock(&w->mu);
    if (open) {
        failed = grpc_stream_open(w->store->channel, &w->stream, &err) != 0;
        pthread_mutex_lock(&w->mu);
        w->opening--;
        if (failed) {
            /* No connection stands: etcd_watch_standing comes when one does. */
            w->open = false;
            w->stood = 0;
        }
        pthread_mutex_unlock(&w->mu);
    }
    /* A new stream has none of them, nor of those that came meanwhile. */
    while (ask_next(w, open ? NULL : place))
        ;
}

static void send_cancel(etcd_watcher *w, int64_t id)
{
    hf__buf out = {.data = NULL};

    etcd_ask_unwatch(&out, id);
    send_buf(w, &out);
}

void etcd_watch_sweep(etcd_watcher *w)
{
    hf_nsec now = hfd_now();
    int64_t id = 0;

    pthread_mutex_lock(&w->mu);
    for (size_t i = 0; now - w->swept > HF_MS(1000) && !id && i < ETCD_BUCKETS;
         i++) {
        for (etcd_queue *q = w->queues[i]; q && !id; q = q->next) {
            if (q->waiters || now - q->idle_since < keep_idle)
                continue;
            id = q->state != ETCD_WATCH_NONE ? q->id : 0;
            etcd_queue_free(w, q);
            break;
        }
    }
    if (!id) /* else there may be more */
        w->swept = now;
    pthread_mutex_unlock(&w->mu);
    if (id)
        send_cancel(w, id);
}

/* ---- Telling ------------------------------------------------------------ */

/* With mu held: note that this one is to look. */
static void note_due(hf__buf *rids, etcd_waiter *waiter)
{
    waiter->told = true;
    hf__buf_add(rids, &waiter->rid, sizeof waiter->rid);
}

/* Without mu: tell all that were noted. */
static void tell_due(etcd_watcher *w, hf__buf *rids)
{
    hf_id rid;

    if (rids->failed)
        w->store->host.changed(w->store->host.ctx, NULL, NULL);
    for (size_t i = 0; i + sizeof rid <= hf__buf_len(rids); i += sizeof rid) {
        memcpy(&rid, rids->data + rids->start + i, sizeof rid);
        etcd_tell(w->store, &rid);
    }
    hf__buf_done(rids);
}

static void note_all(etcd_queue *q, hf__buf *rids, int64_t before)
{
    for (etcd_waiter *at = q->waiters; at; at = at->next) {
        if (at->seen < before)
            note_due(rids, at);
    }
}

static void note_everybody(etcd_watcher *w, hf__buf *rids)
{
    pthread_mutex_lock(&w->mu);
    for (size_t i = 0; i < ETCD_BUCKETS; i++) {
        for (etcd_queue *q = w->queues[i]; q; q = q->next)
            note_all(q, rids, INT64_MAX);
    }
    pthread_mutex_unlock(&w->mu);
}

/* A key of this queue has gone. */
static void note_deletion(etcd_queue *q, uint64_t hash, const etcd_event *event,
                          hf__buf *rids)
{
    int64_t revision = event->kv.modified;
    size_t slot = q->next_last++ % ETCD_REMEMBERED;

    if (q->last[slot].revision > q->forgotten)
        q->forgotten = q->last[slot].revision;
    q->last[slot].revision = revision;
    q->last[slot].hash = hash;
    for (etcd_waiter *at = q->waiters; at; at = at->next) {
        if (revision <= at->seen)
            continue;
        if (at->mine == hash) {
            note_due(rids, at); /* it stands there no more */
        } else if (at->ahead.hash) {
            if (at->ahead.hash == hash)
                note_due(rids, at);
        } else if (event->former.created == 0 || at->ahead.leaves <= 1) {
            if (event->former.created < at->num)
                note_due(rids, at);
        } else if (event->former.created < at->num) {
            at->ahead.leaves--;
        }
    }
}

static void on_events(etcd_watcher *w, etcd_queue *q, etcd_watched *watched,
                      hf__buf *rids)
{
    size_t dir_len = w->store->prefix_len + q->key_len + 1;
    etcd_event event;

    while (etcd_next_event(&watched->events, &event)) {
        etcd_text key = event.kv.key;
        etcd_suffix name;

        if (event.kv.modified > q->heard)
            q->heard = event.kv.modified;
        if (!event.is_delete || key.len < dir_len)
            continue;
        key = (etcd_text){key.at + dir_len, key.len - dir_len};
        if (etcd_read_suffix(&name, key))
            note_deletion(q, etcd_hash(key), &event, rids);
    }
    if (watched->events.bad)
        note_all(q, rids, INT64_MAX);
}

static void on_created(etcd_queue *q, const etcd_watched *watched,
                       hf__buf *rids)
{
    q->state = ETCD_WATCH_OPEN;
    if (q->heard == 0) {
        q->since = q->heard = watched->revision;
        note_all(q, rids, q->since);
    }
}

static void on_canceled(etcd_watcher *w, etcd_queue *q,
                        const etcd_watched *watched, hf__buf *rids)
{
    etcd_queue_unwatched(w, q);
    q->heard = 0; /* the next one begins anew, and all look */
    note_all(q, rids, INT64_MAX);
    if (watched->compacted == 0)
        hfd_log(HF_LOG_WARN, "etcd: a watch was cancelled: %.*s",
                (int)(watched->reason.len < 120 ? watched->reason.len : 120),
                watched->reason.at);
}

/* The stream is over: none of them is watched.  With mu held. */
static void forget_watches(etcd_watcher *w)
{
    for (size_t i = 0; i < ETCD_BUCKETS; i++) {
        for (etcd_queue *q = w->queues[i], *next; q; q = next) {
            next = q->next;
            etcd_queue_unwatched(w, q);
            if (!q->waiters)
                etcd_queue_free(w, q);
        }
    }
}

/* Whoever waits is told nothing: he would look, ask, and be refused again. */
static void on_refused(etcd_watcher *w, const etcd_watched *watched)
{
    char reason[120];

    snprintf(reason, sizeof reason, "%.*s",
             (int)(watched->reason.len < sizeof reason ? watched->reason.len
                                                       : sizeof reason - 1),
             watched->reason.at);
    hfd_log(HF_LOG_WARN, "etcd: a watch was refused: %s", reason);
    pthread_mutex_lock(&w->mu);
    forget_watches(w);
    w->opening++; /* nobody asks on it any more, nor opens another yet */
    pthread_mutex_unlock(&w->mu);
    grpc_stream_end(w->store->channel, &w->stream);
    pthread_mutex_lock(&w->mu);
    w->opening--;
    w->open = false;
    pthread_mutex_unlock(&w->mu);
    if (!grpc_login_after(w->store->channel, reason))
        etcd_watch_standing(w);
}

/* Neither events nor anything else: all up to its revision was told. */
static bool is_notice(const etcd_watched *watched)
{
    pb_reader events = watched->events;
    etcd_event event;

    return !watched->created && !watched->canceled &&
           !etcd_next_event(&events, &event) && !events.bad;
}

static void on_message(grpc_stream *stream, const void *bytes, size_t len)
{
    etcd_watcher *w = stream->ctx;
    hf__buf rids = {.data = NULL};
    etcd_watched watched;
    bool stray = false;
    etcd_queue *q;

    if (!etcd_read_watched(&watched, bytes, len)) {
        note_everybody(w, &rids);
        tell_due(w, &rids);
        return;
    }
    if (watched.created && watched.canceled && watched.compacted == 0) {
        on_refused(w, &watched);
        return;
    }
    pthread_mutex_lock(&w->mu);
    q = etcd_queue_by_watch(w, watched.id);
    if (!q)
        stray = watched.created && !watched.canceled && w->open;
    else if (watched.canceled)
        on_canceled(w, q, &watched, &rids);
    else if (watched.created)
        on_created(q, &watched, &rids);
    else if (!is_notice(&watched))
        on_events(w, q, &watched, &rids);
    else if (watched.revision > q->heard)
        q->heard = watched.revision;
    pthread_mutex_unlock(&w->mu);
    if (stray) /* asked for on an earlier stream, or dropped meanwhile */
        send_cancel(w, watched.id);
    tell_due(w, &rids);
    etcd_watch_sweep(w);
}

/* ---- The end of the stream ---------------------------------------------- */

static void on_ended(grpc_stream *stream, grpc_code code, const hf_error *why)
{
    etcd_watcher *w = stream->ctx;

    (void)code;
    pthread_mutex_lock(&w->mu);
    w->open = false;
    forget_watches(w);
    pthread_mutex_unlock(&w->mu);
    hfd_log(HF_LOG_DEBUG, "etcd: the stream of watches ended: %s", why->text);
    etcd_watch_standing(w);
}

void etcd_watch_standing(etcd_watcher *w)
{
    bool wanted = false;

    pthread_mutex_lock(&w->mu);
    for (size_t i = 0; i < ETCD_BUCKETS && !wanted; i++) {
        for (etcd_queue *q = w->queues[i]; q && !wanted; q = q->next)
            wanted = q->waiters != NULL;
    }
    pthread_mutex_unlock(&w->mu);
    if (wanted)
        etcd_watch_open(w, NULL);
}

/* ---- Lifetime ----------------------------------------------------------- */

etcd_watcher *etcd_watch_new(hf_store *store)
{
    etcd_watcher *w = hfd_alloc(sizeof *w);

    if (w) {
        w->store = store;
        pthread_mutex_init(&w->mu, NULL);
        w->stream = (grpc_stream){.method = ETCD_WATCH,
                                  .ctx = w,
                                  .message = on_message,
                                  .ended = on_ended};
    }
    return w;
}

/* First of all nobody dials any more: a connection that comes to stand would be
 * told to us. */
void etcd_watch_free(etcd_watcher *w)
{
    grpc_stop(w->store->channel);
    etcd_watch_drop_all(w);
    pthread_mutex_lock(&w->mu);
    w->closing = true;
    pthread_mutex_unlock(&w->mu);
    grpc_stream_end(w->store->channel, &w->stream);
    for (size_t i = 0; i < ETCD_BUCKETS; i++) {
        while (w->queues[i])
            etcd_queue_free(w, w->queues[i]);
    }
    pthread_mutex_destroy(&w->mu);
    hfd_free(w);
}
