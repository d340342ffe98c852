/* schema.c - the tables: made, recognised, and put right after a reboot or
 * after an older copy was put back.
 *
 * Runs once per open, under the side file's opening lock, and writes only when
 * there is something to put right:
 *
 *   no tables, empty file        make them
 *   tables of somebody else      refuse
 *   newer format                 refuse
 *   another boot id              everybody of then is dead; count on behind the
 *                                reserve, since the last commits may be lost
 *   side file of another         the database was made anew: count on behind
 *   database                     the old one's numbers
 *   reserve below the side's     an older copy was restored: the same
 *   floor
 *
 * The last two only when no session is open; otherwise some process still works
 * with the other file, and its locks would not be seen here. */
#include "store.h"

#include <stdio.h>
#include <string.h>

#define MAKE_TABLES                                                            \
    "CREATE TABLE hf_meta(one INTEGER PRIMARY KEY CHECK(one = 1),"             \
    " format INTEGER NOT NULL, id BLOB NOT NULL, boot TEXT NOT NULL,"          \
    " timens INTEGER NOT NULL, clock TEXT NOT NULL) STRICT;"                   \
    "CREATE TABLE hf_session(sid BLOB PRIMARY KEY, slot INTEGER NOT NULL,"     \
    " pid INTEGER NOT NULL, pidns INTEGER NOT NULL, start INTEGER NOT NULL,"   \
    " host TEXT NOT NULL, name TEXT NOT NULL, ttl_ns INTEGER NOT NULL,"        \
    " exp_ns INTEGER NOT NULL, news INTEGER NOT NULL) STRICT, WITHOUT ROWID;"  \
    "CREATE TABLE hf_entry(key BLOB NOT NULL, num INTEGER NOT NULL,"           \
    " rid BLOB, sid BLOB, mode INTEGER, places INTEGER, granted INTEGER,"      \
    " token INTEGER, run INTEGER, wake INTEGER, exp_ns INTEGER,"               \
    " born_ns INTEGER, lease_ns INTEGER, closed INTEGER,"                      \
    " broken_until INTEGER, value BLOB, PRIMARY KEY(key, num))"                \
    " STRICT, WITHOUT ROWID;"                                                  \
    "CREATE TABLE hf_permit(key BLOB PRIMARY KEY, used INTEGER NOT NULL,"      \
    " upto INTEGER NOT NULL) STRICT, WITHOUT ROWID;"                           \
    "CREATE TABLE hf_news(sid BLOB NOT NULL, rid BLOB NOT NULL,"               \
    " reason INTEGER NOT NULL, told INTEGER NOT NULL,"                         \
    " PRIMARY KEY(sid, rid)) STRICT, WITHOUT ROWID;"

/* Pages of 1 KiB: a commit writes and sums whole pages, and an entry is a
 * hundred bytes. */
#define MAKE_FILE "PRAGMA page_size = 1024;"

#define FORGET_ALL                                                             \
    "DELETE FROM hf_session; DELETE FROM hf_news; DELETE FROM hf_permit;"      \
    "DELETE FROM hf_entry WHERE key <> x'';"

typedef struct meta {
    bool found;
    uint8_t id[16];
    char boot[40];
    int64_t timens, reserved;
    int64_t floor; /* the side file's, read before all of this */
    bool wall, idle;
} meta;

static int64_t ask_number(sq_conn *c, const char *sql, int *rc)
{
    sqlite3_stmt *stmt = NULL;
    int64_t answer = 0;

    if (*rc == SQLITE_OK)
        *rc = sqlite3_prepare_v2(c->db, sql, -1, &stmt, NULL);
    if (*rc == SQLITE_OK) {
        int step = sqlite3_step(stmt);

        if (step == SQLITE_ROW)
            answer = sqlite3_column_int64(stmt, 0);
        else if (step != SQLITE_DONE)
            *rc = step;
    }
    sqlite3_finalize(stmt);
    return answer;
}

/* Bind up to one text, two numbers and one blob of 16, run once. */
static int tell(sq_conn *c, const char *sql, const char *text, int64_t a,
                int64_t b, const uint8_t *id)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(c->db, sql, -1, &stmt, NULL);

    if (rc == SQLITE_OK) {
        sqlite3_bind_text(stmt, 1, text, -1, SQLITE_STATIC);
        sqlite3_bind_int64(stmt, 2, a);
        sqlite3_bind_int64(stmt, 3, b);
        if (id)
            sqlite3_bind_blob(stmt, 4, id, 16, SQLITE_STATIC);
        rc = sqlite3_step(stmt);
        rc = rc == SQLITE_DONE ? SQLITE_OK : rc;
    }
    sqlite3_finalize(stmt);
    return rc;
}

/* Whose tables are these, if they are not ours as we know them?  Leaves
 * *ret_refusal 0 for a file without any. */
static int read_stranger(hf_store *s, int *ret_refusal, hf_error *err)
{
    sq_conn *c = &s->writer;
    int rc = SQLITE_OK;
    int64_t tables, format;

    *ret_refusal = 0;
    tables = ask_number(c, "SELECT count(*) FROM sqlite_master", &rc);
    if (rc != SQLITE_OK || tables == 0)
        return rc;
    if (ask_number(c,
                   "SELECT count(*) FROM sqlite_master WHERE type = 'table'"
                   " AND name = 'hf_meta'",
                   &rc) == 0) {
        *ret_refusal = hfd_error(
            err, HF_EPROTO, "sqlite", 0,
            "'%s' is a database of something else: name another path", s->path);
        return rc;
    }
    format = ask_number(c, "SELECT max(format) FROM hf_meta", &rc);
    if (rc == SQLITE_OK && format <= SQ_FORMAT)
        rc = SQLITE_CORRUPT;
    *ret_refusal = hfd_error(
        err, HF_EPROTO, "sqlite", 0,
        "'%s' was written by a newer holdfast (format %lld, this one knows "
        "%d): update holdfast here, or name another path",
        s->path, (long long)format, SQ_FORMAT);
    return rc;
}

/* What the tables say of themselves.  *ret_refusal: an HF_ code. */
static int read_meta(hf_store *s, meta *ret, int *ret_refusal, hf_error *err)
{
    sq_conn *c = &s->writer;
    sqlite3_stmt *stmt = NULL;
    int rc;

    memset(ret, 0, sizeof *ret);
    /* In this order: others may raise both while we look, the database first,
     * and must not seem to have a floor above their reserve. */
    ret->floor = (int64_t)atomic_load(&s->map->floor);
    *ret_refusal = 0;
    rc = sqlite3_prepare_v2(
        c->db,
        "SELECT m.id, m.boot, m.timens, m.clock, e.exp_ns, m.format,"
        " NOT EXISTS (SELECT 1 FROM hf_session) AND NOT EXISTS"
        " (SELECT 1 FROM hf_entry WHERE key > x'')"
        " FROM hf_meta m, hf_entry e WHERE e.key = x'' AND e.num = 0",
        -1, &stmt, NULL);
    if (rc == SQLITE_ERROR) /* no such table, no such column */
        return read_stranger(s, ret_refusal, err);
    if (rc != SQLITE_OK)
        return rc;
    rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW && sqlite3_column_int(stmt, 5) != SQ_FORMAT) {
        sqlite3_finalize(stmt);
        return read_stranger(s, ret_refusal, err);
    }
    if (rc == SQLITE_ROW && sqlite3_column_bytes(stmt, 0) == 16) {
        ret->found = true;
        memcpy(ret->id, sqlite3_column_blob(stmt, 0), 16);
        snprintf(ret->boot, sizeof ret->boot, "%s",
                 (const char *)sqlite3_column_text(stmt, 1));
        ret->timens = sqlite3_column_int64(stmt, 2);
        ret->wall =
            strcmp((const char *)sqlite3_column_text(stmt, 3), "wall") == 0;
        ret->reserved = sqlite3_column_int64(stmt, 4);
        ret->idle = sqlite3_column_int(stmt, 6) != 0;
    }
    sqlite3_finalize(stmt);
    if (ret->found)
        return SQLITE_OK;
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_CORRUPT : rc;
}

/* Commit what was done since BEGIN, or undo it. */
static int end_change(sq_conn *c, int rc)
{
    if (rc == SQLITE_OK)
        rc = hf__sq_exec(c, "COMMIT");
    if (rc != SQLITE_OK && !sqlite3_get_autocommit(c->db))
        hf__sq_exec(c, "ROLLBACK");
    return rc;
}

/* Count on from `floor`, with a new reserve, everybody forgotten; on disk. */
static int start_over(hf_store *s, int64_t floor, meta *m)
{
    sq_conn *c = &s->writer;
    int rc = hf__sq_exec(c, "PRAGMA synchronous = FULL");

    if (rc == SQLITE_OK)
        rc = hf__sq_exec(c, "BEGIN IMMEDIATE;" FORGET_ALL);
    if (rc == SQLITE_OK)
        rc = tell(c,
                  "UPDATE hf_entry SET token = ?2, exp_ns = ?3"
                  " WHERE key = x'' AND num = 0",
                  s->self.boot, floor, floor + SQ_RESERVE, NULL);
    if (rc == SQLITE_OK)
        rc = tell(c, "UPDATE hf_meta SET boot = ?1, timens = ?2", s->self.boot,
                  s->self.timens, 0, NULL);
    rc = end_change(c, rc);
    if (rc == SQLITE_OK && !s->full && !s->network)
        rc = hf__sq_exec(c, "PRAGMA synchronous = NORMAL");
    if (rc == SQLITE_OK) {
        m->reserved = floor + SQ_RESERVE;
        m->timens = s->self.timens;
        memcpy(m->boot, s->self.boot, sizeof m->boot);
    }
    return rc;
}

static int make_tables(hf_store *s, meta *m)
{
    sq_conn *c = &s->writer;
    int rc;

    /* The mode cannot change inside a transaction; it stays with the file. */
    rc = hf__sq_exec(c, s->network ? MAKE_FILE "PRAGMA journal_mode = DELETE"
                                   : MAKE_FILE "PRAGMA journal_mode = WAL");
    if (rc == SQLITE_OK)
        rc = hf__sq_exec(c, "BEGIN IMMEDIATE");
    /* Another process on another machine may have been quicker. */
    if (rc == SQLITE_OK &&
        ask_number(c, "SELECT count(*) FROM sqlite_master", &rc) == 0 &&
        rc == SQLITE_OK) {
        hfd_random(m->id, sizeof m->id);
        rc = hf__sq_exec(c, MAKE_TABLES
                         "INSERT INTO hf_entry(key, num, token, exp_ns)"
                         " VALUES (x'', 0, 0, 0);"
                         "PRAGMA application_id = 0x686f6c64;"
                         "PRAGMA user_version = 1;");
        if (rc == SQLITE_OK)
            rc = tell(c,
                      s->network ? "INSERT INTO hf_meta VALUES"
                                   "(1, ?3, ?4, ?1, ?2, 'wall')"
                                 : "INSERT INTO hf_meta VALUES"
                                   "(1, ?3, ?4, ?1, ?2, 'boot')",
                      s->self.boot, s->self.timens, SQ_FORMAT, m->id);
    }
    return end_change(c, rc);
}

/* The file must be what its side file remembers.  0, or *ret_floor is where
 * counting has to go on, or an HF_ code. */
static int compare_side(hf_store *s, const meta *m, int64_t *ret_floor,
                        hf_error *err)
{
    sq_map *map = s->map;
    int64_t floor = m->floor > m->reserved ? m->floor : m->reserved;
    bool other = memcmp(map->db_id, m->id, sizeof m->id) != 0 ||
                 map->db_ino != (uint64_t)s->ino;
    const char *what = "was replaced by another file";

    *ret_floor = -1;
    if (s->network || hf__sq_side_fresh(s))
        return 0;
    if (!other) {
        if (m->floor <= m->reserved)
            return 0;
        what = "is older than the locks it gave (restored from a copy?)";
    }
    if (!hf__sq_side_idle(s))
        return hfd_error(err, HF_EPROTO, "sqlite", 0,
                         "'%s' %s while programs use it: stop them, then open "
                         "it again",
                         s->path, what);
    hfd_log(HF_LOG_WARN,
            "sqlite: '%s' %s; its locks are forgotten and tokens go on at %lld",
            s->path, what, (long long)floor);
    *ret_floor = floor;
    return 0;
}

/* Repairs and refusals once the tables are known to be ours. */
static int put_right(hf_store *s, meta *m, hf_error *err)
{
    int64_t floor;
    int rc = SQLITE_OK, code;

    if (m->wall != s->network)
        return hfd_error(err, HF_EPROTO, "sqlite", 0,
                         m->wall ? "'%s' was made with ?network=yes: open it "
                                   "with that, or name another path"
                                 : "'%s' was made without ?network=yes: open "
                                   "it without, or name another path",
                         s->path);
    code = compare_side(s, m, &floor, err);
    if (code != 0)
        return code;
    if (floor >= 0)
        rc = start_over(s, floor, m);
    else if (!s->network && strcmp(m->boot, s->self.boot) != 0)
        rc = start_over(s, m->reserved, m);
    else if (!s->network && m->timens != s->self.timens && m->idle)
        rc = start_over(s, m->reserved, m);
    if (rc != SQLITE_OK)
        return hf__sq_conn_error(s, &s->writer, rc, err);
    if (!s->network && m->timens != s->self.timens)
        return hfd_error(err, HF_ENOTSUP, "sqlite", 0,
                         "'%s' is in use from another time namespace, whose "
                         "clock differs: use one file per namespace",
                         s->path);
    if (s->network)
        return 0;
    s->vacant = m->idle || floor >= 0;
    hf__sq_side_floor(s, (uint64_t)m->reserved);
    return hf__sq_side_adopt(s, m->id, err);
}

int hf__sq_schema(hf_store *s, hf_error *err)
{
    meta m;
    int refusal, rc;

    if (sqlite3_libversion_number() < 3037000)
        return hfd_error(err, HF_ENOTSUP, "sqlite", 0,
                         "SQLite %s is too old: 3.37 is needed",
                         sqlite3_libversion());
    if (sqlite3_db_readonly(s->writer.db, "main") != 0)
        return hf__sq_conn_error(s, &s->writer, SQLITE_READONLY, err);
    rc = read_meta(s, &m, &refusal, err);
    if (rc == SQLITE_OK && refusal == 0 && !m.found) {
        rc = make_tables(s, &m);
        if (rc == SQLITE_OK)
            rc = read_meta(s, &m, &refusal, err);
    }
    if (rc != SQLITE_OK)
        return hf__sq_conn_error(s, &s->writer, rc, err);
    if (refusal != 0)
        return refusal;
    return put_right(s, &m, err);
}
