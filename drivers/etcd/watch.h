/* watch.h - between watch.c, who waits, and watch_stream.c, who tells. */
#ifndef HF_DRIVERS_ETCD_WATCH_H
#define HF_DRIVERS_ETCD_WATCH_H

#include "store.h"

enum { ETCD_BUCKETS = 256, ETCD_REMEMBERED = 4 };

typedef struct etcd_waiter {
    struct etcd_waiter *next;
    hf_id rid;
    int64_t num, seen; /* its place; the revision of its last answer */
    etcd_ahead ahead;
    uint64_t mine;  /* hash of its own suffix */
    hf_nsec looked; /* when that answer came */
    bool pushed;    /* the keeper reads for it */
    bool told;      /* since then: it has to look */
} etcd_waiter;

typedef enum etcd_watching {
    ETCD_WATCH_NONE = 0,
    ETCD_WATCH_ASKED,
    ETCD_WATCH_OPEN
} etcd_watching;

typedef struct etcd_queue {
    struct etcd_queue *next;       /* of the same bucket by key */
    struct etcd_queue *next_by_id; /* while it is watched: by its watch */
    etcd_waiter *waiters;
    uint64_t hash;
    etcd_watching state;
    int64_t id;         /* of the watch */
    int64_t since;      /* everything after this revision is told */
    int64_t heard;      /* the last revision that was told; 0: none */
    hf_nsec idle_since; /* nobody waits any more; HF_NEVER */
    bool former;        /* events say who it was that left */
    struct {
        int64_t revision;
        uint64_t hash;
    } last[ETCD_REMEMBERED]; /* deletions */
    size_t next_last;
    int64_t forgotten; /* the newest that is not among them any more */
    uint16_t key_len;
    char key[];
} etcd_queue;

struct etcd_watcher {
    hf_store *store;
    pthread_mutex_t mu; /* guards all but the stream itself */
    etcd_queue *queues[ETCD_BUCKETS];
    etcd_queue *watched[ETCD_BUCKETS]; /* by the watch's number */
    int64_t last_id;
    hf_nsec swept;    /* when idle watches were looked for last */
    hf_nsec opened;   /* when the stream was opened last */
    unsigned stood;   /* ... and which connection stood then; 0: none */
    bool open;        /* the stream, or somebody opens it */
    unsigned opening; /* how many do: nothing is asked meanwhile */
    bool closing;
    grpc_stream stream;
    etcd_names names; /* to write a request with, under mu */
};

/* ---- watch.c ---- */

etcd_queue *etcd_queue_of(etcd_watcher *w, const hf_place *place);
etcd_queue *etcd_queue_by_watch(etcd_watcher *w, int64_t id);
/* It is watched by a new number, or no more; with mu held. */
void etcd_queue_watched(etcd_watcher *w, etcd_queue *q);
void etcd_queue_unwatched(etcd_watcher *w, etcd_queue *q);
void etcd_queue_free(etcd_watcher *w, etcd_queue *q);

/* ---- watch_stream.c ---- */

/* Open the stream if it is not, and ask for the watch of this key; NULL: for
 * all that are wanted. */
void etcd_watch_open(etcd_watcher *w, const hf_place *place);
/* Cancel what nobody has needed for a while, now and then. */
void etcd_watch_sweep(etcd_watcher *w);

#endif
