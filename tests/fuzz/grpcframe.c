/* grpcframe.c - any bytes as what an etcd server sends over HTTP/2.
 *
 * The receiving side of a connection with three calls and a stream under way:
 * nghttp2's session, what it notes for each of them, and the verdict on how it
 * ended.  The bytes come as they are, behind a server's first SETTINGS; the
 * first byte says in which pieces.
 *
 * Promises: a success is one whole message with status 0 and HTTP 200; every
 * other end has an error with a text of one line; whatever is told lies inside
 * what came; what ended is told once; a broken connection ends everything; what
 * we answer is bounded by what came. */
#include "fuzz.h"

#include <ctype.h>

#include "../../drivers/etcd/grpc_inside.h"

enum { CALLS = 3 };

typedef struct state {
    grpc_h2 h2;
    hf__buf out;
    grpc_call calls[CALLS];
    grpc_stream stream;
    unsigned ended[CALLS + 1];
} state;

static void check_error(const grpc_answer *answer)
{
    const hf_error *why = &answer->why;

    PROMISE(why->code < 0);
    PROMISE(memchr(why->text, '\0', sizeof why->text) != NULL);
    PROMISE(why->text[0] != '\0');
    for (const char *at = why->text; *at; at++)
        PROMISE(!iscntrl((unsigned char)*at));
}

static void check_call(state *s, grpc_flight *flight)
{
    size_t len = hf__buf_len(&flight->in);
    const char *in = len > 0 ? flight->in.data + flight->in.start : NULL;
    grpc_answer answer;
    grpc_end end = grpc_judge(flight, "here", &answer);

    PROMISE(++s->ended[flight->call - s->calls] == 1);
    if (answer.outcome == HF_APPLIED && answer.code == GRPC_OK) {
        PROMISE(end == GRPC_END_ANSWER);
        PROMISE(flight->http == 200 && flight->grpc && flight->code == 0);
        PROMISE(flight->reset != GRPC_BROKEN);
        PROMISE(len >= GRPC_PREFIX && answer.reply == in + GRPC_PREFIX);
        PROMISE(answer.len + GRPC_PREFIX == len && in[0] == 0);
        return;
    }
    PROMISE(answer.reply == NULL && answer.len == 0);
    PROMISE(end != GRPC_END_AGAIN || answer.outcome == HF_NOT_APPLIED);
    check_error(&answer);
}

static void check_stream(state *s, grpc_flight *flight)
{
    const char *message;
    grpc_answer answer;
    size_t len;

    while (hf__buf_len(&flight->in) > 0 &&
           grpc_first_message(flight->in.data + flight->in.start,
                              hf__buf_len(&flight->in), &message, &len) == 1) {
        PROMISE(message + len <= flight->in.data + flight->in.end);
        hf__buf_eat(&flight->in, GRPC_PREFIX + len);
    }
    if (!flight->closed)
        return;
    PROMISE(++s->ended[CALLS] == 1);
    grpc_judge_stream(flight, "here", &answer);
    PROMISE(answer.reply == NULL);
    check_error(&answer);
}

static void deliver(state *s)
{
    grpc_flight *flight;

    while ((flight = grpc_h2_take_news(&s->h2))) {
        bool closed = flight->closed;

        PROMISE(flight->call || flight->stream);
        if (flight->call)
            check_call(s, flight);
        else
            check_stream(s, flight);
        if (closed)
            grpc_h2_recycle(flight);
    }
}

static bool feed(state *s, const uint8_t *bytes, size_t len)
{
    uint8_t *copy = malloc(len ? len : 1);
    hf_error err = {0};
    int code;

    PROMISE(copy != NULL);
    if (len)
        memcpy(copy, bytes, len);
    code = grpc_h2_feed(&s->h2, copy, len, &err);
    free(copy);
    PROMISE((code == 0) == (err.code == 0));
    PROMISE(grpc_h2_flush(&s->h2, &s->out));
    deliver(s);
    return code == 0;
}

static void begin(state *s)
{
    static const uint8_t settings[9] = {0, 0, 0, 4};

    PROMISE(grpc_h2_init(&s->h2, "here:2379", false) == 0);
    for (int i = 0; i < CALLS; i++) {
        s->calls[i].method = "/etcdserverpb.KV/Txn";
        s->calls[i].request = "request";
        s->calls[i].request_len = 7;
        s->calls[i].deadline = HF_NEVER;
        PROMISE(grpc_h2_begin(&s->h2, &s->calls[i], NULL, "", true));
    }
    s->stream.method = "/etcdserverpb.Watch/Watch";
    PROMISE(grpc_h2_begin(&s->h2, NULL, &s->stream, "token", true));
    PROMISE(grpc_h2_flush(&s->h2, &s->out));
    PROMISE(feed(s, settings, sizeof settings));
    PROMISE(s->h2.greeted);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, data + size};
    size_t piece = take_byte(&in), n;
    state s = {0};

    piece = piece == 0 ? size + 1 : piece;
    begin(&s);
    while (in.at < in.end) {
        n = (size_t)(in.end - in.at) < piece ? (size_t)(in.end - in.at) : piece;
        if (!feed(&s, in.at, n))
            break;
        in.at += n;
    }
    PROMISE(hf__buf_len(&s.out) < 1000 + 40 * size);
    grpc_h2_break(&s.h2);
    deliver(&s);
    for (int i = 0; i <= CALLS; i++)
        PROMISE(s.ended[i] == 1);
    PROMISE(s.h2.flights == NULL);
    hf__buf_done(&s.out);
    grpc_h2_done(&s.h2);
    return 0;
}
