/* probe.c - ask a live Redis server what doctor wants to know.
 *
 * A chain of calls: each reply is noted in the facts and the next question goes
 * out, on whatever thread the reply came; when all are answered the facts are
 * judged (probe_judge.c) and the operation ends.  It only reads: a sick server
 * must not be made worse by asking.
 *
 * Managed servers refuse CONFIG, careful ones refuse INFO.  A question that is
 * refused is a fact like any other and what hangs on it stays unknown; only a
 * server that does not answer at all fails the operation.  Secrets are never
 * asked for: each setting is asked by its name, not by CONFIG GET *.
 *
 * Reply lost: the operation is unknown and nothing was changed.  The probe's
 * memory belongs to the operation and is freed before that ends. */
#include <stdio.h>
#include <string.h>

#include "cluster.h"
#include "info.h"
#include "probe.h"
#include "sentinel.h"

typedef struct probe probe;

enum { SENTINELS_MS = 1500 }; /* for all of them */

typedef struct question {
    const char *words[4]; /* NULL-ended; none: `write` does it */
    void (*write)(const probe *p, hf__buf *out);
    void (*note)(probe *p, const redis_call *call, const resp *reply);
    void (*refused)(probe *p);
    bool setting, ours; /* CONFIG; only where the layout is our own */
    bool cluster;       /* only there */
} question;

struct probe {
    redis_facts facts;
    hf_store *store;
    size_t next;
    int64_t store_us; /* of the last TIME */
    bool watched;     /* by sentinels */
    redis_watch watch;
};

/* ---- INFO ---- */

static void copy_text(char *ret, size_t cap, const char *text, size_t len)
{
    if (len >= cap)
        len = cap - 1;
    memcpy(ret, text, len);
    ret[len] = '\0';
}

static void note_info(probe *p, const redis_call *call, const resp *reply)
{
    redis_facts *f = &p->facts;

    (void)call;
    if (reply->type != RESP_STRING)
        return;
    redis_info_text(reply, "redis_version", f->version, sizeof f->version);
    f->version_number = redis_info_version(f->version);
    if (f->version_number == 0)
        f->version_number = -1;
    redis_info_text(reply, "role", f->role, sizeof f->role);
    redis_info_text(reply, "redis_mode", f->mode, sizeof f->mode);
    redis_info_text(reply, "rdb_last_bgsave_status", f->snapshot_status,
                    sizeof f->snapshot_status);
    redis_info_text(reply, "aof_last_write_status", f->log_status,
                    sizeof f->log_status);
    redis_info_text(reply, "maxmemory_policy", f->policy, sizeof f->policy);
    f->uptime_s = redis_info_number(reply, "uptime_in_seconds");
    f->clients = redis_info_number(reply, "connected_clients");
    f->client_limit = redis_info_number(reply, "maxclients");
    f->replicas = redis_info_number(reply, "connected_slaves");
    /* This line is only there while min-replicas-to-write is set. */
    f->good_replicas = redis_info_number(reply, "min_slaves_good_slaves");
    f->memory_limit = redis_info_number(reply, "maxmemory");
    f->log_on = redis_info_number(reply, "aof_enabled");
}

static void refuse_info(probe *p)
{
    p->facts.info_refused = true;
}

/* ---- CONFIG GET ---- */

/* "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60" */
static void note_push_limit(redis_facts *f, const char *text)
{
    const char *at = strstr(text, "pubsub ");
    long long hard, soft, seconds;

    if (at &&
        sscanf(at, "pubsub %lld %lld %lld", &hard, &soft, &seconds) == 3) {
        f->push_hard = hard;
        f->push_soft = soft;
        f->push_soft_s = seconds;
    }
}

static void note_setting(redis_facts *f, const resp *name, const resp *value)
{
    const struct {
        const char *name;
        int64_t *number;
        char *text;
        size_t cap;
    } known[] = {
        {"maxmemory", &f->memory_limit, NULL, 0},
        {"maxmemory-policy", NULL, f->policy, sizeof f->policy},
        {"appendfsync", NULL, f->log_sync, sizeof f->log_sync},
        {"save", NULL, f->snapshots, sizeof f->snapshots},
        {"min-replicas-to-write", &f->min_replicas, NULL, 0},
        {"min-replicas-max-lag", &f->max_lag_s, NULL, 0},
        {"maxclients", &f->client_limit, NULL, 0},
        {"lua-time-limit", &f->script_ms, NULL, 0},
        {"cluster-node-timeout", &f->node_timeout_ms, NULL, 0},
    };
    char limits[160];

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (!resp_is(name, known[i].name))
            continue;
        if (known[i].number)
            *known[i].number = resp_int(value, -1);
        else if (known[i].text)
            copy_text(known[i].text, known[i].cap, value->text, value->len);
    }
    if (resp_is(name, "appendonly"))
        f->log_on = resp_is(value, "yes");
    if (resp_is(name, "save"))
        f->snapshots_known = true;
    if (resp_is(name, "client-output-buffer-limit")) {
        copy_text(limits, sizeof limits, value->text, value->len);
        note_push_limit(f, limits);
    }
}

static void note_settings(probe *p, const redis_call *call, const resp *reply)
{
    resp name = resp_item(reply, 0), value;

    (void)call;
    if (reply->type != RESP_ARRAY)
        return;
    for (int64_t left = reply->number; left >= 2; left -= 2) {
        value = resp_at(name.after);
        if (name.type == RESP_STRING && value.type == RESP_STRING)
            note_setting(&p->facts, &name, &value);
        if (left > 3)
            name = resp_at(value.after);
    }
}

static void refuse_config(probe *p)
{
    p->facts.config_refused = true;
}

/* ---- TIME, the marker, the rights ---- */

static void note_time(probe *p, const redis_call *call, const resp *reply)
{
    redis_facts *f = &p->facts;
    hf_nsec trip = hfd_now() - call->sent;
    int64_t ours = hfd_realtime_us() - trip / 2000, offset;

    if (!redis_read_time(reply, &p->store_us))
        return;
    offset = p->store_us - ours;
    /* The shortest trip says most about the clock. */
    if (!f->samples || trip < f->trip_best) {
        f->trip_best = trip;
        f->offset_us = offset;
    }
    if (trip > f->trip_worst)
        f->trip_worst = trip;
    f->samples++;
}

/* A key or channel of the namespace. */
static void write_name(const probe *p, const char *end, hf__buf *out)
{
    char name[128];

    snprintf(name, sizeof name, "%s%s", p->store->prefix, end);
    resp_text(out, name);
}

static void write_marker(const probe *p, hf__buf *out)
{
    resp_command(out, 3);
    resp_text(out, "HMGET");
    write_name(p, "n", out);
    resp_text(out, "until");
}

static void note_marker(probe *p, const redis_call *call, const resp *reply)
{
    resp until = resp_item(reply, 0);
    int64_t at = resp_int(&until, 0);

    (void)call;
    if (p->facts.strict && p->store_us)
        p->facts.quarantine_us = at > p->store_us ? at - p->store_us : 0;
}

/* Asks the server itself what this user may do, from inside a script, where
 * most of it happens.  Servers before 7.0 cannot say: nil. */
static const char rights_script[] =
    "if not redis.acl_check_cmd then return false end\n"
    "local k, bad = KEYS[1], {}\n"
    "local function ask(name, ...)\n"
    "    if not redis.acl_check_cmd(name, ...) then bad[#bad + 1] = name end\n"
    "end\n"
    "ask('EVALSHA', '0', '1', k) ask('TIME') ask('INFO') ask('ROLE')\n"
    "ask('PING') ask('EXISTS', k) ask('SET', k, '1') ask('GETSET', k, '1')\n"
    "ask('GET', k) ask('DEL', k) ask('PTTL', k)\n"
    "ask('HGET', k, '1') ask('HSET', k, '1', '1') ask('HSETNX', k, '1', '1')\n"
    "ask('HDEL', k, '1') ask('HLEN', k) ask('HINCRBY', k, '1', '1')\n"
    "ask('HMGET', k, '1') ask('HGETALL', k) ask('HSCAN', k, '0')\n"
    "ask('HEXISTS', k, '1') ask('ZADD', k, '1', '1') ask('ZREM', k, '1')\n"
    "ask('ZSCORE', k, '1') ask('ZRANGE', k, '0', '1')\n"
    "ask('ZRANGEBYSCORE', k, '0', '1')\n"
    "ask(ARGV[2] .. 'PUBLISH', ARGV[1], '')\n"
    "ask(ARGV[2] .. 'SUBSCRIBE', ARGV[1])\n"
    "return table.concat(bad, ' ')\n";

static void write_rights(const probe *p, hf__buf *out)
{
    resp_command(out, 6);
    resp_text(out, "EVAL");
    resp_text(out, rights_script);
    resp_text(out, "1");
    write_name(p, "n", out);
    write_name(p, "c:0", out);
    resp_text(out, p->store->cluster ? "S" : "");
}

static void note_rights(probe *p, const redis_call *call, const resp *reply)
{
    (void)call;
    if (reply->type != RESP_STRING)
        return;
    p->facts.rights_known = true;
    copy_text(p->facts.rights_missing, sizeof p->facts.rights_missing,
              reply->text, reply->len);
}

static void refuse_rights(probe *p)
{
    p->facts.rights_refused = true;
}

/* ---- A cluster ---- */

static void note_cluster(probe *p, const redis_call *call, const resp *reply)
{
    redis_facts *f = &p->facts;

    (void)call;
    if (reply->type != RESP_STRING)
        return;
    redis_info_text(reply, "cluster_state", f->state, sizeof f->state);
    f->shards = redis_info_number(reply, "cluster_size");
}

/* A slot that is being moved refuses what is asked about its keys. */
static bool is_moving(probe *p, const redis_call *call, hf_outcome outcome)
{
    redis_found to;

    if (!p->store->cluster || outcome != HF_NOT_APPLIED ||
        !redis_cluster_moving(p->store->cluster, call->sent, &to))
        return false;
    p->facts.moving = true;
    return true;
}

/* ---- The chain ---- */

#define SETTING(pattern)                                                       \
    {                                                                          \
        .words = {"CONFIG", "GET", (pattern)}, .note = note_settings,          \
        .refused = refuse_config, .setting = true                              \
    }
#define CLOCK                                                                  \
    {                                                                          \
        .words = {"TIME"}, .note = note_time                                   \
    }

/* The first one opens the connection, so that TIME measures round trips. */
static const question questions[] = {
    {.words = {"INFO"}, .note = note_info, .refused = refuse_info},
    SETTING("maxmemory*"),
    SETTING("append*"),
    SETTING("save"),
    SETTING("min-replicas-*"),
    SETTING("client-output-buffer-limit"),
    SETTING("maxclients"),
    SETTING("lua-time-limit"),
    {.words = {"CLUSTER", "INFO"}, .note = note_cluster, .cluster = true},
    SETTING("cluster-node-timeout"),
    CLOCK,
    CLOCK,
    CLOCK,
    CLOCK,
    CLOCK,
    {.write = write_marker, .note = note_marker, .ours = true},
    {.write = write_rights,
     .note = note_rights,
     .refused = refuse_rights,
     .ours = true},
};
enum { QUESTIONS = sizeof questions / sizeof questions[0] };

static probe *probe_of(redis_call *call)
{
    return (probe *)redis_op_of(redis_op_from(call))->note;
}

static void encode_question(redis_call *call, hf__buf *out,
                            const redis_server *server)
{
    const probe *p = probe_of(call);
    const question *q = &questions[p->next];
    unsigned words = 0;

    (void)server;
    if (q->write) {
        q->write(p, out);
        return;
    }
    while (words < 4 && q->words[words])
        words++;
    resp_command(out, words);
    for (unsigned i = 0; i < words; i++)
        resp_text(out, q->words[i]);
}

static void land_answer(redis_call *call, hf_outcome outcome, const resp *reply,
                        const hf_error *why);

static void finish_probe(hf_op *op, probe *p)
{
    if (p->store->cluster)
        redis_cluster_owner(p->store->cluster, p->facts.owner,
                            sizeof p->facts.owner);
    redis_judge(&p->facts, op->emit_finding, op->user);
    if (p->facts.clustered)
        redis_judge_cluster(&p->facts, op->emit_finding, op->user);
    if (p->watched)
        redis_judge_sentinel(&p->facts, &p->watch, op->emit_finding, op->user);
    redis_op_of(op)->note = 0;
    hfd_free(p);
    if (op->sent == 0)
        op->sent = redis_op_of(op)->call.sent;
    hfd_finish(op, HF_APPLIED, 0);
}

/* Ask the next question that makes sense here, or come to the end. */
static void ask_next(hf_op *op, probe *p)
{
    while (p->next < QUESTIONS &&
           ((questions[p->next].setting && p->facts.config_refused) ||
            (questions[p->next].ours && !p->facts.native) ||
            (questions[p->next].cluster && !p->store->cluster)))
        p->next++;
    if (p->next == QUESTIONS)
        finish_probe(op, p);
    else
        redis_op_send(p->store, op, encode_question, land_answer);
}

static void land_answer(redis_call *call, hf_outcome outcome, const resp *reply,
                        const hf_error *why)
{
    hf_op *op = redis_op_from(call);
    probe *p = probe_of(call);
    const question *q = &questions[p->next];

    if (outcome == HF_APPLIED) {
        q->note(p, call, reply);
    } else if (is_moving(p, call, outcome)) {
        hfd_log(HF_LOG_DEBUG, "redis: %s", why->text);
    } else if (why->code != HF_EPERM && why->code != HF_EPROTO) {
        redis_op_of(op)->note = 0;
        hfd_free(p);
        redis_op_failed(op, outcome, why);
        return;
    } else if (q->refused) {
        q->refused(p);
    }
    p->next++;
    ask_next(op, p);
}

void redis_probe_start(hf_store *store, hf_op *op)
{
    probe *p = hfd_alloc(sizeof *p);

    if (!p) {
        op->sent = hfd_now();
        hfd_error(&op->error, HF_ENOMEM, "redis", 0,
                  "out of memory for the examination");
        hfd_finish(op, HF_NOT_APPLIED, HF_ENOMEM);
        return;
    }
    redis_facts_init(&p->facts);
    p->store = store;
    p->facts.native = store->format == &redis_native;
    p->facts.strict = store->strict;
    p->facts.lag_ms = store->lag_ms;
    p->facts.exposed = store->exposed;
    p->facts.max_lease_ms = store->max_lease_ms;
    p->facts.confirmed = store->replicas;
    p->facts.lease = op->ttl;
    /* On this thread, which waits for the answer anyway. */
    if (op->driven)
        p->watched = redis_sentinel_watch(store, &p->watch,
                                          hfd_now() + HF_MS(SENTINELS_MS));
    if (store->cluster) {
        p->facts.clustered = true;
        p->facts.slot = redis_cluster_slot(store->cluster);
        redis_op_of(op)->call.once = true;
    }
    redis_op_of(op)->note = (uintptr_t)p;
    ask_next(op, p);
}
