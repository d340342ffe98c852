/* probe.c - ask live servers what doctor wants to know.
 *
 * Each server is asked by itself, side by side: INFO once, TIME a few times,
 * of which the shortest round trip says most about its clock.  It only reads.
 * A server that does not answer is a finding like any other; so is one that
 * refuses INFO, of which the rest stays unknown.  Too few answers do not fail
 * the examination: that is what it is for. */
#include "probe.h"

#include <stdio.h>
#include <string.h>

#include "../redis/info.h"
#include "redlock.h"

enum { TIMES = 4 };

typedef struct probe {
    redlock_facts facts[VOTE_NODES_MAX];
} probe;

static void copy_text(char *ret, size_t cap, const char *text, size_t len)
{
    if (len >= cap)
        len = cap - 1;
    memcpy(ret, text, len);
    ret[len] = '\0';
}

static void note_info(redlock_facts *f, const resp *info)
{
    if (info->type != RESP_STRING)
        return;
    redis_info_text(info, "run_id", f->run_id, sizeof f->run_id);
    redis_info_text(info, "redis_version", f->version, sizeof f->version);
    redis_info_text(info, "role", f->role, sizeof f->role);
    redis_info_text(info, "maxmemory_policy", f->policy, sizeof f->policy);
    f->uptime_s = redis_info_number(info, "uptime_in_seconds");
    f->replicas = redis_info_number(info, "connected_slaves");
    f->memory_limit = redis_info_number(info, "maxmemory");
    f->log_on = redis_info_number(info, "aof_enabled");
}

static void note_time(redlock_facts *f, const redlock_step *step,
                      const resp *reply)
{
    hf_nsec trip = hfd_now() - step->call.sent;
    int64_t ours = hfd_realtime_us() - trip / 2000, theirs;

    if (!redis_read_time(reply, &theirs))
        return;
    f->answers = true;
    if (f->trip == 0 || trip < f->trip) {
        f->trip = trip;
        f->offset_us = theirs - ours;
    }
}

static void encode_question(redlock_step *step, hf__buf *out)
{
    resp_command(out, 1);
    resp_text(out, step->at == 0 ? "INFO" : "TIME");
}

static bool hear_answer(redlock_step *step, const resp *reply)
{
    probe *p = step->walk->data;
    redlock_facts *f = &p->facts[step->node];

    if (reply && step->at == 0)
        note_info(f, reply);
    else if (reply)
        note_time(f, step, reply);
    else if (step->at > 0 || step->why.code != HF_EPERM) {
        copy_text(f->why, sizeof f->why, step->why.text,
                  strlen(step->why.text));
        return false;
    }
    return step->at++ < TIMES;
}

static void end_probe(redlock_walk *walk)
{
    redlock_store *store = walk->store;
    hf_op *op = walk->op;
    probe *p = walk->data;
    redlock_use use = {
        .lease = op->ttl, .settled = store->settled, .tokens = store->tokens};

    for (size_t i = 0; i < store->count; i++)
        use.exposed = use.exposed || store->nodes[i].exposed;
    if (op->emit_finding)
        redlock_judge(p->facts, store->count, &use, op->emit_finding, op->user);
    hfd_free(p);
    hfd_finish(op, HF_APPLIED, 0);
}

void format_probe(hf_store *base, hf_op *op)
{
    redlock_store *store = redlock_of(base);
    probe *p = hfd_alloc(sizeof *p);
    redlock_walk *walk;

    if (!p) {
        hfd_finish(op, HF_NOT_APPLIED, HF_ENOMEM);
        return;
    }
    for (size_t i = 0; i < store->count; i++) {
        redlock_facts_init(&p->facts[i]);
        memcpy(p->facts[i].where, store->nodes[i].where,
               sizeof p->facts[i].where);
    }
    walk = walk_new(base, op);
    if (!walk) {
        hfd_free(p);
        return;
    }
    walk->data = p;
    walk->encode = encode_question;
    walk->hear = hear_answer;
    walk->done = end_probe;
    walk_start(walk);
}
