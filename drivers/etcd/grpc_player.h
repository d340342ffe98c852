/* grpc_player.h - a thread that plays the server, for the tests of gRPC.
 *
 * It says frames one by one, as nghttp2 would never let a server, and answers a
 * request by whatever function the test has given it.  They include the
 * harness's expect.h, runner.h and ensemble.h before it. */
#ifndef HF_DRIVERS_ETCD_GRPC_PLAYER_H
#define HF_DRIVERS_ETCD_GRPC_PLAYER_H

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "grpc_world.h"

enum { DATA, HEADERS, RESET = 3, SETTINGS, PING = 6, GOAWAY, END = 1, ALL = 4 };

/* ---- The server ---- */

typedef struct player {
    int server, port;
    int fd; /* the connection that is served now */
    pthread_t thread;
    /* What it does with a request of this stream; false: end the
     * connection. */
    bool (*answer)(struct player *p, uint32_t stream);
    /* ... with what comes on a stream that stays open; NULL: nothing. */
    bool (*message)(struct player *p, uint32_t stream,
                    const unsigned char *bytes, size_t len);
    const char *first_word; /* instead of SETTINGS */
    atomic_int late_ms;     /* so long a new connection waits for it */
    atomic_int connections, requests, pings, resets;
    atomic_bool stop;
    unsigned seen; /* requests on this connection */
} player;

static inline void say(const player *p, const void *bytes, size_t len)
{
    /* It may be gone already: the other side ends it when it is odd. */
    (void)!send(p->fd, bytes, len, MSG_NOSIGNAL);
}

static inline void say_frame(const player *p, size_t len, int type, int flags,
                             uint32_t stream, const void *bytes)
{
    unsigned char frame[9 + 4096] = {(unsigned char)(len >> 16),
                                     (unsigned char)(len >> 8),
                                     (unsigned char)len,
                                     (unsigned char)type,
                                     (unsigned char)flags,
                                     (unsigned char)(stream >> 24),
                                     (unsigned char)(stream >> 16),
                                     (unsigned char)(stream >> 8),
                                     (unsigned char)stream};

    EXPECT(len <= 4096);
    if (len > 0)
        memcpy(frame + 9, bytes, len);
    say(p, frame, 9 + len);
}

typedef struct block { /* of header fields, without indexing */
    unsigned char bytes[1024];
    size_t len;
} block;

static inline void add_header(block *b, const char *name, const char *value)
{
    b->bytes[b->len++] = 0;
    b->bytes[b->len++] = (unsigned char)strlen(name);
    memcpy(b->bytes + b->len, name, strlen(name));
    b->len += strlen(name);
    b->bytes[b->len++] = (unsigned char)strlen(value);
    memcpy(b->bytes + b->len, value, strlen(value));
    b->len += strlen(value);
}

static inline void say_headers(const player *p, uint32_t stream,
                               const char *status, const char *type)
{
    block b = {0};

    add_header(&b, ":status", status);
    add_header(&b, "content-type", type);
    say_frame(p, b.len, HEADERS, ALL, stream, b.bytes);
}

static inline void say_trailers(const player *p, uint32_t stream,
                                const char *status, const char *message)
{
    block b = {0};

    add_header(&b, "grpc-status", status);
    if (message)
        add_header(&b, "grpc-message", message);
    say_frame(p, b.len, HEADERS, ALL | END, stream, b.bytes);
}

/* A message of gRPC's, in one frame. */
static inline void say_message(const player *p, uint32_t stream,
                               const hf__buf *message)
{
    size_t len = hf__buf_len(message);
    char bytes[5 + 2048] = {0};

    EXPECT(len <= 2048 && !message->failed);
    bytes[3] = (char)(len >> 8);
    bytes[4] = (char)len;
    memcpy(bytes + 5, message->data + message->start, len);
    say_frame(p, 5 + len, DATA, 0, stream, bytes);
}

static inline void say_well(const player *p, uint32_t stream)
{
    say_headers(p, stream, "200", "application/grpc");
    say_frame(p, 7, DATA, 0, stream, "\0\0\0\0\2\x20\x07");
    say_trailers(p, stream, "0", NULL);
}

static inline bool read_whole(const player *p, unsigned char *to, size_t len)
{
    while (len > 0) {
        ssize_t got = recv(p->fd, to, len, 0);

        if (got <= 0)
            return false;
        to += got;
        len -= (size_t)got;
    }
    return true;
}

/* One frame of the client's; false: the connection is over. */
static inline bool serve_frame(player *p)
{
    static unsigned char body[1 << 20];
    unsigned char head[9];
    size_t len;
    uint32_t stream;

    if (!read_whole(p, head, sizeof head))
        return false;
    len = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
    stream = (uint32_t)head[5] << 24 | (uint32_t)head[6] << 16 |
             (uint32_t)head[7] << 8 | head[8];
    if (!read_whole(p, body, len))
        return false;
    if (head[3] == SETTINGS && !(head[4] & 1))
        say_frame(p, 0, SETTINGS, 1, 0, NULL);
    if (head[3] == PING && !(head[4] & 1)) {
        atomic_fetch_add(&p->pings, 1);
        say_frame(p, 8, PING, 1, 0, body);
    }
    if (head[3] == RESET)
        atomic_fetch_add(&p->resets, 1);
    if (head[3] == DATA && (head[4] & END)) {
        atomic_fetch_add(&p->requests, 1);
        p->seen++;
        return p->answer(p, stream);
    }
    if (head[3] == DATA && p->message)
        return p->message(p, stream, body, len);
    return true;
}

static inline void *run_player(void *arg)
{
    player *p = arg;
    unsigned char preface[24];

    while ((p->fd = accept(p->server, NULL, NULL)) >= 0 &&
           !atomic_load(&p->stop)) {
        atomic_fetch_add(&p->connections, 1);
        p->seen = 0;
        if (read_whole(p, preface, sizeof preface)) {
            test_sleep_ms(atomic_load(&p->late_ms));
            if (p->first_word)
                say(p, p->first_word, strlen(p->first_word));
            else
                say_frame(p, 0, SETTINGS, 0, 0, NULL);
            while (!p->first_word && serve_frame(p))
                continue;
        }
        close(p->fd);
    }
    if (p->fd >= 0)
        close(p->fd);
    return NULL;
}

static inline void start_player(player *p, bool (*answer)(player *, uint32_t),
                                const char *first_word)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof to;

    memset(p, 0, sizeof *p);
    p->answer = answer;
    p->first_word = first_word;
    p->server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(p->server >= 0);
    EXPECT_EQ(bind(p->server, (struct sockaddr *)&to, len), 0);
    EXPECT_EQ(listen(p->server, 16), 0);
    EXPECT_EQ(getsockname(p->server, (struct sockaddr *)&to, &len), 0);
    p->port = ntohs(to.sin_port);
    EXPECT_EQ(pthread_create(&p->thread, NULL, run_player, p), 0);
}

static inline void stop_player(player *p)
{
    atomic_store(&p->stop, true);
    shutdown(p->server, SHUT_RDWR);
    pthread_join(p->thread, NULL);
    close(p->server);
}

static inline void open_player(world *w, player *p,
                               bool (*answer)(player *, uint32_t))
{
    hf_error err = {0};

    memset(w, 0, sizeof *w);
    start_player(p, answer, NULL);
    EXPECT_OK(open_ports(w, &p->port, 1, (way_in){0}, &err), err);
}

static inline void close_player(world *w, player *p)
{
    grpc_close(w->channel);
    stop_player(p);
}

#endif
