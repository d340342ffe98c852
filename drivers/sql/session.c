/* session.c - attach, renew, detach: one row, whatever is held.
 *
 * The row is the lease.  Attach inserts it, and nothing else does; a renewal
 * extends it only while it has not expired by the server's clock, judged on the
 * locked row; an eviction deletes it only if it has.  So the two meet on the
 * row, and whoever comes second sees what the first has done.
 *
 * What is left is what the server says in the same answer, counted from the
 * instant before the question was sent: a renewal that waited for the row has
 * eaten of its own lease, and says so.
 *
 * Reply lost: an attach asked again finds its row; a renewal that arrives late
 * extends only what lives; a detach asked again finds nothing.  Paused between
 * deleting the row and cutting the entries: they are orphans, and anybody who
 * looks at their queue cuts them. */
#include <string.h>
#include <unistd.h>

#include "native.h"

/* NEWS_MOST: half of the shortest column that they have (dialect_words.c). */
enum { TIDY_RENEWALS = 20, TIDY_ATTACHES = 16, NEWS_MOST = 2000 };

static bool is_lease(hf_store *store, hf_op *op)
{
    if (op->ttl > 0)
        return true;
    hfd_error(&op->error, HF_EINVAL, store->port->class->driver, 0,
              "a session's lease must be longer than 0");
    hfd_finish(op, HF_NOT_APPLIED, HF_EINVAL);
    return false;
}

/* From an answer with the session's row (SQL_SESSION_ANSWER); false: it is not
 * there, or over. */
static bool take_session(sql_use *use)
{
    hf_op *op = use->op;
    int64_t left = sql_span(&use->rows, 0, 0, 0);

    if (use->rows.rows == 0 || left <= 0)
        return false;
    op->remaining = left * 1000 < op->ttl ? left * 1000 : op->ttl;
    op->store_us = use->store->observer ? 0 : sql_instant(&use->rows, 0, 1);
    sql_note_clock(use->store, op->store_us, op->sent);
    sql_seen_note(use->store, &op->sid, sql_number(&use->rows, 0, 3, 0),
                  op->ttl / 1000, left, op->sent);
    return true;
}

/* A statement on the own row has run: its answer, or the row read again. */
static bool read_session(sql_use *use, const char *sid)
{
    const char *params[] = {sid};

    return use->rows.rows > 0 || sql_run(use, SQL_SESSION, params);
}

/* Bytes that no database refuses in a text: a name is for eyes. */
static void write_name(const hf_op *op, char ret[256])
{
    size_t len = op->text_len < 255 ? op->text_len : 255;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)op->text[i];

        ret[i] = c >= 0x20 && c < 0x7f ? (char)c : '?';
    }
    ret[len] = '\0';
}

void sql_native_attach(hf_store *store, hf_op *op)
{
    sql_native_data *data = sql_native_of(store);
    char sid[SQL_ID_LEN + 1], ttl[SQL_NUMBER_MAX], pid[SQL_NUMBER_MAX];
    char name[256];
    const char *params[] = {sid, ttl, pid, data->host_name, name, ""};
    sql_use use;
    uint8_t draw;
    bool made;

    if (!is_lease(store, op))
        return;
    sql_id_text(&op->sid, sid);
    sql_number_text(op->ttl / 1000, ttl);
    sql_number_text(getpid(), pid);
    write_name(op, name);
    if (sql_begin(&use, store, op) != 0 || sql_check_lease(&use, op->ttl)) {
        sql_fail(&use);
        return;
    }
    use.once = true;
    made = sql_run(&use, SQL_ATTACH, params);
    if (!made && use.end == SQL_CLASH) /* it is there already: asked again */
        made = sql_run(&use, SQL_SESSION, params);
    if (!made || !read_session(&use, sid)) {
        sql_fail(&use);
        return;
    }
    if (!take_session(&use)) {
        sql_refuse(&use, HF_EEXPIRED, "this session is over");
        return;
    }
    sql_standing_begin(data, &op->sid);
    if (!sql_watch_epoch(&use)) {
        sql_fail(&use);
        return;
    }
    hfd_random(&draw, sizeof draw);
    if (draw % TIDY_ATTACHES == 0)
        sql_tidy(&use);
    sql_finish(&use, 0);
}

/* The older half of long news, which was told: they are kept only so that a
 * late leave can say why.  If this fails the next renewal does it. */
static void drop_news(sql_use *use, const char *news)
{
    sql_native_data *data = sql_native_of(use->store);
    char sid[SQL_ID_LEN + 1], old[NEWS_MOST / 2 + 1];
    const char *params[] = {sid, old};
    size_t len = sizeof old - 1;

    while (len > 0 && news[len - 1] != ';')
        len--;
    memcpy(old, news, len);
    old[len] = '\0';
    sql_id_text(&use->op->sid, sid);
    if (len == 0 || !sql_run(use, SQL_NEWS_DROP, params))
        return;
    pthread_mutex_lock(&data->mu);
    data->news_told -= len;
    pthread_mutex_unlock(&data->mu);
}

/* "RID.CODE;...": what was not told yet. */
static void tell_news(sql_use *use, const char *news)
{
    sql_native_data *data = sql_native_of(use->store);
    hf_host *host = &use->store->host;
    size_t told, len = news ? strlen(news) : 0;

    pthread_mutex_lock(&data->mu);
    if (!sql_same_id(&data->news_of, &use->op->sid))
        data->news_told = 0;
    data->news_of = use->op->sid;
    told = data->news_told;
    data->news_told = len;
    pthread_mutex_unlock(&data->mu);
    while (told < len) {
        const char *at = news + told;
        const char *end = strchr(at, ';');
        hf_id rid;
        int reason;

        if (!end)
            break;
        told += (size_t)(end - at) + 1;
        if (end - at <= SQL_ID_LEN + 1 || !sql_id_from(at, SQL_ID_LEN, &rid))
            continue;
        reason = sql_news_code(at + SQL_ID_LEN + 1);
        if (hf_error_class(reason) == HF_CLASS_LOST)
            host->news(host->ctx, &rid, reason);
    }
    if (len > NEWS_MOST)
        drop_news(use, news);
}

static bool is_time_to_tidy(sql_native_data *data)
{
    bool due;

    pthread_mutex_lock(&data->mu);
    due = ++data->renewals >= TIDY_RENEWALS;
    if (due)
        data->renewals = 0;
    pthread_mutex_unlock(&data->mu);
    return due;
}

void sql_native_renew(hf_store *store, hf_op *op)
{
    char sid[SQL_ID_LEN + 1], ttl[SQL_NUMBER_MAX];
    const char *params[] = {sid, ttl};
    sql_use use;

    if (!is_lease(store, op))
        return;
    sql_id_text(&op->sid, sid);
    sql_number_text(op->ttl / 1000, ttl);
    if (sql_begin(&use, store, op) != 0 || sql_check_lease(&use, op->ttl) ||
        !sql_run(&use, SQL_RENEW, params) || !read_session(&use, sid)) {
        sql_fail(&use);
        return;
    }
    if (!take_session(&use)) {
        sql_seen_forget(sql_native_of(store), &op->sid);
        sql_refuse(&use, HF_EEXPIRED, "the session's lease ran out");
        return;
    }
    tell_news(&use, sql_cell(&use.rows, 0, 2));
    if (!sql_watch_epoch(&use)) {
        sql_fail(&use);
        return;
    }
    if (is_time_to_tidy(sql_native_of(store)))
        sql_tidy(&use);
    sql_finish(&use, 0);
}

/* ---- Detach ------------------------------------------------------------- */

/* Everything of this session in one queue, but for leases that run. */
static bool leave_queue(sql_use *use, const char *hex)
{
    sql_queue queue = {.there = false};
    uint64_t until = 0;
    bool done = sql_queue_look(use, hex, &queue), cut = false;

    if (done)
        until = sql_held_until(queue.entries, queue.n, NULL);
    for (size_t i = 0, end; done && i < queue.n; i = end) {
        const sql_entry *first = &queue.entries[i], *last = first;

        for (end = i; end < queue.n; end++) {
            const sql_entry *entry = &queue.entries[end];

            if (sql_life_of(entry) == SQL_BY_TIME ||
                !sql_same_id(&entry->sid, &use->op->sid))
                break;
            last = entry;
        }
        if (end == i) {
            end++;
            continue;
        }
        done = sql_cut(use, hex, first->text,
                       (size_t)(last->text + last->len - first->text));
        cut = true;
    }
    if (done && cut && sql_queue_look(use, hex, &queue))
        sql_wake_due(use, &queue, until, NULL);
    sql_queue_done(&queue);
    return done;
}

/* Tombs of this session: "RID.SID;" each. */
static bool clear_tombs(sql_use *use, const char *hex, const char *tombs,
                        const char *sid)
{
    for (const char *at = tombs; at && *at;) {
        char text[2 * SQL_ID_LEN + 3];
        const char *params[] = {hex, text};
        const char *end = strchr(at, ';');

        if (!end || end - at != 2 * SQL_ID_LEN + 1)
            break;
        memcpy(text, at, (size_t)(end - at) + 1);
        text[end - at + 1] = '\0';
        at = end + 1;
        if (memcmp(text + SQL_ID_LEN + 1, sid, SQL_ID_LEN) == 0 &&
            !sql_run(use, SQL_UNTOMB, params))
            return false;
    }
    return true;
}

/* The rows of MINE, copied: their cells go with the next statement. */
static bool leave_rows(sql_use *use, const char *sid)
{
    sql_rows mine = use->rows;
    bool done = true;

    use->rows = (sql_rows){.rows = 0};
    for (size_t row = 0; done && row < mine.rows; row++) {
        const char *hex = sql_cell(&mine, row, 0);
        const char *body = sql_cell(&mine, row, 1);

        if (!hex)
            continue;
        if (body && strstr(body, sid))
            done = leave_queue(use, hex);
        if (done)
            done = clear_tombs(use, hex, sql_cell(&mine, row, 2), sid);
    }
    sql_rows_done(&mine);
    return done;
}

void sql_native_detach(hf_store *store, hf_op *op)
{
    sql_native_data *data = sql_native_of(store);
    char sid[SQL_ID_LEN + 1];
    const char *params[] = {sid};
    sql_use use;
    bool done;

    sql_id_text(&op->sid, sid);
    sql_seen_forget(data, &op->sid);
    done = sql_begin(&use, store, op) == 0 && sql_run(&use, SQL_DETACH, params);
    if (done && sql_may_stand(data, &op->sid))
        done = sql_run(&use, SQL_MINE, params) && leave_rows(&use, sid);
    if (done)
        sql_finish(&use, 0);
    else
        sql_fail(&use);
}
