/* join.c - taking a place in a queue.
 *
 * One transaction: the session is alive, the last of the queue says whether the
 * newcomer is granted, a number is drawn, the row is written.  If it is not
 * granted, the dead at the head go first and the question is asked again, so a
 * crashed holder never costs a newcomer its lease.
 *
 * The number is drawn inside the write transaction, so an entry that becomes
 * visible later has the larger one: the law of driver.h.  A place granted here
 * has its number as its token; one that waits draws a token when it is granted
 * (queue.c). */
#include "store.h"

#include <string.h>

typedef struct joiner {
    uint32_t wake;
    hf_nsec exp; /* of the session */
    bool repeated, sure;
} joiner;

/* The counter and the session in one look; false: the session is over. */
static bool read_joiner(sq_txn *t, int64_t *ret_news)
{
    sqlite3_stmt *stmt = hf__sq_stmt(t, SQL_JOINER);
    bool lives = false;

    hf__sq_bind_id(stmt, 1, &t->op->sid);
    if (hf__sq_row(t, stmt)) {
        hf_nsec left = sqlite3_column_int64(stmt, 2) - t->now;

        t->counter = (uint64_t)sqlite3_column_int64(stmt, 0);
        t->reserved = (uint64_t)sqlite3_column_int64(stmt, 1);
        t->counted = true;
        lives = sqlite3_column_type(stmt, 2) != SQLITE_NULL && left > 0;
        *ret_news = sqlite3_column_int64(stmt, 3);
        t->op->remaining = lives ? left : 0;
        sqlite3_reset(stmt);
    }
    return lives;
}

typedef enum fit { FITS, MUST_WAIT, OTHER_KIND } fit;

/* May the newcomer hold at once?  By the invariant of queue.c the last entry
 * tells: it holds if and only if nobody waits. */
static fit try_fit(sq_txn *t, const hf_place *place)
{
    sqlite3_stmt *stmt = hf__sq_stmt(t, SQL_LAST);
    hf_seat last = {0};
    uint64_t upto;

    hf__sq_bind_key(stmt, 1, place->key, place->key_len);
    if (!hf__sq_row(t, stmt))
        return FITS;
    last.num = (uint64_t)sqlite3_column_int64(stmt, 0);
    last.mode = (uint8_t)sqlite3_column_int(stmt, 1);
    last.places = (uint32_t)sqlite3_column_int64(stmt, 2);
    last.granted = sqlite3_column_int(stmt, 3) != 0;
    sqlite3_reset(stmt);
    if (!hfd_same_kind(&last, (hf_mode)place->mode, place->places))
        return OTHER_KIND;
    if (!last.granted || place->mode == HF_EXCLUSIVE ||
        last.mode == HF_EXCLUSIVE)
        return MUST_WAIT;
    if (place->mode == HF_SHARED)
        return FITS;
    return hf__sq_permits(t, place->key, place->key_len, &upto) <
                   (int64_t)place->places
               ? FITS
               : MUST_WAIT;
}

/* Was this join asked before?  Then its place is what it was; a place that was
 * sure to be there and is not has been taken away. */
static bool answer_repeated(sq_txn *t, hf_place *place)
{
    sq_known known = {.num = place->own[0] & SQ_NUM, .sure = true};
    sq_mine m;

    if (!hf__sq_known_get(t->s, &place->rid, &known) && known.num == 0)
        return false;
    hf__sq_mine(t, place, &m);
    if (m.found) {
        hf__sq_answer(t, place, &m);
        if (!m.granted)
            hf__sq_clear(t, place->key, place->key_len, false);
        return true;
    }
    if (!known.sure)
        return false; /* the commit that would have made it did not */
    hf__sq_answer_gone(t, place);
    return true;
}

static bool is_tombed(sq_txn *t, const hf_place *place)
{
    sqlite3_stmt *stmt = hf__sq_stmt(t, SQL_NEWS_GET);
    bool found;

    hf__sq_bind_id(stmt, 1, &t->op->sid);
    hf__sq_bind_id(stmt, 2, &place->rid);
    found = hf__sq_row(t, stmt);
    if (found)
        sqlite3_reset(stmt);
    return found;
}

static void insert_entry(sq_txn *t, const hf_place *place, const sq_mine *m)
{
    const hf_op *op = t->op;
    sqlite3_stmt *stmt = hf__sq_stmt(t, SQL_INSERT);

    if (!stmt)
        return;
    hf__sq_bind_key(stmt, 1, place->key, place->key_len);
    sqlite3_bind_int64(stmt, 2, (int64_t)m->num);
    hf__sq_bind_id(stmt, 3, &place->rid);
    hf__sq_bind_id(stmt, 4, &op->sid);
    sqlite3_bind_int(stmt, 5, place->mode);
    sqlite3_bind_int64(stmt, 6, place->places);
    sqlite3_bind_int(stmt, 7, m->granted);
    sqlite3_bind_int64(stmt, 8, (int64_t)m->token);
    sqlite3_bind_int64(stmt, 9, m->run);
    sqlite3_bind_int64(stmt, 10, (int64_t)op->own[0]);
    sqlite3_bind_int64(stmt, 11, m->exp);
    sqlite3_bind_int64(stmt, 12, t->now);
    sqlite3_bind_int64(stmt, 13, place->lease);
    if (op->value && op->value_len > 0)
        sqlite3_bind_blob(stmt, 14, op->value, (int)op->value_len,
                          SQLITE_STATIC);
    else
        sqlite3_bind_null(stmt, 14);
    hf__sq_run(t, stmt);
    if (m->granted && place->mode == HF_PERMIT)
        hf__sq_permits_add(t, place->key, place->key_len, m->num);
}

/* Remember the place: it is ours once this is committed, and perhaps ours if
 * nobody can say whether it was. */
static void after_join(sq_txn *t)
{
    hf_place *place = t->op->place;
    sq_known known = {.rid = place->rid,
                      .num = place->own[0] & SQ_NUM,
                      .sure = t->rc == 0,
                      .waits = place->verdict == HF_WAITS};

    if (t->rc && !(t->reached_commit && (t->rc & 0xff) == SQLITE_IOERR)) {
        hf__sq_known_drop(t->s, &place->rid);
        place->own[0] = 0;
    } else if (place->own[0] != 0) {
        hf__sq_known_put(t->s, &known);
        if (!t->rc && known.waits)
            hf__sq_heir_write(t->s, &t->ahead, (uint32_t)t->op->own[0]);
        if (t->rc)
            place->own[0] = 0; /* known.c has it, marked as not sure */
    }
}

static void look_later(sq_txn *t, hf_place *place)
{
    if (t->s->network)
        place->look_in = hf__sq_poll_in(place);
    else if (t->end > 0)
        place->look_in = t->end > t->now ? t->end - t->now : 1;
}

static void append_entry(sq_txn *t, hf_place *place, bool fits)
{
    sq_mine m = {.found = true,
                 .granted = fits,
                 .mode = place->mode,
                 .places = place->places,
                 .run = place->run ? place->run : 1};

    m.num = hf__sq_draw(t, fits ? m.run : 1);
    if (fits) {
        m.token = m.num;
        m.exp = place->lease > 0 ? t->now + place->lease : 0;
    }
    insert_entry(t, place, &m);
    if (t->rc)
        return;
    hf__sq_answer(t, place, &m);
    t->after = after_join;
}

static void refuse_kind(sq_txn *t)
{
    t->code = hfd_error(&t->op->error, HF_EKIND, "sqlite", 0,
                        "the key is in use as another kind of lock, or with "
                        "another number of places");
}

static void join_body(sq_txn *t)
{
    hf_place *place = t->op->place;
    sq_seat before;
    int64_t news = 0;
    fit how;

    if (!read_joiner(t, &news)) {
        t->code = HF_EEXPIRED;
        return;
    }
    if (news != 0 && is_tombed(t, place)) {
        hf__sq_answer_gone(t, place);
        return;
    }
    if (answer_repeated(t, place)) {
        if (place->verdict == HF_WAITS)
            look_later(t, place);
        return;
    }
    how = try_fit(t, place);
    if (how != FITS && !t->rc) {
        hf__sq_clear(t, place->key, place->key_len, true);
        how = try_fit(t, place);
    }
    if (how == OTHER_KIND) {
        refuse_kind(t);
        return;
    }
    if (how == MUST_WAIT && t->op->only_if_granted) {
        t->code = HF_EBUSY;
        look_later(t, place);
        return;
    }
    if (how == MUST_WAIT && !t->s->network &&
        hf__sq_seat_before(t, place->key, place->key_len, INT64_MAX, &before)) {
        hf__sq_watch_note(t, &before.proc);
        t->ahead = (sq_heir){before.rid, before.proc.slot, before.has_session};
    }
    append_entry(t, place, how == FITS);
    if (how == MUST_WAIT)
        look_later(t, place);
}

void hf__sq_join(hf_store *s, hf_op *op)
{
    hf_place *place = op->place;

    place->look_in = place->remaining = 0;
    op->own[0] = hf__sq_listen(s, place);
    if ((place->own[1] & HF_PLACE_PUSH) && !s->network &&
        !hf__sq_bell_start(s)) {
        hfd_error(&op->error, HF_EUNAVAIL, "sqlite", 0,
                  "cannot start the thread that listens for grants: raise the "
                  "limit of threads or descriptors");
        hfd_finish(op, HF_NOT_APPLIED, HF_EUNAVAIL);
        return;
    }
    hf__sq_write(s, op, join_body);
}
