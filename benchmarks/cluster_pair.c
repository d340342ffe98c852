/* cluster_pair.c - what does a lock in a Redis Cluster cost beside one on one
 * server?
 *
 * The same pair, lock and release, on redis+cluster: over three primaries and
 * on redis:, round by round in turn; server and client share a core first and
 * have one each then.  Once without strict on both sides, once with it on both:
 * it is the default in a cluster and not elsewhere, and its own price would
 * hide the cluster's, which is one question in front of each script.
 *
 * The quarantine in which a strict namespace begins is ended by hand. */
#include "redis.h"

#include <hiredis/hiredis.h>
#include <holdfast/holdfast.h>
#include <stdio.h>
#include <string.h>

enum { NODES = 3, SLOTS = 16384, MAX_ROUNDS = 15 };

static bool node_says(struct redis_server *s, const char *part,
                      const char *command)
{
    redisReply *r = redisCommand(s->control, command);
    bool says = r != NULL && r->str != NULL && strstr(r->str, part) != NULL;

    if (r != NULL)
        freeReplyObject(r);
    return says;
}

static void node_do(struct redis_server *s, const char *command)
{
    if (!node_says(s, "OK", command))
        bench_die("a node of the cluster: '%s' failed", command);
}

static void start_nodes(struct redis_server s[NODES], const struct bench *b,
                        int core, char bus[NODES][16])
{
    static int serial; /* what a node knew must not be found by another */
    char file[NODES][40];

    for (int i = 0; i < NODES; i++) {
        const char *more[] = {"--cluster-enabled",
                              "yes",
                              "--cluster-port",
                              bus[i],
                              "--cluster-config-file",
                              file[i],
                              NULL};

        snprintf(bus[i], sizeof bus[i], "%d", free_port());
        snprintf(file[i], sizeof file[i], "nodes-%d.conf", serial++);
        redis_start_with(&s[i], b, core, more);
    }
}

static bool is_up(struct redis_server s[NODES])
{
    bool up = true;

    for (int i = 0; i < NODES; i++)
        up = up && node_says(&s[i], "cluster_state:ok", "CLUSTER INFO");
    return up;
}

static void cluster_start(struct redis_server s[NODES], const struct bench *b,
                          int core)
{
    char bus[NODES][16], command[96];

    start_nodes(s, b, core, bus);
    for (int i = 0; i < NODES; i++) {
        snprintf(command, sizeof command, "CLUSTER ADDSLOTSRANGE %d %d",
                 SLOTS * i / NODES, SLOTS * (i + 1) / NODES - 1);
        node_do(&s[i], command);
        snprintf(command, sizeof command, "CLUSTER SET-CONFIG-EPOCH %d", i + 1);
        node_do(&s[i], command);
    }
    for (int i = 1; i < NODES; i++) {
        snprintf(command, sizeof command, "CLUSTER MEET 127.0.0.1 %d %s",
                 s[i].port, bus[i]);
        node_do(&s[0], command);
    }
    for (int i = 0; i < 3000 && !is_up(s); i++)
        sleep_us(10 * 1000);
    if (!is_up(s))
        bench_die("the cluster does not come up");
}

/* Begin the namespace, and end its quarantine: whichever of these servers has
 * it; the others refuse. */
static void settle(const char *url, struct redis_server *s, int count)
{
    hf_session *session;
    hf_hold *hold;
    hf_error err;

    if (hf_open(&session, url, NULL, &err) != 0)
        bench_die("holdfast: %s", err.text);
    if (hf_try_lock(session, "settle", NULL, &hold, &err) == 0)
        hf_release(hold, &err);
    else if (err.code != HF_EQUARANTINE)
        bench_die("holdfast: %s", err.text);
    hf_close(session);
    for (int i = 0; i < count; i++) {
        redisReply *r =
            redisCommand(s[i].control, "HSET hf:{holdfast}:n until 0");

        if (r != NULL)
            freeReplyObject(r);
    }
}

static void compare(const struct bench *b, const char *what,
                    const char url[2][200])
{
    const int rounds = b->quick ? 4 : MAX_ROUNDS, pairs = 1500;
    double p50[2][MAX_ROUNDS];
    void *thread[2];

    for (int k = 0; k < 2; k++) {
        thread[k] =
            side_holdfast.open_thread(side_holdfast.open_process(url[k]), 0);
        measure_pairs(&side_holdfast, thread[k], pairs);
    }
    for (int r = 0; r < rounds; r++)
        for (int k = 0; k < 2; k++)
            p50[k][r] = measure_pairs(&side_holdfast, thread[k], pairs).p50_us;
    row_print(b, &(struct row){"cluster-pair", what, "us",
                               median(p50[0], (size_t)rounds), "one server",
                               median(p50[1], (size_t)rounds), RATIO_AT_MOST,
                               1.1});
}

static void run_place(const struct bench *b, const struct placement *place,
                      bool strict)
{
    struct redis_server one, all[NODES];
    char url[2][200], what[80];

    cluster_start(all, b, place->server);
    redis_start(&one, b, place->server);
    snprintf(url[0], sizeof url[0], "redis+cluster://127.0.0.1:%d/?strict=%s",
             all[0].port, strict ? "yes" : "no");
    snprintf(url[1], sizeof url[1], "%s/?strict=%s", one.url,
             strict ? "yes" : "no");
    if (strict) {
        settle(url[0], all, NODES);
        settle(url[1], &one, 1);
    }
    pin_to(place->client);
    snprintf(what, sizeof what, "lock + release, p50, %s%s", place->name,
             strict ? ", strict" : "");
    compare(b, what, (const char(*)[200])url);
    redis_stop(&one);
    for (int i = 0; i < NODES; i++)
        redis_stop(&all[i]);
}

void bench_cluster_pair(const struct bench *b)
{
    struct placement place[PLACEMENTS];
    int places = placements(place);

    redis_needed(b);
    for (int i = 0; i < places; i++)
        for (int strict = 0; strict < 2; strict++)
            run_place(b, &place[i], strict);
}
