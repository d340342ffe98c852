/* recheck.c - where do these places stand?  Many in one statement.
 *
 * Backs every wake-up, so it must cost little when nothing changed: the heads
 * of all the queues are read at once, and sessions are asked for only when what
 * was seen of them is over (seen.c).  A place that is due now is answered as
 * granted, whoever should have told it.
 *
 * Two of us here, or paused: nothing is written but what dead.c does. */
#include <string.h>

#include "native.h"

/* The queue of this key among the answers of LOOK_MANY; false: failed. */
static bool take_answer(sql_use *use, const sql_rows *heads, const char *hex,
                        sql_queue *queue)
{
    sql_rows own = use->rows;
    bool done = true;

    sql_queue_done(queue);
    queue->whole = true;
    for (size_t row = 0; row < heads->rows; row++) {
        const char *key = sql_cell(heads, row, 0);

        if (!key || strcmp(key, hex) != 0)
            continue;
        use->rows = *heads;
        done = sql_queue_take(use, queue, row, 0);
        use->rows = own;
        queue->counter = 0;
        queue->now_us = sql_instant(heads, row, 3);
        break;
    }
    return done;
}

/* One answer of LOOK_MANY, for these places, whose keys were asked for. */
static bool answer_places(sql_use *use, hf_place *const *places, size_t n,
                          char hexes[][SQL_HEX_MAX])
{
    sql_rows heads = use->rows;
    sql_queue queue = {.there = false};
    const char *have = NULL; /* whose queue that is */
    bool done = true;

    use->rows = (sql_rows){.rows = 0};
    if (heads.rows > 0)
        use->op->store_us =
            use->store->observer ? 0 : sql_instant(&heads, 0, 3);
    for (size_t i = 0; done && i < n; i++) {
        if (!have || strcmp(have, hexes[i]) != 0)
            done = take_answer(use, &heads, hexes[i], &queue);
        have = hexes[i];
        done = done && sql_answer(use, hexes[i], &queue, places[i]);
    }
    sql_queue_done(&queue);
    sql_rows_done(&heads);
    return done;
}

static bool recheck_some(sql_use *use, hf_place *const *places, size_t n,
                         char hexes[][SQL_HEX_MAX])
{
    const char *params[SQL_MANY];

    for (size_t i = 0; i < n; i++)
        sql_hex(places[i]->key, places[i]->key_len, hexes[i]);
    for (size_t i = 0; i < SQL_MANY; i++)
        params[i] = hexes[i < n ? i : n - 1];
    return sql_run(use, SQL_LOOK_MANY, params) &&
           answer_places(use, places, n, hexes);
}

/* Somebody still waits here; granted: somebody else does not any more. */
static bool find_waiting(const hf_op *op, bool *ret_granted)
{
    bool waits = false;

    *ret_granted = false;
    for (size_t i = 0; i < op->place_count; i++) {
        waits = waits || op->places[i]->verdict == HF_WAITS;
        if (op->places[i]->verdict == HF_GRANTED)
            *ret_granted = true;
    }
    return waits;
}

static bool recheck_all(sql_use *use, char hexes[][SQL_HEX_MAX])
{
    hf_op *op = use->op;

    for (size_t at = 0; at < op->place_count; at += SQL_MANY) {
        size_t n = op->place_count - at;

        if (!recheck_some(use, op->places + at, n < SQL_MANY ? n : SQL_MANY,
                          hexes))
            return false;
    }
    return true;
}

void sql_native_recheck(hf_store *store, hf_op *op)
{
    char(*hexes)[SQL_HEX_MAX] = hfd_alloc(SQL_MANY * sizeof *hexes);
    bool now = false, granted = false, done;
    sql_use use;

    if (sql_begin(&use, store, op) != 0 || !hexes) {
        if (use.err.code == 0)
            hfd_error(&use.err, HF_ENOMEM, store->port->class->driver, 0,
                      "out of memory");
        hfd_free(hexes);
        sql_fail(&use);
        return;
    }
    op->sent = hfd_now(); /* also where there is nothing to ask for */
    done = recheck_all(&use, hexes);
    if (done && find_waiting(op, &granted)) {
        sql_native_listen(&use, &now);
        /* Whoever left before we listened has told nobody. */
        if (now)
            done = use.conn && recheck_all(&use, hexes);
        if (atomic_load(&store->deaf))
            sql_poll_soon(store, granted);
    }
    hfd_free(hexes);
    if (done)
        sql_finish(&use, 0);
    else
        sql_fail(&use);
}
