-- renew.lua - extend a session that is alive; it never creates one.
--
-- KEYS: n, e:SID
-- ARGV: 1 sid, 2 lease, 3 the epoch, 4 the largest token that was granted there
-- Answers {1, rest, now, rid, reason, rid, reason, ...}: news of entries that
-- ended without their owner; "token", old: numbers had gone back; "until", when:
-- of the quarantine, where it is strict; {0}: it is over.
local call, EPOCH = redis.call, ARGV[3]
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local P, sid = KEYS[1]:sub(1, -2), ARGV[1]
--#include quarantine.lua
if ALONE then
    return redis.error_reply('NOREPLICAS none was heard in time')
end
--#include lib.lua
local old = alive(sid)
if not old then
    sweep()
    return {0}
end
local ends = now + ARGV[2]
if ends < old then
    ends = old
end
live_until(sid, ends)
sweep()
local reply = {1, ends - now, now}
local behind = raise(tonumber(ARGV[4]))
if behind then
    reply[4], reply[5] = 'token', behind
end
if UNTIL > 0 then
    reply[#reply + 1], reply[#reply + 2] = 'until', UNTIL
end
local news = call('HGET', KEYS[2], '@news')
if news and news ~= '0' then
    local fields = call('HGETALL', KEYS[2])
    for i = 1, #fields, 2 do
        if fields[i]:sub(1, 1) == '!' then
            reply[#reply + 1] = fields[i]:sub(2)
            reply[#reply + 1] = tonumber(fields[i + 1])
        end
    end
end
return reply
