/* format_test.c - string locks: ours and other libraries' exclude each other.
 *
 * Each peer speaks as its library does (the scripts are written anew from what
 * they do).  Both directions are asked: they do not get what we hold, we do
 * not get what they hold, their failed attempts leave ours alone, and whoever
 * releases wakes the other where the format can. */
#include "base/url.h"
#include "harness/expect.h"
#include "harness/runner.h"
#include "harness/server.h"

#include "format_peer.h"

/* ---- Peers -------------------------------------------------------------- */

#define DELETE_IF_MINE                                                         \
    "if redis.call('get', KEYS[1]) == ARGV[1] then "                           \
    "return redis.call('del', KEYS[1]) else return 0 end"
#define EXTEND_IF_MINE                                                         \
    "if redis.call('get', KEYS[1]) == ARGV[1] then "                           \
    "return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end"
/* node-redlock asks whether any of its keys exists, and sets without NX. */
#define REDLOCK                                                                \
    "for _, k in ipairs(KEYS) do if redis.call('exists', k) == 1 then "        \
    "return 0 end end for _, k in ipairs(KEYS) do "                            \
    "redis.call('set', k, ARGV[1], 'PX', ARGV[2]) end return #KEYS"
/* The fork selects its database first. */
#define SESAME                                                                 \
    "pcall(redis.call, 'SELECT', tonumber(ARGV[1])) "                          \
    "if redis.call('exists', KEYS[1]) == 1 then return 0 end "                 \
    "redis.call('set', KEYS[1], ARGV[2], 'PX', ARGV[3]) return 1"
/* redsync tells a lock that is gone from one of another. */
#define REDSYNC_RELEASE                                                        \
    "local v = redis.call('GET', KEYS[1]) "                                    \
    "if v == ARGV[1] then return redis.call('DEL', KEYS[1]) "                  \
    "elseif v == false then return -1 else return 0 end"

#define OBTAIN                                                                 \
    "local v = redis.call('GET', KEYS[1]) "                                    \
    "if v == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) "            \
    "return true elseif not v then "                                           \
    "redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return true end "      \
    "return false"
#define RENEW                                                                  \
    "if redis.call('GET', KEYS[1]) == ARGV[1] then "                           \
    "redis.call('PEXPIRE', KEYS[1], ARGV[2]) return true end return false"
#define UNLOCK(delete)                                                         \
    "if redis.call('GET', KEYS[1]) == ARGV[1] then "                           \
    "redis.call('" delete "', KEYS[1]) return true end return false"
#define UNLOCK_AND_TELL(delete, channel)                                       \
    "if redis.call('GET', KEYS[1]) == ARGV[1] and "                            \
    "redis.call('" delete "', KEYS[1]) == 1 then "                             \
                          "redis.call('PUBLISH', " channel                     \
                          ", KEYS[1]) return true end "                        \
                          "return false"

static const char token[] = "0b1f0c9e6d1a4f6e8a7b6c5d4e3f2a1b";
static const char uuid[] = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff";

/* ---- simple ------------------------------------------------------------- */

static void simple_is_what_they_expect(void)
{
    server *s = server_start(NULL);
    ours *o = ours_open(s, "format=simple");
    peer *p = peer_open(s);
    hf_place place = ours_place("job");
    long long left;

    EXPECT(!(o->caps & HF_CAP_TOKEN) && (o->caps & HF_CAP_EACH));
    ours_holds(o, &place);
    EXPECT_STR(ASK(p, "TYPE", "job"), "string");
    EXPECT_EQ(strlen(ASK(p, "GET", "job")), 32);
    left = strtoll(ASK(p, "PTTL", "job"), NULL, 10);
    EXPECT(left > 20000 && left <= 30000);
    EXPECT(place.remaining > 0 && place.remaining <= HF_MS(30000));
    EXPECT_EQ(place.token, 0);
    EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);
    EXPECT_STR(ASK(p, "DBSIZE"), "0");
    ours_close(o);
    peer_close(p);
    server_stop(s);
}

/* Every way of theirs to take it answers no, and none touches ours. */
static void they_are_refused(peer *p)
{
    EXPECT_STR(ASK(p, "SET", "job", token, "NX", "PX", "5000"), "nil");
    EXPECT_STR(ASK(p, "SET", "job", token, "NX"), "nil");
    EXPECT_STR(ASK(p, "EVAL", REDLOCK, "1", "job", token, "5000"), "0");
    EXPECT_STR(ASK(p, "EVAL", SESAME, "1", "job", "0", token, "5000"), "0");
    EXPECT_STR(ASK(p, "EVAL", DELETE_IF_MINE, "1", "job", token), "0");
    EXPECT_STR(ASK(p, "EVAL", EXTEND_IF_MINE, "1", "job", token, "1"), "0");
    EXPECT_STR(ASK(p, "EVAL", REDSYNC_RELEASE, "1", "job", token), "0");
}

static void simple_excludes_both_ways(void)
{
    server *s = server_start(NULL);
    ours *o = ours_open(s, "format=simple");
    peer *p = peer_open(s);
    hf_place place = ours_place("job");

    ours_holds(o, &place);
    they_are_refused(p);
    EXPECT_CODE(ours_renew(o, &place), 0);
    EXPECT_EQ(place.verdict, HF_GRANTED);
    EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);

    EXPECT_STR(ASK(p, "SET", "job", token, "NX", "PX", "60000"), "OK");
    ours_is_refused(o, "job");
    EXPECT_STR(ASK(p, "GET", "job"), token);
    EXPECT(strtoll(ASK(p, "PTTL", "job"), NULL, 10) > 30000);
    EXPECT_STR(ASK(p, "EVAL", REDSYNC_RELEASE, "1", "job", token), "1");
    EXPECT_STR(ASK(p, "EVAL", REDSYNC_RELEASE, "1", "job", token), "-1");

    EXPECT_STR(ASK(p, "EVAL", REDLOCK, "1", "job", token, "60000"), "1");
    ours_is_refused(o, "job");
    EXPECT_STR(ASK(p, "EVAL", DELETE_IF_MINE, "1", "job", token), "1");
    EXPECT_STR(ASK(p, "EVAL", SESAME, "1", "job", "0", token, "60000"), "1");
    ours_is_refused(o, "job");
    EXPECT_STR(ASK(p, "DEL", "job"), "1");

    EXPECT_STR(ASK(p, "SET", "job", token, "NX"), "OK"); /* no expiry at all */
    place = ours_place("job");
    EXPECT_CODE(ours_join(o, &place, false), 0);
    EXPECT_EQ(place.verdict, HF_WAITS);
    EXPECT(place.look_in > 0 && place.look_in <= HF_MS(1000));
    EXPECT_STR(ASK(p, "EVAL", DELETE_IF_MINE, "1", "job", token), "1");
    EXPECT_CODE(ours_look(o, &place), 0);
    EXPECT_EQ(place.verdict, HF_GRANTED);
    EXPECT(place.remaining > 0);
    ours_close(o); /* and the detach gives it back */
    EXPECT_STR(ASK(p, "DBSIZE"), "0");
    peer_close(p);
    server_stop(s);
}

static void our_release_tells_ours(void)
{
    server *s = server_start(NULL);
    ours *a = ours_open(s, "format=simple"), *b = ours_open(s, "format=simple");
    hf_place one = ours_place("a*[b]?"), two = ours_place("a*[b]?");
    hf_place other = ours_place("other");

    ours_holds(a, &one);
    ours_holds(a, &other);
    ours_waits(b, &two);
    EXPECT_EQ(ours_leave(a, &other), HF_GRANTED);
    EXPECT_EQ(ours_leave(a, &one), HF_GRANTED);
    ours_is_told(b, &two);
    EXPECT_EQ(ours_leave(b, &two), HF_GRANTED);
    ours_close(a);
    ours_close(b);
    server_stop(s);
}

/* Expired, and taken by a peer: the release says that it was lost and leaves
 * the peer's alone; so does a renewal. */
static void what_was_lost_is_said(void)
{
    server *s = server_start(NULL);
    ours *o = ours_open(s, "format=simple");
    peer *p = peer_open(s);
    hf_place place = ours_place("job"), other = ours_place("other");

    ours_holds(o, &place);
    ours_holds(o, &other);
    EXPECT_STR(ASK(p, "DEL", "job"), "1");
    EXPECT_STR(ASK(p, "SET", "job", token, "NX", "PX", "60000"), "OK");
    EXPECT_STR(ASK(p, "DEL", "other"), "1");
    EXPECT_CODE(ours_look(o, &other), 0); /* expired is final: not retaken */
    EXPECT_EQ(other.verdict, HF_GONE);
    EXPECT_STR(ASK(p, "EXISTS", "other"), "0");
    EXPECT_CODE(ours_renew(o, &place), 0);
    EXPECT_EQ(place.verdict, HF_GONE);
    EXPECT_CODE(place.reason, HF_EEXPIRED);
    EXPECT_EQ(ours_leave(o, &place), HF_GONE);
    EXPECT_CODE(place.reason, HF_EEXPIRED);
    EXPECT_EQ(ours_leave(o, &other), HF_GONE);
    EXPECT_CODE(other.reason, HF_EEXPIRED);
    EXPECT_EQ(ours_leave(o, &place), HF_GONE); /* a second time: never was */
    EXPECT_CODE(place.reason, HF_ENOTHELD);
    EXPECT_STR(ASK(p, "GET", "job"), token);
    EXPECT(strtoll(ASK(p, "PTTL", "job"), NULL, 10) > 30000);
    ours_close(o);
    EXPECT_STR(ASK(p, "GET", "job"), token);
    peer_close(p);
    server_stop(s);
}

static void another_family_is_another_kind(void)
{
    server *s = server_start(NULL);
    ours *o = ours_open(s, "format=simple");
    ours *r = ours_open(s, "format=redisson");
    peer *p = peer_open(s);
    hf_place one = ours_place("hash"), two = ours_place("string");

    EXPECT_STR(ASK(p, "HSET", "hash", "a", "1"), "1");
    EXPECT_STR(ASK(p, "SET", "string", "a"), "OK");
    EXPECT_CODE(ours_join(o, &one, false), HF_EKIND);
    EXPECT_CODE(ours_join(r, &two, true), HF_EKIND);
    EXPECT_STR(ASK(p, "HGET", "hash", "a"), "1");
    EXPECT_STR(ASK(p, "GET", "string"), "a");
    ours_close(o);
    ours_close(r);
    peer_close(p);
    server_stop(s);
}

/* A try that is still on its way when its place leaves takes nothing. */
static void tomb_stops_a_late_try(void)
{
    server *s = server_start(NULL);
    ours *o = ours_open(s, "format=simple");
    peer *p = peer_open(s);
    hf_place place = ours_place("job");
    hf_op op = {.kind = HF_OP_LEAVE, .place = &place, .tomb = true};

    ours_run(o, &op);
    EXPECT_EQ(place.verdict, HF_GONE);
    EXPECT_CODE(ours_join(o, &place, false), 0);
    EXPECT_EQ(place.verdict, HF_GONE);
    EXPECT_STR(ASK(p, "EXISTS", "job"), "0");
    EXPECT_STR(ASK(p, "DBSIZE"), "1");
    EXPECT_HAS(ASK(p, "KEYS", "*"), "holdfast:tomb:");
    ours_close(o);
    peer_close(p);
    server_stop(s);
}

/* Given up while a look is under way, which takes the lock as it arrives:
 * whichever comes first, nothing of it stays. */
static void leave_during_a_look(void)
{
    server *s = server_start(NULL);
    ours *o = ours_open(s, "format=simple");
    peer *p = peer_open(s);
    hf_place place = ours_place("job"), copy, *looked = &copy;
    hf_op look = {.kind = HF_OP_RECHECK,
                  .sid = o->sid,
                  .places = &looked,
                  .place_count = 1,
                  .deadline = hfd_now() + HF_MS(PEER_WAIT_MS),
                  .done = ours_done};
    long long end = test_now_ms() + PEER_WAIT_MS;
    hf_verdict was;

    EXPECT_STR(ASK(p, "SET", "job", token, "NX", "PX", "60000"), "OK");
    ours_waits(o, &place);
    EXPECT_STR(ASK(p, "DEL", "job"), "1");
    copy = place;
    o->driver->start(o->store, &look);
    was = ours_leave(o, &place);
    EXPECT(was == HF_GRANTED || was == HF_WAITS);
    while (!look.core && test_now_ms() < end) {
        struct pollfd at = {.fd = o->driver->fd(o->store), .events = POLLIN};

        if (poll(&at, 1, 20) > 0)
            o->driver->dispatch(o->store);
    }
    EXPECT(look.core != NULL);
    EXPECT_STR(ASK(p, "EXISTS", "job"), "0");
    EXPECT_HAS(ASK(p, "KEYS", "*"), "holdfast:tomb:");
    ours_close(o);
    peer_close(p);
    server_stop(s);
}

/* ---- spring ------------------------------------------------------------- */

#define SPRING_QUERY "format=spring&registry_key=shop"

static void spring_excludes_both_ways(void)
{
    server *s = server_start(NULL);
    ours *o = ours_open(s, SPRING_QUERY), *other = ours_open(s, SPRING_QUERY);
    peer *p = peer_open(s);
    hf_place place = ours_place("pay"), rival = ours_place("pay");

    ours_holds(o, &place);
    EXPECT_EQ(strlen(ASK(p, "GET", "shop:pay")), 36);
    EXPECT(ASK(p, "GET", "shop:pay")[8] == '-');
    EXPECT_STR(ASK(p, "EVAL", OBTAIN, "1", "shop:pay", uuid, "60000"), "nil");
    EXPECT_STR(ASK(p, "EVAL", RENEW, "1", "shop:pay", uuid, "1"), "nil");
    EXPECT_STR(ASK(p, "EVAL", UNLOCK("UNLINK"), "1", "shop:pay", uuid), "nil");
    EXPECT_STR(ASK(p, "EVAL", UNLOCK("DEL"), "1", "shop:pay", uuid), "nil");
    EXPECT_CODE(ours_join(o, &rival, true), HF_EBUSY); /* no re-entry */
    ours_is_refused(other, "pay");
    EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);

    EXPECT_STR(ASK(p, "EVAL", OBTAIN, "1", "shop:pay", uuid, "60000"), "1");
    ours_is_refused(o, "pay");
    EXPECT_STR(ASK(p, "EVAL", RENEW, "1", "shop:pay", uuid, "50000"), "1");
    EXPECT_STR(ASK(p, "EVAL", UNLOCK("UNLINK"), "1", "shop:pay", uuid), "1");
    place = ours_place("pay");
    ours_holds(o, &place);
    EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);
    EXPECT_STR(ASK(p, "DBSIZE"), "0");
    ours_close(o);
    ours_close(other);
    peer_close(p);
    server_stop(s);
}

/* A registry of any version that sleeps until it is told hears of ours. */
static void our_release_tells_spring(void)
{
    server *s = server_start(NULL);
    ours *o = ours_open(s, SPRING_QUERY);
    peer *old = peer_open(s), *new = peer_open(s);
    hf_place place = ours_place("pay");

    ASK(old, "SUBSCRIBE", "shop-channel");
    ASK(new, "PSUBSCRIBE", "shop-channel:*");
    ours_holds(o, &place);
    EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);
    peer_hears(old, "message shop-channel shop:pay");
    peer_hears(new, "shop-channel:shop:pay shop:pay");
    place = ours_place("pay");
    ours_holds(o, &place);
    ours_close(o); /* a detach tells it, too */
    peer_hears(old, "message shop-channel shop:pay");
    peer_close(old);
    peer_close(new);
    server_stop(s);
}

static void spring_tells_ours(void)
{
    static const char *const unlocks[] = {UNLOCK_AND_TELL("UNLINK", "ARGV[2]"),
                                          UNLOCK_AND_TELL("DEL", "ARGV[2]")};
    static const char *const channels[] = {"shop-channel",
                                           "shop-channel:shop:pay"};
    server *s = server_start(NULL);
    ours *o = ours_open(s, SPRING_QUERY);
    peer *p = peer_open(s);

    for (int i = 0; i < 4; i++) {
        hf_place place = ours_place("pay");

        EXPECT_STR(ASK(p, "EVAL", OBTAIN, "1", "shop:pay", uuid, "60000"), "1");
        ours_waits(o, &place);
        EXPECT_STR(ASK(p, "PUBLISH", channels[i / 2], "shop:other"), "1");
        EXPECT_STR(ASK(p, "EVAL", unlocks[i % 2], "1", "shop:pay", uuid,
                       channels[i / 2]),
                   "1");
        ours_is_told(o, &place);
        EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);
    }
    ours_close(o);
    peer_close(p);
    server_stop(s);
}

/* Characters of a pattern in the registry's key mean themselves. */
static void registry_is_no_pattern(void)
{
    server *s = server_start(NULL);
    ours *o = ours_open(s, "format=spring&registry_key=a*");
    peer *p = peer_open(s);
    hf_place place = ours_place("pay");

    EXPECT_STR(ASK(p, "EVAL", OBTAIN, "1", "a*:pay", uuid, "60000"), "1");
    ours_waits(o, &place);
    EXPECT_STR(ASK(p, "PUBLISH", "abc-channel:abc:pay", "abc:pay"), "0");
    EXPECT_STR(ASK(p, "PUBLISH", "a*-channel:a*:pay", "a*:pay"), "1");
    EXPECT(ours_woken(o, &o->changed_this, PEER_WAIT_MS));
    EXPECT_EQ(ours_leave(o, &place), HF_WAITS);
    ours_close(o);
    peer_close(p);
    server_stop(s);
}

static void spring_needs_its_registry(void)
{
    server *s = server_start(NULL);
    hf_host host = {.ctx = NULL};
    hf_error err = {.code = 0};
    hf_store *store;
    hf_url *url;
    uint32_t caps;
    char text[100];

    snprintf(text, sizeof text, "redis://127.0.0.1:%d/?format=spring", s->port);
    EXPECT_OK(hf__url_parse(&url, text, &err), err);
    EXPECT_CODE(hf_driver_entry()->open(&store, url, &host, &caps, &err),
                HF_EURL);
    EXPECT_HAS(err.text, "registry_key");
    hf__url_free(url);
    server_stop(s);
}

/* ---- Operators ---------------------------------------------------------- */

static int count_row(const hf_row *row, void *user)
{
    int *seen = user;

    EXPECT_STR(row->info.key, seen[0] == 0 ? "mine" : "theirs");
    EXPECT_EQ(row->info.mine, seen[0] == 0);
    EXPECT_STR(row->info.name, seen[0] == 0 ? "tester" : uuid);
    EXPECT(row->info.granted);
    seen[0]++;
    return 0;
}

static void note_endless(hf_level level, const char *name, const char *text,
                         void *user)
{
    if (strcmp(name, "expiry") == 0) {
        *(hf_level *)user = level;
        EXPECT(level == HF_FINE || strstr(text, "'theirs'"));
    }
}

static void operators_see_and_break(void)
{
    server *s = server_start(NULL);
    ours *o = ours_open(s, SPRING_QUERY);
    peer *p = peer_open(s);
    hf_place place = ours_place("mine");
    int seen = 0;
    hf_level level = HF_FAIL;
    hf_op list = {.kind = HF_OP_LIST, .emit_row = count_row, .user = &seen};
    hf_op evict = {.kind = HF_OP_EVICT, .text = "theirs", .text_len = 6};
    hf_op probe = {
        .kind = HF_OP_PROBE, .emit_finding = note_endless, .user = &level};

    ours_holds(o, &place);
    EXPECT_STR(ASK(p, "SET", "shop:theirs", uuid), "OK");
    EXPECT_STR(ASK(p, "SET", "shopping", "list"), "OK");
    EXPECT_STR(ASK(p, "RPUSH", "shop:list", "a"), "1");
    ours_run(o, &list);
    EXPECT_CODE(list.error.code, 0);
    EXPECT_EQ(seen, 2);
    ours_run(o, &probe);
    EXPECT_CODE(probe.error.code, 0);
    EXPECT_EQ(level, HF_WARN);
    ours_run(o, &evict);
    EXPECT_EQ(evict.count, 1);
    EXPECT_STR(ASK(p, "EXISTS", "shop:theirs"), "0");
    evict.text = "list";
    evict.text_len = 4;
    ours_run(o, &evict);
    EXPECT_CODE(evict.error.code, HF_EKIND);
    EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);
    ours_close(o);
    peer_close(p);
    server_stop(s);
}

static const test_case cases[] = {TEST(simple_is_what_they_expect),
                                  TEST(simple_excludes_both_ways),
                                  TEST(our_release_tells_ours),
                                  TEST(what_was_lost_is_said),
                                  TEST(another_family_is_another_kind),
                                  TEST(tomb_stops_a_late_try),
                                  TEST(leave_during_a_look),
                                  TEST(spring_excludes_both_ways),
                                  TEST(our_release_tells_spring),
                                  TEST(spring_tells_ours),
                                  TEST(registry_is_no_pattern),
                                  TEST(spring_needs_its_registry),
                                  TEST(operators_see_and_break)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "format", cases, sizeof cases / sizeof *cases);
}
