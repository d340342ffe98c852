/* sql_server.h - a throwaway database server of a test's own.
 *
 * A child of the calling process (harness/sql-server) that dies with the thread
 * which started it: start it on the test's own thread.  It listens on a free
 * loopback port and on a Unix socket in its folder, through which
 * sql_server_ask speaks, as the client programs of the database do. */
#ifndef HF_TEST_SQL_SERVER_H
#define HF_TEST_SQL_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

typedef enum sql_server_kind {
    ON_POSTGRES,
    ON_MARIADB,
    ON_PGBOUNCER
} sql_server_kind;

typedef struct sql_server sql_server;
typedef struct sql_server_options {
    bool tls;             /* with server.pem of test_certificates() */
    bool wrong_name;      /* with wrong.pem instead */
    bool expired;         /* with expired.pem instead */
    sql_server *behind;   /* PgBouncer: the PostgreSQL behind it */
    sql_server *copies;   /* PostgreSQL: a hot standby of this one */
    int disk_mb;          /* its data on a disk of this size that lasts as long
                           as the server runs; skips unless we are root */
    const char *more[16]; /* further words for the server, NULL-ended */
} sql_server_options;

struct sql_server {
    sql_server_kind kind;
    pid_t pid; /* 0: not running */
    int port;
    char folder[200], log[240];
    sql_server_options options;
};

/* Starts and waits until it answers; opt may be NULL.  A server that does not
 * come up fails the test with its log. */
sql_server *sql_server_start(sql_server_kind kind,
                             const sql_server_options *opt);
/* Ends it and frees.  NULL is allowed. */
void sql_server_stop(sql_server *s);
/* The server stays what it is, for sql_server_restart: */
void sql_server_kill(sql_server *s);      /* KILL to all its processes; gone */
void sql_server_terminate(sql_server *s); /* as its init script would; gone */
void sql_server_pause(sql_server *s);     /* SIGSTOP to all its processes */
void sql_server_continue(sql_server *s);
/* Run it again on the same port, with the same data. */
void sql_server_restart(sql_server *s);

/* As the superuser, on a connection of its own: the rows, one a line, columns
 * by '|' (MariaDB: by a tab), without the last newline; good until the thread's
 * next call.  `-` in front is an error.  NULL: no answer in five seconds. */
const char *sql_server_ask(sql_server *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same, and it must not be an error; as a number. */
long long sql_server_number(sql_server *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A copy becomes the primary.  Not by asking for it and waiting in one: it may
 * look for the old one first, for longer than a question may take. */
void sql_server_promote(sql_server *copy);

/* scheme://USER@127.0.0.1:PORT/holdfast?query, for the user given ("" is the
 * superuser; "keeper:s3cret" is the other one, for TLS only) and query ("":
 * none).  Good for the next thirty calls. */
const char *sql_server_url(sql_server *s, const char *user, const char *query);

#endif
