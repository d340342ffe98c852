/* grpc_h2.c - the frames of one connection: nghttp2's session.
 *
 * Answers: which bytes are to be sent for a request?  It takes bytes and gives
 * bytes; what came for whom is noted by grpc_flight.c.  Knows nothing of
 * sockets, threads or users: a fuzzer feeds it.  All under its user's lock.
 *
 * A lone request is HEADERS and DATA in one piece of output.  The windows are
 * so large, and are moved on at half, that flow control never holds up an
 * answer.  The fields that are the same in every request become one byte each
 * after the first (HPACK); the deadline is never put into that table.
 *
 * grpc-go measures its line with a PING of a known payload for every request,
 * and asks again only when it was answered: each answer costs both sides a
 * packet per call, and the server uses it only to widen the window for large
 * uploads, which we do not have.  It is answered with what is sent anyway, and
 * only so many requests later.  Every other PING is answered at once.
 *
 * A request that the server may have seen is never sent again from here. */
#include <stdio.h>
#include <string.h>

#include "grpc_inside.h"

enum { WINDOW = 16 << 20, FIELDS = 9 };

/* ---- The session ---- */

static void *mem_malloc(size_t size, void *user)
{
    (void)user;
    return hfd_realloc(NULL, size);
}

static void mem_free(void *p, void *user)
{
    (void)user;
    hfd_free(p);
}

static void *mem_calloc(size_t n, size_t size, void *user)
{
    (void)user;
    return size != 0 && n > SIZE_MAX / size ? NULL : hfd_alloc(n * size);
}

static void *mem_realloc(void *p, size_t size, void *user)
{
    (void)user;
    return hfd_realloc(p, size);
}

static int new_session(grpc_h2 *h2)
{
    nghttp2_mem mem = {NULL, mem_malloc, mem_free, mem_calloc, mem_realloc};
    nghttp2_session_callbacks *calls = NULL;
    nghttp2_option *option = NULL;
    int code = NGHTTP2_ERR_NOMEM;

    if (nghttp2_session_callbacks_new(&calls) == 0 &&
        nghttp2_option_new(&option) == 0) {
        grpc_h2_callbacks(calls);
        nghttp2_option_set_no_auto_ping_ack(option, 1);
        nghttp2_option_set_no_closed_streams(option, 1);
        code =
            nghttp2_session_client_new3(&h2->session, calls, h2, option, &mem);
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(calls);
    return code;
}

int grpc_h2_init(grpc_h2 *h2, const char *authority, bool tls)
{
    nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW},
    };

    memset(h2, 0, sizeof *h2);
    h2->news_end = &h2->news;
    h2->tls = tls;
    snprintf(h2->authority, sizeof h2->authority, "%s", authority);
    if (new_session(h2) != 0)
        return HF_ENOMEM;
    if (nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, settings,
                                sizeof settings / sizeof *settings) != 0 ||
        nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0,
                                              WINDOW) != 0) {
        nghttp2_session_del(h2->session);
        h2->session = NULL;
        return HF_ENOMEM;
    }
    return 0;
}

static void free_flights(grpc_flight *flight)
{
    while (flight) {
        grpc_flight *next = flight->next;

        hf__buf_done(&flight->in);
        hf__buf_done(&flight->out);
        hf__buf_done(&flight->telling);
        hfd_free(flight);
        flight = next;
    }
}

void grpc_h2_done(grpc_h2 *h2)
{
    nghttp2_session_del(h2->session);
    free_flights(h2->flights);
    free_flights(h2->spare);
    memset(h2, 0, sizeof *h2);
}

/* ---- Requests ---- */

static nghttp2_nv field(const char *name, const char *value, bool kept)
{
    nghttp2_nv nv = {(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value,
                     strlen(name), strlen(value), NGHTTP2_NV_FLAG_NO_COPY_NAME};

    /* What is not kept until it went out is copied by nghttp2. */
    if (kept)
        nv.flags |= NGHTTP2_NV_FLAG_NO_COPY_VALUE;
    return nv;
}

static int32_t submit(grpc_flight *flight, const char *method,
                      const char *token, bool leader)
{
    grpc_h2 *h2 = flight->h2;
    nghttp2_data_provider provider = {.source.ptr = flight,
                                      .read_callback = grpc_on_read};
    nghttp2_nv nv[FIELDS];
    char timeout[24];
    size_t n = 0;

    nv[n++] = field(":method", "POST", true);
    nv[n++] = field(":scheme", h2->tls ? "https" : "http", true);
    nv[n++] = field(":path", method, true);
    nv[n++] = field(":authority", h2->authority, true);
    nv[n++] = field("content-type", "application/grpc", true);
    nv[n++] = field("te", "trailers", true);
    if (leader)
        nv[n++] = field("hasleader", "true", true);
    if (token[0])
        nv[n++] = field("token", token, false);
    if (flight->call && flight->call->deadline != HF_NEVER) {
        hf_nsec left = (flight->call->deadline - flight->call->sent) / HF_MS(1);

        /* Eight digits at most; the server gives up a little after us. */
        left = left < 1 ? 1 : left > 9999999 ? 9999999 : left;
        snprintf(timeout, sizeof timeout, "%lldm", (long long)left + 1);
        nv[n] = field("grpc-timeout", timeout, false);
        nv[n++].flags |= NGHTTP2_NV_FLAG_NO_INDEX;
    }
    return nghttp2_submit_request(h2->session, NULL, nv, n, &provider, flight);
}

/* After a GOAWAY it does not, nor when the numbers of its streams, 2^30 of
 * them, are used up. */
bool grpc_h2_takes_more(grpc_h2 *h2)
{
    return !h2->goaway && nghttp2_session_check_request_allowed(h2->session);
}

grpc_flight *grpc_h2_begin(grpc_h2 *h2, grpc_call *call, grpc_stream *stream,
                           const char *token, bool leader)
{
    grpc_flight *flight;

    if (!grpc_h2_takes_more(h2))
        return NULL;
    flight = grpc_h2_new_flight(h2);
    if (!flight)
        return NULL;
    flight->call = call;
    flight->stream = stream;
    flight->id =
        submit(flight, call ? call->method : stream->method, token, leader);
    if (flight->id < 0) {
        grpc_h2_recycle(flight);
        return NULL;
    }
    if (h2->owed > 0 && --h2->owed == 0 &&
        nghttp2_submit_ping(h2->session, NGHTTP2_FLAG_ACK, grpc_measuring) != 0)
        h2->owed = 1; /* no memory: with the next one */
    return flight;
}

bool grpc_h2_again(grpc_flight *flight, const char *token, bool leader)
{
    grpc_call *call = flight->call;

    if (!grpc_h2_takes_more(flight->h2))
        return false;
    grpc_h2_clear(flight);
    flight->id = submit(flight, call->method, token, leader);
    if (flight->id > 0)
        return true;
    flight->id = 0;
    flight->closed = true;
    flight->unsent = true;
    return false;
}

bool grpc_h2_add(grpc_flight *flight, const void *bytes, size_t len)
{
    char prefix[GRPC_PREFIX] = {0};
    size_t before = hf__buf_len(&flight->out);

    for (unsigned i = 1; i < GRPC_PREFIX; i++)
        prefix[i] = (char)(len >> (8 * (4 - i)));
    hf__buf_add(&flight->out, prefix, sizeof prefix);
    hf__buf_add(&flight->out, bytes, len);
    if (flight->out.failed) {
        flight->out.end = flight->out.start + before;
        flight->out.failed = false;
        return false;
    }
    /* It fails when nghttp2 has not asked yet, and then it will. */
    if (nghttp2_session_resume_data(flight->h2->session, flight->id) ==
        NGHTTP2_ERR_NOMEM)
        return false;
    return true;
}

void grpc_h2_forget(grpc_flight *flight)
{
    flight->call = NULL;
    flight->stream = NULL;
    /* Without memory it stays until the server ends it; nobody hears of it. */
    if (flight->id != 0)
        (void)nghttp2_submit_rst_stream(flight->h2->session, NGHTTP2_FLAG_NONE,
                                        flight->id, NGHTTP2_CANCEL);
    else if (!flight->news && !flight->busy)
        grpc_h2_recycle(flight);
}

void grpc_h2_break(grpc_h2 *h2)
{
    grpc_flight *next;

    for (grpc_flight *flight = h2->flights; flight; flight = next) {
        next = flight->next;
        if (flight->closed && !flight->held)
            continue;
        flight->closed = true;
        flight->held = false;
        flight->id = 0;
        flight->reset = GRPC_BROKEN;
        if (flight->call || flight->stream)
            grpc_h2_tell(flight);
    }
}

/* ---- Bytes ---- */

void grpc_h2_ping(grpc_h2 *h2)
{
    if (nghttp2_submit_ping(h2->session, NGHTTP2_FLAG_NONE, NULL) == 0) {
        h2->ping_out = true;
        h2->answered = false;
    }
}

int grpc_h2_feed(grpc_h2 *h2, const void *bytes, size_t len, hf_error *err)
{
    ssize_t n = nghttp2_session_mem_recv(h2->session, bytes, len);

    if (n == NGHTTP2_ERR_NOMEM || n == NGHTTP2_ERR_CALLBACK_FAILURE)
        return hfd_error(err, HF_ENOMEM, "etcd", 0, "no memory for an answer");
    if (n < 0)
        return hfd_error(err, HF_EPROTO, "etcd", (int)n,
                         "what came is not HTTP/2: %s (is this a client port "
                         "of etcd, does it want TLS?)",
                         h2->bad[0] ? h2->bad : nghttp2_strerror((int)n));
    /* nghttp2 has said goodbye itself: a frame was wrong. */
    if (!h2->goaway && !nghttp2_session_want_read(h2->session))
        return hfd_error(err, HF_EPROTO, "etcd", 0,
                         "what came is not HTTP/2: %s (is this a client port "
                         "of etcd, does it want TLS?)",
                         h2->bad[0] ? h2->bad : "a frame that must not be");
    return 0;
}

bool grpc_h2_wants(grpc_h2 *h2)
{
    return nghttp2_session_want_write(h2->session) != 0;
}

bool grpc_h2_flush(grpc_h2 *h2, hf__buf *out)
{
    const uint8_t *bytes;
    ssize_t n;

    while ((n = nghttp2_session_mem_send(h2->session, &bytes)) > 0)
        hf__buf_add(out, bytes, (size_t)n);
    return n == 0 && !out->failed;
}
