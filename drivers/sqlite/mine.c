/* mine.c - my own entry: where it stands and what is said of it.
 *
 * Every operation on a place begins by finding its row, by key and number, and
 * checking that it carries the id.  The number is noted in the place, or known
 * to the store (known.c), or, for an entry that neither knows, searched in its
 * queue. */
#include "store.h"

#include <string.h>

uint32_t hf__sq_listen(hf_store *s, hf_place *place)
{
    uint64_t push = place->own[1] & HF_PLACE_PUSH;
    uint32_t word = push ? 0 : 1 + place->rid.bytes[0] % (SQ_WORDS - 1);
    uint32_t index = s->slot * SQ_WORDS + word;

    /* The value before the transaction: if it has changed when the waiter goes
     * to sleep, the grant came in between. */
    place->own[1] =
        push | (uint64_t)word << 32 | atomic_load(hf__sq_word(s, index));
    return index;
}

hf_nsec hf__sq_poll_in(hf_place *place)
{
    uint64_t step = place->own[1] >> 40 & 7;
    uint32_t chance;
    hf_nsec in = HF_MS(20) << (step > 5 ? 5 : step);

    if (in > HF_MS(500))
        in = HF_MS(500);
    hfd_random(&chance, sizeof chance);
    if (step < 5)
        step++;
    place->own[1] = (place->own[1] & ~(UINT64_C(7) << 40)) | step << 40;
    return in - in / 4 + (hf_nsec)(chance % 1000) * (in / 2000);
}

static uint64_t find_number(sq_txn *t, const hf_place *place)
{
    sq_known known;
    sqlite3_stmt *stmt;
    uint64_t num = 0;

    if (place->own[0] != 0)
        return place->own[0];
    if (hf__sq_known_get(t->s, &place->rid, &known))
        return known.num;
    stmt = hf__sq_stmt(t, SQL_FIND);
    hf__sq_bind_key(stmt, 1, place->key, place->key_len);
    hf__sq_bind_id(stmt, 2, &place->rid);
    if (hf__sq_row(t, stmt)) {
        num = (uint64_t)sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
    }
    return num;
}

void hf__sq_mine(sq_txn *t, const hf_place *place, sq_mine *ret)
{
    sqlite3_stmt *stmt;

    memset(ret, 0, sizeof *ret);
    ret->num = find_number(t, place);
    if (ret->num == 0 || !(stmt = hf__sq_stmt(t, SQL_MINE)))
        return;
    hf__sq_bind_key(stmt, 1, place->key, place->key_len);
    sqlite3_bind_int64(stmt, 2, (int64_t)ret->num);
    hf__sq_bind_id(stmt, 3, &place->rid);
    if (!hf__sq_row(t, stmt))
        return;
    ret->found = true;
    ret->mode = (uint8_t)sqlite3_column_int(stmt, 0);
    ret->granted = sqlite3_column_int(stmt, 1) != 0;
    ret->token = (uint64_t)sqlite3_column_int64(stmt, 2);
    ret->run = (uint32_t)sqlite3_column_int64(stmt, 3);
    ret->places = (uint32_t)sqlite3_column_int64(stmt, 4);
    ret->exp = sqlite3_column_int64(stmt, 5);
    ret->broken_until = sqlite3_column_int64(stmt, 6);
    ret->lease = sqlite3_column_int64(stmt, 7);
    ret->sid = hf__sq_column_id(stmt, 9);
    if (sqlite3_column_type(stmt, 8) != SQLITE_NULL) {
        hf_nsec left = sqlite3_column_int64(stmt, 8) - t->now;

        ret->session_lives = left > 0;
        if (left > 0)
            t->op->remaining = left;
    }
    sqlite3_reset(stmt);
}

bool hf__sq_mine_valid(const sq_txn *t, const sq_mine *m)
{
    return m->granted && m->exp > 0 ? m->exp > t->now : m->session_lives;
}

void hf__sq_answer(const sq_txn *t, hf_place *place, const sq_mine *m)
{
    place->verdict = m->granted ? HF_GRANTED : HF_WAITS;
    place->reason = 0;
    place->num = place->own[0] = m->num;
    place->token = m->granted ? m->token : 0;
    place->run = m->run;
    place->remaining = m->granted && m->exp > 0 ? m->exp - t->now : 0;
    place->look_in = 0;
}

void hf__sq_answer_gone(sq_txn *t, hf_place *place)
{
    sqlite3_stmt *stmt;
    int64_t news;

    place->verdict = HF_GONE;
    place->token = 0;
    place->remaining = place->look_in = 0;
    place->reason = HF_ENOTHELD;
    if (!hf__sq_session(t, &news)) {
        place->reason = HF_EEXPIRED;
        return;
    }
    /* A fixed lease that others cleared away has run out. */
    if (place->lease > 0 && place->own[0] != 0)
        place->reason = HF_EEXPIRED;
    if (news == 0)
        return;
    stmt = hf__sq_stmt(t, SQL_NEWS_GET);
    hf__sq_bind_id(stmt, 1, &t->op->sid);
    hf__sq_bind_id(stmt, 2, &place->rid);
    if (hf__sq_row(t, stmt)) {
        place->reason = sqlite3_column_int(stmt, 0);
        sqlite3_reset(stmt);
    }
}
