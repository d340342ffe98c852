/* publish.c - what is done to a place that stands: confirm, publish.
 *
 * Confirm (re)starts a fixed lease: the entry's text is changed to one with its
 * end, counted by the server's clock from the statement on.  Only one that
 * holds is started, and only while its session lives or its lease still runs.
 * Reply lost: confirmed again, it ends a little later.
 *
 * A value is a row of its own, by rid: for people, never for deciding.  It may
 * outlive its entry by a crash; the tidying finds it then. */
#include <string.h>

#include "native.h"

/* ---- Values ------------------------------------------------------------- */

bool sql_set_value(sql_use *use, hf_place *place, const void *value, size_t len)
{
    char rid[SQL_ID_LEN + 1], hex[2 * HF_VALUE_MAX + 1];
    const char *params[] = {rid, hex};

    sql_id_text(&place->rid, rid);
    sql_hex(value, len, hex);
    if (len == 0) {
        place->own[1] &= ~SQL_OWN_VALUE;
        return sql_run(use, SQL_VALUE_DROP, params);
    }
    if (!(place->own[1] & SQL_OWN_VALUE)) {
        use->once = true;
        if (sql_run(use, SQL_VALUE_NEW, params)) {
            place->own[1] |= SQL_OWN_VALUE;
            return true;
        }
        if (use->end != SQL_CLASH)
            return false;
    }
    place->own[1] |= SQL_OWN_VALUE;
    return sql_run(use, SQL_VALUE_SET, params);
}

/* The entry of op's place, if it stands and is open; else the place is
 * answered as gone and *ret_me is queue->n. */
static bool find_open(sql_use *use, const char *hex, sql_queue *queue,
                      size_t *ret_me)
{
    hf_place *place = use->op->place;
    size_t me;
    bool alive = true;

    if (!sql_queue_look(use, hex, queue))
        return false;
    me = *ret_me = sql_find(queue->entries, queue->n, &place->rid);
    if (me == queue->n)
        return sql_answer_why_gone(use, place);
    if (queue->entries[me].closed) {
        sql_answer_gone(place, HF_ENOTHELD);
        *ret_me = queue->n;
        return true;
    }
    if (sql_over(&queue->entries[me], queue->now_us)) {
        sql_answer_gone(place, queue->entries[me].brk_us > 0 ? HF_EFORCED
                                                             : HF_EEXPIRED);
        *ret_me = queue->n;
        return true;
    }
    if (sql_life_of(&queue->entries[me]) == SQL_BY_SESSION &&
        !sql_own_session(use, &alive, NULL))
        return false;
    if (!alive) {
        sql_answer_gone(place, HF_EEXPIRED);
        *ret_me = queue->n;
    }
    return true;
}

static bool is_held(const sql_queue *queue, size_t me)
{
    return me < sql_held(queue->entries, queue->n);
}

void sql_native_publish(hf_store *store, hf_op *op)
{
    char hex[SQL_HEX_MAX];
    sql_queue queue = {.there = false};
    sql_use use;
    size_t me = 0;
    bool done;

    if (op->value_len > HF_VALUE_MAX) {
        hfd_error(&op->error, HF_EINVAL, store->port->class->driver, 0,
                  "a value has at most %d bytes", HF_VALUE_MAX);
        hfd_finish(op, HF_NOT_APPLIED, HF_EINVAL);
        return;
    }
    sql_hex(op->place->key, op->place->key_len, hex);
    done = sql_begin(&use, store, op) == 0 && find_open(&use, hex, &queue, &me);
    if (done && me < queue.n) {
        op->place->verdict = is_held(&queue, me) ? HF_GRANTED : HF_WAITS;
        op->place->reason = 0;
        done = sql_set_value(&use, op->place, op->value, op->value_len);
    }
    sql_queue_done(&queue);
    if (done)
        sql_finish(&use, 0);
    else
        sql_fail(&use);
}

/* ---- Confirm ------------------------------------------------------------ */

/* An observer sees that a lease was started anew by its text alone: it must
 * differ from the one before. */
static int64_t lease_us(const hf_store *store, const sql_entry *entry)
{
    int64_t lease = entry->lease_ms * 1000;
    uint16_t draw;

    if (!store->observer)
        return lease;
    hfd_random(&draw, sizeof draw);
    lease += draw % 500;
    return lease == entry->exp_us ? lease + 501 : lease;
}

typedef enum step { AGAIN, DONE, FAILED } step;

static step confirm_once(sql_use *use, const char *hex, sql_queue *queue)
{
    hf_place *place = use->op->place;
    char old[SQL_ENTRY_MAX], before[SQL_ENTRY_MAX], behind[SQL_ENTRY_MAX];
    char number[SQL_NUMBER_MAX];
    const char *params[] = {hex, old, before, number, behind};
    const sql_entry *entry;
    size_t me = 0;

    if (!find_open(use, hex, queue, &me))
        return FAILED;
    if (me == queue->n)
        return DONE;
    entry = &queue->entries[me];
    if (entry->brk_us > 0) {
        sql_answer_gone(place, HF_EFORCED);
        return DONE;
    }
    place->verdict = is_held(queue, me) ? HF_GRANTED : HF_WAITS;
    place->reason = 0;
    if (place->verdict == HF_WAITS || entry->lease_ms == 0)
        return DONE;
    place->num = place->token = entry->num;
    memcpy(old, entry->text, entry->len);
    old[entry->len] = '\0';
    sql_entry_around(entry, SQL_EXP, before, behind);
    sql_number_text(lease_us(use->store, entry), number);
    switch (sql_queue_change(use, SQL_CHANGE, params, queue)) {
    case SQL_FAILED:
        return FAILED;
    case SQL_UNTOUCHED:
        return AGAIN;
    default:
        place->remaining = place->lease;
        return DONE;
    }
}

void sql_native_confirm(hf_store *store, hf_op *op)
{
    char hex[SQL_HEX_MAX];
    sql_queue queue = {.there = false};
    sql_use use;
    step next = AGAIN;

    sql_hex(op->place->key, op->place->key_len, hex);
    if (sql_begin(&use, store, op) != 0)
        next = FAILED;
    for (unsigned i = 0; next == AGAIN && i < SQL_ROUNDS; i++)
        next = confirm_once(&use, hex, &queue);
    sql_queue_done(&queue);
    if (next == AGAIN)
        hfd_error(&use.err, HF_EUNAVAIL, store->port->class->driver, 0,
                  "the queue changed too often to confirm a place in it");
    if (next == DONE)
        sql_finish(&use, 0);
    else
        sql_fail(&use);
}
