/* txn.c - one transaction: its turn, its clock, its numbers, its end.
 *
 * A write goes: writer_mu, gate, clock, BEGIN IMMEDIATE, the body, COMMIT, then
 * those who were granted are rung, gate and writer_mu are given back, and the
 * operation is finished.  The clock is read before BEGIN: a process that is
 * paused in between has an old time, which evicts less and leases shorter.
 *
 * Tokens never go back, also not over a power cut that loses the last commits:
 * numbers up to `reserved` are handed out by fast commits, and `reserved` is
 * raised by a commit that waits for the disk.  After a cut counting goes on
 * behind `reserved` (schema.c).  A body that finds the reserve used up is
 * rolled back and repeated, so a body must not touch anything but t and its
 * answer before it is committed. */
#include "store.h"

#include <string.h>

static const char *const statements[] = {
#define TEXT(name, text) [SQL_##name] = text,
    SQ_STATEMENTS(TEXT)
#undef TEXT
};

hf_nsec hf__sq_clock(const hf_store *s)
{
    return s->network ? hfd_realtime_us() * 1000 : hfd_now();
}

sqlite3_stmt *hf__sq_stmt(sq_txn *t, enum sq_sql which)
{
    sqlite3_stmt **at = &t->c->stmt[which];

    if (t->rc)
        return NULL;
    if (!*at)
        t->rc = sqlite3_prepare_v3(t->c->db, statements[which], -1,
                                   SQLITE_PREPARE_PERSISTENT, at, NULL);
    return *at;
}

bool hf__sq_row(sq_txn *t, sqlite3_stmt *stmt)
{
    int rc;

    if (t->rc || !stmt)
        return false;
    rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        return true;
    if (rc != SQLITE_DONE)
        t->rc = rc;
    sqlite3_reset(stmt);
    return false;
}

void hf__sq_run(sq_txn *t, sqlite3_stmt *stmt)
{
    while (hf__sq_row(t, stmt))
        ;
}

void hf__sq_bind_id(sqlite3_stmt *stmt, int at, const hf_id *id)
{
    if (stmt)
        sqlite3_bind_blob(stmt, at, id->bytes, sizeof id->bytes, SQLITE_STATIC);
}

void hf__sq_bind_key(sqlite3_stmt *stmt, int at, const char *key, size_t len)
{
    if (stmt)
        sqlite3_bind_blob(stmt, at, key, (int)len, SQLITE_STATIC);
}

hf_id hf__sq_column_id(sqlite3_stmt *stmt, int at)
{
    hf_id id = {{0}};
    const void *blob = sqlite3_column_blob(stmt, at);

    if (blob && sqlite3_column_bytes(stmt, at) == (int)sizeof id.bytes)
        memcpy(id.bytes, blob, sizeof id.bytes);
    return id;
}

void hf__sq_count(sq_txn *t)
{
    sqlite3_stmt *stmt;

    if (t->counted || !(stmt = hf__sq_stmt(t, SQL_COUNTER)))
        return;
    if (hf__sq_row(t, stmt)) {
        t->counter = (uint64_t)sqlite3_column_int64(stmt, 0);
        t->reserved = (uint64_t)sqlite3_column_int64(stmt, 1);
        t->counted = true;
        sqlite3_reset(stmt);
    } else if (!t->rc) {
        t->rc = SQLITE_CORRUPT; /* the row is made with the table */
    }
}

uint64_t hf__sq_draw(sq_txn *t, uint32_t run)
{
    uint64_t num;

    hf__sq_count(t);
    if (t->rc)
        return 0;
    if (t->counter + run > t->reserved) {
        t->short_of_numbers = true;
        t->rc = SQLITE_ABORT; /* so that nothing more is done */
        return 0;
    }
    num = t->counter + 1;
    t->counter += run;
    t->drew = true;
    return num;
}

/* Begin, for write or read; t->rc. */
static void begin_txn(sq_txn *t, enum sq_sql how)
{
    t->c->deadline = t->op->deadline;
    if (t->c->deadline - t->s->patience > t->op->sent)
        t->c->deadline = t->op->sent + t->s->patience;
    hf__sq_run(t, hf__sq_stmt(t, how));
}

static void roll_back(sq_txn *t)
{
    sqlite3_stmt *stmt;
    int rc = t->rc;

    /* A statement that was left in the middle would keep its read alive. */
    for (int i = 0; i < SQL_COUNT; i++)
        if (t->c->stmt[i] && sqlite3_stmt_busy(t->c->stmt[i]))
            sqlite3_reset(t->c->stmt[i]);
    if (!sqlite3_get_autocommit(t->c->db)) {
        t->rc = 0;
        stmt = hf__sq_stmt(t, SQL_ROLLBACK);
        hf__sq_run(t, stmt);
    }
    t->rc = rc;
}

/* Make `SQ_RESERVE` more numbers safe, by a commit that reaches the disk.  A
 * setting of SQLite cannot change inside a transaction, hence one of its own.
 * Called with writer_mu held. */
static void raise_reserve(sq_txn *t)
{
    hf_store *s = t->s;
    bool lift = !s->full && !s->network;
    sqlite3_stmt *stmt;

    t->rc = lift ? hf__sq_exec(t->c, "PRAGMA synchronous = FULL") : 0;
    t->counted = false;
    begin_txn(t, SQL_BEGIN_WRITE);
    hf__sq_count(t);
    if ((stmt = hf__sq_stmt(t, SQL_RESERVE))) {
        uint64_t from = t->counter > t->reserved ? t->counter : t->reserved;

        t->reserved = from + SQ_RESERVE;
        sqlite3_bind_int64(stmt, 1, (int64_t)t->reserved);
        hf__sq_run(t, stmt);
    }
    hf__sq_run(t, hf__sq_stmt(t, SQL_COMMIT));
    if (t->rc)
        roll_back(t);
    else
        hf__sq_side_floor(s, t->reserved);
    if (lift)
        hf__sq_exec(t->c, "PRAGMA synchronous = NORMAL");
}

/* One try of a write; called with writer_mu held. */
static void try_write(sq_txn *t, void (*body)(sq_txn *t))
{
    sqlite3_stmt *stmt;

    t->counted = t->drew = t->short_of_numbers = t->reached_commit = false;
    t->rc = t->code = 0;
    t->due_len = t->wake_count = t->watch_count = 0;
    t->end = 0;
    t->after = NULL;
    t->ahead.known = false;
    t->op->sent = hfd_now();
    t->now = t->s->network ? hf__sq_clock(t->s) : t->op->sent;
    begin_txn(t, SQL_BEGIN_WRITE);
    if (!t->rc)
        body(t);
    if (!t->rc && t->drew && (stmt = hf__sq_stmt(t, SQL_COUNTED))) {
        sqlite3_bind_int64(stmt, 1, (int64_t)t->counter);
        hf__sq_run(t, stmt);
    }
    if (!t->rc) {
        stmt = hf__sq_stmt(t, SQL_COMMIT);
        t->reached_commit = true;
        hf__sq_run(t, stmt);
    }
    if (t->rc)
        roll_back(t);
}

#define TIDY_AT 1000
#define TIDY_NOW (4 * TIDY_AT)

/* Write the WAL back once it is long, outside the gate: others go on.  If they
 * go on all the time its end is never reached and it never begins anew; so a
 * very long one is written back inside, where nobody else writes. */
static void tidy_wal(hf_store *s, sq_conn *c, bool inside)
{
    if (c->frames < TIDY_AT)
        c->tidy_at = TIDY_AT; /* it began anew */
    if (s->network || c->frames < c->tidy_at ||
        inside != (c->frames >= TIDY_NOW))
        return;
    c->tidy_at = c->frames + TIDY_AT;
    c->deadline = 0; /* whoever reads now delays it to the next time */
    sqlite3_wal_checkpoint_v2(c->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL,
                              NULL);
}

void hf__sq_finish_failed(sq_txn *t)
{
    hf_op *op = t->op;
    bool unknown = t->reached_commit && (t->rc & 0xff) == SQLITE_IOERR;

    /* A commit that met an I/O error may or may not have reached the file; one
     * that found the disk full was undone. */
    hfd_finish(op, unknown ? HF_UNKNOWN : HF_NOT_APPLIED, op->error.code);
}

static void ring_all(sq_txn *t)
{
    for (size_t i = 0; i < t->wake_count; i++)
        hf__sq_ring(t->s, &t->wakes[i]);
    t->wake_count = 0;
}

void hf__sq_txn_done(sq_txn *t)
{
    ring_all(t);
    if (t->wakes != t->few)
        hfd_free(t->wakes);
    hfd_free(t->due);
    t->wakes = t->few;
    t->due = NULL;
}

/* Among the threads of this process first, then among processes. */
static bool take_turn(hf_store *s, hf_nsec deadline, uint32_t *ret_ticket)
{
    if (!hf__sq_writer_lock(s, deadline))
        return false;
    if (hf__sq_gate_enter(s, deadline, ret_ticket))
        return true;
    hf__sq_writer_unlock(s);
    return false;
}

void hf__sq_write(hf_store *s, hf_op *op, void (*body)(sq_txn *t))
{
    sq_txn t = {.s = s, .op = op, .c = &s->writer};
    uint32_t ticket;

    t.wakes = t.few;
    t.wake_cap = sizeof t.few / sizeof t.few[0];
    op->sent = hfd_now();
    if (!take_turn(s, op->deadline, &ticket)) {
        hfd_error(&op->error, HF_EUNAVAIL, "sqlite", 0,
                  "'%s' is busy: others write to it and our turn did not come "
                  "in time; try again",
                  s->path);
        hfd_finish(op, HF_NOT_APPLIED, HF_EUNAVAIL);
        return;
    }
    if (op->kind == HF_OP_LEAVE)
        t.coming = hf__sq_heir_wake(s, op->place);
    for (int tries = 0; tries < 8; tries++) {
        try_write(&t, body);
        if (!t.short_of_numbers)
            break;
        raise_reserve(&t);
        if (t.rc)
            break;
    }
    if (t.rc)
        t.wake_count = 0;
    ring_all(&t);
    if (t.rc)
        hf__sq_conn_error(s, t.c, t.rc, &op->error);
    else
        tidy_wal(s, t.c, true);
    hf__sq_gate_leave(s, ticket);
    if (!t.rc)
        tidy_wal(s, t.c, false);
    hf__sq_writer_unlock(s);
    if (t.after)
        t.after(&t);
    hf__sq_txn_done(&t);
    if (t.rc) {
        hf__sq_finish_failed(&t);
        return;
    }
    hf__sq_watch_noted(&t);
    hfd_finish(op, HF_APPLIED, t.code);
}

void hf__sq_read_alone(sq_txn *t, hf_store *s, hf_op *op)
{
    memset(t, 0, sizeof *t);
    t->s = s;
    t->op = op;
    t->c = &s->reader;
    t->wakes = t->few;
    t->wake_cap = sizeof t->few / sizeof t->few[0];
    op->sent = hfd_now();
    pthread_mutex_lock(&s->reader_mu);
    if (!t->c->db && hf__sq_conn_open(s, t->c, &op->error) != 0)
        t->rc = SQLITE_CANTOPEN;
    op->sent = hfd_now();
    t->now = hf__sq_clock(s);
    t->c->deadline = op->deadline;
}

void hf__sq_read_begin(sq_txn *t, hf_store *s, hf_op *op)
{
    hf__sq_read_alone(t, s, op);
    begin_txn(t, SQL_BEGIN_READ);
}

void hf__sq_read_end(sq_txn *t)
{
    if (t->c->db) {
        if (t->rc)
            roll_back(t);
        else
            hf__sq_run(t, hf__sq_stmt(t, SQL_COMMIT));
        if (t->rc)
            hf__sq_conn_error(t->s, t->c, t->rc, &t->op->error);
    }
    pthread_mutex_unlock(&t->s->reader_mu);
}
