/* cluster.c - which node of a Redis Cluster has our slot?
 *
 * A namespace is one slot (docs/decisions/0018), so one node decides, and the
 * wire has connections to that one alone.  Who it is, any node can tell
 * (CLUSTER SLOTS): those of the URL, and those that the last answer named.  It
 * is another one's turn each time, so a node that is cut off and knows only the
 * past is not asked twice in a row; and where a node said MOVED that is tried
 * first.  Knows nothing of scripts and calls.
 *
 * Safety.  An answer may be old or wrong: it decides only whom to dial.  The
 * server itself refuses a script for a slot that it does not own, before
 * anything is written, so a wrong find costs a round trip.  While a slot is
 * being moved (ASK, TRYAGAIN) the call is repeated at the same node until that
 * says MOVED: no script is sent to a node that has only half of the keys
 * (docs/decisions/0026).  Two threads may find at once; a find that was paused
 * ends with an old answer, which redis_conn_settle passes over. */
#include "cluster.h"

#include <stdio.h>
#include <string.h>

#include "ask.h"

/* ---- Finding ---- */

/* Where a MOVED pointed to, once. */
static bool take_hint(redis_cluster *cluster, redis_found *ret)
{
    bool hinted;

    pthread_mutex_lock(&cluster->mu);
    hinted = cluster->hinted;
    cluster->hinted = false;
    *ret = cluster->hint;
    pthread_mutex_unlock(&cluster->mu);
    return hinted;
}

/* Whom to ask as the i-th, of *ret_count. */
static redis_found candidate(redis_cluster *cluster, size_t i,
                             size_t *ret_count)
{
    redis_found found;

    pthread_mutex_lock(&cluster->mu);
    *ret_count = cluster->node_count + cluster->seed_count;
    i = (cluster->next + i) % *ret_count;
    found = i < cluster->node_count ? cluster->nodes[i]
                                    : cluster->seeds[i - cluster->node_count];
    pthread_mutex_unlock(&cluster->mu);
    return found;
}

static void note_nodes(redis_cluster *cluster, const redis_found *nodes,
                       size_t count)
{
    pthread_mutex_lock(&cluster->mu);
    memcpy(cluster->nodes, nodes, count * sizeof *nodes);
    cluster->node_count = count;
    cluster->next++;
    pthread_mutex_unlock(&cluster->mu);
}

/* Its answer says why it is none. */
static int refuse_answer(const redis_cluster *cluster, const redis_found *whom,
                         const resp *reply, hf_error *err)
{
    hf_error said = {0};
    bool cut;

    if (reply->type != RESP_ERROR)
        return hfd_error(err, HF_EUNAVAIL, "redis", 0,
                         "%s:%u: no node serves slot %u of this cluster: see "
                         "redis-cli --cluster check",
                         whom->host, whom->port, cluster->slot);
    if (reply->len > 4 && strncmp(reply->text, "ERR ", 4) == 0)
        return hfd_error(err, HF_EURL, "redis", 0,
                         "%s:%u: the server is not part of a Redis Cluster: "
                         "redis: is for a single server, redis+sentinel: for "
                         "Sentinel",
                         whom->host, whom->port);
    redis_error_of(reply, &said, &cut);
    return hfd_error(err, said.code, "redis", 0, "%s:%u: %s", whom->host,
                     whom->port, said.text);
}

static int ask_node(redis_cluster *cluster, const redis_found *whom,
                    redis_found *ret, hf_nsec deadline, hf_error *err)
{
    hf__address address = {.host = whom->host, .port = whom->port};
    redis_asked asked = {&address, cluster->tls, cluster->user,
                         cluster->password};
    hf__buf question = {0}, in = {0};
    redis_found nodes[REDIS_NODES_MAX];
    size_t count = REDIS_NODES_MAX;
    int code;

    resp_command(&question, 2);
    resp_text(&question, "CLUSTER");
    resp_text(&question, "SLOTS");
    code = redis_ask(&asked, &question, &in, deadline, err);
    if (code == 0) {
        resp reply = resp_at(in.data + in.start);

        if (redis_read_slots(&reply, cluster->slot, whom->host, ret, nodes,
                             &count))
            note_nodes(cluster, nodes, count);
        else
            code = refuse_answer(cluster, whom, &reply, err);
    }
    hf__buf_done(&question);
    hf__buf_done(&in);
    return code;
}

/* Each is asked for a fair share of the time; the last refusal is told. */
static int find_owner(void *ctx, redis_found *ret, hf_nsec deadline,
                      hf_error *err)
{
    redis_cluster *cluster = ctx;
    size_t count = 1;
    hf_error why = {0};
    int code = HF_EUNAVAIL;

    if (take_hint(cluster, ret))
        return 0;
    for (size_t i = 0; i < count && code != 0; i++) {
        redis_found whom = candidate(cluster, i, &count);
        hf_nsec now = hfd_now();
        hf_nsec share;

        /* Fewer than before: another thread has heard of that meanwhile. */
        if (i > 0 && (now >= deadline || i >= count))
            break;
        share = (deadline - now) / (hf_nsec)(count - i);
        code = ask_node(cluster, &whom, ret, now + share, &why);
    }
    if (code == HF_EUNAVAIL)
        return hfd_error(err, code, "redis", why.native,
                         "no node of the cluster told who has slot %u: %s",
                         cluster->slot, why.text);
    if (code != 0)
        *err = why;
    return code;
}

/* ---- Judging ---- */

int redis_cluster_check(const redis_met *met, hf_error *err)
{
    if (!met->cluster)
        return hfd_error(err, HF_EURL, "redis", 0,
                         "%s: the server is not part of a Redis Cluster",
                         met->where);
    if (met->server.version < 70000)
        return hfd_error(err, HF_ENOTSUP, "redis", 0,
                         "%s: in a cluster Redis 7.0 or later is needed, whose "
                         "channels belong to a slot",
                         met->where);
    if (strcmp(met->role, "master") != 0)
        return hfd_error(err, HF_EUNAVAIL, "redis", 0,
                         "%s: the node is a replica now: its successor is not "
                         "known yet",
                         met->where);
    return 0;
}

static int judge_node(void *ctx, const redis_met *met, hf_error *err)
{
    redis_cluster *cluster = ctx;
    int code = redis_cluster_check(met, err);

    if (code != 0)
        return code;
    pthread_mutex_lock(&cluster->mu);
    snprintf(cluster->owner, sizeof cluster->owner, "%s", met->where);
    pthread_mutex_unlock(&cluster->mu);
    return 0;
}

/* All of these are said before a script begins, or by its first command. */
static redis_stray judge_error(void *ctx, const resp *error)
{
    static const char *const away[] = {"CLUSTERDOWN", "READONLY", "MASTERDOWN",
                                       "LOADING"};
    redis_cluster *cluster = ctx;
    redis_found to = {.port = 0};
    bool moved = resp_begins(error, "MOVED "), ask = resp_begins(error, "ASK ");

    if (moved || ask)
        redis_read_moved(error, &to);
    if (moved && to.port != 0) {
        pthread_mutex_lock(&cluster->mu);
        cluster->hint = to;
        cluster->hinted = true;
        pthread_mutex_unlock(&cluster->mu);
    }
    if (moved)
        return REDIS_STRAY_AWAY;
    if (ask || resp_begins(error, "TRYAGAIN")) {
        pthread_mutex_lock(&cluster->mu);
        cluster->refused = hfd_now();
        if (ask) /* TRYAGAIN does not say who takes it */
            cluster->taking = to;
        pthread_mutex_unlock(&cluster->mu);
        return REDIS_STRAY_PAUSE;
    }
    for (size_t i = 0; i < sizeof away / sizeof *away; i++) {
        if (resp_begins(error, away[i]))
            return REDIS_STRAY_AWAY;
    }
    return REDIS_STRAY_NOT;
}

bool redis_cluster_moving(redis_cluster *cluster, hf_nsec since,
                          redis_found *ret_to)
{
    bool moving;

    pthread_mutex_lock(&cluster->mu);
    moving = cluster->refused >= since;
    *ret_to = cluster->taking;
    pthread_mutex_unlock(&cluster->mu);
    return moving;
}

/* ---- Made and ended ---- */

static char *copy_text(const char *text)
{
    size_t len = text ? strlen(text) : 0;
    char *copy = hfd_alloc(len + 1);

    if (copy && len > 0)
        memcpy(copy, text, len);
    return copy;
}

int redis_cluster_init(redis_cluster *cluster, const redis_settings *settings,
                       const char *tag, hf_error *err)
{
    size_t n = settings->address_count;

    pthread_mutex_init(&cluster->mu, NULL);
    cluster->finder =
        (redis_finder){cluster, find_owner, judge_node, judge_error};
    cluster->slot = redis_slot_of(tag, strlen(tag));
    cluster->tls = settings->tls;
    cluster->user = copy_text(settings->user);
    cluster->password = copy_text(settings->password);
    cluster->seeds = hfd_alloc(n * sizeof *cluster->seeds);
    if (!cluster->user || !cluster->password || !cluster->seeds)
        return hfd_error(err, HF_ENOMEM, "redis", 0, "out of memory");
    cluster->seed_count = n;
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(settings->addresses[i].host);

        if (len >= sizeof cluster->seeds[i].host)
            len = sizeof cluster->seeds[i].host - 1;
        memcpy(cluster->seeds[i].host, settings->addresses[i].host, len);
        cluster->seeds[i].port = settings->addresses[i].port;
    }
    return 0;
}

void redis_cluster_done(redis_cluster *cluster)
{
    if (cluster->password)
        explicit_bzero(cluster->password, strlen(cluster->password));
    hfd_free(cluster->user);
    hfd_free(cluster->password);
    hfd_free(cluster->seeds);
    pthread_mutex_destroy(&cluster->mu);
}

void redis_cluster_owner(redis_cluster *cluster, char *ret, size_t room)
{
    pthread_mutex_lock(&cluster->mu);
    snprintf(ret, room, "%s", cluster->owner);
    pthread_mutex_unlock(&cluster->mu);
}

unsigned redis_cluster_slot(const redis_cluster *cluster)
{
    return cluster->slot;
}
