/* odbc.h - the port on ODBC: what its files share.
 *
 * odbc.c reads the URL, known.c knows the databases, conn.c connects, port.c
 * runs statements, errors.c says what an error means, socket.c finds the
 * descriptor under a connection, guard.c cuts it when the time is up, probe.c
 * is for doctor. */
#ifndef HF_DRIVERS_ODBC_ODBC_H
#define HF_DRIVERS_ODBC_ODBC_H

#include <pthread.h>
#include <sql.h>
#include <sqlext.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "sql/store.h"

enum {
    ODBC_STRING_MAX = 4200,  /* a connection string */
    ODBC_STATEMENT_MS = 2000 /* no statement runs longer on the server */
};

/* A kind of database. */
typedef struct odbc_known {
    const char *name; /* of the option dialect= */
    const char *dbms; /* how SQL_DBMS_NAME begins; NULL: any */
    const sql_dialect *dialect;
    bool socket; /* its driver speaks over one connected socket */
    /* Run on each new connection: NULL-ended; the last one answers one row:
     * "1" in the first cell if the server cannot be written to, then its
     * version. */
    const char *const *hello;
    /* In front of what writes and answers rows, so that the driver looks for
     * them; "" where it does that anyway. */
    const char *rows_prefix;
    /* For the connection string, unless it has the name already: how long a
     * connect may take, in seconds (%u), and what else; NULL: nothing. */
    const char *patience, *more;
} odbc_known;

/* What the guard knows of a statement that runs. */
typedef struct odbc_watch {
    struct odbc_watch *next, *prev;
    hf_nsec deadline;
    int fd;
    bool listed, cut;
} odbc_watch;

typedef struct odbc_guard {
    pthread_mutex_t mu;
    pthread_t thread;
    bool runs, stop;
    int bell;       /* an eventfd */
    hf_nsec wakes;  /* when it looks again */
    odbc_watch all; /* a ring */
} odbc_guard;

typedef struct odbc_conn odbc_conn;

typedef struct odbc_port {
    sql_port base;
    SQLHENV env;
    const odbc_known *known;
    sql_dialect dialect; /* with '?' for parameters */
    char string[ODBC_STRING_MAX];
    char secret[256]; /* the password, to keep it out of messages */
    odbc_guard guard;
    atomic_bool stood; /* a connection has come about */
    pthread_mutex_t mu;
    odbc_conn *first; /* made by open, for the first who asks */
    bool told_blind;  /* said that a connection has no known descriptor */
} odbc_port;

typedef struct odbc_param {
    char *text;
    size_t room;
    SQLLEN len;
} odbc_param;

/* A statement that is prepared on a connection. */
typedef struct odbc_stmt {
    struct odbc_stmt *next;
    const sql_text *text;
    SQLHSTMT handle;
    odbc_param params[SQL_PARAMS];
} odbc_stmt;

struct odbc_conn {
    sql_conn base;
    SQLHDBC dbc;
    int fd;     /* our own descriptor of its socket; -1: none known */
    int theirs; /* the driver's */
    bool dead;  /* of no use any more */
    odbc_stmt *stmts;
    odbc_watch watch;
    char *cell; /* the cell that is being read */
    size_t cell_room;
    char version[80];
};

/* ---- odbc.c ---- */

/* A port with one connection, whose dialect is known. */
int odbc_port_open(odbc_port **ret, const hf_url *url, hf_error *err);

/* ---- known.c ---- */

const odbc_known *odbc_known_named(const char *name); /* NULL: none */
/* Of a connection that stands. */
const odbc_known *odbc_known_of(SQLHDBC dbc);
/* The same or its near relative, by the version; *ret: its words, for ODBC. */
const odbc_known *odbc_known_settle(const odbc_known *known,
                                    const char *version, sql_dialect *ret);

/* ---- conn.c ---- */

/* With `known` NULL it is found out; port->known and port->dialect are set by
 * the first that succeeds. */
int odbc_connect(sql_port *port, hf_nsec deadline, sql_conn **ret,
                 hf_error *err);
void odbc_disconnect(sql_conn *conn, bool reset);
void odbc_abandon(sql_conn *conn);
bool odbc_stands(sql_conn *conn);
void odbc_stmt_drop(odbc_conn *conn, odbc_stmt *stmt);

/* ---- port.c ---- */

sql_end odbc_run(sql_conn *conn, const sql_text *text,
                 const char *const *params, hf_nsec deadline, sql_rows *ret,
                 hf_nsec *ret_sent, hf_error *err);
sql_end odbc_say(sql_conn *conn, const char *text, hf_nsec deadline,
                 sql_rows *ret, hf_error *err);
void odbc_wake(sql_conn *conn, const sql_wake *wakes, size_t n,
               hf_nsec deadline);

/* ---- errors.c ---- */

/* What the diagnosis of this handle means for a statement. */
sql_end odbc_error_of(const odbc_port *port, SQLSMALLINT type, SQLHANDLE handle,
                      bool writes, hf_error *err);
/* A warning of a statement that was applied: is it worth a doubt? */
void odbc_warning_of(const odbc_port *port, SQLHANDLE handle);
/* The same for a connection that did not come about: a code. */
int odbc_connect_error(const odbc_port *port, SQLHANDLE dbc, hf_error *err);

/* ---- socket.c ---- */

typedef struct odbc_sockets { /* which were there before */
    ino_t *inodes;
    size_t count;
    bool failed;
} odbc_sockets;

void odbc_sockets_note(odbc_sockets *ret);
/* The one that came since: our own descriptor of it, or -1. */
int odbc_sockets_find(const odbc_sockets *before, int *ret_theirs);
void odbc_sockets_done(odbc_sockets *sockets);
/* End the connection at once, with a RST; whoever reads from it wakes. */
void odbc_socket_cut(int fd);
/* Nothing to read and not ended? */
bool odbc_socket_quiet(int fd);

/* ---- guard.c ---- */

int odbc_guard_init(odbc_guard *guard);
void odbc_guard_done(odbc_guard *guard);
/* From now until `end`: cut watch->fd when the deadline has passed. */
void odbc_guard_begin(odbc_guard *guard, odbc_watch *watch, hf_nsec deadline);
bool odbc_guard_end(odbc_guard *guard, odbc_watch *watch); /* true: was cut */

/* ---- probe.c ---- */

void odbc_probe(sql_conn *conn, hf_op *op);

#endif
