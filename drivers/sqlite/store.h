/* store.h - what the files of the SQLite driver share.
 *
 * Three things make up a store: the database (conn.c, schema.c), whose tables
 * alone decide who holds; the side file PATH-hold (side.c, gate.c), which makes
 * it fast and fair and proves that a process lives, but decides nothing; and
 * the watch (watch.c), which learns of deaths and of doorbells.
 *
 * Locks, always taken in this order: writer_mu, the gate, reader_mu; watch_mu
 * and known_mu are leaves.  None is held when the core is called. */
#ifndef HF_DRIVERS_SQLITE_STORE_H
#define HF_DRIVERS_SQLITE_STORE_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include <sqlite3.h>

#include <holdfast/driver.h>

#include "sql.h"

#define SQ_FORMAT 1      /* of the tables */
#define SQ_RESERVE 10000 /* numbers made safe against a power cut at once */
#define SQ_SLOTS 4096    /* sessions of one file */
#define SQ_WORDS 16      /* futex words of a slot; the first is its bell */
#define SQ_RING 16       /* rids that a bell can name before it says "all" */
#define SQ_LETTERS 12    /* grants that a slot can hold, one by one */
#define SQ_HEIRS 8       /* successors that it can name */
#define SQ_GATE_BELLS 64
#define SQ_GATE_LEFT 512 /* given up tickets that the gate can remember */
#define SQ_NEWS (UINT64_C(1) << 63) /* in a ring's seq: read your news */

/* ---- The side file (side.c, gate.c) -------------------------------------- */

typedef struct sq_ring_entry {
    _Atomic uint64_t seq; /* its position + 1 once it is written */
    _Atomic uint64_t rid[2];
} sq_ring_entry;

typedef struct sq_letter { /* "you hold": a grant, for the woken (letter.c) */
    _Atomic uint64_t check, rid[2], token, until;
} sq_letter;

enum {
    SQ_SLOT_CLEAN = 1, /* its last owner has left no row behind */
    SQ_SLOT_TAKEN = 2
};

typedef struct sq_slot {
    _Atomic uint32_t word[SQ_WORDS];
    _Atomic uint64_t head;
    uint64_t used;                 /* 0: has no block on the disk */
    _Atomic uint8_t cpu[SQ_WORDS]; /* 1 + where each word's sleeper ran last */
    _Atomic uint64_t heir[SQ_HEIRS]; /* half: of which rid; half: 1 + word */
    sq_ring_entry ring[SQ_RING];
    sq_letter letter[SQ_LETTERS];
} sq_slot;

typedef struct sq_map {
    char magic[8];
    uint32_t version, slots;
    uint8_t db_id[16];
    uint64_t db_ino;
    _Atomic uint64_t floor; /* the largest `reserved` the database has had */
    uint64_t spare[2];
    _Atomic uint32_t gate_next, gate_serving;
    _Atomic uint32_t gate_bell[SQ_GATE_BELLS];
    _Atomic uint32_t gate_left[SQ_GATE_LEFT]; /* ~ticket, by ticket */
    uint8_t rest[4096 - 72 - 4 * (SQ_GATE_BELLS + SQ_GATE_LEFT)];
    sq_slot slot[SQ_SLOTS];
} sq_map;

/* ---- Who a session is (process.c) ---------------------------------------- */

typedef struct sq_self {
    int64_t pid, pidns, start, timens;
    char boot[40];
    char host[65];
} sq_self;

typedef struct sq_proc { /* the process of a session, from its row */
    int64_t pid, pidns, start, slot;
} sq_proc;

/* Of this process, now (a fork changes it).  HF_ENOTSUP without /proc. */
int hf__sq_self(sq_self *ret, hf_error *err);
/* Does the kernel say that no process with this pid began at that time? */
bool hf__sq_gone(int64_t pid, int64_t start);

/* ---- A connection (conn.c) ----------------------------------------------- */

typedef struct sq_conn {
    sqlite3 *db;
    sqlite3_stmt *stmt[SQL_COUNT];
    hf_nsec deadline; /* of the operation under way, for the busy handler */
    int frames;       /* in the WAL, when this connection last committed */
    int tidy_at;      /* write it back when it has this many */
} sq_conn;

/* ---- A store ------------------------------------------------------------- */

typedef struct sq_watched sq_watched; /* watch.c */

#define SQ_NUM (UINT64_MAX >> 2)  /* the bits of a number */
typedef struct sq_noted sq_noted; /* known.c */
typedef struct sq_known {         /* one entry of ours */
    hf_id rid;
    uint64_t num : 62;
    uint64_t sure : 1;  /* the join that made it was answered */
    uint64_t waits : 1; /* was so when it was last looked at */
} sq_known;

struct hf_store {
    hf_host host;
    char path[PATH_MAX];
    dev_t dev; /* of the database when it was opened */
    ino_t ino;
    bool network; /* other machines may share the file: wall clock, no push */
    bool full;    /* every commit is synced */
    hf_nsec patience; /* the longest one attempt waits for the writer's turn */
    sq_self self;

    _Atomic uint32_t writer_mu; /* a lock with a deadline (gate.c) */
    _Atomic uint32_t writer_sleepers;
    sq_conn writer;
    bool crowded; /* somebody waited, when last we left (queue.c) */
    pthread_mutex_t reader_mu;
    sq_conn reader; /* opened when first needed */

    int side_fd; /* holds the slot's byte; -1 with `network` */
    dev_t side_dev;
    ino_t side_ino;
    sq_map *map;
    size_t map_len;
    uint32_t slot;
    bool vacant;           /* no session had a row when it was opened */
    _Atomic bool detached; /* none of this store has one */
    _Atomic bool had_news; /* an entry of ours was broken: ask the tables */

    pthread_mutex_t known_mu;
    sq_noted *known;
    size_t known_cap, known_count;
    bool known_gap;         /* there was no memory to note one */
    _Atomic size_t waiting; /* of them */

    pthread_mutex_t watch_mu;
    int epoll_fd, bell_fd, timer_fd;
    sq_watched *watched;
    size_t watched_count;
    int64_t linger_ms;
    uint64_t ring_tail;
    bool bell_runs;
    _Atomic bool bell_stop;
    pthread_t bell;

    hf_id sid; /* the last that attached; under watch_mu */
};

typedef struct sq_heir { /* the entry that one stands right behind */
    hf_id rid;
    int64_t slot;
    bool known;
} sq_heir;

/* ---- Transactions (txn.c) ------------------------------------------------ */

typedef struct sq_wake {
    uint32_t word; /* slot * SQ_WORDS + word */
    bool news;
    hf_id rid;
    hf_id sid;      /* of a grant: whose, */
    uint64_t token; /* with which number, */
    hf_nsec until;  /* and how long its session surely lives */
} sq_wake;

typedef struct sq_txn {
    hf_store *s;
    hf_op *op;
    sq_conn *c;
    int rc;      /* SQLite's; once it is not 0 nothing more is done */
    hf_nsec now; /* the store's clock just before it began */
    int code;    /* the answer, if all goes well */
    uint64_t counter, reserved;
    bool counted, drew, short_of_numbers;
    bool reached_commit;
    /* Queues that may have somebody due, as length (2 bytes) and key. */
    uint8_t *due;
    size_t due_len, due_cap;
    sq_wake few[8], *wakes;
    size_t wake_count, wake_cap;
    uint32_t coming;   /* 1 + the word that was told so */
    sq_heir ahead;     /* of a join that waits */
    hf_nsec end;       /* earliest end of those who hold what I wait for */
    sq_proc watch[32]; /* whose death would matter to who waits now */
    size_t watch_count;
    /* Set by a body: called once it was committed, or t->rc says why not. */
    void (*after)(struct sq_txn *t);
} sq_txn;

/* Run body as one write transaction for op and finish op. */
void hf__sq_write(hf_store *s, hf_op *op, void (*body)(sq_txn *t));
/* A read transaction: begin, then end; t->rc says how it went.  Alone: for one
 * statement, takes reader_mu and leaves giving it back to the caller. */
void hf__sq_read_alone(sq_txn *t, hf_store *s, hf_op *op);
void hf__sq_read_begin(sq_txn *t, hf_store *s, hf_op *op);
void hf__sq_read_end(sq_txn *t);
/* Tell those noted in t->wakes; frees what t has allocated. */
void hf__sq_txn_done(sq_txn *t);
/* Finish op, which failed with t->rc and op->error. */
void hf__sq_finish_failed(sq_txn *t);

hf_nsec hf__sq_clock(const hf_store *s);
sqlite3_stmt *hf__sq_stmt(sq_txn *t, enum sq_sql which);
bool hf__sq_row(sq_txn *t, sqlite3_stmt *stmt); /* step; is there a row? */
void hf__sq_run(sq_txn *t, sqlite3_stmt *stmt); /* step to the end, reset */
void hf__sq_bind_id(sqlite3_stmt *stmt, int at, const hf_id *id);
void hf__sq_bind_key(sqlite3_stmt *stmt, int at, const char *key, size_t len);
hf_id hf__sq_column_id(sqlite3_stmt *stmt, int at);

/* Numbers: read the counter, draw `run` of them; 0 when the reserve is used
 * up (the transaction is then repeated), or on failure. */
void hf__sq_count(sq_txn *t);
uint64_t hf__sq_draw(sq_txn *t, uint32_t run);

/* ---- Connections and schema ---------------------------------------------- */

int hf__sq_conn_open(hf_store *s, sq_conn *c, hf_error *err);
void hf__sq_conn_close(sq_conn *c, bool last);
int hf__sq_exec(sq_conn *c, const char *sql);
/* Fill err with what SQLite said; the HF_ code. */
int hf__sq_conn_error(const hf_store *s, const sq_conn *c, int rc,
                      hf_error *err);
/* Make or check the tables; repairs what a reboot or a restored file left.
 * Called with the side file's opening lock held. */
int hf__sq_schema(hf_store *s, hf_error *err);

/* ---- Files --------------------------------------------------------------- */

/* Absolute path, refusals, and an empty 0600 file where there is none. */
int hf__sq_locate(hf_store *s, const char *path, hf_error *err);
/* Is this the number of a network file system?  Its name, or NULL. */
const char *hf__sq_network_fs(const char *path);
/* Does the path still name the file that was opened? */
bool hf__sq_same_file(const hf_store *s);

int hf__sq_side_open(hf_store *s, hf_error *err); /* takes the opening lock */
void hf__sq_side_opened(hf_store *s);             /* gives it back */
int hf__sq_side_adopt(hf_store *s, const uint8_t *db_id, hf_error *err);
/* The database has this reserve; only ever raises it, after the commit. */
void hf__sq_side_floor(hf_store *s, uint64_t reserved);
bool hf__sq_side_fresh(const hf_store *s); /* has never been adopted */
bool hf__sq_side_idle(const hf_store *s);  /* no slot is taken */
int hf__sq_side_slot(hf_store *s, hf_error *err);
bool hf__sq_side_mine(hf_store *s); /* descriptor and byte still ours */
void hf__sq_side_close(hf_store *s);
/* Is the byte of this slot taken, by whomever but us? */
bool hf__sq_slot_locked(const hf_store *s, int64_t slot);

/* Sleep while it is `value`: was it woken?  The other: its value afterwards. */
bool hf__sq_futex_sleep(_Atomic uint32_t *word, uint32_t value, hf_nsec most);
uint32_t hf__sq_futex_wait(_Atomic uint32_t *word, uint32_t value,
                           hf_nsec most);
void hf__sq_futex_wake_one(_Atomic uint32_t *word);
void hf__sq_futex_bump(_Atomic uint32_t *word);
_Atomic uint32_t *hf__sq_word(hf_store *s, uint32_t index);
void hf__sq_ring(hf_store *s, const sq_wake *wake);

/* Grants told through the side file (letter.c). */
void hf__sq_letter_write(hf_store *s, const sq_wake *wake);
bool hf__sq_letter_read(const hf_store *s, const hf_id *sid, sq_wake *io);
/* Wake who may be granted soon.  Name me as the heir of an entry of another
 * slot; wake the heir of mine: 0, or 1 + its word. */
void hf__sq_letter_coming(hf_store *s, uint32_t word);
void hf__sq_heir_write(hf_store *s, const sq_heir *heir, uint32_t word);
uint32_t hf__sq_heir_wake(hf_store *s, const hf_place *place);
void hf__sq_letter_await(hf_store *s, uint32_t word, uint32_t seen,
                         hf_nsec until);

/* writer_mu and the gate: false when the deadline passed first. */
bool hf__sq_writer_lock(hf_store *s, hf_nsec deadline);
void hf__sq_writer_unlock(hf_store *s);
bool hf__sq_gate_enter(hf_store *s, hf_nsec deadline, uint32_t *ret_ticket);
void hf__sq_gate_leave(hf_store *s, uint32_t ticket);

/* ---- Our own entries (known.c) ------------------------------------------- */

bool hf__sq_known_get(hf_store *s, const hf_id *rid, sq_known *ret);
bool hf__sq_known_put(hf_store *s, const sq_known *entry); /* false: no room */
void hf__sq_known_drop(hf_store *s, const hf_id *rid);
size_t hf__sq_known_count(hf_store *s);
void hf__sq_known_clear(hf_store *s);

/* ---- Queues (queue.c) ---------------------------------------------------- */

typedef struct sq_seat { /* an entry together with its session */
    uint64_t num, token;
    hf_id rid, sid;
    uint8_t mode;
    uint32_t places, run, wake;
    bool granted, closed, has_session;
    hf_nsec exp, broken_until;
    hf_nsec session_exp, session_ttl;
    sq_proc proc;
} sq_seat;

/* The next entry of key with a number above `after`; the one before `num`; the
 * first that waits, with a number above `after`. */
bool hf__sq_seat_next(sq_txn *t, const char *key, size_t len, uint64_t after,
                      sq_seat *ret);
bool hf__sq_seat_before(sq_txn *t, const char *key, size_t len, uint64_t num,
                        sq_seat *ret);
bool hf__sq_seat_waits(sq_txn *t, const char *key, size_t len, uint64_t after,
                       sq_seat *ret);

typedef enum sq_life { SQ_LIVES, SQ_OVER, SQ_ORPHAN } sq_life;
/* LIVES; OVER: its own time is up; ORPHAN: its session is dead or absent. */
/* Has the kernel said it twice? (queue.c) */
bool hf__sq_proc_dead(const hf_store *s, const sq_proc *proc);
sq_life hf__sq_seat_life(sq_txn *t, const sq_seat *seat, hf_nsec *ret_end);

/* Walk the queue from its head past all who hold: with `drop` the dead go and
 * the due are granted, else true is answered when there is something to do.
 * Notes in t->end and t->watch what a waiter wants to know. */
bool hf__sq_clear(sq_txn *t, const char *key, size_t len, bool drop);
void hf__sq_watch_note(sq_txn *t, const sq_proc *proc);

/* Remove one entry and note its queue; end a session, with all it has or (a
 * row) knowing that it has nothing. */
void hf__sq_drop_row(sq_txn *t, const hf_id *sid);
void hf__sq_drop_seat(sq_txn *t, const char *key, size_t len, uint64_t num,
                      uint8_t mode, bool granted);
void hf__sq_drop_session(sq_txn *t, const hf_id *sid);
/* Grant what is due in the queues noted. */
void hf__sq_settle(sq_txn *t);
void hf__sq_due_note(sq_txn *t, const char *key, size_t len);
/* How many permits of key are out, and the largest number that got one; one
 * more was given to num, or (0) one less is out. */
int64_t hf__sq_permits(sq_txn *t, const char *key, size_t len,
                       uint64_t *ret_upto);
void hf__sq_permits_add(sq_txn *t, const char *key, size_t len, uint64_t num);
void hf__sq_wake_note(sq_txn *t, const sq_wake *wake);

/* ---- The operations ------------------------------------------------------ */

typedef struct sq_mine { /* my own entry, and my session as it stands */
    bool found, granted;
    uint8_t mode;
    uint64_t num, token;
    uint32_t run, places;
    hf_nsec exp, broken_until, lease;
    hf_id sid; /* the session it belongs to */
    bool session_lives;
} sq_mine;

/* Find place's entry; t->op->remaining is set if its session lives. */
void hf__sq_mine(sq_txn *t, const hf_place *place, sq_mine *ret);
/* Is it still mine, by its own time or its session's? */
bool hf__sq_mine_valid(const sq_txn *t, const sq_mine *m);
/* Write the answer into place; m->found. */
void hf__sq_answer(const sq_txn *t, hf_place *place, const sq_mine *m);
/* Answer HF_GONE with the best reason there is. */
void hf__sq_answer_gone(sq_txn *t, hf_place *place);
/* The session that speaks: does it live?  Sets t->op->remaining. */
bool hf__sq_session(sq_txn *t, int64_t *ret_news);
/* Before an operation on place: note the word that will be rung for it. */
uint32_t hf__sq_listen(hf_store *s, hf_place *place);
/* When waiting in network mode: how long until the next look. */
hf_nsec hf__sq_poll_in(hf_place *place);

void hf__sq_attach(sq_txn *t);
void hf__sq_renew(hf_store *s, hf_op *op);
void hf__sq_detach(sq_txn *t);
void hf__sq_join(hf_store *s, hf_op *op);
void hf__sq_confirm(sq_txn *t);
void hf__sq_leave(sq_txn *t);
void hf__sq_recheck(hf_store *s, hf_op *op);
void hf__sq_list(hf_store *s, hf_op *op);
void hf__sq_publish(sq_txn *t);
void hf__sq_evict(sq_txn *t);
void hf__sq_probe(hf_store *s, hf_op *op);
/* Drop the sessions that are over, with all they have; in a transaction,
 * without `drop` only say whether there are any. */
void hf__sq_sweep(hf_store *s, hf_nsec deadline);
bool hf__sq_sweep_all(sq_txn *t, bool drop);
/* Tell the core what is news to this session. */
void hf__sq_tell_news(hf_store *s);

/* ---- The watch (watch.c, bell.c) ----------------------------------------- */

int hf__sq_watch_open(hf_store *s, hf_error *err);
void hf__sq_watch_close(hf_store *s);
void hf__sq_watch_abandon(hf_store *s);
/* Tell the core when this process dies; true: it is dead already. */
bool hf__sq_watch_add(hf_store *s, const sq_proc *proc);
void hf__sq_watch_noted(sq_txn *t);
void hf__sq_watch_dispatch(hf_store *s);
bool hf__sq_watch_bell(hf_store *s); /* make its eventfd; watch_mu held */
/* Start the thread that listens to the slot's bell; false: cannot. */
bool hf__sq_bell_start(hf_store *s);
void hf__sq_bell_stop(hf_store *s);
void hf__sq_bell_rang(hf_store *s);

#endif
