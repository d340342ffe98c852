-- evict.lua - an operator takes a lock away from who holds it.
--
-- KEYS: n, g:KEY
-- ARGV: 1 key, 2 token ("0": any), 3 "1": at once, 4 lease of the breaker,
--       5 the epoch
-- Answers how many.  Unless at once the entry stays, broken, until its owner
-- has left or must have heard: news first, and every renewal brings them.
local call, EPOCH = redis.call, ARGV[5]
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local P, key, token = KEYS[1]:sub(1, -2), ARGV[1], tonumber(ARGV[2])
--#include quarantine.lua
--#include lib.lua
count_granted(key, true)
local fields = call('HGETALL', KEYS[2])
local count = 0
for i = 1, #fields, 2 do
    local field = fields[i]
    local rid, e = field:sub(-32), field ~= 'w' and parse(fields[i + 1])
    if e and (token == 0 or token >= e.token and token < e.token + e.run) then
        count = count + 1
        if e.flag == 'c' then
            call('HDEL', KEYS[2], field)
        elseif ARGV[3] == '1' then
            call('HDEL', KEYS[2], field)
            forget(e.sid, rid, FORCED)
        elseif e.flag ~= 'b' then
            local lease = alive(e.sid) and
                          call('HGET', P .. 'e:' .. e.sid, '@ttl') or ARGV[4]
            e.flag, e.till = 'b', now + lease
            if e.ends > e.till then
                e.till = e.ends
            end
            call('HSET', KEYS[2], 'b' .. rid, record_of(e))
            call('HDEL', KEYS[2], field)
            tell_news(e.sid, rid, FORCED)
        end
    end
end
walk(key, nil, true)
return count
