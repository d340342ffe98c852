/* grpc_flight.c - what came for which request.
 *
 * Answers: what has a request got so far, and who is to look at it?  nghttp2
 * cuts the bytes into frames and calls the functions here; they note headers,
 * data and ends in the flight that the stream belongs to, and put it into the
 * line of news.  They also give nghttp2 the bytes of a request when it is that
 * one's turn.  Knows nothing of sockets, threads or users: a fuzzer feeds it.
 * All under its user's lock.
 *
 * Flights that are over are kept for the next request, with their buffers, so
 * that in steady state nothing is allocated here.
 *
 * Safety.  Nothing is decided here: no trailers, half a message or a reset are
 * noted as they are, and grpc_status.c judges them.  A forgotten flight's user
 * is never touched again: nghttp2 may ask for the rest of its request later
 * and is answered with an error, which resets the stream.  One that is being
 * delivered is recycled by whoever delivers it. */
#include <stdio.h>
#include <string.h>

#include "grpc_inside.h"

/* Requests for which grpc-go's measuring PING stays unanswered. */
enum { LAZY = 200 };

/* ---- The line of news; flights ---- */

void grpc_h2_tell(grpc_flight *flight)
{
    grpc_h2 *h2 = flight->h2;

    if (flight->news)
        return;
    flight->news = true;
    flight->next_news = NULL;
    *h2->news_end = flight;
    h2->news_end = &flight->next_news;
}

grpc_flight *grpc_h2_take_news(grpc_h2 *h2)
{
    grpc_flight *flight = h2->news;

    if (!flight)
        return NULL;
    h2->news = flight->next_news;
    if (!h2->news)
        h2->news_end = &h2->news;
    flight->news = false;
    return flight;
}

static void unlink_flight(grpc_flight *flight)
{
    if (flight->prev)
        flight->prev->next = flight->next;
    else
        flight->h2->flights = flight->next;
    if (flight->next)
        flight->next->prev = flight->prev;
}

static hf__buf empty_buf(hf__buf buf)
{
    hf__buf_eat(&buf, hf__buf_len(&buf));
    buf.failed = false;
    return buf;
}

/* As if nothing had been sent for it. */
void grpc_h2_clear(grpc_flight *flight)
{
    grpc_flight clean = {.prev = flight->prev,
                         .next = flight->next,
                         .h2 = flight->h2,
                         .call = flight->call,
                         .stream = flight->stream,
                         .busy = flight->busy,
                         .code = -1,
                         .in = empty_buf(flight->in),
                         .out = empty_buf(flight->out),
                         .telling = empty_buf(flight->telling)};

    *flight = clean;
}

void grpc_h2_recycle(grpc_flight *flight)
{
    grpc_h2 *h2 = flight->h2;

    unlink_flight(flight);
    flight->call = NULL;
    flight->stream = NULL;
    flight->busy = false;
    grpc_h2_clear(flight);
    flight->next = h2->spare;
    h2->spare = flight;
}

grpc_flight *grpc_h2_new_flight(grpc_h2 *h2)
{
    grpc_flight *flight = h2->spare;

    if (flight) {
        h2->spare = flight->next;
    } else {
        flight = hfd_alloc(sizeof *flight);
        if (!flight)
            return NULL;
        flight->h2 = h2;
        flight->code = -1;
    }
    flight->prev = NULL;
    flight->next = h2->flights;
    if (h2->flights)
        h2->flights->prev = flight;
    h2->flights = flight;
    return flight;
}

/* ---- What nghttp2 asks for and tells ---- */

static ssize_t read_call(grpc_flight *flight, uint8_t *buf, size_t room,
                         uint32_t *flags)
{
    const grpc_call *call = flight->call;
    size_t n = 0, whole = call->request_len + GRPC_PREFIX;

    for (; flight->sent < GRPC_PREFIX && n < room; flight->sent++) {
        unsigned shift = 8 * (4 - (unsigned)flight->sent);

        /* A flag, which is 0 (not compressed), and the length. */
        buf[n++] = (uint8_t)((uint64_t)call->request_len >> shift);
    }
    if (flight->sent >= GRPC_PREFIX && n < room) {
        size_t left = whole - flight->sent;

        if (left > room - n)
            left = room - n;
        if (left > 0)
            memcpy(buf + n,
                   (const char *)call->request + (flight->sent - GRPC_PREFIX),
                   left);
        flight->sent += left;
        n += left;
    }
    if (flight->sent == whole)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

ssize_t grpc_on_read(nghttp2_session *session, int32_t id, uint8_t *buf,
                     size_t room, uint32_t *flags, nghttp2_data_source *source,
                     void *user)
{
    grpc_flight *flight = source->ptr;
    size_t len = hf__buf_len(&flight->out);

    (void)session;
    (void)id;
    (void)user;
    if (flight->call)
        return read_call(flight, buf, room, flags);
    if (!flight->stream)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (len == 0)
        return NGHTTP2_ERR_DEFERRED;
    if (len > room)
        len = room;
    memcpy(buf, flight->out.data + flight->out.start, len);
    hf__buf_eat(&flight->out, len);
    return (ssize_t)len;
}

static bool is_field(const uint8_t *name, size_t len, const char *want)
{
    return strlen(want) == len && memcmp(name, want, len) == 0;
}

/* Digits alone; anything else, or too large a number, is `otherwise`. */
static int read_number(const uint8_t *text, size_t len, int otherwise)
{
    int number = 0;

    if (len == 0 || len > 3)
        return otherwise;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return otherwise;
        number = number * 10 + (text[i] - '0');
    }
    return number;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame,
                     const uint8_t *name, size_t name_len, const uint8_t *value,
                     size_t len, uint8_t flags, void *user)
{
    grpc_flight *flight =
        nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    (void)flags;
    (void)user;
    if (!flight)
        return 0;
    if (is_field(name, name_len, ":status")) {
        flight->http = read_number(value, len, 999);
    } else if (is_field(name, name_len, "content-type")) {
        flight->grpc = len >= 16 && memcmp(value, "application/grpc", 16) == 0;
    } else if (is_field(name, name_len, "grpc-status")) {
        int code = read_number(value, len, GRPC_UNKNOWN);

        /* Said twice: what is not a success counts. */
        if (flight->code <= 0)
            flight->code = code;
    } else if (is_field(name, name_len, "grpc-message")) {
        grpc_decode_text(flight->message, sizeof flight->message,
                         (const char *)value, len);
    }
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t frame_flags, int32_t id,
                   const uint8_t *bytes, size_t len, void *user)
{
    grpc_flight *flight = nghttp2_session_get_stream_user_data(session, id);

    (void)frame_flags;
    (void)user;
    if (!flight || (!flight->call && !flight->stream) || flight->too_long)
        return 0;
    if (hf__buf_len(&flight->in) + len > GRPC_LONGEST + GRPC_PREFIX) {
        flight->too_long = true;
        return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id,
                                         NGHTTP2_CANCEL) == 0
                   ? 0
                   : NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    hf__buf_add(&flight->in, bytes, len);
    if (flight->in.failed) {
        flight->no_memory = true;
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    if (flight->stream)
        grpc_h2_tell(flight);
    return 0;
}

const uint8_t grpc_measuring[8] = {2, 4, 16, 16, 9, 14, 7, 7};

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame,
                    void *user)
{
    grpc_h2 *h2 = user;
    const uint8_t *data = frame->ping.opaque_data;

    switch (frame->hd.type) {
    case NGHTTP2_SETTINGS:
        h2->greeted = true;
        break;
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA:
        h2->answered = true;
        break;
    case NGHTTP2_PING:
        if (frame->hd.flags & NGHTTP2_FLAG_ACK)
            h2->ping_out = false;
        else if (memcmp(data, grpc_measuring, sizeof grpc_measuring) == 0)
            h2->owed = LAZY;
        else if (nghttp2_submit_ping(session, NGHTTP2_FLAG_ACK, data) != 0)
            return NGHTTP2_ERR_CALLBACK_FAILURE;
        break;
    case NGHTTP2_GOAWAY:
        h2->goaway = true;
        break;
    default:
        break;
    }
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code,
                    void *user)
{
    grpc_flight *flight = nghttp2_session_get_stream_user_data(session, id);

    (void)user;
    if (!flight)
        return 0;
    flight->id = 0;
    flight->closed = true;
    flight->reset = code;
    if (flight->call || flight->stream)
        grpc_h2_tell(flight);
    else if (!flight->news && !flight->busy)
        grpc_h2_recycle(flight);
    return 0;
}

static int on_not_sent(nghttp2_session *session, const nghttp2_frame *frame,
                       int code, void *user)
{
    grpc_flight *flight;

    (void)code;
    (void)user;
    if (frame->hd.type != NGHTTP2_HEADERS)
        return 0;
    flight = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (flight)
        flight->unsent = true;
    return 0;
}

static int on_invalid(nghttp2_session *session, const nghttp2_frame *frame,
                      int code, void *user)
{
    grpc_h2 *h2 = user;

    (void)session;
    (void)frame;
    snprintf(h2->bad, sizeof h2->bad, "%s", nghttp2_strerror(code));
    return 0;
}

static int on_error(nghttp2_session *session, int code, const char *text,
                    size_t len, void *user)
{
    grpc_h2 *h2 = user;

    (void)session;
    (void)code;
    if (!h2->bad[0])
        grpc_decode_text(h2->bad, sizeof h2->bad, text, len);
    return 0;
}

void grpc_h2_callbacks(nghttp2_session_callbacks *calls)
{
    nghttp2_session_callbacks_set_on_header_callback(calls, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(calls, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_close);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(calls,
                                                             on_not_sent);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(calls,
                                                                 on_invalid);
    nghttp2_session_callbacks_set_error_callback2(calls, on_error);
}
