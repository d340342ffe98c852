/* leave.c - giving a place back, keeping it, confirming it, its value.
 *
 * A leave removes the row, grants whom it must and rings exactly those, in one
 * transaction.  An entry with a running fixed lease is its own: it may be left
 * or confirmed although its session is over.  Any other entry of a session that
 * is over is not ours any more; whoever finds that ends the session first. */
#include "store.h"

static void after_leave(sq_txn *t)
{
    hf_place *place = t->op->place;

    if (t->rc)
        return;
    hf__sq_known_drop(t->s, &place->rid);
    place->own[0] = 0;
}

/* The entry is not there, or not ours any more. */
static void leave_gone(sq_txn *t, hf_place *place, const sq_mine *m)
{
    if (m->found) {
        if (!m->session_lives)
            hf__sq_drop_session(t, &m->sid);
        /* A fixed lease that ran out stays until somebody clears it. */
        if (m->granted && m->exp > 0)
            hf__sq_drop_seat(t, place->key, place->key_len, m->num, m->mode,
                             true);
        hf__sq_settle(t);
    }
    hf__sq_answer_gone(t, place);
    if (m->found)
        place->reason = HF_EEXPIRED;
}

static void keep_entry(sq_txn *t, const hf_place *place, const sq_mine *m)
{
    sqlite3_stmt *stmt = hf__sq_stmt(t, SQL_KEEP);

    if (!stmt)
        return;
    hf__sq_bind_key(stmt, 1, place->key, place->key_len);
    sqlite3_bind_int64(stmt, 2, (int64_t)m->num);
    sqlite3_bind_int64(stmt, 3, t->now + t->op->keep);
    sqlite3_bind_int64(stmt, 4, t->op->keep);
    hf__sq_run(t, stmt);
}

/* A join of this rid may still come: it shall find that it is gone. */
static void put_tomb(sq_txn *t, const hf_id *rid)
{
    sqlite3_stmt *stmt = hf__sq_stmt(t, SQL_NEWS_PUT);

    if (!stmt)
        return;
    hf__sq_bind_id(stmt, 1, &t->op->sid);
    hf__sq_bind_id(stmt, 2, rid);
    sqlite3_bind_int(stmt, 3, HF_ENOTHELD);
    sqlite3_bind_int(stmt, 4, 1);
    hf__sq_run(t, stmt);
    if (!(stmt = hf__sq_stmt(t, SQL_NEWS_FLAG)))
        return;
    hf__sq_bind_id(stmt, 1, &t->op->sid);
    sqlite3_bind_int(stmt, 2, 2);
    hf__sq_run(t, stmt);
}

void hf__sq_leave(sq_txn *t)
{
    hf_place *place = t->op->place;
    sq_mine m;

    t->after = after_leave;
    hf__sq_mine(t, place, &m);
    if (t->rc)
        return;
    if (!m.found || !hf__sq_mine_valid(t, &m)) {
        leave_gone(t, place, &m);
    } else {
        hf__sq_answer(t, place, &m);
        if (t->op->keep > 0 && m.granted) {
            keep_entry(t, place, &m);
        } else {
            hf__sq_drop_seat(t, place->key, place->key_len, m.num, m.mode,
                             m.granted);
            hf__sq_settle(t);
        }
    }
    if (t->op->tomb && place->reason != HF_EEXPIRED)
        put_tomb(t, &place->rid);
}

void hf__sq_confirm(sq_txn *t)
{
    hf_place *place = t->op->place;
    sqlite3_stmt *stmt;
    sq_mine m;

    hf__sq_mine(t, place, &m);
    if (t->rc)
        return;
    if (!m.found || !hf__sq_mine_valid(t, &m)) {
        leave_gone(t, place, &m);
        return;
    }
    if (m.granted && place->lease > 0 && m.broken_until == 0) {
        m.exp = t->now + place->lease;
        if (!(stmt = hf__sq_stmt(t, SQL_CONFIRM)))
            return;
        hf__sq_bind_key(stmt, 1, place->key, place->key_len);
        sqlite3_bind_int64(stmt, 2, (int64_t)m.num);
        sqlite3_bind_int64(stmt, 3, m.exp);
        sqlite3_bind_int64(stmt, 4, place->lease);
        hf__sq_run(t, stmt);
    }
    hf__sq_answer(t, place, &m);
}

void hf__sq_publish(sq_txn *t)
{
    hf_place *place = t->op->place;
    const hf_op *op = t->op;
    sqlite3_stmt *stmt;
    sq_mine m;

    hf__sq_mine(t, place, &m);
    if (t->rc)
        return;
    if (!m.found || !hf__sq_mine_valid(t, &m)) {
        leave_gone(t, place, &m);
        return;
    }
    if (!(stmt = hf__sq_stmt(t, SQL_PUBLISH)))
        return;
    hf__sq_bind_key(stmt, 1, place->key, place->key_len);
    sqlite3_bind_int64(stmt, 2, (int64_t)m.num);
    if (op->value && op->value_len > 0)
        sqlite3_bind_blob(stmt, 3, op->value, (int)op->value_len,
                          SQLITE_STATIC);
    else
        sqlite3_bind_null(stmt, 3);
    hf__sq_run(t, stmt);
    hf__sq_answer(t, place, &m);
}
