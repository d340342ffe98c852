/* relay.h - a relay between a client and a server that loses what the
 * server answers.  What the bytes mean is none of its business. */
#ifndef HF_TEST_RELAY_H
#define HF_TEST_RELAY_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/expect.h"

enum { RELAYED = 8 };

typedef struct relay {
    pthread_t thread;
    int listener, port, server_port;
    int pairs[RELAYED][2]; /* client, server; -1: free */
    atomic_bool stop;
    atomic_bool mute; /* answers are thrown away */
    atomic_bool cut;  /* and then the client is cut off */
    atomic_int lost;  /* bytes thrown away */
} relay;

static inline int socket_to(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    EXPECT(fd >= 0);
    EXPECT(connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    return fd;
}

static inline void end_pair(int pair[2])
{
    struct linger now = {1, 0};

    /* The client is told at once; the server finishes what it was given. */
    setsockopt(pair[0], SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(pair[0]);
    close(pair[1]);
    pair[0] = pair[1] = -1;
}

static inline void carry(relay *r, int pair[2], int from)
{
    char bytes[16384];
    ssize_t n = read(pair[from], bytes, sizeof bytes);

    if (n <= 0) {
        end_pair(pair);
    } else if (from == 1 && atomic_load(&r->mute)) {
        atomic_fetch_add(&r->lost, (int)n);
        if (atomic_load(&r->cut))
            end_pair(pair);
    } else if (write(pair[1 - from], bytes, (size_t)n) != n) {
        end_pair(pair);
    }
}

static inline void accept_one(relay *r)
{
    int fd = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC);

    for (int i = 0; i < RELAYED; i++) {
        if (r->pairs[i][0] < 0) {
            r->pairs[i][0] = fd;
            r->pairs[i][1] = socket_to(r->server_port);
            return;
        }
    }
    FAIL_TEST("the relay has no room");
}

static inline void *run_relay(void *arg)
{
    relay *r = arg;

    while (!atomic_load(&r->stop)) {
        struct pollfd fds[2 * RELAYED + 1];

        for (int i = 0; i < 2 * RELAYED; i++)
            fds[i] =
                (struct pollfd){.fd = r->pairs[i / 2][i % 2], .events = POLLIN};
        fds[2 * RELAYED] = (struct pollfd){.fd = r->listener, .events = POLLIN};
        poll(fds, 2 * RELAYED + 1, 10);
        for (int i = 0; i < 2 * RELAYED; i++) {
            if (fds[i].revents && r->pairs[i / 2][i % 2] == fds[i].fd)
                carry(r, r->pairs[i / 2], i % 2);
        }
        if (fds[2 * RELAYED].revents)
            accept_one(r);
    }
    for (int i = 0; i < RELAYED; i++) {
        if (r->pairs[i][0] >= 0)
            end_pair(r->pairs[i]);
    }
    return NULL;
}

static inline void relay_start(relay *r, int server_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;

    *r = (relay){.server_port = server_port};
    memset(r->pairs, -1, sizeof r->pairs);
    r->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(bind(r->listener, (struct sockaddr *)&at, sizeof at) == 0);
    EXPECT(listen(r->listener, 8) == 0);
    EXPECT(getsockname(r->listener, (struct sockaddr *)&at, &len) == 0);
    r->port = ntohs(at.sin_port);
    EXPECT(pthread_create(&r->thread, NULL, run_relay, r) == 0);
}

static inline void relay_stop(relay *r)
{
    atomic_store(&r->stop, true);
    pthread_join(r->thread, NULL);
    close(r->listener);
}

#endif
