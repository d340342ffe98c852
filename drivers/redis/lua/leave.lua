-- leave.lua - remove an entry and hand over to whoever's turn it is.
--
-- KEYS: 1 e:SID, 2 g:KEY
-- ARGV: 1 rid, 2 key, 3 the epoch; only where wanted: 4 keep it closed so long,
--       5 "1": leave a tomb
-- Answers 1: was granted; 2: waited; {3, reason}: was not there.
--
-- The common case: it is the only one, and nobody waits.
local call = redis.call
local was = 0
if #ARGV == 3 and call('HDEL', KEYS[2], ARGV[1]) == 1 then
    was = 1
    call('HDEL', KEYS[1], ARGV[1])
    if call('HLEN', KEYS[2]) == 0 then
        return 1
    end
end

local P, sid = KEYS[1]:sub(1, -35), KEYS[1]:sub(-32)
local rid, key, EPOCH = ARGV[1], ARGV[2], ARGV[3]
local keep, tomb = tonumber(ARGV[4] or 0), ARGV[5] == '1'
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
--#include quarantine.lua
--#include lib.lua
if was == 1 then
    walk(key)
    return 1
end
local G, W, D = key_names(key)
local E = KEYS[1]
local field, record = granted_as(G, rid)
local gone = not record and not call('ZSCORE', W, rid) and
             answer(sid, key, rid)
-- The owner knows now: no more news of it.
if call('HDEL', E, '!' .. rid) == 1 then
    call('HINCRBY', E, '@news', -1)
end
if tomb and alive(sid) then
    call('HSET', E, rid, '')
else
    call('HDEL', E, rid)
end
if gone then
    return gone
end
if record then
    local e = parse(record)
    call('HDEL', G, field)
    if keep > 0 and e.flag == 'a' then
        e.flag, e.ends = 'c', now + keep
        call('HSET', G, 'c' .. rid, record_of(e))
    end
    walk(key, nil, true)
    return 1
end
call('ZREM', W, rid)
call('HDEL', D, rid)
walk(key)
return 2
