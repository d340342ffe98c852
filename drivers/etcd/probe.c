/* probe.c - ask a live etcd cluster what doctor wants to know.
 *
 * First every member that the URL names is asked for its status, over a
 * connection of its own, on the caller's thread; then a chain of calls over the
 * usual one: members, alarms, a few reads with their times, the shortest lease
 * there is, and a key under that lease, which goes with it.  A question that is
 * refused is a fact like any other, and what hangs on it stays unknown; only a
 * cluster that does not answer at all fails the operation.
 *
 * Reply lost: the operation is unknown; what was written ends with its lease,
 * in a few seconds. */
#include <stdio.h>
#include <string.h>

#include "probe.h"
#include "store.h"

enum { READS = 5 };

typedef struct probe {
    etcd_facts facts;
    hf_nsec begun; /* of the call under way */
    int64_t lease;
    int reads;
} probe;

static void ask_read(hf_op *op, etcd_work *work);

static etcd_facts *facts_of(etcd_work *work)
{
    return &((probe *)work->more)->facts;
}

static void copy_text(char *ret, size_t cap, const char *text, size_t len)
{
    snprintf(ret, cap, "%.*s", (int)(len < cap ? len : cap - 1), text);
}

/* ---- Members ------------------------------------------------------------ */

static void ask_member(hf_store *store, hf_op *op, size_t i,
                       etcd_member_facts *m)
{
    hf_nsec until = hfd_now() + HF_MS(2000);
    hf_error err = {.code = 0};
    etcd_status status;
    void *reply = NULL;
    size_t len = 0;

    if (until > op->deadline)
        until = op->deadline;
    copy_text(m->where, sizeof m->where, store->where[i],
              strlen(store->where[i]));
    m->version_number = -1;
    if (grpc_ask_member(store->channel, i, ETCD_STATUS, "", 0, until, &reply,
                        &len, &err) != 0) {
        copy_text(m->why, sizeof m->why, err.text, strlen(err.text));
        return;
    }
    m->reached = etcd_read_status(&status, reply, len);
    if (m->reached) {
        m->id = status.member;
        m->leader = status.leader;
        m->size = status.size;
        m->in_use = status.in_use;
        m->quota = status.quota;
        m->learner = status.learner;
        copy_text(m->version, sizeof m->version, status.version.at,
                  status.version.len);
        copy_text(m->why, sizeof m->why, status.error.at, status.error.len);
        m->version_number = etcd_version_number(m->version);
    } else {
        snprintf(m->why, sizeof m->why, "its answer is not etcd's");
    }
    hfd_free(reply);
}

/* ---- Writing ------------------------------------------------------------ */

static void revoked(hf_op *op, etcd_work *work, grpc_code code, etcd_text reply,
                    const hf_error *why)
{
    (void)code;
    (void)reply;
    (void)why; /* it ends by itself, too */
    etcd_judge(facts_of(work), op->emit_finding, op->user);
    etcd_done(op);
}

static void written(hf_op *op, etcd_work *work, grpc_code code, etcd_text reply,
                    const hf_error *why)
{
    probe *p = work->more;

    (void)reply;
    if (code != GRPC_OK)
        copy_text(p->facts.refused, sizeof p->facts.refused, why->text,
                  strlen(why->text));
    else
        p->facts.commit = hfd_now() - p->begun;
    etcd_ask_lease(etcd_new_request(work), p->lease);
    etcd_send(op, ETCD_REVOKE, revoked);
}

static void lease_granted(hf_op *op, etcd_work *work, grpc_code code,
                          etcd_text reply, const hf_error *why)
{
    static const hf_id nobody = {{0}};
    probe *p = work->more;
    etcd_put put = {.value = {"probe", 5}, .lease = p->lease};
    etcd_lease lease;

    if (code != GRPC_OK) {
        copy_text(p->facts.refused, sizeof p->facts.refused, why->text,
                  strlen(why->text));
        etcd_judge(&p->facts, op->emit_finding, op->user);
        etcd_done(op);
        return;
    }
    if (etcd_read_lease(&lease, reply.at, reply.len))
        p->facts.lease_floor = lease.ttl;
    etcd_name_entry(&work->names, work->store, "holdfast:probe", 14, p->lease,
                    &nobody);
    put.key = work->names.plain;
    etcd_do_put(etcd_new_request(work), ETCD_THEN, &put);
    p->begun = hfd_now();
    etcd_send(op, ETCD_TXN, written);
}

/* ---- Reading ------------------------------------------------------------ */

static void read_landed(hf_op *op, etcd_work *work, grpc_code code,
                        etcd_text reply, const hf_error *why)
{
    probe *p = work->more;
    hf_nsec took = hfd_now() - p->begun;

    (void)reply;
    (void)why; /* a refusal is seen once more when it writes */
    if (code == GRPC_OK) {
        if (p->facts.read_best < 0 || took < p->facts.read_best)
            p->facts.read_best = took;
        if (took > p->facts.read_worst)
            p->facts.read_worst = took;
    }
    if (++p->reads < READS) {
        ask_read(op, work);
        return;
    }
    hfd_random(&p->lease, sizeof p->lease);
    p->lease = (p->lease & INT64_MAX) | 1;
    etcd_ask_grant(etcd_new_request(work), p->lease, 1);
    etcd_send(op, ETCD_GRANT, lease_granted);
}

static void ask_read(hf_op *op, etcd_work *work)
{
    etcd_range range = {.limit = 1};

    etcd_name_queue(&work->names, work->store, "holdfast:probe", 14);
    range.key = work->names.dir;
    range.end = work->names.dir_end;
    etcd_ask_range(etcd_new_request(work), &range);
    ((probe *)work->more)->begun = hfd_now();
    etcd_send(op, ETCD_RANGE, read_landed);
}

static void alarms_landed(hf_op *op, etcd_work *work, grpc_code code,
                          etcd_text reply, const hf_error *why)
{
    etcd_facts *facts = facts_of(work);
    pb_reader alarms = pb_read(reply.at, reply.len);
    uint64_t member;
    int alarm;

    (void)why;
    facts->alarms_known = code == GRPC_OK;
    while (code == GRPC_OK && etcd_next_alarm(&alarms, &member, &alarm)) {
        facts->no_space = facts->no_space || alarm == 1;
        facts->corrupt = facts->corrupt || alarm == 2;
    }
    ask_read(op, work);
}

static void members_landed(hf_op *op, etcd_work *work, grpc_code code,
                           etcd_text reply, const hf_error *why)
{
    etcd_facts *facts = facts_of(work);
    pb_reader members = pb_read(reply.at, reply.len);
    etcd_member member;

    (void)why;
    if (code == GRPC_OK) {
        facts->voters = facts->learners = 0;
        while (etcd_next_member(&members, &member)) {
            facts->voters += !member.learner;
            facts->learners += member.learner;
        }
    }
    etcd_new_request(work); /* an empty message asks for all alarms */
    etcd_send(op, ETCD_ALARM, alarms_landed);
}

void etcd_probe(hf_store *store, hf_op *op)
{
    etcd_work *work = etcd_begin(store, op);
    probe *p;

    if (!work)
        return;
    p = work->more = hfd_alloc(sizeof *p);
    if (!p) {
        etcd_no_memory(op);
        return;
    }
    work->free_more = hfd_free;
    etcd_facts_init(&p->facts);
    p->facts.exposed = store->exposed;
    p->facts.tls = store->tls != NULL;
    p->facts.has_user = store->has_user;
    p->facts.member_count = store->member_count;
    for (size_t i = 0; i < store->member_count; i++)
        ask_member(store, op, i, &p->facts.members[i]);
    etcd_new_request(work);
    etcd_send(op, ETCD_MEMBERS, members_landed);
}
