/* port.h - what the queue in SQL asks of a database's client library.
 *
 * Everything that a lock is stands in this folder, once; postgres, mysql and
 * odbc are ports: they connect, run one statement at a time, say how it ended,
 * and ring the bell of a session that waits.  Every parameter and every cell is
 * text.  A connection is used by one thread at a time; a port has no thread.
 *
 * There is no transaction of more than one statement anywhere, but for a format
 * whose locks are just that (rowlock): each statement is committed by itself
 * (autocommit), so that a client which stops at any point holds no row, and
 * none can be half done. */
#ifndef HF_DRIVERS_SQL_PORT_H
#define HF_DRIVERS_SQL_PORT_H

#include <holdfast/driver.h>

#include "dialect.h"
#include "rows.h"

typedef struct sql_port sql_port; /* a database: each driver's own */
typedef struct sql_conn sql_conn; /* a connection: each driver's own */

/* How a statement ended. */
typedef enum sql_end {
    SQL_DONE = 0,
    SQL_CLASH,   /* not applied: deadlock, serialization, lock timeout, unique
                    key: worth trying again on the same connection */
    SQL_REFUSED, /* not applied, and *err; the connection is good */
    SQL_BROKEN,  /* not applied, and *err; the connection is not */
    SQL_LOST     /* applied or not, and *err; the connection is not */
} sql_end;

typedef struct sql_port_class {
    const char *driver; /* "postgres", for errors */
    bool counts;        /* always says how many rows a statement has changed */
    /* Connect by the deadline; HF_EUNAVAIL, HF_EAUTH, HF_EPERM, HF_EPROTO.
     * Sets what the session of the server needs (autocommit, READ COMMITTED,
     * timeouts of the server for statements: half a lease is never waited). */
    int (*connect)(sql_port *port, hf_nsec deadline, sql_conn **ret,
                   hf_error *err);
    /* reset: with a RST, so that nothing that is under way arrives later. */
    void (*disconnect)(sql_conn *conn, bool reset);
    void (*abandon)(sql_conn *conn); /* in a forked child: descriptors only */
    /* Is it alive, as far as can be seen without asking the server? */
    bool (*stands)(sql_conn *conn);
    /* Run one statement by the deadline.  *ret is filled anew; a statement
     * that answers no rows leaves rows 0 and `affected`. *ret_sent (may be
     * NULL): hfd_now() just before its first byte went out. */
    sql_end (*run)(sql_conn *conn, const sql_text *text,
                   const char *const *params, hf_nsec deadline, sql_rows *ret,
                   hf_nsec *ret_sent, hf_error *err);
    /* The same behind a BEGIN, in one round trip; what comes of it, also of
     * SQL_CLASH, is left open.  NULL: for connections without autocommit. */
    sql_end (*begin)(sql_conn *conn, const sql_text *text,
                     const char *const *params, hf_nsec deadline, sql_rows *ret,
                     hf_error *err);
    /* The same for a text that is not in the list (tables, doctor). */
    sql_end (*say)(sql_conn *conn, const char *text, hf_nsec deadline,
                   sql_rows *ret, hf_error *err);

    /* ---- Waking; all NULL: this database cannot (waiters look) ---- */

    /* Begin to listen for this session, before its first wait: opens the
     * listener if there is none.  *ret_bell: its address for the session's row
     * ("" if the sid is enough).  Not 0: cannot (a pooler is in the way), and
     * *err; waiters then look by themselves. */
    int (*listen)(sql_port *port, const char *sid, hf_nsec deadline,
                  char ret_bell[SQL_BELL_MAX], hf_error *err);
    void (*unlisten)(sql_port *port);
    /* Tell these sessions, on a connection that has just said who is due.
     * Best effort: a lost one costs until the next look. */
    void (*wake)(sql_conn *conn, const sql_wake *wakes, size_t n,
                 hf_nsec deadline);
    /* Readable when dispatch has something to do; the same for the life of the
     * port (an epoll descriptor). */
    int (*fd)(sql_port *port);
    /* Reads what came and tells port->told (below) of it. */
    void (*dispatch)(sql_port *port);

    void (*close)(sql_port *port); /* all its connections are gone */
    void (*abandon_port)(sql_port *port);
    /* Findings of its own for the doctor, after those of all SQL stores. */
    void (*probe)(sql_conn *conn, hf_op *op);
} sql_port_class;

/* Every port begins with this. */
struct sql_port {
    const sql_port_class *class;
    const sql_dialect *dialect;
    char where[200];       /* "127.0.0.1:5432/app", for messages */
    unsigned statement_ms; /* the server ends a statement after this long */
    bool mute; /* set by connect: listen cannot work here (a pooler) */
    /* Set by the store; called from dispatch with no lock held.  rid NULL:
     * perhaps any of mine.  num 0: look; SQL_TAKEN: news; else: granted with
     * this number and run. */
    void (*told)(void *store, const char *rid, uint64_t num, uint32_t run);
    /* The listener was lost (and will be made again by the next listen). */
    void (*deaf)(void *store, const hf_error *why);
    /* A commit was applied, but may be lost in a failover; may be NULL. */
    void (*doubt)(void *store, const hf_error *why);
    void *store;
};
/* Every connection begins with this. */
struct sql_conn {
    sql_port *port;
    hf_nsec used; /* when it was last given back (pool.c) */
    struct sql_conn *next;
};

/* ---- strings.c ---- */

/* Strings are copied one behind the other into one piece of memory; the first
 * walk (`to` is NULL) only counts. */
typedef struct sql_strings {
    char *to;
    size_t len;
} sql_strings;
/* Where it stands; NULL for NULL, and in the first walk. */
const char *sql_strings_put(sql_strings *strings, const char *text);

#endif
