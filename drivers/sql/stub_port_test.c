/* stub_port_test.c - the store on a port that does what no server does on
 * order: it pauses before a byte goes out, and loses its listener while that is
 * being made.
 *
 * The store is the real one, without a database: each statement has one answer,
 * which the test has laid out. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>

#include "base/url.h"
#include "harness/expect.h"
#include "harness/runner.h"

#include "format.h"
#include "native.h"

enum { PATIENCE_MS = 10000, SPAN_MS = 1200 };

typedef struct stub {
    sql_port base;
    bool is_open;   /* else all answers are those of a good schema */
    int pause_ms;   /* between a statement's parameters and its first byte */
    bool goes_deaf; /* while it begins to listen */
    const char *cells[8]; /* of the one row that a SELECT answers */
} stub;

/* ---- The port ----------------------------------------------------------- */

static sql_end answer(const stub *s, const char *text, sql_rows *ret)
{
    static const char *const meta[] = {"1", "0",        "0",      "",
                                       "0", "60000000", "server", "1"};

    sql_rows_reset(ret);
    ret->affected = 1;
    if (s->is_open && strncmp(text, "SELECT", 6) != 0)
        return SQL_DONE;
    for (size_t i = 0; i < sizeof meta / sizeof *meta; i++) {
        const char *cell = s->is_open ? s->cells[i] : meta[i];

        if (cell)
            sql_rows_add(ret, cell, strlen(cell));
    }
    sql_rows_end_row(ret);
    return SQL_DONE;
}

static sql_end stub_run(sql_conn *conn, const sql_text *text,
                        const char *const *params, hf_nsec deadline,
                        sql_rows *ret, hf_nsec *ret_sent, hf_error *err)
{
    stub *s = (stub *)conn->port;

    (void)params;
    (void)deadline;
    (void)err;
    if (s->pause_ms > 0)
        test_sleep_ms(s->pause_ms);
    if (ret_sent)
        *ret_sent = hfd_now();
    return answer(s, text->text, ret);
}

static sql_end stub_say(sql_conn *conn, const char *text, hf_nsec deadline,
                        sql_rows *ret, hf_error *err)
{
    (void)deadline;
    (void)err;
    return answer((stub *)conn->port, text, ret);
}

static int stub_connect(sql_port *port, hf_nsec deadline, sql_conn **ret,
                        hf_error *err)
{
    (void)port;
    (void)deadline;
    (void)err;
    *ret = hfd_alloc(sizeof **ret);
    EXPECT(*ret != NULL);
    return 0;
}

static void stub_disconnect(sql_conn *conn, bool reset)
{
    (void)reset;
    hfd_free(conn);
}

static bool stub_stands(sql_conn *conn)
{
    return conn != NULL;
}

static int stub_listen(sql_port *port, const char *sid, hf_nsec deadline,
                       char ret_bell[SQL_BELL_MAX], hf_error *err)
{
    hf_error why = {.text = "gone as soon as it was there"};

    (void)sid;
    (void)deadline;
    (void)err;
    ret_bell[0] = '\0';
    if (((stub *)port)->goes_deaf)
        port->deaf(port->store, &why);
    return 0;
}

static void stub_close(sql_port *port)
{
    (void)port;
}

static const sql_port_class stub_class = {.driver = "stub",
                                          .counts = true,
                                          .connect = stub_connect,
                                          .disconnect = stub_disconnect,
                                          .stands = stub_stands,
                                          .run = stub_run,
                                          .say = stub_say,
                                          .listen = stub_listen,
                                          .close = stub_close};

/* ---- The core ----------------------------------------------------------- */

static void changed(void *ctx, const hf_id *rid, const hf_place *fresh)
{
    (void)ctx;
    (void)rid;
    (void)fresh;
}

static void news(void *ctx, const hf_id *rid, int reason)
{
    (void)ctx;
    (void)rid;
    (void)reason;
}

static void doubt(void *ctx, int reason, const char *text)
{
    (void)ctx;
    (void)reason;
    (void)text;
}

static void done(hf_op *op)
{
    op->core = op;
}

static hf_store *open_stub(stub *s, const char *at)
{
    static const sql_format *const formats[] = {&sql_native, &sql_spring, NULL};
    hf_host host = {.changed = changed, .news = news, .doubt = doubt};
    hf_store *store = NULL;
    hf_url *url = NULL;
    hf_error err = {.code = 0};
    uint32_t caps;

    s->base.class = &stub_class;
    s->base.dialect = &sql_postgres;
    EXPECT_OK(hf__url_parse(&url, at, &err), err);
    EXPECT_OK(
        sql_store_open(&store, &s->base, formats, url, &host, &caps, &err),
        err);
    hf__url_free(url);
    s->is_open = true;
    return store;
}

static void run_op(hf_store *store, hf_op *op)
{
    op->deadline = hfd_now() + HF_MS(PATIENCE_MS);
    op->done = done;
    op->core = NULL;
    sql_store_start(store, op);
    EXPECT(op->core == op);
    EXPECT_CODE(op->error.code, 0);
}

/* ---- A pause before the first byte -------------------------------------- */

/* Spring's rows end by this machine's clock, which is read before the statement
 * goes out: what was left then is less when it goes, or nothing. */
static void look_behind_a_pause(void)
{
    stub s = {.is_open = false};
    hf_store *store = open_stub(&s, "stub:?format=spring");
    char key[37], owner[SQL_PEER_OWNER], left[SQL_NUMBER_MAX];
    hf_place place = {
        .key = "k", .key_len = 1, .run = 1, .places = 1, .rid.bytes = {1}};
    hf_place *places[] = {&place};
    hf_op attach = {
        .kind = HF_OP_ATTACH, .ttl = HF_MS(30000), .text = "t", .text_len = 1};
    hf_op join = {.kind = HF_OP_JOIN, .place = &place};
    hf_op look = {.kind = HF_OP_RECHECK, .places = places, .place_count = 1};
    const sql_peer *peer = sql_peer_of(store);

    run_op(store, &attach);
    run_op(store, &join);
    EXPECT_EQ(place.verdict, HF_GRANTED);
    sql_spring_key("k", 1, key);
    peer->kind->owner(peer, &place.rid, false, owner);
    s.cells[0] = key;
    s.cells[1] = owner;
    s.cells[2] = sql_number_text(SPAN_MS * INT64_C(1000), left);
    s.pause_ms = SPAN_MS / 4;
    run_op(store, &look);
    if (place.verdict == HF_GRANTED) /* else this machine paused, too */
        EXPECT(place.remaining <= HF_MS(SPAN_MS - SPAN_MS / 4));
    s.pause_ms = SPAN_MS + 10;
    run_op(store, &look);
    EXPECT_EQ(place.verdict, HF_GONE);
    EXPECT_EQ(place.reason, HF_EEXPIRED);
    sql_store_close(store);
}

/* ---- The clock ---------------------------------------------------------- */

/* Of an answer that took long nobody knows when the clock was read: numbers
 * drawn by it would lie far ahead. */
static void slow_answers_tell_no_clock(void)
{
    stub s = {.is_open = false};
    hf_store *store = open_stub(&s, "stub:");
    sql_native_data *data = sql_native_of(store);
    int64_t ahead;

    for (int i = 0; i < 100 && atomic_load(&data->ahead_us) == 0; i++)
        sql_note_clock(store, INT64_C(1000000000), hfd_now());
    ahead = atomic_load(&data->ahead_us);
    EXPECT(ahead != 0);
    sql_note_clock(store, INT64_C(1003000000), hfd_now() - HF_MS(3000));
    EXPECT_EQ(atomic_load(&data->ahead_us), ahead);
    sql_store_close(store);
}

/* ---- Looks of a deaf store ---------------------------------------------- */

static long look_in(const hf_store *store)
{
    struct itimerspec in;

    EXPECT(timerfd_gettime(store->timer, &in) == 0);
    EXPECT_EQ(in.it_value.tv_sec, 0);
    return in.it_value.tv_nsec;
}

static bool rings(const hf_store *store)
{
    struct pollfd timer = {.fd = store->timer, .events = POLLIN};

    return poll(&timer, 1, 0) == 1;
}

/* However many begin to wait: they bring a look nearer, none pushes it back. */
static void waiters_push_no_look_back(void)
{
    stub s = {.is_open = false};
    hf_store *store = open_stub(&s, "stub:?listen=no");
    long last;

    sql_poll_soon(store, true);
    last = look_in(store);
    for (int i = 0; i < 200; i++) {
        long now;

        sql_poll_soon(store, true);
        now = look_in(store);
        if (rings(store))
            break;
        EXPECT(now > 0 && now <= last);
        last = now;
    }
    EXPECT(WAIT_FOR(rings(store), PATIENCE_MS));
    sql_poll_soon(store, true); /* nor is one that rang forgotten */
    sql_poll_soon(store, false);
    EXPECT(rings(store));
    sql_store_dispatch(store);
    /* One that is far off comes sooner for who has just come. */
    atomic_store(&store->poll_ms, 500);
    sql_poll_soon(store, false);
    last = look_in(store);
    sql_poll_soon(store, true);
    EXPECT(rings(store) || look_in(store) < last);
    sql_store_close(store);
}

/* ---- A listener --------------------------------------------------------- */

/* Lost before we have written down that there is one: there is none. */
static void listener_lost_at_once(void)
{
    stub s = {.is_open = false, .goes_deaf = true};
    hf_store *store = open_stub(&s, "stub:");
    sql_native_data *data = sql_native_of(store);
    hf_op op = {.kind = HF_OP_RECHECK,
                .deadline = hfd_now() + HF_MS(PATIENCE_MS),
                .sid.bytes = {1}};
    sql_use use;
    bool now = true;

    EXPECT_CODE(sql_begin(&use, store, &op), 0);
    sql_native_listen(&use, &now);
    EXPECT(!now);
    EXPECT(!data->listens);
    EXPECT(atomic_load(&store->deaf));
    s.goes_deaf = false;
    sql_native_listen(&use, &now);
    EXPECT(now);
    EXPECT(data->listens);
    EXPECT(!atomic_load(&store->deaf));
    sql_end_use(&use);
    sql_store_close(store);
}

static const test_case cases[] = {
    TEST(look_behind_a_pause), TEST(slow_answers_tell_no_clock),
    TEST(waiters_push_no_look_back), TEST(listener_lost_at_once)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "stub_port", cases,
                     sizeof cases / sizeof *cases);
}
