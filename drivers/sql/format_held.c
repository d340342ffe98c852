/* format_held.c - a lock of a connection: take it, look again, give it back.
 *
 * The server answers a take at once, yes or no, and forgets the lock with the
 * connection.  So there are no strays and no unknown outcomes: an attempt whose
 * answer is missing is ended by resetting its connection, and took nothing.
 *
 * Two of us here: the database lets a connection take the same lock twice, so
 * all takes of a vessel go one by one, each looks first whether this store has
 * the lock already, under whatever key.  Paused here: the server ends a silent
 * vessel after a lease; what is answered counts from the instant before the
 * statement was sent.  Reply of a leave lost: the connection is reset, the lock
 * is free, and the owner is told that it may have been so before. */
#include "format_held.h"

bool sql_held_say(sql_conn *conn, const char *text, hf_nsec deadline,
                  sql_rows *rows, hf_error *err)
{
    sql_rows none = {0};
    hf_error why = {.code = 0};
    sql_end end =
        conn->port->class->say(conn, text, deadline, rows ? rows : &none, &why);

    sql_rows_done(&none);
    if (end != SQL_DONE && err)
        *err = why;
    return end == SQL_DONE;
}

/* ---- Taking ------------------------------------------------------------- */

typedef enum entry { OVER, NO_MEMORY, DEAD, HAS, TAKES } entry;

/* What a join of this place may do. */
static entry enter(sql_held *held, hf_op *op, const char *lock)
{
    sql_table *table = &held->table;
    const sql_member *member;
    sql_record *record;
    entry ret = TAKES;

    pthread_mutex_lock(&table->mu);
    member = sql_member_of(table, &op->sid);
    record = sql_record_find(table, &op->place->rid);
    if (!member) {
        ret = OVER;
    } else if (record &&
               (record->state == FORMAT_TOMB || record->state == FORMAT_KEPT)) {
        ret = DEAD;
    } else {
        op->ttl = member->ttl;
        if (!record)
            record = sql_record_add(table, op->place, &op->sid, lock);
        if (!record)
            ret = NO_MEMORY;
        else if (record->state == FORMAT_GRANTED)
            ret = HAS;
    }
    pthread_mutex_unlock(&table->mu);
    return ret;
}

/* May it be asked for: nothing of this store has it.  With io held. */
static bool is_open(sql_held *held, const hf_place *place, const char *lock)
{
    const sql_record *record;
    bool is_free;

    pthread_mutex_lock(&held->table.mu);
    record = sql_record_find(&held->table, &place->rid);
    is_free = record && !record->leaving && record->state != FORMAT_TOMB;
    for (const sql_record *at = sql_record_of_lock(&held->table, lock, NULL);
         at && is_free; at = sql_record_of_lock(&held->table, lock, at)) {
        if (at->vessel && (at->mode != HF_SHARED || place->mode != HF_SHARED))
            is_free = false;
    }
    pthread_mutex_unlock(&held->table.mu);
    return is_free;
}

/* It is the vessel's now: the record's too, unless it left meanwhile. */
static bool enter_hold(sql_held *held, sql_vessel *vessel,
                       const hf_place *place, hf_nsec ends)
{
    sql_record *record;
    bool wanted;

    pthread_mutex_lock(&held->table.mu);
    record = sql_record_find(&held->table, &place->rid);
    wanted = record && !record->leaving && record->state != FORMAT_TOMB;
    if (wanted) {
        record->vessel = vessel;
        vessel->users++;
        record->ends = ends;
        record->news = false;
    }
    pthread_mutex_unlock(&held->table.mu);
    return wanted;
}

/* Try once; false: a connection failed, and *err. */
static bool try_take(sql_held *held, hf_op *op, const hf_place *place,
                     const char *lock, bool *ret_got, hf_error *err)
{
    bool shared = place->mode == HF_SHARED, was, good = true;
    sql_vessel *vessel = sql_vessel_get(held, op->deadline, err);
    hf_nsec began = hfd_now();

    *ret_got = false;
    if (op->sent == 0)
        op->sent = began;
    if (!vessel)
        return false;
    if (is_open(held, place, lock)) {
        if (!sql_vessel_limit(held, vessel, op->ttl, op->deadline)) {
            hfd_error(err, HF_EUNAVAIL, held->store->port->class->driver, 0,
                      "a connection was lost before it took a lock");
            good = false;
        } else {
            began = hfd_now();
            good = held->kind->take(held, vessel->conn, lock, shared,
                                    op->deadline, ret_got, err);
            vessel->renewed = began;
        }
        if (good && *ret_got &&
            !enter_hold(held, vessel, place, began + op->ttl)) {
            *ret_got = false;
            good = held->kind->give(held, vessel->conn, lock, shared,
                                    op->deadline, &was);
        }
        if (!good)
            sql_vessel_lose(held, vessel);
    }
    sql_vessel_put(held, vessel);
    if (*ret_got)
        sql_watch_soon(held);
    return good;
}

/* ---- Answers ------------------------------------------------------------ */

/* From the record; 0, or why a join is refused. */
static int answer(sql_held *held, hf_op *op, hf_place *place)
{
    sql_record *record;
    int code = 0;

    pthread_mutex_lock(&held->table.mu);
    record = sql_record_find(&held->table, &place->rid);
    if (!record || record->leaving || record->state == FORMAT_TOMB ||
        record->state == FORMAT_KEPT) {
        sql_place_gone(place, HF_ENOTHELD);
    } else if (record->vessel) {
        hf_nsec left = record->ends - op->sent;

        sql_place_granted(op, place, record, left < op->ttl ? left : op->ttl);
    } else if (record->state == FORMAT_GRANTED) {
        sql_place_gone(place, HF_EEXPIRED); /* a hold that is over */
    } else {
        sql_place_waits(op, place, record, 0);
        if (op->kind == HF_OP_JOIN && op->only_if_granted) {
            code = HF_EBUSY;
            sql_record_drop(&held->table, record);
        }
    }
    pthread_mutex_unlock(&held->table.mu);
    return code;
}

/* A connection failed, and with it what it held: nothing was done. */
static void fail(hf_op *op, const hf_error *why)
{
    op->error = *why;
    hfd_finish(op, HF_NOT_APPLIED, why->code ? why->code : HF_EUNAVAIL);
}

static void run_join(sql_held *held, hf_op *op, const char *lock, bool takes)
{
    hf_error why = {.code = 0};
    sql_record *record;
    bool got;
    int code;

    if (takes && !try_take(held, op, op->place, lock, &got, &why)) {
        pthread_mutex_lock(&held->table.mu);
        record = sql_record_find(&held->table, &op->place->rid);
        if (record && record->state == FORMAT_NEW && !record->vessel)
            sql_record_drop(&held->table, record);
        pthread_mutex_unlock(&held->table.mu);
        fail(op, &why);
        return;
    }
    if (op->sent == 0)
        op->sent = hfd_now();
    code = answer(held, op, op->place);
    sql_note_remaining(&held->table, op);
    if (code)
        sql_peer_refuse(held->store, op, code, "held by another");
    else
        hfd_finish(op, HF_APPLIED, 0);
}

void sql_held_join(hf_store *store, hf_op *op)
{
    sql_held *held = sql_held_of(store);
    hf_place *place = op->place;
    bool known = place->mode == HF_EXCLUSIVE ||
                 (place->mode == HF_SHARED && held->kind->shared);
    char lock[SQL_LOCK_MAX];
    entry how;

    if (place->key_len == 0 || place->key_len > HF_KEY_MAX ||
        place->lease < 0) {
        hfd_finish(op, HF_NOT_APPLIED, HF_EINVAL);
        return;
    }
    if (!known || place->lease > 0) {
        sql_peer_refuse(store, op, HF_ENOTSUP,
                        "locks of this format have no permits and no leases "
                        "of their own, and not all have shared ones");
        return;
    }
    if (!held->kind->name(held, place->key, place->key_len, lock)) {
        sql_peer_refuse(store, op, HF_EINVAL,
                        "the key has no name by the rule of this format");
        return;
    }
    how = enter(held, op, lock);
    if (how == OVER) {
        sql_peer_refuse(store, op, HF_EEXPIRED, "the session is over");
    } else if (how == NO_MEMORY) {
        hfd_finish(op, HF_NOT_APPLIED, HF_ENOMEM);
    } else if (how == DEAD) {
        op->sent = hfd_now();
        sql_place_gone(place, HF_ENOTHELD);
        hfd_finish(op, HF_APPLIED, 0);
    } else {
        run_join(held, op, lock, how == TAKES);
    }
}

/* Does this place still wait, and may it take? */
static bool is_waiting(sql_held *held, hf_op *op, const hf_place *place)
{
    const sql_member *member;
    const sql_record *record;
    bool waits;

    pthread_mutex_lock(&held->table.mu);
    member = sql_member_of(&held->table, &op->sid);
    record = sql_record_find(&held->table, &place->rid);
    if (member)
        op->ttl = member->ttl;
    waits = member && record && !record->leaving &&
            (record->state == FORMAT_NEW || record->state == FORMAT_WAITS);
    pthread_mutex_unlock(&held->table.mu);
    return waits;
}

void sql_held_recheck(hf_store *store, hf_op *op)
{
    sql_held *held = sql_held_of(store);
    hf_error why = {.code = 0};
    bool got;

    for (size_t i = 0; i < op->place_count; i++) {
        hf_place *place = op->places[i];
        char lock[SQL_LOCK_MAX];

        if (is_waiting(held, op, place) &&
            held->kind->name(held, place->key, place->key_len, lock) &&
            !try_take(held, op, place, lock, &got, &why)) {
            fail(op, &why);
            return;
        }
        if (op->sent == 0)
            op->sent = hfd_now();
        answer(held, op, place);
    }
    if (op->sent == 0)
        op->sent = hfd_now();
    sql_note_remaining(&held->table, op);
    hfd_finish(op, HF_APPLIED, 0);
}

/* ---- Leave -------------------------------------------------------------- */

/* No look may take it from now on; false: no memory for a tomb. */
static bool begin_leave(sql_held *held, hf_op *op)
{
    sql_table *table = &held->table;
    sql_record *record;
    bool good = true;

    pthread_mutex_lock(&table->mu);
    record = sql_record_find(table, &op->place->rid);
    if (!record && op->tomb) {
        record = sql_record_add(table, op->place, &op->sid, NULL);
        good = record != NULL;
    }
    if (record)
        record->leaving = true;
    pthread_mutex_unlock(&table->mu);
    return good;
}

/* Given back, or kept for a while; with io held.  false: it was lost. */
static bool give_back(sql_held *held, hf_op *op, sql_vessel *vessel)
{
    const hf_place *place = op->place;
    hf_nsec now = hfd_now();
    char lock[SQL_LOCK_MAX];
    sql_record *record;
    bool was = false;

    op->sent = now;
    if (op->keep > 0) {
        if (!sql_vessel_limit(held, vessel, op->keep, op->deadline))
            return false;
        pthread_mutex_lock(&held->table.mu);
        record = sql_record_find(&held->table, &place->rid);
        if (record) {
            record->state = FORMAT_KEPT;
            record->ends = now + op->keep;
        }
        pthread_mutex_unlock(&held->table.mu);
        return record != NULL;
    }
    if (!held->kind->name(held, place->key, place->key_len, lock) ||
        !held->kind->give(held, vessel->conn, lock, place->mode == HF_SHARED,
                          op->deadline, &was))
        return false;
    vessel->renewed = now;
    pthread_mutex_lock(&held->table.mu);
    record = sql_record_find(&held->table, &place->rid);
    if (record && record->vessel == vessel) {
        record->vessel = NULL;
        vessel->users--;
    }
    pthread_mutex_unlock(&held->table.mu);
    return was;
}

static void answer_leave(sql_held *held, hf_op *op, bool gave)
{
    hf_place *place = op->place;
    sql_record *record;

    pthread_mutex_lock(&held->table.mu);
    record = sql_record_find(&held->table, &place->rid);
    if (gave) {
        place->verdict = HF_GRANTED;
        place->reason = 0;
    } else if (record && record->state == FORMAT_WAITS) {
        place->verdict = HF_WAITS;
        place->reason = 0;
    } else {
        sql_place_gone(place, record && record->state == FORMAT_GRANTED
                                  ? HF_EEXPIRED
                                  : HF_ENOTHELD);
    }
    if (record && record->state != FORMAT_KEPT) {
        if (op->tomb)
            record->state = FORMAT_TOMB;
        else
            sql_record_drop(&held->table, record);
    }
    pthread_mutex_unlock(&held->table.mu);
}

void sql_held_leave(hf_store *store, hf_op *op)
{
    sql_held *held = sql_held_of(store);
    const sql_record *record;
    sql_vessel *vessel = NULL;
    bool gave = false, kept;

    if (!begin_leave(held, op)) {
        hfd_finish(op, HF_NOT_APPLIED, HF_ENOMEM);
        return;
    }
    pthread_mutex_lock(&held->table.mu);
    record = sql_record_find(&held->table, &op->place->rid);
    kept = record && record->state == FORMAT_KEPT;
    pthread_mutex_unlock(&held->table.mu);
    if (!kept)
        vessel = sql_vessel_of(held, &op->place->rid);
    if (vessel) {
        gave = give_back(held, op, vessel);
        if (!gave)
            sql_vessel_lose(held, vessel);
    }
    if (op->sent == 0)
        op->sent = hfd_now();
    answer_leave(held, op, gave);
    if (vessel)
        sql_vessel_put(held, vessel);
    sql_note_remaining(&held->table, op);
    hfd_finish(op, HF_APPLIED, 0);
}
