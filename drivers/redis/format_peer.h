/* format_peer.h - for tests of the peers' formats: a peer, and one of ours.
 *
 * A peer is a bare connection that sends the very commands which another
 * library sends and reads what comes back; it shares no code with the driver.
 * "Ours" is the driver without the core: each call is one operation, so that a
 * test decides when a waiter looks again and sees whether it was woken.
 *
 * A test includes base/url.h and the harness before this. */
#ifndef HF_DRIVERS_REDIS_FORMAT_PEER_H
#define HF_DRIVERS_REDIS_FORMAT_PEER_H

#include <arpa/inet.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

#include "format.h"

enum { PEER_WAIT_MS = 20000 };

/* ---- A peer ---- */

typedef struct peer {
    int fd;
    hf__buf in;
    char text[2048]; /* of the last reply */
} peer;

static inline peer *peer_open(const server *s)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)s->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    peer *p = hfd_alloc(sizeof *p);

    EXPECT(p != NULL);
    p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(p->fd >= 0);
    EXPECT(connect(p->fd, (struct sockaddr *)&to, sizeof to) == 0);
    return p;
}

static inline void peer_close(peer *p)
{
    close(p->fd);
    hf__buf_done(&p->in);
    hfd_free(p);
}

/* A reply as words: nil, numbers, texts; -TEXT is an error. */
static inline void peer_write(peer *p, size_t *len, const resp *reply)
{
    size_t room = sizeof p->text - *len;
    int n = 0;

    if (reply->type == RESP_ARRAY) {
        resp item = resp_item(reply, 0);

        for (int64_t i = 0; i < reply->number; i++) {
            if (i > 0)
                item = resp_at(item.after);
            peer_write(p, len, &item);
        }
        return;
    }
    if (reply->type == RESP_NIL)
        n = snprintf(p->text + *len, room, "%snil", *len ? " " : "");
    else if (reply->type == RESP_INTEGER)
        n = snprintf(p->text + *len, room, "%s%lld", *len ? " " : "",
                     (long long)reply->number);
    else
        n = snprintf(p->text + *len, room, "%s%s%.*s", *len ? " " : "",
                     reply->type == RESP_ERROR ? "-" : "", (int)reply->len,
                     reply->text);
    EXPECT(n >= 0 && (size_t)n < room);
    *len += (size_t)n;
}

/* The next reply or push; NULL: none came within ms. */
static inline const char *peer_read(peer *p, int ms)
{
    long long end = test_now_ms() + ms;
    size_t len = 0;
    resp reply;
    long size;

    while ((size = resp_size(p->in.data + p->in.start, hf__buf_len(&p->in))) ==
           0) {
        struct pollfd at = {.fd = p->fd, .events = POLLIN};
        long long left = end - test_now_ms();
        char bytes[4096];
        ssize_t n;

        if (left < 0 || poll(&at, 1, (int)left) <= 0)
            return NULL;
        n = recv(p->fd, bytes, sizeof bytes, 0);
        EXPECT(n > 0);
        hf__buf_add(&p->in, bytes, (size_t)n);
    }
    EXPECT(size > 0);
    reply = resp_at(p->in.data + p->in.start);
    p->text[0] = '\0';
    peer_write(p, &len, &reply);
    hf__buf_eat(&p->in, (size_t)size);
    return p->text;
}

/* Words, the last one NULL; the reply as text. */
static inline const char *peer_ask(peer *p, const char *word, ...)
{
    const char *words[32];
    unsigned n = 0;
    hf__buf out = {0};
    const char *reply;
    va_list list;

    va_start(list, word);
    for (; word && n < 32; word = va_arg(list, const char *))
        words[n++] = word;
    va_end(list);
    resp_command(&out, n);
    for (unsigned i = 0; i < n; i++)
        resp_text(&out, words[i]);
    EXPECT(send(p->fd, out.data + out.start, hf__buf_len(&out), MSG_NOSIGNAL) ==
           (ssize_t)hf__buf_len(&out));
    hf__buf_done(&out);
    reply = peer_read(p, PEER_WAIT_MS);
    EXPECT(reply != NULL);
    return reply;
}

#define ASK(p, ...) peer_ask(p, __VA_ARGS__, NULL)

/* A push comes that has this in it. */
static inline void peer_hears(peer *p, const char *part)
{
    const char *text = peer_read(p, PEER_WAIT_MS);

    if (!text)
        FAIL_TEST("nothing was published with '%s'", part);
    EXPECT_HAS(text, part);
}

/* ---- Ours ---- */

typedef struct ours {
    const hf_driver *driver;
    hf_store *store;
    hf_url *url;
    uint32_t caps;
    hf_id sid;
    atomic_int changed; /* of `waits`, or of all */
    atomic_int changed_this;
    hf_id waits;
} ours;

static inline void ours_changed(void *ctx, const hf_id *rid,
                                const hf_place *fresh)
{
    ours *o = ctx;

    (void)fresh;
    if (rid && memcmp(rid, &o->waits, sizeof *rid) == 0)
        atomic_fetch_add(&o->changed_this, 1);
    else if (!rid)
        atomic_fetch_add(&o->changed, 1);
}

static inline void ours_news(void *ctx, const hf_id *rid, int reason)
{
    (void)ctx;
    (void)rid;
    FAIL_TEST("news of %s", hf_error_name(reason));
}

static inline void ours_doubt(void *ctx, int reason, const char *text)
{
    (void)ctx;
    (void)reason;
    hfd_log(HF_LOG_WARN, "%s", text);
}

static inline void ours_done(hf_op *op)
{
    op->core = op;
}

static inline void ours_run(ours *o, hf_op *op)
{
    op->sid = o->sid;
    op->deadline = hfd_now() + HF_MS(PEER_WAIT_MS);
    op->driven = true;
    op->done = ours_done;
    op->core = NULL;
    o->driver->start(o->store, op);
    o->driver->drive(o->store, op);
    EXPECT(op->core == op);
}

/* A store and a session of this lease. */
static inline ours *ours_open_url(const char *url, int ttl_ms)
{
    ours *o = hfd_alloc(sizeof *o);
    hf_host host = {.ctx = o,
                    .changed = ours_changed,
                    .news = ours_news,
                    .doubt = ours_doubt};
    hf_op op = {.kind = HF_OP_ATTACH, .ttl = HF_MS(ttl_ms)};
    hf_error err = {.code = 0};

    EXPECT(o != NULL);
    EXPECT_OK(hf__url_parse(&o->url, url, &err), err);
    o->driver = hf_driver_entry();
    EXPECT_OK(o->driver->open(&o->store, o->url, &host, &o->caps, &err), err);
    hfd_random(&o->sid, sizeof o->sid);
    op.text = "tester";
    op.text_len = 6;
    ours_run(o, &op);
    EXPECT_CODE(op.error.code, 0);
    EXPECT(op.store_us > 0);
    return o;
}

static inline ours *ours_open_at(int port, const char *query, int ttl_ms)
{
    char url[300];

    snprintf(url, sizeof url, "redis://127.0.0.1:%d/?%s", port, query);
    return ours_open_url(url, ttl_ms);
}

static inline ours *ours_open(const server *s, const char *query)
{
    return ours_open_at(s->port, query, 30000);
}

static inline void ours_close(ours *o)
{
    hf_op op = {.kind = HF_OP_DETACH};

    ours_run(o, &op);
    EXPECT_CODE(op.error.code, 0);
    o->driver->close(o->store);
    hf__url_free(o->url);
    hfd_free(o);
}

static inline hf_place ours_place(const char *key)
{
    hf_place place = {
        .key = key, .key_len = (uint16_t)strlen(key), .run = 1, .places = 1};

    hfd_random(&place.rid, sizeof place.rid);
    return place;
}

/* These answer the code; the verdict is in the place. */
static inline int ours_join(ours *o, hf_place *place, bool only_if_granted)
{
    hf_op op = {
        .kind = HF_OP_JOIN, .place = place, .only_if_granted = only_if_granted};

    o->waits = place->rid;
    ours_run(o, &op);
    return op.outcome == HF_UNKNOWN ? HF_EUNKNOWN : op.error.code;
}

static inline int ours_look(ours *o, hf_place *place)
{
    hf_op op = {.kind = HF_OP_RECHECK, .places = &place, .place_count = 1};

    ours_run(o, &op);
    return op.error.code;
}

static inline int ours_renew(ours *o, hf_place *place)
{
    hf_op op = {.kind = HF_OP_RENEW,
                .ttl = HF_MS(30000),
                .places = &place,
                .place_count = 1};

    ours_run(o, &op);
    return op.error.code;
}

static inline hf_verdict ours_leave(ours *o, hf_place *place)
{
    hf_op op = {.kind = HF_OP_LEAVE, .place = place};

    ours_run(o, &op);
    EXPECT_CODE(op.error.code, 0);
    return place->verdict;
}

static inline void ours_holds(ours *o, hf_place *place)
{
    EXPECT_CODE(ours_join(o, place, false), 0);
    EXPECT_EQ(place->verdict, HF_GRANTED);
}

static inline void ours_is_refused(ours *o, const char *key)
{
    hf_place place = ours_place(key);

    EXPECT_CODE(ours_join(o, &place, true), HF_EBUSY);
    EXPECT(place.look_in > 0);
}

/* Poll fd and dispatch, as the keeper does, until `count` rises. */
static inline bool ours_woken(ours *o, atomic_int *count, int ms)
{
    long long end = test_now_ms() + ms;

    while (atomic_load(count) == 0) {
        struct pollfd at = {.fd = o->driver->fd(o->store), .events = POLLIN};

        if (test_now_ms() >= end)
            return false;
        if (poll(&at, 1, 20) > 0)
            o->driver->dispatch(o->store);
    }
    return true;
}

/* Waits, and listens: what is published from here on is heard. */
static inline void ours_waits(ours *o, hf_place *place)
{
    bool first = atomic_load(&o->changed) == 0;

    EXPECT_CODE(ours_join(o, place, false), 0);
    EXPECT_EQ(place->verdict, HF_WAITS);
    EXPECT(place->look_in > 0);
    if (first)
        EXPECT(ours_woken(o, &o->changed, PEER_WAIT_MS));
    atomic_store(&o->changed_this, 0);
}

/* A message came for the place that waits, and it gets the lock by it. */
static inline void ours_is_told(ours *o, hf_place *place)
{
    EXPECT(ours_woken(o, &o->changed_this, PEER_WAIT_MS));
    EXPECT_CODE(ours_look(o, place), 0);
    EXPECT_EQ(place->verdict, HF_GRANTED);
}

#endif
