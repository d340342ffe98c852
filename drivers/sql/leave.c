/* leave.c - a place out of its queue, by one statement.
 *
 * What stands in the queue is known from the join (number, birth, session), so
 * LEAVE cuts exactly that text out, while the session lives, and answers the
 * queue that is left: what the place was, and whose turn it is now, follow from
 * the order.  Where the text is not there (a lease was confirmed, somebody
 * broke it, the session is over, or it is gone) the queue is read, the entry
 * found by its rid, and cut as it is.
 *
 * A tomb is written before anything is cut: a join of this rid that is still on
 * its way finds one or the other.  keep: the text is changed to a closed entry
 * with an end of its own; nobody is told, since nobody is due.
 *
 * Reply lost: asked again it is gone, and the live session without news says
 * that we did it.  Paused between the cut and the telling: the next in line
 * looks by the clock.  Two of us here: one cuts, the other finds nothing. */
#include <string.h>

#include "native.h"

typedef struct leaving {
    sql_use use;
    hf_op *op;
    hf_place *place;
    sql_queue queue;
    char hex[SQL_HEX_MAX];
} leaving;

typedef enum step { AGAIN, DONE, FAILED } step;

/* ---- After the cut ------------------------------------------------------ */

/* Can the head of the queue say what `left` was, and who is due? */
static bool is_enough(const sql_queue *queue, const sql_entry *left)
{
    size_t held = sql_held(queue->entries, queue->n);

    if (queue->whole)
        return true;
    return queue->n > 0 && held < queue->n &&
           (left->mode == HF_EXCLUSIVE ||
            left->num < queue->entries[queue->n - 1].num);
}

/* `left` was cut out, and the queue is what was left then; told: the statement
 * itself has told an exclusive next. */
static bool pass_on(leaving *l, const sql_entry *left, bool told)
{
    sql_queue *queue = &l->queue;
    bool held;

    if (!is_enough(queue, left) && !sql_queue_look(&l->use, l->hex, queue))
        return false;
    held = sql_held_among(queue->entries, queue->n, left);
    l->place->verdict = held ? HF_GRANTED : HF_WAITS;
    l->place->reason = 0;
    if (sql_same_id(&left->sid, &l->op->sid))
        sql_standing_add(sql_native_of(l->use.store), &left->sid, -1);
    if (!told)
        sql_wake_after(&l->use, queue, left);
    return true;
}

/* Nobody asks for the value of who left; if this fails it is tidied away. */
static void drop_value(leaving *l)
{
    char rid[SQL_ID_LEN + 1];
    const char *params[] = {rid};

    if (!(l->place->own[1] & SQL_OWN_VALUE) || !l->use.conn)
        return;
    sql_id_text(&l->place->rid, rid);
    if (sql_run(&l->use, SQL_VALUE_DROP, params))
        l->place->own[1] &= ~SQL_OWN_VALUE;
}

/* ---- The ways ----------------------------------------------------------- */

static bool write_tomb(leaving *l)
{
    char text[2 * SQL_ID_LEN + 3];
    const char *params[] = {l->hex, text};

    sql_id_text(&l->place->rid, text);
    text[SQL_ID_LEN] = '.';
    sql_id_text(&l->op->sid, text + SQL_ID_LEN + 1);
    memcpy(text + 2 * SQL_ID_LEN + 1, ";", 2);
    for (unsigned i = 0; i < SQL_ROUNDS; i++) {
        if (!sql_run(&l->use, SQL_TOMB, params))
            return false;
        if (l->use.rows.affected > 0)
            break;
        /* No row, or it has the tomb already. */
        if (!sql_queue_look(&l->use, l->hex, &l->queue))
            return false;
        if (l->queue.there && strstr(l->queue.tombs, text))
            break;
        l->use.once = true;
        if (!l->queue.there && !sql_run(&l->use, SQL_CREATE, params) &&
            l->use.end != SQL_CLASH)
            return false;
    }
    sql_standing_add(sql_native_of(l->use.store), &l->op->sid, 1);
    return true;
}

/* One statement, if all is as it was when we joined. */
static step cut_known(leaving *l)
{
    sql_entry entry = sql_entry_of(l->op, l->place);
    char text[SQL_ENTRY_MAX], sid[SQL_ID_LEN + 1];
    bool held = l->place->token != 0 && !l->use.store->strict, told;
    const char *params[] = {l->hex, text, held ? "y" : "n", sid};
    sql_change change;

    sql_entry_text(&entry, text);
    sql_id_text(&entry.sid, sid);
    change = sql_queue_change(&l->use, SQL_LEAVE, params, &l->queue);
    if (change == SQL_FAILED)
        return FAILED;
    if (change != SQL_CHANGED)
        return AGAIN;
    told = l->use.rows.cols == 4 && sql_cell(&l->use.rows, 0, 3);
    sql_note_crowd(l->use.store, l->place, l->queue.n > 0);
    return pass_on(l, &entry, told) ? DONE : FAILED;
}

/* The same, and shorter where nobody seems to wait behind. */
static step leave_known(leaving *l)
{
    sql_entry entry = sql_entry_of(l->op, l->place);
    sql_change change;

    if (!sql_seems_alone(l->use.store, l->place))
        return cut_known(l);
    change = sql_leave_alone(&l->use, l->hex, &entry, &l->queue);
    if (change == SQL_UNTOUCHED)
        return cut_known(l);
    return change == SQL_CHANGED && pass_on(l, &entry, false) ? DONE : FAILED;
}

/* It stays a while, nobody's. */
static step close_entry(leaving *l, const sql_entry *entry)
{
    sql_entry closed = *entry;
    char old[SQL_ENTRY_MAX], before[SQL_ENTRY_MAX], behind[SQL_ENTRY_MAX];
    char number[SQL_NUMBER_MAX];
    const char *params[] = {l->hex, old, before, number, behind};
    hf_nsec keep = l->op->keep;

    if (l->use.store->strict && keep > l->use.store->max_lease_us * 1000)
        keep = l->use.store->max_lease_us * 1000;
    memcpy(old, entry->text, entry->len);
    old[entry->len] = '\0';
    closed.closed = true;
    sql_entry_around(&closed, SQL_EXP, before, behind);
    sql_number_text(keep / 1000 + 1, number);
    switch (sql_queue_change(&l->use, SQL_CHANGE, params, &l->queue)) {
    case SQL_FAILED:
        return FAILED;
    case SQL_CHANGED:
        l->place->verdict = HF_GRANTED;
        l->place->reason = 0;
        return DONE;
    default:
        return AGAIN;
    }
}

/* Does the entry still live?  If not it is cut out here, as by anybody. */
static step check_alive(leaving *l, const sql_entry *entry)
{
    hf_place *place = l->place;
    bool over = sql_over(entry, l->queue.now_us), alive = false;
    hf_id sid = entry->sid;

    if (!over && sql_life_of(entry) == SQL_BY_TIME)
        return AGAIN;
    if (!over && sql_same_id(&sid, &l->op->sid) &&
        !sql_own_session(&l->use, &alive, NULL))
        return FAILED;
    if (alive)
        return AGAIN;
    sql_seen_forget(sql_native_of(l->use.store), &sid);
    if (!sql_drop_dead(&l->use, l->hex, &l->queue, true, NULL, NULL))
        return FAILED;
    if (sql_find(l->queue.entries, l->queue.n, &place->rid) < l->queue.n)
        return AGAIN;
    return sql_answer_why_gone(&l->use, place) ? DONE : FAILED;
}

/* Read, find, cut. */
static step leave_found(leaving *l)
{
    sql_queue *queue = &l->queue;
    hf_place *place = l->place;
    sql_entry entry;
    char text[SQL_ENTRY_MAX];
    const char *params[] = {l->hex, text};
    size_t me;
    step next;

    if (!sql_queue_look(&l->use, l->hex, queue))
        return FAILED;
    me = sql_find(queue->entries, queue->n, &place->rid);
    if (me == queue->n)
        return sql_answer_why_gone(&l->use, place) ? DONE : FAILED;
    if (queue->entries[me].closed) {
        sql_answer_gone(place, HF_ENOTHELD);
        return DONE;
    }
    next = check_alive(l, &queue->entries[me]);
    if (next != AGAIN)
        return next;
    me = sql_find(queue->entries, queue->n, &place->rid);
    entry = queue->entries[me];
    if (l->op->keep > 0 && entry.brk_us == 0 &&
        me < sql_held(queue->entries, queue->n))
        return close_entry(l, &entry);
    memcpy(text, entry.text, entry.len);
    text[entry.len] = '\0';
    switch (sql_queue_change(&l->use, SQL_CUT, params, queue)) {
    case SQL_FAILED:
        return FAILED;
    case SQL_UNTOUCHED:
        return AGAIN;
    default:
        return pass_on(l, &entry, false) ? DONE : FAILED;
    }
}

void sql_native_leave(hf_store *store, hf_op *op)
{
    leaving l = {.op = op, .place = op->place};
    step next = AGAIN;

    if (sql_begin(&l.use, store, op) != 0) {
        sql_fail(&l.use);
        return;
    }
    sql_hex(op->place->key, op->place->key_len, l.hex);
    if (op->tomb && !write_tomb(&l))
        next = FAILED;
    else if (op->place->own[0] != 0 && op->keep == 0)
        next = leave_known(&l);
    for (unsigned i = 0; next == AGAIN && i < SQL_ROUNDS; i++)
        next = leave_found(&l);
    sql_queue_done(&l.queue);
    if (next == AGAIN)
        hfd_error(&l.use.err, HF_EUNAVAIL, store->port->class->driver, 0,
                  "the queue changed too often to leave it");
    if (next != DONE) {
        sql_fail(&l.use);
        return;
    }
    drop_value(&l);
    op->place->look_in = op->place->remaining = 0;
    sql_finish(&l.use, 0);
}
