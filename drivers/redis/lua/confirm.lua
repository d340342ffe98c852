-- confirm.lua - start, or start again, the fixed lease of a granted entry.
--
-- KEYS: n, g:KEY
-- ARGV: 1 sid, 2 rid, 3 key, 4 lease, 5 the epoch
-- Answers as answer() in lib.lua, and now.
local call, EPOCH = redis.call, ARGV[5]
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local P, sid, rid, key = KEYS[1]:sub(1, -2), ARGV[1], ARGV[2], ARGV[3]
--#include quarantine.lua
if ALONE then
    return redis.error_reply('NOREPLICAS none was heard in time')
end
--#include lib.lua
local record = call('HGET', KEYS[2], rid)
local e = record and parse(record)
if e and e.flag == 'a' then
    local ends = end_of(e)
    if ends and e.lease > 0 then
        e.ends = now + ARGV[4]
        call('HSET', KEYS[2], rid, record_of(e))
        local count, mode, places, T = count_granted(key, true)
        summarize(key, count, mode, places, T)
    elseif not ends then
        walk(key, nil, true)
    end
end
local place = answer(sid, key, rid)
place[#place + 1] = now
return place
