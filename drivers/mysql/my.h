/* my.h - what the files of the mysql driver share.
 *
 * A my_port is a database (its addresses, its bell), a my_conn one connection
 * to it.  A connection belongs to one thread at a time; the port's own fields
 * never change after it was opened, but for those that say so. */
#ifndef HF_DRIVERS_MYSQL_MY_H
#define HF_DRIVERS_MYSQL_MY_H

#include <mysql.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "../sql/place.h"
#include "../sql/port.h"
#include "../sql/store.h"

enum {
    MY_NAMED = 64, /* prepared statements of a connection */
    MY_STATEMENT_MS = 2000,
    MY_LOCK_S = 1,
    MY_LINE = 160,  /* of the server's words in a message */
    MY_CELL = 1024, /* a longer cell is fetched by itself */
    MY_COLUMNS = 16
};

typedef struct my_port my_port;
typedef struct my_conn my_conn;

/* One connection sleeps for all waiters of the store (bell.c). */
typedef enum my_sleep { MY_HEAD, MY_ROWS, MY_ASLEEP } my_sleep;
typedef struct my_bell {
    pthread_mutex_t opening; /* one thread at a time opens it */
    pthread_mutex_t mu;      /* what follows; never held over a wait */
    int epoll_fd;            /* for the life of the port */
    my_conn *conn;           /* NULL: deaf */
    my_conn *post;           /* holds what it sleeps for */
    my_sleep state;          /* which part of its answer is read next */
    int waits;               /* and that is half read: what for */
    MYSQL_RES *rows;         /* being read */
    char address[SQL_BELL_MAX];
    hf_nsec not_before; /* after a failure; under `opening` */
    unsigned failures;
    hf_error why;
} my_bell;

/* Where sessions are that were rung before. */
enum { MY_KNOWN = 64 };
typedef struct my_known {
    char sid[32], bell[SQL_BELL_MAX];
} my_known;

struct my_port {
    sql_port base;
    sql_place place;
    bool no_returning;        /* as if the server could not */
    _Atomic(my_conn *) spare; /* the one that learnt what the server is */
    my_bell bell;
    pthread_mutex_t known_mu;
    my_known known[MY_KNOWN];
    unsigned known_next;
    atomic_bool stranger_told; /* that another account sleeps there */
};

struct my_conn {
    sql_conn base;
    MYSQL *my;
    bool broken; /* of no use: a statement was given up, or the server left */
    bool late;   /* the deadline of the call under way has come */
    bool mariadb;
    bool returning;
    bool tls;
    unsigned long version; /* 101119 */
    int64_t start;         /* when the server was started, its seconds */
    struct {
        const sql_text *key;
        char *text; /* as prepared: a text elsewhere may come to lie there */
        MYSQL_STMT *stmt;
    } named[MY_NAMED];
    unsigned named_count, named_next;
    char *cells; /* MY_COLUMNS of MY_CELL; then one that grows */
    char *long_cell;
    size_t long_room;
};

/* ---- port.c ---- */

int my_port_open(my_port **ret, const hf_url *url, hf_error *err);

/* ---- wait.c ---- */

/* Wait for what the library asks for (MYSQL_WAIT_...), until the deadline;
 * what came, for its _cont function.  Late: MYSQL_WAIT_TIMEOUT, and c->late. */
int my_wait(my_conn *c, int wanted, hf_nsec deadline);
/* Runs a _start function and its _cont function to the end.  `cont` has the
 * events as `status`. */
#define MY_DRIVE(c, deadline, start, cont)                                     \
    do {                                                                       \
        int status = (start);                                                  \
        while (status) {                                                       \
            status = my_wait((c), status, (deadline));                         \
            status = (cont);                                                   \
        }                                                                      \
    } while (0)
/* SIGPIPE is not the application's business: the library writes by TLS without
 * asking for none.  Around everything that may write there. */
typedef struct my_quiet {
    bool on, was_pending;
    sigset_t before;
} my_quiet;
void my_quiet_begin(my_quiet *q, bool tls);
void my_quiet_end(my_quiet *q);

/* ---- dial.c ---- */

int my_connect(sql_port *port, hf_nsec deadline, sql_conn **ret, hf_error *err);
void my_disconnect(sql_conn *conn, bool reset);
void my_abandon(sql_conn *conn);
bool my_stands(sql_conn *conn);
/* Once per process, before anything else of the library. */
int my_library(hf_error *err);

/* ---- run.c ---- */

sql_end my_run(sql_conn *conn, const sql_text *text, const char *const *params,
               hf_nsec deadline, sql_rows *ret, hf_nsec *ret_sent,
               hf_error *err);
sql_end my_say(sql_conn *conn, const char *text, hf_nsec deadline,
               sql_rows *ret, hf_error *err);

/* ---- errors.c ---- */

/* What the end of a statement means: `sent`: its first byte may have gone out;
 * `writes`: it may have changed something.  Marks the connection. */
sql_end my_judge(my_conn *c, unsigned number, const char *state,
                 const char *text, bool sent, bool writes, hf_error *ret);
/* Why a connection did not come about. */
int my_judge_dial(my_conn *c, const char *where, hf_error *ret);
/* The server's words in one line. */
void my_line(const char *text, char ret[MY_LINE]);

/* ---- bell.c ---- */

int my_bell_init(my_port *port, hf_error *err);
void my_bell_done(my_port *port);
void my_bell_abandon(my_port *port);
int my_listen(sql_port *port, const char *sid, hf_nsec deadline,
              char ret_bell[SQL_BELL_MAX], hf_error *err);
void my_unlisten(sql_port *port);
int my_fd(sql_port *port);
void my_dispatch(sql_port *port);

/* ---- ring.c ---- */

/* c->start, asked for once. */
int my_server_start(my_conn *c, hf_nsec deadline, hf_error *err);
void my_wake(sql_conn *conn, const sql_wake *wakes, size_t n, hf_nsec deadline);

/* ---- probe.c ---- */

void my_probe(sql_conn *conn, hf_op *op);

#endif
