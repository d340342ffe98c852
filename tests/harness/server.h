/* server.h - a throwaway Redis server, and the certificates it may need.
 *
 * The server is a child of the calling process and dies with the thread that
 * started it, whatever happens to the test: start it on the test's own thread.
 * It listens on a free loopback port, with `tls` on a second one for TLS, and
 * always on a Unix socket in its folder, through which server_ask speaks. */
#ifndef HF_TEST_SERVER_H
#define HF_TEST_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct server_options {
    bool tls;             /* a TLS port with server.pem, for anybody */
    bool tls_clients;     /* the same, for clients with a certificate */
    bool wrong_name;      /* with wrong.pem instead */
    bool expired;         /* with expired.pem instead */
    bool aof;             /* appendonly yes, appendfsync always */
    const char *password; /* of the user `default`; NULL: none */
    const char *more[24]; /* further words for the server, NULL-ended */
} server_options;

typedef struct server {
    pid_t pid; /* 0: not running */
    int port, tls_port;
    char folder[200], socket[240];
    server_options options;
} server;

/* Starts and waits until it answers; opt may be NULL.  A server that does not
 * come up fails the test with its log. */
server *server_start(const server_options *opt);
/* TERM, then KILL; frees.  NULL is allowed. */
void server_stop(server *s);
/* The server stays what it is, for server_restart: */
void server_kill(server *s);      /* KILL, and gone when this returns */
void server_terminate(server *s); /* TERM (saves what it is told to), gone */
void server_pause(server *s);     /* SIGSTOP */
void server_continue(server *s);
/* Run it again on the same ports; empty: without its data. */
void server_restart(server *s, bool empty);

/* One command, words separated by blanks, on a connection of its own; the
 * text of its reply (status, error, number or string; of an array its raw
 * bytes; "" for nil), good until the next call.  `-` in front is an error.
 * NULL: no answer within five seconds. */
const char *server_ask(server *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same, and it must not be an error; as a number. */
long long server_number(server *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The field of INFO, "" if it is not there; good until the next call. */
const char *server_info(server *s, const char *field);

/* A folder with ca.pem, other-ca.pem, server.pem and .key (localhost and
 * 127.0.0.1), wrong.pem and .key (another name), expired.pem and .key (of long
 * ago), client.pem and .key; made in the test's folder at the first call. */
const char *test_certificates(void);

#endif
