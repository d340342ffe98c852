-- sessions.lua - where a listing begins: sessions, and keys with entries that
-- may have outlived theirs.
--
-- KEYS: n
-- Answers {now, {sid, ...}, {key, ...}}.
local call, P = redis.call, KEYS[1]:sub(1, -2)
local time = call('TIME')
return {time[1] * 1000000 + time[2], call('ZRANGE', P .. 's', 0, -1),
        call('ZRANGE', P .. 't', 0, -1)}
