/* sql_relay_test.h - a relay between a client and a database that loses,
 * holds back or cuts what passes.
 *
 * It knows no protocol: the drivers send a statement with one write and wait
 * for its answer, so what one read of the client's socket brings is a
 * statement, and the next bytes of the server are its answer.  A rule strikes
 * at the nth statement that contains its text (an id, a part of an entry).
 * "Executed" is certain: an answer is lost only after it has come. */
#ifndef HF_DRIVERS_SQL_RELAY_TEST_H
#define HF_DRIVERS_SQL_RELAY_TEST_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/expect.h"
#include "harness/runner.h"

enum { RELAYED = 32, RELAY_BYTES = 65536 };

typedef enum relay_act {
    RELAY_PASS = 0,
    RELAY_CUT_BEFORE, /* the client is cut off, the server never sees it */
    RELAY_CUT_REPLY,  /* executed; the client is cut off instead */
    RELAY_HOLD /* the client is cut off; the server gets it at relay_release */
} relay_act;

typedef struct relay_pair {
    int client, server; /* -1: none */
    bool cut_reply;
    char *held; /* bytes that wait for the release */
    size_t held_len;
} relay_pair;

typedef struct relay {
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what follows */
    int listener, port, server_port;
    relay_pair pairs[RELAYED];
    bool stop, black_hole, release, cut_all, refuse;
    relay_act act;
    char text[64];
    unsigned nth, matched, struck;
    int slow_ms; /* each statement is on its way for so long */
} relay;

static inline void relay_reset(int *fd)
{
    struct linger now = {1, 0};

    if (*fd < 0)
        return;
    setsockopt(*fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(*fd);
    *fd = -1;
}

static inline void relay_end(relay_pair *pair)
{
    relay_reset(&pair->client);
    if (pair->server >= 0)
        close(pair->server); /* it finishes what it was given */
    free(pair->held);
    *pair = (relay_pair){.client = -1, .server = -1};
}

static inline void relay_send(relay_pair *pair, int to, const char *bytes,
                              size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t n = send(to, bytes + at, len - at, MSG_NOSIGNAL);

        if (n <= 0) {
            relay_end(pair);
            return;
        }
        at += (size_t)n;
    }
}

static inline void relay_from_client(relay *r, relay_pair *pair)
{
    static char bytes[RELAY_BYTES];
    ssize_t n = read(pair->client, bytes, sizeof bytes);
    relay_act act = RELAY_PASS;

    if (n <= 0) {
        relay_end(pair);
        return;
    }
    if (r->act != RELAY_PASS &&
        memmem(bytes, (size_t)n, r->text, strlen(r->text)) &&
        ++r->matched == r->nth) {
        act = r->act;
        r->act = RELAY_PASS;
        r->struck++;
    }
    switch (act) {
    case RELAY_CUT_BEFORE:
        relay_end(pair);
        return;
    case RELAY_HOLD:
        pair->held = malloc((size_t)n);
        EXPECT(pair->held != NULL);
        memcpy(pair->held, bytes, (size_t)n);
        pair->held_len = (size_t)n;
        relay_reset(&pair->client);
        return;
    case RELAY_CUT_REPLY:
        pair->cut_reply = true;
        break;
    case RELAY_PASS:
        break;
    }
    if (r->slow_ms > 0)
        test_sleep_ms(r->slow_ms);
    relay_send(pair, pair->server, bytes, (size_t)n);
}

static inline void relay_from_server(relay_pair *pair)
{
    static char bytes[RELAY_BYTES];
    ssize_t n = read(pair->server, bytes, sizeof bytes);

    if (n > 0 && pair->cut_reply)
        test_sleep_ms(20); /* an answer may begin before its commit */
    if (n <= 0 || pair->cut_reply)
        relay_end(pair);
    else if (pair->client >= 0)
        relay_send(pair, pair->client, bytes, (size_t)n);
    else if (!pair->held)
        relay_end(pair); /* the answer to what was held back */
}

static inline void relay_accept(relay *r)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)r->server_port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC);

    for (int i = 0; i < RELAYED; i++) {
        relay_pair *pair = &r->pairs[i];

        if (pair->client >= 0 || pair->server >= 0)
            continue;
        pair->client = fd;
        pair->server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (r->refuse ||
            connect(pair->server, (struct sockaddr *)&to, sizeof to) != 0)
            relay_end(pair);
        return;
    }
    FAIL_TEST("the relay has no room");
}

/* What the test has asked for since the last round. */
static inline void relay_obey(relay *r)
{
    for (int i = 0; i < RELAYED; i++) {
        relay_pair *pair = &r->pairs[i];

        if (r->release && pair->held) {
            char *held = pair->held;

            pair->held = NULL;
            relay_send(pair, pair->server, held, pair->held_len);
            free(held);
        }
        if (r->cut_all && pair->client >= 0)
            relay_end(pair);
    }
    r->release = r->cut_all = false;
}

static inline void *relay_run(void *arg)
{
    relay *r = arg;

    for (;;) {
        struct pollfd fds[2 * RELAYED + 1];
        int n = 2 * RELAYED;

        pthread_mutex_lock(&r->mutex);
        relay_obey(r);
        for (int i = 0; i < n; i++)
            fds[i] = (struct pollfd){.fd = r->black_hole ? -1
                                           : i % 2 ? r->pairs[i / 2].server
                                                   : r->pairs[i / 2].client,
                                     .events = POLLIN};
        fds[n] = (struct pollfd){.fd = r->listener, .events = POLLIN};
        if (r->stop)
            break;
        pthread_mutex_unlock(&r->mutex);
        poll(fds, (nfds_t)n + 1, 5);
        pthread_mutex_lock(&r->mutex);
        for (int i = 0; i < n; i++) {
            relay_pair *pair = &r->pairs[i / 2];

            if (!fds[i].revents ||
                fds[i].fd != (i % 2 ? pair->server : pair->client))
                continue;
            if (i % 2)
                relay_from_server(pair);
            else
                relay_from_client(r, pair);
        }
        if (fds[n].revents)
            relay_accept(r);
        pthread_mutex_unlock(&r->mutex);
    }
    for (int i = 0; i < RELAYED; i++)
        relay_end(&r->pairs[i]);
    pthread_mutex_unlock(&r->mutex);
    return NULL;
}

static inline relay *relay_start(int server_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    relay *r = calloc(1, sizeof *r);

    EXPECT(r != NULL);
    r->server_port = server_port;
    pthread_mutex_init(&r->mutex, NULL);
    for (int i = 0; i < RELAYED; i++)
        r->pairs[i] = (relay_pair){.client = -1, .server = -1};
    r->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(bind(r->listener, (struct sockaddr *)&at, sizeof at) == 0);
    EXPECT(listen(r->listener, 32) == 0);
    EXPECT(getsockname(r->listener, (struct sockaddr *)&at, &len) == 0);
    r->port = ntohs(at.sin_port);
    EXPECT(pthread_create(&r->thread, NULL, relay_run, r) == 0);
    return r;
}

static inline void relay_stop(relay *r)
{
    pthread_mutex_lock(&r->mutex);
    r->stop = true;
    pthread_mutex_unlock(&r->mutex);
    pthread_join(r->thread, NULL);
    close(r->listener);
    pthread_mutex_destroy(&r->mutex);
    free(r);
}

/* The nth statement from now on with this text in it; "": any. */
static inline void relay_rule(relay *r, relay_act act, const char *text,
                              unsigned nth)
{
    pthread_mutex_lock(&r->mutex);
    r->act = act;
    r->nth = nth;
    r->matched = r->struck = 0;
    snprintf(r->text, sizeof r->text, "%s", text);
    pthread_mutex_unlock(&r->mutex);
}

static inline unsigned relay_struck(relay *r)
{
    unsigned struck;

    pthread_mutex_lock(&r->mutex);
    struck = r->struck;
    pthread_mutex_unlock(&r->mutex);
    return struck;
}

#define RELAY_SET(r, member, value)                                            \
    do {                                                                       \
        pthread_mutex_lock(&(r)->mutex);                                       \
        (r)->member = (value);                                                 \
        pthread_mutex_unlock(&(r)->mutex);                                     \
    } while (0)

/* Now the server gets what was held back. */
static inline void relay_release(relay *r)
{
    RELAY_SET(r, release, true);
}

#endif
