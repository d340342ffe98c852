/* format_peer_test.h - for tests of the peers' formats: a peer, and one of
 * ours.
 *
 * A peer is a bare connection that says the very statements which another
 * library says, and reads what comes back; of the driver it shares nothing but
 * the way to the server.  "Ours" is the driver without the core: each call is
 * one operation, so that a test decides when a waiter looks again.
 *
 * A test includes base/url.h and the harness before this, and links a
 * driver. */
#ifndef HF_DRIVERS_SQL_FORMAT_PEER_TEST_H
#define HF_DRIVERS_SQL_FORMAT_PEER_TEST_H

#include <stdarg.h>

#include "format.h"

#ifndef PATIENCE_MS
#define PATIENCE_MS 20000
#endif

/* ---- Ours ---- */

typedef struct ours {
    const hf_driver *driver;
    hf_store *store;
    hf_url *url;
    uint32_t caps;
    hf_id sid;
    atomic_int lost; /* news */
    int ttl_ms;
} ours;

static inline void ours_changed(void *ctx, const hf_id *rid,
                                const hf_place *fresh)
{
    (void)ctx;
    (void)rid;
    (void)fresh;
}

static inline void ours_news(void *ctx, const hf_id *rid, int reason)
{
    ours *o = ctx;

    EXPECT(rid != NULL);
    EXPECT_CODE(reason, HF_EEXPIRED);
    atomic_fetch_add(&o->lost, 1);
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
    op->deadline = hfd_now() + HF_MS(PATIENCE_MS);
    op->driven = true;
    op->done = ours_done;
    op->core = NULL;
    o->driver->start(o->store, op);
    EXPECT(op->core == op);
}

static inline int ours_try_open(ours *o, const char *url, hf_error *err)
{
    hf_host host = {.ctx = o,
                    .changed = ours_changed,
                    .news = ours_news,
                    .doubt = ours_doubt};
    int code;

    EXPECT_OK(hf__url_parse(&o->url, url, err), *err);
    o->driver = hf_driver_entry();
    code = o->driver->open(&o->store, o->url, &host, &o->caps, err);
    if (code)
        hf__url_free(o->url);
    return code;
}

/* A store at this URL and a session of this lease. */
static inline ours *ours_open(const char *url, int ttl_ms)
{
    ours *o = calloc(1, sizeof *o);
    hf_op op = {.kind = HF_OP_ATTACH, .ttl = HF_MS(ttl_ms)};
    hf_error err = {.code = 0};

    EXPECT(o != NULL);
    EXPECT_OK(ours_try_open(o, url, &err), err);
    EXPECT(!(o->caps & HF_CAP_TOKEN) && (o->caps & HF_CAP_EACH));
    hfd_random(&o->sid, sizeof o->sid);
    o->ttl_ms = ttl_ms;
    op.text = "tester";
    op.text_len = 6;
    ours_run(o, &op);
    EXPECT_CODE(op.error.code, 0);
    return o;
}

/* This URL is refused, with this in the text. */
static inline void ours_cannot_open(const char *url, int code, const char *part)
{
    ours o = {.ttl_ms = 0};
    hf_error err = {.code = 0};

    EXPECT_CODE(ours_try_open(&o, url, &err), code);
    EXPECT_HAS(err.text, part);
}

static inline void ours_close(ours *o)
{
    hf_op op = {.kind = HF_OP_DETACH};

    ours_run(o, &op);
    EXPECT_CODE(op.error.code, 0);
    o->driver->close(o->store);
    hf__url_free(o->url);
    free(o);
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

    ours_run(o, &op);
    return op.outcome == HF_UNKNOWN ? HF_EUNKNOWN : op.error.code;
}

static inline hf_verdict ours_look(ours *o, hf_place *place)
{
    hf_op op = {.kind = HF_OP_RECHECK, .places = &place, .place_count = 1};

    ours_run(o, &op);
    EXPECT_CODE(op.error.code, 0);
    return place->verdict;
}

static inline hf_verdict ours_renew(ours *o, hf_place *place)
{
    hf_op op = {.kind = HF_OP_RENEW,
                .ttl = HF_MS(o->ttl_ms),
                .places = &place,
                .place_count = 1};

    ours_run(o, &op);
    EXPECT_CODE(op.error.code, 0);
    return place->verdict;
}

static inline hf_verdict ours_leave_keep(ours *o, hf_place *place, int keep_ms)
{
    hf_op op = {.kind = HF_OP_LEAVE, .place = place, .keep = HF_MS(keep_ms)};

    ours_run(o, &op);
    EXPECT_CODE(op.error.code, 0);
    return place->verdict;
}

static inline hf_verdict ours_leave(ours *o, hf_place *place)
{
    return ours_leave_keep(o, place, 0);
}

static inline void ours_holds(ours *o, hf_place *place)
{
    EXPECT_CODE(ours_join(o, place, false), 0);
    EXPECT_EQ(place->verdict, HF_GRANTED);
    EXPECT(place->remaining > 0 && place->remaining <= HF_MS(o->ttl_ms));
}

static inline void ours_waits(ours *o, hf_place *place)
{
    EXPECT_CODE(ours_join(o, place, false), 0);
    EXPECT_EQ(place->verdict, HF_WAITS);
    EXPECT(place->look_in > 0);
}

static inline void ours_is_refused(ours *o, const char *key)
{
    hf_place place = ours_place(key);

    EXPECT_CODE(ours_join(o, &place, true), HF_EBUSY);
}

/* It was lost: both a renewal and the leave say so. */
static inline void ours_is_told(ours *o, hf_place *place)
{
    EXPECT_EQ(ours_renew(o, place), HF_GONE);
    EXPECT_CODE(place->reason, HF_EEXPIRED);
    EXPECT_EQ(ours_leave(o, place), HF_GONE);
    EXPECT_CODE(place->reason, HF_EEXPIRED);
}

/* ---- A peer ---- */

typedef struct peer {
    sql_conn *conn;
    sql_rows rows;
    sql_end end;
    hf_error err;
} peer;

static inline peer *peer_open(ours *o)
{
    peer *p = calloc(1, sizeof *p);

    EXPECT(p != NULL);
    EXPECT_OK(sql_connect(o->store, hfd_now() + HF_MS(PATIENCE_MS), &p->conn,
                          &p->err),
              p->err);
    return p;
}

/* Before the store is closed. */
static inline void peer_close(peer *p)
{
    p->conn->port->class->disconnect(p->conn, false);
    sql_rows_done(&p->rows);
    free(p);
}

static inline sql_end peer_try_list(peer *p, const char *format, va_list args)
{
    char text[2000];

    vsnprintf(text, sizeof text, format, args);
    p->end = p->conn->port->class->say(
        p->conn, text, hfd_now() + HF_MS(PATIENCE_MS), &p->rows, &p->err);
    return p->end;
}

/* A statement that may be refused. */
__attribute__((format(printf, 2, 3))) static inline sql_end
peer_try(peer *p, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    peer_try_list(p, format, args);
    va_end(args);
    return p->end;
}

/* How many rows it changed. */
__attribute__((format(printf, 2, 3))) static inline long long
peer_does(peer *p, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    peer_try_list(p, format, args);
    va_end(args);
    if (p->end != SQL_DONE)
        FAIL_TEST("%s: %s", format, p->err.text);
    return p->rows.affected;
}

/* The first cell of the answer; "": NULL, or none. */
__attribute__((format(printf, 2, 3))) static inline const char *
peer_asks(peer *p, const char *format, ...)
{
    va_list args;
    const char *cell;

    va_start(args, format);
    peer_try_list(p, format, args);
    va_end(args);
    if (p->end != SQL_DONE)
        FAIL_TEST("%s: %s", format, p->err.text);
    cell = sql_cell(&p->rows, 0, 0);
    return cell ? cell : "";
}

static inline bool peer_sees(peer *p, const char *text)
{
    const char *cell = peer_asks(p, "%s", text);

    return *cell == 't' || *cell == '1';
}

/* ---- Spring's statements, of 7.0 and later and of 6.x ---- */

static const char client[] = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff";
static const char my_lock[] = "eda23b8c-64b2-3f01-8c10-660455d15168";

/* now: an expression; plus: what is added to it, with its sign. */
static inline long long spring_update_7(peer *p, const char *table,
                                        const char *key, const char *now,
                                        const char *until)
{
    return peer_does(p,
                     "UPDATE %s SET CLIENT_ID='%s', EXPIRED_AFTER=%s WHERE "
                     "REGION='DEFAULT' AND LOCK_KEY='%s' AND (CLIENT_ID='%s' "
                     "OR EXPIRED_AFTER<%s)",
                     table, client, until, key, client, now);
}

static inline sql_end spring_insert_7(peer *p, const char *table,
                                      const char *key, const char *now,
                                      const char *until)
{
    return peer_try(p,
                    "INSERT INTO %s (REGION, LOCK_KEY, CLIENT_ID, "
                    "CREATED_DATE, EXPIRED_AFTER) VALUES ('DEFAULT', '%s', "
                    "'%s', %s, %s)",
                    table, key, client, now, until);
}

static inline long long spring_update_6(peer *p, const char *table,
                                        const char *key, const char *now,
                                        const char *before)
{
    return peer_does(p,
                     "UPDATE %s SET CLIENT_ID='%s', CREATED_DATE=%s WHERE "
                     "REGION='DEFAULT' AND LOCK_KEY='%s' AND (CLIENT_ID='%s' "
                     "OR CREATED_DATE<%s)",
                     table, client, now, key, client, before);
}

static inline sql_end spring_insert_6(peer *p, const char *table,
                                      const char *key, const char *now)
{
    return peer_try(p,
                    "INSERT INTO %s (REGION, LOCK_KEY, CLIENT_ID, "
                    "CREATED_DATE) VALUES ('DEFAULT', '%s', '%s', %s)",
                    table, key, client, now);
}

static inline long long spring_delete(peer *p, const char *table,
                                      const char *key)
{
    return peer_does(p,
                     "DELETE FROM %s WHERE REGION='DEFAULT' AND LOCK_KEY='%s' "
                     "AND CLIENT_ID='%s'",
                     table, key, client);
}

#endif
