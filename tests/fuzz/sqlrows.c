/* sqlrows.c - any rows as the answers of a SQL database.
 *
 * The store is the real one; its port is a database that answers whatever the
 * bytes say: rows of cells as libpq, MariaDB's library and ODBC give them
 * (NULL, numbers, queues, ids, any text), clashes, refusals, lost connections.
 * A few operations of driver.h are asked of it, in the native layout or in that
 * of another library, and pushes come in between.
 *
 * Promises: every operation ends, once, with an outcome and a code that it may
 * have; success is said only of what was answered; a place that is answered has
 * a verdict, and times that can be counted with; no session lasts longer than
 * it asked for; a grant has a token where the store has tokens, and nothing
 * else has one; nothing is left in memory. */
#include "host.h"

#include <holdfast/holdfast.h>

#include "../../drivers/sql/body.h"
#include "../../drivers/sql/store.h"
#include "base/url.h"

enum { OPS = 6, CELLS = 9, TEXT = 400, ANSWERS = 200 };

typedef struct world {
    sql_port base;
    fuzz_input in;
    bool opening;
    unsigned answers, clashes;
    hf_id rid, sid;
    uint32_t caps;
} world;

/* ---- The database -------------------------------------------------------- */

static void add_number(world *w, sql_rows *rows)
{
    static const int64_t odd[] = {0,         -1,        1,           INT64_MAX,
                                  INT64_MIN, INT64_MAX, 30000000000, 1000000};
    unsigned how = take_byte(&w->in);
    char text[32];
    int64_t n = how < 64   ? odd[how % 8]
                : how < 96 ? hfd_realtime_us() + (int64_t)take_number(&w->in, 4)
                           : (int64_t)take_number(&w->in, how % 8 + 1);
    int len = snprintf(text, sizeof text, "%lld", (long long)n);

    sql_rows_add(rows, text, (size_t)len);
}

/* A queue of one to three, of which one may be ours. */
static void add_body(world *w, sql_rows *rows)
{
    char body[3 * SQL_ENTRY_MAX] = "", *at = body;
    unsigned n = 1 + take_byte(&w->in) % 3;
    uint64_t num = 1 + take_number(&w->in, 2);

    while (n-- > 0) {
        unsigned how = take_byte(&w->in);
        sql_entry entry = {.num = num,
                           .rid = w->rid,
                           .sid = w->sid,
                           .mode = (hf_mode)(how % 3),
                           .run = 1 + how % 16,
                           .places = how % 3 == HF_PERMIT ? 1 + how / 64 : 0,
                           .closed = how > 250};

        num += entry.run;
        if (how & 8)
            entry.rid.bytes[0] ^= (uint8_t)how;
        if (how & 16)
            entry.sid.bytes[0] ^= (uint8_t)how;
        if (how & 32)
            entry.lease_ms = (int64_t)(take_number(&w->in, 8) >> 1);
        if (how & 64)
            entry.exp_us = (int64_t)(take_number(&w->in, 8) >> 1);
        if (how & 128)
            entry.brk_us = (int64_t)(take_number(&w->in, 8) >> 1);
        entry.exp_us += entry.closed && entry.exp_us == 0;
        sql_entry_text(&entry, at);
        at += strlen(at);
    }
    sql_rows_add(rows, body, strlen(body));
}

static void add_text(world *w, sql_rows *rows)
{
    size_t len = take_byte(&w->in);
    char text[256];

    for (size_t i = 0; i < len; i++)
        text[i] = (char)take_byte(&w->in);
    /* No client library gives a NUL out of a text. */
    sql_rows_add(rows, text, strnlen(text, len));
}

static void add_cell(world *w, sql_rows *rows)
{
    char id[SQL_ID_LEN + 8];

    switch (take_byte(&w->in) % 8) {
    case 0:
        sql_rows_add_null(rows);
        break;
    case 1:
    case 2:
        add_body(w, rows);
        break;
    case 3:
        sql_id_text(take_byte(&w->in) & 1 ? &w->rid : &w->sid, id);
        sql_rows_add(rows, id, SQL_ID_LEN);
        break;
    case 4: /* news */
        sql_id_text(&w->rid, id);
        snprintf(id + SQL_ID_LEN, 8, ".%u;", take_byte(&w->in));
        sql_rows_add(rows, id, strlen(id));
        break;
    case 5:
        add_text(w, rows);
        break;
    default:
        add_number(w, rows);
    }
}

static void answer_meta(sql_rows *rows)
{
    static const char *const cells[] = {"1", "0",        "0",      "",
                                        "0", "60000000", "server", "1"};

    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
        sql_rows_add(rows, cells[i], strlen(cells[i]));
    sql_rows_end_row(rows);
}

static sql_end answer(world *w, sql_rows *rows, hf_error *err)
{
    unsigned how = take_byte(&w->in), n, cols;

    if (w->in.at == w->in.end || ++w->answers > ANSWERS || how == 0) {
        hfd_error(err, HF_EUNAVAIL, "fuzz", 0, "the connection was lost");
        return SQL_LOST;
    }
    if (how < 4 && w->clashes++ < 3)
        return SQL_CLASH;
    if (how < 8) {
        hfd_error(err, HF_EPERM, "fuzz", 0, "refused");
        return SQL_REFUSED;
    }
    if (how < 10) {
        hfd_error(err, HF_EUNAVAIL, "fuzz", 0, "broken");
        return SQL_BROKEN;
    }
    rows->affected = (int64_t)(how % 4) - 1;
    n = how / 4 % 4;
    cols = 1 + take_byte(&w->in) % CELLS;
    for (unsigned row = 0; row < n; row++) {
        for (unsigned col = 0; col < cols; col++)
            add_cell(w, rows);
        sql_rows_end_row(rows);
    }
    return SQL_DONE;
}

static sql_end run(sql_conn *conn, const sql_text *text,
                   const char *const *params, hf_nsec deadline, sql_rows *ret,
                   hf_nsec *ret_sent, hf_error *err)
{
    world *w = (world *)conn->port;

    (void)deadline;
    sql_rows_reset(ret);
    for (unsigned i = 0; i < text->count; i++)
        PROMISE(params[text->order[i]] != NULL);
    if (ret_sent)
        *ret_sent = hfd_now();
    if (!w->opening)
        return answer(w, ret, err);
    answer_meta(ret);
    return SQL_DONE;
}

static sql_end say(sql_conn *conn, const char *text, hf_nsec deadline,
                   sql_rows *ret, hf_error *err)
{
    world *w = (world *)conn->port;

    (void)deadline;
    PROMISE(text[0] != '\0');
    sql_rows_reset(ret);
    if (!w->opening)
        return answer(w, ret, err);
    answer_meta(ret);
    return SQL_DONE;
}

static int dial(sql_port *port, hf_nsec deadline, sql_conn **ret, hf_error *err)
{
    (void)port;
    (void)deadline;
    (void)err;
    *ret = hfd_alloc(sizeof **ret);
    PROMISE(*ret != NULL);
    return 0;
}

static void hang_up(sql_conn *conn, bool reset)
{
    (void)reset;
    hfd_free(conn);
}

static bool stands(sql_conn *conn)
{
    return conn != NULL;
}

static void close_port(sql_port *port)
{
    (void)port;
}

static const sql_port_class class = {.driver = "fuzz",
                                     .connect = dial,
                                     .disconnect = hang_up,
                                     .stands = stands,
                                     .run = run,
                                     .say = say,
                                     .close = close_port};

/* ---- The core ------------------------------------------------------------ */

static int emit_row(const hf_row *row, void *user)
{
    (void)user;
    PROMISE(row->info.key != NULL && row->info.mode <= HF_PERMIT);
    return 0;
}

static void check_place(const world *w, const hf_place *place, bool left)
{
    PROMISE(place->verdict == HF_GRANTED || place->verdict == HF_WAITS ||
            place->verdict == HF_GONE || place->verdict == HF_JUDGE);
    PROMISE(place->remaining >= 0 && place->look_in >= 0);
    PROMISE(place->verdict != HF_GONE || place->reason <= 0);
    PROMISE(place->verdict == HF_GRANTED || place->token == 0);
    /* Of a leave the verdict says what it was. */
    PROMISE(left || place->verdict != HF_GRANTED || place->token != 0 ||
            !(w->caps & HF_CAP_TOKEN));
}

static void ask(world *w, hf_store *store)
{
    static const char key[] = "key";
    hf_place place = {.key = key,
                      .key_len = 3,
                      .rid = w->rid,
                      .mode = take_byte(&w->in) % 3,
                      .run = 1},
             *places[] = {&place};
    unsigned how = take_byte(&w->in);
    hf_op op = {.kind = (hf_op_kind)(1 + how % HF_OP_PROBE),
                .sid = w->sid,
                .deadline = hfd_now() + HF_MS(1000),
                .ttl = HF_MS(30000),
                .place = &place,
                .places = places,
                .place_count = 1,
                .text = key,
                .text_len = 3,
                .value = key,
                .value_len = how & 64 ? 3 : 0,
                .keep = how & 128 ? HF_MS(50) : 0,
                .only_if_granted = how & 32,
                .tomb = how & 16,
                .now = how & 16,
                .only_mine = how & 32,
                .emit_row = emit_row,
                .emit_finding = emit_finding,
                .done = done};

    place.places = place.mode == HF_PERMIT ? 2 : 0;
    place.lease = how & 64 ? HF_MS(5000) : 0;
    ended = 0;
    sql_store_start(store, &op);
    PROMISE(ended == 1);
    PROMISE(op.outcome == HF_APPLIED || op.outcome == HF_NOT_APPLIED ||
            op.outcome == HF_UNKNOWN);
    PROMISE(op.error.code <= 0);
    PROMISE(op.error.code != 0 || op.outcome == HF_APPLIED);
    PROMISE(op.remaining >= 0 && op.remaining <= op.ttl);
    if (op.error.code == 0 &&
        (op.kind == HF_OP_JOIN || op.kind == HF_OP_RECHECK ||
         op.kind == HF_OP_LEAVE || op.kind == HF_OP_CONFIRM))
        check_place(w, &place, op.kind == HF_OP_LEAVE);
}

/* What a push says, as a listener reads it. */
static void tell(world *w, hf_store *store)
{
    char rid[SQL_ID_LEN + 1];

    if (!w->base.told)
        return;
    sql_id_text(&w->rid, rid);
    rid[take_byte(&w->in) % SQL_ID_LEN] = (char)take_byte(&w->in);
    w->base.told(store, rid, take_number(&w->in, 8),
                 (uint32_t)take_number(&w->in, 4));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const sql_format *const formats[] = {&sql_native, &sql_spring,
                                                &sql_shedlock, NULL};
    static const char *const urls[] = {
        "fuzz:", "fuzz:?strict=yes", "fuzz:?clock=observer",
        "fuzz:?format=spring", "fuzz:?format=shedlock"};
    static const sql_dialect *const dialects[] = {&sql_postgres, &sql_mariadb,
                                                  &sql_sqlite};
    world w = {.base = {.class = &class, .statement_ms = 1000},
               .in = {data, data + size}};
    hf_host host = {.changed = changed, .news = news, .doubt = doubt};
    unsigned how = take_byte(&w.in);
    hf_store *store = NULL;
    hf_url *url = NULL;
    hf_error err = {.code = 0};

    w.base.dialect = dialects[how / 8 % 3];
    w.rid.bytes[15] = w.sid.bytes[14] = 1;
    PROMISE(hf__url_parse(&url, urls[how % 5], &err) == 0);
    w.opening = how % 5 != 1; /* strict: what it asks may be answered so, too */
    if (sql_store_open(&store, &w.base, formats, url, &host, &w.caps, &err) ==
        0) {
        w.opening = false;
        for (unsigned i = 0; i < OPS && w.in.at < w.in.end; i++) {
            ask(&w, store);
            tell(&w, store);
        }
        sql_store_close(store);
    } else {
        PROMISE(err.code < 0 && err.text[0] != '\0');
    }
    hf__url_free(url);
    return 0;
}
