/* strike.h - a proxy that loses exactly one request, or its answer.
 *
 * It stands between a client and a ZooKeeper or an etcd, follows the frames of
 * either and counts requests (ZooKeeper: whatever has a number; etcd: whatever
 * opens a stream).  The n-th is struck: the connection is cut before it reaches
 * the server, or when its answer comes back, which is thrown away; after that,
 * if so asked, the next ones in the same way.  The server finishes what it was
 * given.  Or the n-th is held back until it is let go, with all behind it on
 * its connection.  What the frames mean is none of its business. */
#ifndef HF_TEST_STRIKE_H
#define HF_TEST_STRIKE_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/expect.h"

typedef enum strike_tongue { STRIKE_ZOOKEEPER, STRIKE_ETCD } strike_tongue;
typedef enum strike_when {
    STRIKE_BEFORE,
    STRIKE_ANSWER,
    STRIKE_HOLD
} strike_when;
enum { STRIKE_PAIRS = 16, STRIKE_ROOM = 1 << 18 };

typedef struct strike_side {
    int fd;
    bool greeted; /* the first frame has no number */
    size_t len;
    unsigned char *bytes;
} strike_side;

typedef struct strike_pair {
    bool open;
    strike_side side[2]; /* client, server */
    long newest;         /* request */
    long awaited;        /* whose answer is lost; 0: nobody's */
    bool held;           /* what the client sends stays here */
} strike_pair;

typedef struct striker {
    strike_tongue tongue;
    pthread_t thread;
    int listener, port, server_port;
    strike_pair pairs[STRIKE_PAIRS];
    atomic_bool stop;
    pthread_mutex_t mutex; /* guards what follows */
    int nth, times;        /* 0: nothing is struck */
    strike_when when;
    int struck;
    bool holding; /* until it is let go */
    bool cutting; /* all connections, once */
    int answers;  /* that were carried since the last such cut */
} striker;

/* ---- Frames ------------------------------------------------------------- */

typedef struct strike_frame {
    size_t size; /* 0: not whole yet */
    long id;     /* 0: no request's and no answer */
    bool request;
} strike_frame;

static inline long strike_number(const unsigned char *at, int n)
{
    unsigned long value = 0;

    for (int i = 0; i < n; i++)
        value = value << 8 | at[i];
    return n == 4 ? (long)(int)value : (long)value;
}

static inline strike_frame strike_zookeeper(const strike_side *side, int from)
{
    strike_frame frame = {.size = 0};
    size_t size;

    if (side->len < 8)
        return frame;
    size = 4 + (size_t)strike_number(side->bytes, 4);
    if (side->len < size)
        return frame;
    frame.size = size;
    frame.id = side->greeted ? strike_number(side->bytes + 4, 4) : 0;
    if (frame.id < 0)
        frame.id = 0; /* a ping, an event */
    frame.request = from == 0 && frame.id > 0;
    return frame;
}

static inline strike_frame strike_etcd(const strike_side *side, int from)
{
    enum { PREFACE = 24, HEAD = 9, DATA = 0, HEADERS = 1 };
    strike_frame frame = {.size = 0};
    size_t size;

    if (from == 0 && !side->greeted) {
        frame.size = side->len < PREFACE ? 0 : PREFACE;
        return frame;
    }
    if (side->len < HEAD)
        return frame;
    size = HEAD + (size_t)strike_number(side->bytes, 3);
    if (side->len < size)
        return frame;
    frame.size = size;
    if (side->bytes[3] == HEADERS || side->bytes[3] == DATA)
        frame.id = strike_number(side->bytes + 5, 4);
    frame.request = from == 0 && side->bytes[3] == HEADERS;
    return frame;
}

/* ---- Carrying ----------------------------------------------------------- */

static inline void strike_end(strike_pair *pair)
{
    struct linger now = {1, 0};

    /* The client is told at once; the server finishes what it was given. */
    setsockopt(pair->side[0].fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    for (int i = 0; i < 2; i++) {
        close(pair->side[i].fd);
        free(pair->side[i].bytes);
    }
    *pair = (strike_pair){.open = false};
}

/* Is the connection to be cut instead of carrying this frame of the client? */
static inline bool strike_hits(striker *x, strike_pair *pair,
                               const strike_frame *frame)
{
    bool cut = false;

    if (!frame->request || frame->id <= pair->newest)
        return false;
    pair->newest = frame->id;
    pthread_mutex_lock(&x->mutex);
    if (x->nth > 0 && !pair->awaited && --x->nth == 0) {
        x->struck++;
        x->nth = --x->times > 0 ? 1 : 0;
        cut = x->when == STRIKE_BEFORE;
        if (x->when == STRIKE_HOLD)
            pair->held = x->holding = true;
        else
            pair->awaited = frame->id;
    }
    pthread_mutex_unlock(&x->mutex);
    return cut;
}

static inline bool strike_write(int fd, const unsigned char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);

        if (n <= 0)
            return false;
        bytes += n;
        len -= (size_t)n;
    }
    return true;
}

static inline void strike_count(striker *x)
{
    pthread_mutex_lock(&x->mutex);
    x->answers++;
    pthread_mutex_unlock(&x->mutex);
}

/* Whatever is whole goes to the other side; false: the connection has ended. */
static inline bool strike_forward(striker *x, strike_pair *pair, int from)
{
    strike_side *side = &pair->side[from];

    for (;;) {
        strike_frame frame = x->tongue == STRIKE_ETCD
                                 ? strike_etcd(side, from)
                                 : strike_zookeeper(side, from);
        bool cut;

        if (frame.size == 0)
            return true;
        cut = from == 1 ? frame.id > 0 && frame.id == pair->awaited
                        : strike_hits(x, pair, &frame);
        if (from == 0 && pair->held)
            return true;
        if (cut ||
            !strike_write(pair->side[1 - from].fd, side->bytes, frame.size)) {
            strike_end(pair);
            return false;
        }
        if (from == 1 && frame.id > 0)
            strike_count(x);
        side->greeted = true;
        side->len -= frame.size;
        memmove(side->bytes, side->bytes + frame.size, side->len);
    }
}

static inline void strike_carry(striker *x, strike_pair *pair, int from)
{
    strike_side *side = &pair->side[from];
    ssize_t n =
        read(side->fd, side->bytes + side->len, STRIKE_ROOM - side->len);

    if (n <= 0) {
        strike_end(pair);
        return;
    }
    side->len += (size_t)n;
    if (!(from == 0 && pair->held) && strike_forward(x, pair, from))
        EXPECT(side->len < STRIKE_ROOM);
}

/* What was held back goes on when it is let go; what is to be cut ends. */
static inline void strike_go_on(striker *x)
{
    bool holding, cutting;

    pthread_mutex_lock(&x->mutex);
    holding = x->holding;
    cutting = x->cutting;
    x->cutting = false;
    if (cutting)
        x->answers = 0;
    pthread_mutex_unlock(&x->mutex);
    for (int i = 0; i < STRIKE_PAIRS; i++) {
        strike_pair *pair = &x->pairs[i];

        if (pair->open && cutting) {
            strike_end(pair);
        } else if (pair->open && pair->held && !holding) {
            pair->held = false;
            strike_forward(x, pair, 0);
        }
    }
}

static inline int strike_dial(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    EXPECT(fd >= 0);
    EXPECT(connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    return fd;
}

static inline void strike_accept(striker *x)
{
    int fd = accept4(x->listener, NULL, NULL, SOCK_CLOEXEC), i = 0;

    EXPECT(fd >= 0);
    while (i < STRIKE_PAIRS && x->pairs[i].open)
        i++;
    EXPECT(i < STRIKE_PAIRS);
    x->pairs[i] =
        (strike_pair){.open = true,
                      .side = {{.fd = fd, .bytes = malloc(STRIKE_ROOM)},
                               {.fd = strike_dial(x->server_port),
                                .bytes = malloc(STRIKE_ROOM)}}};
    EXPECT(x->pairs[i].side[0].bytes && x->pairs[i].side[1].bytes);
}

static inline void *strike_run(void *arg)
{
    striker *x = arg;

    while (!atomic_load(&x->stop)) {
        struct pollfd fds[2 * STRIKE_PAIRS + 1];

        for (int i = 0; i < 2 * STRIKE_PAIRS; i++) {
            const strike_pair *pair = &x->pairs[i / 2];

            fds[i] = (struct pollfd){
                .fd = pair->open ? pair->side[i % 2].fd : -1, .events = POLLIN};
        }
        fds[2 * STRIKE_PAIRS] =
            (struct pollfd){.fd = x->listener, .events = POLLIN};
        poll(fds, 2 * STRIKE_PAIRS + 1, 10);
        strike_go_on(x);
        for (int i = 0; i < 2 * STRIKE_PAIRS; i++) {
            strike_pair *pair = &x->pairs[i / 2];

            if (fds[i].revents && pair->open)
                strike_carry(x, pair, i % 2);
        }
        if (fds[2 * STRIKE_PAIRS].revents)
            strike_accept(x);
    }
    for (int i = 0; i < STRIKE_PAIRS; i++) {
        if (x->pairs[i].open)
            strike_end(&x->pairs[i]);
    }
    return NULL;
}

/* ---- For tests ---------------------------------------------------------- */

static inline void strike_start(striker *x, strike_tongue tongue,
                                int server_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;

    *x = (striker){.tongue = tongue, .server_port = server_port};
    EXPECT(pthread_mutex_init(&x->mutex, NULL) == 0);
    x->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(bind(x->listener, (struct sockaddr *)&at, sizeof at) == 0);
    EXPECT(listen(x->listener, 16) == 0);
    EXPECT(getsockname(x->listener, (struct sockaddr *)&at, &len) == 0);
    x->port = ntohs(at.sin_port);
    EXPECT(pthread_create(&x->thread, NULL, strike_run, x) == 0);
}

static inline void strike_stop(striker *x)
{
    atomic_store(&x->stop, true);
    pthread_join(x->thread, NULL);
    close(x->listener);
    pthread_mutex_destroy(&x->mutex);
}

/* Strike the nth request from now on, and the times - 1 that follow it; nth 0:
 * none.  Returns how many were struck since the last call. */
static inline int strike_set(striker *x, int nth, strike_when when, int times)
{
    int struck;

    pthread_mutex_lock(&x->mutex);
    struck = x->struck;
    x->struck = 0;
    x->nth = nth;
    x->when = when;
    x->times = times;
    pthread_mutex_unlock(&x->mutex);
    return struck;
}

/* All connections end now. */
static inline void strike_cut_all(striker *x)
{
    pthread_mutex_lock(&x->mutex);
    x->cutting = true;
    x->answers = 0;
    pthread_mutex_unlock(&x->mutex);
}

/* How many answers came through since then? */
static inline int strike_answers(striker *x)
{
    int answers;

    pthread_mutex_lock(&x->mutex);
    answers = x->cutting ? 0 : x->answers;
    pthread_mutex_unlock(&x->mutex);
    return answers;
}

/* Is the one that was to be held back here? */
static inline bool strike_holds(striker *x)
{
    bool holds;

    pthread_mutex_lock(&x->mutex);
    holds = x->holding;
    pthread_mutex_unlock(&x->mutex);
    return holds;
}

/* What is held back goes on; others may be struck. */
static inline void strike_let_go(striker *x)
{
    pthread_mutex_lock(&x->mutex);
    x->holding = false;
    pthread_mutex_unlock(&x->mutex);
}

/* No more of them; what is held back is let go. */
static inline void strike_no_more(striker *x)
{
    pthread_mutex_lock(&x->mutex);
    x->nth = x->times = 0;
    x->holding = false;
    pthread_mutex_unlock(&x->mutex);
}

#endif
