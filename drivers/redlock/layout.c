/* layout.c - the scripts that run on each server, and what they answer.
 *
 * A vote is one script: SET NX PX on the key, and beside it a number that is
 * larger than all that this server drew for this key before.  The number lies
 * in a key of its own, which ends an hour after the server's clock, and not
 * before that has passed the number: what is drawn without it is the clock, in
 * microseconds.  So whenever it was written with its end, that end was an hour
 * after both; between two such writes it grows by a second of numbers at most.
 * Servers that were level draw the same number again, so that nobody needs to
 * be raised.  From one number to the next there is room for the tokens of those
 * to whom the holder passes the lock in its own process: what is drawn after a
 * number is above them all.
 *
 * Two of us here: the script is atomic.  Asked again, a vote finds itself as
 * the owner and draws once more, which is never less.  A record of another
 * owner is never touched.  A number past 2^53 would be no exact one in Lua:
 * such a server refuses to vote.
 *
 * Reply lost, late or doubled: a script that comes again finds what is mine, a
 * raise that comes late finds another owner and does nothing. */
#include "layout.h"

#include <string.h>

#define NUMBERS "holdfast:token:"
#define TEXT_OF_(number) #number
#define TEXT_OF(number) TEXT_OF_(number)
#define STEP TEXT_OF(LAYOUT_RUN)
#define TURN "1048576" /* microseconds of numbers, of 16 each */

#define REDLOCK                                                                \
    FORMAT_STRINGS                                                             \
    "local function drop(k)\n"                                                 \
    "  redis.call('DEL', k)\n"                                                 \
    "  redis.pcall('PUBLISH', '" FORMAT_WAKE "' .. k, '')\n"                   \
    "end\n"                                                                    \
    "local function token(k)\n"                                                \
    "  local n = redis.pcall('GET', '" NUMBERS "' .. k)\n"                     \
    "  return type(n) == 'string' and tonumber(n) or 0\n"                      \
    "end\n"

/* The common way of a lone vote and a lone leave that are done, without making
 * all those functions first and without a list for the answer, which costs the
 * server more than a number: of a vote its number, or without numbers the time.
 * What it does not settle goes the long way as if nothing had been there: a
 * number that is missing, spoilt, or about to pass a second since it was last
 * compared with the clock, which the long way does. */
#define REDLOCK_SHORT                                                          \
    "local k = KEYS[1]\n"                                                      \
    "if #KEYS == 2 and ARGV[2] == 'D' and ARGV[4] == '0' and\n"                \
    "   ARGV[5] == '0' and redis.pcall('GET', k) == ARGV[3] then\n"            \
    "  redis.call('DEL', k)\n"                                                 \
    "  redis.pcall('PUBLISH', '" FORMAT_WAKE "' .. k, '')\n"                   \
    "  return 1\n"                                                             \
    "end\n"                                                                    \
    "if #KEYS == 2 and ARGV[2] == 'J' and\n"                                   \
    "   redis.call('EXISTS', KEYS[2]) == 0 and\n"                              \
    "   redis.call('SET', k, ARGV[3], 'NX', 'PX', ARGV[4]) then\n"             \
    "  if ARGV[1] ~= '1' then\n"                                               \
    "    local t = redis.call('TIME')\n"                                       \
    "    return t[1] * 1000000 + t[2]\n"                                       \
    "  end\n"                                                                  \
    "  local c = '" NUMBERS "' .. k\n"                                         \
    "  local n = redis.pcall('INCRBY', c, " STEP ")\n"                         \
    "  if type(n) == 'number' and n > " STEP " and\n"                          \
    "     n < 9007199254740000 and n % " TURN " >= " STEP " then\n"            \
    "    return n\n"                                                           \
    "  end\n"                                                                  \
    "  redis.call('DEL', k)\n"                                                 \
    "  if n == " STEP " then redis.call('DEL', c) end\n"                       \
    "end\n"

#define REDLOCK_ACT                                                            \
    "local t = redis.call('TIME')\n"                                           \
    "local now = t[1] * 1000000 + t[2]\n"                                      \
    "local function keep(k, n)\n"                                              \
    "  local life = math.max(n - now, 0) / 1000 + 3600000\n"                   \
    "  redis.call('SET', '" NUMBERS "' .. k, string.format('%.0f', n),\n"      \
    "             'PX', string.format('%.0f', life))\n"                        \
    "  return n\n"                                                             \
    "end\n"                                                                    \
    "local out = {now}\n"                                                      \
    "for i = 1, #KEYS, 2 do\n"                                                 \
    "  local k, tomb, a = KEYS[i], KEYS[i + 1], i * 2\n"                       \
    "  local verb, me, ms, rest = ARGV[a], ARGV[a + 1], ARGV[a + 2],\n"        \
    "                             ARGV[a + 3]\n"                               \
    "  local code, left, number = 0, -2, 0\n"                                  \
    "  if verb == 'J' and ARGV[1] == '1' then\n"                               \
    "    number = token(k)\n"                                                  \
    "    number = number > 0 and number + " STEP " or now\n"                   \
    "    if number > 9007199254740000 then\n"                                  \
    "      return redis.error_reply('ERR its clock or a number of it is ' "    \
    "..\n"                                                                     \
    "                               'past the year 2255')\n"                   \
    "    end\n"                                                                \
    "  end\n"                                                                  \
    "  if verb == 'J' and redis.call('EXISTS', tomb) == 1 then\n"              \
    "    code = 2\n"                                                           \
    "  elseif verb == 'J' and take(k, me, ms) then\n"                          \
    "    code, left = 1, tonumber(ms)\n"                                       \
    "  else\n"                                                                 \
    "    local mine = holds(k, me)\n"                                          \
    "    if verb == 'D' and rest ~= '0' then\n"                                \
    "      redis.call('SET', tomb, '1', 'PX', rest)\n"                         \
    "    end\n"                                                                \
    "    if mine == nil then\n"                                                \
    "      code = 3\n"                                                         \
    "    elseif not mine then\n"                                               \
    "      left = redis.call('PTTL', k)\n"                                     \
    "    elseif verb == 'D' then\n"                                            \
    "      code = 1\n"                                                         \
    "      if ms == '0' then drop(k) else close(k, me, ms) end\n"              \
    "    elseif verb == 'U' then\n"                                            \
    "      code = 1\n"                                                         \
    "      redis.call('DEL', k)\n"                                             \
    "    else\n"                                                               \
    "      code = 1\n"                                                         \
    "      if verb == 'X' then redis.call('PEXPIRE', k, ms) end\n"             \
    "      if verb == 'W' then\n"                                              \
    "        number = token(k)\n"                                              \
    "        if number < tonumber(ms) then\n"                                  \
    "          number = keep(k, tonumber(ms))\n"                               \
    "        end\n"                                                            \
    "      end\n"                                                              \
    "      left = redis.call('PTTL', k)\n"                                     \
    "    end\n"                                                                \
    "  end\n"                                                                  \
    "  if verb == 'J' and code == 1 and number > 0 then keep(k, number) end\n" \
    "  local n = #out\n"                                                       \
    "  out[n + 1], out[n + 2], out[n + 3] = code, left, number\n"              \
    "end\n"                                                                    \
    "return out\n"

static redis_script redlock_act = {.name = "redlock",
                                   .text = REDLOCK_SHORT REDLOCK REDLOCK_ACT};
static redis_script redlock_rows = {.name = "redlock_rows",
                                    .text = REDLOCK FORMAT_ROWS};
static redis_script redlock_evict = {
    .name = "redlock_evict", .text = REDLOCK FORMAT_EVICT_RUN(STEP " - 1")};

/* The core adds a tenth of a second: 200 ms, more or less by 100. */
const format_kind redlock_kind = {.act = &redlock_act,
                                  .rows = &redlock_rows,
                                  .evict = &redlock_evict,
                                  .run = LAYOUT_RUN,
                                  .tail = "",
                                  .kept_before = "kept:",
                                  .kept_tail = "",
                                  .look_least = HF_MS(1),
                                  .look_most = HF_MS(200),
                                  .channel = format_wake_channel};

const redis_script *layout_script(const char *bytes, size_t len,
                                  size_t *ret_rest)
{
    static const char before[] = "$7\r\nEVALSHA\r\n$40\r\n";
    static redis_script *const scripts[] = {&redlock_act, &redlock_rows,
                                            &redlock_evict};
    const char *at = memchr(bytes, '\n', len);
    size_t left;

    if (!at)
        return NULL;
    at++;
    left = len - (size_t)(at - bytes);
    if (left < sizeof before - 1 + 42 ||
        memcmp(at, before, sizeof before - 1) != 0)
        return NULL;
    at += sizeof before - 1;
    *ret_rest = (size_t)(at - bytes) + 42;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        if (memcmp(scripts[i]->sha, at, 40) == 0)
            return scripts[i];
    }
    return NULL;
}
