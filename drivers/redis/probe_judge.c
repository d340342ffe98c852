/* probe_judge.c - is this Redis server fit to hold locks?
 *
 * Answers from facts alone: no call, no clock.  Each finding is one question
 * with its cure.  FAIL is for what breaks locks in normal operation (evicted
 * keys, commands that are refused); WARN for what breaks them when something
 * else happens too (a crash, a failover, a clock that is set), or for what
 * nobody can tell.
 *
 * What a crash forgets is judged by `strict`: there nothing is granted until
 * every forgotten lease has ended, so lost memory costs time, not exclusion. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "probe.h"
#include "store.h"

typedef struct judge {
    const redis_facts *f;
    hf_doctor_fn *emit;
    void *user;
} judge;

#define find(j, ...) hfd_finding((j)->emit, (j)->user, __VA_ARGS__)

void redis_facts_init(redis_facts *facts)
{
    static const redis_facts unknown = {.version_number = -1,
                                        .uptime_s = -1,
                                        .clients = -1,
                                        .replicas = -1,
                                        .good_replicas = -1,
                                        .memory_limit = -1,
                                        .client_limit = -1,
                                        .log_on = -1,
                                        .min_replicas = -1,
                                        .max_lag_s = -1,
                                        .script_ms = -1,
                                        .push_hard = -1,
                                        .push_soft = -1,
                                        .push_soft_s = -1,
                                        .quarantine_us = -1,
                                        .slot = -1,
                                        .shards = -1,
                                        .node_timeout_ms = -1};

    *facts = unknown;
}

bool redis_host_is_local(const char *host)
{
    struct in_addr four;
    struct in6_addr six;

    if (inet_pton(AF_INET, host, &four) == 1)
        return (ntohl(four.s_addr) >> 24) == 127;
    if (inet_pton(AF_INET6, host, &six) == 1)
        return IN6_IS_ADDR_LOOPBACK(&six);
    return strcasecmp(host, "localhost") == 0 ||
           strcasecmp(host, "ip6-localhost") == 0;
}

/* What we may not ask is told first: the rest is then read with more care. */
static void judge_sight(const judge *j)
{
    if (j->f->info_refused)
        find(j, HF_WARN, "info",
             "INFO is refused: version, role and memory cannot be told; allow "
             "it with ACL SETUSER ... +info");
    if (j->f->config_refused)
        find(j, HF_WARN, "config",
             "CONFIG GET is refused: some settings below cannot be told; "
             "allow it with ACL SETUSER ... +config|get, or look them up at "
             "your provider");
}

static void judge_server(const judge *j)
{
    const redis_facts *f = j->f;

    if (f->version_number >= 0 && f->version_number < 50000)
        find(j, HF_FAIL, "version",
             "Redis %s replicates scripts word by word, which a lock by the "
             "server's clock does not survive: use 5.0 or newer",
             f->version);
    else if (f->version_number >= 0)
        find(j, HF_FINE, "version", "Redis %s", f->version);
    if (f->role[0] && strcmp(f->role, "master") != 0)
        find(j, HF_FAIL, "role",
             "this server is a %s: name the primary in the URL",
             strcmp(f->role, "slave") == 0 ? "replica" : f->role);
    else if (f->role[0])
        find(j, HF_FINE, "role", "a primary");
    if (strcmp(f->mode, "cluster") == 0 && !f->clustered)
        find(j, HF_FAIL, "mode",
             "this server is part of a Redis Cluster, where a namespace may "
             "move to another node: use redis+cluster: or a server outside "
             "of it");
    else if (f->mode[0] && !f->clustered)
        find(j, HF_FINE, "mode", "one server, no cluster");
}

static void judge_memory(const judge *j)
{
    const redis_facts *f = j->f;

    if (f->memory_limit < 0)
        find(j, HF_WARN, "eviction",
             "cannot tell whether keys are evicted when memory is short: make "
             "sure that maxmemory-policy is noeviction");
    else if (f->memory_limit == 0)
        find(j, HF_FINE, "eviction", "no memory limit, so no key is evicted");
    else if (strcmp(f->policy, "noeviction") == 0)
        find(j, HF_FINE, "eviction",
             "maxmemory-policy is noeviction: when memory is short writes "
             "fail and no lock vanishes");
    else
        find(j, HF_FAIL, "eviction",
             "maxmemory-policy is %s: when memory is short locks vanish while "
             "they are held; CONFIG SET maxmemory-policy noeviction, or use a "
             "server of their own",
             f->policy[0] ? f->policy : "unknown");
}

/* Another system's format has no strict: there the server alone can help. */
static const char *strict_or(const judge *j)
{
    return j->f->native ? "use strict=yes, or " : "use ";
}

/* With strict the price of forgetting is time; without, it is two holders. */
static void judge_disk(const judge *j)
{
    const redis_facts *f = j->f;

    if (strcmp(f->log_status, "err") == 0 ||
        strcmp(f->snapshot_status, "err") == 0)
        find(j, HF_WARN, "disk",
             "the last %s failed, and Redis may refuse writes until one "
             "succeeds: make room and look into its log",
             strcmp(f->log_status, "err") == 0 ? "write of the append-only file"
                                               : "snapshot");
    if (f->strict)
        find(j, HF_FINE, "persistence",
             "strict: whatever a crash forgets, nothing is granted until it "
             "would have ended");
    else if (f->log_on < 0)
        find(j, HF_WARN, "persistence",
             "cannot tell what a crash of the server forgets: %sappendonly "
             "yes with appendfsync always",
             strict_or(j));
    else if (!f->log_on)
        find(
            j, HF_WARN, "persistence",
            "appendonly is no%s: a restart forgets locks that are still held "
            "and a second holder is granted; %sappendonly yes with appendfsync "
            "always",
            f->snapshots_known && !f->snapshots[0] ? " and save is off" : "",
            strict_or(j));
    else if (!f->log_sync[0])
        find(j, HF_WARN, "persistence",
             "appendonly is yes, but appendfsync cannot be told: unless it is "
             "always a crash forgets the latest grants; %sappendfsync always",
             strict_or(j));
    else if (strcmp(f->log_sync, "always") != 0)
        find(j, HF_WARN, "persistence",
             "appendfsync is %s: a crash forgets the grants of the last "
             "second or more; %sappendfsync always",
             f->log_sync, strict_or(j));
    else
        find(j, HF_FINE, "persistence",
             "appendonly with appendfsync always: a crash forgets nothing "
             "that was answered");
}

static void judge_replicas(const judge *j)
{
    const redis_facts *f = j->f;
    bool guarded = f->min_replicas > 0 || f->good_replicas >= 0;

    if (f->replicas < 0)
        return;
    if (f->replicas == 0)
        find(j, HF_FINE, "replicas", "none, so no failover to one");
    else if (!f->strict)
        find(j, HF_WARN, "replicas",
             "%lld attached: one that is promoted may not know your lock, and "
             "grants it again; %s",
             (long long)f->replicas,
             !f->native ? "this format has no cure: a store of our own layout "
                          "with strict=yes has"
             : guarded  ? "use strict=yes"
                        : "use strict=yes and min-replicas-to-write 1");
    else if (!guarded)
        find(j, HF_WARN, "replicas",
             "%lld attached and min-replicas-to-write is 0: a primary that is "
             "cut off goes on granting; CONFIG SET min-replicas-to-write 1",
             (long long)f->replicas);
    else
        find(j, HF_FINE, "replicas",
             "%lld attached; a primary that is cut off stops granting, and a "
             "promoted one waits",
             (long long)f->replicas);
}

static void judge_strict(const judge *j)
{
    const redis_facts *f = j->f;

    if (!f->native)
        return;
    if (!f->strict)
        find(j, HF_FINE, "strict",
             "off: after a restart or failover locks are granted at once");
    else if (f->quarantine_us > 0)
        find(j, HF_WARN, "strict",
             "the server may have forgotten locks: nothing is granted for "
             "another %.1f s; it ends by itself",
             (double)f->quarantine_us / 1e6);
    else
        find(j, HF_FINE, "strict",
             "on: after a restart or failover nothing is granted for %.1f s",
             (double)(f->max_lease_ms + f->lag_ms) / 1e3);
    if (!f->strict && f->uptime_s >= 0 &&
        f->uptime_s < f->lease / HF_MS(1000) + 1)
        find(j, HF_WARN, "uptime",
             "the server started %lld s ago, less than a lease: holders from "
             "before may still believe in locks that it forgot; wait a lease",
             (long long)f->uptime_s);
    else if (f->uptime_s >= 0)
        find(j, HF_FINE, "uptime", "the server runs for %lld s",
             (long long)f->uptime_s);
}

static void judge_clock(const judge *j)
{
    const redis_facts *f = j->f;
    double offset = (double)f->offset_us / 1e6;

    if (!f->samples)
        return;
    if (offset > 1 || offset < -1)
        find(j, HF_WARN, "clock",
             "the server's clock is %.1f s %s ours: one of the two will be "
             "set, and if it is the server's, forward, leases end early; keep "
             "both by NTP",
             offset < 0 ? -offset : offset, offset < 0 ? "behind" : "ahead of");
    else
        find(j, HF_FINE, "clock", "the server's clock is within %.3f s of ours",
             offset < 0 ? -offset : offset);
    if (f->lease > 0 && f->trip_worst > f->lease / 10)
        find(j, HF_WARN, "roundtrip",
             "a round trip took %.1f ms, more than a tenth of the lease of "
             "%.1f s: use a longer lease, or a server that is nearer",
             (double)f->trip_worst / 1e6, (double)f->lease / 1e9);
    else
        find(j, HF_FINE, "roundtrip", "%.3f to %.3f ms",
             (double)f->trip_best / 1e6, (double)f->trip_worst / 1e6);
}

static void judge_limits(const judge *j)
{
    const redis_facts *f = j->f;
    int64_t free_places = f->client_limit - f->clients;

    if (f->client_limit >= 0 && f->clients >= 0) {
        if (free_places < 32 || free_places < f->client_limit / 10)
            find(j, HF_WARN, "clients",
                 "%lld of %lld connections are taken: who reconnects may find "
                 "no place and lose its locks; raise maxclients",
                 (long long)f->clients, (long long)f->client_limit);
        else
            find(j, HF_FINE, "clients", "%lld of %lld connections are taken",
                 (long long)f->clients, (long long)f->client_limit);
    }
    if (f->push_hard >= 0) {
        if ((f->push_hard > 0 && f->push_hard < 1 << 20) ||
            (f->push_soft > 0 && f->push_soft < 1 << 18))
            find(j, HF_WARN, "pushes",
                 "client-output-buffer-limit pubsub cuts listeners at %lld "
                 "bytes (%lld for %lld s), which makes waiters late; set it "
                 "to 32mb 8mb 60",
                 (long long)f->push_hard, (long long)f->push_soft,
                 (long long)f->push_soft_s);
        else
            find(j, HF_FINE, "pushes", "room enough for listeners that lag");
    }
    if (f->script_ms < 0)
        return;
    if (f->script_ms == 0 || f->script_ms > f->lease / HF_MS(1) / 2)
        find(j, HF_WARN, "scripts",
             "a script of somebody else may block the server for %lld ms "
             "(0: for ever) before it can be killed, which is long for a "
             "lease of %.1f s: lower lua-time-limit (busy-reply-threshold)",
             (long long)f->script_ms, (double)f->lease / 1e9);
    else
        find(j, HF_FINE, "scripts",
             "a script that runs for more than %lld ms can be killed",
             (long long)f->script_ms);
}

static void judge_rights(const judge *j)
{
    const redis_facts *f = j->f;

    if (f->rights_refused)
        find(
            j, HF_FAIL, "rights",
            "this user may not run scripts, and every operation is one: ACL "
            "SETUSER ... +eval +evalsha (drivers/redis/redis.md has the line)");
    else if (f->rights_known && f->rights_missing[0])
        find(j, HF_FAIL, "rights",
             "this user may not run %s on these keys or channels: allow it "
             "with ACL SETUSER (drivers/redis/redis.md has the line)",
             f->rights_missing);
    else if (f->rights_known)
        find(j, HF_FINE, "rights", "this user may run what is needed");
    if (f->exposed)
        find(j, HF_WARN, "transport",
             "plain TCP to another machine: whoever is on the way reads the "
             "password and may break locks; use rediss://");
    else
        find(j, HF_FINE, "transport", "TLS, or it does not leave this machine");
}

void redis_judge(const redis_facts *facts, hf_doctor_fn *emit, void *user)
{
    judge j = {.f = facts, .emit = emit, .user = user};

    judge_sight(&j);
    judge_server(&j);
    judge_memory(&j);
    judge_disk(&j);
    judge_replicas(&j);
    judge_strict(&j);
    judge_clock(&j);
    judge_limits(&j);
    judge_rights(&j);
}
