/* native.c - the format with queues, sessions and tokens of our own.
 *
 * Spreads the operations over the files beside it, and hears what is rung for
 * this session.  The listener is opened when the first place has to wait, so a
 * lock that is free costs one connection; what was told before it listened is
 * found by the look that follows.  A listener that was lost is opened again by
 * the next who waits or looks; until then waiters look by the clock.
 *
 * What is told is passed on as it came: the core believes a grant only for an
 * entry that waits in this very session, while the lease is good.  In a strict
 * store a ring means "look", never "granted". */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "native.h"

/* ---- Small helpers ------------------------------------------------------ */

bool sql_same_id(const hf_id *a, const hf_id *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

void sql_hex(const void *bytes, size_t len, char *ret)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *at = bytes;

    for (size_t i = 0; i < len; i++) {
        *ret++ = digits[at[i] >> 4];
        *ret++ = digits[at[i] & 15];
    }
    *ret = '\0';
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

size_t sql_unhex(const char *hex, void *ret, size_t room)
{
    uint8_t *to = ret;
    size_t n = 0;

    while (n < room && digit_of(hex[0]) >= 0 && digit_of(hex[1]) >= 0) {
        to[n++] = (uint8_t)(digit_of(hex[0]) << 4 | digit_of(hex[1]));
        hex += 2;
    }
    return n;
}

const char *sql_number_text(int64_t n, char ret[SQL_NUMBER_MAX])
{
    snprintf(ret, SQL_NUMBER_MAX, "%lld", (long long)n);
    return ret;
}

int64_t sql_about_now(const hf_store *store)
{
    (void)store;
    return hfd_realtime_us();
}

/* ---- Being told --------------------------------------------------------- */

static void native_told(void *arg, const char *rid, uint64_t num, uint32_t run)
{
    hf_store *store = arg;
    hf_place fresh = {.verdict = HF_GRANTED,
                      .num = num,
                      .token = num,
                      .run = run > 0 ? run : 1};

    if (!rid || !sql_id_from(rid, strlen(rid), &fresh.rid))
        store->host.changed(store->host.ctx, NULL, NULL);
    else if (num == SQL_TAKEN)
        store->host.news(store->host.ctx, &fresh.rid, HF_EFORCED);
    else
        store->host.changed(store->host.ctx, &fresh.rid,
                            num == 0 || store->strict ? NULL : &fresh);
}

static void native_deaf(void *arg, const hf_error *why)
{
    hf_store *store = arg;
    sql_native_data *data = sql_native_of(store);

    pthread_mutex_lock(&data->mu);
    data->listens = false;
    data->lost_ears++;
    atomic_store(&store->deaf, true);
    pthread_mutex_unlock(&data->mu);
    hfd_log(HF_LOG_INFO, "%s: the listener was lost: %s",
            store->port->class->driver, why->text);
    /* What was told meanwhile is looked for, and whoever looks listens anew. */
    sql_poll_soon(store, true);
}

/* Said once: it is a state, not an event. */
static void say_deaf(hf_store *store, const hf_error *why)
{
    sql_native_data *data = sql_native_of(store);

    if (!atomic_exchange(&data->said_deaf, true))
        hfd_log(HF_LOG_WARN,
                "%s: nobody can ring here (%s): waiters look by the clock, "
                "every 20 to 500 ms",
                store->port->class->driver, why->text);
    atomic_store(&store->deaf, true);
    sql_poll_soon(store, true);
}

void sql_native_listen(sql_use *use, bool *ret_now)
{
    hf_store *store = use->store;
    sql_native_data *data = sql_native_of(store);
    char sid[SQL_ID_LEN + 1], bell[SQL_BELL_MAX] = "";
    const char *params[] = {sid, bell};
    hf_error why = {.code = 0};
    unsigned lost_ears;
    bool listens, known;

    *ret_now = false;
    if (!store->may_listen || !use->conn)
        return;
    pthread_mutex_lock(&data->mu);
    listens = data->listens && sql_same_id(&data->listens_to, &use->op->sid);
    lost_ears = data->lost_ears;
    pthread_mutex_unlock(&data->mu);
    if (listens)
        return;
    sql_id_text(&use->op->sid, sid);
    if (store->port->class->listen(store->port, sid, use->op->deadline, bell,
                                   &why) != 0) {
        say_deaf(store, &why);
        return;
    }
    known = bell[0] == '\0' || sql_run(use, SQL_BELL, params);
    if (!known)
        return; /* the next who waits says the address again */
    /* One that was lost meanwhile is none: a look is on its way, which listens
     * anew. */
    pthread_mutex_lock(&data->mu);
    if (data->lost_ears == lost_ears) {
        data->listens = true;
        data->listens_to = use->op->sid;
        memcpy(data->bell, bell, sizeof bell);
        atomic_store(&store->deaf, false);
        atomic_store(&data->said_deaf, false);
        *ret_now = true;
    }
    pthread_mutex_unlock(&data->mu);
}

/* ---- The format --------------------------------------------------------- */

static int render_texts(hf_store *store, hf_error *err)
{
    sql_dialect dialect = *store->port->dialect;

    if (!dialect.now)
        store->observer = true;
    if (store->observer)
        dialect.now = NULL;
    store->texts = hfd_alloc(SQL_COUNT * sizeof *store->texts);
    if (!store->texts)
        return hfd_error(err, HF_ENOMEM, store->port->class->driver, 0,
                         "out of memory");
    return sql_render(store->texts, &dialect, store->schema, store->prefix,
                      err);
}

static int native_open(hf_store *store, const hf_url *url, sql_conn *conn,
                       hf_error *err)
{
    sql_native_data *data = hfd_alloc(sizeof *data);
    hf_op op = {.deadline = hfd_now() + HF_MS(10000)};
    sql_use use = {.store = store, .op = &op, .conn = conn, .lent = true};
    int code;

    (void)url;
    if (!data)
        return hfd_error(err, HF_ENOMEM, store->port->class->driver, 0,
                         "out of memory");
    pthread_mutex_init(&data->mu, NULL);
    if (gethostname(data->host_name, sizeof data->host_name - 1) != 0)
        data->host_name[0] = '\0';
    store->format_data = data;
    store->port->told = native_told;
    store->port->deaf = native_deaf;
    code = render_texts(store, err);
    if (code == 0)
        code = sql_native_schema(&use, err);
    sql_end_use(&use);
    if (code != 0) {
        pthread_mutex_destroy(&data->mu);
        hfd_free(data);
        store->format_data = NULL;
    }
    return code;
}

static void native_close(hf_store *store)
{
    sql_native_data *data = sql_native_of(store);

    /* Nobody is told any more: what rings now finds no session. */
    if (store->port->class->unlisten)
        store->port->class->unlisten(store->port);
    pthread_mutex_destroy(&data->mu);
    hfd_free(data);
}

static void native_start(hf_store *store, hf_op *op)
{
    static void (*const run[])(hf_store *, hf_op *) = {
        [HF_OP_ATTACH] = sql_native_attach,   [HF_OP_RENEW] = sql_native_renew,
        [HF_OP_DETACH] = sql_native_detach,   [HF_OP_JOIN] = sql_native_join,
        [HF_OP_CONFIRM] = sql_native_confirm, [HF_OP_LEAVE] = sql_native_leave,
        [HF_OP_RECHECK] = sql_native_recheck, [HF_OP_LIST] = sql_native_list,
        [HF_OP_PUBLISH] = sql_native_publish, [HF_OP_EVICT] = sql_native_evict,
    };

    if ((size_t)op->kind < sizeof run / sizeof *run && run[op->kind]) {
        run[op->kind](store, op);
        return;
    }
    hfd_error(&op->error, HF_ENOTSUP, store->port->class->driver, 0,
              "an operation that is not known here");
    hfd_finish(op, HF_NOT_APPLIED, HF_ENOTSUP);
}

static const char *const native_options[] = {"strict", "max_lease_ms", "clock",
                                             "listen", NULL};

const sql_format sql_native = {
    .name = "native",
    /* Not HF_CAP_LINEARIZABLE: what a crash or a failover of this database
     * forgets cannot be seen from here. */
    .caps = HF_CAP_FIFO | HF_CAP_TOKEN | HF_CAP_PUSH | HF_CAP_SHARED |
            HF_CAP_PERMIT | HF_CAP_FIXED_LEASE | HF_CAP_VALUE | HF_CAP_BREAK |
            HF_CAP_MARKS | HF_CAP_RUN | HF_CAP_BLOCKING | HF_CAP_CLOCK,
    .options = native_options,
    .open = native_open,
    .close = native_close,
    .start = native_start,
};
