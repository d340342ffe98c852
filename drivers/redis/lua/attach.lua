-- attach.lua - begin a session; asked again: the same, and no longer lease.
--
-- KEYS: n, e:SID
-- ARGV: 1 sid, 2 lease, 3 pid, 4 host, 5 name, 6 the epoch
-- Answers {1, rest, now, until}, see renew.lua; {0}: it is over; {2, max, lag}: the lease is longer
-- than this namespace allows, or one of the two is another's; {3, strict here}: some are strict and others not.
local call, EPOCH = redis.call, ARGV[6]
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local P, sid = KEYS[1]:sub(1, -2), ARGV[1]
local known, mine = call('HGET', KEYS[1], 'max'), EPOCH:match('^%d+ %d+')
local max, lag = (known or mine or ''):match('^(%d+) ?(%d*)$')
if known and not mine then
    return {3, 1}
elseif mine and (known and known ~= mine or
                 tonumber(ARGV[2]) > tonumber(max)) then
    return {2, tonumber(max), tonumber(lag) or 0}
elseif mine and not known then
    call('HSET', KEYS[1], 'max', mine)
end
--#include quarantine.lua
if ALONE then
    return redis.error_reply('NOREPLICAS none was heard in time')
end
--#include lib.lua
if call('ZSCORE', P .. 'x', sid) then
    return {0}
end
local old = call('ZSCORE', P .. 's', sid)
if old and not alive(sid) then
    return {0}
end
local ends = now + ARGV[2]
if old and tonumber(old) > ends then
    ends = tonumber(old)
end
call('HSET', KEYS[2], '@ttl', ARGV[2], '@pid', ARGV[3], '@host', ARGV[4],
     '@name', ARGV[5])
live_until(sid, ends)
sweep()
return {1, ends - now, now, UNTIL}
