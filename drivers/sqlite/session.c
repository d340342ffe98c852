/* session.c - attach, renew, detach, and the news of a session.
 *
 * A session's row is its lease: there is none without it, and nothing but
 * attach makes one.  Renewing demands that it is there and not over by the
 * store's clock, so what expired stays expired even if nobody wanted its locks.
 *
 * News are what others did to our entries: a break writes it to hf_news and
 * flags the row, renew brings it home. */
#include "store.h"

#include <string.h>

static const hf_id first_id;

bool hf__sq_session(sq_txn *t, int64_t *ret_news)
{
    sqlite3_stmt *stmt = hf__sq_stmt(t, SQL_SESSION);
    bool lives = false;

    hf__sq_bind_id(stmt, 1, &t->op->sid);
    *ret_news = 0;
    if (hf__sq_row(t, stmt)) {
        hf_nsec exp = sqlite3_column_int64(stmt, 0);

        lives = exp > t->now;
        t->op->remaining = lives ? exp - t->now : 0;
        *ret_news = sqlite3_column_int64(stmt, 1);
        sqlite3_reset(stmt);
    }
    return lives;
}

bool hf__sq_sweep_all(sq_txn *t, bool drop)
{
    hf_id at = first_id;
    sqlite3_stmt *stmt;

    while ((stmt = hf__sq_stmt(t, SQL_SESSIONS))) {
        sq_proc proc;
        hf_nsec exp;

        hf__sq_bind_id(stmt, 1, &at);
        if (!hf__sq_row(t, stmt))
            break;
        at = hf__sq_column_id(stmt, 0);
        exp = sqlite3_column_int64(stmt, 1);
        proc = (sq_proc){
            sqlite3_column_int64(stmt, 2), sqlite3_column_int64(stmt, 3),
            sqlite3_column_int64(stmt, 4), sqlite3_column_int64(stmt, 5)};
        sqlite3_reset(stmt);
        if (exp > t->now && !hf__sq_proc_dead(t->s, &proc)) {
            hf__sq_watch_note(t, &proc);
            continue;
        }
        if (!drop)
            return true;
        hf__sq_drop_session(t, &at);
    }
    if (drop)
        hf__sq_settle(t);
    return false;
}

static void sweep_body(sq_txn *t)
{
    hf__sq_sweep_all(t, true);
    t->watch_count = 0;
}

static void ignore_done(hf_op *op)
{
    (void)op;
}

void hf__sq_sweep(hf_store *s, hf_nsec deadline)
{
    hf_op op = {.deadline = deadline, .done = ignore_done};
    sq_txn t;
    bool found;

    hf__sq_read_begin(&t, s, &op);
    found = hf__sq_sweep_all(&t, false);
    hf__sq_read_end(&t);
    hf__sq_txn_done(&t);
    if (found)
        hf__sq_write(s, &op, sweep_body);
}

static void after_attach(sq_txn *t)
{
    if (t->reached_commit)
        atomic_store(&t->s->detached, false);
    if (t->rc)
        return;
    pthread_mutex_lock(&t->s->watch_mu);
    t->s->sid = t->op->sid;
    pthread_mutex_unlock(&t->s->watch_mu);
}

static void insert_session(sq_txn *t)
{
    const hf_store *s = t->s;
    const hf_op *op = t->op;
    sqlite3_stmt *stmt = hf__sq_stmt(t, SQL_ATTACH);

    if (!stmt)
        return;
    hf__sq_bind_id(stmt, 1, &op->sid);
    sqlite3_bind_int64(stmt, 2, s->slot);
    sqlite3_bind_int64(stmt, 3, s->self.pid);
    sqlite3_bind_int64(stmt, 4, s->self.pidns);
    sqlite3_bind_int64(stmt, 5, s->self.start);
    sqlite3_bind_text(stmt, 6, s->self.host, -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 7, op->text ? op->text : "",
                      op->text ? (int)op->text_len : 0, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, 8, op->ttl);
    sqlite3_bind_int64(stmt, 9, t->now + op->ttl);
    hf__sq_run(t, stmt);
}

void hf__sq_attach(sq_txn *t)
{
    int64_t news;

    /* Courtesy to those who died; no need where nobody was a moment ago. */
    if (!t->s->vacant)
        hf__sq_sweep_all(t, true);
    t->s->vacant = false; /* the next attach of this store is long after */
    t->watch_count = 0;
    insert_session(t);
    /* Attaching twice is a repeated request: the lease stays what it was. */
    if (!t->rc && sqlite3_changes(t->c->db) == 0)
        hf__sq_session(t, &news);
    else
        t->op->remaining = t->op->ttl;
    t->after = after_attach;
}

static void renew_row(sq_txn *t)
{
    sqlite3_stmt *stmt;
    int64_t news;

    if (!hf__sq_session(t, &news)) {
        t->code = HF_EEXPIRED;
        hfd_error(&t->op->error, HF_EEXPIRED, "sqlite", 0,
                  "the session's lease ran out in '%s'", t->s->path);
        hf__sq_drop_session(t, &t->op->sid);
        hf__sq_settle(t);
        return;
    }
    if (t->op->ttl > t->op->remaining) {
        if (!(stmt = hf__sq_stmt(t, SQL_RENEW)))
            return;
        hf__sq_bind_id(stmt, 1, &t->op->sid);
        sqlite3_bind_int64(stmt, 2, t->now + t->op->ttl);
        sqlite3_bind_int64(stmt, 3, t->op->ttl);
        hf__sq_run(t, stmt);
        t->op->remaining = t->op->ttl;
    }
    t->op->own[0] = (uintptr_t)(news & 1);
    if (hf__sq_sweep_all(t, false))
        hf__sq_sweep_all(t, true);
    t->watch_count = 0;
}

static void after_renew(sq_txn *t)
{
    if (!t->rc && t->op->own[0])
        hf__sq_tell_news(t->s);
}

static void renew_body(sq_txn *t)
{
    t->op->own[0] = 0;
    renew_row(t);
    t->after = after_renew;
}

/* Renewals also look whether what we stand on is still there: the file under
 * its name, and the descriptor that proves that we live. */
void hf__sq_renew(hf_store *s, hf_op *op)
{
    op->sent = hfd_now();
    if (!hf__sq_same_file(s)) {
        hfd_error(&op->error, HF_EEXPIRED, "sqlite", 0,
                  "the database '%s' was replaced or removed: its locks are "
                  "lost; open it again",
                  s->path);
        hfd_finish(op, HF_APPLIED, HF_EEXPIRED);
        return;
    }
    if (!hf__sq_side_mine(s)) {
        hfd_error(&op->error, HF_EUNAVAIL, "sqlite", 0,
                  "the descriptor of '%s-hold' was closed under us (closefrom, "
                  "close): open a new session",
                  s->path);
        s->host.doubt(s->host.ctx, HF_EUNAVAIL, op->error.text);
        hfd_finish(op, HF_NOT_APPLIED, HF_EUNAVAIL);
        return;
    }
    hf__sq_write(s, op, renew_body);
}

static void after_detach(sq_txn *t)
{
    if (t->rc)
        return;
    hf__sq_known_clear(t->s);
    atomic_store(&t->s->detached, true);
}

void hf__sq_detach(sq_txn *t)
{
    t->after = after_detach;
    /* Looking for entries means reading the whole table; a session that knows
     * of none need not. */
    if (hf__sq_known_count(t->s) == 0)
        hf__sq_drop_row(t, &t->op->sid);
    else
        hf__sq_drop_session(t, &t->op->sid);
    hf__sq_settle(t);
}

#define NEWS_AT_ONCE 64

typedef struct news_list {
    size_t count;
    struct {
        hf_id rid;
        int reason;
    } item[NEWS_AT_ONCE];
} news_list;

/* Take what has not been told, or as much as fits. */
static void take_news(sq_txn *t, news_list *list)
{
    sqlite3_stmt *stmt = hf__sq_stmt(t, SQL_NEWS_ALL);

    list->count = 0;
    hf__sq_bind_id(stmt, 1, &t->op->sid);
    while (list->count < NEWS_AT_ONCE && hf__sq_row(t, stmt)) {
        list->item[list->count].rid = hf__sq_column_id(stmt, 0);
        list->item[list->count++].reason = sqlite3_column_int(stmt, 1);
    }
    if (stmt)
        sqlite3_reset(stmt);
}

static void mark_told(sq_txn *t)
{
    const news_list *list = t->op->user;
    sqlite3_stmt *stmt;

    for (size_t i = 0; i < list->count; i++) {
        if (!(stmt = hf__sq_stmt(t, SQL_NEWS_TOLD)))
            return;
        hf__sq_bind_id(stmt, 1, &t->op->sid);
        hf__sq_bind_id(stmt, 2, &list->item[i].rid);
        hf__sq_run(t, stmt);
    }
    stmt = hf__sq_stmt(t, SQL_NEWS_READ);
    hf__sq_bind_id(stmt, 1, &t->op->sid);
    hf__sq_run(t, stmt);
}

void hf__sq_tell_news(hf_store *s)
{
    news_list list;
    hf_op op = {.deadline = hfd_now() + s->patience,
                .user = &list,
                .done = ignore_done};
    sq_txn t;

    pthread_mutex_lock(&s->watch_mu);
    op.sid = s->sid;
    pthread_mutex_unlock(&s->watch_mu);
    do {
        hf__sq_read_begin(&t, s, &op);
        take_news(&t, &list);
        hf__sq_read_end(&t);
        hf__sq_txn_done(&t);
        if (list.count > 0) /* before anything is said: see letter.c */
            atomic_store(&s->had_news, true);
        for (size_t i = 0; i < list.count; i++)
            s->host.news(s->host.ctx, &list.item[i].rid, list.item[i].reason);
        /* Told twice is harmless: if this fails the next renewal tells it. */
        if (list.count > 0)
            hf__sq_write(s, &op, mark_told);
    } while (list.count == NEWS_AT_ONCE && op.outcome == HF_APPLIED);
}
