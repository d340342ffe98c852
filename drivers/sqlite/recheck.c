/* recheck.c - looking again at places that wait.
 *
 * A waiter that was woken asks this, so the usual answer is found by reading
 * alone: its row is marked.  Where it is not, the head of its queue is judged,
 * still reading; only if somebody there is dead is the same asked again as a
 * write, which drops the dead and grants what is due.  So a batch of ten
 * thousand places behind living holders writes nothing. */
#include "store.h"

#include <string.h>

/* One place; true: there is something to put right. */
static bool recheck_place(sq_txn *t, hf_place *place, bool drop)
{
    sq_seat before;
    sq_mine m;

    hf__sq_mine(t, place, &m);
    if (t->rc)
        return false;
    if (m.found && !hf__sq_mine_valid(t, &m)) {
        if (!drop)
            return true;
        hf__sq_clear(t, place->key, place->key_len, true);
        hf__sq_answer_gone(t, place);
        place->reason = HF_EEXPIRED;
        return false;
    }
    if (!m.found) {
        hf__sq_answer_gone(t, place);
        return false;
    }
    if (!m.granted) {
        t->end = 0;
        if (hf__sq_clear(t, place->key, place->key_len, drop))
            return true;
        if (drop)
            hf__sq_mine(t, place, &m);
    }
    if (t->rc || !m.found)
        return false;
    hf__sq_answer(t, place, &m);
    if (m.granted)
        return false;
    if (t->s->network)
        place->look_in = hf__sq_poll_in(place);
    else if (t->end > 0)
        place->look_in = t->end > t->now ? t->end - t->now : 1;
    if (!t->s->network &&
        hf__sq_seat_before(t, place->key, place->key_len, m.num, &before))
        hf__sq_watch_note(t, &before.proc);
    return false;
}

/* All of them; true: something is to be put right, ask again as a write. */
static bool recheck_all(sq_txn *t, bool drop)
{
    hf_op *op = t->op;
    int64_t news;

    if (!hf__sq_session(t, &news)) {
        t->code = HF_EEXPIRED;
        return false;
    }
    for (size_t i = 0; i < op->place_count && !t->rc; i++)
        if (recheck_place(t, op->places[i], drop))
            return true;
    return false;
}

/* The core's memory of who waits decides when pidfds may go. */
static void note_answers(sq_txn *t)
{
    const hf_op *op = t->op;

    if (t->rc || t->code)
        return;
    for (size_t i = 0; i < op->place_count; i++) {
        hf_place *place = op->places[i];
        sq_known known = {.rid = place->rid,
                          .num = place->own[0] & SQ_NUM,
                          .sure = true,
                          .waits = place->verdict == HF_WAITS};

        if (place->verdict == HF_GONE)
            hf__sq_known_drop(t->s, &place->rid);
        else if (place->verdict == HF_GRANTED)
            hf__sq_known_put(t->s, &known);
    }
}

static void recheck_body(sq_txn *t)
{
    recheck_all(t, true);
    t->after = note_answers;
}

/* One place, woken because it was granted, and there is a letter that says so.
 * The run is what was asked for when it joined: a grant gives all of it. */
static bool recheck_letter(hf_store *s, hf_op *op)
{
    hf_place *place = op->places[0];
    sq_wake letter = {.rid = place->rid};
    sq_txn t = {.s = s, .op = op};

    op->sent = hfd_now();
    if (place->own[0] == 0 || !hf__sq_letter_read(s, &op->sid, &letter) ||
        letter.until <= op->sent)
        return false;
    op->remaining = letter.until - op->sent;
    place->verdict = HF_GRANTED;
    place->reason = 0;
    place->num = place->own[0];
    place->token = letter.token;
    place->remaining = place->look_in = 0;
    note_answers(&t);
    hfd_finish(op, HF_APPLIED, 0);
    return true;
}

/* The same without a letter: its row says all, and one statement is a
 * transaction of its own. */
static bool recheck_granted(hf_store *s, hf_op *op)
{
    hf_place *place = op->places[0];
    sq_mine m;
    sq_txn t;

    hf__sq_read_alone(&t, s, op);
    hf__sq_mine(&t, place, &m);
    pthread_mutex_unlock(&s->reader_mu);
    if (t.rc || !m.found || !m.granted || !m.session_lives ||
        !hf__sq_mine_valid(&t, &m) ||
        memcmp(&m.sid, &op->sid, sizeof m.sid) != 0)
        return false;
    hf__sq_answer(&t, place, &m);
    note_answers(&t);
    hfd_finish(op, HF_APPLIED, 0);
    return true;
}

void hf__sq_recheck(hf_store *s, hf_op *op)
{
    sq_txn t;
    bool again;

    for (size_t i = 0; i < op->place_count; i++)
        hf__sq_listen(s, op->places[i]);
    if (op->place_count == 1 &&
        (recheck_letter(s, op) || recheck_granted(s, op)))
        return;
    hf__sq_read_begin(&t, s, op);
    again = recheck_all(&t, false);
    hf__sq_read_end(&t);
    if (again && !t.rc) {
        hf__sq_txn_done(&t);
        hf__sq_write(s, op, recheck_body);
        return;
    }
    note_answers(&t);
    hf__sq_txn_done(&t);
    if (t.rc) {
        hf__sq_finish_failed(&t);
        return;
    }
    hf__sq_watch_noted(&t);
    hfd_finish(op, HF_APPLIED, t.code);
}
