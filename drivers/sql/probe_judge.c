/* probe_judge.c - is this database fit to hold locks?
 *
 * Answers from facts alone: no call, no clock.  Each finding is one question
 * with its cure.  FAIL is for what breaks locks in normal operation (a table or
 * a right that is missing); WARN for what breaks them, or makes them slow, when
 * something else happens too (a failover, a clock that is set, a waiter that
 * nobody wakes).  What concerns one kind of database alone, such as its flush
 * settings, is its port's. */
#include <stdio.h>
#include <string.h>

#include "probe.h"

enum {
    MANY_QUEUES = 1000000, /* a listing, or a purge, then takes seconds */
    MANY_SESSIONS = 10000
};

typedef struct judge {
    const sql_facts *f;
    hf_doctor_fn *emit;
    void *user;
} judge;

#define find(j, ...) hfd_finding((j)->emit, (j)->user, __VA_ARGS__)

void sql_facts_init(sql_facts *facts)
{
    static const sql_facts unknown = {.database = "",
                                      .format = -1,
                                      .max_lease_us = -1,
                                      .quarantine_us = -1,
                                      .sessions = -1,
                                      .queues = -1,
                                      .values = -1};

    *facts = unknown;
}

static void judge_tables(const judge *j)
{
    const sql_facts *f = j->f;

    if (!f->native)
        return;
    if (!f->meta_there)
        find(j, HF_FAIL, "tables",
             "the table of the store's own data has no row: the tables were "
             "emptied under us; drop them and let them be made again, or "
             "restore them");
    else
        find(j, HF_FINE, "tables", "there, format %lld", (long long)f->format);
    if (f->missing[0])
        find(j, HF_FAIL, "rights",
             "this account may not %s (%s): GRANT it ('holdfast ddl %s' "
             "prints the lines)",
             f->missing, f->refusal, f->database);
    else
        find(j, HF_FINE, "rights", "this account may do what is needed");
}

static void judge_rows(const judge *j)
{
    const sql_facts *f = j->f;

    if (!f->native || f->queues < 0)
        return;
    if (f->queues >= MANY_QUEUES)
        find(j, HF_WARN, "rows", "%lld keys have a row: %s",
             (long long)f->queues,
             f->purges ? "those that are not used are removed a hundred at a "
                         "time, so this is a great many new ones; use fewer "
                         "keys, or wait"
                       : "on this database rows of idle keys are never "
                         "removed; use keys that come back");
    else if (f->sessions >= MANY_SESSIONS)
        find(j, HF_WARN, "rows",
             "%lld sessions: each process should open one and keep it",
             (long long)f->sessions);
    else
        find(j, HF_FINE, "rows", "%lld sessions, %lld keys, %lld values",
             (long long)f->sessions, (long long)f->queues,
             (long long)f->values);
}

static void judge_clock(const judge *j)
{
    const sql_facts *f = j->f;
    double offset = (double)f->offset_us / 1e6;

    if (f->observer) {
        find(j, HF_FINE, "clock",
             "observer: no clock is compared; the price is a whole lease of "
             "waiting before a dead holder is passed over");
    } else if (f->has_clock && f->samples > 0) {
        if (offset > 1 || offset < -1)
            find(j, HF_WARN, "clock",
                 "the server's clock is %.1f s %s ours: one of the two will be "
                 "set, and if it is the server's, forward, leases end early; "
                 "keep both by NTP, or open with clock=observer",
                 offset < 0 ? -offset : offset,
                 offset < 0 ? "behind" : "ahead of");
        else
            find(j, HF_FINE, "clock",
                 "the server's clock is within %.3f s of ours",
                 offset < 0 ? -offset : offset);
    }
    if (f->samples == 0)
        return;
    if (f->lease > 0 && f->trip_worst > f->lease / 10)
        find(j, HF_WARN, "roundtrip",
             "a round trip took %.1f ms, more than a tenth of the lease of "
             "%.1f s: use a longer lease, or a server that is nearer",
             (double)f->trip_worst / 1e6, (double)f->lease / 1e9);
    else
        find(j, HF_FINE, "roundtrip", "%.3f to %.3f ms",
             (double)f->trip_best / 1e6, (double)f->trip_worst / 1e6);
}

static void judge_strict(const judge *j)
{
    const sql_facts *f = j->f;

    if (!f->native || !f->meta_there)
        return;
    if (!f->meta_strict)
        find(j, HF_FINE, "strict",
             "off: after a failover to a server that has not all commits, "
             "locks that it forgot are granted again");
    else if (f->epoch_known && !f->epoch_same)
        find(j, HF_WARN, "strict",
             "another server, or another life of it, answers: the next lock "
             "begins a quarantine of %.1f s",
             (double)f->max_lease_us / 1e6);
    else if (f->quarantine_us > 0)
        find(j, HF_WARN, "strict",
             "the server may have forgotten locks: nothing is granted for "
             "another %.1f s; it ends by itself",
             (double)f->quarantine_us / 1e6);
    else
        find(j, HF_FINE, "strict",
             "on: after a failover nothing is granted for %.1f s, the longest "
             "lease",
             (double)f->max_lease_us / 1e6);
}

static void judge_waking(const judge *j)
{
    const sql_facts *f = j->f;

    if (f->native && !f->can_listen)
        find(j, HF_FINE, "waking",
             "this database tells nobody: waiters look every 20 to 500 ms");
    else if (f->native && f->deaf)
        find(j, HF_WARN, "waking",
             "nobody wakes us (%s): waiters look every 20 to 500 ms; let the "
             "listening connection through",
             f->deaf_why[0] ? f->deaf_why : "the listener is lost");
    else if (f->native)
        find(j, HF_FINE, "waking", "who leaves wakes the next one");
    find(j, HF_FINE, "connections", "at most %u of our own%s", f->connections,
         f->native && f->can_listen && !f->deaf ? ", and one that listens"
                                                : "");
}

void sql_judge_facts(const sql_facts *facts, hf_doctor_fn *emit, void *user)
{
    judge j = {.f = facts, .emit = emit, .user = user};

    judge_tables(&j);
    judge_rows(&j);
    judge_clock(&j);
    judge_strict(&j);
    judge_waking(&j);
}
