/* format_lease.c - rows with an end: take one, or look again.
 *
 * A lock is one row, found by its key; who holds it and until when is written
 * in it, by statements that are each committed by themselves and each ask for
 * what they rely on: an insert that yields to an existing row, an update of a
 * row only if it has expired.  Nothing is decided on what was read before.
 *
 * Two of us here: the database lets one insert succeed, and one update find the
 * row expired.  Reply lost: an owner's text is made of its rid, so asking again
 * finds what is ours and does not lengthen it; the record is a stray, and its
 * leave is repeated by the next renewal.  Paused here: an end counts from the
 * instant before its statement was sent, or, where it is this machine's clock
 * that is written, from the instant at which that was read.
 *
 * A row of another owner is never changed unless it has expired by the very
 * rule of its library. */
#include "format.h"

#include <stdio.h>

bool sql_item_of(const sql_peer *peer, const hf_id *rid, const char *key,
                 size_t len, sql_item *ret)
{
    peer->kind->owner(peer, rid, false, ret->owner);
    if (peer->kind->hidden) {
        sql_spring_key(key, len, ret->key);
        return true;
    }
    if (!sql_is_name(key, len, peer->kind->key_most))
        return false;
    memcpy(ret->key, key, len);
    ret->key[len] = '\0';
    return true;
}

/* ---- One statement ------------------------------------------------------ */

/* What depends on the instant: an end `span` from now. */
static void put_times(sql_run_of *run, hf_nsec span)
{
    const sql_peer_kind *kind = run->peer->kind;
    int64_t us = span / 1000, seconds = (us + 999999) / 1000000;
    uint64_t chance;

    hfd_random(&chance, sizeof chance);
    snprintf(run->fresh, sizeof run->fresh, "%016llx",
             (unsigned long long)chance);
    run->wrote_at = hfd_now();
    if (kind->client_clock) {
        int64_t now = hfd_realtime_us();

        sql_time_text(now + us, run->times[0]);
        sql_time_text(now, run->times[1]);
    } else {
        snprintf(run->numbers[0], sizeof run->numbers[0], "%lld",
                 (long long)us);
    }
    snprintf(run->numbers[1], sizeof run->numbers[1], "%lld",
             (long long)(seconds < INT32_MAX ? seconds : INT32_MAX));
    run->params[0] = run->fresh;
    run->params[1] = kind->client_clock ? run->times[0] : run->numbers[0];
    run->params[2] = run->times[1];
    run->params[3] = run->numbers[1];
}

bool sql_step_run(sql_run_of *run, sql_step step, const sql_item *items,
                  size_t n, hf_nsec span)
{
    size_t many = step == STEP_LOOK_MANY || step == STEP_EXTEND_MANY ||
                          step == STEP_DROP_MANY
                      ? SQL_PEER_MANY
                      : 1;
    char kept[SQL_PEER_OWNER];
    hf_id rid;
    bool was_kept;

    put_times(run, span);
    for (size_t i = 0; i < many && n > 0; i++) {
        const sql_item *item = &items[i < n ? i : 0];

        run->params[SQL_PEER_FIXED + i] = item->key;
        run->params[SQL_PEER_FIXED + many + i] = item->owner;
    }
    if (step == STEP_KEEP &&
        run->peer->kind->rid_of(run->peer, items[0].owner, &rid, &was_kept)) {
        run->peer->kind->owner(run->peer, &rid, true, kept);
        run->params[0] = kept;
    }
    return sql_run_text(&run->use, &run->peer->texts[step], run->params);
}

/* ---- Looking ------------------------------------------------------------ */

/* A column of fixed width pads with blanks. */
static bool same_text(const char *seen, const char *text)
{
    size_t len = strlen(text);

    return strncmp(seen, text, len) == 0 &&
           strspn(seen + len, " ") == strlen(seen + len);
}

static bool same_owner(const sql_peer_kind *kind, const char *seen,
                       const char *owner)
{
    return kind->owner_len > 0 ? strncmp(seen, owner, kind->owner_len) == 0
                               : same_text(seen, owner);
}

/* How long before op->sent this machine's clock was read for a statement that
 * goes by it. */
static hf_nsec read_before(const sql_run_of *run)
{
    hf_nsec sent = run->use.op->sent;

    return run->peer->kind->client_clock && sent > run->wrote_at
               ? sent - run->wrote_at
               : 0;
}

static void see_row(sql_run_of *run, size_t row, const char *owner,
                    sql_sight *ret)
{
    const sql_peer_kind *kind = run->peer->kind;
    const sql_rows *rows = &run->use.rows;
    const char *seen = sql_cell(rows, row, 1);
    int64_t left_us = sql_span(rows, row, 2, -1);
    bool mine = seen && same_owner(kind, seen, owner);

    if (mine) {
        left_us -= (read_before(run) + 999) / 1000;
        if (left_us == 0)
            left_us = -1; /* its last instant is no time to hold it */
    }
    if (left_us < kind->live_us)
        ret->found = mine ? FOUND_OVER : FOUND_FREE;
    else
        ret->found = mine ? FOUND_MINE : FOUND_OTHERS;
    ret->left = left_us < SQL_SPAN_MAX ? left_us * 1000 : HF_MS(1000);
    if (mine)
        ret->left = ret->left > HF_MS(1) ? ret->left - HF_MS(1) : 1;
    /* "" would say that there is no row. */
    snprintf(ret->seen, sizeof ret->seen, "%s", seen && *seen ? seen : "?");
}

bool sql_step_look(sql_run_of *run, const sql_item *items, size_t n,
                   sql_sight *ret)
{
    const sql_rows *rows = &run->use.rows;
    int64_t server_us;

    if (!sql_step_run(run, n > 1 ? STEP_LOOK_MANY : STEP_LOOK, items, n, 0))
        return false;
    for (size_t i = 0; i < n; i++) {
        ret[i] = (sql_sight){.found = FOUND_FREE};
        for (size_t row = 0; row < rows->rows; row++) {
            const char *key = sql_cell(rows, row, 0);

            /* A collation may find a row of another case: it excludes. */
            if (key && (n == 1 ||
                        strncmp(key, items[i].key, strlen(items[i].key)) == 0))
                see_row(run, row, items[i].owner, &ret[i]);
        }
    }
    server_us = run->peer->kind->client_clock ? hfd_realtime_us()
                                              : sql_instant(rows, 0, 3);
    if (server_us > 0)
        run->use.op->store_us = server_us;
    return true;
}

/* ---- Taking ------------------------------------------------------------- */

/* What is left of an end `span` from wrote_at, counted from op->sent; less what
 * a column of milliseconds cuts off. */
static hf_nsec left_of(const sql_run_of *run, hf_nsec span)
{
    hf_nsec sent = run->use.op->sent;
    hf_nsec left = sent > run->wrote_at ? span - (sent - run->wrote_at) : span;

    return left > HF_MS(1) ? left - HF_MS(1) : 1;
}

/* Take it if it is free.  `looked`: *ret is what was seen a moment ago. */
static bool take(sql_run_of *run, const sql_item *item, hf_nsec span,
                 bool looked, sql_sight *ret)
{
    for (int round = 0; round < 4; round++) {
        if (!looked) {
            if (!sql_step_run(run, STEP_TAKE, item, 1, span))
                return false;
            if (run->use.rows.affected == 1) {
                ret->found = FOUND_MINE;
                ret->left = left_of(run, span);
                return true;
            }
            if (!sql_step_look(run, item, 1, ret))
                return false;
        }
        looked = false;
        if (ret->found == FOUND_MINE || ret->found == FOUND_OTHERS)
            return true;
        if (ret->seen[0] == '\0')
            continue; /* no row: insert it */
        run->params[4] = ret->seen;
        if (!sql_step_run(run, STEP_STEAL, item, 1, span))
            return false;
        if (run->use.rows.affected == 1 && !run->peer->kind->steal_deletes) {
            ret->found = FOUND_MINE;
            ret->left = left_of(run, span);
            return true;
        }
    }
    /* Others are quicker, again and again. */
    ret->found = FOUND_OTHERS;
    ret->left = 0;
    return true;
}

/* What was taken behind its own leave is given back at once; if that has no
 * answer, the next renewal repeats it. */
static void give_back(sql_run_of *run, const sql_item *item)
{
    sql_use *use = &run->use;

    if (use->conn)
        sql_step_run(run, STEP_DROP, item, 1, 0);
}

/* The answer about one place; 0, or why a join is refused. */
static int settle(sql_run_of *run, const sql_item *item, hf_place *place,
                  const sql_sight *sight)
{
    sql_table *table = &run->peer->table;
    hf_op *op = run->use.op;
    bool orphan = false;
    sql_record *record;
    int code = 0;

    pthread_mutex_lock(&table->mu);
    record = sql_record_find(table, &place->rid);
    if (record)
        record->asking -= record->asking > 0;
    if (!record || record->state == FORMAT_TOMB || record->leaving) {
        orphan = sight->found == FOUND_MINE;
        if (record)
            record->stray = record->stray || orphan;
        sql_place_gone(place, HF_ENOTHELD);
    } else if (sight->found == FOUND_MINE) {
        sql_place_granted(op, place, record, sight->left);
    } else if (record->state == FORMAT_GRANTED) {
        sql_place_gone(place, HF_EEXPIRED); /* a hold that is over */
    } else {
        sql_place_waits(op, place, record, sight->left);
        if (op->kind == HF_OP_JOIN && op->only_if_granted) {
            code = HF_EBUSY;
            if (!record->stray)
                sql_record_drop(table, record);
        }
    }
    pthread_mutex_unlock(&table->mu);
    if (orphan)
        give_back(run, item);
    return code;
}

/* An attempt without an answer: it may have taken the lock. */
static void unsettle(sql_run_of *run, const hf_place *place, bool drop)
{
    sql_table *table = &run->peer->table;
    sql_record *record;

    pthread_mutex_lock(&table->mu);
    record = sql_record_find(table, &place->rid);
    if (record) {
        record->asking -= record->asking > 0;
        record->stray = record->stray || run->use.wrote;
        if (drop && record->state == FORMAT_NEW && !record->stray &&
            record->asking == 0)
            sql_record_drop(table, record);
    }
    pthread_mutex_unlock(&table->mu);
}

/* ---- Join --------------------------------------------------------------- */

typedef enum entry { REFUSED, OVER, NO_MEMORY, DEAD, LOOKS, TAKES } entry;

/* What a join of this place may do; lengthens nothing that was ours. */
static entry enter(sql_peer *peer, hf_op *op)
{
    sql_table *table = &peer->table;
    const sql_member *member;
    sql_record *record;
    entry ret = TAKES;

    pthread_mutex_lock(&table->mu);
    member = sql_member_of(table, &op->sid);
    record = sql_record_find(table, &op->place->rid);
    if (!member) {
        ret = OVER;
    } else if (record && record->state == FORMAT_TOMB) {
        ret = DEAD;
    } else {
        op->ttl = member->ttl;
        if (!record)
            record = sql_record_add(table, op->place, &op->sid, NULL);
        if (!record) {
            ret = NO_MEMORY;
        } else {
            ret = record->state == FORMAT_GRANTED ? LOOKS : TAKES;
            record->asking++;
        }
    }
    pthread_mutex_unlock(&table->mu);
    return ret;
}

static hf_nsec span_of(const hf_op *op, const hf_place *place)
{
    return place->lease > 0 ? place->lease : op->ttl;
}

static void run_join(hf_store *store, hf_op *op, const sql_item *item,
                     bool takes)
{
    sql_run_of run = {.peer = sql_peer_of(store)};
    sql_sight sight = {.found = FOUND_FREE};
    int code;

    if (sql_begin(&run.use, store, op) != 0 ||
        !(takes ? take(&run, item, span_of(op, op->place), false, &sight)
                : sql_step_look(&run, item, 1, &sight))) {
        unsettle(&run, op->place, true);
        sql_fail(&run.use);
        return;
    }
    code = settle(&run, item, op->place, &sight);
    sql_note_remaining(&run.peer->table, op);
    if (code)
        sql_refuse(&run.use, code, "held by another");
    else
        sql_finish(&run.use, 0);
}

void sql_peer_join(hf_store *store, hf_op *op)
{
    sql_peer *peer = sql_peer_of(store);
    hf_place *place = op->place;
    sql_item item;
    entry how;

    if (place->key_len == 0 || place->key_len > HF_KEY_MAX ||
        place->lease < 0) {
        hfd_finish(op, HF_NOT_APPLIED, HF_EINVAL);
        return;
    }
    if (place->mode != HF_EXCLUSIVE) {
        sql_peer_refuse(store, op, HF_ENOTSUP,
                        "locks of this format are exclusive only");
        return;
    }
    if (!sql_item_of(peer, &place->rid, place->key, place->key_len, &item)) {
        sql_peer_refuse(store, op, HF_EINVAL,
                        "the key cannot be a name of this format: it is too "
                        "long, no UTF-8, or ends with a blank");
        return;
    }
    how = enter(peer, op);
    if (how == OVER) {
        sql_peer_refuse(store, op, HF_EEXPIRED, "the session is over");
    } else if (how == NO_MEMORY) {
        hfd_finish(op, HF_NOT_APPLIED, HF_ENOMEM);
    } else if (how == DEAD) {
        op->sent = hfd_now();
        sql_place_gone(place, HF_ENOTHELD);
        hfd_finish(op, HF_APPLIED, 0);
    } else {
        run_join(store, op, &item, how == TAKES);
    }
}

/* ---- Recheck ------------------------------------------------------------ */

/* Begin a look at these; *ret_takes: those that may take.  A place without a
 * record is gone; how many are left to ask for. */
static size_t enter_many(sql_peer *peer, hf_op *op, size_t at, sql_item *items,
                         hf_place **places, bool *takes)
{
    sql_table *table = &peer->table;
    const sql_member *member;
    size_t n = 0;

    pthread_mutex_lock(&table->mu);
    member = sql_member_of(table, &op->sid);
    if (member)
        op->ttl = member->ttl;
    for (size_t i = at; i < op->place_count && i < at + SQL_PEER_MANY; i++) {
        hf_place *place = op->places[i];
        sql_record *record = sql_record_find(table, &place->rid);

        if (!record || record->leaving || record->state == FORMAT_TOMB ||
            !sql_item_of(peer, &place->rid, place->key, place->key_len,
                         &items[n])) {
            sql_place_gone(place, HF_ENOTHELD);
            continue;
        }
        record->asking++;
        takes[n] = member && record->state != FORMAT_GRANTED;
        places[n++] = place;
    }
    pthread_mutex_unlock(&table->mu);
    return n;
}

static bool look_at_many(sql_run_of *run, sql_item *items, hf_place **places,
                         const bool *takes, size_t n)
{
    sql_sight sights[SQL_PEER_MANY];
    size_t at = 0;

    if (sql_step_look(run, items, n, sights)) {
        for (; at < n; at++) {
            bool is_free = sights[at].found == FOUND_FREE ||
                           sights[at].found == FOUND_OVER;

            if (takes[at] && is_free &&
                !take(run, &items[at], span_of(run->use.op, places[at]), true,
                      &sights[at]))
                break;
            settle(run, &items[at], places[at], &sights[at]);
        }
    }
    for (size_t i = at; i < n; i++)
        unsettle(run, places[i], false);
    return at == n;
}

void sql_peer_recheck(hf_store *store, hf_op *op)
{
    sql_run_of run = {.peer = sql_peer_of(store)};
    sql_item *items = hfd_alloc(SQL_PEER_MANY * sizeof *items);
    hf_place *places[SQL_PEER_MANY];
    bool takes[SQL_PEER_MANY], good = true, begun = false;

    if (!items) {
        hfd_finish(op, HF_NOT_APPLIED, HF_ENOMEM);
        return;
    }
    for (size_t at = 0; at < op->place_count && good; at += SQL_PEER_MANY) {
        size_t n = enter_many(run.peer, op, at, items, places, takes);

        if (n == 0)
            continue;
        if (!begun)
            good = sql_begin(&run.use, store, op) == 0;
        begun = true;
        if (good)
            good = look_at_many(&run, items, places, takes, n);
        else
            for (size_t i = 0; i < n; i++)
                unsettle(&run, places[i], false);
    }
    hfd_free(items);
    if (!good) {
        sql_fail(&run.use);
        return;
    }
    if (op->sent == 0)
        op->sent = hfd_now();
    sql_note_remaining(&run.peer->table, op);
    if (begun)
        sql_end_use(&run.use);
    hfd_finish(op, HF_APPLIED, 0);
}
