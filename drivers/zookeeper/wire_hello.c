/* wire_hello.c - one member: connect, shake hands, or ask a four-letter word.
 *
 * Answers: does this member take us, and what does it say about the session?
 * First the connect request, then, with a user, the digest, each with its
 * answer, so whoever uses the connection is known already.  The two do not go
 * out together: a server over Netty has been seen to answer the second first.
 * What the answer means for the session is wire_dial.c's.
 *
 * A member that does not serve (no quorum, still starting) or that is behind
 * the last zxid that we have seen closes the connection without a word: then
 * the next one is tried.  The password is written into the request and nowhere
 * else.  Reply lost: a new session that nobody knows of stays behind in the
 * server, without nodes, until its timeout.  Blocks until the deadline, on a
 * thread that may. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "wire_inside.h"

enum { HELLO_MAX = 1024 };

static void name_member(const zk_wire *wire, size_t which, char *where)
{
    const hf__address *address = &wire->addresses[which];

    snprintf(where, ZK_WHERE,
             strchr(address->host, ':') ? "[%.64s]:%u" : "%.64s:%u",
             address->host, (unsigned)address->port);
}

/* ---- Bytes, on a link that nobody else has ---- */

static int late(const char *where, hf_error *err)
{
    return hfd_error(err, HF_EUNAVAIL, "zookeeper", ETIMEDOUT,
                     "%s: no answer in time", where);
}

static int send_all(hf__link *link, const char *where, const char *bytes,
                    size_t len, hf_nsec deadline, hf_error *err)
{
    while (len > 0) {
        ssize_t n = hf__link_send(link, bytes, len, err);
        struct pollfd fd = {.fd = hf__link_fd(link), .events = POLLOUT};
        hf_nsec left = deadline - hfd_now();

        if (n < 0)
            return HF_EUNAVAIL;
        bytes += n;
        len -= (size_t)n;
        if (n == 0 && left <= 0)
            return late(where, err);
        if (n == 0)
            poll(&fd, 1, (int)(left / HF_MS(1)) + 1);
    }
    return 0;
}

/* One frame whole at the front of *in; what was there before is eaten. */
static int read_frame(zk_hello *h, hf__buf *in, long *ret, hf_error *err)
{
    hf_error why = {0};

    for (;;) {
        long size = zk_frame(in->data + in->start, hf__buf_len(in));
        char *at;
        ssize_t n;

        if (size > HELLO_MAX || size < 0 || hf__buf_len(in) > HELLO_MAX)
            return hfd_error(err, HF_EPROTO, "zookeeper", 0,
                             "%s: this is not a ZooKeeper server", h->where);
        *ret = size;
        if (size > 0)
            return 0;
        at = hf__buf_room(in, HELLO_MAX);
        if (!at)
            return hfd_error(err, HF_ENOMEM, "zookeeper", ENOMEM,
                             "no memory for an answer");
        n = hf__link_recv(h->link, at, HELLO_MAX, h->deadline, -1, &why);
        if (n == 0)
            return late(h->where, err);
        if (n < 0)
            return hfd_error(err, HF_EUNAVAIL, "zookeeper", why.native,
                             "%s: the server ended the connection at the "
                             "handshake (it is not serving now, or is behind "
                             "the others)",
                             h->where);
        in->end += (size_t)n;
    }
}

/* ---- The handshake ---- */

static int read_connected(zk_hello *h, hf__buf *in, hf_error *err)
{
    long size = 0;
    int code = read_frame(h, in, &size, err);

    if (code != 0)
        return code;
    if (!zk_read_connected(in->data + in->start + 4, (size_t)size - 4, &h->got))
        return hfd_error(err, HF_EPROTO, "zookeeper", 0,
                         "%s: this is not a ZooKeeper server", h->where);
    hf__buf_eat(in, (size_t)size);
    return 0;
}

static int read_auth(zk_hello *h, hf__buf *in, hf_error *err)
{
    zk_header header;
    long size = 0;
    int code = read_frame(h, in, &size, err);

    if (code != 0)
        return code;
    if (!zk_read_header(in->data + in->start + 4, (size_t)size - 4, &header) ||
        header.xid != ZK_XID_AUTH || header.error != 0)
        return hfd_error(err, HF_EAUTH, "zookeeper", ZK_AUTH_FAILED,
                         "%s: the server refused user and password", h->where);
    hf__buf_eat(in, (size_t)size);
    return 0;
}

/* Sends what is in *out and empties it. */
static int send_out(zk_hello *h, hf__buf *out, hf_error *err)
{
    int code;

    if (out->failed)
        return hfd_error(err, HF_ENOMEM, "zookeeper", ENOMEM,
                         "no memory for a handshake");
    code = send_all(h->link, h->where, out->data + out->start, hf__buf_len(out),
                    h->deadline, err);
    hf__buf_eat(out, hf__buf_len(out));
    return code;
}

static int shake_hands(zk_wire *wire, zk_hello *h, hf__buf *out, hf__buf *in,
                       hf_error *err)
{
    zk_request auth = {.op = ZK_AUTH,
                       .data = wire->auth,
                       .data_len = wire->auth ? strlen(wire->auth) : 0};
    int code;

    if (!hf__buf_room(in, 1))
        out->failed = true;
    zk_write_connect(out, &h->ask);
    h->sent = hfd_now();
    code = send_out(h, out, err);
    if (code == 0)
        code = read_connected(h, in, err);
    /* Without a session nothing more is answered. */
    if (code != 0 || h->got.session == 0)
        return code;
    if (wire->auth) {
        zk_write_request(out, 0, &auth);
        code = send_out(h, out, err);
        if (code == 0)
            code = read_auth(h, in, err);
    }
    if (code == 0 && hf__buf_len(in) > 0)
        code = hfd_error(err, HF_EPROTO, "zookeeper", 0,
                         "%s: an answer that nobody asked for", h->where);
    return code;
}

int zk_hello_say(zk_wire *wire, size_t which, hf__link *link, zk_hello *h,
                 hf_error *err)
{
    hf__buf out = {0}, in = {0};
    int code = 0;

    name_member(wire, which, h->where);
    h->link = link;
    if (!link)
        code = hf__dial(&h->link, &wire->addresses[which], 1, 0, NULL,
                        wire->tls, h->deadline, err);
    if (code != 0)
        return code;
    code = shake_hands(wire, h, &out, &in, err);
    if (wire->auth && out.data)
        explicit_bzero(out.data, out.room);
    hf__buf_done(&out);
    hf__buf_done(&in);
    if (code != 0) {
        hf__link_close(h->link, false);
        h->link = NULL;
    }
    return code;
}

/* ---- A word ---- */

/* All that comes until the server closes; what has no room is left out. */
static int read_text(hf__link *link, const char *where, char *buf, size_t room,
                     hf_nsec deadline, hf_error *err)
{
    size_t len = 0;

    for (;;) {
        hf_error why = {0};
        char rest[512];
        bool full = len + 1 >= room;
        ssize_t n = hf__link_recv(link, full ? rest : buf + len,
                                  full ? sizeof rest : room - 1 - len, deadline,
                                  -1, &why);

        if (n == 0)
            return late(where, err);
        if (n < 0)
            break;
        if (!full)
            len += (size_t)n;
    }
    buf[len] = '\0';
    return 0;
}

int zk_wire_word(zk_wire *wire, size_t i, const char *word, char *buf,
                 size_t room, hf_nsec deadline, hf_error *err)
{
    char where[ZK_WHERE];
    hf__link *link = NULL;
    int code;

    name_member(wire, i, where);
    code = hf__dial(&link, &wire->addresses[i], 1, 0, NULL, wire->tls, deadline,
                    err);
    if (code == 0)
        code = send_all(link, where, word, strlen(word), deadline, err);
    if (code == 0)
        code = read_text(link, where, buf, room, deadline, err);
    hf__link_close(link, false);
    if (code == 0 && buf[0] == '\0')
        code = hfd_error(err, HF_EUNAVAIL, "zookeeper", 0,
                         "%s: no answer to '%s'", where, word);
    else if (code == 0 && strstr(buf, "not in the whitelist"))
        code = hfd_error(err, HF_ENOTSUP, "zookeeper", 0,
                         "%s: '%s' is not in its 4lw.commands.whitelist", where,
                         word);
    return code;
}
