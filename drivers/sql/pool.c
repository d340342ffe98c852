/* pool.c - a few connections, lent to one operation at a time.
 *
 * Answers: which connection does this operation run on, and what does the end
 * of a statement mean for the operation?  Knows nothing of queues.
 *
 * A caller takes the connection that was used last; there is no line in front
 * of a free one.  A renewal may open one more than the others, so that it never
 * waits behind them.  What lay idle for half a second, or was there when
 * another one broke, is looked at before it is used.  A connection that broke
 * is closed with a reset: nothing that is under way on it may arrive later.
 * When one stands again the core hears of it once (doubt), since the server
 * behind it may be another one.
 *
 * The outcome of an operation: until a statement that writes was sent it is
 * NOT_APPLIED; from then on a failure is UNKNOWN, whichever statement failed,
 * because the core repeats by rid and every operation can be repeated. */
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "store.h"

#define IDLE_UNSEEN HF_MS(500)

/* ---- Lending ------------------------------------------------------------ */

static uint64_t random_below(uint64_t n)
{
    uint64_t draw;

    hfd_random(&draw, sizeof draw);
    return draw % n;
}

/* Called with the mutex held, when a connection, or room for one, is there. */
static void ring_free(hf_store *store)
{
    uint64_t one = 1;

    if (store->pool.waiting > 0 &&
        write(store->pool.bell, &one, sizeof one) < 0)
        hfd_log(HF_LOG_DEBUG, "%s: nobody heard of a free connection",
                store->port->class->driver);
}

/* Sleep until one is given back; called with the mutex held.  A ring that
 * another took is no harm: short sleeps, then again. */
static void wait_free(hf_store *store, hf_nsec deadline)
{
    struct pollfd bell = {.fd = store->pool.bell, .events = POLLIN};
    hf_nsec left = deadline - hfd_now();
    int ms = left > HF_MS(250) ? 250
             : left > 0        ? (int)(left / HF_MS(1)) + 1
                               : 0;
    uint64_t rings;

    store->pool.waiting++;
    pthread_mutex_unlock(&store->pool.mu);
    if (poll(&bell, 1, ms) > 0 && read(bell.fd, &rings, sizeof rings) < 0)
        rings = 0; /* another was faster, and takes what is there */
    pthread_mutex_lock(&store->pool.mu);
    store->pool.waiting--;
}

/* Called with the mutex held. */
static void note_closed(hf_store *store, bool broke)
{
    store->pool.open--;
    if (broke) {
        store->pool.was_lost = true;
        store->pool.suspect = hfd_now();
    }
    ring_free(store);
}

static void drop_conn(hf_store *store, sql_conn *conn)
{
    store->port->class->disconnect(conn, true);
    pthread_mutex_lock(&store->pool.mu);
    note_closed(store, true);
    pthread_mutex_unlock(&store->pool.mu);
}

int sql_connect(hf_store *store, hf_nsec deadline, sql_conn **ret,
                hf_error *err)
{
    int code = store->port->class->connect(store->port, deadline, ret, err);

    if (code == 0) {
        (*ret)->port = store->port;
        (*ret)->used = hfd_now();
    }
    return code;
}

/* One more, which `open` counts already. */
static int open_conn(sql_use *use)
{
    hf_store *store = use->store;
    int code = sql_connect(store, use->op->deadline, &use->conn, &use->err);

    pthread_mutex_lock(&store->pool.mu);
    if (code == 0) {
        store->pool.failures = 0;
        store->pool.refused_until = 0;
    } else {
        unsigned shift = store->pool.failures < 4 ? store->pool.failures++ : 4;
        uint64_t most = UINT64_C(50) << shift;

        if (most > 500)
            most = 500;
        use->conn = NULL;
        store->pool.refused_until =
            hfd_now() + HF_MS(most / 2 + random_below(most / 2 + 1));
        store->pool.why = use->err;
        note_closed(store, false);
    }
    pthread_mutex_unlock(&store->pool.mu);
    return code;
}

/* The last used, if it stands; called with the mutex held, which it may let go
 * of in between.  NULL: there was none, or it had broken. */
static sql_conn *take_idle(hf_store *store)
{
    sql_conn *conn = store->pool.idle;

    store->pool.idle = conn->next;
    conn->next = NULL;
    if (hfd_now() - conn->used < IDLE_UNSEEN &&
        conn->used > store->pool.suspect)
        return conn;
    pthread_mutex_unlock(&store->pool.mu);
    bool stands = store->port->class->stands(conn);
    if (!stands)
        store->port->class->disconnect(conn, true);
    pthread_mutex_lock(&store->pool.mu);
    if (stands)
        return conn;
    note_closed(store, true);
    return NULL;
}

/* Returns with use->conn, or an HF_ code. */
static int borrow_conn(sql_use *use)
{
    hf_store *store = use->store;
    unsigned most = store->pool.most + (use->op->kind == HF_OP_RENEW);
    int code = 0;

    pthread_mutex_lock(&store->pool.mu);
    for (;;) {
        hf_nsec now = hfd_now();

        if (store->pool.idle) {
            use->conn = take_idle(store);
            if (use->conn)
                break;
        } else if (now >= use->op->deadline) {
            code =
                hfd_error(&use->err, HF_EUNAVAIL, store->port->class->driver, 0,
                          "all %u connections to '%s' are in use: raise "
                          "'connections'",
                          most, store->port->where);
            break;
        } else if (store->pool.open < most) {
            if (now < store->pool.refused_until) {
                use->err = store->pool.why;
                code = use->err.code;
                break;
            }
            store->pool.open++;
            pthread_mutex_unlock(&store->pool.mu);
            code = open_conn(use);
            pthread_mutex_lock(&store->pool.mu);
            break;
        } else {
            wait_free(store, use->op->deadline);
        }
    }
    bool doubt = code == 0 && store->pool.was_lost;
    if (doubt)
        store->pool.was_lost = false;
    pthread_mutex_unlock(&store->pool.mu);
    if (doubt && store->host.doubt)
        store->host.doubt(store->host.ctx, HF_EUNAVAIL,
                          "a connection broke; a new one stands");
    return code;
}

int sql_begin(sql_use *use, hf_store *store, hf_op *op)
{
    *use = (sql_use){.store = store, .op = op};
    op->sent = 0;
    op->error = (hf_error){.code = 0};
    op->remaining = 0;
    op->store_us = 0;
    int code = borrow_conn(use);
    if (code != 0)
        use->end = SQL_BROKEN;
    return code;
}

static void give_back(sql_use *use)
{
    hf_store *store = use->store;
    sql_conn *conn = use->conn;

    use->conn = NULL;
    if (!conn || use->lent)
        return;
    conn->used = hfd_now();
    pthread_mutex_lock(&store->pool.mu);
    conn->next = store->pool.idle;
    store->pool.idle = conn;
    ring_free(store);
    pthread_mutex_unlock(&store->pool.mu);
}

void sql_end_use(sql_use *use)
{
    give_back(use);
    sql_rows_done(&use->rows);
}

/* ---- Running ------------------------------------------------------------ */

static sql_end run_once(sql_use *use, const sql_text *text, const char *said,
                        const char *const *params)
{
    hf_store *store = use->store;
    const sql_port_class *class = store->port->class;
    hf_nsec deadline = use->op->deadline, sent = hfd_now();
    bool writes = !text || text->writes;
    sql_end end =
        said ? class->say(use->conn, said, deadline, &use->rows, &use->err)
             : class->run(use->conn, text, params, deadline, &use->rows, &sent,
                          &use->err);

    if (use->op->sent == 0)
        use->op->sent = sent;
    if (end == SQL_DONE && use->rows.failed) {
        hfd_error(&use->err, HF_ENOMEM, class->driver, 0,
                  "out of memory for an answer of the database");
        end = SQL_REFUSED;
        use->wrote = use->wrote || writes;
    }
    if ((end == SQL_DONE || end == SQL_LOST) && writes)
        use->wrote = true;
    if (end == SQL_BROKEN || end == SQL_LOST) {
        if (!use->lent)
            drop_conn(store, use->conn);
        use->conn = NULL;
    }
    return end;
}

/* Before the next attempt at a row that others fight for; false: too late. */
static bool pause_clash(sql_use *use, unsigned round)
{
    uint64_t most = UINT64_C(2) << (round < 4 ? round : 4);
    hf_nsec pause = HF_MS(1) / 2 + HF_MS(1) / 4 * (hf_nsec)random_below(most);
    struct timespec span = {.tv_nsec = (long)pause};

    if (hfd_now() + pause >= use->op->deadline)
        return false;
    ppoll(NULL, 0, &span, NULL);
    return true;
}

static bool run_any(sql_use *use, const sql_text *text, const char *said,
                    const char *const *params)
{
    bool once = use->once, again = true;

    use->once = false;
    for (unsigned round = 0; use->conn; round++) {
        use->end = run_once(use, text, said, params);
        if (use->end == SQL_BROKEN && !use->lent && again) {
            /* This statement was not done, those before it stand by
             * themselves: the next connection may be a good one. */
            again = false;
            if (borrow_conn(use) != 0)
                return false;
            continue;
        }
        if (use->end != SQL_CLASH || once || !pause_clash(use, round))
            break;
    }
    if (use->end == SQL_CLASH && !once && use->err.code == 0)
        hfd_error(&use->err, HF_EUNAVAIL, use->store->port->class->driver, 0,
                  "the row was in use by others until the deadline");
    return use->conn && use->end == SQL_DONE;
}

bool sql_run_text(sql_use *use, const sql_text *text, const char *const *params)
{
    return run_any(use, text, NULL, params);
}

bool sql_run(sql_use *use, sql_id id, const char *const *params)
{
    return run_any(use, &use->store->texts[id], NULL, params);
}

bool sql_say(sql_use *use, const char *text)
{
    return run_any(use, NULL, text, NULL);
}

/* ---- Finishing ---------------------------------------------------------- */

void sql_fail(sql_use *use)
{
    hf_op *op = use->op;
    bool wrote = use->wrote;
    int code = use->err.code ? use->err.code : HF_EUNAVAIL;

    op->error = use->err;
    sql_end_use(use);
    hfd_finish(op, wrote ? HF_UNKNOWN : HF_NOT_APPLIED, code);
}

void sql_finish(sql_use *use, int code)
{
    hf_op *op = use->op;

    sql_end_use(use);
    hfd_finish(op, HF_APPLIED, code);
}

void sql_refuse(sql_use *use, int code, const char *format, ...)
{
    char text[200];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    hfd_error(&use->op->error, code, use->store->port->class->driver, 0, "%s",
              text);
    sql_finish(use, code);
}
