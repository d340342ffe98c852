-- recheck.lua - where do my entries stand?  Grants what is due on the way.
--
-- KEYS: n
-- ARGV: 1 sid, 2 the epoch, then rid and key by turns
-- Answers {rest, now, place, place, ...}; {0}: the session is over.
local call, EPOCH = redis.call, ARGV[2]
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local P, sid = KEYS[1]:sub(1, -2), ARGV[1]
--#include quarantine.lua
--#include lib.lua
local rest = alive(sid)
if not rest then
    return {0}
end
local reply = {rest - now, now}
for i = 3, #ARGV, 2 do
    local rid, key = ARGV[i], ARGV[i + 1]
    local place = answer(sid, key, rid)
    if place[1] == 2 and place[6] <= 1 then
        walk(key, rid)
        place = answer(sid, key, rid)
    end
    reply[#reply + 1] = place
end
return reply
