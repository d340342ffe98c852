/* answer.c - where a place stands in its queue, said as driver.h wants it.
 *
 * A place that waits is answered from the head of its queue if that shows that
 * it must wait: one ahead of it that does not hold is enough.  The dead among
 * those that hold are dropped first, so that nobody waits for them.  A place
 * whose number lies behind the head is taken to be there still: only its own
 * session, or that session's death, can take it out of the queue, and the
 * renewal hears of the latter.
 *
 * An entry that was broken answers as gone while it still stands: its owner
 * must not learn of a grant that ends without it.  In a strict store nobody is
 * granted before the quarantine is over, wherever it stands. */
#include <stdlib.h>
#include <string.h>

#include "native.h"

sql_entry sql_entry_of(const hf_op *op, const hf_place *place)
{
    return (sql_entry){.num = place->own[0],
                       .rid = place->rid,
                       .sid = op->sid,
                       .mode = (hf_mode)place->mode,
                       .run = place->run > 0 ? place->run : 1,
                       .places = place->mode == HF_PERMIT ? place->places : 0,
                       .lease_ms = (place->lease + HF_MS(1) - 1) / HF_MS(1),
                       .born_us = (int64_t)(place->own[1] & SQL_OWN_BORN)};
}

void sql_note_entry(hf_place *place, const sql_entry *entry)
{
    place->own[0] = entry->num;
    place->own[1] = (place->own[1] & (HF_PLACE_PUSH | SQL_OWN_VALUE)) |
                    ((uint64_t)entry->born_us & SQL_OWN_BORN);
}

void sql_answer_gone(hf_place *place, int reason)
{
    place->verdict = HF_GONE;
    place->reason = reason;
    place->token = 0;
    place->remaining = place->look_in = 0;
}

int sql_news_code(const char *text)
{
    long code = strtol(text, NULL, 10);

    return code > 0 && code < 10000 ? -(int)code : 0;
}

/* The reason that the news have for this rid: "RID.CODE;..."; 0: none. */
static int find_news(const char *news, const hf_id *rid)
{
    char id[SQL_ID_LEN + 2];
    const char *at;

    sql_id_text(rid, id);
    memcpy(id + SQL_ID_LEN, ".", 2);
    at = news ? strstr(news, id) : NULL;
    return at ? sql_news_code(at + SQL_ID_LEN + 1) : 0;
}

bool sql_answer_why_gone(sql_use *use, hf_place *place)
{
    const char *news = NULL;
    bool alive = false;
    int reason;

    if (!sql_own_session(use, &alive, &news))
        return false;
    reason = find_news(news, &place->rid);
    if (hf_error_class(reason) != HF_CLASS_LOST)
        reason = alive ? HF_ENOTHELD : HF_EEXPIRED;
    sql_answer_gone(place, reason);
    return true;
}

static bool answer_granted(sql_use *use, hf_place *place,
                           const sql_entry *entry, const sql_queue *queue)
{
    bool may = true;
    hf_nsec in = 0;

    if (!sql_may_grant(use, &may, &in))
        return false;
    place->verdict = may ? HF_GRANTED : HF_WAITS;
    place->look_in = may ? 0 : in;
    place->token = may ? entry->num : 0;
    place->remaining =
        use->store->observer || queue->now_us == 0
            ? 0 /* an observer cannot say when it began: confirm it anew */
            : sql_lease_left(entry, queue->now_us) * 1000;
    return true;
}

static void answer_waits(sql_use *use, hf_place *place, int64_t left_us)
{
    place->verdict = HF_WAITS;
    place->token = 0;
    place->remaining = 0;
    place->look_in = left_us == INT64_MAX ? 0
                     : left_us <= 0       ? 1
                                          : left_us * 1000;
    if (atomic_load(&use->store->deaf))
        sql_poll_soon(use->store, use->op->kind == HF_OP_JOIN);
}

/* Fill in what is known of the entry at `me`. */
static bool answer_entry(sql_use *use, const sql_queue *queue, size_t me,
                         int64_t left_us, hf_place *place)
{
    const sql_entry *entry = &queue->entries[me];

    if (entry->closed || entry->brk_us > 0) {
        sql_answer_gone(place, entry->closed ? HF_ENOTHELD : HF_EFORCED);
        return true;
    }
    place->reason = 0;
    place->num = entry->num;
    place->run = entry->run;
    if (me < sql_held(queue->entries, queue->n)) {
        sql_note_entry(place, entry);
        return answer_granted(use, place, entry, queue);
    }
    answer_waits(use, place, left_us);
    sql_note_entry(place, entry);
    return true;
}

/* Behind the head of a long queue, with one ahead that waits, too. */
static bool is_behind(const sql_queue *queue, const hf_place *place)
{
    return !queue->whole && place->own[0] > 0 && queue->n > 0 &&
           place->own[0] > queue->entries[queue->n - 1].num &&
           sql_held(queue->entries, queue->n) < queue->n;
}

/* A lease that runs is told with the clock that was read beside it. */
static bool wants_clock(const sql_use *use, const sql_queue *queue, size_t me)
{
    return queue->now_us == 0 && !use->store->observer &&
           queue->entries[me].exp_us > 0;
}

bool sql_answer(sql_use *use, const char *hex, sql_queue *queue,
                hf_place *place)
{
    size_t me = sql_find(queue->entries, queue->n, &place->rid);
    int64_t left_us = INT64_MAX;

    if (me == queue->n && !queue->whole && !is_behind(queue, place)) {
        if (!sql_queue_look(use, hex, queue))
            return false;
        me = sql_find(queue->entries, queue->n, &place->rid);
    }
    if (me == queue->n && queue->whole)
        return sql_answer_why_gone(use, place);
    if (me < queue->n && wants_clock(use, queue, me)) {
        if (!sql_queue_look(use, hex, queue))
            return false;
        me = sql_find(queue->entries, queue->n, &place->rid);
        if (me == queue->n)
            return sql_answer_why_gone(use, place);
    }
    if (me >= sql_held(queue->entries, queue->n)) {
        if (!sql_drop_dead(use, hex, queue, false, &place->rid, &left_us))
            return false;
        me = sql_find(queue->entries, queue->n, &place->rid);
        if (me == queue->n && queue->whole)
            return sql_answer_why_gone(use, place);
    }
    if (me < queue->n)
        return answer_entry(use, queue, me, left_us, place);
    place->reason = 0;
    place->num = place->own[0];
    answer_waits(use, place, left_us);
    return true;
}
