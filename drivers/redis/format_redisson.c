/* format_redisson.c - locks of Redisson: RLock, and RFencedLock on request.
 *
 * The key is the lock's name, a hash of one field: the owner, UUID:NUMBER,
 * with how often it entered.  Each entry of ours is an owner of its own and
 * enters once; re-entry is counted in the core.  The hash gets its end in the
 * script that makes it: without one RFencedLock takes the lock for its own.
 *
 * A release deletes the hash and tells "0" on the lock's channel, by which one
 * waiter of each process tries again; otherwise they wake when the time that
 * they saw is over, and so do we.  Latch keys are a note of a Redisson client
 * to itself about its own unlock.
 *
 * With fenced=yes a taking draws from the counter that RFencedLock keeps; that
 * counter rises with every taking for as long as nobody deletes it.  Where it
 * exists we draw from it in any case, so that its readers see every holder. */
#include "format.h"

#define CHANNEL "redisson_lock__channel:"

/* The first word of ARGV says whether tokens are wanted. */
#define REDISSON                                                               \
    "local function name(p, k)\n"                                              \
    "  if string.find(k, '{', 1, true) then return p .. ':' .. k end\n"        \
    "  return p .. ':{' .. k .. '}'\n"                                         \
    "end\n"                                                                    \
    "local function holds(k, me)\n"                                            \
    "  local v = redis.pcall('HEXISTS', k, me)\n"                              \
    "  if type(v) ~= 'table' then return v == 1 end\n"                         \
    "  if redis.call('TYPE', k)['ok'] == 'hash' then error(v['err']) end\n"    \
    "  return nil\n"                                                           \
    "end\n"                                                                    \
    "local function take(k, me, ms)\n"                                         \
    "  if redis.call('EXISTS', k) == 1 then return false end\n"                \
    "  local counter = name('redisson_lock_token', k)\n"                       \
    "  if ARGV[1] == '1' or redis.call('EXISTS', counter) == 1 then\n"         \
    "    redis.call('INCR', counter)\n"                                        \
    "  end\n"                                                                  \
    "  redis.call('HINCRBY', k, me, 1)\n"                                      \
    "  redis.call('PEXPIRE', k, ms)\n"                                         \
    "  return true\n"                                                          \
    "end\n"                                                                    \
    "local function drop(k)\n"                                                 \
    "  redis.call('DEL', k)\n"                                                 \
    "  redis.pcall('PUBLISH', name('redisson_lock__channel', k), '0')\n"       \
    "end\n"                                                                    \
    "local function close(k, me, ms)\n"                                        \
    "  redis.call('DEL', k)\n"                                                 \
    "  redis.call('HINCRBY', k, string.sub(me, 1, -2) .. '0', 1)\n"            \
    "  redis.call('PEXPIRE', k, ms)\n"                                         \
    "end\n"                                                                    \
    "local function owner(k)\n"                                                \
    "  if redis.call('TYPE', k)['ok'] ~= 'hash' then return nil end\n"         \
    "  if redis.call('HLEN', k) ~= 1 then return nil end\n"                    \
    "  local who = redis.call('HKEYS', k)[1]\n"                                \
    "  return string.match(who, '^%x+%-%x+%-%x+%-%x+%-%x+:%d+$')\n"            \
    "end\n"                                                                    \
    "local function token(k)\n"                                                \
    "  if ARGV[1] ~= '1' then return 0 end\n"                                  \
    "  local last = redis.call('GET', name('redisson_lock_token', k))\n"       \
    "  return tonumber(last or 0) or 0\n"                                      \
    "end\n"

static redis_script redisson_act = {.name = "redisson",
                                    .text = REDISSON FORMAT_ACT};
static redis_script redisson_rows = {.name = "redisson_rows",
                                     .text = REDISSON FORMAT_ROWS};
static redis_script redisson_evict = {.name = "redisson_evict",
                                      .text = REDISSON FORMAT_EVICT};

static size_t redisson_channel(const format_data *data, const char *key,
                               size_t len, char *ret)
{
    bool tagged = memchr(key, '{', len) != NULL;
    char *at = ret + sizeof CHANNEL - 1;

    (void)data;
    memcpy(ret, CHANNEL, sizeof CHANNEL - 1);
    if (!tagged)
        *at++ = '{';
    memcpy(at, key, len);
    at += len;
    if (!tagged)
        *at++ = '}';
    return (size_t)(at - ret);
}

/* {a} is the channel of the lock a and of the lock {a}. */
static size_t redisson_told(const format_data *data, const char *channel,
                            size_t channel_len, const char *text, size_t len,
                            const char *ret_keys[2], size_t ret_lens[2])
{
    const char *rest = channel + sizeof CHANNEL - 1;
    size_t rest_len;

    (void)data;
    (void)text;
    (void)len;
    if (channel_len < sizeof CHANNEL)
        return 0;
    rest_len = channel_len - (sizeof CHANNEL - 1);
    ret_keys[0] = rest;
    ret_lens[0] = rest_len;
    if (rest_len <= 2 || rest[0] != '{' || rest[rest_len - 1] != '}')
        return 1;
    ret_keys[1] = rest + 1;
    ret_lens[1] = rest_len - 2;
    return 2;
}

static const format_kind redisson_kind = {.act = &redisson_act,
                                          .rows = &redisson_rows,
                                          .evict = &redisson_evict,
                                          .dashes = true,
                                          .tail = ":1",
                                          .kept_before = "",
                                          .kept_tail = ":0",
                                          .look_most = HF_MS(5000),
                                          .patient = true,
                                          .channel = redisson_channel,
                                          .told = redisson_told};

static int redisson_open(hf_store *store, const hf_url *url, hf_error *err)
{
    bool fenced = false;
    int code = hfd_url_flag(url, "fenced", &fenced, err);

    if (code == 0)
        code = format_open(store, url, &redisson_kind, err);
    if (code)
        return code;
    format_of(store)->fenced = fenced;
    memcpy(format_of(store)->extra, fenced ? "1" : "0", 2);
    if (fenced)
        store->more_caps |= HF_CAP_TOKEN;
    return 0;
}

static const char *const redisson_options[] = {"prefix", "fenced", NULL};

const redis_format redis_redisson = {.name = "redisson",
                                     .caps = FORMAT_CAPS,
                                     .options = redisson_options,
                                     .open = redisson_open,
                                     .close = format_close,
                                     .start = format_start,
                                     .message = format_message};
