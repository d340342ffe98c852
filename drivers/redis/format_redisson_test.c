/* format_redisson_test.c - hash locks: ours and Redisson's exclude each other.
 *
 * The peer runs what Redisson runs, script for script: try_acquire, unlock
 * with and without its latch, the watchdog over many locks at once,
 * force_unlock and the fenced acquisition.  Beside exclusion and waking both
 * ways: their re-entry is theirs, a hash of ours always has an end, and tokens
 * rise over both.  Then what a lost reply leaves behind. */
#include "base/url.h"
#include "harness/expect.h"
#include "harness/proxy.h"
#include "harness/runner.h"
#include "harness/server.h"

#include "format_peer.h"

#define TRY_ACQUIRE                                                            \
    "if redis.call('exists', KEYS[1]) == 0 or "                                \
    "redis.call('hexists', KEYS[1], ARGV[2]) == 1 then "                       \
    "redis.call('hincrby', KEYS[1], ARGV[2], 1) "                              \
    "redis.call('pexpire', KEYS[1], ARGV[1]) return nil end "                  \
    "return redis.call('pttl', KEYS[1])"
#define UNLOCK                                                                 \
    "local v = redis.call('get', KEYS[3]) "                                    \
    "if v ~= false then return tonumber(v) end "                               \
    "if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then return nil end "     \
    "local c = redis.call('hincrby', KEYS[1], ARGV[3], -1) "                   \
    "if c > 0 then redis.call('pexpire', KEYS[1], ARGV[2]) "                   \
    "redis.call('set', KEYS[3], 0, 'px', ARGV[5]) return 0 end "               \
    "redis.call('del', KEYS[1]) "                                              \
    "redis.call(ARGV[4], KEYS[2], ARGV[1]) "                                   \
    "redis.call('set', KEYS[3], 1, 'px', ARGV[5]) return 1"
#define WATCHDOG                                                               \
    "local out = {} for i, k in ipairs(KEYS) do "                              \
    "if redis.call('hexists', k, ARGV[i + 1]) == 1 then "                      \
    "redis.call('pexpire', k, ARGV[1]) out[i] = 1 else out[i] = 0 end end "    \
    "return out"
#define FORCE_UNLOCK                                                           \
    "if redis.call('del', KEYS[1]) == 1 then "                                 \
    "redis.call('publish', KEYS[2], ARGV[1]) return 1 end return 0"
#define FENCED                                                                 \
    "if redis.call('exists', KEYS[1]) == 0 or "                                \
    "redis.call('hexists', KEYS[1], ARGV[2]) == 1 then "                       \
    "local t = redis.call('incr', KEYS[2]) "                                   \
    "redis.call('hincrby', KEYS[1], ARGV[2], 1) "                              \
    "redis.call('pexpire', KEYS[1], ARGV[1]) return {-1, t} end "              \
    "return {redis.call('pttl', KEYS[1]), -1}"

#define FIELD "6f9619ff-8b86-4d01-b42d-00cf4fc964ff:41"
#define LATCH "redisson_unlock_latch:{job}:00112233445566778899aabbccddeeff"
#define CHANNEL "redisson_lock__channel:{job}"
#define COUNTER "redisson_lock_token:{job}"

static const char *acquire(peer *p)
{
    return ASK(p, "EVAL", TRY_ACQUIRE, "1", "job", "60000", FIELD);
}

static const char *unlock(peer *p)
{
    return ASK(p, "EVAL", UNLOCK, "3", "job", CHANNEL, LATCH, "0", "60000",
               FIELD, "publish", "20000");
}

static void redisson_is_what_they_expect(void)
{
    server *s = server_start(NULL);
    ours *o = ours_open(s, "format=redisson");
    peer *p = peer_open(s);
    hf_place place = ours_place("job");
    const char *row;

    EXPECT(!(o->caps & HF_CAP_TOKEN));
    ours_holds(o, &place);
    EXPECT_STR(ASK(p, "TYPE", "job"), "hash");
    row = ASK(p, "HGETALL", "job");
    EXPECT_EQ(strlen(row), 36 + 2 + 2); /* UUID:1, and entered once */
    EXPECT_STR(row + 36, ":1 1");
    EXPECT(strtoll(ASK(p, "PTTL", "job"), NULL, 10) > 20000);
    ours_holds(o, &place); /* asked again: it is not counted twice */
    EXPECT_STR(ASK(p, "HGETALL", "job") + 36, ":1 1");
    EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);
    EXPECT_STR(ASK(p, "DBSIZE"), "0");
    ours_close(o);
    peer_close(p);
    server_stop(s);
}

static void redisson_excludes_both_ways(void)
{
    server *s = server_start(NULL);
    ours *o = ours_open(s, "format=redisson");
    peer *p = peer_open(s);
    hf_place place = ours_place("job");

    ours_holds(o, &place);
    EXPECT(strtoll(acquire(p), NULL, 10) > 20000);
    EXPECT_STR(unlock(p), "nil");
    EXPECT_STR(ASK(p, "EVAL", WATCHDOG, "1", "job", "1", FIELD), "0");
    EXPECT_CODE(ours_renew(o, &place), 0);
    EXPECT_EQ(place.verdict, HF_GRANTED);
    EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);

    EXPECT_STR(acquire(p), "nil");
    EXPECT_STR(acquire(p), "nil"); /* their re-entry, which they count */
    ours_is_refused(o, "job");
    EXPECT_STR(ASK(p, "HGET", "job", FIELD), "2");
    EXPECT_STR(unlock(p), "0");
    ours_is_refused(o, "job");
    EXPECT_STR(ASK(p, "DEL", LATCH), "1");
    EXPECT_STR(
        ASK(p, "EVAL", WATCHDOG, "2", "job", "none", "70000", FIELD, FIELD),
        "1 0");
    EXPECT(strtoll(ASK(p, "PTTL", "job"), NULL, 10) > 60000);
    EXPECT_STR(unlock(p), "1");
    place = ours_place("job");
    ours_holds(o, &place); /* the latch that they left is nothing to us */
    EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);
    ours_close(o);
    peer_close(p);
    server_stop(s);
}

static void both_tell_each_other(void)
{
    server *s = server_start(NULL);
    ours *o = ours_open(s, "format=redisson");
    peer *p = peer_open(s), *ear = peer_open(s);
    hf_place place = ours_place("job");

    ASK(ear, "SUBSCRIBE", CHANNEL);
    ours_holds(o, &place);
    EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);
    peer_hears(ear, "message " CHANNEL " 0");

    EXPECT_STR(acquire(p), "nil");
    place = ours_place("job");
    ours_waits(o, &place);
    EXPECT(place.look_in > HF_MS(1000)); /* the message is what we wait for */
    EXPECT_STR(unlock(p), "1");
    ours_is_told(o, &place);
    EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);

    EXPECT_STR(acquire(p), "nil");
    place = ours_place("job");
    atomic_store(&o->changed, 0); /* it listens anew */
    ours_waits(o, &place);
    EXPECT_STR(ASK(p, "EVAL", FORCE_UNLOCK, "2", "job", CHANNEL, "0"), "1");
    ours_is_told(o, &place);
    EXPECT_STR(ASK(p, "EVAL", FORCE_UNLOCK, "2", "job", CHANNEL, "0"), "1");
    EXPECT_EQ(ours_leave(o, &place), HF_GONE); /* they forced ours */
    EXPECT_CODE(place.reason, HF_EEXPIRED);
    ours_close(o);
    peer_close(p);
    peer_close(ear);
    server_stop(s);
}

/* A name with a tag of its own is not wrapped in another. */
static void names_with_a_tag(void)
{
    server *s = server_start(NULL);
    ours *o = ours_open(s, "format=redisson&fenced=yes");
    peer *p = peer_open(s), *ear = peer_open(s);
    hf_place place = ours_place("{shop}:job"), bare = ours_place("{shop}");

    ASK(ear, "PSUBSCRIBE", "*");
    ours_holds(o, &place);
    EXPECT_EQ(place.token, 1);
    EXPECT_STR(ASK(p, "GET", "redisson_lock_token:{shop}:job"), "1");
    EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);
    peer_hears(ear, "redisson_lock__channel:{shop}:job 0");
    EXPECT_STR(ASK(p, "EVAL", TRY_ACQUIRE, "1", "{shop}", "60000", FIELD),
               "nil");
    ours_waits(o, &bare);
    EXPECT_STR(ASK(p, "DEL", "{shop}"), "1");
    EXPECT_STR(ASK(p, "PUBLISH", "redisson_lock__channel:{shop}", "0"), "2");
    ours_is_told(o, &bare);
    ours_close(o);
    peer_close(p);
    peer_close(ear);
    server_stop(s);
}

static long long fenced_token(peer *p)
{
    const char *text =
        ASK(p, "EVAL", FENCED, "2", "job", COUNTER, "60000", FIELD);

    EXPECT(strncmp(text, "-1 ", 3) == 0);
    return strtoll(text + 3, NULL, 10);
}

static void tokens_rise_over_both(void)
{
    server *s = server_start(NULL);
    ours *o = ours_open(s, "format=redisson&fenced=yes");
    ours *plain = ours_open(s, "format=redisson");
    peer *p = peer_open(s);
    uint64_t last = 0;

    EXPECT(o->caps & HF_CAP_TOKEN);
    for (int i = 0; i < 5; i++) {
        hf_place place = ours_place("job"), unfenced = ours_place("job");

        ours_holds(o, &place);
        EXPECT(place.token > last && place.num <= place.token);
        last = place.token;
        ours_holds(o, &place); /* again: the same */
        EXPECT_EQ(place.token, last);
        EXPECT(
            strtoll(ASK(p, "EVAL", FENCED, "2", "job", COUNTER, "60000", FIELD),
                    NULL, 10) > 0);
        EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);
        EXPECT((uint64_t)fenced_token(p) > last);
        last = (uint64_t)fenced_token(p); /* they count re-entry, too */
        ours_is_refused(o, "job");
        EXPECT_STR(ASK(p, "DEL", "job"), "1");
        ours_holds(plain, &unfenced); /* seen by those who read the counter */
        EXPECT_EQ(unfenced.token, 0);
        EXPECT((uint64_t)strtoll(ASK(p, "GET", COUNTER), NULL, 10) > last);
        EXPECT_EQ(ours_leave(plain, &unfenced), HF_GRANTED);
    }
    ours_close(o);
    ours_close(plain);
    peer_close(p);
    server_stop(s);
}

/* Kept after the release: nobody's, with an end, and a peer waits for it. */
static void kept_is_nobodys(void)
{
    server *s = server_start(NULL);
    ours *o = ours_open(s, "format=redisson");
    peer *p = peer_open(s);
    hf_place place = ours_place("job");
    hf_op op = {.kind = HF_OP_LEAVE, .place = &place, .keep = HF_MS(5000)};
    long long left;

    ours_holds(o, &place);
    ours_run(o, &op);
    EXPECT_EQ(place.verdict, HF_GRANTED);
    EXPECT_EQ(ours_leave(o, &place), HF_GONE);
    EXPECT_STR(ASK(p, "HGETALL", "job") + 36, ":0 1");
    left = strtoll(acquire(p), NULL, 10);
    EXPECT(left > 0 && left <= 5000);
    ours_close(o);
    EXPECT_STR(ASK(p, "EXISTS", "job"), "1");
    peer_close(p);
    server_stop(s);
}

/* ---- Replies that are lost ---------------------------------------------- */

/* Executed, but the answer did not come: asked again it finds itself. */
static void lost_replies(const char *query)
{
    static const proxy_rule lose = {
        .command = "EVALSHA", .nth = 1, .act = PROXY_CUT_REPLY};
    server *s = server_start(NULL);
    proxy *way = proxy_start(s->port);
    ours *o = ours_open_at(proxy_port(way), query, 30000);
    peer *p = peer_open(s);
    hf_place warm = ours_place("warm"), place = ours_place("job");
    hf_op op = {.kind = HF_OP_LEAVE, .place = &place};
    long long left;

    ours_holds(o, &warm); /* the script is known from here on */
    proxy_set(way, &lose);
    EXPECT_CODE(ours_join(o, &place, false), HF_EUNKNOWN);
    left = strtoll(ASK(p, "PTTL", "job"), NULL, 10);
    EXPECT(left > 0);
    test_sleep_ms(30);
    ours_holds(o, &place);
    EXPECT(place.remaining <= HF_MS(left));
    proxy_set(way, &lose);
    ours_run(o, &op);
    EXPECT_EQ(op.outcome, HF_UNKNOWN);
    EXPECT_STR(ASK(p, "EXISTS", "job"), "0");
    EXPECT_EQ(ours_leave(o, &place), HF_GONE);
    EXPECT_CODE(place.reason, HF_ENOTHELD); /* the first leave did it */

    /* A try without an answer that is given up leaves a tomb. */
    place = ours_place("job");
    proxy_set(way, &lose);
    EXPECT_CODE(ours_join(o, &place, false), HF_EUNKNOWN);
    proxy_set(way, NULL);
    EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);
    EXPECT_HAS(ASK(p, "KEYS", "*"), "holdfast:tomb:");
    EXPECT_CODE(ours_join(o, &place, false), 0);
    EXPECT_EQ(place.verdict, HF_GONE);
    EXPECT_EQ(ours_leave(o, &warm), HF_GRANTED);
    ours_close(o);
    proxy_stop(way);
    peer_close(p);
    server_stop(s);
}

static void lost_replies_simple(void)
{
    lost_replies("format=simple");
}

static void lost_replies_redisson(void)
{
    lost_replies("format=redisson");
}

static const test_case cases[] = {
    TEST(redisson_is_what_they_expect), TEST(redisson_excludes_both_ways),
    TEST(both_tell_each_other),         TEST(names_with_a_tag),
    TEST(tokens_rise_over_both),        TEST(kept_is_nobodys),
    TEST(lost_replies_simple),          TEST(lost_replies_redisson)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "format_redisson", cases,
                     sizeof cases / sizeof *cases);
}
