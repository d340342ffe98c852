/* sentinel.c - which server is the primary?  The sentinels say.
 *
 *     redis+sentinel://[user:password@]host[:26379][,host2...]/NAME[/db]
 *
 * Asked anew before each dial: get-master-addr-by-name, in the order of the
 * URL but the one that answered last first.  More than half of those that the
 * URL lists must say the same; where fewer can be reached it is enough that
 * none of them contradicts, so that one sentinel that lives still leads to the
 * primary.  Whoever is named must say by itself that it is a primary (ROLE).
 * Nobody listens to +switch-master: a primary that is replaced breaks its
 * connections when it is demoted, or stops answering, or says READONLY or that
 * it has no replicas (a sentinel that can reach it again takes ten seconds to
 * demote it), and each of these leads here.
 *
 * What this cannot do.  A primary that was cut off, or stood still while
 * another was promoted, believes in itself until a sentinel reaches it, and a
 * client whose connection to it stands may be granted there what another has on
 * the new one.  So a store behind sentinels is strict unless told otherwise:
 * the new primary grants nothing for the longest lease and `lag_ms` more, and
 * min-replicas-to-write lets the old one grant nothing once it has been alone
 * for min-replicas-max-lag; whatever it granted before that has ended by its
 * owner's own clock when the new one begins.  Without that setting it is
 * efficiency only, and doctor says so.
 *
 * Answer lost: the next one is asked.  Two threads: `first` and `left` and
 * nothing else change, under the mutex. */
#include "sentinel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"

enum { SENTINELS_MAX = 16, NAME_MAX_LEN = 63, LEFT_AGAIN_MS = 1000 };

typedef struct sentinels {
    hf__address addresses[SENTINELS_MAX];
    size_t count;
    hf__tls *tls;
    char *user, *password; /* of the sentinels themselves; NULL: none */
    char name[NAME_MAX_LEN + 1];
    pthread_mutex_t mu;
    size_t first; /* who answered last */
    hf_nsec left; /* when a primary without replicas was given up last */
} sentinels;

/* ---- One sentinel ---- */

static int ask_one(const sentinels *of, size_t which, const char *what,
                   hf__buf *ret, hf_nsec deadline, hf_error *err)
{
    redis_asked whom = {.address = &of->addresses[which],
                        .tls = of->tls,
                        .user = of->user,
                        .password = of->password};
    hf__buf question = {0};
    int code;

    resp_command(&question, 3);
    resp_text(&question, "SENTINEL");
    resp_text(&question, what);
    resp_text(&question, of->name);
    code = redis_ask(&whom, &question, ret, deadline, err);
    hf__buf_done(&question);
    return code;
}

/* An error reply of a sentinel as an error of ours. */
static int refused(const sentinels *of, size_t which, const resp *reply,
                   hf_error *err)
{
    hf_error said = {0};
    bool cut;

    redis_error_of(reply, &said, &cut);
    /* Only a sentinel knows the command. */
    if (resp_begins(reply, "ERR unknown"))
        return hfd_error(err, HF_EURL, "redis", 0,
                         "%s:%u is not a Sentinel: redis+sentinel: lists "
                         "sentinels, and the primary's name behind them",
                         of->addresses[which].host, of->addresses[which].port);
    if (said.code == HF_EAUTH)
        return hfd_error(err, HF_EAUTH, "redis", 0,
                         "%s:%u: the Sentinel refused us: see sentinel_user "
                         "and sentinel_password",
                         of->addresses[which].host, of->addresses[which].port);
    return hfd_error(err, said.code, "redis", 0, "%s:%u: %s",
                     of->addresses[which].host, of->addresses[which].port,
                     said.text);
}

static int read_address(const sentinels *of, size_t which, const resp *reply,
                        redis_found *ret, hf_error *err)
{
    if (reply->type == RESP_ERROR)
        return refused(of, which, reply, err);
    if (reply->type == RESP_NIL)
        return hfd_error(err, HF_EURL, "redis", 0,
                         "the Sentinel %s:%u knows no primary named '%s': see "
                         "the path of the URL",
                         of->addresses[which].host, of->addresses[which].port,
                         of->name);
    if (!redis_read_primary(reply, ret))
        return hfd_error(err, HF_EPROTO, "redis", 0,
                         "%s:%u: not the answer of a Sentinel",
                         of->addresses[which].host, of->addresses[which].port);
    return 0;
}

static int named_by(const sentinels *of, size_t which, redis_found *ret,
                    hf_nsec deadline, hf_error *err)
{
    hf__buf answer = {0};
    int code =
        ask_one(of, which, "get-master-addr-by-name", &answer, deadline, err);

    if (code == 0) {
        resp reply = resp_at(answer.data + answer.start);

        code = read_address(of, which, &reply, ret, err);
    }
    hf__buf_done(&answer);
    return code;
}

/* ---- All of them ---- */

typedef struct poll_of { /* who was named, and by how many */
    redis_found named[SENTINELS_MAX];
    unsigned votes[SENTINELS_MAX], kinds, answers;
} poll_of;

/* How many have named this one now. */
static unsigned count_vote(poll_of *poll, const redis_found *found)
{
    unsigned i = 0;

    poll->answers++;
    while (i < poll->kinds && (poll->named[i].port != found->port ||
                               strcmp(poll->named[i].host, found->host) != 0))
        i++;
    if (i == poll->kinds)
        poll->named[poll->kinds++] = *found;
    return ++poll->votes[i];
}

static int disagree(const sentinels *of, const poll_of *poll, hf_error *err)
{
    return hfd_error(err, HF_EUNAVAIL, "redis", 0,
                     "the sentinels disagree about '%s': %.80s:%u or "
                     "%.80s:%u (a failover under way?): later",
                     of->name, poll->named[0].host, poll->named[0].port,
                     poll->named[1].host, poll->named[1].port);
}

/* Each has a fair share of the time that is left. */
static int find_primary(void *ctx, redis_found *ret, hf_nsec deadline,
                        hf_error *err)
{
    sentinels *of = ctx;
    poll_of poll = {0};
    hf_error why = {0};
    size_t first;

    pthread_mutex_lock(&of->mu);
    first = of->first;
    pthread_mutex_unlock(&of->mu);
    for (size_t i = 0; i < of->count; i++) {
        size_t which = (first + i) % of->count;
        hf_nsec now = hfd_now();
        redis_found found = {0};
        unsigned votes;

        if (named_by(of, which, &found,
                     now + (deadline - now) / (hf_nsec)(of->count - i),
                     &why) != 0)
            continue;
        if (poll.answers == 0) {
            pthread_mutex_lock(&of->mu);
            of->first = which;
            pthread_mutex_unlock(&of->mu);
        }
        votes = count_vote(&poll, &found);
        if (2 * votes > of->count) {
            *ret = found;
            return 0;
        }
    }
    if (poll.answers == 0) {
        if (err)
            *err = why;
        return why.code ? why.code : HF_EUNAVAIL;
    }
    if (poll.kinds > 1)
        return disagree(of, &poll, err);
    *ret = poll.named[0];
    return 0;
}

static int judge_primary(void *ctx, const redis_met *met, hf_error *err)
{
    sentinels *of = ctx;

    if (strcmp(met->role, "slave") == 0)
        return hfd_error(err, HF_EUNAVAIL, "redis", 0,
                         "%s: the sentinels name it as the primary of '%s', "
                         "and it is a replica of '%s' (a failover under "
                         "way?): later",
                         met->where, of->name, met->of);
    if (strcmp(met->role, "master") != 0 || met->cluster)
        return hfd_error(err, HF_EURL, "redis", 0,
                         "%s: the sentinels name it as the primary of '%s', "
                         "and it is %s",
                         met->where, of->name,
                         met->cluster ? "part of a Redis Cluster"
                                      : "no server that keeps data");
    return 0;
}

/* A primary that has no replicas may have been replaced, or they are gone: it
 * is asked about now and then, not by each call for as long as that lasts. */
static redis_stray judge_lonely(sentinels *of)
{
    hf_nsec now = hfd_now();
    bool leave;

    pthread_mutex_lock(&of->mu);
    leave = now - of->left >= HF_MS(LEFT_AGAIN_MS);
    if (leave)
        of->left = now;
    pthread_mutex_unlock(&of->mu);
    return leave ? REDIS_STRAY_AWAY : REDIS_STRAY_PAUSE;
}

static redis_stray judge_error(void *ctx, const resp *error)
{
    static const char *const away[] = {"READONLY", "MASTERDOWN", "LOADING"};

    if (resp_begins(error, "NOREPLICAS"))
        return judge_lonely(ctx);
    for (size_t i = 0; i < sizeof away / sizeof *away; i++) {
        if (resp_begins(error, away[i]))
            return REDIS_STRAY_AWAY;
    }
    return REDIS_STRAY_NOT;
}

/* ---- For doctor ---- */

bool redis_sentinel_watch(hf_store *store, redis_watch *ret, hf_nsec deadline)
{
    sentinels *of = store->finder.ctx;
    poll_of poll = {0};
    unsigned most = 0;

    if (store->finder.find != find_primary)
        return false;
    *ret = (redis_watch){.listed = (int)of->count,
                         .sentinels = -1,
                         .quorum = -1,
                         .replicas = -1,
                         .down_after_ms = -1};
    snprintf(ret->name, sizeof ret->name, "%s", of->name);
    for (size_t i = 0; i < of->count; i++) {
        hf_nsec now = hfd_now();
        hf_nsec until = now + (deadline - now) / (hf_nsec)(of->count - i);
        redis_found found = {0};
        hf__buf answer = {0};

        if (named_by(of, i, &found, until, NULL) == 0) {
            unsigned votes = count_vote(&poll, &found);

            most = votes > most ? votes : most;
            ret->reached++;
            if (ret->quorum < 0 &&
                ask_one(of, i, "master", &answer, until, NULL) == 0) {
                resp reply = resp_at(answer.data + answer.start);

                redis_read_watch(&reply, ret);
            }
        }
        hf__buf_done(&answer);
    }
    ret->disagree = (int)(poll.answers - most);
    return true;
}

/* ---- Opening ---- */

bool redis_url_is_sentinel(const hf_url *url)
{
    const char *plus = strchr(hfd_url_scheme(url), '+');

    return plus && strcmp(plus, "+sentinel") == 0;
}

static void close_sentinels(void *ctx)
{
    sentinels *of = ctx;

    for (size_t i = 0; i < of->count; i++)
        hfd_free((char *)of->addresses[i].host);
    if (of->password)
        explicit_bzero(of->password, strlen(of->password));
    hfd_free(of->user);
    hfd_free(of->password);
    pthread_mutex_destroy(&of->mu);
    hfd_free(of);
}

/* False: no memory. */
static bool copy_text(char **ret, const char *text)
{
    size_t len = text ? strlen(text) : 0;

    if (len == 0)
        return true;
    *ret = hfd_alloc(len + 1);
    if (*ret)
        memcpy(*ret, text, len);
    return *ret != NULL;
}

/* "/NAME" or "/NAME/db": what is behind the name goes on. */
static int read_name(sentinels *of, const char **io_path, hf_error *err)
{
    const char *path = *io_path + (**io_path == '/');
    size_t len = strcspn(path, "/");

    if (len == 0 || len > NAME_MAX_LEN)
        return hfd_error(err, HF_EURL, "redis", 0,
                         "redis+sentinel needs the name of the primary, of at "
                         "most %d bytes: redis+sentinel://host:26379/mymaster",
                         NAME_MAX_LEN);
    memcpy(of->name, path, len);
    *io_path = path + len;
    return 0;
}

static int copy_all(sentinels *of, const hf_url *url,
                    const redis_settings *settings)
{
    bool whole =
        copy_text(&of->user, hfd_url_option(url, "sentinel_user")) &&
        copy_text(&of->password, hfd_url_option(url, "sentinel_password"));

    for (size_t i = 0; whole && i < settings->address_count; i++) {
        char *host = NULL;

        whole = copy_text(&host, settings->addresses[i].host);
        of->addresses[i].host = host;
        of->addresses[i].port = settings->addresses[i].port;
        of->count = i + 1;
    }
    of->tls = settings->tls;
    return whole ? 0 : HF_ENOMEM;
}

int redis_sentinel_open(hf_store *store, const hf_url *url,
                        const redis_settings *settings, const char **io_path,
                        hf_error *err)
{
    static const char *const names[] = {"sentinel_user", "sentinel_password"};
    sentinels *of;

    if (!redis_url_is_sentinel(url)) {
        for (size_t i = 0; i < 2; i++) {
            if (hfd_url_option(url, names[i]))
                return hfd_error(
                    err, HF_EURL, "redis", 0,
                    "option '%s' is for redis+sentinel:", names[i]);
        }
        return 0;
    }
    of = hfd_alloc(sizeof *of);
    if (!of)
        return hfd_error(err, HF_ENOMEM, "redis", ENOMEM,
                         "no memory for a store");
    pthread_mutex_init(&of->mu, NULL);
    store->finder = (redis_finder){.ctx = of,
                                   .find = find_primary,
                                   .judge = judge_primary,
                                   .stray = judge_error};
    store->finder_close = close_sentinels;
    if (settings->address_count > SENTINELS_MAX ||
        copy_all(of, url, settings) != 0)
        return hfd_error(err, HF_ENOMEM, "redis", ENOMEM,
                         "no memory for a store");
    return read_name(of, io_path, err);
}
