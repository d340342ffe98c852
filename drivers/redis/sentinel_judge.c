/* sentinel_judge.c - are these sentinels fit to name a primary for locks?
 *
 * Answers from facts alone, beside probe_judge.c: do enough of them answer and
 * agree, can they fail over, does a primary that is cut off stop in time, and
 * what is still not promised?  FAIL is for what lets nobody have a lock; WARN
 * for what lets two have it, or nobody, once a primary has failed. */
#include <string.h>

#include "sentinel.h"

typedef struct judge {
    const redis_facts *f;
    const redis_watch *w;
    hf_doctor_fn *emit;
    void *user;
} judge;

#define find(j, ...) hfd_finding((j)->emit, (j)->user, __VA_ARGS__)

static void judge_sentinels(const judge *j)
{
    const redis_watch *w = j->w;

    if (w->disagree > 0)
        find(j, HF_WARN, "sentinels",
             "%d of the %d that answer name another primary of '%s' than the "
             "others: a failover is under way, or they watch different servers",
             w->disagree, w->reached, w->name);
    else if (w->reached < w->listed)
        find(j, HF_WARN, "sentinels",
             "%d of the %d in the URL answer: start the others, or take them "
             "out",
             w->reached, w->listed);
    else
        find(j, HF_FINE, "sentinels", "all %d of the URL answer and agree",
             w->reached);
    if (w->sentinels < 0)
        return;
    if (w->quorum > w->sentinels)
        find(j, HF_WARN, "quorum",
             "%lld sentinels watch '%s' and %lld must agree that it is down: "
             "nothing will ever be promoted; start more, or lower the quorum",
             (long long)w->sentinels, w->name, (long long)w->quorum);
    else if (w->sentinels < 3)
        find(j, HF_WARN, "quorum",
             "%lld sentinels watch '%s': when one is gone no majority is left "
             "to promote anything; run three or more, on machines of their own",
             (long long)w->sentinels, w->name);
    else
        find(j, HF_FINE, "quorum",
             "%lld sentinels watch '%s', %lld must agree that it is down",
             (long long)w->sentinels, w->name, (long long)w->quorum);
}

static void judge_failover(const judge *j)
{
    const redis_watch *w = j->w;

    if (strstr(w->flags, "_down"))
        find(j, HF_WARN, "failover",
             "the sentinels say that the primary is down (%s): see their logs",
             w->flags);
    else if (w->replicas == 0)
        find(j, HF_WARN, "failover",
             "the primary has no replica: when it is gone there is no lock "
             "until it is back");
    else if (w->down_after_ms >= 0 &&
             w->down_after_ms >= j->f->lease / HF_MS(1))
        find(j, HF_WARN, "failover",
             "a primary must be silent for %.1f s before it is replaced, and "
             "the lease is %.1f s: holds are lost at each failover; lower "
             "down-after-milliseconds, or take a longer lease",
             (double)w->down_after_ms / 1e3, (double)j->f->lease / 1e9);
    else if (w->down_after_ms >= 0)
        find(j, HF_FINE, "failover",
             "%lld replicas; a primary that is silent for %.1f s is replaced",
             (long long)w->replicas, (double)w->down_after_ms / 1e3);
}

/* Does a primary that was cut off stop before the next one begins? */
static void judge_lag(const judge *j)
{
    const redis_facts *f = j->f;

    if (!f->strict || f->min_replicas < 1 || f->max_lag_s < 0)
        return;
    if ((f->max_lag_s + 1) * 1000 > f->lag_ms)
        find(j, HF_WARN, "lag",
             "min-replicas-max-lag is %lld s, so a primary that was cut off "
             "may grant for %lld ms, and lag_ms waits for %lld: say "
             "lag_ms=%lld in every URL, or lower the setting",
             (long long)f->max_lag_s, (long long)(f->max_lag_s + 1) * 1000,
             (long long)f->lag_ms, (long long)(f->max_lag_s + 1) * 1000);
    else
        find(j, HF_FINE, "lag",
             "a primary that was cut off stops within %lld s, and lag_ms "
             "covers that",
             (long long)f->max_lag_s + 1);
}

static void judge_confirmed(const judge *j)
{
    const redis_facts *f = j->f;

    if (f->confirmed == 0)
        return;
    if (f->replicas >= 0 && f->confirmed > f->replicas)
        find(j, HF_FAIL, "confirmed",
             "replicas=%lld, and %lld are attached: nothing can be granted; "
             "attach more, or lower it",
             (long long)f->confirmed, (long long)f->replicas);
    else if (f->replicas >= 0 && f->confirmed == f->replicas)
        find(j, HF_WARN, "confirmed",
             "replicas=%lld is every replica there is: when one is gone "
             "nothing is granted or renewed; attach one more, or lower it",
             (long long)f->confirmed);
    else
        find(j, HF_FINE, "confirmed",
             "a grant counts when %lld replicas have it",
             (long long)f->confirmed);
}

/* What is left, in one sentence. */
static void judge_promise(const judge *j)
{
    const redis_facts *f = j->f;
    bool guarded = f->min_replicas > 0 || f->good_replicas >= 0;

    if (f->strict && guarded)
        find(j, HF_FINE, "promise",
             "not promised: exclusion when a server's clock is set forward in "
             "mid-lease, or when a primary and min-replicas-to-write of its "
             "replicas are cut off from the sentinels together");
    else if (f->strict)
        find(j, HF_WARN, "promise",
             "not promised: exclusion while a primary that was cut off or "
             "stood still goes on beside its successor; set "
             "min-replicas-to-write 1 and min-replicas-max-lag 10");
    else if (f->confirmed > 0)
        find(j, HF_WARN, "promise",
             "not promised: exclusion after a failover to a replica that is "
             "not among the %lld that confirmed, or beside a primary that was "
             "cut off; strict=yes covers both",
             (long long)f->confirmed);
    else
        find(j, HF_WARN, "promise",
             "not promised: exclusion after any failover; %s",
             f->native ? "leave strict on, or say replicas=1"
                       : "this layout of others has no cure");
}

void redis_judge_sentinel(const redis_facts *facts, const redis_watch *watch,
                          hf_doctor_fn *emit, void *user)
{
    judge j = {.f = facts, .w = watch, .emit = emit, .user = user};

    judge_sentinels(&j);
    judge_failover(&j);
    judge_lag(&j);
    judge_confirmed(&j);
    judge_promise(&j);
}
