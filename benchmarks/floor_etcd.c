/* floor_etcd.c - the least a correct lock on etcd can do.
 *
 * gRPC written by hand on nghttp2 and a blocking socket: a transaction that
 * puts the key, with a lease, if it is not there, and a DeleteRange; a
 * connection a thread.  No renewal, no queue, no record of the holder, nobody
 * who waits: what holdfast costs more than this is what those cost.
 *
 * The messages are so small that every length in them is one byte. */
#include "quorum.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define LEASE_SECONDS 600

struct message {
    uint8_t at[160];
    size_t len;
};

struct etcd_thread {
    nghttp2_session *h2;
    int fd;
    int64_t lease;
    char host[32];
    struct message out; /* with the five bytes before it */
    size_t sent;
    struct message in;
    bool is_done;
    char status[8]; /* of gRPC: "0" */
};

/* ---- Protobuf -------------------------------------------------------- */

static void put_varint(struct message *m, uint64_t v)
{
    for (; v > 127; v >>= 7)
        m->at[m->len++] = (uint8_t)(v | 128);
    m->at[m->len++] = (uint8_t)v;
}

static void put_number(struct message *m, int field, uint64_t v)
{
    put_varint(m, (uint64_t)field << 3);
    put_varint(m, v);
}

static void put_bytes(struct message *m, int field, const void *at, size_t len)
{
    put_varint(m, (uint64_t)field << 3 | 2);
    put_varint(m, len);
    if (len > 60)
        bench_die("floor: a key is too long");
    memcpy(m->at + m->len, at, len);
    m->len += len;
}

static void put_message(struct message *m, int field, const struct message *in)
{
    put_varint(m, (uint64_t)field << 3 | 2);
    put_varint(m, in->len);
    memcpy(m->at + m->len, in->at, in->len);
    m->len += in->len;
}

/* A number of the reply's top level; 0 if it is not there. */
static uint64_t find_number(const struct message *m, uint64_t field)
{
    size_t i = 5;

    while (i < m->len) {
        uint64_t part[2] = {0, 0}; /* tag, then number or length */

        for (int k = 0; k < 2; k++)
            for (unsigned shift = 0; i < m->len; shift += 7) {
                part[k] |= (uint64_t)(m->at[i] & 127) << shift;
                if (!(m->at[i++] & 128))
                    break;
            }
        if ((part[0] & 7) == 2)
            i += part[1];
        else if (part[0] >> 3 == field)
            return part[1];
    }
    return 0;
}

/* ---- HTTP/2 ---------------------------------------------------------- */

static ssize_t give_body(nghttp2_session *h2, int32_t stream, uint8_t *ret,
                         size_t cap, uint32_t *flags,
                         nghttp2_data_source *source, void *thread)
{
    struct etcd_thread *t = thread;
    size_t n = t->out.len - t->sent;

    (void)h2;
    (void)stream;
    (void)source;
    n = n < cap ? n : cap;
    memcpy(ret, t->out.at + t->sent, n);
    t->sent += n;
    if (t->sent == t->out.len)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

static int take_body(nghttp2_session *h2, uint8_t flags, int32_t stream,
                     const uint8_t *at, size_t len, void *thread)
{
    struct etcd_thread *t = thread;

    (void)h2;
    (void)flags;
    (void)stream;
    if (len > sizeof t->in.at - t->in.len)
        bench_die("floor: a reply is too long");
    memcpy(t->in.at + t->in.len, at, len);
    t->in.len += len;
    return 0;
}

static int take_header(nghttp2_session *h2, const nghttp2_frame *frame,
                       const uint8_t *name, size_t name_len,
                       const uint8_t *value, size_t value_len, uint8_t flags,
                       void *thread)
{
    struct etcd_thread *t = thread;

    (void)h2;
    (void)frame;
    (void)flags;
    if (name_len == 11 && memcmp(name, "grpc-status", 11) == 0)
        snprintf(t->status, sizeof t->status, "%.*s", (int)value_len,
                 (const char *)value);
    return 0;
}

static int take_close(nghttp2_session *h2, int32_t stream, uint32_t error,
                      void *thread)
{
    struct etcd_thread *t = thread;

    (void)h2;
    (void)stream;
    (void)error;
    t->is_done = true;
    return 0;
}

/* All that nghttp2 has to say in one packet. */
static void send_pending(struct etcd_thread *t)
{
    uint8_t packet[4096];
    const uint8_t *part;
    size_t len = 0;
    ssize_t n;

    while ((n = nghttp2_session_mem_send(t->h2, &part)) > 0) {
        if ((size_t)n > sizeof packet - len)
            bench_die("floor: too much to say");
        memcpy(packet + len, part, (size_t)n);
        len += (size_t)n;
    }
    if (len > 0 && send(t->fd, packet, len, MSG_NOSIGNAL) != (ssize_t)len)
        bench_die("floor: cannot send: %s", strerror(errno));
}

#define HEADER(name, value)                                                    \
    {                                                                          \
        (uint8_t *)(name), (uint8_t *)(value), strlen(name), strlen(value),    \
            NGHTTP2_NV_FLAG_NONE                                               \
    }

/* The reply's message is in t->in, behind five bytes. */
static void call(struct etcd_thread *t, const char *method,
                 const struct message *m)
{
    const nghttp2_nv head[] = {
        HEADER(":method", "POST"), HEADER(":scheme", "http"),
        HEADER(":path", method),   HEADER(":authority", t->host),
        HEADER("te", "trailers"),  HEADER("content-type", "application/grpc"),
    };
    const nghttp2_data_provider body = {.read_callback = give_body};
    uint8_t packet[8192];

    memset(t->out.at, 0, 5);
    t->out.at[4] = (uint8_t)m->len;
    memcpy(t->out.at + 5, m->at, m->len);
    t->out.len = 5 + m->len;
    t->in.len = t->sent = 0;
    t->is_done = false;
    t->status[0] = '\0';
    if (nghttp2_submit_request(t->h2, NULL, head, sizeof head / sizeof *head,
                               &body, NULL) < 0)
        bench_die("floor: no request");
    send_pending(t);
    while (!t->is_done) {
        ssize_t n = recv(t->fd, packet, sizeof packet, 0);

        if (n <= 0 || nghttp2_session_mem_recv(t->h2, packet, (size_t)n) != n)
            bench_die("floor: the connection is gone");
        /* Answers to settings and pings are rare and not waited for. */
        if (nghttp2_session_want_write(t->h2))
            send_pending(t);
    }
    if (strcmp(t->status, "0") != 0)
        bench_die("floor: %s: status '%s'", method, t->status);
}

/* ---- The side -------------------------------------------------------- */

static void *etcd_open_process(const char *where)
{
    char *copy = strdup(where);

    if (copy == NULL)
        bench_die("out of memory");
    return copy;
}

static void begin_h2(struct etcd_thread *t)
{
    const nghttp2_settings_entry window = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE,
                                           1 << 20};
    nghttp2_session_callbacks *on;

    if (nghttp2_session_callbacks_new(&on) != 0)
        bench_die("out of memory");
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(on, take_body);
    nghttp2_session_callbacks_set_on_header_callback(on, take_header);
    nghttp2_session_callbacks_set_on_stream_close_callback(on, take_close);
    if (nghttp2_session_client_new(&t->h2, on, t) != 0 ||
        nghttp2_submit_settings(t->h2, NGHTTP2_FLAG_NONE, &window, 1) != 0 ||
        nghttp2_session_set_local_window_size(t->h2, NGHTTP2_FLAG_NONE, 0,
                                              1 << 24) != 0)
        bench_die("out of memory");
    nghttp2_session_callbacks_del(on);
}

static void *etcd_open_thread(void *process, int worker)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct etcd_thread *t = calloc(1, sizeof *t);
    const char *port = strrchr(process, ':');
    struct message grant = {.len = 0};
    const int yes = 1;

    (void)worker;
    if (t == NULL || port == NULL)
        bench_die("floor: cannot open '%s'", (const char *)process);
    snprintf(t->host, sizeof t->host, "127.0.0.1%s", port);
    at.sin_port = htons((uint16_t)strtol(port + 1, NULL, 10));
    t->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (t->fd < 0 || connect(t->fd, (struct sockaddr *)&at, sizeof at) != 0 ||
        setsockopt(t->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) != 0)
        bench_die("floor: cannot connect to '%s'", (const char *)process);
    begin_h2(t);
    put_number(&grant, 1, LEASE_SECONDS);
    call(t, "/etcdserverpb.Lease/LeaseGrant", &grant);
    t->lease = (int64_t)find_number(&t->in, 2);
    if (t->lease == 0)
        bench_die("floor: no lease");
    return t;
}

static void etcd_lock(void *thread, const char *key)
{
    struct etcd_thread *t = thread;
    struct message compare = {.len = 0}, put = {.len = 0}, op = {.len = 0};
    struct message txn = {.len = 0};

    /* That it was created at revision 0: equal (0), create (1). */
    put_number(&compare, 2, 1);
    put_bytes(&compare, 3, key, strlen(key));
    put_number(&compare, 5, 0);
    put_bytes(&put, 1, key, strlen(key));
    put_bytes(&put, 2, "floor", 5);
    put_number(&put, 3, (uint64_t)t->lease);
    put_message(&op, 2, &put);
    put_message(&txn, 1, &compare);
    put_message(&txn, 2, &op);
    call(t, "/etcdserverpb.KV/Txn", &txn);
    if (find_number(&t->in, 2) != 1)
        bench_die("floor: '%s' is taken, and this floor cannot wait", key);
}

static void etcd_unlock(void *thread, const char *key)
{
    struct etcd_thread *t = thread;
    struct message del = {.len = 0};

    put_bytes(&del, 1, key, strlen(key));
    call(t, "/etcdserverpb.KV/DeleteRange", &del);
    if (find_number(&t->in, 2) != 1)
        bench_die("floor: '%s' was not held", key);
}

void floor_etcd_read(void *thread, const char *key)
{
    struct message range = {.len = 0};

    put_bytes(&range, 1, key, strlen(key));
    call(thread, "/etcdserverpb.KV/Range", &range);
}

const struct side floor_etcd = {
    .name = "Txn, DeleteRange",
    .open_process = etcd_open_process,
    .open_thread = etcd_open_thread,
    .lock = etcd_lock,
    .unlock = etcd_unlock,
};
