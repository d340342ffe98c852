/* format_held.h - locks that a connection holds: advisory, getlock, rowlock.
 *
 * The server has the lock as long as the connection stands.  A *vessel* is a
 * connection of ours outside the pool that holds such locks: one for all of a
 * store where the database counts locks one by one, one per hold where a lock
 * is a transaction.  Its server is told to end it if it is silent for a lease,
 * so that a hold which is not renewed is over, whatever became of the network
 * or of this process. */
#ifndef HF_DRIVERS_SQL_FORMAT_HELD_H
#define HF_DRIVERS_SQL_FORMAT_HELD_H

#include "format.h"

enum { SQL_LOCK_MAX = 1200 }; /* of a lock's name, with its NUL */

#define SQL_HELD_CAPS (HF_CAP_MARKS | HF_CAP_EACH | HF_CAP_BLOCKING)

typedef struct sql_vessel {
    struct sql_vessel *next;
    pthread_mutex_t io; /* one statement at a time; taken before table.mu */
    sql_conn *conn;     /* NULL: it is lost */
    int64_t limit_ms;   /* of its silence, as the server was told */
    hf_nsec renewed;    /* when it was last asked, with io held */
    size_t users;       /* records and calls that have it; with table.mu held */
} sql_vessel;

typedef struct sql_held sql_held;

typedef struct sql_held_kind {
    bool alone;  /* a vessel has one lock: that of its transaction */
    bool shared; /* there are shared locks, too */
    /* What the key is called there; false: it has no name. */
    bool (*name)(const sql_held *held, const char *key, size_t len,
                 char ret[SQL_LOCK_MAX]);
    /* On a vessel's connection; false: it is lost.  take: now or not at all. */
    bool (*take)(sql_held *held, sql_conn *conn, const char *lock, bool shared,
                 hf_nsec deadline, bool *ret_got, hf_error *err);
    bool (*give)(sql_held *held, sql_conn *conn, const char *lock, bool shared,
                 hf_nsec deadline, bool *ret_was);
    /* The server shall end it after so long a silence. */
    bool (*limit)(sql_held *held, sql_conn *conn, int64_t ms, hf_nsec deadline);
    /* Adds what other connections hold; false: the statement failed.  NULL: the
     * database does not say. */
    bool (*others)(sql_held *held, sql_use *use, sql_listing *list);
} sql_held_kind;

struct sql_held {
    const sql_held_kind *kind;
    hf_store *store;
    sql_table table;
    sql_vessel *vessels; /* with table.mu held */
    int rule;            /* the format's: which names */
    char name[160];      /* the format's: of a table */
    char who[128];       /* the format's */
    sql_text text;       /* the format's */
    /* Looks after the vessels, while there are any. */
    pthread_t watcher;
    int bell;               /* an eventfd; -1: there is no watcher */
    bool closing, watching; /* with table.mu held */
};

static inline sql_held *sql_held_of(const hf_store *store)
{
    return store->format_data;
}

/* One statement that must succeed; rows may be NULL.  false: lost or
 * refused. */
bool sql_held_say(sql_conn *conn, const char *text, hf_nsec deadline,
                  sql_rows *rows, hf_error *err);

sql_held *sql_held_new(hf_store *store, const sql_held_kind *kind,
                       hf_error *err);
void sql_held_close(hf_store *store);
void sql_held_abandon(hf_store *store);
void sql_held_start(hf_store *store, hf_op *op);

/* format_held_vessel.c */
/* One that may take a lock: with io held and a user more; NULL: *err. */
sql_vessel *sql_vessel_get(sql_held *held, hf_nsec deadline, hf_error *err);
/* That of a record, with io held and a user more; NULL: it has none. */
sql_vessel *sql_vessel_of(sql_held *held, const hf_id *rid);
/* Gives up io and the user; what a lost one held is told. */
void sql_vessel_put(sql_held *held, sql_vessel *vessel);
/* With io held: it broke.  Its records have nothing any more. */
void sql_vessel_lose(sql_held *held, sql_vessel *vessel);
/* With io held: the server allows at least this much silence. */
bool sql_vessel_limit(sql_held *held, sql_vessel *vessel, hf_nsec span,
                      hf_nsec deadline);
/* Ends what nobody renewed and what was detached, drops idle vessels; `all`:
 * everything. */
void sql_vessel_sweep(sql_held *held, bool all);
/* Something is held now; with no lock held. */
void sql_watch_soon(sql_held *held);
int sql_watch_start(sql_held *held, hf_error *err);
void sql_watch_stop(sql_held *held);

/* format_held.c */
void sql_held_join(hf_store *store, hf_op *op);
void sql_held_recheck(hf_store *store, hf_op *op);
void sql_held_leave(hf_store *store, hf_op *op);
/* format_held_session.c */
void sql_held_attach(hf_store *store, hf_op *op);
void sql_held_renew(hf_store *store, hf_op *op);
void sql_held_detach(hf_store *store, hf_op *op);
void sql_held_list(hf_store *store, hf_op *op);
/* Has this store the lock?  Takes table.mu. */
bool sql_held_has(sql_held *held, const char *lock);

#endif
