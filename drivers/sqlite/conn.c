/* conn.c - one SQLite connection: opening it, its statements, its errors.
 *
 * A store has two: one that writes (behind the gate and writer_mu) and one that
 * reads (behind reader_mu), so that a waiter that was granted learns it without
 * queueing behind anybody.  Renewals write through the first: SQLite has one
 * writer per file anyway, so a second connection would only wait elsewhere.
 *
 * Both are without SQLite's own mutexes; ours are in front.  The file is never
 * opened by other means while they live: closing any descriptor of it would
 * drop the locks that SQLite holds for the whole process. */
#include "store.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

/* SQLite's write lock is taken although the gate is open to us: somebody came
 * past the gate (a process stopped in its turn, another program).  Look again
 * every millisecond until the operation's time is up. */
static int wait_busy(void *arg, int times)
{
    sq_conn *c = arg;

    (void)times;
    if (hfd_now() >= c->deadline)
        return 0;
    poll(NULL, 0, 1);
    return 1;
}

static int note_frames(void *arg, sqlite3 *db, const char *name, int frames)
{
    sq_conn *c = arg;

    (void)db, (void)name;
    c->frames = frames;
    return SQLITE_OK;
}

int hf__sq_exec(sq_conn *c, const char *sql)
{
    return sqlite3_exec(c->db, sql, NULL, NULL, NULL);
}

/* Of 256 KiB: the inner pages of a hundred thousand entries, and those in use.
 * Others change the file between our transactions, so most of a larger one
 * would be old when it is wanted. */
#define SMALL_CACHE "PRAGMA cache_size = -256;"

int hf__sq_conn_open(hf_store *s, sq_conn *c, hf_error *err)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
                SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_PRIVATECACHE;
    int rc;

    memset(c, 0, sizeof *c);
    c->deadline = hfd_now() + s->patience;
    rc = sqlite3_open_v2(s->path, &c->db, flags, NULL);
    if (rc == SQLITE_OK) {
        sqlite3_extended_result_codes(c->db, 1);
        sqlite3_busy_handler(c->db, wait_busy, c);
        sqlite3_wal_hook(c->db, note_frames, c);
        sqlite3_db_config(c->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        sqlite3_db_config(c->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    }
    if (rc == SQLITE_OK)
        rc = hf__sq_exec(c, s->full || s->network
                                ? SMALL_CACHE "PRAGMA synchronous = FULL"
                                : SMALL_CACHE "PRAGMA synchronous = NORMAL");
    if (rc == SQLITE_OK)
        return 0;
    rc = hf__sq_conn_error(s, c, rc, err);
    hf__sq_conn_close(c, false);
    return rc;
}

/* The first to open after the last has closed reads the whole WAL, and writing
 * it back costs two syncs: a few dozen frames is where short commands, four
 * frames each, pay least for both. */
#define SHORT_WAL 64

/* With `last` nobody else has the file open: a WAL that has grown is written
 * back and emptied.  Closing alone writes nothing: SQLite would write back and
 * remove it each time. */
void hf__sq_conn_close(sq_conn *c, bool last)
{
    if (!c->db)
        return;
    for (int i = 0; i < SQL_COUNT; i++)
        sqlite3_finalize(c->stmt[i]);
    c->deadline = 0;
    if (last && c->frames > SHORT_WAL)
        sqlite3_wal_checkpoint_v2(c->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL,
                                  NULL);
    sqlite3_db_config(c->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_close(c->db);
    memset(c, 0, sizeof *c);
}

typedef struct meaning {
    int rc; /* primary result code */
    int code;
    const char *text; /* takes the path */
} meaning;

static const meaning meanings[] = {
    {SQLITE_BUSY, HF_EUNAVAIL,
     "'%s' is busy: another process has not finished writing to it; try again"},
    {SQLITE_LOCKED, HF_EUNAVAIL, "'%s' is locked; try again"},
    {SQLITE_FULL, HF_EUNAVAIL,
     "the disk is full, '%s' cannot be written: make room and try again"},
    {SQLITE_NOTADB, HF_EPROTO,
     "'%s' is not a database: the file is something else; name another path"},
    {SQLITE_CORRUPT, HF_EPROTO,
     "'%s' is damaged: stop its users, then remove or restore it"},
    {SQLITE_CANTOPEN, HF_EPERM,
     "'%s' cannot be opened: check the modes of file and folder"},
    {SQLITE_READONLY, HF_EPERM,
     "'%s' is not writable for this user: check the modes of file and folder"},
    {SQLITE_PERM, HF_EPERM, "'%s' may not be opened by this user"},
    {SQLITE_AUTH, HF_EPERM, "'%s' may not be opened by this user"},
    {SQLITE_NOMEM, HF_ENOMEM, "out of memory on '%s'"},
    {SQLITE_IOERR, HF_EUNAVAIL,
     "reading or writing '%s' failed: check the disk"},
};

int hf__sq_conn_error(const hf_store *s, const sq_conn *c, int rc,
                      hf_error *err)
{
    int primary = rc & 0xff;
    const char *said = c->db ? sqlite3_errmsg(c->db) : sqlite3_errstr(rc);

    /* A write that met ENOSPC may come as an I/O error. */
    if (primary == SQLITE_IOERR && c->db) {
        int os = sqlite3_system_errno(c->db);

        if (os == ENOSPC || os == EDQUOT)
            primary = SQLITE_FULL;
    }
    if (rc == SQLITE_IOERR_NOMEM)
        primary = SQLITE_NOMEM;
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++)
        if (meanings[i].rc == primary)
            return hfd_error(err, meanings[i].code, "sqlite", rc,
                             meanings[i].text, s->path);
    return hfd_error(err, HF_EPROTO, "sqlite", rc,
                     "'%s' cannot be used: %s; it may not be ours", s->path,
                     said);
}
