/* rediswords.c - any reply as what a Redis server, a Sentinel or a node of a
 * cluster says about itself and the others.
 *
 * The first byte says what it is read as: CLUSTER SLOTS, MOVED and ASK, the
 * address that a Sentinel names, SENTINEL MASTER, INFO and ROLE of a handshake,
 * TIME, the votes of a Redlock.  The rest is the reply; what is no whole reply
 * is wrapped into a text, so that INFO has lines to read.
 *
 * Promises: nothing outside of the reply is read; what is given out is a
 * whole text, an address that can be dialled, a number within its bounds, or
 * "not said"; a verdict about votes never has more than the votes have; doctor
 * has a sentence for every such server. */
#include "fuzz.h"

#include <holdfast/holdfast.h>

#include "../../drivers/redis/cluster.h"
#include "../../drivers/redis/format.h"
#include "../../drivers/redis/info.h"
#include "../../drivers/redis/sentinel.h"
#include "../../drivers/redlock/vote.h"

enum { ROOM = 9000, NODES = 5 };

static void check_found(const redis_found *found)
{
    size_t len = strnlen(found->host, sizeof found->host);

    PROMISE(len > 0 && len < sizeof found->host);
    PROMISE(found->port > 0);
}

static void check_slots(const resp *reply, unsigned slot)
{
    redis_found owner, nodes[REDIS_NODES_MAX];
    size_t count = slot % (REDIS_NODES_MAX + 1), room = count;

    if (redis_read_slots(reply, slot, "127.0.0.1", &owner, nodes, &count))
        check_found(&owner);
    PROMISE(count <= room);
    for (size_t i = 0; i < count; i++) {
        check_found(&nodes[i]);
        for (size_t j = 0; j < i; j++)
            PROMISE(nodes[i].port != nodes[j].port ||
                    strcmp(nodes[i].host, nodes[j].host) != 0);
    }
}

static void check_finding(hf_level level, const char *name, const char *text,
                          void *user)
{
    (void)user;
    PROMISE(level <= HF_FAIL && name[0] != '\0' && text[0] != '\0');
}

static void check_watch(const resp *reply)
{
    redis_watch watch = {.listed = 3, .reached = 2, .name = "primary"};
    redis_facts facts;

    redis_facts_init(&facts);
    redis_read_watch(reply, &watch);
    PROMISE(watch.sentinels >= -1 && watch.quorum >= -1 &&
            watch.replicas >= -1 && watch.down_after_ms >= -1);
    redis_judge_sentinel(&facts, &watch, check_finding, NULL);
}

static void check_info(const resp *reply)
{
    redis_met met = {.where = "here"};
    bool known = redis_met_info(&met, reply);
    int64_t number = redis_info_number(reply, "maxmemory");
    char small[3];

    PROMISE(known == (met.server.version != 0));
    PROMISE(met.server.version >= 0 && met.server.version < 10200000);
    PROMISE(strlen(met.server.run_id) < sizeof met.server.run_id);
    PROMISE(met.server.born <= hfd_now());
    PROMISE(number >= -1);
    PROMISE(redis_info_text(reply, "role", small, sizeof small) ||
            small[0] == '\0');
    PROMISE(strlen(small) < sizeof small);
    redis_met_role(&met, reply);
    PROMISE(strlen(met.role) < sizeof met.role);
    PROMISE(strlen(met.of) < sizeof met.of);
}

static void check_time(const resp *reply)
{
    int64_t us = -1;

    PROMISE(redis_read_time(reply, &us) ? us >= 0 : us == -1);
    if (us > 0)
        PROMISE(us < INT64_MAX / 4);
}

/* What several servers answer about one lock, as a driver counts it. */
static void check_votes(const resp *reply)
{
    vote votes[NODES];
    vote_tally tally;
    unsigned mine = 0;
    size_t n = 0;
    resp at;

    memset(votes, 0, sizeof votes);
    if (reply->type != RESP_ARRAY || format_read(reply, NODES) == 0)
        return;
    at = resp_item(reply, 0);
    for (; n < NODES; n++) {
        format_answer answer = format_next(&at);

        PROMISE(answer.left_ms >= -2 && answer.left_ms <= HF_MS_MAX);
        votes[n] =
            (vote){.heard = answer.left_ms != -2,
                   .code = answer.code == FORMAT_MINE ? VOTE_MINE : VOTE_OTHER,
                   .left_ms = answer.left_ms,
                   .number = answer.token};
        mine += votes[n].heard && votes[n].code == VOTE_MINE;
    }
    tally = vote_count(votes, 1, NODES);
    PROMISE(tally.mine == mine);
    PROMISE((tally.verdict == VOTE_YES) == (mine >= vote_majority(NODES)));
    PROMISE(!vote_is_level(&tally, NODES) || tally.verdict == VOTE_YES);
}

static void check_moved(const resp *reply)
{
    redis_found found;

    if ((reply->type == RESP_ERROR || reply->type == RESP_STRING) &&
        redis_read_moved(reply, &found))
        check_found(&found);
}

static void check_reply(unsigned how, const resp *reply)
{
    redis_found found;

    switch (how % 7) {
    case 0:
        check_slots(reply, how * 64);
        break;
    case 1:
        check_moved(reply);
        break;
    case 2:
        if (redis_read_primary(reply, &found))
            check_found(&found);
        break;
    case 3:
        check_watch(reply);
        break;
    case 4:
        check_time(reply);
        break;
    case 5:
        check_votes(reply);
        break;
    default:
        check_info(reply);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, data + size};
    unsigned how = take_byte(&in);
    size_t len = (size_t)(in.end - in.at), head;
    long whole = resp_size((const char *)in.at, len);
    char text[32], *copy;
    resp reply;

    if (len > ROOM)
        return 0;
    head = whole > 0 ? 0 : (size_t)snprintf(text, sizeof text, "$%zu\r\n", len);
    copy = malloc(head + len + 2);
    PROMISE(copy != NULL);
    memcpy(copy, text, head);
    if (len > 0)
        memcpy(copy + head, in.at, len);
    memcpy(copy + head + len, "\r\n", 2);
    reply = resp_at(copy);
    check_reply(how, &reply);
    free(copy);
    return 0;
}
