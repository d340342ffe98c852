-- join.lua - append an entry, or take a free key at once.
--
-- KEYS: 1 l:SID, 2 e:SID, 3 g:KEY, 4 c
-- ARGV: 1 rid, 2 key, 3 num, 4 the last of its run, 5 its record, as if it were
--       granted with that num, 6 "t": only if granted, 7 the epoch, "-": take
--       the long way (fixed leases)
-- Answers the token if it was granted at once (1: it is num), else {1|2|3, ...,
-- see answer() in lib.lua, session's rest, now}, or {4, rest, now}: other kind;
-- {5, rest, now, look}: busy; {6, until}: quarantine; {0}: session is over.
--
-- The common case is a key that is free.  It costs five commands, asks for no
-- time and makes no string: num is what the client believes to be the server's
-- clock, and is used if it is above all that were drawn before.  Whoever finds
-- l:SID finds the session alive; the client takes a grant only while its lease
-- is good by its own clock, so a session that ends at this moment harms nobody.
local call = redis.call
if ARGV[7] == '' and call('EXISTS', KEYS[1]) == 1 and
   call('HLEN', KEYS[3]) == 0 and
   call('HSETNX', KEYS[2], ARGV[1], ARGV[2]) == 1 then
    local old = call('GETSET', KEYS[4], ARGV[4])
    if not old or tonumber(old) < tonumber(ARGV[3]) then
        call('HSET', KEYS[3], ARGV[1], ARGV[5])
        return 1
    end
    local num = tonumber(old) + 1
    call('SET', KEYS[4], num + ARGV[4] - ARGV[3])
    call('HSET', KEYS[3], ARGV[1],
         (ARGV[5]:gsub(' ' .. ARGV[3], string.format(' %.0f', num), 3)))
    return num
end

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local P, rid, key, EPOCH = KEYS[4]:sub(1, -2), ARGV[1], ARGV[2], ARGV[7]
--#include quarantine.lua
--#include lib.lua
local e = parse(ARGV[5])
local sid = e.sid
local rest = alive(sid)
if not rest then
    return {0}
end
rest = rest - now
local G, W, D = key_names(key)
if call('HEXISTS', KEYS[2], rid) == 1 then
    local place = answer(sid, key, rid)
    return {place[1], place[2], place[3] or 0, place[4] or 0, place[5] or 0,
            place[6] or 0, rest, now}
end

local count, mode, places, T, dropped = count_granted(key)
if T == 0 or dropped then
    walk(key)
    count, mode, places, T = count_granted(key)
end
local summary = call('HGET', G, 'w')
if summary and count == 0 then
    mode, places = summary:match('^%d+ (%d) (%d+)$')
    places = tonumber(places)
end
if mode and ((mode == '2') ~= (e.mode == '2') or
             mode == '2' and places ~= e.places) then
    return {4, rest, now}
end
e.born, e.num, e.token = now, 0, 0
if call('EXISTS', W) == 0 and fits(e, count, mode) and Q == 0 then
    e.num = draw(e.run)
    e.token = e.num
    local ending = rest + now
    if e.lease > 0 then
        e.ends = now + e.lease
        ending = e.ends
        local at = call('ZSCORE', P .. 't', key)
        if not at or tonumber(at) > ending then
            call('ZADD', P .. 't', ending, key)
        end
    end
    call('HSET', KEYS[2], rid, key)
    call('HSET', G, rid, record_of(e))
    summarize(key, count + 1, e.mode, e.places,
              T > 0 and T < ending and T or ending)
    return {1, e.token, e.run, e.lease, e.num, 0, rest, now}
end
if ARGV[6] == 't' then
    if Q > 0 then
        return {6, Q - now}
    end
    return {5, rest, now, T > now and T - now or 1}
end
e.num = draw(1)
call('HSET', KEYS[2], rid, key)
call('HSET', D, rid, record_of(e))
call('ZADD', W, e.num, rid)
summarize(key, count, mode, places, T)
local place = answer(sid, key, rid)
place[7], place[8] = rest, now
return place
