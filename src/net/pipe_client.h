/* pipe_client.h - what the tests of the pipe share: a scripted peer, a client.
 *
 * The peer is a thread that answers a line "N and more\n" with "N\n", in order;
 * what it does besides is scripted.  The client's line of calls is what a
 * driver would have. */
#ifndef HF_NET_PIPE_CLIENT_H
#define HF_NET_PIPE_CLIENT_H

#include <pthread.h>

#include "net/pipe.h"

typedef struct peer {
    int server, fd;
    uint16_t port;
    int first_ms;          /* it reads nothing before */
    int each_us;           /* between two answers, at most (0: at once) */
    long hold_after;       /* after so many answers wait for `go` (0: never) */
    const char *last_word; /* instead of an answer, then it closes */
    atomic_bool go;
    pthread_t thread;
} peer;

void peer_start(peer *p);
void peer_stop(peer *p); /* when the client has closed */

typedef struct call {
    struct call *next;
    hf__waiter waiter;
    long number;
    bool attended; /* nobody waits for it on a thread */
} call;

typedef struct client {
    hf__pipe *pipe;
    int epoll_fd;
    const char *format; /* of a command */
    pthread_mutex_t mu; /* the line */
    call *first, **last;
    atomic_long answers, attended, broken;
    hf_error why;
    atomic_bool stop;
    pthread_t keeper;
} client;

void client_open(client *c, const hf__address *address, hf__tls *tls,
                 bool patient);
void client_to(client *c, peer *p, bool patient); /* starts the peer */
void client_close(client *c);
void keeper_start(client *c); /* a thread that owns the epoll */
void keeper_stop(client *c);

/* Send; false: it is broken.  more: what stands behind the number. */
bool ask(client *c, call *who, long number, const char *more);
void ask_attended(client *c, long number);

typedef struct waiting { /* on a thread of its own */
    client *c;
    call mine;
    hf_nsec until;
    bool answer;
    atomic_bool done;
    pthread_t thread;
} waiting;

void wait_start(waiting *w, client *c, int ms);

#endif
