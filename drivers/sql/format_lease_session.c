/* format_lease_session.c - sessions of a store that has none, and its rows.
 *
 * A session is a record of this process: its lease is written as the end of
 * every lock that it takes, and a renewal extends those that the core still
 * believes in, each if it is still ours, sixteen with one statement.  There is
 * nothing in the store that could end a session; the core does, by its own
 * clock.  Each hold learns its own fate: one that was broken or ran out is
 * gone, the others stay.
 *
 * Detaching gives back what the table still knows; locks of fixed leases stay,
 * as promised.  What could not be given back is known still, and asked for by
 * the next detach.  Breaking a lock takes effect at once: there is no place for
 * a mark that the holder would read first; it learns of it by its renewal. */
#include "format.h"

#include <unistd.h>

/* ---- Attach ------------------------------------------------------------- */

/* The server's time; where it is our own clock that is written, that. */
static bool ask_clock(sql_run_of *run)
{
    if (!sql_step_run(run, STEP_CLOCK, NULL, 0, 0))
        return false;
    run->use.op->store_us = run->peer->kind->client_clock
                                ? hfd_realtime_us()
                                : sql_instant(&run->use.rows, 0, 0);
    return true;
}

void sql_peer_attach(hf_store *store, hf_op *op)
{
    sql_run_of run = {.peer = sql_peer_of(store)};
    sql_table *table = &run.peer->table;
    sql_member *member;

    if (op->ttl <= 0) {
        hfd_finish(op, HF_NOT_APPLIED, HF_EINVAL);
        return;
    }
    if (sql_begin(&run.use, store, op) != 0 || !ask_clock(&run)) {
        sql_fail(&run.use);
        return;
    }
    pthread_mutex_lock(&table->mu);
    member = sql_member_of(table, &op->sid);
    if (!member)
        member = sql_member_add(table, &op->sid);
    if (member) {
        size_t len = op->text_len < sizeof member->name
                         ? op->text_len
                         : sizeof member->name - 1;

        if (len > 0)
            memcpy(member->name, op->text, len);
        member->name[len] = '\0';
        sql_member_renewed(member, op);
    }
    pthread_mutex_unlock(&table->mu);
    sql_note_remaining(table, op);
    sql_end_use(&run.use);
    if (member)
        hfd_finish(op, HF_APPLIED, 0);
    else
        hfd_finish(op, HF_NOT_APPLIED, HF_ENOMEM);
}

/* ---- Batches of records ------------------------------------------------- */

typedef struct batch {
    sql_peer *peer;
    const hf_id *sid;
    bool strays; /* left, and perhaps taken since; else all of the session */
    size_t count;
    sql_item *items; /* SQL_PEER_MANY */
    hf_id rids[SQL_PEER_MANY];
} batch;

/* Does the store perhaps have something of it that must go? */
static void pick(sql_record *record, void *user)
{
    batch *b = user;
    bool held = record->state == FORMAT_GRANTED && !record->fixed;
    bool wanted = b->strays ? record->state == FORMAT_TOMB && record->stray
                            : held || record->stray;

    if (b->count == SQL_PEER_MANY || !wanted ||
        memcmp(&record->sid, b->sid, sizeof *b->sid) != 0)
        return;
    b->rids[b->count] = record->rid;
    if (sql_item_of(b->peer, &record->rid, record->key, record->key_len,
                    &b->items[b->count]))
        b->count++;
}

/* Given back: tombs stay tombs, the others go. */
static void forget_batch(sql_table *table, const batch *b)
{
    for (size_t i = 0; i < b->count; i++) {
        sql_record *record = sql_record_find(table, &b->rids[i]);

        if (record && record->state == FORMAT_TOMB)
            record->stray = false;
        else if (record)
            sql_record_drop(table, record);
    }
}

/* Give back all such records of the session; false: a statement failed. */
static bool drop_records(sql_run_of *run, const hf_id *sid, bool strays)
{
    sql_table *table = &run->peer->table;
    batch b = {.peer = run->peer, .sid = sid, .strays = strays};
    bool good = true;

    b.items = hfd_alloc(SQL_PEER_MANY * sizeof *b.items);
    if (!b.items) {
        hfd_error(&run->use.err, HF_ENOMEM, run->use.store->port->class->driver,
                  0, "out of memory");
        return false;
    }
    do {
        b.count = 0;
        pthread_mutex_lock(&table->mu);
        sql_each_record(table, pick, &b);
        pthread_mutex_unlock(&table->mu);
        if (b.count > 0)
            good = sql_step_run(run, STEP_DROP_MANY, b.items, b.count, 0);
        if (good) {
            pthread_mutex_lock(&table->mu);
            forget_batch(table, &b);
            pthread_mutex_unlock(&table->mu);
        }
    } while (good && b.count == SQL_PEER_MANY);
    hfd_free(b.items);
    return good;
}

/* ---- Renew -------------------------------------------------------------- */

static void answer_renewal(hf_place *place, const sql_sight *sight)
{
    if (sight->found == FOUND_MINE) {
        place->verdict = HF_GRANTED;
        place->reason = 0;
        place->remaining = sight->left;
    } else {
        sql_place_gone(place, HF_EEXPIRED);
    }
}

/* Places at .. at + n: extend those without a lease of their own, and see. */
static bool renew_batch(sql_run_of *run, size_t at, size_t n, sql_item *items)
{
    hf_op *op = run->use.op;
    hf_place *asked[SQL_PEER_MANY];
    sql_sight sights[SQL_PEER_MANY];
    size_t extended = 0, all = 0;

    for (int fixed = 0; fixed < 2; fixed++) {
        for (size_t i = at; i < at + n; i++) {
            hf_place *place = op->places[i];

            if ((place->lease > 0) != (fixed == 1))
                continue;
            if (sql_item_of(run->peer, &place->rid, place->key, place->key_len,
                            &items[all]))
                asked[all++] = place;
            else
                sql_place_gone(place, HF_ENOTHELD);
        }
        if (fixed == 0)
            extended = all;
    }
    if ((extended > 0 &&
         !sql_step_run(run, STEP_EXTEND_MANY, items, extended, op->ttl)) ||
        (all > 0 && !sql_step_look(run, items, all, sights)))
        return false;
    for (size_t i = 0; i < all; i++)
        answer_renewal(asked[i], &sights[i]);
    return true;
}

static bool renew_all(sql_run_of *run)
{
    hf_op *op = run->use.op;
    sql_item *items = hfd_alloc(SQL_PEER_MANY * sizeof *items);
    bool good = items != NULL;
    int64_t first;

    if (!good)
        hfd_error(&run->use.err, HF_ENOMEM, run->use.store->port->class->driver,
                  0, "out of memory");
    good = good && ask_clock(run);
    first = op->store_us; /* beside the instant of sending */
    for (size_t at = 0; at < op->place_count && good; at += SQL_PEER_MANY)
        good = renew_batch(run, at,
                           op->place_count - at < SQL_PEER_MANY
                               ? op->place_count - at
                               : SQL_PEER_MANY,
                           items);
    op->store_us = first;
    hfd_free(items);
    return good;
}

void sql_peer_renew(hf_store *store, hf_op *op)
{
    sql_run_of run = {.peer = sql_peer_of(store)};
    sql_table *table = &run.peer->table;
    sql_member *member;

    if (op->ttl <= 0) {
        hfd_finish(op, HF_NOT_APPLIED, HF_EINVAL);
        return;
    }
    pthread_mutex_lock(&table->mu);
    member = sql_member_of(table, &op->sid);
    pthread_mutex_unlock(&table->mu);
    if (!member) {
        sql_peer_refuse(store, op, HF_EEXPIRED, "the session is over");
        return;
    }
    if (sql_begin(&run.use, store, op) != 0 || !renew_all(&run)) {
        sql_fail(&run.use);
        return;
    }
    pthread_mutex_lock(&table->mu);
    member = sql_member_of(table, &op->sid);
    if (member)
        sql_member_renewed(member, op);
    pthread_mutex_unlock(&table->mu);
    sql_note_remaining(table, op);
    /* Beside the answer: if it fails, the next renewal does it. */
    if (!drop_records(&run, &op->sid, true))
        hfd_log(HF_LOG_WARN, "a lock that was given up is not given back yet");
    sql_finish(&run.use, 0);
}

/* ---- Detach ------------------------------------------------------------- */

typedef struct forget {
    sql_table *table;
    const hf_id *sid;
} forget;

static void forget_record(sql_record *record, void *user)
{
    const forget *f = user;

    if (memcmp(&record->sid, f->sid, sizeof *f->sid) == 0 && !record->fixed)
        sql_record_drop(f->table, record);
}

void sql_peer_detach(hf_store *store, hf_op *op)
{
    sql_run_of run = {.peer = sql_peer_of(store)};
    sql_table *table = &run.peer->table;
    forget f = {.table = table, .sid = &op->sid};

    if (sql_begin(&run.use, store, op) != 0 ||
        !drop_records(&run, &op->sid, false)) {
        sql_fail(&run.use);
        return;
    }
    pthread_mutex_lock(&table->mu);
    sql_each_record(table, forget_record, &f);
    sql_member_drop(table, &op->sid);
    pthread_mutex_unlock(&table->mu);
    if (op->sent == 0)
        op->sent = hfd_now();
    sql_finish(&run.use, 0);
}

/* ---- Operators ---------------------------------------------------------- */

/* A row of the table: whose it is, if it is one of ours. */
static void list_row(sql_run_of *run, sql_listing *list, size_t at)
{
    const sql_rows *rows = &run->use.rows;
    const char *key = sql_cell(rows, at, 0), *owner = sql_cell(rows, at, 1);
    sql_table *table = &run->peer->table;
    const sql_record *record = NULL;
    size_t key_len = key ? strlen(key) : 0;
    sql_listed *row;
    hf_id rid = {.bytes = {0}};
    bool kept = false;

    if (!key || !owner)
        return;
    if (!run->peer->kind->rid_of(run->peer, owner, &rid, &kept))
        rid = (hf_id){.bytes = {0}};
    pthread_mutex_lock(&table->mu);
    record = sql_record_find(table, &rid);
    if (record && run->peer->kind->hidden) {
        key = record->key;
        key_len = record->key_len;
    }
    row = sql_list_add(list, key, key_len, owner);
    if (row) {
        row->rid = rid;
        row->closed = kept;
        row->left_ms = sql_number(rows, at, 2, -1000) / 1000;
        if (record && !kept)
            sql_list_know(row, record, run->use.op);
    }
    pthread_mutex_unlock(&table->mu);
}

void sql_peer_list(hf_store *store, hf_op *op)
{
    sql_run_of run = {.peer = sql_peer_of(store)};
    sql_table *table = &run.peer->table;
    sql_listing list = {.count = 0};
    const sql_member *member;

    if (sql_begin(&run.use, store, op) != 0 ||
        !sql_step_run(&run, STEP_ALL, NULL, 0, 0)) {
        sql_fail(&run.use);
        return;
    }
    pthread_mutex_lock(&table->mu);
    member = sql_member_of(table, &op->sid);
    if (member)
        memcpy(list.name, member->name, sizeof list.name);
    pthread_mutex_unlock(&table->mu);
    if (op->only_mine)
        sql_list_records(&list, table, op, true);
    else
        for (size_t i = 0; i < run.use.rows.rows; i++)
            list_row(&run, &list, i);
    sql_end_use(&run.use);
    if (list.failed) {
        op->emit_row = NULL;
        sql_list_emit(&list, op);
        hfd_finish(op, HF_NOT_APPLIED, HF_ENOMEM);
        return;
    }
    sql_list_emit(&list, op);
    hfd_finish(op, HF_APPLIED, 0);
}

void sql_peer_evict(hf_store *store, hf_op *op)
{
    sql_run_of run = {.peer = sql_peer_of(store)};
    hf_id nobody = {.bytes = {0}};
    sql_item item;

    if (!sql_item_of(run.peer, &nobody, op->text, op->text_len, &item)) {
        op->sent = hfd_now();
        hfd_finish(op, HF_APPLIED, 0);
        return;
    }
    if (sql_begin(&run.use, store, op) != 0) {
        sql_fail(&run.use);
        return;
    }
    /* There are no tokens: none can be the one that is meant. */
    if (op->token == 0) {
        if (!sql_step_run(&run, STEP_BREAK, &item, 1, 0)) {
            sql_fail(&run.use);
            return;
        }
        op->count = run.use.rows.affected > 0 ? 1 : 0;
    }
    if (op->sent == 0)
        op->sent = hfd_now();
    sql_finish(&run.use, 0);
}
