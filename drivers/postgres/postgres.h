/* postgres.h - what the files of the postgres driver share.
 *
 * A pg_port is a database (its addresses, its listener), a pg_conn one
 * connection to it.  A connection belongs to one thread at a time; the port's
 * own fields never change after it was opened, but for those that say so. */
#ifndef HF_DRIVERS_POSTGRES_H
#define HF_DRIVERS_POSTGRES_H

#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>

#include "sql/place.h"
#include "sql/store.h"

enum {
    PG_NAMED = 64, /* prepared statements of a connection */
    PG_STATEMENT_MS = 5000,
    PG_LOCK_MS = 2000,
    PG_LINE = 160 /* of the server's words in a message */
};

typedef enum pg_pooler { PG_POOLER_ASK, PG_POOLER_YES, PG_POOLER_NO } pg_pooler;

typedef struct pg_port pg_port;
typedef struct pg_conn pg_conn;

/* One connection hears for all waiters of the store (listen.c). */
typedef struct pg_listener {
    pthread_mutex_t opening; /* one thread at a time opens it */
    pthread_mutex_t mu;      /* conn, sid; never held over a wait */
    int epoll_fd, kick_fd;   /* for the life of the port */
    pg_conn *conn;           /* NULL: deaf */
    char sid[32];
    hf_nsec not_before; /* after a failure; under `opening` */
    hf_error why;
    unsigned failures;
} pg_listener;

struct pg_port {
    sql_port base;
    sql_place place; /* what it does not say is libpq's own choice */
    pg_pooler pooler;
    atomic_bool pooled; /* a pooler of transactions was seen */
    atomic_bool pooler_told;
    pg_listener ear;
};

struct pg_conn {
    sql_conn base;
    PGconn *pg;
    bool broken; /* of no use: a statement was given up, or the server left */
    bool doubt;  /* a commit was not waited for at the standby */
    struct {
        const sql_text *key;
        char *text; /* as prepared: a text elsewhere may come to lie there */
        unsigned number;
    } named[PG_NAMED];
    unsigned named_count, number;
};

/* ---- port.c ---- */

/* Closed by its class.  Reaches nobody yet. */
int pg_port_open(pg_port **ret, const hf_url *url, hf_error *err);

/* ---- dial.c ---- */

int pg_connect(sql_port *port, hf_nsec deadline, sql_conn **ret, hf_error *err);
void pg_disconnect(sql_conn *conn, bool reset);
void pg_abandon(sql_conn *conn);
bool pg_stands(sql_conn *conn);
/* Wait for these poll events on fd; 0: the deadline has come. */
int pg_wait(int fd, short events, hf_nsec deadline);

/* ---- run.c ---- */

sql_end pg_run(sql_conn *conn, const sql_text *text, const char *const *params,
               hf_nsec deadline, sql_rows *ret, hf_nsec *ret_sent,
               hf_error *err);
sql_end pg_begin(sql_conn *conn, const sql_text *text,
                 const char *const *params, hf_nsec deadline, sql_rows *ret,
                 hf_error *err);
sql_end pg_say(sql_conn *conn, const char *text, hf_nsec deadline,
               sql_rows *ret, hf_error *err);

/* ---- errors.c ---- */

/* What the server's refusal of a statement means. */
sql_end pg_judge(const PGresult *result, const char *where, hf_error *ret);
/* Why a connection did not come about, from libpq's (verbose) text. */
int pg_judge_dial(const PGconn *pg, const char *where, hf_error *ret);
/* The part that is for people, in one line. */
void pg_line(const char *text, char ret[PG_LINE]);
/* A notice that says: committed here, and perhaps not at the standby. */
bool pg_is_unreplicated(const PGresult *notice);

/* ---- listen.c ---- */

int pg_ear_init(pg_port *port, hf_error *err);
void pg_ear_done(pg_port *port);
void pg_ear_abandon(pg_port *port);
int pg_listen(sql_port *port, const char *sid, hf_nsec deadline,
              char ret_bell[SQL_BELL_MAX], hf_error *err);
void pg_unlisten(sql_port *port);
void pg_wake(sql_conn *conn, const sql_wake *wakes, size_t n, hf_nsec deadline);
int pg_fd(sql_port *port);
void pg_dispatch(sql_port *port);

/* ---- probe.c ---- */

void pg_probe(sql_conn *conn, hf_op *op);

#endif
