/* dead.c - who in a queue is dead, and how it is got out of the way.
 *
 * The order that keeps exclusion (driver.h): first the session's row is
 * deleted, by a statement that judges its expiry on the locked row, so that it
 * meets a renewal which runs at the same time; only when the row is gone are
 * the entries of that session cut out of the queue; only then is somebody due.
 * A session without a row is dead: nothing but attach makes one.
 *
 * Fixed leases that run and closed entries end by their own instant, which was
 * read with the server's clock in the same statement.  Everything is cut by its
 * exact text: an entry that was confirmed, or broken, or left meanwhile has
 * another text or none, and is not touched.
 *
 * Two of us here: both delete, one finds the row gone; both cut, one finds the
 * text gone; both read and tell the same.  Paused anywhere: what is dead stays
 * dead.  Reply lost: the next look finds what is left to do. */
#include <stdio.h>
#include <string.h>

#include "native.h"

/* Sessions to ask for, and what came of it. */
typedef struct roll {
    hf_id sids[SQL_MANY];
    bool dead[SQL_MANY];
    size_t n;
} roll;

bool sql_own_session(sql_use *use, bool *ret_alive, const char **ret_news)
{
    hf_op *op = use->op;
    char sid[SQL_ID_LEN + 1];
    const char *params[] = {sid};
    hf_nsec sent = hfd_now();
    int64_t left;

    sql_id_text(&op->sid, sid);
    if (!sql_run(use, SQL_SESSION, params))
        return false;
    left = sql_span(&use->rows, 0, 0, 0);
    *ret_alive = use->rows.rows > 0 && left > 0;
    if (ret_news)
        *ret_news = use->rows.rows > 0 ? sql_cell(&use->rows, 0, 2) : NULL;
    if (*ret_alive)
        sql_seen_note(use->store, &op->sid, sql_number(&use->rows, 0, 3, 0),
                      left, left, sent);
    else
        sql_seen_forget(sql_native_of(use->store), &op->sid);
    return true;
}

bool sql_evict(sql_use *use, const hf_id *sid, int64_t version, bool *ret_gone)
{
    char id[SQL_ID_LEN + 1], number[SQL_NUMBER_MAX];
    const char *params[] = {id, sql_number_text(version, number)};

    sql_id_text(sid, id);
    *ret_gone = false;
    if (!sql_run(use, use->store->observer ? SQL_EVICT_SEEN : SQL_EVICT,
                 params))
        return false;
    if (use->rows.affected > 0) {
        *ret_gone = true;
    } else {
        /* Renewed just now, or another was faster: who knows, asks. */
        if (!sql_run(use, SQL_SESSION, params))
            return false;
        *ret_gone = use->rows.rows == 0;
    }
    if (*ret_gone)
        sql_seen_forget(sql_native_of(use->store), sid);
    return true;
}

/* Ask for all on the roll; those whose lease is over are evicted. */
static bool call_roll(sql_use *use, roll *list)
{
    char ids[SQL_MANY][SQL_ID_LEN + 1];
    const char *params[SQL_MANY];
    bool there[SQL_MANY] = {false}, over[SQL_MANY] = {false};
    int64_t versions[SQL_MANY] = {0};
    hf_nsec sent = hfd_now();

    for (size_t i = 0; i < SQL_MANY; i++) {
        sql_id_text(&list->sids[i < list->n ? i : list->n - 1], ids[i]);
        params[i] = ids[i];
    }
    if (!sql_run(use, SQL_SESSIONS, params))
        return false;
    for (size_t row = 0; row < use->rows.rows; row++) {
        const char *id = sql_cell(&use->rows, row, 0);
        size_t i = 0;

        while (id && i < list->n && strcmp(ids[i], id) != 0)
            i++;
        if (!id || i == list->n)
            continue;
        there[i] = true;
        versions[i] = sql_number(&use->rows, row, 2, 0);
        sql_seen_note(use->store, &list->sids[i], versions[i],
                      sql_span(&use->rows, row, 3, 0),
                      sql_span(&use->rows, row, 1, 0), sent);
        over[i] = sql_seen_left(sql_native_of(use->store), &list->sids[i]) == 0;
    }
    for (size_t i = 0; i < list->n; i++) {
        list->dead[i] = !there[i];
        if (over[i] &&
            !sql_evict(use, &list->sids[i], versions[i], &list->dead[i]))
            return false;
    }
    return true;
}

/* ---- Whose end has come ------------------------------------------------- */

/* Is it over by its own time?  An observer compares no instants: it has seen
 * the same text for as long as the text says. */
static bool over_by_itself(sql_use *use, const sql_queue *queue,
                           const sql_entry *entry)
{
    sql_native_data *data = sql_native_of(use->store);
    int64_t term = entry->brk_us > 0 ? entry->brk_us : entry->exp_us;

    if (!use->store->observer)
        return sql_over(entry, queue->now_us);
    if (term <= 0)
        return false;
    sql_seen_note(use->store, &entry->rid, entry->exp_us * 31 + entry->brk_us,
                  term, term, hfd_now());
    return sql_seen_left(data, &entry->rid) == 0;
}

static bool ends_by_itself(const sql_entry *entry)
{
    return entry->brk_us > 0 || sql_life_of(entry) == SQL_BY_TIME;
}

/* Marks dead entries among the first `upto`, and all of a dead session. */
static bool mark_dead(sql_use *use, const sql_queue *queue, size_t upto,
                      bool *dead, size_t *ret_count)
{
    sql_native_data *data = sql_native_of(use->store);
    size_t at = 0;

    *ret_count = 0;
    for (size_t i = 0; i < upto; i++) {
        dead[i] = over_by_itself(use, queue, &queue->entries[i]);
        *ret_count += dead[i];
    }
    while (at < upto) {
        roll list = {.n = 0};

        for (; at < upto && list.n < SQL_MANY; at++) {
            const sql_entry *entry = &queue->entries[at];
            bool known = dead[at] || sql_life_of(entry) == SQL_BY_TIME ||
                         sql_seen_left(data, &entry->sid) > 0;

            for (size_t i = 0; i < list.n && !known; i++)
                known = sql_same_id(&list.sids[i], &entry->sid);
            if (!known)
                list.sids[list.n++] = entry->sid;
        }
        if (list.n > 0 && !call_roll(use, &list))
            return false;
        for (size_t i = 0; i < queue->n; i++) {
            for (size_t k = 0; k < list.n && !dead[i]; k++) {
                if (list.dead[k] &&
                    sql_life_of(&queue->entries[i]) == SQL_BY_SESSION &&
                    sql_same_id(&list.sids[k], &queue->entries[i].sid)) {
                    dead[i] = true;
                    ++*ret_count;
                }
            }
        }
    }
    return true;
}

/* ---- Getting them out of the way ---------------------------------------- */

bool sql_cut(sql_use *use, const char *hex, const char *text, size_t len)
{
    char *copy = hfd_alloc(len + 1);
    const char *params[] = {hex, copy};
    bool done;

    if (!copy) {
        hfd_error(&use->err, HF_ENOMEM, use->store->port->class->driver, 0,
                  "out of memory");
        return false;
    }
    memcpy(copy, text, len);
    done = sql_run(use, SQL_CUT, params);
    hfd_free(copy);
    return done;
}

bool sql_drop_values(sql_use *use, const hf_id *rids, size_t n)
{
    while (n > 0) {
        char ids[SQL_MANY][SQL_ID_LEN + 1];
        const char *params[SQL_MANY];
        size_t count = n < SQL_MANY ? n : SQL_MANY;

        for (size_t i = 0; i < SQL_MANY; i++) {
            sql_id_text(&rids[i < count ? i : count - 1], ids[i]);
            params[i] = ids[i];
        }
        if (!sql_run(use, SQL_VALUES_DROP, params))
            return false;
        rids += count;
        n -= count;
    }
    return true;
}

/* The owner of a fixed lease may still live and should hear of its end.  He
 * knows it by his own clock, too: what the database refuses (a column that is
 * full) must not keep the dead in their queue. */
static bool note_end(sql_use *use, const sql_entry *entry)
{
    char sid[SQL_ID_LEN + 1], rid[SQL_ID_LEN + 1], news[SQL_ID_LEN + 16];
    const char *params[] = {sid, news};

    if (entry->closed || entry->brk_us > 0 || sql_life_of(entry) != SQL_BY_TIME)
        return true;
    sql_id_text(&entry->sid, sid);
    sql_id_text(&entry->rid, rid);
    snprintf(news, sizeof news, "%s.%d;", rid, -HF_EEXPIRED);
    if (sql_run(use, SQL_NEWS, params))
        return true;
    if (!use->conn || use->end != SQL_REFUSED)
        return false;
    hfd_log(HF_LOG_WARN, "%s: the end of a lease could not be noted: %s",
            use->store->port->class->driver, use->err.text);
    use->err = (hf_error){.code = 0};
    return true;
}

/* Neighbours go in one statement. */
static bool cut_dead(sql_use *use, const char *hex, const sql_queue *queue,
                     const bool *dead, hf_id *rids)
{
    size_t count = 0;

    for (size_t i = 0, end; i < queue->n; i = end) {
        end = i + 1;
        if (!dead[i])
            continue;
        while (end < queue->n && dead[end])
            end++;
        for (size_t k = i; k < end; k++) {
            rids[count++] = queue->entries[k].rid;
            if (!note_end(use, &queue->entries[k]))
                return false;
        }
        const sql_entry *last = &queue->entries[end - 1];
        if (!sql_cut(use, hex, queue->entries[i].text,
                     (size_t)(last->text + last->len - queue->entries[i].text)))
            return false;
    }
    return sql_drop_values(use, rids, count);
}

static bool find_left(sql_use *use, const sql_queue *queue, int64_t *ret)
{
    sql_native_data *data = sql_native_of(use->store);
    size_t held = sql_held(queue->entries, queue->n);
    int64_t *left = hfd_alloc((held + 1) * sizeof *left);

    if (!left) {
        hfd_error(&use->err, HF_ENOMEM, use->store->port->class->driver, 0,
                  "out of memory");
        return false;
    }
    *ret = INT64_MAX;
    for (size_t i = 0; i < held; i++) {
        const sql_entry *entry = &queue->entries[i];
        bool by_itself = ends_by_itself(entry);

        left[i] = sql_life_of(entry) == SQL_BY_SESSION
                      ? sql_seen_left(data, &entry->sid)
                      : INT64_MAX;
        if (use->store->observer) {
            int64_t own =
                by_itself ? sql_seen_left(data, &entry->rid) : INT64_MAX;

            if (own < left[i])
                left[i] = own;
            /* The guard is for judging, not for looking. */
            if (left[i] - left[i] / 32 < *ret)
                *ret = left[i] - left[i] / 32;
        }
    }
    if (!use->store->observer)
        *ret = sql_next_end(queue->entries, queue->n, queue->n, left,
                            queue->now_us);
    hfd_free(left);
    return true;
}

/* Instants can only be judged with the clock that was read beside them. */
static bool read_enough(sql_use *use, const char *hex, sql_queue *queue,
                        bool all)
{
    size_t held = sql_held(queue->entries, queue->n);
    bool more = !queue->whole && (all || held == queue->n);

    for (size_t i = 0; i < (all ? queue->n : held) && !more; i++)
        more = queue->now_us == 0 && !use->store->observer &&
               ends_by_itself(&queue->entries[i]);
    return !more || sql_queue_look(use, hex, queue);
}

bool sql_drop_dead(sql_use *use, const char *hex, sql_queue *queue, bool all,
                   const hf_id *me, int64_t *ret_left_us)
{
    for (unsigned round = 0; round < SQL_ROUNDS; round++) {
        size_t count = 0, upto;
        uint64_t until;
        bool *dead, done;
        hf_id *rids;

        if (!read_enough(use, hex, queue, all))
            return false;
        upto = all ? queue->n : sql_held(queue->entries, queue->n);
        dead = hfd_alloc(queue->n * (sizeof *dead + sizeof *rids) + 1);
        rids = hfd_alloc(queue->n * sizeof *rids + 1);
        if (!dead || !rids)
            hfd_error(&use->err, HF_ENOMEM, use->store->port->class->driver, 0,
                      "out of memory");
        until = sql_held_until(queue->entries, queue->n, NULL);
        done = dead && rids && mark_dead(use, queue, upto, dead, &count) &&
               (count == 0 || (cut_dead(use, hex, queue, dead, rids) &&
                               sql_queue_look(use, hex, queue)));
        hfd_free(dead);
        hfd_free(rids);
        if (!done)
            return false;
        if (count == 0)
            break;
        sql_wake_due(use, queue, until, me);
    }
    return !ret_left_us || find_left(use, queue, ret_left_us);
}
