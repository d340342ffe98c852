/* store.h - an opened ZooKeeper store: its session, its entries, its jobs.
 *
 * zookeeper.c opens; job.c carries an operation over several flights;
 * table.c knows the entries that this session has in the store; session.c,
 * join.c, look.c, leave.c, list.c, evict.c and probe.c are the operations,
 * survey.c and permit.c what permits add to them;
 * watch.c hears events; park.c lets threads sleep.
 *
 * `mu` guards the session, the table and every entry in it.  It is never held
 * while the wire or the core is called. */
#ifndef HF_DRIVERS_ZOOKEEPER_STORE_H
#define HF_DRIVERS_ZOOKEEPER_STORE_H

#include <pthread.h>
#include <stdatomic.h>

#include "name.h"
#include "net/line.h"
#include "path.h"
#include "wire.h"

enum { ZK_BELLS = 256, ZK_NAME_MAX = 120, ZK_HOST_MAX = 64 };

/* Bytes that are kept from one use to the next. */
typedef struct zk_text {
    char *data;
    size_t len, room;
} zk_text;
/* Room for so many; false: no memory, and it is as it was. */
bool zk_text_reserve(zk_text *text, size_t room);
void zk_text_done(zk_text *text);

/* ---- Entries (table.c) --------------------------------------------------- */

/* One node of ours, from before its creation is sent until it is certain that
 * there is none. */
typedef struct zk_entry {
    struct zk_entry *next;       /* of its bucket, or of the pool */
    struct zk_entry *watch_next; /* of those who watch by the same hash */
    hf_id rid;
    hf_id id; /* the rid as names have it */
    unsigned refs;
    uint8_t mode; /* hf_mode */
    zk_kind kind;
    int32_t seq;
    int64_t czxid;
    int32_t version;     /* of its data, as far as our own writes go */
    bool created;        /* the server has answered with its name */
    bool uncertain;      /* a creation was sent and not answered */
    bool granted;        /* was told so */
    bool leaving;        /* a deletion of ours was sent */
    bool tomb;           /* must not come to life any more */
    bool gone;           /* somebody else deleted it */
    int refused;         /* its join was refused with this code: it withdraws */
    const char *refusal; /* and in these words */
    bool out;            /* not in the table any more */
    bool own_watch;    /* its own deletion and change are watched, or will be */
    bool told;         /* the core knows that it was broken */
    bool armed;        /* whom it waits for is watched */
    bool sole;         /* it waits for nobody but whom it watches */
    bool stirred;      /* an event came since the last look */
    bool quiet;        /* a sleep ended by the clock alone */
    hf_nsec looked;    /* when it was looked at last */
    hf_nsec broken_at; /* when we saw that whom it waits for was broken */
    int32_t broken_version; /* and which version of its data said so */
    hf_nsec broken_for;     /* how long it may take to leave */
    bool stands;            /* a permit: first of those who wait */
    bool taking;    /* a permit: the step to its lease was sent, not answered */
    bool holds;     /* a permit: its node is `lease` now */
    bool surveyed;  /* nobody uses its key in another way */
    int32_t marked; /* a permit: the lease that was read last, or is broken */
    uint32_t places;
    size_t top_len; /* of the key's node */
    size_t dir_len;
    zk_text path; /* of its node; dir_len bytes are the queue's */
    zk_text
        lease; /* a permit: of its lease; lease_dir bytes are the folder's */
    size_t lease_dir;
    zk_text value; /* a permit: what its lease will show */
    zk_text watch; /* of the node that it waits for */
    uint32_t watch_hash;
} zk_entry;

/* Its node, wherever that is now. */
static inline const zk_text *zk_entry_node(const zk_entry *entry)
{
    return entry->holds ? &entry->lease : &entry->path;
}

/* Its node is not there, and its session lives: did somebody else delete it?
 * A deletion of ours is noted before it is sent.  With mu held. */
static inline bool zk_entry_robbed(const zk_entry *entry)
{
    return entry->gone || (entry->created && !entry->leaving);
}

enum { ZK_BUCKETS = 1024 };

/* What an operation's own words are: the job that carries it, the line that it
 * stood in, if it did, and who stands behind it there. */
enum { ZK_OWN_JOB, ZK_OWN_LINE, ZK_OWN_NEXT };

/* ---- Jobs (job.c) -------------------------------------------------------- */

/* What a list of children says about one entry. */
typedef struct zk_look {
    bool found;
    bool blind;  /* somebody is there who cannot see us */
    bool inside; /* so are the insides of a semaphore */
    int32_t seq;
    size_t ahead;     /* how many it waits for */
    const char *whom; /* the nearest of them; alive as long as the reply */
    size_t whom_len;
} zk_look;

/* What a place still needs; to be removed: whom it waits for was broken, and
 * its time is up. */
typedef enum zk_seeing {
    ZK_SEE_LIST,
    ZK_SEE_WATCH,
    ZK_SEE_REMOVE,
    ZK_SEE_LEASES, /* a permit: is a lease free? */
    ZK_SEE_TAKE,   /* it is: take it */
    ZK_SEE_OWN,    /* was it taken? */
    ZK_SEE_MARK,   /* none is free: was a holder broken? */
    ZK_SEE_HOME,   /* the node that leases are below is to be made */
    ZK_SEE_DONE
} zk_seeing;

typedef struct zk_member { /* of a look at up to four places */
    zk_entry *entry;       /* referenced */
    hf_place *place;
    zk_seeing needs;
    bool sole;
    zk_text whom;
    zk_text data;
    zk_request parts[3]; /* of the step to a lease */
    int32_t seq;         /* of the lease that is read */
} zk_member;

typedef struct zk_job zk_job;

/* Who else uses a key, as far as a join must know. */
typedef struct zk_survey {
    int32_t error;   /* of a list */
    size_t ahead;    /* who wait before it */
    size_t leases;   /* how many are taken */
    bool inside;     /* a lock: the key has the insides of a semaphore */
    bool homeless;   /* there is no node for leases yet */
    bool other_kind; /* locks, where permits are wanted, or the other way */
    bool witness;    /* one of ours: its data says how many places there are */
    int32_t first;   /* its number */
    zk_text path;    /* of the witness, or of the semaphore's insides */
    void (*next)(zk_job *job);
} zk_survey;

struct zk_job {
    zk_call call; /* the first member */
    zk_job *next; /* of the pool */
    hf_store *store;
    hf_op *op; /* NULL: of the driver itself */
    int step;  /* the operation's */
    bool under_way;
    bool repeated; /* an attempt was lost, and all was asked again */
    bool expired;  /* a reply said that the session is over */
    int32_t error; /* of a reply that counts */
    unsigned tries, reads;
    hf_nsec touched;    /* what the first question of a renewal counts from */
    bool synced;        /* what is read now is not older than the operation */
    bool at_lease;      /* what is deleted is a permit's lease */
    bool dir_too;       /* the flight creates the queue's node as well */
    hf_outcome outcome; /* of its end */
    int code;           /* what is answered when all is cleaned up */
    zk_entry *entry;    /* referenced */
    zk_text path, data;
    zk_survey survey; /* survey.c */
    zk_member members[ZK_MOST_REQUESTS];
    unsigned member_count;
    uint8_t asked[ZK_MOST_REQUESTS]; /* whose request it is */
    size_t at;                       /* how many of many are done */
    const char *above;               /* parents.c: whose parents are made */
    size_t above_len;
    void (*ready)(zk_job *job); /* and what is next */
    void *more;                 /* a longer operation's own memory */
    void (*take)(zk_job *job, unsigned i, const zk_reply *reply);
    void (*done)(zk_job *job);   /* all of the flight were answered */
    void (*redo)(zk_job *job);   /* begin again; NULL: cannot */
    void (*end)(zk_job *job);    /* frees `more`; NULL: nothing to free */
    void (*looked)(zk_job *job); /* of look.c: every member has a verdict */
};

struct hf_store {
    hf_host host;
    zk_wire *wire;
    hf__tls *tls;
    size_t member_count;
    char members[16][80]; /* as the URL has them */
    bool exposed;         /* plain TCP that leaves this machine */
    char root[ZK_ROOT_MAX + 1];
    size_t root_len;
    hf_nsec tick;
    bool write_beats; /* heartbeat=write */
    bool kazoo, rw, closed_acl;
    atomic_bool plain_parents; /* the server has no containers */
    char host_name[ZK_HOST_MAX];
    int64_t pid;

    pthread_mutex_t mu;
    bool attached;
    bool over;   /* the server has ended it */
    bool ending; /* we are ending it */
    hf_id sid;
    int64_t session;
    hf_nsec timeout;   /* as negotiated */
    hf_nsec lease_end; /* until then the core may believe in it */
    hf_nsec ttl;
    int64_t started_ms; /* wall clock of the attach, for listings */
    char name[ZK_NAME_MAX];
    size_t entry_count;
    zk_entry *entries[ZK_BUCKETS];
    zk_entry *watchers[ZK_BUCKETS];
    zk_entry *spare_entries;
    unsigned spare_count;
    zk_job *spare_jobs;
    unsigned spare_job_count;
    hf__line line; /* of what nobody drives */
    bool patrolling;

    pthread_mutex_t park_mu;
    struct zk_parked *parked;
    atomic_uint bells[ZK_BELLS];
};

static inline void zk_store_lock(hf_store *store)
{
    pthread_mutex_lock(&store->mu);
}
static inline void zk_store_unlock(hf_store *store)
{
    pthread_mutex_unlock(&store->mu);
}

/* ---- table.c ---- */

/* With mu held, all of them. */
zk_entry *zk_entry_find(hf_store *store, const hf_id *rid);
/* By what its name says; the version's bits are ignored. */
zk_entry *zk_entry_find_id(hf_store *store, const hf_id *id);
/* A new one, in the table, with one reference more for the caller; NULL: no
 * memory. */
zk_entry *zk_entry_new(hf_store *store, const hf_place *place, zk_kind kind);
void zk_entry_ref(zk_entry *entry);
void zk_entry_unref(hf_store *store, zk_entry *entry);
void zk_entry_remove(hf_store *store, zk_entry *entry); /* from the table */
void zk_table_clear(hf_store *store);
void zk_table_done(hf_store *store); /* frees the spare ones, too */
/* The node was created under this name. */
bool zk_entry_name(zk_entry *entry, const char *path, size_t len);
/* It waits for this node, which is watched from now on; false: no memory. */
bool zk_entry_arm(hf_store *store, zk_entry *entry, const zk_text *path,
                  bool sole);
void zk_entry_disarm(hf_store *store, zk_entry *entry);
/* Somebody who is armed on this path, disarmed; NULL: nobody is. */
zk_entry *zk_watcher_take(hf_store *store, const char *path, size_t len,
                          bool *ret_sole);

/* ---- job.c ---- */

/* For this operation; NULL: no memory, and the operation is finished. */
zk_job *zk_job_new(hf_store *store, hf_op *op);
void zk_job_free(zk_job *job);
/* Send what is in call.requests[0 .. count); `done` is next. */
void zk_job_send(zk_job *job, unsigned count);
zk_request *zk_job_ask(zk_job *job, unsigned i, zk_op op, const char *path,
                       size_t len);
/* Send: the children of a node, by a member that is not behind the leader as
 * of now; request 0 is the sync, 1 the list. */
void zk_ask_fresh_list(zk_job *job, const char *path, size_t len);
/* Ends: the operation is answered, the job is gone. */
void zk_job_finish(zk_job *job, hf_outcome outcome, int code);
void zk_job_ok(zk_job *job);
void zk_job_refuse(zk_job *job, int code, const char *text);
void zk_job_refused(zk_job *job, int32_t error, const char *path);
/* What the operation's error will say. */
void zk_op_note(zk_job *job, int code, const char *text);
void zk_job_no_memory(zk_job *job);
/* Refused, but something of it is in the store. */
void zk_job_unsettled(zk_job *job, int32_t error);
void zk_job_expired(zk_job *job);
void zk_store_drive(hf_store *store, hf_op *op);
/* Answered without a word to the server. */
void zk_op_ok(hf_op *op);
void zk_op_refuse(hf_op *op, hf_outcome outcome, int code, const char *text);

/* ---- session.c ---- */

void zk_attach(hf_store *store, hf_op *op);
void zk_renew(hf_store *store, hf_op *op);
void zk_detach(hf_store *store, hf_op *op);
/* Is this the session that stands?  With mu held. */
bool zk_session_is(const hf_store *store, const hf_id *sid);

/* ---- parents.c ---- */

/* Make the nodes above this one, then go on. */
void zk_parents_go(zk_job *job, const char *path, size_t len,
                   void (*ready)(zk_job *job));
/* Ask for one of them. */
void zk_parents_ask(zk_job *job, unsigned i, const char *path, size_t len);

/* ---- patrol.c ---- */

/* Add to a flight of i requests those that watch own nodes; how many there
 * are now. */
unsigned zk_patrol_fill(zk_job *job, unsigned i);
void zk_patrol_take(zk_job *job, unsigned i, const zk_reply *reply);
void zk_patrol_undone(zk_job *job); /* those without an answer are due again */
/* Watch what is held and not watched yet, in the background. */
void zk_patrol_go(hf_store *store);

/* ---- join.c, look.c, leave.c ---- */

void zk_join(hf_store *store, hf_op *op);
void zk_recheck(hf_store *store, hf_op *op);
void zk_leave(hf_store *store, hf_op *op);
void zk_publish(hf_store *store, hf_op *op);
void zk_look_read(zk_look *look, const zk_reply *children, const hf_id *id,
                  zk_kind kind, bool known, int32_t seq);
/* The same for one who would stand at the end. */
void zk_look_read_end(zk_look *look, const zk_reply *children, zk_kind kind);
/* The answers of zk_ask_fresh_list about an entry that may be there: its name
 * and number are noted.  False: not told (yet), see job->error.  With mu
 * held. */
bool zk_look_find(zk_job *job, unsigned i, const zk_reply *reply,
                  bool *ret_found);
/* What to ask of it first; with mu held. */
zk_seeing zk_look_begin(const zk_entry *entry);
/* Ask on until every member of job has its verdict, then `looked`. */
void zk_look_go(zk_job *job);
/* What a list says of a member: verdict, or what it needs next; false: no
 * memory. */
bool zk_look_judge(zk_job *job, zk_member *member, const zk_look *look);
void zk_place_gone(hf_place *place, int reason);
/* Its verdict is this one. */
void zk_settle(zk_member *member, hf_verdict verdict);
/* Its node is not there, and its session lives. */
void zk_settle_gone(zk_job *job, zk_member *member);

/* ---- permit.c ---- */

/* Ask what a permit needs next; take the answer: false: no memory. */
void zk_permit_ask(zk_job *job, unsigned i, zk_member *member);
bool zk_permit_take(zk_job *job, zk_member *member, const zk_reply *reply);
/* The step to a lease is next; false: no memory. */
bool zk_permit_prepare(zk_job *job, zk_member *member);
size_t zk_permit_count(const zk_reply *leases);
/* Is a lease of this entry in the list?  Then it holds. */
bool zk_permit_adopt(zk_job *job, zk_entry *entry, const zk_reply *leases);

/* ---- survey.c ---- */

/* Three requests from i on, and what answers them. */
void zk_survey_ask(zk_job *job, unsigned i);
void zk_survey_take(zk_job *job, unsigned i, const zk_reply *reply);
/* The same alone. */
void zk_survey_go(zk_job *job, void (*next)(zk_job *job));
/* All lists are here: does one of ours say another number of places? */
void zk_survey_judge(zk_job *job, void (*next)(zk_job *job));
/* For who is no permit: does anybody use the semaphore inside this key? */
void zk_survey_inside(zk_job *job, void (*next)(zk_job *job));

/* ---- data.c ---- */

typedef struct zk_data { /* of a node; strings point into the bytes */
    bool ours;
    hf_id rid, sid;
    bool has_mode;
    uint8_t mode;
    uint32_t places;
    int64_t number; /* a permit's place in the queue; 0: its node's */
    int64_t pid, ttl_ms, broken_ms;
    bool broken;
    const char *host, *name; /* escaped */
    size_t host_len, name_len;
    const char *value;
    size_t value_len;
} zk_data;
void zk_data_read(zk_data *ret, const char *bytes, size_t len);
/* The data of an entry of this session; with mu held. */
bool zk_data_write(zk_text *out, const hf_store *store, const zk_entry *entry,
                   const void *value, size_t value_len);
/* The same data with a mark: its owner has so long to leave. */
bool zk_data_mark(zk_text *out, const char *bytes, size_t len, int64_t ms);
/* Undo the escapes; out has room for len + 1. */
void zk_data_unescape(char *out, const char *text, size_t len);

/* ---- watch.c ---- */

void zk_on_event(void *ctx, int32_t type, const char *path, size_t len);
void zk_on_again(void *ctx, int64_t session);
void zk_on_doubt(void *ctx, int code, const char *text);
void zk_on_over(void *ctx, int64_t session, const char *text);

/* ---- park.c ---- */

void zk_park(hf_store *store, const hf_place *place, hf_nsec until);
void zk_unpark(hf_store *store, const hf_place *place);
void zk_note_bell(hf_store *store, hf_place *place);
void zk_ring(hf_store *store, const hf_id *rid);
void zk_ring_all(hf_store *store);

/* ---- list.c, evict.c, probe.c ---- */

void zk_list(hf_store *store, hf_op *op);
void zk_evict(hf_store *store, hf_op *op);
void zk_probe(hf_store *store, hf_op *op);

#endif
