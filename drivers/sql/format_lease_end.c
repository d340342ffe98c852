/* format_lease_end.c - rows with an end: extend one, give it back.
 *
 * Both are one statement that names its owner and demands that the row has not
 * expired, so that a lock which went to another is never touched and its former
 * owner is told that it was lost.
 *
 * Reply lost: a leave that finds nothing after one without an answer takes that
 * one for the cause; a row keeps no trace of an expiry by which the two could
 * be told apart.  What `keep` leaves behind is written as another owner: a
 * leave repeated does not find it.  Two of us here: a look that takes the lock
 * while its place is left finds the mark of the leave, and gives it back. */
#include "format.h"

/* Begin: the session's lease, and whether there is a record. */
static bool know_place(sql_peer *peer, hf_op *op)
{
    const sql_member *member;
    bool known;

    pthread_mutex_lock(&peer->table.mu);
    member = sql_member_of(&peer->table, &op->sid);
    if (member)
        op->ttl = member->ttl;
    known = sql_record_find(&peer->table, &op->place->rid) != NULL;
    pthread_mutex_unlock(&peer->table.mu);
    return known;
}

/* ---- Confirm ------------------------------------------------------------ */

static void answer_confirm(sql_run_of *run, const sql_sight *sight)
{
    sql_table *table = &run->peer->table;
    hf_op *op = run->use.op;
    sql_record *record;

    pthread_mutex_lock(&table->mu);
    record = sql_record_find(table, &op->place->rid);
    if (record && sight->found == FOUND_MINE) {
        sql_place_granted(op, op->place, record, sight->left);
    } else if (record && record->state == FORMAT_WAITS) {
        op->place->verdict = HF_WAITS;
        op->place->reason = 0;
    } else {
        sql_place_gone(op->place, record ? HF_EEXPIRED : HF_ENOTHELD);
    }
    pthread_mutex_unlock(&table->mu);
}

void sql_peer_confirm(hf_store *store, hf_op *op)
{
    sql_run_of run = {.peer = sql_peer_of(store)};
    hf_place *place = op->place;
    sql_sight sight;
    sql_item item;

    if (!know_place(run.peer, op) ||
        !sql_item_of(run.peer, &place->rid, place->key, place->key_len,
                     &item)) {
        op->sent = hfd_now();
        sql_place_gone(place, HF_ENOTHELD);
        hfd_finish(op, HF_APPLIED, 0);
        return;
    }
    /* What has no lease of its own is extended by renewals. */
    if (sql_begin(&run.use, store, op) != 0 ||
        (place->lease > 0 &&
         !sql_step_run(&run, STEP_EXTEND, &item, 1, place->lease)) ||
        !sql_step_look(&run, &item, 1, &sight)) {
        sql_fail(&run.use);
        return;
    }
    answer_confirm(&run, &sight);
    sql_note_remaining(&run.peer->table, op);
    sql_finish(&run.use, 0);
}

/* ---- Leave -------------------------------------------------------------- */

/* No look may take it from now on.  A leave that says so, and one of a place
 * that may yet be taken, leaves a tomb. */
static bool begin_leave(sql_peer *peer, hf_op *op)
{
    sql_table *table = &peer->table;
    sql_record *record;
    bool good = true;

    pthread_mutex_lock(&table->mu);
    record = sql_record_find(table, &op->place->rid);
    if (record && record->state != FORMAT_GRANTED)
        op->keep = 0;
    if (!record && op->tomb) {
        record = sql_record_add(table, op->place, &op->sid, NULL);
        good = record != NULL;
    }
    if (record)
        record->leaving = true;
    pthread_mutex_unlock(&table->mu);
    return good;
}

static void fail_leave(sql_run_of *run)
{
    sql_table *table = &run->peer->table;
    sql_record *record;

    pthread_mutex_lock(&table->mu);
    record = sql_record_find(table, &run->use.op->place->rid);
    if (record && run->use.wrote)
        record->left = true;
    else if (record)
        record->leaving = record->left;
    pthread_mutex_unlock(&table->mu);
    sql_fail(&run->use);
}

/* What it was, and what stays of it here. */
static void answer_leave(sql_run_of *run, bool dropped)
{
    sql_table *table = &run->peer->table;
    hf_op *op = run->use.op;
    hf_place *place = op->place;
    sql_record *record;

    pthread_mutex_lock(&table->mu);
    record = sql_record_find(table, &place->rid);
    if (dropped) {
        place->verdict = HF_GRANTED;
        place->reason = 0;
    } else if (record && record->state == FORMAT_WAITS) {
        place->verdict = HF_WAITS;
        place->reason = 0;
    } else {
        /* Gone after a leave without an answer: that one did it. */
        bool held = record && record->state == FORMAT_GRANTED && !record->left;

        sql_place_gone(place, held ? HF_EEXPIRED : HF_ENOTHELD);
    }
    if (record && (op->tomb || record->stray || record->asking > 0)) {
        record->state = FORMAT_TOMB;
        record->fixed = false;
    } else if (record) {
        sql_record_drop(table, record);
    }
    pthread_mutex_unlock(&table->mu);
}

void sql_peer_leave(hf_store *store, hf_op *op)
{
    sql_run_of run = {.peer = sql_peer_of(store)};
    hf_place *place = op->place;
    sql_item item;
    bool dropped;

    if (!sql_item_of(run.peer, &place->rid, place->key, place->key_len,
                     &item)) {
        op->sent = hfd_now();
        sql_place_gone(place, HF_ENOTHELD);
        hfd_finish(op, HF_APPLIED, 0);
        return;
    }
    if (!begin_leave(run.peer, op)) {
        hfd_finish(op, HF_NOT_APPLIED, HF_ENOMEM);
        return;
    }
    if (sql_begin(&run.use, store, op) != 0 ||
        !sql_step_run(&run, op->keep > 0 ? STEP_KEEP : STEP_DROP, &item, 1,
                      op->keep > 0 ? op->keep : 0)) {
        fail_leave(&run);
        return;
    }
    dropped = run.use.rows.affected == 1;
    answer_leave(&run, dropped);
    /* An expired row of ours is of no use to anybody; whether it goes now or
     * with the next who wants it makes no difference to this leave. */
    if (!dropped && place->verdict == HF_GONE && place->reason == HF_EEXPIRED &&
        run.peer->texts[STEP_TIDY].text[0])
        sql_step_run(&run, STEP_TIDY, &item, 1, 0);
    sql_note_remaining(&run.peer->table, op);
    sql_finish(&run.use, 0);
}
