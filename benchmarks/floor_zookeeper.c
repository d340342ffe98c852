/* floor_zookeeper.c - the least a correct lock on ZooKeeper can do.
 *
 * Written by hand on a blocking socket: create of an ephemeral node to take it,
 * delete to give it back, a connection and a session a thread.  No renewal, no
 * queue, no record of the holder: what holdfast costs more than this is what
 * those cost.  It sends no pings either, so that its session of 40 s must be
 * used within that time.
 *
 * Beside it the same three requests that holdfast makes: create and a list in
 * one flight, delete.  What is between the two floors is the server's price of
 * the list, without which nobody knows who is ahead. */
#include "quorum.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { CREATE = 1, DELETE = 2, LIST = 8 };
enum { EPHEMERAL = 1, ALL_RIGHTS = 31, ANY_VERSION = -1 };
#define SESSION_MS 40000

struct zk_thread {
    int fd;
    int32_t xid;
    char out[512];
    size_t start, len; /* of the last request; of all */
};

/* ---- Records: big-endian numbers, counted texts ---------------------- */

static void put_int(struct zk_thread *t, int32_t v)
{
    uint32_t big = htobe32((uint32_t)v);

    memcpy(t->out + t->len, &big, sizeof big);
    t->len += sizeof big;
}

static void put_long(struct zk_thread *t, int64_t v)
{
    uint64_t big = htobe64((uint64_t)v);

    memcpy(t->out + t->len, &big, sizeof big);
    t->len += sizeof big;
}

static void put_text(struct zk_thread *t, const char *text, size_t len)
{
    put_int(t, (int32_t)len);
    memcpy(t->out + t->len, text, len);
    t->len += len;
}

/* A node at the top for every key. */
static void put_path(struct zk_thread *t, const char *key)
{
    char path[100];
    int n = snprintf(path, sizeof path, "/floor%s", key);

    if (n < 0 || (size_t)n >= sizeof path)
        bench_die("floor: the key '%s' is too long", key);
    for (int i = 1; i < n; i++)
        if (path[i] == '/')
            path[i] = '-';
    put_text(t, path, (size_t)n);
}

/* ---- One request, one reply ------------------------------------------ */

static void read_all(struct zk_thread *t, void *ret, size_t len)
{
    for (size_t have = 0; have < len;) {
        ssize_t n = recv(t->fd, (char *)ret + have, len - have, 0);

        if (n <= 0)
            bench_die("floor: the server has closed the connection");
        have += (size_t)n;
    }
}

/* A request is a length and a body. */
static void begin(struct zk_thread *t)
{
    t->start = t->len;
    t->len += sizeof(uint32_t);
}

static void end(struct zk_thread *t)
{
    uint32_t size = (uint32_t)(t->len - t->start - sizeof size);

    size = htobe32(size);
    memcpy(t->out + t->start, &size, sizeof size);
}

static void send_all(struct zk_thread *t)
{
    if (send(t->fd, t->out, t->len, MSG_NOSIGNAL) != (ssize_t)t->len)
        bench_die("floor: cannot send: %s", strerror(errno));
    t->len = 0;
}

static size_t read_reply(struct zk_thread *t, char *ret, size_t cap)
{
    uint32_t size;

    read_all(t, &size, sizeof size);
    size = be32toh(size);
    if (size > cap)
        bench_die("floor: a reply of %u bytes", size);
    read_all(t, ret, size);
    return size;
}

static void begin_call(struct zk_thread *t, int32_t type)
{
    begin(t);
    put_int(t, ++t->xid);
    put_int(t, type);
}

static void expect_done(struct zk_thread *t, const char *what, const char *key)
{
    char reply[2048];
    int32_t error;

    /* The number of the request, of the transaction, the error. */
    if (read_reply(t, reply, sizeof reply) < 16)
        bench_die("floor: a reply that is too short");
    memcpy(&error, reply + 12, sizeof error);
    if (error != 0)
        bench_die("floor: %s '%s': error %d", what, key,
                  (int)be32toh((uint32_t)error));
}

/* ---- The side -------------------------------------------------------- */

static void *zk_open_process(const char *where)
{
    char *copy = strdup(where);

    if (copy == NULL)
        bench_die("out of memory");
    return copy;
}

static void *zk_open_thread(void *process, int worker)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct zk_thread *t = calloc(1, sizeof *t);
    const char *port = strrchr(process, ':');
    static const char password[16];
    const int yes = 1;
    char reply[128];

    (void)worker;
    if (t == NULL || port == NULL)
        bench_die("floor: cannot open '%s'", (const char *)process);
    at.sin_port = htons((uint16_t)strtol(port + 1, NULL, 10));
    t->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (t->fd < 0 || connect(t->fd, (struct sockaddr *)&at, sizeof at) != 0 ||
        setsockopt(t->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) != 0)
        bench_die("floor: cannot connect to '%s'", (const char *)process);
    begin(t);
    put_int(t, 0);  /* version */
    put_long(t, 0); /* nothing seen */
    put_int(t, SESSION_MS);
    put_long(t, 0); /* a new session */
    put_text(t, password, sizeof password);
    end(t);
    send_all(t);
    if (read_reply(t, reply, sizeof reply) < 20)
        bench_die("floor: no session");
    return t;
}

static void put_create(struct zk_thread *t, const char *key)
{
    begin_call(t, CREATE);
    put_path(t, key);
    put_text(t, "floor", 5);
    put_int(t, 1); /* rights for one: */
    put_int(t, ALL_RIGHTS);
    put_text(t, "world", 5);
    put_text(t, "anyone", 6);
    put_int(t, EPHEMERAL);
    end(t);
}

static void zk_lock(void *thread, const char *key)
{
    struct zk_thread *t = thread;

    put_create(t, key);
    send_all(t);
    expect_done(t, "create", key);
}

static void zk_lock_and_list(void *thread, const char *key)
{
    struct zk_thread *t = thread;

    put_create(t, key);
    begin_call(t, LIST);
    put_text(t, "/", 1);
    t->out[t->len++] = 0; /* no watch */
    end(t);
    send_all(t);
    expect_done(t, "create", key);
    expect_done(t, "list", key);
}

static void zk_unlock(void *thread, const char *key)
{
    struct zk_thread *t = thread;

    begin_call(t, DELETE);
    put_path(t, key);
    put_int(t, ANY_VERSION);
    end(t);
    send_all(t);
    expect_done(t, "delete", key);
}

const struct side floor_zookeeper = {
    .name = "create, delete",
    .open_process = zk_open_process,
    .open_thread = zk_open_thread,
    .lock = zk_lock,
    .unlock = zk_unlock,
};

const struct side floor_zookeeper_list = {
    .name = "create and list, delete",
    .open_process = zk_open_process,
    .open_thread = zk_open_thread,
    .lock = zk_lock_and_list,
    .unlock = zk_unlock,
};
