/* internal.h - the objects of the core and who owns them.
 *
 *   session --+-- keys:    a key in use by this process; freed when neither
 *             |            held nor waited for
 *             +-- entries: our places in the store's queues
 *             +-- requests under way, results to be collected
 *
 *   key:      line (requests that wait here, in this process) and entries
 *   entry:    JOINING -> WAITING -> GRANTED -> LEAVING; counted references
 *   hold:     one handle on a granted entry; re-entry makes a second one
 *   request:  LINE -> DUE -> JOINING -> WAITING -> (CONFIRMING) -> DONE
 *
 * One mutex per session guards all of it.  It is never held while a driver is
 * called: whatever is to be started is put into the outbox under the mutex and
 * started by hf__session_unlock after it.  A blocking caller runs the
 * operations of its own request on its own thread. */
#ifndef HF_CORE_INTERNAL_H
#define HF_CORE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include <holdfast/driver.h>

#include "base/heap.h"
#include "base/list.h"
#include "core/bell.h"
#include "core/lease.h"
#include "core/mutant.h"
#include "core/work.h"

/* A hand-over through a store takes a part of a millisecond, so much may be
 * used here before it: a run is HF_RUN_SURE sections, however long they are,
 * and goes on up to HF_RUN_MAX in its first millisecond. */
enum { HF_RUN_SURE = 16, HF_RUN_MAX = 64, HF_LOOK_MAX = 256 };
#define HF_RUN_TIME HF_MS(1)

typedef struct hf__session hf__session;
typedef struct hf__key hf__key;
typedef struct hf__entry hf__entry;
typedef struct hf__hold hf__hold;
typedef struct hf__req hf__req;

/* ---- batch.c: many places in one operation ---- */

typedef struct hf__batch {
    size_t count;
    hf_place *copies;    /* the entries' own are touched under the mutex */
    hf_place **pointers; /* for op.places */
    hf__entry **entries; /* referenced: the copies point to their keys */
} hf__batch;

/* ---- flights: operations that nobody waits for on his own thread ---- */

typedef struct hf__flight {
    hf_op op;
    hf__session *s;
    hf__job job;      /* its node is also the link in the outbox */
    hf_place place;   /* a copy: the entry's own is touched under the mutex */
    hf__entry *entry; /* referenced while under way; may be NULL */
    hf__req *req;     /* served; NULL: none */
    uint64_t gen;     /* of the session when it was made */
    void (*landed)(struct hf__flight *flight); /* with the mutex held */
    hf__batch batch; /* of a recheck, and of a renewal with HF_CAP_EACH */
} hf__flight;

bool hf__batch_init(hf__batch *batch, size_t room); /* false: no memory */
void hf__batch_add(hf__batch *batch, hf__entry *entry);
void hf__batch_done(hf__batch *batch);
/* Holds of a store with HF_CAP_EACH expire one by one: a renewal takes all of
 * them along, and its answer is about each.  false: no memory. */
bool hf__each_fill(hf__session *s, hf__batch *batch, hf_op *op);
void hf__each_answered(hf__session *s, const hf__batch *batch, const hf_op *op);

/* ---- requests ---- */

typedef struct hf__want { /* hf_lock_options, checked, in our units */
    hf_mode mode;
    uint32_t places;
    bool try_only;
    uint16_t value_len;
    hf_nsec lease, at_most, at_least; /* 0: none */
    uint64_t owner;                   /* resolved */
    const void *value;
} hf__want;

typedef struct hf__manner { /* the rest of them: needed at the start alone */
    hf_nsec wait;
    int cancel_fd;
    hf_change_fn *on_change;
    void *user;
} hf__manner;

typedef enum hf__req_state {
    HF_REQ_LINE = 0, /* waits in this process, for its turn or a pause */
    HF_REQ_DUE,      /* its join is to be sent */
    HF_REQ_JOINING,  /* sent */
    HF_REQ_WAITING,  /* stands in the store's queue */
    HF_REQ_CONFIRM,  /* granted; its fixed lease is to be started */
    HF_REQ_CONFIRMING,
    HF_REQ_BUSY, /* a release, renewal or publication under way */
    HF_REQ_DONE
} hf__req_state;

typedef struct hf__result {
    hf__node node; /* in session.results */
    hf_result_kind kind;
} hf__result;

struct hf__req {
    hf__session *s;
    uint64_t id; /* its handle; 0: a blocking one */
    hf__node all;
    hf__node line; /* in key.line */
    hf__key *key;
    hf__entry *entry;
    hf__hold *hold; /* made ready at the start, so a grant can't fail */
    hf__want want;
    hf__req_state state;
    int stop;        /* asked to end while it could not: with this code */
    hf_nsec give_up; /* stop retrying an unreachable store */
    hf_nsec deadline, retry_at;
    hf__timer timer;
    uint16_t failures;
    bool parked;     /* asleep in the driver */
    hf_op_kind kind; /* JOIN, LEAVE, RENEW or PUBLISH */
    int cancel_dup;  /* what the keeper watches; -1: none */
    int code;
    hf__bell *bell;      /* the caller's; NULL: collected */
    hf__entry *to_leave; /* for its thread to leave before it returns */
    uint64_t hold_id;    /* the hold it made or was about */
    void *user;
    hf_error *error; /* detail; NULL: the code's own text */
    hf__result result;
};

/* ---- entries and holds ---- */

typedef enum hf__entry_state {
    HF_ENTRY_JOINING = 0,
    HF_ENTRY_WAITING,
    HF_ENTRY_GRANTED,
    HF_ENTRY_LEAVING, /* the store has not answered yet */
    HF_ENTRY_GONE
} hf__entry_state;

typedef enum hf__doubted { /* as it stood when an audit was sent */
                           HF_DOUBTED_NOT = 0,
                           HF_DOUBTED_PLACE,
                           HF_DOUBTED_HOLD
} hf__doubted;

struct hf__entry {
    hf_place place;
    hf__session *s;
    hf__key *key;
    hf__node of_key, of_session;
    hf__entry *rid_next; /* chain of the session's table of rids */
    unsigned refs;
    hf__entry_state state;
    bool in_rids;
    bool stray;  /* some attempt had no answer, and may arrive yet */
    bool pushed; /* news came while its join was under way: look at once */
    uint64_t early_token; /* a grant that came so; 0: none */
    uint32_t early_run;
    bool listed; /* in the lists of key and session */
    hf__doubted doubted;
    uint16_t value_len;
    hf_nsec look_at; /* while it waits: look then; HF_NEVER: under way */
    bool look_timed; /* ... since time has passed, and for nothing else */
    uint64_t gen;    /* of the session it was joined in */
    hf__req *req;    /* whom it serves while it is not granted */
    /* granted: */
    hf_state told; /* HF_HELD, HF_DOUBTFUL or HF_LOST, as last told */
    int reason;
    uint64_t owner, token;
    uint32_t spare;       /* numbers left for local hand-overs */
    int fd;               /* that tells the loss; -1: not asked for */
    hf_nsec run_since;    /* when the first of the run was granted */
    hf_nsec own_deadline; /* of a fixed lease, or of a hold that expires by
                             itself (HF_CAP_EACH); HF_NEVER: none */
    hf_nsec sure_at;      /* when what set it was sent */
    hf_nsec cap;          /* at_most_ms; HF_NEVER: none */
    hf_nsec granted_at, at_least;
    hf__timer timer; /* own deadline, cap, or the next try to leave */
    hf__node holds;
    unsigned hold_count, leave_tries;
    void *value;
};

struct hf__hold {
    uint64_t id;
    hf__entry *entry;
    hf__node node; /* in entry.holds */
    atomic_uint refs;
    bool collected; /* taken by hf_lock_start: changes are results */
    bool spent, telling;
    hf_change_fn *on_change;
    void *user, *request_user;
    hf_state state; /* to be told */
    int reason;
    hf__job job;
    hf__result result;
};

struct hf__key {
    hf__key *next; /* chain of the session's table */
    uint64_t hash;
    unsigned refs; /* requests and entries */
    hf__node line, entries;
    size_t line_count;
    hf__entry *exclusive; /* ours in the store's queue, or as good as */
    hf__req *joining;     /* one join at a time keeps the order */
    uint16_t len;
    char text[];
};

/* ---- the session ---- */

typedef enum hf__attach_state {
    HF_ATTACH_NONE = 0,
    HF_ATTACH_RUNNING,
    HF_ATTACH_DONE
} hf__attach_state;

struct hf__session {
    uint64_t id; /* its handle */
    pthread_mutex_t mu;
    hf__node open_node; /* in the list of open sessions */
    uint64_t fork_mark;
    atomic_uint calls; /* inside the API */
    hf__bell calm;
    hf__rung rung; /* heard when mu is unlocked */
    bool closing;

    const hf_driver *driver;
    hf_store *store;
    hf_url *url;
    uint32_t caps;
    char *name;
    uint32_t max_waiters;

    hf__attach_state attach;
    hf_nsec attach_retry_at;
    unsigned attach_failures;
    hf_id sid;
    uint64_t gen; /* counts sessions; an entry of another one is dead */
    hf__lease lease;
    bool renewing;
    bool auditing;       /* a listing of what is ours is under way */
    hf_nsec audit_since; /* sent before that it says too little */
    hf_nsec audit_at;    /* send the next one then; HF_NEVER: none */
    unsigned audit_failures;
    hf_state told;

    hf__key **keys; /* table */
    size_t key_room, key_count;
    hf__entry **rids; /* table */
    size_t rid_room, rid_count;
    uint64_t rid_prefix, next_rid;
    hf__node entries, reqs, results, outbox;
    size_t waiters, holds, flights;
    hf__heap timers;
    size_t timer_users; /* objects that have a timer: room is reserved */
    hf_nsec recheck_at; /* for waiters that are not parked */
    bool rechecking;
    hf_stats stats;

    bool keeper_runs, keeper_stop;
    pthread_t keeper;
    int epoll_fd, timer_fd, wake_fd, result_fd;
    hf_nsec keeper_due; /* when it comes next, as far as anybody knows */
    hf_nsec timer_due;  /* the keeper's own: what its timer is set to */
    hf__crew pool, renewer, teller;
};

/* ---- process.c: fork, threads, exit ---- */

void hf__process_begin(void);    /* by hf_open, before anything else */
uint64_t hf__process_mark(void); /* changes in a forked child; 0: not begun */
bool hf__session_forked(const hf__session *s);
uint64_t hf__thread_serial(void);   /* bit 63 set */
void hf__thread_count_hold(int by); /* so that its exit looks */
/* Between the two a pthread_cancel waits; leave answers `code`. */
void hf__api_enter(void);
int hf__api_leave(int code);
void hf__process_add(hf__session *s);
void hf__process_remove(hf__session *s);

/* ---- handle.c ---- */

typedef enum hf__handle_kind {
    HF__SESSION = 1,
    HF__HOLD,
    HF__REQUEST
} hf__handle_kind;
void hf__handle_reset(uint64_t mark); /* nobody else may be in the table */
int hf__handle_new(hf__handle_kind kind, void *object, uint64_t *ret);
bool hf__handle_drop(uint64_t id, hf__handle_kind kind); /* was it live? */
/* What `take` answers, called on the object with the table locked. */
int hf__handle_find(const void *handle, hf__handle_kind kind, void **ret,
                    void *(*take)(void *object));
/* In a forked child that has not begun: the parent's object; NULL: none. */
void *hf__handle_peek_inherited(const void *handle, hf__handle_kind kind);
#define HF_HANDLE(type, id) ((type *)(uintptr_t)(id))

/* ---- session.c ---- */

/* Begin and end a call on a session; hf__session_enter locks it. */
int hf__session_enter(const hf_session *handle, hf__session **ret,
                      hf_error *err);
void hf__session_leave(hf__session *s); /* unlocks */
void hf__session_lock(hf__session *s);
void hf__session_unlock(hf__session *s); /* and starts what is in the outbox */
/* Sleep until the bell is rung, due at the latest; starts what is in the outbox
 * first, and then returns at once. */
void hf__session_sleep(hf__session *s, hf__bell *bell, hf_nsec due);
/* Make op ready for this session, to be finished one attempt from now. */
void hf__op_init(hf__session *s, hf_op *op, hf_op_kind kind);
/* Run op on this thread; the mutex is released meanwhile. */
void hf__op_run(hf__session *s, hf_op *op);
hf__flight *hf__flight_new(hf__session *s, hf_op_kind kind, hf__entry *entry,
                           void (*landed)(hf__flight *flight));
void hf__flight_free(hf__flight *flight);   /* one that was not submitted */
void hf__flight_submit(hf__flight *flight); /* with the mutex held */
/* Attach: by a flight, or (here) by this thread, unlocked meanwhile. */
void hf__session_want(hf__session *s, bool here);
/* It is over: holds lost, waiters back in line.  reason: a lost code. */
void hf__session_lost(hf__session *s, int reason);
/* Computes the state, tells what changed; true: good to grant in. */
bool hf__session_judge(hf__session *s, hf_nsec now);
void hf__session_renewed(hf__session *s, hf_op *op, uint64_t gen);
/* The keeper is wanted at `due`; wakes it if it sleeps longer. */
void hf__session_wake_keeper(hf__session *s, hf_nsec due);
void hf__session_host(hf__session *s, hf_host *host);
/* A thread ended while it held locks: leave them. */
void hf__session_abandon_owner(hf__session *s, uint64_t owner);
/* The process ends: detach, in at most this long. */
void hf__session_goodbye(hf__session *s, hf_nsec budget);

/* An answer brought the store's clock: was it set? */
void hf__session_clock(hf__session *s, const hf_op *op);

/* ---- audit.c: what does the store have of ours? ---- */

/* Its memory may be another one; so look, before HELD is said again. */
void hf__audit_want(hf__session *s, hf_nsec now, int reason);
void hf__audit_due(hf__session *s, hf_nsec now); /* send it, if it is due */
hf_nsec hf__audit_next(const hf__session *s);

/* ---- keeper.c ---- */

int hf__keeper_start(hf__session *s);
void hf__keeper_stop(hf__session *s);
void hf__keeper_abandon(hf__session *s); /* in a forked child */
/* One step, with the mutex held; when to come again.  The simulator calls it
 * instead of running the thread. */
hf_nsec hf__keeper_step(hf__session *s);
/* 0, HF_EINVAL, or HF_ENOMEM: a limit. */
int hf__keeper_watch(hf__session *s, hf__req *req, int cancel_fd);
void hf__keeper_unwatch(hf__session *s, hf__req *req);

/* ---- local.c: keys and the line in front of the store ---- */

/* A reference to the key; NULL: no memory. */
hf__key *hf__key_get(hf__session *s, const char *text, size_t len);
void hf__key_put(hf__session *s, hf__key *key); /* freed with the last one */
hf__entry *hf__key_owned(hf__key *key, uint64_t owner);
/* Whose turn is it?  Sends the first in line to the store if it may go. */
void hf__line_pump(hf__session *s, hf__key *key);
void hf__line_pump_all(hf__session *s);
/* Pass a granted entry to the next in line; false: it has to leave. */
bool hf__line_hand_over(hf__entry *entry, hf_nsec now);
/* Would this request wait for what its own owner holds? */
bool hf__line_deadlock(hf__session *s, const hf__key *key, uint64_t owner);

/* ---- entry.c ---- */

hf__entry *hf__entry_new(hf__session *s, hf__key *key, hf__req *req);
/* One that the store has and nobody here knows, to be left; NULL: no memory. */
hf__entry *hf__entry_adopt(hf__session *s, hf__key *key, const hf_place *place);
void hf__entry_ref(hf__entry *entry);
void hf__entry_unref(hf__entry *entry);
hf__entry *hf__entry_find(hf__session *s, const hf_id *rid);
void hf__entry_granted(hf__entry *entry, hf__hold *hold, uint64_t owner,
                       hf_nsec now);
/* LOST first, then told; the local place is free at once. */
void hf__entry_lost(hf__entry *entry, int reason);
void hf__entry_tell(hf__entry *entry, hf_state state, int reason);
/* It is lost, but still ours in the store: give the program this long to stop
 * before the place goes to another.  Its release ends that at once. */
void hf__entry_linger(hf__entry *entry, hf_nsec time);
/* Does it live and die with the session, but expire by itself? */
bool hf__entry_each(const hf__entry *entry);
/* The store said, asked at `sent`, that so much is left of it alone. */
void hf__entry_extend(hf__entry *entry, hf_nsec sent, hf_nsec remaining);
/* Its own end: its own deadline less margin, or the cap. */
hf_nsec hf__entry_end(const hf__entry *entry);
/* 0: held; else the code that hf_hold_check answers. */
int hf__entry_check(hf__entry *entry, hf_nsec now);
hf_nsec hf__entry_lost_at(const hf__entry *entry);
/* The store has nothing of it any more.  It is forgotten when no handle is
 * left either. */
void hf__entry_gone(hf__entry *entry);
void hf__entry_settle(hf__entry *entry);
void hf__entry_arm(hf__entry *entry);
void hf__entry_close_fd(hf__entry *entry);

/* ---- leave.c: giving places back, until the store has answered ---- */

/* From now on the entry is leaving; flights do it (the resolver). */
void hf__leave_later(hf__entry *entry);
/* The same on this thread, then later: a few attempts, patient: as many as
 * there is time for.  What hf_release says.  The caller has a reference. */
int hf__leave_here(hf__entry *entry, hf_nsec until, bool patient);
/* By a flight, for hf_release_start. */
void hf__leave_for(hf__entry *entry, hf__req *req);
/* GRANTED or WAITING becomes LEAVING. */
void hf__leave_begin(hf__entry *entry);
/* A timer of an entry: its end, or the next try to leave. */
void hf__leave_timer(hf__timer *timer, hf_nsec now);

/* ---- request.c, acquire.c, block.c ---- */

int hf__req_new(hf__req **ret, hf__session *s, const hf__want *want,
                const hf__manner *manner, hf_error *err);
void hf__req_free(hf__req *req);
/* Put a lock request into its key's line; may finish it. */
int hf__req_submit(hf__req *req, const char *key, const hf__manner *manner,
                   hf_error *err);
/* The caller's thread works and sleeps until req is done. */
void hf__req_wait(hf__req *req);
void hf__req_finish(hf__req *req, int code, const hf_error *why);
/* Wake its thread, wherever it sleeps. */
void hf__req_wake(hf__req *req);
/* It has this entry now: makes its hold, finishes it. */
void hf__req_granted(hf__req *req, hf__entry *entry, hf_nsec now);
/* Its turn came or its pause ended: wake its thread or send a flight. */
void hf__req_advance(hf__req *req);
/* End the wait: the line or the queue is left. */
void hf__req_stop(hf__req *req, int code);
/* Of no use any more: forgotten, or left if the store may hear of it. */
void hf__req_drop_entry(hf__req *req);
/* Its place died with the session: back in line, and (rejoin) on its way. */
void hf__req_requeue(hf__req *req);
void hf__req_rejoin(hf__req *req);
/* In front: it was there before those who wait behind it. */
void hf__req_back_in_line(hf__req *req);
void hf__req_patience(hf__req *req); /* begins now; sets give_up */
/* Fill an operation for req; prepare_join false: no memory, req is done. */
bool hf__join_prepare(hf__req *req, hf_op *op, hf_place *copy);
void hf__join_landed(hf__req *req, hf_op *op);
void hf__confirm_prepare(hf__req *req, hf_op *op, hf_place *copy);
void hf__confirm_landed(hf__req *req, const hf_op *op);
/* Where the store has no marks the core's rule decides. */
void hf__judge_seats(hf_place *place);
/* About a waiting entry, from a recheck sent then, or (0) from a push. */
void hf__req_verdict(hf__entry *entry, const hf_place *fresh, hf_nsec sent);
void hf__look_at(hf__entry *entry, hf_nsec at); /* the keeper looks then */
void hf__look_now(hf__req *req); /* that, or its thread if it is parked */
void hf__recheck_landed(hf__flight *flight);
void hf__req_post(hf__req *req); /* into the results */
/* Why it was refused, for the caller. */
int hf__req_error(const hf__req *req, const char *key, hf_error *err);
/* A request that was refused before it stood in line becomes a result. */
void hf__req_refuse(hf__req *req, int code, const hf_error *why);

/* ---- collect.c ---- */

void hf__result_post(hf__session *s, hf__result *result);
/* It is collected, or nobody wants it any more. */
void hf__result_drop(hf__session *s, hf__result *result);

/* ---- options.c ---- */

/* A whole struct from one that may be older, newer or NULL. */
int hf__lock_options(hf_lock_options *ret, const hf_lock_options *opt,
                     hf_error *err);
int hf__want_from(hf__want *want, hf__manner *manner, const hf_lock_options *o,
                  bool blocking, uint32_t caps, hf_error *err);
int hf__break_options(hf_break_options *ret, const hf_break_options *opt,
                      hf_error *err);
int hf__key_check(const char *key, size_t *ret_len, hf_error *err);
int hf__open_options(hf_open_options *ret, const hf_open_options *opt,
                     hf_error *err);

/* ---- hold.c ---- */

int hf__hold_new(hf__hold **ret);
void hf__hold_unref(hf__hold *hold);
int hf__hold_enter(hf_hold *handle, hf__hold **ret, hf_error *err);
void hf__hold_leave(hf__hold *hold);
/* Take the handle off its entry; true: it was the last one. */
bool hf__hold_detach(hf__hold *hold);
/* What hf_release answers without asking the store; 1: ask. */
int hf__release_locally(hf__hold *hold, hf_nsec now);
int hf__hold_may_release(hf__hold *hold, hf_error *err);
int hf__lost_error(const hf__entry *entry, int code, hf_error *err);

#endif
