/* probe_judge.c - is this ensemble fit to hold locks?
 *
 * Answers from facts alone: no call, no clock.  Each finding is one question
 * with its cure.  FAIL is for what breaks locks in normal operation (a tick
 * that is longer than we count with, a session that cannot be renewed in time);
 * WARN for what breaks or stops them when something else happens too, or for
 * what nobody can tell. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe.h"
#include "record.h"

typedef struct judge {
    const zk_facts *f;
    hf_doctor_fn *emit;
    void *user;
} judge;

#define find(j, ...) hfd_finding((j)->emit, (j)->user, __VA_ARGS__)

static int64_t ms(hf_nsec ns)
{
    return ns / 1000000;
}

static bool is_mode(const zk_probed *member, const char *mode)
{
    return strcmp(member->mode, mode) == 0;
}

static size_t count_mode(const zk_facts *f, const char *mode)
{
    size_t n = 0;

    for (size_t i = 0; i < f->member_count; i++)
        n += is_mode(&f->members[i], mode);
    return n;
}

/* What conf says of the ensemble, by any member that does; -1. */
static int64_t most(const zk_facts *f, size_t offset)
{
    int64_t found = -1;

    for (size_t i = 0; i < f->member_count; i++) {
        int64_t n;

        memcpy(&n, (const char *)&f->members[i] + offset, sizeof n);
        if (n > found)
            found = n;
    }
    return found;
}
#define MOST(f, field) most(f, offsetof(zk_probed, field))

/* ---- Members ------------------------------------------------------------ */

static void judge_members(const judge *j)
{
    const zk_facts *f = j->f;

    for (size_t i = 0; i < f->member_count; i++) {
        const zk_probed *m = &f->members[i];

        if (!m->reached)
            find(j, HF_WARN, "member",
                 "'%s' does not answer: start it, or take it out of the URL "
                 "(%s)",
                 m->name, m->why);
        else if (!m->mode[0])
            find(j, HF_WARN, "member",
                 "'%s' does not say what it is: allow srvr in its "
                 "4lw.commands.whitelist",
                 m->name);
    }
    if (f->read_only)
        find(j, HF_FAIL, "quorum",
             "'%s' has lost its quorum: bring a majority of the servers back",
             f->connected_to);
}

static void judge_quorum(const judge *j)
{
    const zk_facts *f = j->f;
    int64_t voters = MOST(f, voters), observers = MOST(f, observers);
    size_t leaders = count_mode(f, "leader");
    size_t seen = leaders + count_mode(f, "follower");

    if (f->member_count == 0)
        return;
    if (count_mode(f, "standalone")) {
        find(j, HF_WARN, "quorum",
             "one server by itself: while it is down nothing can be locked, "
             "and what its disk loses is lost; use three");
        return;
    }
    if (leaders > 1)
        find(j, HF_FAIL, "quorum",
             "two members say that they lead: the URL names two ensembles, "
             "which are two stores; name one");
    else if (voters == 2)
        find(j, HF_WARN, "quorum",
             "two voting servers stop when either does: use three");
    else if (voters > 2)
        find(j, HF_FINE, "quorum", "%lld voting servers", (long long)voters);
    else if (seen > 0)
        find(j, seen < 3 ? HF_WARN : HF_FINE, "quorum",
             "%zu voting servers were seen; how many there are cannot be told "
             "without conf in 4lw.commands.whitelist",
             seen);
    if (seen > 0 && leaders == 0 && f->member_count > 1)
        find(j, HF_FINE, "leader", "it is none of the servers in the URL");
    if (observers > 0 || count_mode(f, "observer"))
        find(j, HF_FINE, "observers",
             "observers are in use: they count for no quorum, and a lock "
             "through one takes longer");
}

/* 3.8.0 as 30800; -1: not understood. */
static long version_number(const char *text)
{
    char *end;
    long major = strtol(text, &end, 10), minor, patch = 0;

    if (end == text || *end != '.')
        return -1;
    minor = strtol(end + 1, &end, 10);
    if (*end == '.')
        patch = strtol(end + 1, &end, 10);
    if (major < 0 || major > 999 || minor < 0 || minor > 99 || patch < 0)
        return -1;
    return major * 10000 + minor * 100 + (patch > 99 ? 99 : patch);
}

static void judge_version(const judge *j)
{
    for (size_t i = 0; i < j->f->member_count; i++) {
        const zk_probed *m = &j->f->members[i];
        long number = version_number(m->version);

        if (strcmp(m->version, "ClickHouse Keeper") == 0)
            find(j, HF_WARN, "version",
                 "'%s' is ClickHouse Keeper, which this driver is not tested "
                 "with: use Apache ZooKeeper",
                 m->name);
        else if (number >= 0 && number < 30505)
            find(j, HF_WARN, "version",
                 "'%s' runs %s, which has no containers or loses them: use "
                 "3.5.5 or newer",
                 m->name, m->version);
        else if (m->version[0])
            find(j, HF_FINE, "version", "'%s' runs %s", m->name, m->version);
    }
    if (j->f->plain_parents)
        find(j, HF_WARN, "containers",
             "the servers have no container nodes: a node stays for every "
             "key that was ever used; use 3.5.5 or newer");
}

/* ---- Time --------------------------------------------------------------- */

static void judge_tick(const judge *j)
{
    const zk_facts *f = j->f;
    int64_t tick = MOST(f, tick_ms), ours = ms(f->tick);

    if (tick < 0)
        find(j, HF_WARN, "tick",
             "the servers' tickTime cannot be told (allow conf in "
             "4lw.commands.whitelist): it must not be longer than tick_ms, "
             "which is %lld ms",
             (long long)ours);
    else if (tick > ours)
        find(j, HF_FAIL, "tick",
             "the servers' tickTime is %lld ms and we count with %lld: a lock "
             "may be given away while we believe in it; add tick_ms=%lld to "
             "the URL",
             (long long)tick, (long long)ours, (long long)tick);
    else if (tick < ours)
        find(j, HF_FINE, "tick",
             "the servers' tickTime is %lld ms, we count with %lld; tick_ms="
             "%lld would let a shorter lease through",
             (long long)tick, (long long)ours, (long long)tick);
    else
        find(j, HF_FINE, "tick", "tickTime is %lld ms, as we count",
             (long long)tick);
}

static void judge_session(const judge *j)
{
    const zk_facts *f = j->f;
    int64_t wish = ms(f->lease), max = MOST(f, max_ms), min = MOST(f, min_ms);

    if (f->attached && f->timeout_ms < wish)
        find(j, HF_WARN, "session",
             "a lease of %lld ms was asked for and the servers allow %lld: "
             "raise maxSessionTimeout, or ask for less",
             (long long)wish, (long long)f->timeout_ms);
    else if (!f->attached && max >= 0 && max < wish)
        find(j, HF_WARN, "session",
             "the lease is %lld ms and maxSessionTimeout %lld: raise it, or "
             "ask for less",
             (long long)wish, (long long)max);
    else if (min > wish)
        find(j, HF_WARN, "session",
             "the lease is %lld ms and minSessionTimeout %lld: a crash is "
             "noticed only after that",
             (long long)wish, (long long)min);
    else
        find(j, HF_FINE, "session", "the servers allow a lease of %lld ms",
             (long long)wish);
}

static void judge_trip(const judge *j)
{
    const zk_facts *f = j->f;
    hf_nsec attempt = f->lease / 6 < HF_MS(2000) ? f->lease / 6 : HF_MS(2000);

    if (f->samples == 0)
        return;
    find(j, f->trip_worst > attempt / 2 ? HF_WARN : HF_FINE, "trip",
         "the leader answers in %lld to %lld us%s",
         (long long)(f->trip_best / 1000), (long long)(f->trip_worst / 1000),
         f->trip_worst > attempt / 2
             ? ": too slow for this lease; ask for a longer one"
             : "");
}

/* ---- Who may do what ---------------------------------------------------- */

static void judge_access(const judge *j)
{
    const zk_facts *f = j->f;
    const int change = ZK_PERM_CREATE | ZK_PERM_DELETE | ZK_PERM_ADMIN;

    if (!f->root_exists)
        find(j, HF_FINE, "acl",
             "'%s' does not exist yet: the first lock "
             "makes it",
             f->root);
    else if (!f->acl_known)
        find(j, HF_WARN, "acl",
             "the ACL of '%s' cannot be read: give this user the right to "
             "read it",
             f->root);
    else if ((f->world & change) == change)
        find(j, HF_WARN, "acl",
             "anybody who reaches the servers may take locks of '%s' away: "
             "user:password in the URL and acl=creator, and an ACL on that "
             "node",
             f->root);
    else
        find(j, HF_FINE, "acl", "'%s' is not open to the world", f->root);
    if (f->exposed)
        find(j, HF_WARN, "network",
             "the connection leaves this machine in plain text, password and "
             "all: zookeepers:// and a secureClientPort");
}

void zk_judge(const zk_facts *facts, hf_doctor_fn *emit, void *user)
{
    const judge j = {.f = facts, .emit = emit, .user = user};

    judge_members(&j);
    judge_quorum(&j);
    judge_version(&j);
    judge_tick(&j);
    judge_session(&j);
    judge_trip(&j);
    judge_access(&j);
}
