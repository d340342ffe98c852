/* store.h - a store on a SQL database: what ports hand over and formats share.
 *
 * A driver (postgres.c, mysql.c, odbc.c) parses what is its own in the URL,
 * makes a port, and gives it to sql_store_open; the other functions go into its
 * hf_driver as they are.  HF_CAP_BLOCKING: start() returns with the op done, on
 * the caller's thread, with a connection borrowed from the pool. */
#ifndef HF_DRIVERS_SQL_STORE_H
#define HF_DRIVERS_SQL_STORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "port.h"

/* A layout: the native queue, or another library's. */
typedef struct sql_format {
    const char *name; /* "native", "spring", ... */
    uint32_t caps;
    const char *const *options; /* which only it reads; NULL-terminated */
    /* On a connection that stands; makes or checks its tables. */
    int (*open)(hf_store *store, const hf_url *url, sql_conn *conn,
                hf_error *err);
    void (*close)(hf_store *store);
    void (*start)(hf_store *store, hf_op *op);
    /* What it has in the database, for a DBA (holdfast ddl); NULL: nothing.
     * Calls `emit` with each line. */
    void (*ddl)(const sql_dialect *dialect, const char *schema,
                const char *prefix, void (*emit)(void *to, const char *text),
                void *to);
    /* In a forked child: close what it has, say nothing; NULL: nothing. */
    void (*abandon)(hf_store *store);
} sql_format;

extern const sql_format sql_native, sql_spring, sql_dlock, sql_shedlock,
    sql_rowlock;

#define SQL_PREFIX "hf_" /* of the tables' names, unless prefix= says */

/* The options that all SQL drivers know; a driver's list is these and its
 * own. */
#define SQL_OPTIONS                                                            \
    "format", "schema", "prefix", "create", "strict", "max_lease_ms", "clock", \
        "connections", "listen", /* of formats: */                             \
        "table", "region", "client_id", "ttl_ms", "generation", "zone",        \
        "locked_by", "business_name", "key_rule"

struct hf_store {
    hf_host host;
    sql_port *port; /* owned */
    const sql_format *format;
    void *format_data; /* the format's own */
    char schema[64], prefix[64];
    bool create; /* make tables that are missing */
    bool strict;
    bool observer;       /* clock=observer: compare nothing but renewals */
    bool may_listen;     /* listen=yes, and the database can ring */
    atomic_bool deaf;    /* nobody rings for us: waiters look (sql_poll_soon) */
    int fd;              /* an epoll descriptor: the port's, and the timer */
    int timer;           /* of the looks of a deaf store */
    atomic_uint poll_ms; /* how long until its next look */
    int64_t max_lease_us;
    sql_text *texts; /* SQL_COUNT, of the native format */
    struct {
        pthread_mutex_t mu;
        int bell;       /* an eventfd, rung for who waits for a connection */
        sql_conn *idle; /* the last used first */
        unsigned open, most, waiting;
        bool closing;
        hf_nsec refused_until; /* back-off after a failed connect */
        unsigned failures;
        hf_error why;
        bool was_lost;   /* a connection broke: doubt when one stands again */
        hf_nsec suspect; /* one broke then: look at those used before */
    } pool;
};

/* ---- pool.c ---- */

/* One operation's use of a connection, and of the clock. */
typedef struct sql_use {
    hf_store *store;
    hf_op *op;
    sql_conn *conn; /* NULL: it broke */
    bool lent;      /* it is somebody else's: never closed here */
    sql_rows rows;
    bool wrote;  /* a statement that writes was sent and may be applied */
    bool once;   /* a clash of the next statement is answered, not retried */
    sql_end end; /* of the last statement */
    hf_error err;
} sql_use;

/* Borrow a connection by op's deadline: 0, or an HF_ code and use->err. */
int sql_begin(sql_use *use, hf_store *store, hf_op *op);
/* Run a statement of the native list with its parameters; true: SQL_DONE, and
 * use->rows.  CLASH is tried again until the deadline.  The first one sent sets
 * op->sent. */
bool sql_run(sql_use *use, sql_id id, const char *const *params);
bool sql_say(sql_use *use, const char *text);
/* The same for a text of a format's own. */
bool sql_run_text(sql_use *use, const sql_text *text,
                  const char *const *params);
/* Give the connection back (or close it, if it broke). */
void sql_end_use(sql_use *use);
/* Give back and finish op: after a failure what use->end says (NOT_APPLIED if
 * nothing that writes can have been applied, UNKNOWN else); or applied. */
void sql_fail(sql_use *use);
void sql_finish(sql_use *use, int code);
/* Answer a refusal of ours: the store did answer, and this is why not. */
void sql_refuse(sql_use *use, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A connection of its own, outside the pool (advisory, getlock, rowlock). */
int sql_connect(hf_store *store, hf_nsec deadline, sql_conn **ret,
                hf_error *err);

/* ---- sql.c: for drivers ---- */

/* Takes the port, also when it fails.  formats: what format= may name, the
 * first is the default; NULL-terminated. */
int sql_store_open(hf_store **ret, sql_port *port,
                   const sql_format *const *formats, const hf_url *url,
                   const hf_host *host, uint32_t *ret_caps, hf_error *err);
void sql_store_close(hf_store *store);
void sql_store_abandon(hf_store *store);
void sql_store_start(hf_store *store, hf_op *op);
/* Readable when dispatch has something to do. */
int sql_store_fd(hf_store *store);
void sql_store_dispatch(hf_store *store);

/* Somebody waits and nobody will ring: dispatch tells the core to look, first
 * after 20 ms, then ever more slowly, 500 ms at last, with jitter.  anew: begin
 * at 20 ms again. */
void sql_poll_soon(hf_store *store, bool anew);

#endif
