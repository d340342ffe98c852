/* queue.c - a queue as it was read, and who is to be told that it moved.
 *
 * Answers of statements become a sql_queue here.  Knows nothing of operations;
 * what the order means is judge.c's.
 *
 * Why an old reading is good enough: entries are only appended at the tail and
 * cut out by their exact text, so whoever stood first in a reading stands first
 * until it leaves, and a reading can only show too many ahead of somebody.  So
 * a database that does not answer what an UPDATE wrote is simply asked again.
 *
 * A wake-up that is lost (we die before it, the listener is not there) costs
 * until the waiter's timed look, never more. */
#include <stdlib.h>
#include <string.h>

#include "native.h"

enum { WAKES = 32 }; /* told in one go */

void sql_queue_done(sql_queue *queue)
{
    hfd_free(queue->entries);
    hfd_free(queue->body);
    hfd_free(queue->tombs);
    *queue = (sql_queue){.there = false};
}

static bool fail_memory(sql_use *use)
{
    hfd_error(&use->err, HF_ENOMEM, use->store->port->class->driver, 0,
              "out of memory for a queue");
    return false;
}

static char *copy_text(const char *text, size_t len)
{
    char *copy = hfd_alloc(len + 1);

    if (copy)
        memcpy(copy, text, len);
    return copy;
}

/* The entries of a body, of which `length` characters were written. */
static bool read_body(sql_use *use, sql_queue *queue, const char *body,
                      int64_t length)
{
    size_t len = strlen(body);
    ssize_t n;

    queue->there = true;
    queue->whole = (int64_t)len >= length;
    queue->body = copy_text(body, len);
    if (!queue->body)
        return fail_memory(use);
    n = sql_body_read(queue->body, queue->whole, &queue->entries);
    if (n == -2)
        return fail_memory(use);
    if (n < 0) {
        hfd_error(&use->err, HF_EPROTO, use->store->port->class->driver, 0,
                  "a queue in '%s' was not written by holdfast: another "
                  "program uses these tables; choose another prefix=",
                  use->store->port->where);
        return false;
    }
    queue->n = (size_t)n;
    return true;
}

bool sql_queue_take(sql_use *use, sql_queue *queue, size_t row, size_t first)
{
    const char *body = sql_cell(&use->rows, row, first + 1);

    sql_queue_done(queue);
    queue->counter = (uint64_t)sql_number(&use->rows, row, first, 0);
    return read_body(use, queue, body ? body : "",
                     sql_number(&use->rows, row, first + 2, 0));
}

bool sql_queue_assume(sql_use *use, sql_queue *queue, uint64_t counter,
                      const char *body)
{
    sql_queue_done(queue);
    queue->counter = counter;
    return read_body(use, queue, body, 0);
}

bool sql_queue_look(sql_use *use, const char *hex, sql_queue *queue)
{
    const char *params[] = {hex};
    const char *kind, *tombs;

    if (!sql_run(use, SQL_LOOK, params))
        return false;
    if (use->rows.rows == 0) {
        sql_queue_done(queue);
        queue->whole = true;
        return true;
    }
    if (!sql_queue_take(use, queue, 0, 0))
        return false;
    kind = sql_cell(&use->rows, 0, 3);
    tombs = sql_cell(&use->rows, 0, 4);
    if (kind && strlen(kind) < sizeof queue->kind)
        memcpy(queue->kind, kind, strlen(kind) + 1);
    queue->tombs = copy_text(tombs ? tombs : "", tombs ? strlen(tombs) : 0);
    queue->now_us = sql_instant(&use->rows, 0, 5);
    queue->late = true;
    return queue->tombs || fail_memory(use);
}

bool sql_queue_whole(sql_use *use, const char *hex, sql_queue *queue)
{
    return queue->whole || sql_queue_look(use, hex, queue);
}

sql_change sql_queue_change(sql_use *use, sql_id id, const char *const *params,
                            sql_queue *queue)
{
    int64_t affected;

    if (!sql_run(use, id, params))
        return SQL_FAILED;
    if (use->rows.rows > 0)
        return sql_queue_take(use, queue, 0, 0) ? SQL_CHANGED : SQL_FAILED;
    affected = use->rows.affected;
    if (affected == 0 || (affected < 0 && use->store->port->dialect->returning))
        return SQL_UNTOUCHED;
    if (!sql_queue_look(use, params[0], queue))
        return SQL_FAILED;
    return affected > 0 ? SQL_CHANGED : SQL_PERHAPS;
}

/* ---- Telling ------------------------------------------------------------ */

/* One of our own: no need to ask the database to tell us. */
static void tell_here(const hf_store *store, const sql_entry *entry)
{
    hf_place fresh = {.rid = entry->rid,
                      .mode = (uint8_t)entry->mode,
                      .places = entry->places,
                      .run = entry->run,
                      .verdict = HF_GRANTED,
                      .num = entry->num,
                      .token = entry->num};

    store->host.changed(store->host.ctx, &entry->rid,
                        store->strict ? NULL : &fresh);
}

static void send_wakes(sql_use *use, const sql_wake *wakes, size_t n)
{
    const sql_port_class *class = use->store->port->class;

    if (n > 0 && use->conn && class->wake)
        class->wake(use->conn, wakes, n, use->op->deadline);
}

void sql_wake_due(sql_use *use, const sql_queue *queue, uint64_t until,
                  const hf_id *but)
{
    const hf_store *store = use->store;
    sql_wake wakes[WAKES];
    size_t n = 0, first = 0;
    size_t due = sql_due(queue->entries, queue->n, until, &first);

    for (size_t i = first; i < first + due; i++) {
        const sql_entry *entry = &queue->entries[i];

        if (entry->closed || (but && sql_same_id(&entry->rid, but)))
            continue;
        if (sql_same_id(&entry->sid, &use->op->sid)) {
            if (use->op->kind != HF_OP_DETACH)
                tell_here(store, entry);
            continue;
        }
        sql_id_text(&entry->sid, wakes[n].sid);
        sql_id_text(&entry->rid, wakes[n].rid);
        wakes[n].num = store->strict ? 0 : entry->num;
        wakes[n].run = store->strict ? 0 : entry->run;
        if (++n == WAKES) {
            send_wakes(use, wakes, n);
            n = 0;
        }
    }
    send_wakes(use, wakes, n);
}

void sql_wake_after(sql_use *use, const sql_queue *queue, const sql_entry *left)
{
    sql_wake_due(use, queue,
                 queue->late
                     ? sql_held_until_then(queue->entries, queue->n, left)
                     : sql_held_until(queue->entries, queue->n, left),
                 NULL);
}
