-- keep.lua - extend a session while its slot is being moved.
--
-- KEYS: s
-- ARGV: 1 sid, 2 lease
-- Answers {1, rest, now}; {0}: it is over; {2}: the sessions are not here.
--
-- One key, so it lies on one node, and whoever has it decides: the one that
-- gives the slot away as long as it has the key, then the other.  It creates
-- nothing and ends nothing; l:SID is left alone and may run out early, which
-- sends a join the long way.
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
if call('EXISTS', KEYS[1]) == 0 then
    return {2}
end
local old = call('ZSCORE', KEYS[1], ARGV[1])
if not old or tonumber(old) <= now then
    return {0}
end
local ends = now + ARGV[2]
if ends < tonumber(old) then
    ends = tonumber(old)
end
call('ZADD', KEYS[1], 'XX', ends, ARGV[1])
return {1, ends - now, now}
