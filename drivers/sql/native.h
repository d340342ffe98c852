/* native.h - between the files of the native format; nobody else needs it.
 *
 * An operation runs on the caller's thread: it borrows a connection (sql_use),
 * runs a statement or a few, and finishes.  What is read of a queue is a
 * sql_queue; who in it is dead is found by queue.c, and what this store has
 * seen of other sessions is kept by seen.c. */
#ifndef HF_DRIVERS_SQL_NATIVE_H
#define HF_DRIVERS_SQL_NATIVE_H

#include "judge.h"
#include "store.h"

enum {
    SQL_ROUNDS = 12, /* attempts at a row that others change meanwhile */
    SQL_SEEN = 256,  /* sessions that this store remembers having seen */
    SQL_STANDING = 4,
    SQL_CROWDS = 64, /* keys are told apart by so many places */
    SQL_EPOCH_MAX = 300,
    SQL_HEX_MAX = 2 * HF_KEY_MAX + 1,
    SQL_NUMBER_MAX = 24,
    SQL_KIND_MAX = 24
};

/* In place.own[0]: its number.  In own[1], beside HF_PLACE_PUSH: */
#define SQL_OWN_VALUE (UINT64_C(1) << 62) /* it has a value */
#define SQL_OWN_BORN ((UINT64_C(1) << 52) - 1)

typedef struct sql_seen {
    hf_id id;        /* a session, or (observer) an entry by its rid */
    int64_t version; /* its renewals; of an entry: its instants */
    hf_nsec until;   /* alive till then at least; 0: nothing is known */
    hf_nsec used;
} sql_seen;

typedef struct sql_native_data {
    pthread_mutex_t mu; /* guards what follows */
    sql_seen seen[SQL_SEEN];
    unsigned lost_ears; /* listeners that were lost */
    bool listens;       /* for this session: */
    hf_id listens_to;
    char bell[SQL_BELL_MAX];
    hf_id news_of; /* whose news were told, and how much of them */
    size_t news_told;
    unsigned renewals; /* since the last tidying */
    struct {           /* tidy.c: how far it came */
        unsigned turn; /* which chore is the first */
        char key[SQL_HEX_MAX], value[SQL_ID_LEN + 1], session[SQL_ID_LEN + 1];
        bool seen_once; /* the piece behind that session */
    } tidy;
    struct {       /* what may be in the store of a session: */
        hf_id sid; /* the last few that attached here */
        int count; /* entries and tombs */
    } standing[SQL_STANDING];
    unsigned standing_next;
    char epoch[SQL_EPOCH_MAX]; /* of the server, as last seen; strict */
    atomic_bool said_deaf;
    atomic_bool crowded[SQL_CROWDS]; /* alone.c: guesses, */
    _Atomic int64_t ahead_us;        /* from hfd_now() to a little ahead of the
                                        server's clock; 0: not known */
    _Atomic uint64_t drawn;          /* the last number that was drawn here */
    char host_name[64];
} sql_native_data;

static inline sql_native_data *sql_native_of(const hf_store *store)
{
    return store->format_data;
}

/* ---- native.c ---- */

/* Listen for op's session, if this is the first that waits and the store can.
 * *ret_now: it does since just now, so that what came before was not heard. */
void sql_native_listen(sql_use *use, bool *ret_now);
bool sql_same_id(const hf_id *a, const hf_id *b);
void sql_hex(const void *bytes, size_t len, char *ret); /* 2 * len + 1 */
size_t sql_unhex(const char *hex, void *ret, size_t room);
const char *sql_number_text(int64_t n, char ret[SQL_NUMBER_MAX]);
/* What the server's clock shows, about; never used to decide anything. */
int64_t sql_about_now(const hf_store *store);

/* ---- queue.c ---- */

typedef struct sql_queue { /* a row, as it was read */
    bool there;
    bool whole; /* else only the head of the body is known */
    bool late; /* read by a statement of its own, not by the one that changed */
    uint64_t counter;
    int64_t now_us; /* the server's clock then; 0: not read */
    char kind[SQL_KIND_MAX];
    char *body, *tombs; /* tombs NULL: not read */
    sql_entry *entries; /* point into body */
    size_t n;
} sql_queue;

void sql_queue_done(sql_queue *queue);
/* The answer of a statement: columns counter, body or head, length.  False:
 * use->err says why. */
bool sql_queue_take(sql_use *use, sql_queue *queue, size_t row, size_t first);
/* The same of what is known without asking: this counter, this whole body. */
bool sql_queue_assume(sql_use *use, sql_queue *queue, uint64_t counter,
                      const char *body);
bool sql_queue_look(sql_use *use, const char *hex, sql_queue *queue);
/* Read the rest of the body, if it is not there. */
bool sql_queue_whole(sql_use *use, const char *hex, sql_queue *queue);

/* How a statement that changes a queue ended. */
typedef enum sql_change {
    SQL_FAILED,    /* use->err */
    SQL_UNTOUCHED, /* its conditions did not hold */
    SQL_CHANGED,   /* and the queue is what it answered */
    SQL_PERHAPS    /* this database does not say; the queue was read */
} sql_change;
sql_change sql_queue_change(sql_use *use, sql_id id, const char *const *params,
                            sql_queue *queue);

/* Tell those who hold now and did not when sql_held_until was `until`; not
 * `but`, which is being answered (may be NULL). */
void sql_wake_due(sql_use *use, const sql_queue *queue, uint64_t until,
                  const hf_id *but);
/* The same after `left` was cut out. */
void sql_wake_after(sql_use *use, const sql_queue *queue,
                    const sql_entry *left);

/* ---- alone.c ---- */

/* Nobody else is thought to want this key. */
bool sql_seems_alone(hf_store *store, const hf_place *place);
void sql_note_crowd(hf_store *store, const hf_place *place, bool crowded);
/* The server's clock showed this in an answer to what was sent then. */
void sql_note_clock(hf_store *store, int64_t store_us, hf_nsec sent);
/* Take an empty queue; leave one that has this entry alone.  SQL_UNTOUCHED: it
 * is not so, and nothing was done. */
sql_change sql_take_alone(sql_use *use, const hf_place *place, const char *hex,
                          const char *kind, sql_queue *queue);
sql_change sql_leave_alone(sql_use *use, const char *hex,
                           const sql_entry *entry, sql_queue *queue);

/* ---- dead.c ---- */

/* Who of those that hold (all: of all in it) is dead is cut out of the queue,
 * which is read again then; those whose turn it is are told, but for `me`.
 * *ret_left_us (may be NULL): until the first of those that hold ends;
 * INT64_MAX: not known. */
bool sql_drop_dead(sql_use *use, const char *hex, sql_queue *queue, bool all,
                   const hf_id *me, int64_t *ret_left_us);
/* Is op's own session alive?  *ret_news (may be NULL): its news, till the next
 * statement. */
bool sql_own_session(sql_use *use, bool *ret_alive, const char **ret_news);
/* Cut a text out of a queue and read the queue again. */
bool sql_cut(sql_use *use, const char *hex, const char *text, size_t len);
bool sql_drop_values(sql_use *use, const hf_id *rids, size_t n);
/* Delete the session if it is over; *ret_gone: there is none now. */
bool sql_evict(sql_use *use, const hf_id *sid, int64_t version, bool *ret_gone);

/* ---- seen.c ---- */

/* Microseconds that it lives at least, as far as is known; 0: ask. */
int64_t sql_seen_left(sql_native_data *data, const hf_id *id);
/* An answer to a question that was sent then. */
void sql_seen_note(hf_store *store, const hf_id *id, int64_t version,
                   int64_t ttl_us, int64_t left_us, hf_nsec sent);
void sql_seen_forget(sql_native_data *data, const hf_id *id);
/* How much of a session may stand in the store: so much more.  Of one that did
 * not attach here nothing is known, and everything is possible. */
void sql_standing_begin(sql_native_data *data, const hf_id *sid);
void sql_standing_add(sql_native_data *data, const hf_id *sid, int more);
bool sql_may_stand(sql_native_data *data, const hf_id *sid);

/* ---- strict.c ---- */

/* May anybody be granted on this server now?  *ret_in: else in this long. */
bool sql_may_grant(sql_use *use, bool *ret_may, hf_nsec *ret_in);
int sql_strict_open(sql_use *use, hf_error *err);
/* After a renewal: is it still the server that we know?  If not the core hears
 * of it, since its memory may be another one. */
bool sql_watch_epoch(sql_use *use);
/* 0, or HF_EINVAL: longer than a strict store allows. */
int sql_check_lease(sql_use *use, hf_nsec lease);

/* ---- answer.c ---- */

/* The entry of a place, as this store joins it: own[] says number and birth. */
sql_entry sql_entry_of(const hf_op *op, const hf_place *place);
void sql_note_entry(hf_place *place, const sql_entry *entry);
void sql_answer_gone(hf_place *place, int reason);
/* The code in a piece of news, of which the text is what follows the id's dot;
 * 0: none. */
int sql_news_code(const char *text);
/* Where does the place stand?  Drops the dead ahead of it, and fills in the
 * verdict; reads more of the queue only if that is needed. */
bool sql_answer(sql_use *use, const char *hex, sql_queue *queue,
                hf_place *place);
/* Why a place that is not in its queue is gone: asks for the session. */
bool sql_answer_why_gone(sql_use *use, hf_place *place);

/* ---- the operations ---- */

void sql_native_attach(hf_store *store, hf_op *op);
void sql_native_renew(hf_store *store, hf_op *op);
void sql_native_detach(hf_store *store, hf_op *op);
void sql_native_join(hf_store *store, hf_op *op);
void sql_native_leave(hf_store *store, hf_op *op);
void sql_native_confirm(hf_store *store, hf_op *op);
void sql_native_publish(hf_store *store, hf_op *op);
void sql_native_recheck(hf_store *store, hf_op *op);
void sql_native_list(hf_store *store, hf_op *op);
void sql_native_evict(hf_store *store, hf_op *op);

/* schema.c */
int sql_native_schema(sql_use *use, hf_error *err);
/* publish.c: the value of a place that stands; false: use->err. */
bool sql_set_value(sql_use *use, hf_place *place, const void *value,
                   size_t len);
/* tidy.c: bounded, and its failures are nobody's. */
void sql_tidy(sql_use *use);

#endif
