-- detach.lua - end a session: its entries leave and wake whom they must.
--
-- KEYS: n
-- ARGV: 1 sid, 2 the epoch
-- Answers 1: nothing of it is left (but for fixed leases that run); 2: there
-- is more, ask again.
local call, EPOCH = redis.call, ARGV[2]
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local P, sid = KEYS[1]:sub(1, -2), ARGV[1]
--#include quarantine.lua
--#include lib.lua
if call('ZREM', P .. 's', sid) == 1 then
    call('DEL', P .. 'l:' .. sid)
    call('ZADD', P .. 'x', now, sid)
end
lives[sid] = false
return clear_session(sid, 256) and 1 or 2
