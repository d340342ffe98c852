/* grpc_odd_test.c - a server that is not as it should be.
 *
 * A thread plays the server, frame by frame as nghttp2 would never let it: no
 * trailers, a page of a proxy, GOAWAY in the middle, messages longer or shorter
 * than they say, frames that are none, or no HTTP/2 at all.  Whatever it does,
 * no call may end as a success but the one that was answered in full. */
#include "harness/expect.h"
#include "harness/runner.h"

#include "harness/ensemble.h"

#include "grpc_inside.h"
#include "grpc_player.h"

/* ---- Answers that are none ---- */

static int odd; /* which of them; set before the server's thread starts */

static void answer_data(const player *p, uint32_t stream, const char *bytes,
                        size_t len, const char *status)
{
    say_headers(p, stream, "200", "application/grpc");
    if (len > 0)
        say_frame(p, len, DATA, 0, stream, bytes);
    say_trailers(p, stream, status, NULL);
}

typedef struct oddity {
    const char *name;
    void (*say)(const player *p, uint32_t stream);
    bool closes; /* the connection is of no use any more */
} oddity;

static void say_page(const player *p, uint32_t stream)
{
    say_headers(p, stream, "502", "text/html");
    say_frame(p, 13, DATA, END, stream, "<html></html>");
}

static void say_html(const player *p, uint32_t stream)
{
    say_headers(p, stream, "200", "text/html");
    say_frame(p, 7, DATA, 0, stream, "\0\0\0\0\2\x20\x07");
    say_trailers(p, stream, "0", NULL);
}

static void say_no_trailers(const player *p, uint32_t stream)
{
    say_headers(p, stream, "200", "application/grpc");
    say_frame(p, 7, DATA, END, stream, "\0\0\0\0\2\x20\x07");
}

static void say_no_message(const player *p, uint32_t stream)
{
    answer_data(p, stream, "", 0, "0");
}

static void say_half(const player *p, uint32_t stream)
{
    answer_data(p, stream, "\0\0\0\0\5\x20\x07", 7, "0");
}

static void say_too_much(const player *p, uint32_t stream)
{
    answer_data(p, stream, "\0\0\0\0\1\x20\x07", 7, "0");
}

static void say_two(const player *p, uint32_t stream)
{
    answer_data(p, stream, "\0\0\0\0\2\x20\x07\0\0\0\0\2\x20\x07", 14, "0");
}

static void say_packed(const player *p, uint32_t stream)
{
    answer_data(p, stream, "\1\0\0\0\2\x20\x07", 7, "0");
}

static void say_huge(const player *p, uint32_t stream)
{
    answer_data(p, stream, "\0\xff\xff\xff\xff\x20\x07", 7, "0");
}

static void say_strange_status(const player *p, uint32_t stream)
{
    answer_data(p, stream, "\0\0\0\0\2\x20\x07", 7, "fine");
}

static void say_both(const player *p, uint32_t stream)
{
    block b = {0};

    add_header(&b, ":status", "200");
    add_header(&b, "content-type", "application/grpc");
    add_header(&b, "grpc-status", "13");
    say_frame(p, b.len, HEADERS, ALL, stream, b.bytes);
    say_frame(p, 7, DATA, 0, stream, "\0\0\0\0\2\x20\x07");
    say_trailers(p, stream, "0", NULL);
}

static void say_reset(const player *p, uint32_t stream)
{
    say_headers(p, stream, "200", "application/grpc");
    say_frame(p, 7, DATA, 0, stream, "\0\0\0\0\2\x20\x07");
    say_frame(p, 4, RESET, 0, stream, "\0\0\0\2");
}

static void say_bad_block(const player *p, uint32_t stream)
{
    say_frame(p, 4, HEADERS, ALL, stream, "\xff\xff\xff\xff");
}

static void say_wrong_stream(const player *p, uint32_t stream)
{
    say_well(p, stream + 100);
}

static void say_bad_size(const player *p, uint32_t stream)
{
    (void)stream;
    say_frame(p, 3, PING, 0, 0, "abc");
}

static void say_giant_frame(const player *p, uint32_t stream)
{
    (void)stream;
    say(p, "\xff\xff\xff\0\0\0\0\0\1", 9);
}

static void say_text(const player *p, uint32_t stream)
{
    (void)stream;
    say(p, "HTTP/1.1 400 Bad Request\r\n\r\nwhat is this?", 41);
}

static void say_push(const player *p, uint32_t stream)
{
    say_frame(p, 8, 5, ALL, stream, "\0\0\0\2\x82\x86\x84\x84");
}

static const oddity oddities[] = {
    {"a proxy's page", say_page, true},
    {"html", say_html, true},
    {"no trailers", say_no_trailers, true},
    {"no message", say_no_message, true},
    {"half a message", say_half, true},
    {"more than a message", say_too_much, true},
    {"two messages", say_two, true},
    {"a compressed message", say_packed, true},
    {"a huge message", say_huge, true},
    {"a strange status", say_strange_status, false},
    {"two statuses", say_both, false},
    {"a reset", say_reset, false},
    {"headers that are none", say_bad_block, true},
    {"a stream that nobody opened", say_wrong_stream, true},
    {"a frame of the wrong size", say_bad_size, true},
    {"a giant frame", say_giant_frame, true},
    {"HTTP/1.1", say_text, true},
    {"a promise", say_push, true},
};

static bool answer_oddly(player *p, uint32_t stream)
{
    if (atomic_load(&p->requests) == 1)
        oddities[odd].say(p, stream);
    else
        say_well(p, stream);
    return true;
}

static void odd_answers(void)
{
    for (odd = 0; odd < (int)(sizeof oddities / sizeof *oddities); odd++) {
        const oddity *o = &oddities[odd];
        world w;
        player p;
        ask a;

        open_player(&w, &p, answer_oddly);
        drive(set_put(&a, w.channel, "a", true, 10000));
        if (a.outcome != HF_UNKNOWN)
            FAIL_TEST("%s: outcome %d, code %d", o->name, (int)a.outcome,
                      (int)a.code);
        EXPECT(a.error.code == HF_EPROTO || a.error.code == HF_EUNAVAIL);
        EXPECT_HAS(a.error.text, "127.0.0.1:");
        /* The next one is answered as it should be. */
        EXPECT(WAIT_FOR(put(w.channel, "a", 5000) == HF_APPLIED, 10000));
        if (atomic_load(&p.connections) != 1 + o->closes)
            FAIL_TEST("%s: %d connections", o->name,
                      atomic_load(&p.connections));
        close_player(&w, &p);
    }
}

/* ---- Refusals ---- */

static bool refuse_at_once(player *p, uint32_t stream)
{
    block b = {0};

    add_header(&b, ":status", "200");
    add_header(&b, "content-type", "application/grpc+proto");
    add_header(&b, "grpc-status", "14");
    add_header(&b, "grpc-message", "etcdserver: no%20leader%0A%zz%4");
    say_frame(p, b.len, HEADERS, ALL | END, stream, b.bytes);
    return true;
}

/* A reply of trailers alone, its text with percent signs. */
static void trailers_only(void)
{
    world w;
    player p;
    ask a;

    open_player(&w, &p, refuse_at_once);
    drive(set_put(&a, w.channel, "a", true, 10000));
    EXPECT_EQ(a.outcome, HF_APPLIED);
    EXPECT_EQ(a.code, GRPC_UNAVAILABLE);
    EXPECT_EQ(a.error.code, HF_EUNAVAIL);
    EXPECT_HAS(a.error.text, "no leader");
    EXPECT_EQ(atomic_load(&p.connections), 1);
    close_player(&w, &p);
}

/* A message in many frames, empty ones among them. */
static bool answer_in_pieces(player *p, uint32_t stream)
{
    static const char message[] = "\0\0\0\0\2\x20\x07";

    say_headers(p, stream, "200", "application/grpc");
    for (int i = 0; i < 7; i++) {
        say_frame(p, 1, DATA, 0, stream, message + i);
        say_frame(p, 0, DATA, 0, stream, NULL);
    }
    say_trailers(p, stream, "0", NULL);
    return true;
}

static void pieces(void)
{
    world w;
    player p;
    ask a;

    open_player(&w, &p, answer_in_pieces);
    drive(set_put(&a, w.channel, "a", true, 10000));
    EXPECT(was_done(&a));
    EXPECT_EQ(a.count, 7);
    close_player(&w, &p);
}

/* ---- GOAWAY ---- */

/* On the first connection the third request is refused with a GOAWAY below it,
 * after two that are answered behind the GOAWAY. */
static bool go_away(player *p, uint32_t stream)
{
    if (atomic_load(&p->connections) == 1 && p->seen == 1) {
        say_frame(p, 8, GOAWAY, 0, 0, "\0\0\0\1\0\0\0\0");
        say_well(p, stream);
        return true;
    }
    if (atomic_load(&p->connections) == 1)
        return true; /* it is above the GOAWAY: never answered */
    say_well(p, stream);
    return true;
}

static void *run_one_put(void *arg)
{
    EXPECT_EQ(put(arg, "a", 20000), HF_APPLIED);
    return NULL;
}

/* Answered, or said not to be begun with and sent again: nobody is lost. */
static void sent_away(void)
{
    world w;
    player p;
    pthread_t threads[8];
    ask asks[4];

    open_player(&w, &p, go_away);
    start_keeper(&w);
    for (int i = 0; i < 8; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, run_one_put, w.channel), 0);
    for (int i = 0; i < 4; i++) {
        set_put(&asks[i], w.channel, "a", false, 20000);
        grpc_start(w.channel, &asks[i].call);
    }
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++) {
        EXPECT(WAIT_FOR(atomic_load(&asks[i].landed) == 1, 20000));
        EXPECT(was_done(&asks[i]));
    }
    EXPECT_EQ(atomic_load(&w.doubts), 0);
    EXPECT_EQ(atomic_load(&p.connections), 2);
    stop_keeper(&w);
    close_player(&w, &p);
}

static bool answer_well(player *p, uint32_t stream)
{
    say_well(p, stream);
    return true;
}

/* A connection whose numbers are used up is replaced by another. */
static void numbers_used_up(void)
{
    world w;
    player p;

    open_player(&w, &p, answer_well);
    EXPECT_EQ(put(w.channel, "a", 10000), HF_APPLIED);
    EXPECT_EQ(nghttp2_session_set_next_stream_id(w.channel->current->h2.session,
                                                 INT32_MAX - 10),
              0);
    for (int i = 0; i < 20; i++)
        EXPECT_EQ(put(w.channel, "a", 10000), HF_APPLIED);
    EXPECT_EQ(atomic_load(&p.connections), 2);
    EXPECT_EQ(atomic_load(&w.doubts), 0);
    close_player(&w, &p);
}

static bool refuse_stream(player *p, uint32_t stream)
{
    if (atomic_load(&p->requests) <= 2)
        say_frame(p, 4, RESET, 0, stream, "\0\0\0\7");
    else
        say_well(p, stream);
    return true;
}

static bool refuse_every_stream(player *p, uint32_t stream)
{
    say_frame(p, 4, RESET, 0, stream, "\0\0\0\7");
    return true;
}

static void refused_streams(void)
{
    world w;
    player p;
    ask a;

    open_player(&w, &p, refuse_stream);
    drive(set_put(&a, w.channel, "a", true, 20000));
    EXPECT(was_done(&a));
    EXPECT_EQ(atomic_load(&p.requests), 3);
    close_player(&w, &p);
    /* But not for ever. */
    open_player(&w, &p, refuse_every_stream);
    drive(set_put(&a, w.channel, "a", true, 20000));
    EXPECT_EQ(a.outcome, HF_NOT_APPLIED);
    EXPECT_EQ(a.error.code, HF_EUNAVAIL);
    close_player(&w, &p);
}

/* ---- Silence ---- */

static bool answer_nothing(player *p, uint32_t stream)
{
    (void)p;
    (void)stream;
    return true;
}

/* The member lives, but this call hangs: only the call is given up. */
static void hanging_call(void)
{
    world w;
    player p;
    ask a;

    open_player(&w, &p, answer_nothing);
    drive(set_put(&a, w.channel, "a", true, 2500));
    EXPECT_EQ(a.outcome, HF_UNKNOWN);
    EXPECT_EQ(a.code, GRPC_DEADLINE_EXCEEDED);
    EXPECT_HAS(a.error.text, "no answer within");
    EXPECT(WAIT_FOR(atomic_load(&p.resets) == 1, 10000));
    EXPECT_EQ(atomic_load(&p.connections), 1);
    EXPECT_EQ(atomic_load(&p.pings), 1); /* etcd bears no more */
    EXPECT_EQ(atomic_load(&w.doubts), 0);
    close_player(&w, &p);
}

static bool hang_up(player *p, uint32_t stream)
{
    (void)p;
    (void)stream;
    return false;
}

static void hung_up(void)
{
    world w;
    player p;
    ask a;

    open_player(&w, &p, hang_up);
    drive(set_put(&a, w.channel, "a", true, 10000));
    EXPECT_EQ(a.outcome, HF_UNKNOWN);
    EXPECT_EQ(a.error.code, HF_EUNAVAIL);
    EXPECT_EQ(atomic_load(&p.requests), 1);
    EXPECT_EQ(atomic_load(&w.doubts), 1);
    close_player(&w, &p);
}

/* ---- First words ---- */

static void no_http2(void)
{
    static const char *const words[] = {
        "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
        "-ERR unknown command 'PRI'\r\n",
        "\x15\x03\x01\x02\x02",
        "x",
    };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        world w = {0};
        player p;
        hf_error err = {0};
        int code;

        start_player(&p, answer_nothing, words[i]);
        code = open_ports(&w, &p.port, 1, (way_in){.dial_ms = 3000}, &err);
        EXPECT(code == HF_EPROTO || code == HF_EUNAVAIL);
        EXPECT_HAS(err.text, "127.0.0.1:");
        stop_player(&p);
    }
}

static const test_case cases[] = {
    TEST_LIMIT(odd_answers, 120),
    TEST(trailers_only),
    TEST(pieces),
    TEST(sent_away),
    TEST(numbers_used_up),
    TEST(refused_streams),
    TEST(hanging_call),
    TEST(hung_up),
    TEST(no_http2),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "grpc_odd", cases,
                     sizeof cases / sizeof *cases);
}
