/* etcd_other.h - a second client beside the sessions of a test: it writes what
 * Go's clients write, deletes keys and ends leases.  The tests include the
 * harness's expect.h, runner.h and ensemble.h before it. */
#ifndef HF_DRIVERS_ETCD_OTHER_H
#define HF_DRIVERS_ETCD_OTHER_H

#include "store.h"

enum { OTHER_MS = 60000 };

typedef struct other {
    grpc_channel *channel;
    hf__buf out;
    char reply[65536];
    size_t len;
    grpc_code code;
} other;

static inline void ignore(void *ctx)
{
    (void)ctx;
}

static inline void ignore_doubt(void *ctx, int code, const char *text)
{
    (void)ctx;
    (void)code;
    (void)text;
}

static inline other *other_open(ensemble *e)
{
    hf__address at = {.host = "127.0.0.1",
                      .port = (uint16_t)e->members[0].port};
    grpc_settings settings = {
        .addresses = &at, .address_count = 1, .dial_time = HF_MS(10000)};
    grpc_listener listener = {NULL, ignore, ignore_doubt};
    other *o = hfd_alloc(sizeof *o);
    hf_error err;

    EXPECT(o != NULL);
    EXPECT_OK(grpc_open(&o->channel, &settings, &listener, &err), err);
    return o;
}

static inline void other_close(other *o)
{
    grpc_close(o->channel);
    hf__buf_done(&o->out);
    hfd_free(o);
}

typedef struct other_call {
    grpc_call call;
    other *o;
    bool answered;
} other_call;

static inline void other_landed(grpc_call *call, hf_outcome outcome,
                                grpc_code code, const void *reply, size_t len,
                                const hf_error *why)
{
    other_call *mine = (other_call *)(void *)call;

    EXPECT_OK(outcome == HF_APPLIED ? 0 : HF_EUNAVAIL, *why);
    EXPECT(len <= sizeof mine->o->reply);
    mine->o->code = code;
    mine->o->len = len;
    if (len > 0)
        memcpy(mine->o->reply, reply, len);
    mine->answered = true;
}

/* Sends what is in o->out. */
static inline void other_ask(other *o, const char *method)
{
    other_call mine = {.call = {.method = method,
                                .request = o->out.data,
                                .request_len = hf__buf_len(&o->out),
                                .deadline = hfd_now() + HF_MS(OTHER_MS),
                                .driven = true,
                                .landed = other_landed},
                       .o = o};

    EXPECT(!o->out.failed);
    grpc_start(o->channel, &mine.call);
    grpc_drive(o->channel, &mine.call);
    EXPECT(mine.answered);
    o->out.start = o->out.end = 0;
}

static inline etcd_text text_of(const char *text)
{
    return (etcd_text){text, strlen(text)};
}

/* As Go's Mutex: its key, with an empty value. */
static inline void other_join(other *o, const char *key, int64_t lease)
{
    etcd_put put = {.key = text_of(key), .lease = lease};

    etcd_ask_grant(&o->out, lease, 60);
    other_ask(o, ETCD_GRANT);
    etcd_do_put(&o->out, ETCD_THEN, &put);
    other_ask(o, ETCD_TXN);
    EXPECT_EQ(o->code, GRPC_OK);
}

static inline void other_delete(other *o, const char *key)
{
    etcd_do_delete(&o->out, ETCD_THEN, text_of(key));
    other_ask(o, ETCD_TXN);
    EXPECT_EQ(o->code, GRPC_OK);
}

static inline void other_revoke(other *o, int64_t lease)
{
    etcd_ask_lease(&o->out, lease);
    other_ask(o, ETCD_REVOKE);
    EXPECT_EQ(o->code, GRPC_OK);
}

/* All keys there are; the first of them in *ret. */
static inline size_t other_count(other *o, etcd_kv *ret)
{
    etcd_range range = {.key = {"", 1}, .end = {"", 1}};
    etcd_page page;
    etcd_kv kv;
    size_t n = 0;

    etcd_ask_range(&o->out, &range);
    other_ask(o, ETCD_RANGE);
    EXPECT(etcd_read_page(&page, o->reply, o->len));
    while (etcd_next_row(&page.rows, &kv)) {
        if (n++ == 0 && ret)
            *ret = kv;
    }
    return n;
}

/* The key that was created last. */
static inline bool other_newest(other *o, etcd_kv *ret)
{
    etcd_range range = {
        .key = {"", 1}, .end = {"", 1}, .order = ETCD_NEWEST_FIRST, .limit = 1};
    etcd_page page;

    etcd_ask_range(&o->out, &range);
    other_ask(o, ETCD_RANGE);
    EXPECT(etcd_read_page(&page, o->reply, o->len));
    return etcd_next_row(&page.rows, ret);
}

#endif
