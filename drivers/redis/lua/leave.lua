-- leave.lua - remove an entry and hand over to whoever's turn it is.
--
-- KEYS: 1 e:SID, 2 g:KEY
-- ARGV: 1 rid, 2 num: a number for who follows, as in join.lua; only where
--       wanted: 3 the epoch, 4 keep it closed so long, 5 "1": leave a tomb
-- Answers 1: was granted; 2: waited; {3, reason}: was not there.
--
-- The common case: it is the only one, and nobody waits.
local call = redis.call
local was = 0
if (#ARGV == 2 or ARGV[4] == '0' and ARGV[5] == '0') and
   call('HDEL', KEYS[2], ARGV[1]) == 1 then
    was = 1
    call('HDEL', KEYS[1], ARGV[1])
    local others = call('HLEN', KEYS[2])
    if others == 0 then
        return 1
    end
    -- The second most common one: nobody else holds it ("w" is left), and who
    -- stands first wants it alone, lives and listens.  Anything else, also
    -- finding that he does not, is for the long way below.
    if others == 1 and #ARGV == 2 then
        local P, key = KEYS[1]:sub(1, -35), KEYS[2]:sub(#KEYS[1] - 31)
        local W, D = P .. 'w:' .. key, P .. 'd:' .. key
        local waiting = call('ZRANGE', W, 0, 1)
        local rid, more = waiting[1], waiting[2]
        local record = rid and call('HGET', D, rid)
        local head, run, value
        if record then
            head, run, value = record:match(
                '^(%x+ 0 %d+ (%d+) %d+ %d+ 0 %d+) %d+ a 0 (.*)$')
        end
        local sid = head and head:sub(1, 32)
        local left = sid and call('PTTL', P .. 'l:' .. sid) or 0
        if left > 1000 then
            local num, last = ARGV[2], ARGV[2]
            if run ~= '1' then
                last = string.format('%.0f', num + run - 1)
            end
            local old = tonumber(call('GETSET', P .. 'c', last) or 0)
            if old >= tonumber(num) then
                num = string.format('%.0f', old + 1)
                call('SET', P .. 'c', string.format('%.0f', old + run))
            end
            local granted = head .. ' ' .. num .. ' a 0 ' .. value
            if more then
                call('HSET', KEYS[2], rid, granted, 'w', string.format(
                     '%.0f 0 0', ARGV[2] + (left - 1000) * 1000))
            else
                call('HSET', KEYS[2], rid, granted)
            end
            call('ZREM', W, rid)
            call('HDEL', D, rid)
            if call('PUBLISH', P .. 'c:' .. sid,
                    'G ' .. rid .. ' ' .. num .. ' ' .. run) > 0 then
                if not more then
                    call('HDEL', KEYS[2], 'w')
                end
                return 1
            end
            call('HDEL', KEYS[2], rid)
            call('HSET', D, rid, record)
            call('ZADD', W, head:match('(%d+)$'), rid)
        end
    end
end

local P, sid = KEYS[1]:sub(1, -35), KEYS[1]:sub(-32)
local rid, key, EPOCH = ARGV[1], KEYS[2]:sub(#P + 3), ARGV[3] or ''
local keep, tomb = tonumber(ARGV[4] or 0), ARGV[5] == '1'
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
--#include quarantine.lua
--#include lib.lua
raise(ARGV[2] - 1)
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
