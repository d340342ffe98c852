/* break.c - taking a lock away, as an operator.
 *
 * The owner may be in the middle of its work, so the usual way is slow: the
 * entry is marked, its owner gets news and leaves; if it does not, the entry
 * goes one lease of its session later, when each of its renewals has brought
 * the news or failed.  With `now` it goes at once, and only the next holder's
 * larger token protects. */
#include "store.h"

static void put_news(sq_txn *t, const sq_seat *seat)
{
    sqlite3_stmt *stmt = hf__sq_stmt(t, SQL_NEWS_PUT);
    sq_wake wake = {.word = (uint32_t)seat->proc.slot * SQ_WORDS,
                    .news = true,
                    .rid = seat->rid};

    if (!seat->has_session || !stmt)
        return;
    hf__sq_bind_id(stmt, 1, &seat->sid);
    hf__sq_bind_id(stmt, 2, &seat->rid);
    sqlite3_bind_int(stmt, 3, HF_EFORCED);
    sqlite3_bind_int(stmt, 4, 0);
    hf__sq_run(t, stmt);
    if (!(stmt = hf__sq_stmt(t, SQL_NEWS_FLAG)))
        return;
    hf__sq_bind_id(stmt, 1, &seat->sid);
    sqlite3_bind_int(stmt, 2, 3);
    hf__sq_run(t, stmt);
    /* Its bell, in case it listens: sooner than its next renewal. */
    hf__sq_wake_note(t, &wake);
}

static void mark_seat(sq_txn *t, const sq_seat *seat)
{
    const hf_op *op = t->op;
    sqlite3_stmt *stmt = hf__sq_stmt(t, SQL_BREAK);
    hf_nsec grace = seat->has_session ? seat->session_ttl : op->ttl;
    hf_nsec until = t->now + (grace > 0 ? grace : HF_MS(30000));

    if (!stmt || seat->broken_until > 0)
        return;
    /* Its owner may believe in a fixed lease to the end of it. */
    if (seat->exp > until)
        until = seat->exp;
    hf__sq_bind_key(stmt, 1, op->text, op->text_len);
    sqlite3_bind_int64(stmt, 2, (int64_t)seat->num);
    sqlite3_bind_int64(stmt, 3, until);
    hf__sq_run(t, stmt);
    put_news(t, seat);
}

void hf__sq_evict(sq_txn *t)
{
    hf_op *op = t->op;
    uint64_t after = 0;
    sq_seat seat;

    op->count = 0;
    hf__sq_clear(t, op->text, op->text_len, true);
    t->watch_count = 0;
    while (hf__sq_seat_next(t, op->text, op->text_len, after, &seat)) {
        after = seat.num;
        if (!seat.granted)
            break; /* those who hold stand first */
        if (op->token != 0 &&
            (op->token < seat.token || op->token >= seat.token + seat.run))
            continue;
        op->count++;
        if (op->now || seat.closed) {
            /* Of a closed one nobody works any more. */
            if (!seat.closed)
                put_news(t, &seat);
            hf__sq_drop_seat(t, op->text, op->text_len, seat.num, seat.mode,
                             true);
        } else {
            mark_seat(t, &seat);
        }
    }
    hf__sq_settle(t);
}
