/* cluster_judge.c - is this cluster fit to hold locks?
 *
 * What doctor says beside what it says of any server (probe_judge.c): where the
 * namespace lies, whether it can be reached there, and what a failover costs.
 * Answers from facts alone. */
#include <string.h>

#include "probe.h"

#define find(...) hfd_finding(emit, user, __VA_ARGS__)

static void judge_slot(const redis_facts *f, hf_doctor_fn *emit, void *user)
{
    if (f->state[0] && strcmp(f->state, "ok") != 0)
        find(HF_FAIL, "cluster",
             "the cluster is down, or this node is cut off from most of it: "
             "see redis-cli --cluster check");
    else
        find(HF_FINE, "cluster", "%lld shards, all of it is served",
             (long long)f->shards);
    if (f->moving)
        find(HF_WARN, "slot",
             "%lld, of %s, is being moved: until it has arrived nothing is "
             "granted or given back; if nobody moves it any more, redis-cli "
             "--cluster fix",
             (long long)f->slot, f->owner);
    else
        find(HF_FINE, "slot", "%lld, of %s: all keys of this namespace",
             (long long)f->slot, f->owner);
}

static void judge_failover(const redis_facts *f, hf_doctor_fn *emit, void *user)
{
    if (f->replicas == 0)
        find(HF_WARN, "failover",
             "the owner has no replica: when it goes nobody can lock until it "
             "is back; redis-cli --cluster add-node --cluster-slave");
    else if (f->node_timeout_ms >= 0 &&
             HF_MS(f->node_timeout_ms) > f->lease - f->lease / 3)
        find(HF_WARN, "failover",
             "cluster-node-timeout is %.1f s and the lease %.1f s: every hold "
             "is lost before a replica takes over; use a longer lease or a "
             "shorter timeout",
             (double)f->node_timeout_ms / 1e3, (double)f->lease / 1e9);
    else if (f->strict && f->node_timeout_ms / 2 + 1000 > f->lag_ms)
        find(HF_WARN, "failover",
             "cluster-node-timeout is %.1f s: a primary that is cut off may "
             "grant for half of that after another was promoted, and lag_ms is "
             "%lld; give lag_ms=%lld or more",
             (double)f->node_timeout_ms / 1e3, (long long)f->lag_ms,
             (long long)(f->node_timeout_ms / 2 + 1000));
    else
        find(HF_FINE, "failover", "%s",
             f->strict ? "a replica that takes over may lack the last grants: "
                         "nothing is granted there until they have ended"
                       : "a replica that takes over may lack the last grants "
                         "and grant them again: strict=yes waits for their "
                         "end");
}

void redis_judge_cluster(const redis_facts *facts, hf_doctor_fn *emit,
                         void *user)
{
    judge_slot(facts, emit, user);
    judge_failover(facts, emit, user);
}
