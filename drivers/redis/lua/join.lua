-- join.lua - append an entry, or take a free key at once.
--
-- KEYS: 1 l:SID, 2 e:SID, 3 g:KEY, 4 c
-- ARGV: 1 rid, 2 num, 3 the last of its run, 4 its record, as if it were
--       granted with that num; only where wanted: 5 "t": only if granted, 6 the
--       epoch (fixed leases: it is there and perhaps '', for the long way)
-- Answers the token if it was granted at once (1: it is num), else {1|2|3, ...,
-- see answer() in lib.lua}, perhaps with the session's rest and now, or {4}:
-- other kind; {5, look}: busy; {6, until}: quarantine; {0}: session is over.
--
-- The common case is a key that is free.  It costs five commands, asks for no
-- time and makes no string: num is what the client believes to be the server's
-- clock, and is used if it is above all that were drawn before.  Whoever finds
-- l:SID finds the session alive; the client takes a grant only while its lease
-- is good by its own clock, so a session that ends at this moment harms nobody.
local call = redis.call
local plain = #ARGV < 6 and call('EXISTS', KEYS[1]) == 1
local fields = plain and call('HLEN', KEYS[3])
if fields == 0 and call('HSETNX', KEYS[2], ARGV[1], KEYS[3]) == 1 then
    local old = call('GETSET', KEYS[4], ARGV[3])
    if not old or tonumber(old) < tonumber(ARGV[2]) then
        call('HSET', KEYS[3], ARGV[1], ARGV[4])
        return 1
    end
    local num = tonumber(old) + 1
    call('SET', KEYS[4], num + ARGV[3] - ARGV[2])
    call('HSET', KEYS[3], ARGV[1],
         (ARGV[4]:gsub(' ' .. ARGV[2], string.format(' %.0f', num), 3)))
    return num
end

-- The second most common one: one holds it alone, or several wait already, and
-- nobody's end is near.  The holder's end is at least a second later than T.
if plain and ARGV[4]:sub(34, 34) == '0' then
    local T, kind, summary
    local one = fields == 1 and call('HGETALL', KEYS[3])
    if not one or one[1] == 'w' then
        summary = one and one[2] or call('HGET', KEYS[3], 'w')
        T, kind = (summary or ''):match('^(%d+) (%d)')
    else
        local sid, mode, ends = one[2]:match(
            '^(%x+) (%d) %d+ %d+ %d+ %d+ (%d+)')
        if ends == '0' and #one[1] == 32 then
            local left = call('PTTL', KEYS[1]:sub(1, -33) .. sid)
            if left > 1000 then
                T = string.format('%.0f', ARGV[2] + (left - 1000) * 1000)
                kind = mode
            end
        end
    end
    if T and kind ~= '2' and tonumber(T) > tonumber(ARGV[2]) then
        -- Asked again, it may well be the holder itself: the long way.
        if ARGV[5] == 't' then
            if call('HEXISTS', KEYS[2], ARGV[1]) == 0 then
                return {5, T - ARGV[2]}
            end
        elseif call('HSETNX', KEYS[2], ARGV[1], KEYS[3]) == 1 then
            local P, key = KEYS[4]:sub(1, -2), KEYS[3]:sub(#KEYS[4] + 2)
            local num, record = ARGV[2], ARGV[4]
            local old = tonumber(call('GETSET', KEYS[4], num) or 0)
            if old >= tonumber(num) then
                num = string.format('%.0f', old + 1)
                record = record:gsub(' ' .. ARGV[2], ' ' .. num, 3)
                call('SET', KEYS[4], num)
            end
            call('HSET', P .. 'd:' .. key, ARGV[1], record)
            call('ZADD', P .. 'w:' .. key, num, ARGV[1])
            if not summary then
                call('HSET', KEYS[3], 'w', T .. ' ' .. kind .. ' 0')
            end
            return {2, 0, 0, 0, tonumber(num), T - ARGV[2]}
        end
    end
end

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local P, rid, EPOCH = KEYS[4]:sub(1, -2), ARGV[1], ARGV[6] or ''
local key = KEYS[3]:sub(#P + 3)
--#include quarantine.lua
--#include lib.lua
raise(ARGV[2] - 1)
local e = parse(ARGV[4])
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
-- Somebody is due and did not listen: that stays written until it is granted.
local summary = call('HGET', G, 'w')
local due = summary and summary:sub(1, 2) == '0 '
if summary and count == 0 then
    mode, places = summary:match('^%d+ (%d) (%d+)$')
    places = tonumber(places)
end
if mode and ((mode == '2') ~= (e.mode == '2') or
             mode == '2' and places ~= e.places) then
    return {4}
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
    call('HSET', KEYS[2], rid, KEYS[3])
    call('HSET', G, rid, record_of(e))
    summarize(key, count + 1, e.mode, e.places,
              T > 0 and T < ending and T or ending)
    return {1, e.token, e.run, e.lease, e.num, 0, rest, now}
end
if ARGV[5] == 't' then
    if ALONE then
        return redis.error_reply('NOREPLICAS none was heard in time')
    elseif Q > 0 then
        return {6, Q - now}
    end
    return {5, T > now and T - now or 1}
end
e.num = draw(1)
call('HSET', KEYS[2], rid, KEYS[3])
call('HSET', D, rid, record_of(e))
call('ZADD', W, e.num, rid)
summarize(key, count, mode, places, due and 0 or T)
local place = answer(sid, key, rid)
place[7], place[8] = rest, now
return place
