/* format_held_session.c - sessions of a store whose locks are connections'.
 *
 * A session is a record of this process.  Its renewal asks each vessel that
 * holds something of it one question: the answer shows that the connection
 * stands, so that the lock is ours, and begins the server's count of silence
 * anew.  A vessel that does not answer is reset, and what it held is lost for
 * certain; nothing is unknown.
 *
 * Nobody can take such a lock away: an operator ends the connection, and with
 * it all that it holds.  Others' locks have no names in the database, or only
 * numbers: a listing shows our own, and those. */
#include "format_held.h"

/* ---- Attach ------------------------------------------------------------- */

/* Any question to the server, by a connection of the pool. */
static bool ask_server(sql_use *use, hf_store *store, hf_op *op)
{
    return sql_begin(use, store, op) == 0 && sql_say(use, "SELECT 1");
}

void sql_held_attach(hf_store *store, hf_op *op)
{
    sql_table *table = &sql_held_of(store)->table;
    sql_member *member;
    sql_use use;

    if (op->ttl <= 0) {
        hfd_finish(op, HF_NOT_APPLIED, HF_EINVAL);
        return;
    }
    if (!ask_server(&use, store, op)) {
        sql_fail(&use);
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
    sql_end_use(&use);
    if (member)
        hfd_finish(op, HF_APPLIED, 0);
    else
        hfd_finish(op, HF_NOT_APPLIED, HF_ENOMEM);
}

/* ---- Renew -------------------------------------------------------------- */

/* The vessel of a place, asked a moment ago or now.  With io held; false: it is
 * lost.  A moment counts as now, so that a renewal of very many that was cut
 * short by its deadline goes on where the last one ended. */
static bool ask_vessel(sql_held *held, sql_vessel *vessel, const hf_op *op)
{
    hf_nsec now = hfd_now();

    if (vessel->renewed + op->ttl / 6 >= now && vessel->limit_ms > 0 &&
        vessel->limit_ms >= op->ttl / HF_MS(1))
        return true;
    if (!sql_vessel_limit(held, vessel, op->ttl, op->deadline) ||
        !sql_held_say(vessel->conn, "SELECT 1", op->deadline, NULL, NULL))
        return false;
    vessel->renewed = now;
    return true;
}

static void renew_place(sql_held *held, hf_op *op, hf_place *place)
{
    sql_vessel *vessel = sql_vessel_of(held, &place->rid);
    sql_record *record;
    bool good = false;

    if (vessel) {
        good = ask_vessel(held, vessel, op);
        if (!good)
            sql_vessel_lose(held, vessel);
    }
    pthread_mutex_lock(&held->table.mu);
    record = sql_record_find(&held->table, &place->rid);
    if (good && record && record->vessel == vessel &&
        record->state == FORMAT_GRANTED) {
        record->ends = vessel->renewed + op->ttl;
        place->verdict = HF_GRANTED;
        place->reason = 0;
        place->remaining = record->ends - op->sent;
        if (place->remaining > op->ttl)
            place->remaining = op->ttl;
    } else {
        sql_place_gone(place, HF_EEXPIRED);
        if (record)
            record->news = false; /* this answer tells it */
    }
    pthread_mutex_unlock(&held->table.mu);
    if (vessel)
        sql_vessel_put(held, vessel);
}

void sql_held_renew(hf_store *store, hf_op *op)
{
    sql_held *held = sql_held_of(store);
    sql_table *table = &held->table;
    sql_member *member;
    sql_use use;

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
    if (op->place_count == 0) {
        if (!ask_server(&use, store, op)) {
            sql_fail(&use);
            return;
        }
        sql_end_use(&use);
    } else {
        op->sent = hfd_now();
    }
    for (size_t i = 0; i < op->place_count; i++) {
        /* A connection that is asked too late would be given up, and its hold
         * with it: those that are left stand as they are. */
        if (i > 0 && hfd_now() >= op->deadline) {
            hfd_error(&op->error, HF_EUNAVAIL, store->port->class->driver, 0,
                      "only %zu of %zu holds could be renewed in time", i,
                      op->place_count);
            hfd_finish(op, HF_UNKNOWN, HF_EUNAVAIL);
            return;
        }
        renew_place(held, op, op->places[i]);
    }
    pthread_mutex_lock(&table->mu);
    member = sql_member_of(table, &op->sid);
    if (member)
        sql_member_renewed(member, op);
    pthread_mutex_unlock(&table->mu);
    sql_note_remaining(table, op);
    hfd_finish(op, HF_APPLIED, 0);
}

/* ---- Detach ------------------------------------------------------------- */

typedef struct of_session {
    sql_table *table;
    const hf_id *sid;
    hf_nsec now;
    bool any;
} of_session;

/* What is held is overdue now; the rest goes. */
static void end_record(sql_record *record, void *user)
{
    of_session *s = user;

    if (memcmp(&record->sid, s->sid, sizeof *s->sid) != 0 ||
        record->state == FORMAT_KEPT)
        return;
    if (record->vessel) {
        record->state = FORMAT_KEPT;
        record->ends = s->now;
        record->leaving = true;
        s->any = true;
    } else {
        sql_record_drop(s->table, record);
    }
}

void sql_held_detach(hf_store *store, hf_op *op)
{
    sql_held *held = sql_held_of(store);
    of_session s = {.table = &held->table, .sid = &op->sid, .now = hfd_now()};

    op->sent = s.now;
    pthread_mutex_lock(&held->table.mu);
    sql_each_record(&held->table, end_record, &s);
    sql_member_drop(&held->table, &op->sid);
    pthread_mutex_unlock(&held->table.mu);
    if (s.any)
        sql_vessel_sweep(held, false);
    hfd_finish(op, HF_APPLIED, 0);
}

/* ---- Operators ---------------------------------------------------------- */

bool sql_held_has(sql_held *held, const char *lock)
{
    bool has = false;

    pthread_mutex_lock(&held->table.mu);
    for (const sql_record *at = sql_record_of_lock(&held->table, lock, NULL);
         at && !has; at = sql_record_of_lock(&held->table, lock, at))
        has = at->vessel != NULL;
    pthread_mutex_unlock(&held->table.mu);
    return has;
}

/* What others hold, where the database says so. */
static bool list_others(sql_held *held, hf_op *op, sql_listing *list)
{
    sql_use use;

    if (op->only_mine || !held->kind->others) {
        op->sent = hfd_now();
        return true;
    }
    if (sql_begin(&use, held->store, op) != 0 ||
        !held->kind->others(held, &use, list)) {
        op->emit_row = NULL;
        sql_list_emit(list, op);
        sql_fail(&use);
        return false;
    }
    sql_end_use(&use);
    return true;
}

void sql_held_list(hf_store *store, hf_op *op)
{
    sql_held *held = sql_held_of(store);
    sql_listing list = {.count = 0};
    const sql_member *member;
    bool failed;

    pthread_mutex_lock(&held->table.mu);
    member = sql_member_of(&held->table, &op->sid);
    if (member)
        memcpy(list.name, member->name, sizeof list.name);
    pthread_mutex_unlock(&held->table.mu);
    if (!list_others(held, op, &list))
        return;
    sql_list_records(&list, &held->table, op, op->only_mine);
    failed = list.failed;
    if (failed)
        op->emit_row = NULL;
    sql_list_emit(&list, op);
    if (failed)
        hfd_finish(op, HF_NOT_APPLIED, HF_ENOMEM);
    else
        hfd_finish(op, HF_APPLIED, 0);
}

/* ---- The store ---------------------------------------------------------- */

sql_held *sql_held_new(hf_store *store, const sql_held_kind *kind,
                       hf_error *err)
{
    sql_held *held = hfd_alloc(sizeof *held);

    if (!held) {
        hfd_error(err, HF_ENOMEM, store->port->class->driver, 0,
                  "out of memory");
        return NULL;
    }
    held->kind = kind;
    held->store = store;
    held->bell = -1;
    sql_table_init(&held->table);
    store->format_data = held;
    return held;
}

void sql_held_close(hf_store *store)
{
    sql_held *held = sql_held_of(store);

    if (!held)
        return;
    sql_watch_stop(held);
    sql_vessel_sweep(held, true);
    sql_table_done(&held->table);
    hfd_free(held);
    store->format_data = NULL;
}

void sql_held_abandon(hf_store *store)
{
    sql_held *held = sql_held_of(store);

    for (sql_vessel *at = held ? held->vessels : NULL; at; at = at->next) {
        if (at->conn)
            store->port->class->abandon(at->conn);
    }
}

void sql_held_start(hf_store *store, hf_op *op)
{
    op->outcome = HF_UNKNOWN;
    op->error.code = 0;
    op->sent = 0;
    op->remaining = 0;
    op->store_us = 0;
    op->count = 0;
    switch (op->kind) {
    case HF_OP_ATTACH:
        sql_held_attach(store, op);
        break;
    case HF_OP_RENEW:
        sql_held_renew(store, op);
        break;
    case HF_OP_DETACH:
        sql_held_detach(store, op);
        break;
    case HF_OP_JOIN:
        sql_held_join(store, op);
        break;
    case HF_OP_LEAVE:
        sql_held_leave(store, op);
        break;
    case HF_OP_RECHECK:
        sql_held_recheck(store, op);
        break;
    case HF_OP_LIST:
        sql_held_list(store, op);
        break;
    case HF_OP_EVICT:
        sql_peer_refuse(store, op, HF_ENOTSUP,
                        "such a lock is its connection's: end that one, and "
                        "all that it holds");
        break;
    case HF_OP_CONFIRM: /* a place that has no lease: what it is */
        op->places = &op->place;
        op->place_count = 1;
        sql_held_recheck(store, op);
        break;
    case HF_OP_PROBE:
    case HF_OP_PUBLISH:
    default:
        sql_peer_refuse(store, op, HF_ENOTSUP,
                        "locks of this format have no room for a value");
        break;
    }
}
