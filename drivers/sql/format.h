/* format.h - what the formats of other libraries share.
 *
 * Two machines.  Rows with an end of their own (spring, dlock, shedlock;
 * format_lease*.c): a lock is a row whose owner is written in it, taken and
 * given back by single statements that ask whose it is.  Locks of a connection
 * (advisory, getlock, rowlock; format_held*.c): the server holds them as long
 * as the connection stands, and the server itself ends a connection that was
 * not heard of for a lease.
 *
 * Neither has sessions, a queue, or tokens: HF_CAP_EACH.  Sessions and places
 * of waiters are records of this process alone (format_table.c); a waiter
 * looks again and again, more and more rarely. */
#ifndef HF_DRIVERS_SQL_FORMAT_H
#define HF_DRIVERS_SQL_FORMAT_H

#include <string.h>

#include "body.h"
#include "store.h"

extern const sql_format pg_advisory, my_getlock; /* of their drivers */

/* ---- Digests (format_digest.c) ------------------------------------------- */

void sql_md5(const void *data, size_t len, uint8_t ret[16]);
void sql_sha1(const void *data, size_t len, uint8_t ret[20]);
void sql_sha512(const void *data, size_t len, uint8_t ret[64]);
char *sql_put_hex(char *at, const uint8_t *bytes, size_t n); /* the end, NUL */

/* ---- Names (format_names.c) ---------------------------------------------- */

/* LOCK_KEY of Spring's JDBC registry. */
void sql_spring_key(const char *name, size_t len, char ret[37]);
/* An advisory lock's number, or its pair of numbers. */
typedef struct sql_advisory_key {
    bool pair;
    int64_t number;
    int32_t high, low;
} sql_advisory_key;
void sql_advisory_holdfast(const char *name, size_t len, sql_advisory_key *ret);
void sql_advisory_madelson(const char *name, size_t len, sql_advisory_key *ret);
/* A name for GET_LOCK; false: this rule has none. */
enum { SQL_GETLOCK_MAX = 64 };
bool sql_getlock_holdfast(const char *name, size_t len,
                          char ret[SQL_GETLOCK_MAX + 1]);
bool sql_getlock_madelson(const char *name, size_t len,
                          char ret[SQL_GETLOCK_MAX + 1]);
/* Is it UTF-8, of at most `most` characters, without NUL, and with nothing at
 * its end that a padded comparison would overlook? */
bool sql_is_name(const char *name, size_t len, size_t most);
/* "2026-03-29 02:30:00.000001" of UTC. */
enum { SQL_TIME_LEN = 40 };
void sql_time_text(int64_t us, char ret[SQL_TIME_LEN]);
/* Options that become part of statements: letters, digits, '_' (a name) or
 * what zones are made of; HF_EURL names the option. */
int sql_name_option(const hf_url *url, const char *option, const char *other,
                    size_t most, char *ret, hf_error *err);
int sql_zone_option(const hf_url *url, char ret[64], hf_error *err);
/* What stands behind AT TIME ZONE: as a text, PostgreSQL would read the offset
 * +05:30 as POSIX does, to the west. */
enum { SQL_ZONE_LEN = 80 };
void sql_postgres_zone(const char *zone, char ret[SQL_ZONE_LEN]);
/* Plain text for a literal: no quote, no backslash, nothing below a blank. */
int sql_text_option(const hf_url *url, const char *option, const char *other,
                    size_t most, char *ret, hf_error *err);
/* [schema.]table; quoted: as it is written, else folded by the database. */
void sql_table_name(const char *schema, const char *table, bool quoted,
                    char ret[160]);

/* ---- Records of this process (format_table.c) ---------------------------- */

typedef enum sql_state {
    FORMAT_NEW = 0, /* asked for, not answered yet */
    FORMAT_WAITS,
    FORMAT_GRANTED,
    FORMAT_KEPT, /* given back, and yet taken until `ends` (held locks) */
    FORMAT_TOMB  /* left: a join of this rid that comes later finds this */
} sql_state;

struct sql_vessel; /* a connection that holds locks (format_held.c) */

typedef struct sql_record {
    struct sql_record *next_rid, *next_lock; /* in their slots */
    hf_id rid, sid;
    hf_nsec born;
    hf_nsec ends; /* by our clock: of a fixed lease, of what is kept or held */
    uint64_t num;
    struct sql_vessel *vessel;
    uint32_t asking; /* operations under way that may take it */
    uint16_t looks;  /* how often it was found busy */
    uint16_t key_len, lock_len;
    const char *lock; /* behind the key: by what others find it */
    uint8_t state;    /* sql_state */
    uint8_t mode;
    bool fixed;   /* a fixed lease that runs: not given back by a detach */
    bool stray;   /* an operation that may have taken it had no answer */
    bool left;    /* a leave had none */
    bool leaving; /* one was begun: no look may take it any more */
    bool news;    /* lost with its vessel, and not told yet */
    char key[];
} sql_record;

typedef struct sql_member { /* a session */
    struct sql_member *next;
    hf_id sid;
    hf_nsec ttl, ends; /* by our clock, unless renewed */
    char name[64];
} sql_member;

typedef struct sql_table {
    pthread_mutex_t mu; /* never held while a statement runs or the core is
                           called */
    sql_member *members;
    sql_record **by_rid, **by_lock;
    size_t slots, count;
} sql_table;

void sql_table_init(sql_table *table);
void sql_table_done(sql_table *table);
/* All that follow with table->mu held. */
sql_record *sql_record_find(const sql_table *table, const hf_id *rid);
/* A new one, also found by `lock` (NULL: by its key); NULL: no memory. */
sql_record *sql_record_add(sql_table *table, const hf_place *place,
                           const hf_id *sid, const char *lock);
void sql_record_insert(sql_table *table, sql_record *record); /* it has room */
void sql_record_unlink(sql_table *table, sql_record *record);
void sql_record_drop(sql_table *table,
                     sql_record *record); /* unlink and free */
/* The first of this lock behind `after` (NULL: of all). */
sql_record *sql_record_of_lock(const sql_table *table, const char *lock,
                               const sql_record *after);
/* Calls fn for each; it may unlink the one it gets. */
void sql_each_record(sql_table *table, void (*fn)(sql_record *, void *),
                     void *user);
sql_member *sql_member_of(const sql_table *table, const hf_id *sid);
sql_member *sql_member_add(sql_table *table, const hf_id *sid);
void sql_member_drop(sql_table *table, const hf_id *sid);
/* Lengthen: to `sent` and its lease. */
void sql_member_renewed(sql_member *member, const hf_op *op);
/* What op says of its session; takes mu itself. */
void sql_note_remaining(sql_table *table, hf_op *op);
/* When a busy lock is worth another look; counts the looks. */
hf_nsec sql_time_to_look(sql_record *record, hf_nsec left);

/* Answers. */
void sql_place_gone(hf_place *place, int reason);
void sql_place_granted(hf_op *op, hf_place *place, sql_record *record,
                       hf_nsec left);
void sql_place_waits(hf_op *op, hf_place *place, sql_record *record,
                     hf_nsec left);
/* op was refused: a sentence of ours, nothing was done. */
void sql_peer_refuse(const hf_store *store, hf_op *op, int code,
                     const char *text);

/* ---- Listings (format_list.c) -------------------------------------------- */

typedef struct sql_listed {
    char *text; /* key, NUL, owner, NUL */
    size_t key_len;
    int64_t left_ms, age_ms;
    uint64_t num;
    hf_id rid, sid;
    uint8_t mode;
    bool mine, waits, closed;
} sql_listed;
typedef struct sql_listing {
    sql_listed *rows;
    size_t count, room;
    char name[64]; /* of the session that asks */
    bool failed;   /* no memory */
} sql_listing;
sql_listed *sql_list_add(sql_listing *list, const char *key, size_t key_len,
                         const char *owner); /* NULL: failed */
/* What this process knows of a row; with table->mu held. */
void sql_list_know(sql_listed *row, const sql_record *record, const hf_op *op);
/* Adds the session's own (or all of this process's) records. */
void sql_list_records(sql_listing *list, sql_table *table, const hf_op *op,
                      bool only_mine);
/* In order, those under op's prefix; frees the listing. */
void sql_list_emit(sql_listing *list, hf_op *op);

/* ---- Rows with an end of their own (format_lease*.c)
 * ---------------------- */

enum {
    SQL_PEER_MANY = 16,   /* places in one statement */
    SQL_PEER_FIXED = 5,   /* parameters before the keys and owners */
    SQL_PEER_OWNER = 256, /* of an owner's text, with its NUL */
    SQL_PEER_WORDS = 16,
    SQL_PEER_KEY = HF_KEY_MAX + 1
};

#define SQL_PEER_CAPS                                                          \
    (HF_CAP_MARKS | HF_CAP_FIXED_LEASE | HF_CAP_BREAK | HF_CAP_CLOCK |         \
     HF_CAP_EACH | HF_CAP_BLOCKING)

/* Templates: ?1 a fresh text or the kept owner, ?2 the end (us from now, or an
 * instant by our clock), ?3 now by our clock, ?4 seconds, ?5 the owner that was
 * seen; @key @owner of one place, @keys @owners of all; other @words are the
 * format's. */
typedef enum sql_step {
    STEP_TAKE = 0,  /* insert if there is none */
    STEP_STEAL,     /* take what has expired (or delete it: steal_deletes) */
    STEP_LOOK,      /* key, owner, us left, the server's time or 0 */
    STEP_LOOK_MANY, /* the same template */
    STEP_EXTEND,    /* if it is mine and has not expired */
    STEP_EXTEND_MANY,
    STEP_DROP, /* the same */
    STEP_DROP_MANY,
    STEP_KEEP,  /* the same: mine no more, and yet taken */
    STEP_TIDY,  /* a row of mine that has expired; may be missing */
    STEP_ALL,   /* as LOOK, of all that have not expired */
    STEP_BREAK, /* whoever has it */
    STEP_CLOCK, /* the server's time, or any number */
    STEP_COUNT
} sql_step;

typedef struct sql_word {
    const char *name, *text;
} sql_word;

typedef struct sql_peer sql_peer;

typedef struct sql_peer_kind {
    bool client_clock;  /* times are this machine's */
    bool steal_deletes; /* then take again */
    bool hidden;        /* a row has no name, but a hash of it */
    bool whole_seconds; /* an end is seconds after a beginning */
    int64_t live_us;    /* left_us at least this: it is held */
    size_t key_most;    /* characters of a name; 0: any bytes */
    size_t owner_len;   /* only so much of an owner is compared; 0: all */
    /* The text of an owner: who holds; and of one that keeps it after. */
    void (*owner)(const sql_peer *peer, const hf_id *rid, bool kept,
                  char ret[SQL_PEER_OWNER]);
    /* Which rid such a text is of; false: not ours. */
    bool (*rid_of)(const sql_peer *peer, const char *owner, hf_id *ret,
                   bool *ret_kept);
} sql_peer_kind;

struct sql_peer {
    const sql_peer_kind *kind;
    sql_table table;
    sql_text *texts; /* STEP_COUNT */
    char who[128];   /* locked_by, client_id; "": none */
    char name[160];  /* of the table, as statements have it */
    char words_text[2048];
    size_t words_len, word_count;
    sql_word words[SQL_PEER_WORDS + 1]; /* the last name is NULL */
};

static inline sql_peer *sql_peer_of(const hf_store *store)
{
    return store->format_data;
}

/* Make the peer; the format then fills who, name and words. */
sql_peer *sql_peer_new(hf_store *store, const sql_peer_kind *kind,
                       hf_error *err);
void sql_peer_close(hf_store *store);
void sql_peer_start(hf_store *store, hf_op *op);
/* One more word; too many, or too long: the rendering fails. */
void sql_peer_word(sql_peer *peer, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Templates into texts; NULL: there is none.  templates[STEP_LOOK_MANY] and the
 * other MANYs are not looked at. */
int sql_peer_texts(hf_store *store, const char *const templates[STEP_COUNT],
                   hf_error *err);
int sql_peer_render(sql_text *ret, const sql_dialect *dialect,
                    const sql_word *words, const char *template, size_t many,
                    hf_error *err);
/* Is there this table with this column?  If not, run `make` (NULL: do not)
 * and look again.  *ret_there; an error if it cannot be said. */
int sql_peer_probe(sql_conn *conn, const char *table, const char *column,
                   bool *ret_there, hf_error *err);
int sql_peer_make(hf_store *store, sql_conn *conn, const char *make,
                  const char *table, const char *column, hf_error *err);
bool sql_is_postgres(const sql_dialect *dialect);
bool sql_is_mysql(const sql_dialect *dialect); /* MariaDB, too */
int sql_wrong_database(const hf_store *store, hf_error *err);

/* What a row says of a place. */
typedef enum sql_found {
    FOUND_FREE,
    FOUND_OTHERS,
    FOUND_MINE,
    FOUND_OVER
} sql_found;
typedef struct sql_sight {
    sql_found found;
    hf_nsec left; /* of OTHERS and MINE */
    char seen[SQL_PEER_OWNER];
} sql_sight;
typedef struct sql_item { /* a place, as statements name it */
    char key[SQL_PEER_KEY], owner[SQL_PEER_OWNER];
} sql_item;

/* One operation on rows: the connection, and when a lease was written. */
typedef struct sql_run_of {
    sql_use use;
    sql_peer *peer;
    char times[2][SQL_TIME_LEN], numbers[2][24], fresh[24];
    const char *params[SQL_PARAMS];
    hf_nsec wrote_at; /* the instant from which the last end counts */
} sql_run_of;

/* format_lease.c */
bool sql_item_of(const sql_peer *peer, const hf_id *rid, const char *key,
                 size_t len, sql_item *ret); /* false: cannot be a name */
/* false: the statement failed (use.end, use.err). */
bool sql_step_run(sql_run_of *run, sql_step step, const sql_item *items,
                  size_t n, hf_nsec end);
bool sql_step_look(sql_run_of *run, const sql_item *items, size_t n,
                   sql_sight *ret);
void sql_peer_join(hf_store *store, hf_op *op);
void sql_peer_recheck(hf_store *store, hf_op *op);
/* format_lease_end.c */
void sql_peer_confirm(hf_store *store, hf_op *op);
void sql_peer_leave(hf_store *store, hf_op *op);
/* format_lease_session.c */
void sql_peer_attach(hf_store *store, hf_op *op);
void sql_peer_renew(hf_store *store, hf_op *op);
void sql_peer_detach(hf_store *store, hf_op *op);
void sql_peer_list(hf_store *store, hf_op *op);
void sql_peer_evict(hf_store *store, hf_op *op);

#endif
