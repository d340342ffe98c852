/* probe.c - is this file fit to hold locks?  What doctor asks.
 *
 * Each finding is one question with its cure.  Reads only, but for nothing: a
 * sick database must not be made worse by asking. */
#include "store.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define find(op, ...) hfd_finding((op)->emit_finding, (op)->user, __VA_ARGS__)

static void probe_disk(const hf_store *s, hf_op *op)
{
    const char *fs = hf__sq_network_fs(s->path);
    struct statfs space;

    if (fs)
        find(op, HF_FAIL, "filesystem",
             "'%s' is on %s, a network file system: its locks do not reach "
             "other machines; move it to a local disk",
             s->path, fs);
    else if (s->network)
        find(op, HF_WARN, "filesystem",
             "opened with network=yes although the disk is local: waiting "
             "polls; make a new file without it");
    else
        find(op, HF_FINE, "filesystem", "'%s' is on a local file system",
             s->path);
    if (statfs(s->path, &space) != 0)
        return;
    if ((uint64_t)space.f_bavail * (uint64_t)space.f_bsize < 16 << 20)
        find(op, HF_WARN, "space",
             "less than 16 MB are free beside '%s': make room, a full disk "
             "stops every lock",
             s->path);
    else
        find(op, HF_FINE, "space", "%llu MB are free",
             (unsigned long long)((uint64_t)space.f_bavail *
                                      (uint64_t)space.f_bsize >>
                                  20));
}

static void probe_file(const hf_store *s, hf_op *op)
{
    struct stat st;
    char folder[PATH_MAX];
    char *slash;

    if (lstat(s->path, &st) != 0 || !hf__sq_same_file(s)) {
        find(op, HF_FAIL, "file",
             "'%s' was replaced or removed since it was opened: restart the "
             "programs that use it",
             s->path);
        return;
    }
    if (st.st_nlink != 1)
        find(op, HF_FAIL, "file", "'%s' has %lu names: remove all but one",
             s->path, (unsigned long)st.st_nlink);
    else if (st.st_mode & 022)
        find(op, HF_WARN, "file",
             "'%s' can be written by others (mode %03o): chmod 600, or 660 "
             "for a group of your own",
             s->path, (unsigned)st.st_mode & 0777);
    else
        find(op, HF_FINE, "file", "a plain file with one name, mode %03o",
             (unsigned)st.st_mode & 0777);
    snprintf(folder, sizeof folder, "%s", s->path);
    slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder ? 1 : 0] = '\0';
    if (stat(folder, &st) == 0 && (st.st_mode & 022) && !(st.st_mode & S_ISVTX))
        find(op, HF_WARN, "folder",
             "others may replace files in '%s' (mode %03o): chmod go-w", folder,
             (unsigned)st.st_mode & 0777);
    else
        find(op, HF_FINE, "folder", "only its owner can replace files in '%s'",
             folder);
}

/* The first column of the first row, as text. */
static bool ask_text(sq_txn *t, const char *sql, char *ret, size_t cap)
{
    sqlite3_stmt *stmt = NULL;
    bool got = false;

    if (t->rc || sqlite3_prepare_v2(t->c->db, sql, -1, &stmt, NULL) != 0)
        return false;
    if (sqlite3_step(stmt) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(stmt, 0);

        snprintf(ret, cap, "%s", text ? text : "");
        got = true;
    }
    sqlite3_finalize(stmt);
    return got;
}

typedef struct facts {
    char mode[32], check[200], sessions[24], entries[24];
} facts;

static void probe_database(const hf_store *s, hf_op *op, const facts *f)
{
    bool wal = strcmp(f->mode, "wal") == 0;

    if (wal == !s->network)
        find(op, HF_FINE, "journal", "mode %s, synchronous %s, as it should",
             f->mode, s->full || s->network ? "full" : "normal with reserve");
    else
        find(op, HF_FAIL, "journal",
             "journal mode is '%s': somebody changed it; close all programs "
             "and run PRAGMA journal_mode = %s",
             f->mode, s->network ? "DELETE" : "WAL");
    if (strcmp(f->check, "ok") == 0)
        find(op, HF_FINE, "integrity", "quick_check found nothing");
    else
        find(op, HF_FAIL, "integrity",
             "quick_check says '%s': stop the programs and remove the file",
             f->check);
    find(op, HF_FINE, "content", "%s sessions, %s entries", f->sessions,
         f->entries);
    if (sqlite3_libversion_number() < 3044000)
        find(op, HF_FINE, "sqlite", "version %s is new enough",
             sqlite3_libversion());
    else
        find(op, HF_FINE, "sqlite", "version %s", sqlite3_libversion());
}

static void probe_side(hf_store *s, hf_op *op)
{
    sq_self self;

    if (s->network) {
        find(op, HF_WARN, "wakeup",
             "network=yes: waiters poll, a crash is noticed when the lease "
             "ends, and clocks of all machines must agree");
        return;
    }
    if (hf__sq_side_mine(s))
        find(op, HF_FINE, "wakeup", "side file in place, slot %u is ours",
             (unsigned)s->slot);
    else
        find(op, HF_FAIL, "wakeup",
             "'%s-hold' was replaced or its descriptor closed: open a new "
             "session",
             s->path);
    if (hf__sq_self(&self, NULL) == 0 && self.timens == s->self.timens)
        find(op, HF_FINE, "clock", "one boot, one time namespace");
    else
        find(op, HF_FAIL, "clock",
             "this process changed its time namespace: leases would be "
             "measured by another clock; restart it");
}

void hf__sq_probe(hf_store *s, hf_op *op)
{
    facts f = {.mode = ""};
    sq_txn t;
    bool ok;

    hf__sq_read_begin(&t, s, op);
    ok = ask_text(&t, "PRAGMA journal_mode", f.mode, sizeof f.mode) &&
         ask_text(&t, "PRAGMA quick_check(1)", f.check, sizeof f.check) &&
         ask_text(&t, "SELECT count(*) FROM hf_session", f.sessions,
                  sizeof f.sessions) &&
         ask_text(&t, "SELECT count(*) FROM hf_entry WHERE key > x''",
                  f.entries, sizeof f.entries);
    hf__sq_read_end(&t);
    if (t.rc) {
        hf__sq_finish_failed(&t);
        return;
    }
    probe_disk(s, op);
    probe_file(s, op);
    if (ok)
        probe_database(s, op, &f);
    else
        find(op, HF_FAIL, "integrity",
             "'%s' cannot be read: stop the programs and remove or restore it",
             s->path);
    probe_side(s, op);
    hfd_finish(op, HF_APPLIED, 0);
}
