/* probe_judge.c - is this etcd cluster fit to hold locks?
 *
 * Answers from facts alone: no call, no clock.  Each finding is one question
 * with its cure.  FAIL is for what keeps locks from working or breaks them in
 * normal operation; WARN for what breaks them when something else happens too,
 * or for what nobody can tell. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "probe.h"

typedef struct judge {
    const etcd_facts *f;
    hf_doctor_fn *emit;
    void *user;
} judge;

#define find(j, ...) hfd_finding((j)->emit, (j)->user, __VA_ARGS__)

static const int64_t default_quota = INT64_C(2) << 30;

void etcd_facts_init(etcd_facts *facts)
{
    *facts = (etcd_facts){.voters = -1,
                          .learners = -1,
                          .lease_floor = -1,
                          .read_best = -1,
                          .read_worst = -1,
                          .commit = -1};
}

int64_t etcd_version_number(const char *text)
{
    int64_t number = 0;

    for (int part = 0; part < 3; part++) {
        char *end;
        long n = strtol(text, &end, 10);

        if (end == text || n < 0 || n > 99 ||
            (part < 2 ? *end != '.' : *end != '\0' && *end != '-'))
            return -1;
        number = number * 100 + n;
        text = end + 1;
    }
    return number;
}

/* ---- Members ------------------------------------------------------------ */

static void judge_reach(const judge *j)
{
    size_t reached = 0;

    for (size_t i = 0; i < j->f->member_count; i++) {
        const etcd_member_facts *m = &j->f->members[i];

        reached += m->reached;
        if (!m->reached)
            find(j, HF_WARN, "reach",
                 "'%s' of the URL does not answer: %s; start it, or take it "
                 "out of the URL",
                 m->where, m->why);
        else if (m->why[0])
            find(j, HF_WARN, "health", "'%s' complains: %s", m->where, m->why);
        if (m->reached && m->learner)
            find(j, HF_WARN, "learner",
                 "'%s' is a learner, which serves no lock: take it out of the "
                 "URL until it is promoted",
                 m->where);
    }
    if (reached == j->f->member_count)
        find(j, HF_FINE, "reach", "every member of the URL answers (%zu)",
             reached);
}

static void judge_members(const judge *j)
{
    const etcd_facts *f = j->f;

    if (f->voters < 0)
        find(j, HF_WARN, "members",
             "the list of members is refused: see to it that there are at "
             "least three voters");
    else if (f->voters < 3)
        find(j, HF_WARN, "members",
             "the cluster has %" PRId64 " voting member%s: locks stop when %s "
             "is down, and a disk that is lost takes all of them along; use "
             "three or five",
             f->voters, f->voters == 1 ? "" : "s",
             f->voters == 1 ? "it" : "one of them");
    else
        find(j, HF_FINE, "members",
             "%" PRId64 " voting members: %" PRId64 " of them may be down",
             f->voters, (f->voters - 1) / 2);
    if (f->voters > (int64_t)f->member_count && f->member_count == 1)
        find(j, HF_WARN, "url",
             "the URL names one of %" PRId64 " members: name them all, so "
             "that the others are found when it is down",
             f->voters);
}

static void judge_leader(const judge *j)
{
    uint64_t leader = 0;
    bool differ = false;

    for (size_t i = 0; i < j->f->member_count; i++) {
        const etcd_member_facts *m = &j->f->members[i];

        if (!m->reached)
            continue;
        if (m->leader == 0)
            find(j, HF_FAIL, "leader",
                 "'%s' knows no leader: it is cut off, or no majority is up; "
                 "nothing can be locked there",
                 m->where);
        differ = differ || (leader && m->leader && m->leader != leader);
        leader = m->leader ? m->leader : leader;
    }
    if (differ)
        find(j, HF_WARN, "leader",
             "the members name different leaders: an election is under way, or "
             "the URL names two clusters");
    else if (leader)
        find(j, HF_FINE, "leader", "there is one (%" PRIx64 ")", leader);
}

/* ---- Versions ----------------------------------------------------------- */

static bool has_stale_leases(int64_t version)
{
    return version < 30431 || (version >= 30500 && version < 30513);
}

static void judge_version(const judge *j, const etcd_member_facts *m)
{
    if (m->version_number < 0)
        find(j, HF_WARN, "version",
             "'%s' is of version '%s', which is not "
             "one that is known",
             m->where, m->version);
    else if (m->version_number < 30400)
        find(j, HF_FAIL, "version",
             "'%s' is etcd %s: watches with numbers of ours need 3.4 or newer",
             m->where, m->version);
    else if (has_stale_leases(m->version_number))
        find(j, HF_WARN, "version",
             "'%s' is etcd %s: a leader that was stuck and replaced may end "
             "leases that are not its any more (mended in 3.4.31 and 3.5.13); "
             "upgrade, and let what is locked refuse old tokens",
             m->where, m->version);
    else
        find(j, HF_FINE, "version", "'%s' is etcd %s", m->where, m->version);
}

/* ---- Space -------------------------------------------------------------- */

static void judge_alarms(const judge *j)
{
    const etcd_facts *f = j->f;

    if (!f->alarms_known)
        find(j, HF_WARN, "alarms",
             "the list of alarms is refused: ask with etcdctl alarm list");
    if (f->no_space)
        find(j, HF_FAIL, "alarms",
             "NOSPACE: nobody can lock, while releases and renewals work; "
             "compact, defragment, then etcdctl alarm disarm");
    if (f->corrupt)
        find(j, HF_FAIL, "alarms",
             "CORRUPT: the members' data differ, and with them who holds what; "
             "stop using it and restore the member that is wrong");
    if (f->alarms_known && !f->no_space && !f->corrupt)
        find(j, HF_FINE, "alarms", "none");
}

static void judge_space(const judge *j)
{
    const etcd_member_facts *fullest = NULL;
    int64_t quota;

    for (size_t i = 0; i < j->f->member_count; i++) {
        const etcd_member_facts *m = &j->f->members[i];

        if (m->reached && (!fullest || m->size > fullest->size))
            fullest = m;
    }
    if (!fullest)
        return;
    quota = fullest->quota > 0 ? fullest->quota : default_quota;
    find(j, fullest->size > quota / 10 * 8 ? HF_WARN : HF_FINE, "space",
         "the database has %" PRId64 " MiB of %s%" PRId64 " MiB%s",
         fullest->size >> 20, fullest->quota > 0 ? "" : "what is by default ",
         quota >> 20,
         fullest->size > quota / 10 * 8
             ? ": at the quota nobody can lock; compact and defragment"
             : "");
}

/* ---- Leases, time, rights ----------------------------------------------- */

static void judge_writing(const judge *j)
{
    const etcd_facts *f = j->f;

    if (f->refused[0])
        find(j, HF_FAIL, "write", "a lock cannot be written: %s", f->refused);
    else if (f->commit >= 0)
        find(j, f->commit > HF_MS(100) ? HF_WARN : HF_FINE, "write",
             "a commit took %.1f ms%s", (double)f->commit / 1e6,
             f->commit > HF_MS(100)
                 ? ": a lock and its release wait so long each; give etcd a "
                   "disk of its own that syncs fast"
                 : "");
    if (f->lease_floor >= 0)
        find(j, f->lease_floor > 5 ? HF_WARN : HF_FINE, "lease",
             "the shortest lease is %" PRId64 " s (1.5 times the election "
             "timeout)%s; leases are whole seconds",
             f->lease_floor,
             f->lease_floor > 5 ? ": a crash is noticed no sooner" : "");
    if (f->read_best >= 0)
        find(j, HF_FINE, "latency", "a linearizable read took %.1f to %.1f ms",
             (double)f->read_best / 1e6, (double)f->read_worst / 1e6);
    find(j, HF_FINE, "clock",
         "no clock's value matters: the leader counts leases by a clock that "
         "only goes forward, and a change of leaders lengthens them");
}

static void judge_access(const judge *j)
{
    const etcd_facts *f = j->f;

    if (f->exposed)
        find(j, HF_WARN, "tls",
             "plain TCP to another machine: anybody on the way can read and "
             "forge; use etcds://");
    else
        find(j, HF_FINE, "tls", "%s",
             f->tls ? "the connection is TLS"
                    : "it does not leave this machine");
    if (f->has_user)
        find(j, HF_FINE, "auth", "logged in as a user of its own");
    else
        find(j, HF_WARN, "auth",
             "no user in the URL: whoever reaches the cluster with what we "
             "have can delete any lock; switch authentication on, or ask for "
             "client certificates");
}

void etcd_judge(const etcd_facts *facts, hf_doctor_fn *emit, void *user)
{
    judge j = {facts, emit, user};

    judge_reach(&j);
    judge_members(&j);
    judge_leader(&j);
    for (size_t i = 0; i < facts->member_count; i++) {
        if (facts->members[i].reached)
            judge_version(&j, &facts->members[i]);
    }
    judge_alarms(&j);
    judge_space(&j);
    judge_writing(&j);
    judge_access(&j);
}
