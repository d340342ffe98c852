/* probe_judge.c - what the state of a MariaDB or MySQL server means for locks.
 *
 * Answers from facts alone: no call, no clock.  Each finding is one question
 * with one answer and, where it is not fine, the cure in the same sentence.
 * FAIL: two may hold at once in normal operation or after an ordinary crash,
 * or nothing works.  WARN: something will surprise somebody.
 *
 * The one idea behind most of it: a lock is a committed row, so whatever lets a
 * committed row vanish lets a lock vanish. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "probe.h"

typedef struct judge {
    const my_facts *f;
    hf_doctor_fn *emit;
    void *user;
} judge;

#define find(j, ...) hfd_finding((j)->emit, (j)->user, __VA_ARGS__)

static bool is_on(const char *text)
{
    return strcasecmp(text, "ON") == 0 || strcmp(text, "1") == 0;
}

static void judge_version(const judge *j)
{
    const my_facts *f = j->f;
    int64_t oldest = f->mariadb ? 100300 : 50700;

    if (f->version_number >= 0 && f->version_number < oldest)
        find(j, HF_WARN, "version",
             "%s: this driver is made for MariaDB 10.3 or MySQL 5.7 and newer: "
             "take a newer server",
             f->version);
    else
        find(j, HF_FINE, "version", "%s%s", f->version,
             f->returning ? ", one round trip per lock"
                          : ", two round trips per lock (no RETURNING)");
}

static void judge_role(const judge *j)
{
    const my_facts *f = j->f;

    if (is_on(f->read_only))
        find(j, HF_FAIL, "role",
             "read_only is on, a replica: give the address of the primary");
    else
        find(j, HF_FINE, "role", "it takes writes");
    if (is_on(f->galera))
        find(j, HF_FAIL, "galera",
             "a Galera cluster: a commit may be undone by another node, so "
             "locks here are for efficiency only; send all clients to one "
             "node, and let what the lock protects compare tokens");
}

static void judge_disk(const judge *j)
{
    const my_facts *f = j->f;
    const char *cure =
        f->strict ? "; strict=yes covers a failover, not this" : "";

    if (f->flush >= 0 && f->flush != 1)
        find(j, HF_WARN, "flush",
             "innodb_flush_log_at_trx_commit = %lld: a crash of the %s forgets "
             "up to a second of locks, and they are granted again: set it to 1"
             "%s",
             (long long)f->flush, f->flush == 0 ? "server" : "machine", cure);
    else if (is_on(f->binlog) && f->sync_binlog != 1)
        find(j, HF_WARN, "flush",
             "the binary log is on and sync_binlog = %lld: after a crash of "
             "the machine it decides what was committed, and may lack the last "
             "locks: set sync_binlog to 1%s",
             (long long)f->sync_binlog, cure);
    else
        find(j, HF_FINE, "flush", "commits are on disk when they are answered");
    if (f->doublewrite[0] && strcasecmp(f->doublewrite, "OFF") == 0)
        find(j, HF_WARN, "doublewrite",
             "innodb_doublewrite is off: a power cut may tear a page of the "
             "tables: turn it on, unless the file system writes pages whole");
    if (is_on(f->binlog) && strcasecmp(f->binlog_format, "STATEMENT") == 0)
        find(j, HF_FAIL, "binlog_format",
             "STATEMENT: the server refuses our statements (1665): set "
             "binlog_format to ROW or MIXED");
}

static void judge_replicas(const judge *j)
{
    const my_facts *f = j->f;

    if (f->replicas <= 0)
        return;
    if (is_on(f->semi_sync) && is_on(f->semi_sync_now))
        find(j, HF_FINE, "replicas",
             "%lld, waited for (semi-sync); if they stop answering the server "
             "goes on without them: then locks may be lost at a failover",
             (long long)f->replicas);
    else if (f->strict)
        find(j, HF_FINE, "replicas",
             "%lld, not waited for; strict=yes covers a failover",
             (long long)f->replicas);
    else
        find(j, HF_WARN, "replicas",
             "%lld, not waited for%s: after a failover locks that had not "
             "arrived are granted again: open with strict=yes",
             (long long)f->replicas,
             is_on(f->semi_sync) ? " any more (semi-sync fell back)" : "");
}

static void judge_limits(const judge *j)
{
    const my_facts *f = j->f;
    int64_t need = (int64_t)f->connections + 1;

    if (f->most_connections > 0 && f->connected >= 0 &&
        f->most_connections - f->connected < need)
        find(j, HF_WARN, "max_connections",
             "%lld of %lld connections are used: raise max_connections, or "
             "ask for fewer (connections=)",
             (long long)f->connected, (long long)f->most_connections);
    if (f->most_of_account > 0 && f->most_of_account < need)
        find(j, HF_WARN, "max_user_connections",
             "this account may have %lld connections, and a process of ours "
             "takes up to %lld: raise max_user_connections, or ask for fewer "
             "(connections=)",
             (long long)f->most_of_account, (long long)need);
    if (f->wait_s >= 0 && f->wait_s < 60)
        find(j, HF_WARN, "wait_timeout",
             "%lld s: idle connections are closed all the time, and every "
             "second lock begins with a new one: 60 or more",
             (long long)f->wait_s);
}

static void judge_account(const judge *j)
{
    const my_facts *f = j->f;

    if (strncmp(f->account, "root@", 5) == 0)
        find(j, HF_WARN, "account",
             "%s: waiters are woken by KILL QUERY within one account, so use "
             "one for locks alone, with the GRANTs of mysql.md",
             f->account);
    else
        find(j, HF_FINE, "account",
             "%s: let all that use these locks come by it, and nothing else",
             f->account);
    if (f->native && f->other_engines > 0)
        find(j, HF_FAIL, "engine",
             "%lld of our tables are not InnoDB: ALTER TABLE ... "
             "ENGINE=InnoDB",
             (long long)f->other_engines);
    if (f->tls && f->verified)
        find(j, HF_FINE, "tls", "on, and the server is verified");
    else if (f->local)
        find(j, HF_FINE, "tls", "the server is on this machine");
    else if (f->tls)
        find(j, HF_WARN, "tls",
             "on, but anybody may be the server: tls=yes&ca_file=FILE");
    else
        find(j, HF_WARN, "tls",
             "off: others on the way may read and change what is said: "
             "tls=yes&ca_file=FILE");
}

void my_judge_facts(const my_facts *facts, hf_doctor_fn *emit, void *user)
{
    judge j = {.f = facts, .emit = emit, .user = user};

    judge_version(&j);
    judge_role(&j);
    judge_disk(&j);
    judge_replicas(&j);
    judge_limits(&j);
    judge_account(&j);
}
