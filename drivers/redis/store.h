/* store.h - an opened Redis store, and what a format of it does.
 *
 * redis.c opens, parks and passes on; a format turns operations of driver.h
 * into calls and replies into answers.  `native` has queues, sessions and
 * tokens of its own (native.c, script.c); the others are layouts of other
 * libraries, so that their locks and ours exclude each other. */
#ifndef HF_DRIVERS_REDIS_STORE_H
#define HF_DRIVERS_REDIS_STORE_H

#include <pthread.h>
#include <stdatomic.h>

#include "wire.h"

typedef struct redis_format {
    const char *name;
    uint32_t caps;
    const char *const *options; /* URL options of this format alone */
    /* Read the options, make store->format_data; HF_EURL. */
    int (*open)(hf_store *store, const hf_url *url, hf_error *err);
    void (*close)(hf_store *store); /* frees format_data; nothing is sent */
    void (*start)(hf_store *store, hf_op *op);
    /* A message on a channel that the format listens to. */
    void (*message)(hf_store *store, const char *channel, size_t channel_len,
                    const char *text, size_t len);
} redis_format;

extern const redis_format redis_native, redis_simple, redis_spring,
    redis_redisson;

enum { REDIS_BELLS = 256 };

typedef struct redis_parked { /* a thread in park, on its stack */
    struct redis_parked *next;
    hf_id rid;
    hf__waiter waiter;
} redis_parked;

struct hf_store {
    hf_host host;
    redis_wire *wire;
    redis_finder finder; /* find NULL: the URL names the servers */
    void (*finder_close)(void *ctx);
    struct redis_cluster *cluster; /* NULL: it is none */
    hf__tls *tls;
    bool exposed; /* plain TCP that leaves this machine */
    const redis_format *format;
    void *format_data;
    uint32_t more_caps; /* set by the format's open, beside its table's */
    char prefix[80];    /* "hf:{ns}:" of the native format */
    size_t prefix_len;
    bool strict;
    int64_t max_lease_ms;
    int64_t lag_ms;   /* strict: so long a primary that was cut off may grant */
    int64_t replicas; /* so many must have a grant before it counts */
    _Atomic uint64_t token_seen;    /* the largest that was granted here */
    _Atomic int64_t clock_ahead_us; /* the server's, of ours; native format */
    _Atomic int64_t until; /* of the last quarantine, as it was told; 0: none */
    char host_name[64];    /* of this machine, for listings */
    /* Unpark rings the bell of a rid; a join or recheck notes its count in
     * place->own[0] before it is sent, and park sleeps only while it is still
     * the same. */
    pthread_mutex_t park_mu;
    redis_parked *parked;
    atomic_uint bells[REDIS_BELLS];
};

/* What an op's own[] is used for: a call, and a format's notes. */
typedef struct redis_op {
    redis_call call;
    hf_store *store;
    uintptr_t note; /* the format's */
    bool under_way; /* sent once, by the thread that started it */
} redis_op;
_Static_assert(sizeof(redis_op) <= sizeof(((hf_op *)0)->own),
               "an operation has no room for a call");
static inline redis_op *redis_op_of(hf_op *op)
{
    return (redis_op *)(void *)op->own;
}
static inline hf_op *redis_op_from(redis_call *call)
{
    return (hf_op *)(void *)((char *)call - offsetof(hf_op, own));
}
/* Make op's call ready (deadline, driven) and send it; from `landed` too, for
 * an operation of several round trips. */
void redis_op_send(hf_store *store, hf_op *op,
                   void (*encode)(redis_call *call, hf__buf *out,
                                  const redis_server *server),
                   void (*landed)(redis_call *call, hf_outcome outcome,
                                  const resp *reply, const hf_error *why));
/* `sent` is that of the call that has landed, unless there is one already: of
 * several round trips the first counts. */
void redis_note_sent(hf_op *op);
/* Finish op from a call without an answer: copies *why, sets sent. */
void redis_op_failed(hf_op *op, hf_outcome outcome, const hf_error *why);
/* Finish op: applied, refused with this code. */
void redis_op_refuse(hf_op *op, int code, const char *text);
/* Note the bell of a place that is about to be joined or rechecked. */
void redis_note_bell(hf_store *store, hf_place *place);
/* Ring the bell of a rid and wake whoever is parked on it; never blocks. */
void redis_ring(hf_store *store, const hf_id *rid);
/* Begin, or end, to hear what is told on a channel of one key. */
int redis_hear(hf_store *store, const char *channel, size_t len, bool on);

/* ---- url.c ---- */

extern const char *const redis_url_options[]; /* NULL-ended */
int redis_url_read(hf_store *store, const hf_url *url, hf_error *err);
/* Opens store->wire, and what finds the servers if there is such a thing. */
int redis_url_dial(hf_store *store, const hf_url *url,
                   const redis_listener *listener, hf_error *err);

/* ---- id.c ---- */

enum { REDIS_ID = 32 };                         /* digits of an id */
void redis_id_text(char *ret, const hf_id *id); /* REDIS_ID digits, no NUL */
bool redis_id_from(hf_id *ret, const char *text, size_t len);
char *redis_put_hex(char *at, const uint8_t *bytes, size_t n); /* its end */
int redis_hex_digit(char c);                                   /* -1: none */

/* ---- native_words.c, native_list.c ---- */

/* resp_script, of one of the pairs below. */
void redis_put_script(hf__buf *out, const redis_call *call,
                      const hf_store *store, const redis_script pair[2],
                      unsigned keys, unsigned words);
/* A word: the prefix, `kind`, and these bytes. */
void redis_key_word(hf__buf *out, const hf_store *store, const char *kind,
                    const void *bytes, size_t len);
void redis_list_start(hf_store *store, hf_op *op);

/* ---- script.c ---- */

/* Of each the second is for clusters. */
extern redis_script redis_join[2], redis_leave[2], redis_recheck[2],
    redis_attach[2], redis_renew[2], redis_detach[2], redis_confirm[2],
    redis_publish[2], redis_evict[2], redis_sessions[2], redis_rows[2];
extern redis_script redis_keep; /* renews while a slot is being moved */
void redis_scripts_ready(void);

/* Findings that do not depend on the format (probe.c). */
void redis_probe_start(hf_store *store, hf_op *op);
/* Does this name or number mean the machine itself? */
bool redis_host_is_local(const char *host);

#endif
