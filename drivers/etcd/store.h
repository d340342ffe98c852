/* store.h - an opened etcd store, and what its files share.
 *
 * etcd.c opens, parks and passes on; call.c carries an operation through its
 * requests; name.c and record.c know what a key and a value look like, view.c
 * what a queue is; the other files are one operation each.
 *
 * Locks: `mu` guards the session, the spare works and the slots; watch.c has
 * one of its own, `park_mu` guards the parked threads.  All are leaves, and
 * none is held while the channel or the core is called. */
#ifndef HF_DRIVERS_ETCD_STORE_H
#define HF_DRIVERS_ETCD_STORE_H

#include <pthread.h>
#include <stdatomic.h>

#include <holdfast/driver.h>

#include "grpc.h"
#include "net/line.h"
#include "rpc.h"

enum { ETCD_PREFIX_MAX = 200, ETCD_ID = 32, ETCD_LEASE_HEX = 16 };
enum { ETCD_SUFFIX_MAX = ETCD_LEASE_HEX + 1 + ETCD_ID };
enum { ETCD_KEY_ROOM = ETCD_PREFIX_MAX + HF_KEY_MAX + 1 + ETCD_SUFFIX_MAX };
enum { ETCD_BELLS = 256, ETCD_HOSTS_MAX = 16, ETCD_SLOTS = 1024 };
enum {
    ETCD_WHO_MAX = 200
}; /* host and name of a session, as they are stored */

/* What the driver notes in place.own[1], beside HF_PLACE_PUSH; own[0] is the
 * bell of park. */
#define ETCD_PLACE_PLAIN UINT64_C(1) /* its key is K/<lease> */
#define ETCD_PLACE_OWN UINT64_C(2)   /* its key is K/<lease>.<rid> */

/* ---- name.c: keys ------------------------------------------------------- */

/* The keys that concern one entry; texts point into `bytes`. */
typedef struct etcd_names {
    etcd_text dir, dir_end; /* the queue: [dir, dir_end) */
    etcd_text plain, own;   /* the entry, by one name or the other */
    etcd_text gone;         /* its tomb, or the news that it was broken */
    char bytes[ETCD_KEY_ROOM + ETCD_PREFIX_MAX + HF_KEY_MAX + 1 +
               ETCD_PREFIX_MAX + 14 + 2 + ETCD_SUFFIX_MAX];
} etcd_names;

typedef struct etcd_suffix { /* what stands behind K/ */
    int64_t lease;
    bool has_rid;
    hf_id rid;
} etcd_suffix;

int64_t etcd_lease_of(const hf_id *sid); /* positive, for ever the same */
/* What stands behind K/, into ret[ETCD_SUFFIX_MAX]; rid NULL: K/<lease>. */
etcd_text etcd_name_suffix(char *ret, int64_t lease, const hf_id *rid);
void etcd_name_queue(etcd_names *ret, const hf_store *store, const char *key,
                     size_t len); /* dir and dir_end alone */
void etcd_name_entry(etcd_names *ret, const hf_store *store, const char *key,
                     size_t len, int64_t lease, const hf_id *rid);
/* [ret, ret_end): all tombs and news of this lease; buf: ETCD_KEY_ROOM * 2 */
void etcd_name_gone(char *buf, const hf_store *store, int64_t lease,
                    etcd_text *ret, etcd_text *ret_end);
/* False: it is not the name of an entry. */
bool etcd_read_suffix(etcd_suffix *ret, etcd_text text);
/* Whose tomb or news: the rid at the end of such a key. */
bool etcd_read_gone(hf_id *ret, etcd_text key);
bool etcd_same_text(etcd_text a, etcd_text b);
char *etcd_put_id(char *at, const hf_id *id); /* its end */
bool etcd_read_id(hf_id *ret, const char *text, size_t len);
int etcd_hex_digit(char c); /* -1: none */

/* ---- record.c: values --------------------------------------------------- */

typedef struct etcd_record {
    bool ours; /* else a Go client's: exclusive, and nothing else is known */
    bool broken;
    uint8_t mode;
    uint32_t places;
    hf_id rid, sid;
    int64_t ttl; /* seconds, of its session's lease; 0: unknown */
    int64_t pid, since_us;
    etcd_text who;   /* host and name, escaped */
    etcd_text value; /* the user's */
} etcd_record;

void etcd_read_record(etcd_record *ret, etcd_text value);
void etcd_put_record(hf__buf *out, const etcd_record *record);
/* Host and name, so that no byte of theirs is taken for something else. */
void etcd_make_who(char *ret, size_t room, const char *host, const char *name,
                   size_t name_len);
/* ... and back; each is as long as room allows, and ends with NUL. */
void etcd_split_who(etcd_text who, char *host, size_t host_room, char *name,
                    size_t name_room);

/* ---- view.c: a queue as it was at one revision -------------------------- */

typedef struct etcd_entry {
    int64_t created, modified;
    etcd_text suffix;
    etcd_suffix name;
    etcd_record record;
} etcd_entry;

typedef struct etcd_view { /* oldest first; only what is an entry's name */
    etcd_entry *entries;
    hf_seat *seats; /* of the same */
    size_t count, room;
} etcd_view;

typedef enum etcd_reading { ETCD_READ, ETCD_BAD, ETCD_NO_MEMORY } etcd_reading;
/* dir_len: of the queue's folder, cut from the keys. */
etcd_reading etcd_read_view(etcd_view *view, etcd_rows *rows, size_t dir_len);
void etcd_view_done(etcd_view *view);
/* As if this place had just come; false: no memory. */
bool etcd_view_add(etcd_view *view, const hf_place *place);
/* Where this rid of that lease stands; count: nowhere. */
size_t etcd_view_find(const etcd_view *view, int64_t lease, const hf_id *rid);
/* Is the queue, without me, in use as another kind of lock? */
bool etcd_view_other_kind(const etcd_view *view, size_t me, hf_mode mode,
                          uint32_t places);

typedef struct etcd_ahead { /* whom a waiter waits for */
    uint64_t hash;          /* of the suffix; 0: of nobody in particular */
    uint32_t leaves;        /* or: so many of those ahead have to leave */
    hf_nsec look_in;
} etcd_ahead;
/* The rule, of seats in order of num. */
hf_verdict etcd_judge_seats(const hf_seat *seats, size_t n, size_t me,
                            size_t *ret_for);
hf_verdict etcd_view_judge(const etcd_view *view, size_t me, etcd_ahead *ret);
uint64_t etcd_hash(etcd_text text);
hf_nsec etcd_look_in(const etcd_record *ahead);

/* ---- call.c: an operation on its way ------------------------------------ */

typedef struct etcd_work etcd_work;
/* A request was answered: GRPC_OK with the reply's bytes, else a refusal. */
typedef void etcd_step(hf_op *op, etcd_work *work, grpc_code code,
                       etcd_text reply, const hf_error *why);

/* What a work has announced about the name K/<lease>; see plain.c. */
typedef enum etcd_claim { ETCD_NO_CLAIM, ETCD_JOINS, ETCD_LEAVES } etcd_claim;

struct etcd_work { /* kept and used again; everything below `store` is 0 */
    etcd_work *next;
    hf__buf out, value; /* the request; a value for it */
    etcd_names names;
    etcd_view view;
    hf_store *store;
    etcd_step *step;
    int64_t lease;    /* of the session that speaks */
    int64_t revision; /* what a step must remember for the next */
    int64_t created;  /* ... and of whom, or the leader's term */
    unsigned answers; /* requests of this operation that were answered */
    size_t at;        /* how far it got */
    bool again;       /* the entry was there already */
    bool plain;       /* the name that was sent is K/<lease> */
    bool pending;     /* what it has claimed may still be done by the server */
    etcd_claim claim;
    void *more; /* the operation's own memory */
    void (*free_more)(void *more);
};

/* What an op's own[] is used for. */
typedef struct etcd_own {
    grpc_call call;
    etcd_work *work;
    bool under_way; /* sent once, by the thread that started it */
    bool counted;   /* it stood in the store's line */
    hf_op *next;    /* in the line */
} etcd_own;
_Static_assert(sizeof(etcd_own) <= sizeof(((hf_op *)0)->own),
               "an operation has no room for a call");
static inline etcd_own *etcd_own_of(hf_op *op)
{
    return (etcd_own *)(void *)op->own;
}
static inline hf_op *etcd_op_from(grpc_call *call)
{
    return (hf_op *)(void *)((char *)call - offsetof(hf_op, own));
}

/* The work of an operation; NULL: no memory, and op is finished. */
etcd_work *etcd_begin(hf_store *store, hf_op *op);
/* An empty request. */
hf__buf *etcd_new_request(etcd_work *work);
/* Send what is in work->out; `step` gets the answer.  Without an answer op is
 * finished with what is known. */
void etcd_send(hf_op *op, const char *method, etcd_step *step);
/* Each finishes op and gives the work back. */
void etcd_done(hf_op *op);
void etcd_refuse(hf_op *op, int code, const char *text); /* applied */
void etcd_refused(hf_op *op, const hf_error *why);       /* by the server */
void etcd_bad_reply(hf_op *op);                          /* unknown */
void etcd_unsure(hf_op *op, const char *text);           /* unknown: again */
void etcd_no_memory(hf_op *op);
/* `code` is GRPC_OK; else op is finished: HF_EEXPIRED if the lease is gone. */
bool etcd_answered(hf_op *op, grpc_code code, const hf_error *why);
void etcd_work_free(etcd_work *work);

/* Verdicts. */
void etcd_granted(hf_place *place, int64_t created);
void etcd_is_gone(hf_place *place, int reason);
/* ... and whoever waits is told when it may be his turn (watch.c): seen is the
 * revision of the answer that says so. */
void etcd_waits(const etcd_work *work, hf_place *place, int64_t created,
                const etcd_ahead *ahead, int64_t seen);

/* ---- plain.c: the name K/<lease> ---------------------------------------- */

typedef struct etcd_slot {  /* for all names of one hash */
    int64_t latest;         /* create revision of what was put there last */
    uint32_t joins, leaves; /* under way, or never answered */
} etcd_slot;

/* May a join put its entry there?  Both stay claimed until the work ends, or
 * for ever if they are `pending` then. */
bool etcd_claim_join(etcd_work *work);
void etcd_claim_put(etcd_work *work, int64_t created); /* it did */
/* May the entry of that revision be deleted without a condition? */
bool etcd_claim_leave(etcd_work *work, int64_t created);
void etcd_claim_end(etcd_work *work);

/* ---- One file each ------------------------------------------------------ */

void etcd_attach(hf_store *store, hf_op *op);
void etcd_renew(hf_store *store, hf_op *op);
void etcd_detach(hf_store *store, hf_op *op);
void etcd_join(hf_store *store, hf_op *op);
void etcd_try(hf_store *store, hf_op *op);
void etcd_leave(hf_store *store, hf_op *op);
void etcd_recheck(hf_store *store, hf_op *op);
void etcd_publish(hf_store *store, hf_op *op);
void etcd_list(hf_store *store, hf_op *op);
void etcd_evict(hf_store *store, hf_op *op);
void etcd_probe(hf_store *store, hf_op *op);

/* The value of a new entry, into work->value. */
void etcd_make_value(hf_op *op, etcd_work *work);
/* What the key under names.gone says. */
int etcd_gone_reason(const etcd_kv *gone);
#define ETCD_BROKEN "broken"
#define ETCD_TOMB "tomb"

/* Read both keys of an entry and its tomb, in that order, in this branch. */
void etcd_do_find(hf__buf *out, etcd_branch branch, const etcd_names *names);
typedef struct etcd_found {
    etcd_kv mine;  /* created 0: not there */
    etcd_kv plain; /* K/<lease>, whosever it is */
    etcd_kv gone;
    etcd_record record; /* of mine */
    uint64_t form;      /* ETCD_PLACE_... */
} etcd_found;
bool etcd_read_found(etcd_found *ret, etcd_txn *txn, const hf_id *rid);

/* ---- watch.c ------------------------------------------------------------ */

typedef struct etcd_watcher etcd_watcher;
etcd_watcher *etcd_watch_new(hf_store *store);
/* The channel still exists, and is of no use any more but to be closed. */
void etcd_watch_free(etcd_watcher *watcher);
/* Tell when the queue changes for this place, an entry of that lease. */
void etcd_watch_add(etcd_watcher *watcher, const hf_place *place, int64_t lease,
                    const etcd_ahead *ahead, int64_t seen);
/* It waits as before, for all that the watch has told: no look is needed. */
bool etcd_watch_vouches(etcd_watcher *watcher, const hf_place *place);
void etcd_watch_drop(etcd_watcher *watcher, const hf_place *place);
void etcd_watch_drop_all(etcd_watcher *watcher); /* the session is over */
void etcd_watch_standing(etcd_watcher *watcher); /* a connection stands */

/* ---- etcd.c ------------------------------------------------------------- */

typedef struct etcd_parked { /* a thread in park, on its stack */
    struct etcd_parked *next;
    hf_id rid;
    hf__waiter waiter;
} etcd_parked;

struct hf_store {
    hf_host host;
    grpc_channel *channel;
    etcd_watcher *watcher;
    hf__tls *tls;
    size_t member_count; /* that the URL names */
    char where[ETCD_HOSTS_MAX][64];
    bool exposed; /* plain TCP that leaves this machine */
    bool has_user;
    char prefix[ETCD_PREFIX_MAX + 1];
    size_t prefix_len;
    char host_name[64];
    int64_t pid; /* of this process; a child has no use of the store */
    pthread_mutex_t mu;
    hf_id sid; /* the session that attached last */
    int64_t ttl;
    char who[ETCD_WHO_MAX];
    etcd_work *spare;
    size_t spare_count;
    etcd_slot slots[ETCD_SLOTS];
    hf__line line;         /* of what nobody drives */
    _Atomic hf_nsec heard; /* when a majority answered through our member */
    pthread_mutex_t park_mu;
    etcd_parked *parked;
    atomic_uint bells[ETCD_BELLS];
};

/* Note the bell of a place that is about to be joined or rechecked. */
void etcd_note_bell(hf_store *store, hf_place *place);
/* Ring it, wake whoever is parked on it, and tell the core. */
void etcd_tell(hf_store *store, const hf_id *rid);

#endif
