/* queue.c - one queue in the tables: who is dead, who is due.
 *
 * The invariant behind every answer here: in the order of numbers, those who
 * hold stand before those who wait.  A join is granted only behind granted
 * ones, and grants go to the first who waits.  So "who is next" and "who holds
 * last" are one look each, however many wait, and the rule of driver.h
 * (hfd_admit_due) is applied without reading the queue:
 *
 *   exclusive  due when nobody stands before it
 *   shared     due when nobody, or a granted shared one, stands before it
 *   permit     due when fewer than `places` permits are out (hf_permit)
 *
 * Eviction order: a session's row goes first, then its entries, then others
 * are granted; one transaction, so nobody sees it half done.  Dead before its
 * lease is a session only if the kernel says it twice: the byte of its slot is
 * free, and its process is gone.  In another pid namespace the second cannot be
 * asked, so there the lease decides. */
#include "store.h"

#include <string.h>

static void read_seat(sqlite3_stmt *stmt, sq_seat *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->num = (uint64_t)sqlite3_column_int64(stmt, 0);
    ret->rid = hf__sq_column_id(stmt, 1);
    ret->sid = hf__sq_column_id(stmt, 2);
    ret->mode = (uint8_t)sqlite3_column_int(stmt, 3);
    ret->places = (uint32_t)sqlite3_column_int64(stmt, 4);
    ret->run = (uint32_t)sqlite3_column_int64(stmt, 5);
    ret->wake = (uint32_t)sqlite3_column_int64(stmt, 6);
    ret->granted = sqlite3_column_int(stmt, 7) != 0;
    ret->closed = sqlite3_column_int(stmt, 8) != 0;
    ret->exp = sqlite3_column_int64(stmt, 9);
    ret->broken_until = sqlite3_column_int64(stmt, 10);
    ret->has_session = sqlite3_column_type(stmt, 11) != SQLITE_NULL;
    ret->session_exp = sqlite3_column_int64(stmt, 11);
    ret->session_ttl = sqlite3_column_int64(stmt, 12);
    ret->proc.pid = sqlite3_column_int64(stmt, 13);
    ret->proc.pidns = sqlite3_column_int64(stmt, 14);
    ret->proc.start = sqlite3_column_int64(stmt, 15);
    ret->proc.slot = sqlite3_column_int64(stmt, 16);
    ret->token = (uint64_t)sqlite3_column_int64(stmt, 17);
}

static bool ask_seat(sq_txn *t, enum sq_sql which, const char *key, size_t len,
                     uint64_t num, sq_seat *ret)
{
    sqlite3_stmt *stmt = hf__sq_stmt(t, which);

    if (!stmt)
        return false;
    hf__sq_bind_key(stmt, 1, key, len);
    sqlite3_bind_int64(stmt, 2, (int64_t)num);
    if (!hf__sq_row(t, stmt))
        return false;
    read_seat(stmt, ret);
    sqlite3_reset(stmt);
    return true;
}

bool hf__sq_seat_next(sq_txn *t, const char *key, size_t len, uint64_t after,
                      sq_seat *ret)
{
    return ask_seat(t, SQL_NEXT, key, len, after, ret);
}

bool hf__sq_seat_before(sq_txn *t, const char *key, size_t len, uint64_t num,
                        sq_seat *ret)
{
    return ask_seat(t, SQL_BEFORE, key, len, num, ret);
}

bool hf__sq_seat_waits(sq_txn *t, const char *key, size_t len, uint64_t after,
                       sq_seat *ret)
{
    return ask_seat(t, SQL_FIRST_WAITS, key, len, after, ret);
}

bool hf__sq_proc_dead(const hf_store *s, const sq_proc *proc)
{
    if (s->network || s->self.pidns == 0 || proc->pidns != s->self.pidns)
        return false;
    if (proc->pid == s->self.pid && proc->start == s->self.start)
        return false;
    /* A slot that is ours now is its former owner's no more. */
    if (proc->slot != (int64_t)s->slot && hf__sq_slot_locked(s, proc->slot))
        return false;
    return hf__sq_gone(proc->pid, proc->start);
}

sq_life hf__sq_seat_life(sq_txn *t, const sq_seat *seat, hf_nsec *ret_end)
{
    bool own_time = seat->granted && seat->exp > 0;
    hf_nsec end = own_time ? seat->exp : seat->session_exp;

    if (seat->broken_until > 0 && seat->broken_until < end)
        end = seat->broken_until;
    *ret_end = end;
    if (seat->broken_until > 0 && seat->broken_until <= t->now)
        return SQ_OVER;
    if (own_time)
        return seat->exp <= t->now ? SQ_OVER : SQ_LIVES;
    if (!seat->has_session || seat->session_exp <= t->now)
        return SQ_ORPHAN;
    return hf__sq_proc_dead(t->s, &seat->proc) ? SQ_ORPHAN : SQ_LIVES;
}

void hf__sq_due_note(sq_txn *t, const char *key, size_t len)
{
    if (t->rc)
        return;
    if (t->due_len + len + 2 > t->due_cap) {
        size_t cap = t->due_cap * 2 + len + 256;
        uint8_t *more = hfd_realloc(t->due, cap);

        if (!more) {
            t->rc = SQLITE_NOMEM;
            return;
        }
        t->due = more;
        t->due_cap = cap;
    }
    /* Behind the key its length, so that the last can be taken off. */
    memcpy(t->due + t->due_len, key, len);
    t->due_len += len;
    t->due[t->due_len++] = (uint8_t)(len & 0xff);
    t->due[t->due_len++] = (uint8_t)(len >> 8);
}

void hf__sq_wake_note(sq_txn *t, const sq_wake *wake)
{
    if (t->rc)
        return;
    if (t->wake_count == t->wake_cap) {
        sq_wake *more = hfd_alloc(2 * t->wake_cap * sizeof *more);

        if (!more) {
            t->rc = SQLITE_NOMEM;
            return;
        }
        memcpy(more, t->wakes, t->wake_count * sizeof *more);
        if (t->wakes != t->few)
            hfd_free(t->wakes);
        t->wakes = more;
        t->wake_cap *= 2;
    }
    t->wakes[t->wake_count++] = *wake;
}

int64_t hf__sq_permits(sq_txn *t, const char *key, size_t len,
                       uint64_t *ret_upto)
{
    sqlite3_stmt *stmt = hf__sq_stmt(t, SQL_PERMITS);
    int64_t used = 0;

    *ret_upto = 0;
    hf__sq_bind_key(stmt, 1, key, len);
    if (hf__sq_row(t, stmt)) {
        used = sqlite3_column_int64(stmt, 0);
        *ret_upto = (uint64_t)sqlite3_column_int64(stmt, 1);
        sqlite3_reset(stmt);
    }
    return used;
}

void hf__sq_permits_add(sq_txn *t, const char *key, size_t len, uint64_t num)
{
    sqlite3_stmt *stmt = hf__sq_stmt(t, SQL_PERMITS_ADD);

    if (!stmt)
        return;
    hf__sq_bind_key(stmt, 1, key, len);
    sqlite3_bind_int(stmt, 2, num > 0 ? 1 : -1);
    sqlite3_bind_int64(stmt, 3, (int64_t)num);
    hf__sq_run(t, stmt);
    if (num == 0) { /* nothing stays behind of a key that nobody holds */
        stmt = hf__sq_stmt(t, SQL_PERMITS_NONE);
        hf__sq_bind_key(stmt, 1, key, len);
        hf__sq_run(t, stmt);
    }
}

void hf__sq_drop_seat(sq_txn *t, const char *key, size_t len, uint64_t num,
                      uint8_t mode, bool granted)
{
    sqlite3_stmt *stmt = hf__sq_stmt(t, SQL_DELETE);

    if (!stmt)
        return;
    hf__sq_bind_key(stmt, 1, key, len);
    sqlite3_bind_int64(stmt, 2, (int64_t)num);
    hf__sq_run(t, stmt);
    if (mode == HF_PERMIT && granted)
        hf__sq_permits_add(t, key, len, 0);
    hf__sq_due_note(t, key, len);
}

void hf__sq_drop_row(sq_txn *t, const hf_id *sid)
{
    sqlite3_stmt *stmt = hf__sq_stmt(t, SQL_SESSION_DROP);
    bool news = false;

    hf__sq_bind_id(stmt, 1, sid);
    while (hf__sq_row(t, stmt))
        news = sqlite3_column_int64(stmt, 0) != 0;
    if (!news)
        return;
    stmt = hf__sq_stmt(t, SQL_NEWS_DROP);
    hf__sq_bind_id(stmt, 1, sid);
    hf__sq_run(t, stmt);
}

void hf__sq_drop_session(sq_txn *t, const hf_id *sid)
{
    sqlite3_stmt *stmt;

    hf__sq_drop_row(t, sid);
    stmt = hf__sq_stmt(t, SQL_SESSION_ENTRIES);
    if (!stmt)
        return;
    hf__sq_bind_id(stmt, 1, sid);
    sqlite3_bind_int64(stmt, 2, t->now);
    /* All rows are deleted before the first is returned. */
    while (hf__sq_row(t, stmt)) {
        const char *key = sqlite3_column_blob(stmt, 0);
        size_t len = (size_t)sqlite3_column_bytes(stmt, 0);

        if (sqlite3_column_int(stmt, 1) == HF_PERMIT &&
            sqlite3_column_int(stmt, 2) != 0)
            hf__sq_permits_add(t, key, len, 0);
        hf__sq_due_note(t, key, len);
    }
}

/* Is the first who waits due?  By the invariant only the one right before it
 * needs to be looked at. */
static bool is_due(sq_txn *t, const char *key, size_t len, const sq_seat *first)
{
    sq_seat before;
    uint64_t upto;

    if (first->mode == HF_PERMIT)
        return hf__sq_permits(t, key, len, &upto) < (int64_t)first->places;
    if (!hf__sq_seat_before(t, key, len, first->num, &before))
        return true;
    return first->mode == HF_SHARED && before.mode == HF_SHARED;
}

static void grant_seat(sq_txn *t, const char *key, size_t len,
                       const sq_seat *seat)
{
    uint64_t token = hf__sq_draw(t, seat->run ? seat->run : 1);
    sqlite3_stmt *stmt = hf__sq_stmt(t, SQL_GRANT);
    sq_wake wake = {.word = seat->wake,
                    .rid = seat->rid,
                    .sid = seat->sid,
                    .token = token,
                    .until = seat->session_exp};

    if (!stmt)
        return;
    if (t->wake_count == 0 && t->coming != seat->wake + 1)
        hf__sq_letter_coming(t->s, seat->wake);
    hf__sq_bind_key(stmt, 1, key, len);
    sqlite3_bind_int64(stmt, 2, (int64_t)seat->num);
    sqlite3_bind_int64(stmt, 3, (int64_t)token);
    hf__sq_run(t, stmt);
    if (seat->mode == HF_PERMIT)
        hf__sq_permits_add(t, key, len, seat->num);
    hf__sq_wake_note(t, &wake);
}

/* Does anybody wait?  By the invariant the last entry tells. */
static bool some_wait(sq_txn *t, const char *key, size_t len)
{
    sqlite3_stmt *stmt = hf__sq_stmt(t, SQL_LAST);
    bool waits;

    hf__sq_bind_key(stmt, 1, key, len);
    if (!hf__sq_row(t, stmt))
        return false;
    waits = sqlite3_column_int(stmt, 3) == 0;
    sqlite3_reset(stmt);
    return waits;
}

/* The head of the queue, and the counter, in case a number is drawn for it. */
static bool ask_head(sq_txn *t, const char *key, size_t len, sq_seat *ret)
{
    sqlite3_stmt *stmt = hf__sq_stmt(t, SQL_HEAD);

    if (!stmt)
        return false;
    hf__sq_bind_key(stmt, 1, key, len);
    sqlite3_bind_int64(stmt, 2, 0);
    if (!hf__sq_row(t, stmt))
        return false;
    read_seat(stmt, ret);
    if (!t->counted) {
        t->counter = (uint64_t)sqlite3_column_int64(stmt, 18);
        t->reserved = (uint64_t)sqlite3_column_int64(stmt, 19);
        t->counted = true;
    }
    sqlite3_reset(stmt);
    return true;
}

/* Where somebody waited the last time the head is looked at first: most often
 * it waits, and then nothing else need be asked. */
static void settle_queue(sq_txn *t, const char *key, size_t len)
{
    bool crowded = t->s->crowded;
    sq_seat first;
    uint64_t after = 0;
    hf_nsec end;

    t->s->crowded = false;
    if ((!crowded && !some_wait(t, key, len)) || !ask_head(t, key, len, &first))
        return;
    if (crowded && first.granted && !some_wait(t, key, len))
        return;
    t->s->crowded = true;
    /* The usual case in one look: nobody holds, and the head wants it alone. */
    if (!first.granted && first.mode == HF_EXCLUSIVE &&
        hf__sq_seat_life(t, &first, &end) == SQ_LIVES) {
        grant_seat(t, key, len, &first);
        return;
    }
    /* Past the permits that are out; of other kinds few hold at a time. */
    if (first.mode == HF_PERMIT)
        hf__sq_permits(t, key, len, &after);
    while (hf__sq_seat_waits(t, key, len, after, &first)) {
        if (!is_due(t, key, len, &first) || t->rc)
            return;
        switch (hf__sq_seat_life(t, &first, &end)) {
        case SQ_LIVES:
            grant_seat(t, key, len, &first);
            break;
        case SQ_OVER:
            hf__sq_drop_seat(t, key, len, first.num, first.mode, false);
            break;
        case SQ_ORPHAN:
            hf__sq_drop_session(t, &first.sid);
            if (!first.has_session)
                hf__sq_drop_seat(t, key, len, first.num, first.mode, false);
            break;
        }
    }
}

void hf__sq_settle(sq_txn *t)
{
    char key[HF_KEY_MAX];

    while (t->due_len >= 2 && !t->rc) {
        size_t len = t->due[t->due_len - 2] | (size_t)t->due[t->due_len - 1]
                                                  << 8;

        /* Copied: settling may note more and move the list. */
        t->due_len -= 2 + len;
        memcpy(key, t->due + t->due_len, len);
        settle_queue(t, key, len);
    }
}

void hf__sq_watch_note(sq_txn *t, const sq_proc *proc)
{
    if (t->s->network || proc->pid <= 0 || t->s->self.pidns == 0 ||
        proc->pidns != t->s->self.pidns || proc->pid == t->s->self.pid)
        return;
    for (size_t i = 0; i < t->watch_count; i++)
        if (t->watch[i].pid == proc->pid && t->watch[i].slot == proc->slot)
            return;
    if (t->watch_count < sizeof t->watch / sizeof t->watch[0])
        t->watch[t->watch_count++] = *proc;
    else /* the last place goes to the latest: my predecessor */
        t->watch[t->watch_count - 1] = *proc;
}

/* If this many hold, it is cheaper to look at the sessions than at the rest
 * of the holders. */
#define WALK 16

bool hf__sq_clear(sq_txn *t, const char *key, size_t len, bool drop)
{
    sq_seat seat;
    uint64_t after = 0;
    hf_nsec end;
    int walked = 0;

    while (walked < WALK && hf__sq_seat_next(t, key, len, after, &seat)) {
        sq_life life = hf__sq_seat_life(t, &seat, &end);

        if (life != SQ_LIVES && !drop)
            return true;
        if (life == SQ_ORPHAN)
            hf__sq_drop_session(t, &seat.sid);
        if (life == SQ_OVER || (life == SQ_ORPHAN && !seat.has_session))
            hf__sq_drop_seat(t, key, len, seat.num, seat.mode, seat.granted);
        if (life != SQ_LIVES)
            continue;
        if (!seat.granted) {
            /* It stands first and waits: then it has to wait, or an earlier
             * change was not settled, which none leaves behind. */
            if (after == 0 && !drop)
                return true;
            break;
        }
        if (t->end == 0 || end < t->end)
            t->end = end;
        hf__sq_watch_note(t, &seat.proc);
        after = seat.num;
        walked++;
    }
    if (walked == WALK && hf__sq_sweep_all(t, drop))
        return true;
    if (drop) {
        hf__sq_due_note(t, key, len);
        hf__sq_settle(t);
    }
    return false;
}
