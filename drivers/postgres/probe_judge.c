/* probe_judge.c - is this PostgreSQL server fit to hold locks?
 *
 * Answers from facts alone: no call, no clock.  Each finding is one question
 * with its cure.  FAIL is for what breaks locks after an ordinary crash of the
 * server, or at once; WARN for what breaks them when something else happens too
 * (a failover), or makes them slow.
 *
 * What a failover forgets is judged by `strict`: there nothing is granted until
 * every forgotten lease has ended, so lost commits cost time, not exclusion. */
#include <stdio.h>
#include <string.h>

#include "probe.h"

enum { DEAD_ROWS = 100000 };

typedef struct judge {
    const pg_facts *f;
    hf_doctor_fn *emit;
    void *user;
} judge;

#define find(j, ...) hfd_finding((j)->emit, (j)->user, __VA_ARGS__)

static void judge_server(const judge *j)
{
    const pg_facts *f = j->f;

    if (f->version_number >= 0 && f->version_number < 120000)
        find(j, HF_WARN, "version",
             "PostgreSQL %s is older than what we test: upgrade to 12 or newer",
             f->version);
    else
        find(j, HF_FINE, "version", "PostgreSQL %s", f->version);
    if (f->standby)
        find(j, HF_FAIL, "role",
             "the server is a standby and takes no locks: give the address of "
             "the primary");
    else
        find(j, HF_FINE, "role", "the server is a primary");
}

static void judge_durability(const judge *j)
{
    const pg_facts *f = j->f;
    bool lazy = strcmp(f->commit, "off") == 0 ||
                strcmp(f->commit, "local") == 0 ||
                strcmp(f->commit, "remote_write") == 0;

    if (!f->fsync)
        find(j, HF_FAIL, "durability",
             "fsync is off: a crash of the machine can damage the tables and "
             "forget locks; set fsync = on");
    else if (!f->full_pages)
        find(j, HF_FAIL, "durability",
             "full_page_writes is off: a crash of the machine can damage the "
             "tables; set it on");
    else if (lazy)
        find(j, HF_WARN, "durability",
             "synchronous_commit is %s: a crash forgets the last locks; ALTER "
             "ROLE ... SET synchronous_commit = on",
             f->commit);
    else
        find(j, HF_FINE, "durability",
             "a lock is on disk before it is granted (synchronous_commit %s)",
             f->commit);
    if (f->unlogged > 0)
        find(j, HF_FAIL, "unlogged",
             "%lld of our tables are UNLOGGED: a crash empties them; ALTER "
             "TABLE ... SET LOGGED",
             (long long)f->unlogged);
}

static void judge_failover(const judge *j)
{
    const pg_facts *f = j->f;

    if (f->copies == 0)
        find(j, HF_FINE, "failover", "no standby follows this server");
    else if (f->copies_waited_for)
        find(j, HF_FINE, "failover",
             "commits wait for a standby (synchronous_standby_names)");
    else if (f->strict)
        find(j, HF_FINE, "failover",
             "commits do not wait for a standby; strict=yes covers what a "
             "failover forgets");
    else
        find(j, HF_WARN, "failover",
             "commits do not wait for a standby: a failover forgets the last "
             "locks, and there may be two holders; set "
             "synchronous_standby_names, or open with strict=yes");
}

/* Behind a pooler our own settings do not reach the server's session. */
static void judge_pooler(const judge *j)
{
    const pg_facts *f = j->f;

    if (!f->pooled)
        return;
    find(j, HF_WARN, "pooler",
         "a pooler of transactions stands between: nobody can listen through "
         "it, so waiters look from time to time; give the server's own "
         "address for locks");
    if (f->statement_ms > 0 && f->lease > 0 &&
        HF_MS(f->statement_ms) < f->lease / 60)
        find(j, HF_WARN, "timeouts",
             "statement_timeout is %lld ms: statements that wait for a row are "
             "cut; ALTER ROLE ... SET statement_timeout = '5s'",
             (long long)f->statement_ms);
    if (strcmp(f->isolation, "read committed") != 0)
        find(j, HF_WARN, "isolation",
             "default_transaction_isolation is %s: statements on a busy key "
             "are refused and repeated; ALTER ROLE ... SET "
             "default_transaction_isolation = 'read committed'",
             f->isolation);
}

static void judge_room(const judge *j)
{
    const pg_facts *f = j->f;

    if (f->connection_limit > 0 && f->connections >= 0) {
        if (f->connections * 10 >= f->connection_limit * 9)
            find(j, HF_WARN, "room",
                 "%lld of %lld connections are in use: raise max_connections, "
                 "or put the application (not the locks) behind a pooler",
                 (long long)f->connections, (long long)f->connection_limit);
        else
            find(j, HF_FINE, "room", "%lld of %lld connections are in use",
                 (long long)f->connections, (long long)f->connection_limit);
    }
    if (f->dead_rows > DEAD_ROWS && f->dead_rows > 10 * f->live_rows)
        find(j, HF_WARN, "bloat",
             "our tables have %lld dead rows for %lld live ones: autovacuum "
             "does not keep up, or a long transaction holds it back (see "
             "pg_stat_activity.xact_start)",
             (long long)f->dead_rows, (long long)f->live_rows);
}

static void judge_secrecy(const judge *j)
{
    const pg_facts *f = j->f;

    if (f->local)
        return;
    if (!f->tls)
        find(j, HF_WARN, "tls",
             "the connection is not encrypted: turn ssl on at the server and "
             "give tls=yes and ca_file");
    else if (!f->verified)
        find(j, HF_WARN, "tls",
             "the connection is encrypted, but nobody looked at the server's "
             "certificate: give tls=yes and ca_file");
    else
        find(j, HF_FINE, "tls", "encrypted, and the server is verified");
}

void pg_judge_facts(const pg_facts *facts, hf_doctor_fn *emit, void *user)
{
    judge j = {.f = facts, .emit = emit, .user = user};

    judge_server(&j);
    judge_durability(&j);
    judge_failover(&j);
    judge_pooler(&j);
    judge_room(&j);
    judge_secrecy(&j);
}
