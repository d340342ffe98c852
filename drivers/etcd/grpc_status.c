/* grpc_status.c - how a call ended.
 *
 * Answers: this stream is over; was the call done, and what does its caller
 * hear?  Looks at nothing but what came for it.  Pure.
 *
 * A success is one whole message, grpc-status 0 and HTTP 200 with gRPC's
 * content-type, all of them; anything less is an error.  Only where the server
 * itself says that it never began (REFUSED_STREAM, a GOAWAY below the stream)
 * or nghttp2 that it never sent it, the call goes out again.  Everything that
 * is not an answer of etcd's is UNKNOWN: a proxy's page, a reset, an end
 * without trailers may come after the work was done.  What breaks the protocol
 * also ends the connection. */
#include <string.h>

#include "grpc_inside.h"

void grpc_decode_text(char *to, size_t room, const char *text, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len && n + 1 < room; i++) {
        unsigned char c = (unsigned char)text[i];
        unsigned value = 0;
        int digits = 0;

        for (; c == '%' && digits < 2 && i + 1 + (size_t)digits < len;
             digits++) {
            char d = text[i + 1 + (size_t)digits];

            if (d >= '0' && d <= '9')
                value = value * 16 + (unsigned)(d - '0');
            else if ((d | 32) >= 'a' && (d | 32) <= 'f')
                value = value * 16 + (unsigned)((d | 32) - 'a' + 10);
            else
                break;
        }
        if (digits == 2) {
            c = (unsigned char)value;
            i += 2;
        }
        to[n++] = (char)(c < ' ' || c == 0x7f ? '?' : c);
    }
    to[n] = '\0';
}

int grpc_first_message(const char *bytes, size_t len, const char **ret,
                       size_t *ret_len)
{
    size_t n = 0;

    if (len > 0 && bytes[0] != 0)
        return -1; /* compressed, which we did not offer */
    if (len < GRPC_PREFIX)
        return 0;
    for (unsigned i = 1; i < GRPC_PREFIX; i++)
        n = n << 8 | (unsigned char)bytes[i];
    if (n > GRPC_LONGEST)
        return -1;
    if (len - GRPC_PREFIX < n)
        return 0;
    *ret = bytes + GRPC_PREFIX;
    *ret_len = n;
    return 1;
}

static void wrong(grpc_answer *ret, int code, const char *where,
                  const char *text)
{
    ret->outcome = HF_UNKNOWN;
    ret->code = GRPC_UNKNOWN;
    ret->cut = code == HF_EPROTO;
    hfd_error(&ret->why, code, "etcd", 0, "%s: %s", where, text);
}

/* Not an answer of gRPC's; true: so it is, and *ret says what. */
static bool judge_transport(const grpc_flight *flight, const char *where,
                            grpc_answer *ret)
{
    if (flight->too_long) {
        wrong(ret, HF_EPROTO, where, "an answer of more than 64 MiB");
    } else if (flight->no_memory) {
        wrong(ret, HF_ENOMEM, where, "no memory for an answer");
    } else if (flight->http != 0 && flight->http != 200 && flight->code <= 0) {
        ret->outcome = HF_UNKNOWN;
        ret->code = GRPC_UNAVAILABLE;
        ret->cut = true;
        hfd_error(&ret->why, HF_EUNAVAIL, "etcd", flight->http,
                  "%s: answered with HTTP status %d, not by etcd (does a proxy "
                  "stand between, is it etcd's client port?)",
                  where, flight->http);
    } else if (flight->reset == GRPC_BROKEN) {
        wrong(ret, HF_EUNAVAIL, where, "the connection broke");
    } else if (flight->code < 0 && flight->reset != NGHTTP2_NO_ERROR) {
        ret->outcome = HF_UNKNOWN;
        ret->code = GRPC_UNAVAILABLE;
        hfd_error(&ret->why, HF_EUNAVAIL, "etcd", (int)flight->reset,
                  "%s: the call was reset: %s", where,
                  nghttp2_http2_strerror((uint32_t)flight->reset));
    } else if (!flight->grpc) {
        wrong(ret, HF_EPROTO, where, "an answer that is not gRPC's");
    } else if (flight->code < 0) {
        wrong(ret, HF_EPROTO, where, "an answer that ends without a status");
    } else {
        return false;
    }
    return true;
}

static void judge_refusal(const grpc_flight *flight, const char *where,
                          grpc_answer *ret)
{
    hf_error said = {0};

    ret->code = (grpc_code)flight->code;
    ret->outcome = grpc_error_of(ret->code, flight->message, &said);
    hfd_error(&ret->why, said.code, "etcd", said.native, "%s: %s", where,
              said.text);
}

grpc_end grpc_judge(const grpc_flight *flight, const char *where,
                    grpc_answer *ret)
{
    size_t len = hf__buf_len(&flight->in);
    const char *bytes = len > 0 ? flight->in.data + flight->in.start : "";
    const char *reply = NULL;

    memset(ret, 0, sizeof *ret);
    if (flight->unsent || flight->reset == NGHTTP2_REFUSED_STREAM) {
        wrong(ret, HF_EUNAVAIL, where, "the server takes no more calls");
        ret->outcome = HF_NOT_APPLIED;
        ret->code = GRPC_UNAVAILABLE;
        return GRPC_END_AGAIN;
    }
    if (judge_transport(flight, where, ret))
        return GRPC_END_ANSWER;
    if (flight->code != GRPC_OK) {
        judge_refusal(flight, where, ret);
        return grpc_is_stale_token(ret->code, flight->message)
                   ? GRPC_END_TOKEN
                   : GRPC_END_ANSWER;
    }
    if (flight->http != 200 ||
        grpc_first_message(bytes, len, &reply, &ret->len) != 1 ||
        ret->len + GRPC_PREFIX != len) {
        wrong(ret, HF_EPROTO, where, "a success without one whole message");
        ret->len = 0;
        return GRPC_END_ANSWER;
    }
    ret->outcome = HF_APPLIED;
    ret->code = GRPC_OK;
    ret->reply = reply;
    return GRPC_END_ANSWER;
}

void grpc_judge_stream(const grpc_flight *flight, const char *where,
                       grpc_answer *ret)
{
    memset(ret, 0, sizeof *ret);
    if (flight->unsent || flight->reset == NGHTTP2_REFUSED_STREAM) {
        wrong(ret, HF_EUNAVAIL, where, "the server takes no more streams");
        ret->code = GRPC_UNAVAILABLE;
    } else if (judge_transport(flight, where, ret)) {
        return;
    } else if (flight->code != GRPC_OK) {
        judge_refusal(flight, where, ret);
    } else {
        /* The server ends none of ours by itself without a reason. */
        wrong(ret, HF_EUNAVAIL, where, "the server ended the stream");
        ret->code = GRPC_OK;
    }
}
