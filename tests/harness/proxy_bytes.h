/* proxy_bytes.h - bytes on their way through a proxy, and its sockets: made,
 * filled from and drained into without waiting. */
#ifndef HF_TEST_PROXY_BYTES_H
#define HF_TEST_PROXY_BYTES_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/expect.h"

typedef struct bytes {
    char *data;
    size_t len, room;
} bytes;

static inline void add_bytes(bytes *b, const char *data, size_t len)
{
    if (b->len + len > b->room) {
        b->room = (b->len + len) * 2;
        b->data = realloc(b->data, b->room);
        EXPECT(b->data != NULL);
    }
    if (len > 0)
        memcpy(b->data + b->len, data, len);
    b->len += len;
}

static inline void eat_bytes(bytes *b, size_t len)
{
    memmove(b->data, b->data + len, b->len - len);
    b->len -= len;
}

/* False: the other side has ended. */
static inline bool fill(int fd, bytes *b)
{
    char part[16384];
    ssize_t n = recv(fd, part, sizeof part, MSG_DONTWAIT);

    if (n > 0)
        add_bytes(b, part, (size_t)n);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static inline bool drain(int fd, bytes *b)
{
    ssize_t n;

    if (b->len == 0)
        return true;
    n = send(fd, b->data, b->len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0)
        eat_bytes(b, (size_t)n);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* A socket to a loopback port; -1: it does not let us in. */
static inline int dial_port(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    if (fd >= 0 &&
        connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

#endif
