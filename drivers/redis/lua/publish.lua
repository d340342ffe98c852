-- publish.lua - set the value of an entry, granted or waiting.
--
-- KEYS: n, g:KEY
-- ARGV: 1 sid, 2 rid, 3 key, 4 value
-- Answers as answer() in lib.lua.
local call, Q = redis.call, 0
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local P, sid, rid, key = KEYS[1]:sub(1, -2), ARGV[1], ARGV[2], ARGV[3]
--#include lib.lua
for _, name in ipairs({KEYS[2], P .. 'd:' .. key}) do
    local record = call('HGET', name, rid)
    if record then
        local e = parse(record)
        if e.ends > 0 and e.ends <= now or e.ends == 0 and not alive(e.sid) then
            walk(key, nil, true)
        else
            e.value = ARGV[4]
            call('HSET', name, rid, record_of(e))
        end
    end
end
return answer(sid, key, rid)
