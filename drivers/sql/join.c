/* join.c - a place at the tail of a queue, by one statement.
 *
 * JOIN appends the entry's text to the row and draws its number in the same
 * UPDATE, so that a number is never seen later than a larger one.  It does so
 * only if the session lives, the kind is the same, and the rid is neither in
 * the queue nor in a tomb: when it did nothing, a look says why, and then it is
 * answered or tried again.  A try has the rule in its own WHERE.
 *
 * Reply lost: repeated by rid, the same place is found.  Paused after the
 * UPDATE: the entry stands, and goes with its session.  Two of us here: the row
 * lock orders us, and each reads what it has written.  The row was purged: the
 * first insert makes it again, behind the floor; a clash there means that
 * somebody else was faster, and JOIN finds the row. */
#include <stdio.h>
#include <string.h>

#include "native.h"

typedef struct joining {
    sql_use use;
    hf_op *op;
    hf_place *place;
    sql_queue queue;
    bool fresh; /* this operation appended it */
    sql_id statement;
    char hex[SQL_HEX_MAX];
    char run[SQL_NUMBER_MAX], places[SQL_NUMBER_MAX], kind[SQL_KIND_MAX];
    char before[SQL_ENTRY_MAX], behind[SQL_ENTRY_MAX];
    char rid[SQL_ID_LEN + 1], sid[SQL_ID_LEN + 1];
    const char *params[8];
} joining;

static bool is_sound(const hf_op *op)
{
    const hf_place *place = op->place;

    return place->key_len > 0 && place->key_len <= HF_KEY_MAX &&
           op->value_len <= HF_VALUE_MAX && place->mode <= HF_PERMIT &&
           (place->mode != HF_PERMIT || place->places > 0) && place->lease >= 0;
}

static void write_params(joining *j)
{
    static const sql_id tries[] = {[HF_EXCLUSIVE] = SQL_TRY_X,
                                   [HF_SHARED] = SQL_TRY_S,
                                   [HF_PERMIT] = SQL_TRY_P};
    hf_place *place = j->place;
    sql_entry entry;

    place->own[0] = 0;
    place->own[1] = (place->own[1] & (HF_PLACE_PUSH | SQL_OWN_VALUE)) |
                    ((uint64_t)sql_about_now(j->use.store) & SQL_OWN_BORN);
    entry = sql_entry_of(j->op, place);
    place->run = entry.run;
    sql_hex(place->key, place->key_len, j->hex);
    sql_number_text(entry.run, j->run);
    sql_number_text(entry.places, j->places);
    if (place->mode == HF_PERMIT)
        snprintf(j->kind, sizeof j->kind, "P%u", place->places);
    else
        memcpy(j->kind, "L", 2);
    sql_entry_before(&entry, j->before);
    sql_entry_behind(&entry, j->behind);
    sql_id_text(&entry.rid, j->rid);
    sql_id_text(&entry.sid, j->sid);
    j->statement = j->op->only_if_granted ? tries[place->mode] : SQL_JOIN;
    memcpy(j->params,
           ((const char *const[]){j->hex, j->run, j->kind, j->before, j->behind,
                                  j->rid, j->sid, j->places}),
           sizeof j->params);
}

/* ---- Answering ---------------------------------------------------------- */

/* Granted by its own request: the fixed lease runs from here. */
static bool start_lease(joining *j)
{
    hf_place *place = j->place;
    sql_entry entry = sql_entry_of(j->op, place);
    char old[SQL_ENTRY_MAX], before[SQL_ENTRY_MAX], behind[SQL_ENTRY_MAX];
    char number[SQL_NUMBER_MAX];
    const char *params[] = {j->hex, old, before, number, behind};
    sql_change change;

    sql_entry_text(&entry, old);
    sql_entry_around(&entry, SQL_EXP, before, behind);
    sql_number_text(entry.lease_ms * 1000, number);
    change = sql_queue_change(&j->use, SQL_CHANGE, params, &j->queue);
    if (change == SQL_FAILED)
        return false;
    /* Untouched: broken in this very moment; the next look says so. */
    place->remaining = change == SQL_UNTOUCHED ? 0 : place->lease;
    return true;
}

static void finish_joining(joining *j, bool answered)
{
    if (answered)
        sql_note_crowd(j->use.store, j->place,
                       j->place->verdict != HF_GRANTED || j->queue.n > 1);
    sql_queue_done(&j->queue);
    /* Refused, gone, or there already and counted when it came. */
    if (answered &&
        (j->op->error.code != 0 || j->place->verdict == HF_GONE || !j->fresh))
        sql_standing_add(sql_native_of(j->use.store), &j->op->sid, -1);
    if (answered)
        sql_finish(&j->use, j->op->error.code);
    else
        sql_fail(&j->use);
}

static void refuse(joining *j, int code, const char *text)
{
    hfd_error(&j->op->error, code, j->use.store->port->class->driver, 0, "%s",
              text);
}

/* A try whose place would be granted, were it not for the quarantine. */
static bool take_back(joining *j)
{
    sql_entry entry = sql_entry_of(j->op, j->place);
    char text[SQL_ENTRY_MAX];

    sql_entry_text(&entry, text);
    if (!sql_cut(&j->use, j->hex, text, strlen(text)))
        return false;
    refuse(j, HF_EQUARANTINE,
           "this store may be another one than before: nobody is granted "
           "until every lease of before is over");
    return true;
}

/* The entry is in the queue, appended now or before. */
static bool answer_joined(joining *j)
{
    hf_place *place = j->place;
    bool listens_now = false;

    if (!sql_answer(&j->use, j->hex, &j->queue, place))
        return false;
    if (place->verdict == HF_WAITS && j->op->only_if_granted)
        return take_back(j);
    if (place->verdict == HF_WAITS)
        sql_native_listen(&j->use, &listens_now);
    /* Whoever left before we listened has told nobody. */
    if (listens_now &&
        (!j->use.conn || !sql_queue_look(&j->use, j->hex, &j->queue) ||
         !sql_answer(&j->use, j->hex, &j->queue, place)))
        return false;
    if (place->verdict == HF_GRANTED && place->lease > 0 && j->fresh &&
        place->remaining == 0 && !start_lease(j))
        return false;
    if (place->verdict != HF_GONE && j->op->value_len > 0)
        return sql_set_value(&j->use, place, j->op->value, j->op->value_len);
    return true;
}

/* What the statement that appended it answered. */
static bool answer_fresh(joining *j)
{
    j->fresh = true;
    j->place->own[0] = j->queue.counter - j->place->run + 1;
    return answer_joined(j);
}

/* ---- Why it was not appended -------------------------------------------- */

typedef enum step { AGAIN, DONE, FAILED } step;

/* AGAIN, unless our session is over. */
static step check_session(joining *j)
{
    bool alive = true;

    if (!sql_own_session(&j->use, &alive, NULL))
        return FAILED;
    if (alive)
        return AGAIN;
    refuse(j, HF_EEXPIRED, "the session's lease ran out");
    return DONE;
}

/* The first entry of its key: 0 rows mean that the session is over. */
static step join_first(joining *j)
{
    j->use.once = true;
    switch (sql_queue_change(&j->use, SQL_FIRST, j->params, &j->queue)) {
    case SQL_FAILED:
        return j->use.end == SQL_CLASH ? AGAIN : FAILED;
    case SQL_CHANGED:
        return answer_fresh(j) ? DONE : FAILED;
    case SQL_PERHAPS:
        return AGAIN;
    default:
        break;
    }
    return check_session(j);
}

/* Somebody stands in the way: but does he live? */
static step join_against(joining *j, int code)
{
    const hf_place *place = j->place;
    int64_t left_us = INT64_MAX;

    if (!sql_drop_dead(&j->use, j->hex, &j->queue, code == HF_EKIND, NULL,
                       &left_us))
        return FAILED;
    code = sql_try(j->queue.entries, j->queue.n, (hf_mode)place->mode,
                   place->places);
    if (code == 0 || (code == HF_EBUSY && !j->op->only_if_granted))
        return AGAIN;
    j->place->look_in = left_us == INT64_MAX || code == HF_EKIND ? 0
                        : left_us <= 0                           ? 1
                                       : left_us * 1000;
    if (code == HF_EKIND)
        refuse(j, HF_EKIND,
               "the key is in use as another kind of lock, or with another "
               "number of places");
    else
        refuse(j, HF_EBUSY, "held by another");
    return DONE;
}

static step find_out_why(joining *j)
{
    sql_native_data *data = sql_native_of(j->use.store);
    const hf_place *place = j->place;
    int code;

    if (!sql_queue_look(&j->use, j->hex, &j->queue))
        return FAILED;
    if (!j->queue.there)
        return join_first(j);
    if (sql_seen_left(data, &j->op->sid) == 0) {
        step next = check_session(j);

        if (next != AGAIN)
            return next;
    }
    if (sql_find(j->queue.entries, j->queue.n, &place->rid) < j->queue.n)
        return answer_joined(j) ? DONE : FAILED;
    if (strstr(j->queue.tombs, j->rid)) {
        sql_answer_gone(j->place, HF_ENOTHELD);
        return DONE;
    }
    code = sql_try(j->queue.entries, j->queue.n, (hf_mode)place->mode,
                   place->places);
    if (code == HF_EKIND || (code == HF_EBUSY && j->op->only_if_granted))
        return join_against(j, code);
    /* Nothing is in the way: it went in this moment, or our row is not there,
     * whatever was left of it when we saw it. */
    return check_session(j);
}

/* AGAIN: others are there, or our session is not.  A key that nobody has used
 * before has no row, which a look tells more cheaply than a JOIN in vain. */
static step join_alone(joining *j)
{
    if (!sql_seems_alone(j->use.store, j->place))
        return AGAIN;
    switch (sql_take_alone(&j->use, j->place, j->hex, j->kind, &j->queue)) {
    case SQL_FAILED:
        return FAILED;
    case SQL_CHANGED:
        return answer_fresh(j) ? DONE : FAILED;
    default:
        break;
    }
    if (!sql_queue_look(&j->use, j->hex, &j->queue))
        return FAILED;
    return j->queue.there ? AGAIN : join_first(j);
}

static step join_once(joining *j)
{
    switch (sql_queue_change(&j->use, j->statement, j->params, &j->queue)) {
    case SQL_FAILED:
        return FAILED;
    case SQL_CHANGED:
        return answer_fresh(j) ? DONE : FAILED;
    default:
        return find_out_why(j);
    }
}

void sql_native_join(hf_store *store, hf_op *op)
{
    joining j = {.op = op, .place = op->place};
    step next;

    if (!is_sound(op)) {
        hfd_error(&op->error, HF_EINVAL, store->port->class->driver, 0,
                  "the place to join with is malformed");
        hfd_finish(op, HF_NOT_APPLIED, HF_EINVAL);
        return;
    }
    op->place->look_in = op->place->remaining = 0;
    if (sql_begin(&j.use, store, op) != 0 ||
        sql_check_lease(&j.use, op->place->lease) != 0) {
        sql_fail(&j.use);
        return;
    }
    write_params(&j);
    sql_standing_add(sql_native_of(store), &op->sid, 1);
    next = join_alone(&j);
    for (unsigned i = 0; next == AGAIN && i < SQL_ROUNDS; i++)
        next = join_once(&j);
    if (next == AGAIN)
        hfd_error(&j.use.err, HF_EUNAVAIL, store->port->class->driver, 0,
                  "the queue changed too often to join it");
    finish_joining(&j, next == DONE);
}
