/* probe_judge.c - are these servers fit to hold locks together?
 *
 * Answers from facts alone: no call, no clock.  Each finding is one question
 * about all of them, with its cure, and names those it is about.  FAIL is for
 * what breaks locks in normal operation, WARN for what breaks them when
 * something else happens too, or what nobody can tell.
 *
 * Two things are asked here that one server alone is not asked: are they really
 * independent (one that copies another has no vote of its own), and was one of
 * them started within a lease?  A server that comes back empty votes anew in
 * the middle of a hold that it had voted for; so it should stay down, or its
 * votes uncounted (strict), until the longest lease is over. */
#include "probe.h"

#include <stdio.h>
#include <string.h>

typedef struct judge {
    const redlock_facts *facts;
    size_t n;
    const redlock_use *use;
    hf_doctor_fn *emit;
    void *user;
} judge;

#define find(j, ...) hfd_finding((j)->emit, (j)->user, __VA_ARGS__)

void redlock_facts_init(redlock_facts *facts)
{
    static const redlock_facts unknown = {
        .uptime_s = -1, .replicas = -1, .memory_limit = -1, .log_on = -1};

    *facts = unknown;
}

/* "h1:p, h2:p" of those of whom it is true; how many. */
static size_t name_those(const judge *j, bool (*is)(const judge *j, size_t i),
                         char *ret, size_t room)
{
    size_t count = 0, used = 0;

    ret[0] = '\0';
    for (size_t i = 0; i < j->n; i++) {
        int len;

        if (!is(j, i))
            continue;
        len = snprintf(ret + used, room - used, "%s%s", count ? ", " : "",
                       j->facts[i].where);
        used = used + (size_t)len < room ? used + (size_t)len : room - 1;
        count++;
    }
    return count;
}

static bool is_silent(const judge *j, size_t i)
{
    return !j->facts[i].answers;
}

static void judge_servers(const judge *j)
{
    char names[200];
    size_t silent = name_those(j, is_silent, names, sizeof names);

    for (size_t i = 0; i < j->n; i++) {
        if (is_silent(j, i))
            find(j, HF_WARN, "server", "no answer: %s", j->facts[i].why);
    }
    if (j->n - silent < vote_majority(j->n))
        find(j, HF_FAIL, "quorum",
             "%zu of %zu servers answer and %u are needed: bring back %s",
             j->n - silent, j->n, vote_majority(j->n), names);
    else if (silent > 0)
        find(j, HF_WARN, "quorum",
             "%zu of %zu servers answer: locks work, and %zu more may fail; "
             "bring back %s",
             j->n - silent, j->n, j->n - silent - vote_majority(j->n), names);
    else
        find(j, HF_FINE, "quorum", "all %zu servers answer; %zu may fail", j->n,
             j->n - vote_majority(j->n));
}

static bool has_a_twin(const judge *j, size_t i)
{
    for (size_t k = 0; k < j->n; k++) {
        if (k != i && j->facts[i].run_id[0] &&
            strcmp(j->facts[i].run_id, j->facts[k].run_id) == 0)
            return true;
    }
    return false;
}

static bool is_replicated(const judge *j, size_t i)
{
    const redlock_facts *f = &j->facts[i];

    return f->replicas > 0 || (f->role[0] && strcmp(f->role, "master") != 0);
}

static void judge_independence(const judge *j)
{
    char names[200];

    if (name_those(j, has_a_twin, names, sizeof names) > 0)
        find(j, HF_FAIL, "independence",
             "%s are one server under several names: it votes more than once; "
             "name each server once",
             names);
    else if (name_those(j, is_replicated, names, sizeof names) > 0)
        find(j, HF_WARN, "independence",
             "%s is replicated: a copy that is promoted may have missed a "
             "vote and gives it again; run the servers without replicas",
             names);
    else
        find(j, HF_FINE, "independence",
             "each is a server of its own, without replicas");
}

static bool evicts(const judge *j, size_t i)
{
    const redlock_facts *f = &j->facts[i];

    return f->memory_limit > 0 && strcmp(f->policy, "noeviction") != 0;
}

static bool hides_memory(const judge *j, size_t i)
{
    return j->facts[i].answers && j->facts[i].memory_limit < 0;
}

static void judge_memory(const judge *j)
{
    char names[200];

    if (name_those(j, evicts, names, sizeof names) > 0)
        find(j, HF_FAIL, "eviction",
             "%s evicts keys when memory is short, and with them votes for "
             "locks that are held: CONFIG SET maxmemory-policy noeviction",
             names);
    else if (name_those(j, hides_memory, names, sizeof names) > 0)
        find(j, HF_WARN, "eviction",
             "%s refuses INFO: whether keys are evicted cannot be told; make "
             "sure that maxmemory-policy is noeviction",
             names);
    else
        find(j, HF_FINE, "eviction", "no vote is evicted");
}

/* How old a server must be before nobody believes in a vote it forgot. */
static hf_nsec age_needed(const judge *j)
{
    return j->use->settled > 0 ? j->use->settled : j->use->lease;
}

static bool is_young(const judge *j, size_t i)
{
    int64_t uptime = j->facts[i].uptime_s;

    return uptime >= 0 && uptime < age_needed(j) / HF_MS(1000) + 1;
}

static bool forgets(const judge *j, size_t i)
{
    return j->facts[i].log_on == 0;
}

static void judge_restarts(const judge *j)
{
    double seconds = (double)age_needed(j) / 1e9;
    char names[200];

    if (name_those(j, is_young, names, sizeof names) == 0)
        find(j, HF_FINE, "uptime", "all run for longer than %.1f s", seconds);
    else if (j->use->settled > 0)
        find(j, HF_WARN, "uptime",
             "%s was started less than %.1f s ago: its votes do not count "
             "until then (strict)",
             names, seconds);
    else
        find(j, HF_WARN, "uptime",
             "%s was started less than a lease of %.1f s ago: if it came back "
             "empty it votes again for locks that are held; keep a server "
             "down for a lease before it is started, or use strict=yes",
             names, seconds);
    if (j->use->settled > 0)
        find(j, HF_FINE, "persistence",
             "strict: a server that was restarted does not vote for %.1f s, "
             "whatever it forgot",
             seconds);
    else if (name_those(j, forgets, names, sizeof names) > 0)
        find(j, HF_WARN, "persistence",
             "%s keeps nothing over a restart: start it again only when the "
             "longest lease is over, or use strict=yes",
             names);
    else
        find(j, HF_FINE, "persistence",
             "append-only files; with appendfsync always a restart forgets "
             "nothing that was answered");
}

static void judge_clocks(const judge *j)
{
    int64_t least = INT64_MAX, most = INT64_MIN;
    hf_nsec trip = 0;

    for (size_t i = 0; i < j->n; i++) {
        const redlock_facts *f = &j->facts[i];

        if (!f->answers)
            continue;
        least = f->offset_us < least ? f->offset_us : least;
        most = f->offset_us > most ? f->offset_us : most;
        trip = f->trip > trip ? f->trip : trip;
    }
    if (least > most)
        return;
    if (most - least > 1000000)
        find(j, HF_WARN, "clocks",
             "the servers' clocks are %.1f s apart: one of them will be set, "
             "and votes there end early or late; keep all by NTP",
             (double)(most - least) / 1e6);
    else
        find(j, HF_FINE, "clocks", "the servers' clocks are within %.3f s",
             (double)(most - least) / 1e6);
    if (j->use->lease > 0 && trip > j->use->lease / 20)
        find(j, HF_WARN, "roundtrip",
             "the slowest server takes %.1f ms, more than a twentieth of the "
             "lease of %.1f s: use a longer lease, or nearer servers",
             (double)trip / 1e6, (double)j->use->lease / 1e9);
    else
        find(j, HF_FINE, "roundtrip", "the slowest server takes %.3f ms",
             (double)trip / 1e6);
}

static void judge_use(const judge *j)
{
    if (j->use->tokens)
        find(j, HF_FINE, "token",
             "rises strictly while a majority remembers; beyond that by the "
             "servers' clocks");
    else
        find(j, HF_WARN, "token",
             "off (token=no): nothing fences a holder that was paused past "
             "its lease");
    if (j->use->exposed)
        find(j, HF_WARN, "transport",
             "plain TCP to another machine: whoever is on the way reads the "
             "password and may break locks; use a private network or a "
             "tunnel");
    else
        find(j, HF_FINE, "transport", "it does not leave this machine");
}

void redlock_judge(const redlock_facts *facts, size_t n, const redlock_use *use,
                   hf_doctor_fn *emit, void *user)
{
    judge j = {.facts = facts, .n = n, .use = use, .emit = emit, .user = user};

    judge_servers(&j);
    judge_independence(&j);
    judge_memory(&j);
    judge_restarts(&j);
    judge_clocks(&j);
    judge_use(&j);
}
